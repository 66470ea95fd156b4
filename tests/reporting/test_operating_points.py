"""Operating points: the tables of `evaluate --clinical`, and what `fedcli report` shows of them, or how to get them."""

import pytest
import session
from hospitals import prepared, write_hospitals
from report_tables import texts
from typed_lines import fedcli as typed

import fedcli
from fedcli import console
from fedcli.comparison.systems import read
from fedcli.data import manifest
from fedcli.errors import UsageError
from fedcli.reporting import clinical, evidence
from fedcli.reporting.table import DAGGER
from fedcli.runs.finished import open_run
from fedcli.scores.deploy.operating import points
from fedcli.scores.existing import with_operating_points
from fedcli.scores.scores import RunScores


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def parts(work):
    """Clients with validation images, and without."""
    dataset = prepared(write_hospitals(work / "raw", count=72), work)
    return [fedcli.partition(dataset, by=["hospital"], val=val, work=work) for val in (0.4, 0.0)]


@pytest.fixture(scope="module")
def runs(parts, work):
    return [fedcli.train("fedavg", part, rounds=1, work=work) for part in parts]


@pytest.fixture(scope="module")
def run_and_scores(parts, work):
    """A run, scored with two rules."""
    run = fedcli.train("fedavg", parts[0], rounds=1, seed=1, work=work)
    rules = ["youden", "sensitivity=0.95"]
    return run, fedcli.evaluate(run, by=["hospital"], clinical=True, positive=["ill"], rule=rules)


def test_operating_points_are_shown_where_an_evaluation_made_them(runs):
    with_validation, without = (run.path for run in runs)
    assert "perating points" not in session.run(f"fedcli report {with_validation}")  # nobody asked
    assert "perating points" not in fedcli.report([without]).to("html")  # nobody asked for them
    plain = fedcli.evaluate(with_validation).path
    assert with_operating_points(plain) is None
    operated = fedcli.evaluate(with_validation, by=["sex"], clinical=True, rule=["youden"]).path
    fedcli.evaluate(
        with_validation,
        clinical=True,
        positive=["ill"],
        rule=["youden"],
        corrupt=["gaussian"],
        severity=["1"],
    )
    (scored,) = read([plain])
    assert scored.path == plain
    assert with_operating_points(plain) != plain
    assert with_operating_points(operated) == operated
    assert scored.scores.clinical["classes"]["ill"]["clean"]["operating"]
    report = fedcli.report([with_validation])
    titles = ["Operating points: ill", "Calibration: ill", "Net benefit: ill"]
    result = [table.title.split(",")[0] for table in report.operating]
    assert result == titles
    printed = session.run(f"fedcli report {with_validation}")
    assert (
        "Operating points and calibration are there too: `fedcli evaluate RUN --clinical`"
        in printed
    )
    for title in titles:
        assert title not in printed  # nobody asked for all of them
    for text in (report.to("markdown"), report.to("html")):
        for title in titles:
            assert title in text
    assert "| largest sensitivity + specificity |" in report.to("markdown")
    items = [
        item
        for guideline in evidence.guidelines(plain, scored.scores)
        for item in guideline["items"]
    ]
    answer = next(
        a for item in items for a in item["answers"] if a["field"] == "body.clinical.classes"
    )
    assert answer["sha256"] == manifest.sha256(with_operating_points(plain))


def test_operating_points_of_other_images_are_not_those_of_a_run(runs):
    run, other = runs
    plain = fedcli.evaluate(run, by=["hospital"]).path
    on = fedcli.evaluate(
        run, on=manifest.parent(other.path, "partition"), by=["hospital"], clinical=True
    ).path
    assert with_operating_points(on) == on
    assert with_operating_points(plain) != on


