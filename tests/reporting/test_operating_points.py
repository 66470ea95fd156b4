"""`fedcli report` shows what `evaluate --clinical` of a run found, and says how to get it."""

import pytest
import session
from hospitals import prepared, write_hospitals

import fedcli
from fedcli import console
from fedcli.compare.systems import read
from fedcli.data import manifest
from fedcli.reporting import evidence
from fedcli.runs.finished import open_run
from fedcli.scores.deploy.operating import points
from fedcli.scores.existing import with_operating_points


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with validation images and one without."""
    work = tmp_path_factory.mktemp("work")
    dataset = prepared(write_hospitals(work / "raw", count=72), work)
    parts = [fedcli.partition(dataset, by=["hospital"], val=val, work=work) for val in (0.4, 0.0)]
    return [fedcli.train("fedavg", part, rounds=1, work=work) for part in parts]


def test_operating_points_are_shown_where_an_evaluation_made_them(runs):
    with_validation, without = (run.path for run in runs)
    assert "perating points" not in session.run(f"fedcli report {with_validation}")  # nobody asked
    assert "perating points" not in fedcli.report([without]).to("html")  # nobody asked for them
    plain = fedcli.evaluate(with_validation).path
    assert with_operating_points(plain) is None
    made = fedcli.evaluate(with_validation, by=["sex"], clinical=True, rule=["youden"]).path
    fedcli.evaluate(
        with_validation, clinical=True, positive=["ill"], rule=["youden"], corrupt=["gaussian"], severity=["1"]
    )
    (scored,) = read([plain])
    assert scored.path == plain and with_operating_points(plain) != plain
    assert with_operating_points(made) == made
    assert scored.scores.clinical["classes"]["ill"]["clean"]["operating"]
    report = fedcli.report([with_validation])
    titles = ["Operating points: ill", "Calibration: ill", "Net benefit: ill"]
    assert [table.title.split(",")[0] for table in report.operating] == titles
    printed = session.run(f"fedcli report {with_validation}")
    assert "Operating points and calibration are there too: `fedcli evaluate RUN --clinical`" in printed
    assert not any(title in printed for title in titles)  # nobody asked for all of them
    for text in (report.to("markdown"), report.to("html")):
        assert all(title in text for title in titles)
    assert "| largest sensitivity + specificity |" in report.to("markdown")
    items = [item for each in evidence.guidelines(plain, scored.scores) for item in each["items"]]
    answer = next(a for item in items for a in item["answers"] if a["field"] == "body.clinical.classes")
    assert answer["sha256"] == manifest.sha256(with_operating_points(plain))


def test_operating_points_of_other_images_are_not_those_of_a_run(runs):
    run, other = runs
    plain = fedcli.evaluate(run, by=["hospital"]).path
    on = fedcli.evaluate(run, on=manifest.parent(other.path, "partition"), by=["hospital"], clinical=True).path
    assert with_operating_points(on) == on and with_operating_points(plain) != on


def test_a_broken_evaluation_beside_it_is_named_and_left_out(runs, monkeypatch):
    run = runs[0]
    made = fedcli.evaluate(run, clinical=True, rule=["youden"]).path
    broken = made.parent.parent / "broken" / "scores.json"
    broken.parent.mkdir()
    broken.write_text('{"format": 1, "kind"', encoding="utf-8")
    warned: list[str] = []
    monkeypatch.setattr(console, "warn", warned.append)
    assert with_operating_points(made) == made
    assert [point.rule for point in points(open_run(run.path), None)]
    assert len(warned) == 2 and all(str(broken) in text for text in warned)
