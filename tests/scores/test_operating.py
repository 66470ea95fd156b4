"""`fedcli predict` decides at thresholds that were chosen on the run's validation images."""

import csv
import io
import json

import numpy as np
import pytest
from hospitals import HOSPITALS, prepared, write_hospitals
from sklearn.metrics import roc_curve
from tables_of_numbers import rows as number_rows
from typer.testing import CliRunner

import fedcli
from fedcli import console
from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.errors import UsageError
from fedcli.runs.finished import open_run
from fedcli.scores.clinical import points as clinical
from fedcli.scores.clinical.chosen import OperatingPoint
from fedcli.scores.deploy import operating
from fedcli.scores.deploy.operating import points
from fedcli.scores.deploy.predict import Predicted
from fedcli.stages.predict import Prediction


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def dataset(work):
    raw = write_hospitals(work / "raw", count=72)
    return prepared(raw, work)


@pytest.fixture(scope="module")
def clients(dataset, work):
    return fedcli.partition(dataset, by=["hospital"], val=0.4, work=work)


@pytest.fixture(scope="module")
def run(clients, work):
    return fedcli.train("fedavg", clients, rounds=1, work=work)


def typed(*words):
    ended = CliRunner().invoke(app, [*map(str, words)])
    assert ended.exit_code == 0, ended.stderr
    return ended


def test_an_image_at_the_threshold_is_called_positive():
    point = OperatingPoint("ill", "youden", 0.5, images=10)
    chances = np.array(number_rows("0.5 0.5; 0.6 0.4; 0.1 0.9"))
    result = point.decide(chances, ["healthy", "ill"])
    assert result == [True, False, True]
    result = OperatingPoint("healthy", "youden", 0.55, images=10).decide(
        chances, ["healthy", "ill"]
    )
    assert result == [
        False,
        True,
        False,
    ]


def test_a_rule_is_met_on_the_validation_images_themselves(run):
    opened = open_run(run.path)
    (point,) = points(opened, None, ["ill"], ["sensitivity=0.9"])
    images = clinical.validation(opened, {}).of(1)
    _alarms, hits, thresholds = roc_curve(images.y, images.logits, drop_intermediate=False)
    expected = pytest.approx(thresholds[np.flatnonzero(hits >= 0.9)[0]])
    assert point.threshold == expected
    expected = ("ill", "sensitivity=0.9", len(images.y))
    assert (point.positive, point.rule, point.images) == expected


def test_an_image_that_is_foreign_gets_no_decision():
    sha256 = "ab" * 32
    point = OperatingPoint("ill", "youden", 0.5, 10, "images", sha256)
    chances = np.array(number_rows("0.1 0.9; 0.1 0.9; 0.8 0.2"))
    files = ["a.png", "ct.dcm", "b.png"]
    foreign = ["", "a DICOM file", ""]
    predicted = Predicted(files, ["healthy", "ill"], chances, [], False, [point], foreign)
    prediction = Prediction(predicted)
    lines = list(csv.DictReader(io.StringIO(prediction.to("csv"))))
    result = [line["ill at youden"] for line in lines]
    assert result == ["yes", "", "no"]
    decided = [
        line_written["at"]["ill at youden"]
        for line_written in json.loads(prediction.to("json"))["predictions"]
    ]
    assert decided == [True, None, False]