def test_cards_and_pages_name_the_evaluation_that_chose_a_threshold(run_and_scores, tmp_path):
    run, operated = run_and_scores
    plain = fedcli.evaluate(run)
    assert with_operating_points(plain.path) == operated.path
    report = fedcli.report([plain.path])
    report.cards(tmp_path)
    card = (tmp_path / "model-card.md").read_text()
    assert "Operating points: ill" in card
    for text in (card.partition("## Provenance")[2], report.to("html")):
        for scores in (plain.path, operated.path):
            assert manifest.sha256(scores)[:12] in text


def test_a_broken_evaluation_beside_it_is_named_and_left_out(runs, monkeypatch):
    run = runs[0]
    scores_path = fedcli.evaluate(run, clinical=True, rule=["youden"]).path
    broken = scores_path.parent.parent / "broken" / "scores.json"
    broken.parent.mkdir()
    broken.write_text('{"format": 1, "kind"', encoding="utf-8")
    warned: list[str] = []
    monkeypatch.setattr(console, "warn", warned.append)
    assert with_operating_points(scores_path) == scores_path
    assert [point.rule for point in points(open_run(run.path), None)]
    assert len(warned) == 2
    for text in warned:
        assert str(broken) in text


def test_the_title_names_class_threshold_rule_and_images_and_the_line_below_counts(run_and_scores):
    scores = RunScores.read(run_and_scores[1].path)
    (table,) = clinical.by_class(scores)
    facts = scores.clinical["classes"]["ill"]["clean"]
    point_of = {(point["rule"], point["choice"]): point for point in facts["operating"]}
    point = point_of["sensitivity=0.95", "pooled"]
    threshold = point["overall"]["threshold"]
    images = scores.clinical["validation"]
    title = f"ill, threshold {threshold:.3g}: 95 % sensitivity on {images} validation images"
    assert table.title == title
    sensitivity = point["overall"]["sensitivity"]
    passed = point["overall"]["specificity"]
    missed = sensitivity["total"] - sensitivity["counted"]
    alarms = passed["total"] - passed["counted"]
    other = next(name for name in scores.classes if name != "ill")
    counts = f"{missed} of {sensitivity['total']} ill missed, {alarms} of {passed['total']} {other} are false alarms."
    assert table.legend == f"{counts} Other thresholds (1): --show thresholds."
    cells = texts(table)
    hospitals = [f"{name}{DAGGER}" for name in facts["groups"]["hospital"]]  # of few images each
    expected = ["all", *hospitals]
    assert [row[0] for row in cells] == expected
    rate = point["overall"]["sensitivity"]
    value, low, high = (f"{100 * rate[name]:.1f}" for name in ("value", "low", "high"))
    assert cells[0][2] == f"{value} ({low} to {high})"


def test_the_rest_is_shown_by_name_and_notes_stand_at_their_table(run_and_scores, work):
    run = run_and_scores[0]
    words = (
        "evaluate",
        run,
        "--by",
        "hospital",
        "--clinical",
        "--positive",
        "ill",
        "--rule",
        "youden",
        "--work",
        work,
    )
    _, _, err = typed(*words)
    assert "More: --show thresholds, transfer" in err
    assert "Net benefit" not in err
    _, _, err = typed(*words, "--show", "net-benefit,gaps")
    places = [
        err.index(text)
        for text in ("Net benefit: ill", "treat all", "Net benefit in true", "Gaps between")
    ]
    assert places == sorted(places)
    assert "More:" not in err
    assert "Threshold transfer" not in err
    assert (
        "quadratic kappa" not in typed(*words, "--show", "agreement")[2]
    )  # these classes have no order


def test_a_table_that_is_none_and_tables_without_operating_points_are_refused(run_and_scores, work):
    with pytest.raises(UsageError, match="--show 'roc' is unknown"):
        clinical.read(["transfer,roc"])
    assert clinical.read(["all"]) == clinical.EVERY
    code, _, err = typed("evaluate", run_and_scores[0], "--show", "gaps", "--work", work)
    assert code == 2
    assert "add --clinical" in err
