"""Scores of several labels per image, against scikit-learn and against themselves on resampled images."""

import numpy as np
import pytest
from score_json import group_scores, label_scores
from scored_runs import bootstrap
from sklearn import metrics as oracle

from fedcli.errors import FedcliError
from fedcli.labels import UNKNOWN
from fedcli.metrics import LABELS, PARITY, chances, names, of_labels, score
from fedcli.scores.facts import ScoredImages, label_facts
from fedcli.scores.statistics.bootstrap import draw
from fedcli.scores.table import Where

N = 90
RNG = np.random.default_rng(3)
Y = (RNG.random((N, 4)) < [0.5, 0.2, 0.1, 0.8]).astype(np.uint8)
LOGITS = (RNG.normal(size=(N, 4)) + Y).round(1).astype(np.float32)  # rounded: with ties
SEX = np.arange(N) % 3 - 1  # -1 unknown


def test_every_score_is_scikit_learns():
    chance = chances(LOGITS, Y)
    scores = score(LOGITS, Y)
    decided = chance >= 0.5
    expected = pytest.approx(oracle.roc_auc_score(Y, chance, average="macro"))
    assert scores["auc_macro"] == expected
    expected = pytest.approx(oracle.average_precision_score(Y, chance, average="macro"))
    assert scores["average_precision_macro"] == expected
    expected = pytest.approx(oracle.f1_score(Y, decided, average="macro"))
    assert scores["f1_macro"] == expected
    expected = pytest.approx(oracle.accuracy_score(Y, decided))
    assert scores["exact_match_accuracy"] == expected
    expected = pytest.approx(1 - oracle.hamming_loss(Y, decided))
    assert scores["hamming_accuracy"] == expected
    balanced = [oracle.balanced_accuracy_score(Y[:, k], decided[:, k]) for k in range(4)]
    expected = pytest.approx(np.mean(balanced))
    assert scores["balanced_accuracy_macro"] == expected
    assert scores["count"] == N
    assert scores["classes_missing"] == []
    for k, label in enumerate(of_labels(LOGITS, Y)):
        expected = pytest.approx(oracle.roc_auc_score(Y[:, k], chance[:, k]))
        assert label["auc"] == expected
        expected = pytest.approx(oracle.average_precision_score(Y[:, k], chance[:, k]))
        assert label["average_precision"] == expected


def test_what_is_not_known_takes_no_part():
    y = Y.copy()
    y[:30, 0] = UNKNOWN
    expected = of_labels(LOGITS[30:], Y[30:])[0]
    assert of_labels(LOGITS, y)[0] == expected
    expected = of_labels(LOGITS, Y)[1:]
    assert of_labels(LOGITS, y)[1:] == expected
    y[:] = UNKNOWN
    scores = score(LOGITS, y)
    result = {scores[name] for name in names(LABELS, headline=True)}
    assert result == {None}
    assert scores["classes_missing"] == [0, 1, 2, 3]


def test_a_label_that_all_or_no_images_have_is_left_out_and_named():
    y = Y.copy()
    y[:, 1], y[:, 3] = 0, 1
    scores = score(LOGITS, y)
    assert scores["classes_missing"] == [1, 3]
    expected = pytest.approx(oracle.roc_auc_score(y[:, [0, 2]], LOGITS[:, [0, 2]], average="macro"))
    assert scores["auc_macro"] == expected
    assert of_labels(LOGITS, y)[1]["average_precision"] is None


def test_logits_that_are_not_finite_are_refused():
    with pytest.raises(FedcliError, match="1 of 90 images got logits that are not finite"):
        logits = np.where(np.arange(N)[:, None] == 5, np.nan, LOGITS)
        score(logits, Y)


@pytest.mark.parametrize("unknown", [False, True])
def test_a_resample_has_the_scores_of_its_images(unknown):
    y = Y.copy()
    y[:20, 2] = UNKNOWN if unknown else y[:20, 2]
    patients = np.array([f"p{i // 2}" for i in range(N)])
    resampled = bootstrap(LOGITS, y, patients, resamples=5, seed=1)
    times = draw(patients, 5, 1)
    for b, counts in enumerate(times):
        again = np.repeat(np.arange(N), counts)
        expected = score(LOGITS[again], y[again])
        result = {name: resampled[name][b] for name in names(LABELS, resampled=True)}
        assert result == pytest.approx(
            {name: expected[name] for name in names(LABELS, resampled=True)}
        )
    by_group = bootstrap(LOGITS, y, patients, resamples=5, seed=1, groups=SEX)
    again = np.repeat(np.arange(N), times[0] * (SEX == 1))
    expected = pytest.approx(score(LOGITS[again], y[again])["auc_macro"])
    assert by_group["auc_macro"][0, 1] == expected