def test_the_thresholds_of_a_finished_evaluation_are_used_and_said(run, clients, work, tmp_path):
    digest = manifest.sha256(clients.path)
    files = sorted((work / "raw").glob("*.png"))[:6]
    assert "threshold" not in typed("predict", run, *files, "--quiet").stdout
    words = "--clinical", "--positive", "ill", "--rule", "youden", "--rule", "specificity=0.8"
    typed("evaluate", run, *words, "--cost", "4", "--quiet")
    ended = typed("predict", run, *files)
    assert "ill at specificity=0.8: from a probability of" in ended.stderr
    assert "validation images" in ended.stderr
    rows = list(csv.DictReader(io.StringIO(ended.stdout)))
    for rule in ("youden", "specificity=0.8", "cost=4"):
        for row in rows:
            above = float(row["prob_ill"]) >= float(row[f"threshold of ill at {rule}"])
            assert row[f"ill at {rule}"] == ("yes" if above else "no")
            assert (
                row["thresholds_chosen_on"] == f"validation images of images (sha256 {digest[:12]})"
            )
    written = json.loads(typed("predict", run, *files, "--format", "json", "--quiet").stdout)
    result = {point["rule"] for point in written["operating_points"]}
    assert result == {
        "youden",
        "specificity=0.8",
        "cost=4",
    }
    outcome = {point["chosen_on"] for point in written["operating_points"]}
    assert outcome == {"validation"}
    outcome = {point["data_sha256"] for point in written["operating_points"]}
    assert outcome == {digest}
    assert written["predictions"][0]["at"]["ill at youden"] is (rows[0]["ill at youden"] == "yes")
    by_rule = json.loads(
        typed("predict", run, *files, "--format", "json", "--rule", "youden", "--quiet").stdout
    )
    expected = [point for point in written["operating_points"] if point["rule"] == "youden"]
    assert by_rule["operating_points"] == expected
    frame = fedcli.predict(run, files, rule=["youden"]).to_frame()
    expected = [row["ill at youden"] for row in rows]
    assert list(frame["ill at youden"]) == expected


def test_a_clients_own_model_has_a_threshold_of_its_own_images(clients, work):
    alone = fedcli.train("fedavg", clients, rounds=1, single_site=True, work=work)
    opened = open_run(alone.path)
    points_by_client = {name: points(opened, name, ["ill"], ["youden"])[0] for name in HOSPITALS}
    result = {name: point.images for name, point in points_by_client.items()}
    expected = {n: len(opened.data.val[n]) for n in HOSPITALS}
    assert result == expected
    outcome = len({point.threshold for point in points_by_client.values()})
    assert outcome > 1


def test_without_validation_images_a_rule_is_refused(dataset, work):
    plain = fedcli.train(
        "fedavg", fedcli.partition(dataset, by=["hospital"], work=work), rounds=1, work=work
    )
    with pytest.raises(UsageError, match="the clients have no validation images"):
        fedcli.predict(plain, [work / "raw" / "000.png"], rule=["youden"])
    with pytest.raises(UsageError, match="'sick' is no class"):
        fedcli.predict(plain, [work / "raw" / "000.png"], positive=["sick"])


def test_a_client_without_validation_images_is_predicted_for_without_thresholds(run, monkeypatch):
    opened = open_run(run.path)
    logits = np.zeros((0, 2))
    client = np.zeros(0)
    nothing = clinical.Seen(logits, np.zeros(0, np.int64), {}, client)
    monkeypatch.setattr(
        operating, "_evaluated", lambda _: [OperatingPoint("ill", "youden", 0.5, images=10)]
    )
    monkeypatch.setattr(clinical, "validation", lambda *_: nothing)
    warned: list[str] = []
    monkeypatch.setattr(console, "warn", warned.append)
    assert points(opened, HOSPITALS[0]) == []
    expected = [
        f"no operating points: {HOSPITALS[0]} has no validation images that could choose its thresholds"
    ]
    assert warned == expected
    with pytest.raises(UsageError, match="has no validation images"):
        points(opened, HOSPITALS[0], ["ill"], ["youden"])


def test_a_class_that_no_validation_image_has_is_said_once(run, monkeypatch):
    opened = open_run(run.path)
    logits = np.zeros((3, 2))
    client = np.zeros(3, np.int64)
    none = clinical.Seen(logits, np.zeros(3, np.int64), {}, client)
    monkeypatch.setattr(clinical, "validation", lambda *_: none)
    warned: list[str] = []
    monkeypatch.setattr(console, "warn", warned.append)
    result = points(opened, None, ["ill"], ["youden", "specificity=0.8"])
    assert result == []
    assert warned == ["no threshold for ill: the validation images are all of it, or none is"]


def test_a_rule_is_read_as_it_is_recorded_and_other_texts_are_refused():
    for rule in (*clinical.RULES, ("cost", 5.0)):
        result = clinical.rule_of(clinical.titled(rule), recorded=True)
        assert result == rule
    for text in ("cost=5", "sensitivity=1", "sensitivity=x", "specificity", "youden=1", "cost=inf"):
        with pytest.raises(UsageError, match="is none"):
            recorded = text == "cost=inf"
            clinical.rule_of(text, recorded=recorded)
