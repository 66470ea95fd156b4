"""`--track`: curves, scores and the page for TensorBoard or MLflow, from what was written; the run keeps its bytes."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hospitals import prepared, write_hospitals

import fedcli
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.reporting import tracking


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    work = tmp_path_factory.mktemp("data")
    return fedcli.partition(
        prepared(write_hospitals(work / "raw", count=60), work), by=["hospital"], val=0.3, work=work
    )


def tracked(clients, work, where):
    run = fedcli.train("fedavg", clients, rounds=2, work=work, track=where)
    return run, fedcli.evaluate(run, work=work, track=where)


def test_a_run_that_is_tracked_has_the_bytes_of_one_that_is_not(clients, tmp_path):
    pytest.importorskip("tensorboard")
    with_tracker, _ = tracked(clients, tmp_path / "a", "tensorboard")
    without = fedcli.train("fedavg", clients, rounds=2, work=tmp_path / "b")
    assert manifest.sha256(with_tracker.path) == manifest.sha256(without.path)
    assert with_tracker.path.parent.name == without.path.parent.name


def test_tensorboard_has_the_numbers_of_the_record(clients, tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run, scores = tracked(clients, tmp_path, f"tensorboard:{tmp_path / 'boards'}")
    folder = tmp_path / "boards" / run.path.parent.name
    board = loader.EventAccumulator(str(folder))
    board.Reload()
    frame = run.to_frame()
    for client in ("north", "east", "south"):
        records = frame[frame["client"] == client]
        result = [event.step for event in board.Scalars(f"loss/{client}")]
        assert result == [1, 2]
        result = [event.value for event in board.Scalars(f"loss/{client}")]
        assert result == pytest.approx(list(records["loss"]))
        result = [event.value for event in board.Scalars(f"weights/{client}")]
        assert result == pytest.approx(list(records["weight"]))
    (last,) = board.Scalars("scores/clean balanced_accuracy")
    metrics = scores.body["versions"]["clean"]
    assert last.value == pytest.approx(metrics["balanced_accuracy"]["last"])
    assert last.step == 2
    assert "<h1>FedAvg" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")  # of MLflow about what it is built on
def test_mlflow_has_one_run_of_training_and_scores(clients, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    run, _ = tracked(clients, tmp_path, f"mlflow:{tmp_path / 'ml'}")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'ml' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("fedcli")
    (tracked_run,) = client.search_runs([experiment.experiment_id])
    assert tracked_run.info.run_name == run.path.parent.name
    assert tracked_run.info.status == "FINISHED"
    assert tracked_run.data.params["label"] == "FedAvg"
    assert "scores/clean balanced_accuracy" in tracked_run.data.metrics
    result = [
        point.step for point in client.get_metric_history(tracked_run.info.run_id, "loss/north")
    ]
    assert result == [
        1,
        2,
    ]
    outcome = [file.path for file in client.list_artifacts(tracked_run.info.run_id)]
    assert outcome == ["report.html"]


def test_what_cannot_be_tracked_is_said_before_training(clients, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="--track 'tensorbord' is no tracker"):
        fedcli.train("fedavg", clients, work=tmp_path, track="tensorbord")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(FedcliError, match="--track mlflow needs the Python module"):
        fedcli.train("fedavg", clients, work=tmp_path, track="mlflow")
    assert not (tmp_path / "runs").exists()
    if "tensorboard" in sys.modules or pytest.importorskip("tensorboard"):
        (tmp_path / "file").write_text("")
        with pytest.raises(FedcliError, match="cannot be written by tensorboard"):
            fedcli.train(
                "fedavg", clients, rounds=1, work=tmp_path, track=f"tensorboard:{tmp_path / 'file'}"
            )


def test_a_server_that_stops_answering_ends_in_a_sentence_and_the_run_is_there(
    clients, tmp_path, monkeypatch
):
    class Gone:
        def __init__(self, *_):
            pass

        def options(self, options):
            raise ConnectionError("no answer")

    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", Gone)
    monkeypatch.setattr(tracking, "check", lambda asked: None)
    with pytest.raises(FedcliError, match="cannot be written by tensorboard: no answer"):
        fedcli.train("fedavg", clients, rounds=1, work=tmp_path, track="tensorboard")
    assert list(tmp_path.glob("runs/*/run.json"))


def test_a_server_that_the_command_does_not_name_is_refused():
    with pytest.raises(
        UsageError, match="a server, which is not used: the command does not name it"
    ):
        tracking.check("mlflow:http://127.0.0.1:9")


class Board:
    """A tracker that keeps what it is given in memory."""

    def __init__(self, target, run):
        self.target = target
        self.numbers = []
        self.pages = []
        self.closed = False
        boards.append(self)

    def options(self, options):
        self.known_options = dict(options)

    def number(self, name, value, step):
        self.numbers.append((name, value, step))

    def page(self, text):
        self.pages.append(text)

    def close(self):
        self.closed = True


boards: list[Board] = []


@pytest.fixture
def board(monkeypatch):
    boards.clear()
    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", Board)
    return boards


def test_the_curves_of_a_run_are_given_with_the_options_and_without_gaps(
    board, tmp_path, monkeypatch
):
    points = np.array([[1, 0.7], [2, np.nan], [3, 0.5]])
    curves = {
        "loss": SimpleNamespace(curves={"east": points}),
        "clean accuracy": SimpleNamespace(curves={"": points[2:]}),
    }
    record = SimpleNamespace(asked={"rounds": 3}, series=curves)
    monkeypatch.setattr(tracking.series, "read", lambda run: record)
    target = tracking.training("tensorboard", tmp_path / "run.json", tmp_path)
    assert target == str(tmp_path / "tensorboard")
    (tracker,) = board
    assert tracker.known_options == {"rounds": 3}
    expected = [
        ("loss/east", 0.7, 1),
        ("loss/east", 0.5, 3),
        ("clean accuracy", 0.5, 3),
    ]
    assert tracker.numbers == expected
    assert tracker.closed
    assert tracker.pages == []


def test_the_scores_of_the_last_round_and_the_page_are_given(clients, board, tmp_path):
    run = fedcli.train("fedavg", clients, rounds=2, work=tmp_path)
    scores = fedcli.evaluate(run, work=tmp_path, track="tensorboard:boards")
    (tracker,) = board
    assert tracker.target == "boards"
    numbers = {name: value for name, value, _ in tracker.numbers}
    clean = scores.body["versions"]["clean"]
    assert numbers["scores/clean accuracy"] == clean["accuracy"]["last"]
    result = {step for *_, step in tracker.numbers}
    assert result == {2}
    (text,) = tracker.pages
    assert text.startswith("<!doctype html>")


def test_without_a_tracker_nothing_is_read(tmp_path):
    missing = tmp_path / "run.json"
    assert tracking.training(None, missing, tmp_path) == ""
    assert tracking.evaluation(None, missing, tmp_path) == ""
    tracking.check(None)


def test_scores_that_name_no_run_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "parent", lambda path, kind: None)
    with pytest.raises(FedcliError, match=r"scores\.json names no run"):
        tracking.evaluation("tensorboard", tmp_path / "scores.json", tmp_path)


def test_a_failure_without_words_is_named_by_its_kind(board, tmp_path, monkeypatch):
    class Silent(Board):
        def close(self):
            raise TimeoutError

    monkeypatch.setitem(tracking.TRACKERS, "tensorboard", Silent)
    opened = tracking._opened("tensorboard:x", tmp_path, tmp_path)
    sentence = "x cannot be written by tensorboard: TimeoutError"
    with pytest.raises(FedcliError, match=sentence), opened:
        assert isinstance(boards[0], Silent)


def test_options_are_a_table_in_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    tracker = tracking.TensorBoard(str(tmp_path), tmp_path / "run" / "run.json")
    texts = []
    tracker.writer.add_text = lambda name, text: texts.append((name, text))
    tracker.options({"lr": 0.1, "rounds": 2})
    tracker.close()
    assert texts == [("options", "| option | value |\n|---|---|\n| lr | 0.1 |\n| rounds | 2 |")]
