"""`evaluate --clinical`: thresholds from validation images, calibration, decision curves, conformal sets.

Oracles: scikit-learn, statsmodels, fairlearn, and a script of ten lines for net benefit.
"""

import copy
import json

import numpy as np
import published_schema
import pytest
import session
from fairlearn.metrics import MetricFrame, demographic_parity_difference, equalized_odds_difference
from hospitals import prepared, write_hospitals
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve
from statsmodels.api import GLM, families
from statsmodels.nonparametric.smoothers_lowess import lowess
from statsmodels.stats.proportion import proportion_confint

import fedcli
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.metrics import probabilities
from fedcli.reporting import clinical as shown
from fedcli.reporting import page
from fedcli.scores import clinical_shape as clinical_parts
from fedcli.scores import predictions
from fedcli.scores.clinical import binary
from fedcli.scores.clinical import points as clinical
from fedcli.scores.scores import RunScores


@pytest.fixture(scope="module")
def answers():
    """Scores that are too extreme, and labels."""
    draw = np.random.default_rng(3)
    label = (draw.random(400) < 0.3).astype(int)
    odds = 1.5 * (draw.normal(size=400) + 1.6 * label - 1.4)
    return (1 / (1 + np.exp(-odds))).round(3), label  # rounded: ties


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    raw = write_hospitals(work / "raw", count=120)
    dataset = prepared(raw, work)
    source = fedcli.partition(dataset, by=["hospital"], val=0.3, work=work)
    return fedcli.evaluate(
        fedcli.train("fedavg", source, rounds=2, work=work), clinical=True, cost=5
    )


def test_gaps_have_a_p_and_stand_in_a_table(evaluated):
    scores = RunScores.read(evaluated.path)
    tests = [test for _, test in clinical_parts.select(scores.clinical, "gaps/*/*/*")]
    assert tests
    for test in tests:
        assert 0 < test["p"] <= 1
    result = set(scores.clinical["gaps"])
    assert result == set(scores.groups)
    result = [table.title for table in shown.tables([("x", scores)])]
    assert "Gaps between groups, last round: x" in result


def test_a_gap_that_a_small_group_decides_is_in_doubt(evaluated):
    scores = RunScores.read(evaluated.path)
    group = next(iter(scores.members("hospital").values()))
    assert group.small  # of 24 test images
    (table,) = [
        table_found
        for table_found in shown.tables([("x", scores)])
        if table_found.title == "Gaps between groups, last round: x"
    ]
    doubtful = [row[3].doubtful for row in table.rows if row[0].text == "hospital"]
    assert doubtful
    assert all(doubtful)
    assert "whatever its p" in table.legend


def test_facts_of_another_shape_name_the_file_and_what_is_wrong(evaluated, tmp_path):
    facts = json.loads(json.dumps(RunScores.read(evaluated.path).clinical))
    assert clinical_parts.check(facts, tmp_path) == facts
    for path, value in (
        ("classes/*/*/operating", [{"rule": "youden"}]),
        ("gaps/*/*/*/gap", "0.1"),
        ("conformal", None),
    ):
        parent, _, last = path.rpartition("/")
        changed = copy.deepcopy(facts)
        for _, part in clinical_parts.select(changed, parent):
            part[last] = value
        with pytest.raises(FedcliError, match=last):
            clinical_parts.check(changed, tmp_path / "scores.json")


def test_inspect_says_what_the_test_images_can_show(evaluated):
    partition = manifest.parent(evaluated.path, "partition")
    printed = session.run(f"fedcli inspect {partition} --power ill")
    assert "Expected intervals on test images: ill" in printed
    assert "Detectable gaps on test images: ill" in printed
    assert "--power 'illl' is no class" in session.run(f"fedcli inspect {partition} --power illl")
    run = manifest.parent(evaluated.path, "run")
    assert "--power is about test images, not about a run" in session.run(
        f"fedcli inspect {run} --power ill"
    )


def test_thresholds_agree_with_the_roc_curve_of_scikit_learn(answers):
    score, label = answers
    alarms, hits, thresholds = sk.roc_curve(label, score, drop_intermediate=False)
    expected = thresholds[np.argmax(hits - alarms)]
    assert binary.threshold_of("youden", None, score, label) == expected
    for value in (0.9, 0.95):
        chosen = binary.threshold_of("sensitivity", value, score, label)
        assert chosen == thresholds[np.flatnonzero(hits >= value)[0]]
        chosen = binary.threshold_of("specificity", value, score, label)
        assert chosen == thresholds[np.flatnonzero(1 - alarms >= value)[-1]]
        expected = pytest.approx(hits[1 - alarms >= value].max())
        assert binary.sensitivity_at(value, score, label) == expected
    costs = [
        5 * ((score < t) & (label == 1)).sum() + ((score >= t) & (label == 0)).sum()
        for t in thresholds[1:]
    ]
    expected = thresholds[1:][np.argmin(costs)]
    assert binary.threshold_of("cost", 5, score, label) == expected