def test_groups_are_compared_by_the_same_scores_and_each_label_by_its_decisions():
    scores = group_scores(LOGITS, Y, SEX, ["f", "m"], classes=list("abcd"))
    parts = {value: score(LOGITS[SEX == g], Y[SEX == g]) for g, value in enumerate("fm")}
    aucs = [part["auc_macro"] for part in parts.values()]
    expected = pytest.approx(abs(aucs[0] - aucs[1]))
    assert scores["between"]["auc_macro"]["gap"] == expected
    assert scores["unknown"] == 30
    whole = score(LOGITS, Y)["auc_macro"]
    expected = pytest.approx(whole / (1 + sum(abs(whole - auc) for auc in aucs)))
    assert scores["es_auc_macro"] == expected
    assert scores["es_auc_ovo_macro"] is None
    assert "accuracy" not in scores["between"]
    selected = [(LOGITS[SEX == g] >= 0).mean(0) for g in range(2)]
    groupings = {"sex": (SEX, ["f", "m"])}
    logits = {"clean": [[LOGITS]]}
    labels = label_scores(logits, Y, list("abcd"), groupings)["clean"]
    differences = [labels[name]["groups"]["sex"]["differences"][PARITY[0]] for name in "abcd"]
    expected = pytest.approx(np.abs(selected[0] - selected[1]).tolist())
    assert differences == expected
    expected = pytest.approx(np.mean(differences))
    result = scores[f"{PARITY[0]}_ovr_macro"]
    assert result == expected
    expected = Y[:, 0].sum()
    assert labels["a"]["images"] == expected
    expected = of_labels(LOGITS, Y)[0]["auc"]
    assert labels["a"]["auc"]["last"] == expected


def test_a_group_without_an_auc_of_some_label_is_small():
    y = Y.copy()
    y[SEX == 0, 2] = 0
    scores = group_scores(LOGITS, y, SEX, ["f", "m"], classes=list("abcd"))
    assert scores["groups"]["f"]["reason"] == "no AUC of c; 6 images with b, 6 images without d"
    assert scores["groups"]["m"]["reason"] == "2 images with b, 3 images with c, 3 images without d"
    assert "true positive rate of c in f" in scores["undefined_rates"]


def test_where_every_client_answers_for_itself_a_label_has_the_mean_of_their_scores():
    grouping = {"sex": (SEX, ["f", "m"])}
    other = LOGITS[::-1].copy()
    both, *alone = (
        label_scores({"clean": [tables]}, Y, list("abcd"), grouping)["clean"]["b"]
        for tables in ([LOGITS, other], [LOGITS], [other])
    )
    expected = pytest.approx(np.mean([label_of_one["auc"]["last"] for label_of_one in alone]))
    assert both["auc"]["last"] == expected
    gaps = [label_of_one["groups"]["sex"]["between"]["gap"] for label_of_one in alone]
    expected = pytest.approx(np.mean(gaps))
    result = both["groups"]["sex"]["between"]["gap"]
    assert result == expected


def test_a_label_has_the_reason_of_its_group_of_few_patients():
    """20 images in f, and 70 in m, of which 6 have the label."""
    y = np.zeros((90, 2), int)
    y[:10, 0] = 1
    y[20:26, 0] = 1
    sex = np.repeat([0, 1], [20, 70])
    images = ScoredImages(y, ["a", "b"], {"sex": (sex, ["f", "m"])})
    table = label_facts(Where("clean"), images, [(1, [LOGITS[:, :2]])])
    where = Where("clean", label="a", metric="auc", attribute="sex")
    assert table[where._replace(group="f")].small == "20 images, fewer than 30"
    assert table[where._replace(group="m")].small == "6 images with a"
    assert not table[Where("clean", label="a", metric="auc")].small
