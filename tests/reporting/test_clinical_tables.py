"""The table of one class at one threshold, as `evaluate --clinical` prints it, and the rest by name."""

import pytest
from hospitals import prepared, write_hospitals
from typed_lines import fedcli

import fedcli as product
from fedcli.errors import UsageError
from fedcli.reporting import clinical
from fedcli.scores.scores import Scores


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with its work folder, scored with two rules."""
    work = tmp_path_factory.mktemp("work")
    dataset = prepared(write_hospitals(work / "raw", count=72), work)
    run = product.train("fedavg", product.partition(dataset, by=["hospital"], val=0.4, work=work), rounds=1, work=work)
    rules = ["youden", "sensitivity=0.95"]
    return run, product.evaluate(run, by=["hospital"], clinical=True, positive=["ill"], rule=rules), work


def test_the_title_names_class_threshold_rule_and_images_and_the_line_below_counts(made):
    scores = Scores.read(made[1].path)
    (table,) = clinical.by_class(scores)
    known = scores.clinical["classes"]["ill"]["clean"]
    point = next(
        each for each in known["operating"] if (each["rule"], each["choice"]) == ("sensitivity=0.95", "pooled")
    )
    threshold, images = point["overall"]["threshold"], scores.clinical["validation"]
    assert table.title == f"ill, threshold {threshold:.3g}: 95 % sensitivity on {images} validation images"
    found, passed = point["overall"]["sensitivity"], point["overall"]["specificity"]
    missed, alarms = found["total"] - found["counted"], passed["total"] - passed["counted"]
    other = next(name for name in scores.classes if name != "ill")
    counts = f"{missed} of {found['total']} ill missed, {alarms} of {passed['total']} {other} are false alarms."
    assert table.legend == f"{counts} Other thresholds (1): --show thresholds."
    cells = [[cell.text for cell in row] for row in table.rows]
    assert [row[0] for row in cells] == ["all", *known["groups"]["hospital"]]
    rate = point["overall"]["sensitivity"]
    assert cells[0][2] == f"{100 * rate['value']:.1f} ({100 * rate['low']:.1f} to {100 * rate['high']:.1f})"


def test_the_rest_is_shown_by_name_and_notes_stand_at_their_table(made):
    run, _, work = made
    words = "evaluate", run, "--by", "hospital", "--clinical", "--positive", "ill", "--rule", "youden", "--work", work
    _, _, err = fedcli(*words)
    assert "More: --show thresholds, transfer" in err and "Net benefit" not in err
    _, _, err = fedcli(*words, "--show", "net-benefit,gaps")
    places = [err.index(text) for text in ("Net benefit: ill", "treat all", "Net benefit in true", "Gaps between")]
    assert places == sorted(places) and "More:" not in err and "Threshold transfer" not in err
    assert "quadratic kappa" not in fedcli(*words, "--show", "agreement")[2]  # these classes have no order


def test_a_table_that_is_none_and_tables_without_operating_points_are_refused(made):
    with pytest.raises(UsageError, match="--show 'roc' is unknown"):
        clinical.read(["transfer,roc"])
    assert clinical.read(["all"]) == list(clinical.NAMED)
    code, _, err = fedcli("evaluate", made[0], "--show", "gaps", "--work", made[2])
    assert code == 2 and "add --clinical" in err