def test_brier_average_precision_and_reliability_agree_with_scikit_learn(answers):
    score, label = answers
    expected = pytest.approx(sk.brier_score_loss(label, score))
    assert binary.brier(score, label) == expected
    expected = pytest.approx(sk.average_precision_score(label, score))
    assert binary.average_precision(score, label) == expected
    shares, means = calibration_curve(label, score, n_bins=binary.BINS)
    bins = np.array(binary.reliability(score, label))
    expected = pytest.approx(means, abs=1e-9)
    assert bins[:, 0] == expected
    assert bins[:, 1] == pytest.approx(shares)
    off, resolution, uncertainty = binary.brier_parts(score, label)
    means = {round(mean, 9): mean for mean, _, _ in binary.reliability(score, label)}
    binned = np.array([min(means.values(), key=lambda mean, s=s: abs(mean - s)) for s in score])
    expected = pytest.approx(label.mean() * (1 - label.mean()))
    assert uncertainty == expected
    result = abs(off - resolution + uncertainty - sk.brier_score_loss(label, binned))
    assert result < 5e-3


def test_brier_is_the_sum_of_its_parts_where_scores_are_the_bins_means():
    score = np.repeat([0.15, 0.45, 0.85], 20)
    label = np.tile([0, 1, 1, 0], 15)
    off, resolution, uncertainty = binary.brier_parts(score, label)
    expected = pytest.approx(binary.brier(score, label))
    assert off - resolution + uncertainty == expected


def test_slope_and_intercept_of_calibration_agree_with_statsmodels(answers):
    score, label = answers
    inside = score.clip(binary.SMALLEST, 1 - binary.SMALLEST)
    x = np.log(inside / (1 - inside))
    slope = (
        GLM(label, np.stack([np.ones_like(x), x], 1), family=families.Binomial())
        .fit(tol=1e-12)
        .params[1]
    )
    large = (
        GLM(label, np.ones((len(x), 1)), offset=x, family=families.Binomial())
        .fit(tol=1e-12)
        .params[0]
    )
    expected = pytest.approx((slope, large), abs=1e-6)
    assert binary.calibration_line(score, label) == expected
    assert slope < 1.2
    result = binary.calibration_line(np.array([0.1, 0.9]), np.array([0, 1]))
    assert result is None  # separated
    result = binary.calibration_line(np.full(9, 0.5), np.arange(9) % 2)
    assert result is None


def test_a_local_regression_is_that_of_statsmodels_and_of_numpy(answers):
    score, label = answers
    line = lowess(label, score, frac=binary.SPAN, it=0, return_sorted=False)
    outcome = binary.smoothed(score, label, score, degree=1)
    assert outcome == pytest.approx(line, abs=1e-5)
    point = float(score[0])
    near = int(binary.SPAN * len(score))
    distance = np.abs(score - point) / np.sort(np.abs(score - point))[near - 1]
    weight = np.sqrt((1 - np.minimum(distance, 1) ** 3) ** 3)  # polyfit squares them
    by_numpy = np.polyval(np.polyfit(score - point, label, 2, w=weight), 0.0)
    knots = np.array([point])
    result = binary.smoothed(score, label, knots)
    assert result == pytest.approx([by_numpy])


def test_the_calibration_index_is_the_mean_distance_to_the_smoothed_share(answers):
    score, label = answers
    index = binary.calibration_index(score, label)
    expected = pytest.approx(np.abs(score - binary.smoothed(score, label, score)).mean(), abs=5e-4)
    assert index == expected
    many = np.random.default_rng(4).uniform(size=20_000)
    came_true = (np.random.default_rng(5).uniform(size=20_000) < many**2).astype(int)
    expected = pytest.approx(1 / 2 - 1 / 3, abs=0.01)
    assert binary.calibration_index(many, came_true) == expected  # E(p - p^2)
    assert binary.calibration_index(many**2, came_true) < 0.01
    two = np.repeat([0.2, 0.7], [10, 30])  # as many as three quarters have one score
    expected = pytest.approx((10 * 0.3 + 30 * 0.2) / 40)
    outcome = binary.calibration_index(two, np.tile([0, 1], 20))
    assert outcome == expected
    result = binary.calibration_index(np.full(20, 0.3), np.arange(20) % 2)
    assert result == pytest.approx(0.2)
    outcome = binary.calibration_index(many[:9], came_true[:9])
    assert outcome is None


@pytest.mark.parametrize(("counted", "total"), [(0, 7), (3, 7), (7, 7), (95, 100)])
def test_intervals_of_shares_agree_with_statsmodels(counted, total):
    expected = pytest.approx(proportion_confint(counted, total, method="wilson"))
    assert binary.wilson(counted, total) == expected
    assert binary.wilson(0, 0) == (None, None)


def test_net_benefit_agrees_with_a_script_of_ten_lines(answers):
    score, label = answers
    for p, model, everyone in binary.net_benefit(score, label):
        gain = 0.0
        for s, ill in zip(score, label):
            if s >= p and ill:
                gain += 1
            elif s >= p:
                gain -= p / (1 - p)
        assert model == pytest.approx(gain / len(score))
        treated = sum(1 if ill else -p / (1 - p) for ill in label)
        assert everyone == pytest.approx(treated / len(score))


def test_kappa_and_matthews_correlation_agree_with_scikit_learn():
    draw = np.random.default_rng(0)
    y = draw.integers(0, 4, 200)
    guess = draw.integers(0, 4, 200)
    guess[:120] = y[:120]
    both = clinical.agreement(guess, y, 4)
    expected = pytest.approx(sk.matthews_corrcoef(y, guess))
    assert both["matthews_correlation"] == expected
    expected = pytest.approx(sk.cohen_kappa_score(y, guess, weights="quadratic"))
    assert both["quadratic_kappa"] == expected
    result = clinical.agreement(np.zeros(5, int), np.arange(5) % 2, 2)["matthews_correlation"]
    assert result is None


def test_carried_thresholds_make_the_rates_of_fairlearn(evaluated):
    body = RunScores.read(evaluated.path).clinical["classes"]["ill"]["clean"]
    predicted = predictions.read(evaluated.path.parent / "predictions.h5")
    logits = predicted.logits["clean"][2]
    score = probabilities(logits)[:, 1]
    sex = predicted.groups["sex"]
    names = evaluated.body["attributes"]["sex"]
    for operating_point in body["operating"]:
        if operating_point["choice"] not in ("pooled", "sex"):
            continue
        limits = [
            operating_point["thresholds"].get(name, operating_point["thresholds"][""])
            for name in names
        ]
        decisions = (score >= np.array(limits)[sex]).astype(int)
        metrics = {"sensitivity": sk.recall_score, "ppv": sk.precision_score}
        frame = MetricFrame(
            metrics=metrics,
            y_true=predicted.y,
            y_pred=decisions,
            sensitive_features=sex,
        ).by_group
        for k, name in enumerate(names):
            point = operating_point["groups"]["sex"][name]
            expected = pytest.approx(frame["sensitivity"][k])
            assert point["sensitivity"]["value"] == expected
            assert (point["ppv"]["value"] or 0.0) == pytest.approx(frame["ppv"][k])
        differences = operating_point["differences"]["sex"]
        kind = {"y_true": predicted.y, "y_pred": decisions, "sensitive_features": sex}
        assert differences["demographic_parity_difference"] == pytest.approx(
            demographic_parity_difference(**kind)
        )
        assert differences["equalized_odds_difference"] == pytest.approx(
            equalized_odds_difference(**kind)
        )


def test_thresholds_come_from_validation_images_alone(evaluated):
    scores = RunScores.read(evaluated.path).clinical
    operating = scores["classes"]["ill"]["clean"]["operating"]
    parts = {point["choice"]: point for point in operating if point["rule"] == "sensitivity=0.95"}
    assert set(parts) == {"pooled", "client", "hospital", "sex"}
    result = set(parts["client"]["thresholds"])
    assert result == {"", "east", "north", "south"}
    assert {point["rule"] for point in operating} >= {"youden", "cost=5"}
    expected = sum(client["val"] for client in fedcli_roster(evaluated))
    assert scores["validation"] == expected


def fedcli_roster(evaluated):
    from fedcli.data import manifest

    path = manifest.parent(evaluated.path, "run")
    return manifest.read(manifest.parent(path, "partition")).body["roster"]


def images(logits, y, sex):
    client = np.full(len(y), -1)
    groupings = {"sex": (sex, ["f", "m"])}
    return clinical.Seen(logits, y, groupings, client)


def test_a_temperature_makes_validation_images_likelier_and_recovers_the_one_that_was_put_in():
    draw = np.random.default_rng(1)
    logits = draw.normal(size=(3000, 3))
    y = np.array([draw.choice(3, p=p) for p in probabilities(logits)])
    sex = np.arange(3000) % 2
    scaled = clinical.scaled(images(4 * logits, y, sex), images(4 * logits, y, sex))
    expected = pytest.approx(4, rel=0.1)
    assert scaled["temperature"] == expected
    assert scaled["negative_log_likelihood"][1] < scaled["negative_log_likelihood"][0]
    assert scaled["calibration_error_top_label"][1] < scaled["calibration_error_top_label"][0]
    brier_scores = []
    for factor in (4, 1):
        chance = probabilities(factor * logits)
        brier_scores.append(sum(sk.brier_score_loss(y == c, chance[:, c]) for c in range(3)))
    expected = [
        pytest.approx(brier_scores[0]),
        pytest.approx(brier_scores[1], rel=0.02),
    ]
    assert scaled["brier"] == expected  # as Brier had it: over all classes
    expected = pytest.approx(sk.log_loss(y, probabilities(4 * logits)))
    assert scaled["negative_log_likelihood"][0] == expected


def test_conformal_sets_cover_and_do_so_in_every_group_where_quantiles_are_of_groups():
    draw = np.random.default_rng(2)
    sex = np.arange(4000) % 2
    y = draw.integers(0, 3, 4000)
    logits = (
        draw.normal(size=(4000, 3)) + np.where(sex, 0.5, 3)[:, None] * np.eye(3)[y]
    )  # harder for m
    halves = [np.arange(4000) % 4 < 2, np.arange(4000) % 4 >= 2]
    chosen, test = (images(logits[half], y[half], sex[half]) for half in halves)
    pooled, by_sex = clinical.conformal(chosen, test)
    expected = pytest.approx(0.9, abs=0.03)
    assert pooled["coverage"]["value"] == expected
    assert (
        pooled["groups"]["sex"]["m"]["value"] < 0.87 < 0.93 < pooled["groups"]["sex"]["f"]["value"]
    )
    for rate in by_sex["groups"]["sex"].values():
        assert rate["value"] == pytest.approx(0.9, abs=0.04)
    score = np.array([0.2, 0.1])
    result = clinical.quantile(score)
    assert result == 1.0  # too few images: every class


def test_it_is_shown_and_left_out_where_it_was_not_asked_for(evaluated, tmp_path):
    assert not published_schema.errors(evaluated)
    titles = []
    for table in shown.tables([("", RunScores.read(evaluated.path))]):
        titles.append(table.title.partition(":")[0])
    expected = [
        "Operating points",
        "Operating points by group",
        "Threshold transfer",
        "Calibration",
        "Net benefit",
        "Agreement and temperature",
        "Conformal sets at 90 %",
        "Gaps between groups, last round",
    ]
    assert titles == expected
    transfer = list(shown.tables([("", RunScores.read(evaluated.path))]))[2]
    line = next(row for row in transfer.rows if row[2].text == "sex")
    heads = [column.name for column in transfer.columns]
    rates = {name: cell.number for name, cell in zip(heads, line)}
    expected = pytest.approx(max(rates["TPR gap"], rates["FPR gap"]))
    assert rates["EOD"] == expected
    (transfer_shown,) = shown.tables(
        [("", RunScores.read(evaluated.path))], shown.read(["transfer"])
    )
    assert transfer_shown == transfer
    result = page.write(tmp_path / "page.html", [evaluated.path]).read_text(encoding="utf-8")
    assert "Threshold transfer" in result


def test_without_validation_images_there_are_no_thresholds(tmp_path):
    raw = write_hospitals(tmp_path / "raw", count=48)
    dataset = prepared(raw, tmp_path)
    run = fedcli.train(
        "fedavg",
        fedcli.partition(dataset, iid=True, clients=2, work=tmp_path),
        rounds=1,
        work=tmp_path,
    )
    scores = fedcli.evaluate(run, clinical=True)
    body = scores.body["clinical"]
    assert body["validation"] == 0
    assert body["temperature"] == {}
    assert body["conformal"] == {}
    result = body["classes"]["ill"]["clean"]["operating"]
    assert result == []
    assert body["classes"]["ill"]["clean"]["overall"]["brier"] > 0
    assert "clinical" not in fedcli.evaluate(run).body
    cases = (
        {"clinical": True, "rule": ["sensitivity=2"]},
        {"clinical": True, "positive": ["il"]},
        {"cost": 2.0},
        {"clinical": True, "cost": -1.0},
    )
    for flags in cases:
        with pytest.raises(UsageError):
            fedcli.evaluate(run, **flags)


def test_each_of_several_labels_is_described_by_its_own_probability_without_unknown_entries():
    draw = np.random.default_rng(5)
    logits = draw.normal(size=(60, 3))
    y = draw.integers(0, 2, (60, 3))
    y[:7, 1] = 2  # not known
    groupings = {"sex": (np.arange(60) % 2, ["f", "m"])}
    client = np.full(60, -1)
    part = clinical.Seen(logits, y, groupings, client).of(1)
    expected = y[7:, 1].tolist()
    assert part.y.tolist() == expected
    expected = pytest.approx(1 / (1 + np.exp(-logits[7:, 1])))
    assert part.logits == expected
    assert len(part.groupings["sex"][0]) == len(part.client) == 53
    result = clinical_parts.positives(["a", "b"], [], several=True)
    assert result == ["a", "b"]
