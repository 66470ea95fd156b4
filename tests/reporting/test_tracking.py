"""`--track`: curves, scores and the page for TensorBoard or MLflow, from what was written; the run keeps its bytes."""

import sys

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
        known = frame[frame["client"] == client]
        assert [event.step for event in board.Scalars(f"loss/{client}")] == [1, 2]
        assert [event.value for event in board.Scalars(f"loss/{client}")] == pytest.approx(
            list(known["loss"])
        )
        assert [event.value for event in board.Scalars(f"weights/{client}")] == pytest.approx(
            list(known["weight"])
        )
    (last,) = board.Scalars("scores/clean balanced_accuracy")
    metrics = scores.body["versions"]["clean"]
    assert last.value == pytest.approx(metrics["balanced_accuracy"]["last"]) and last.step == 2
    assert "<h1>FedAvg" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")  # of MLflow about what it is built on
def test_mlflow_has_one_run_of_training_and_scores(clients, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    run, _ = tracked(clients, tmp_path, f"mlflow:{tmp_path / 'ml'}")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'ml' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("fedcli")
    (made,) = client.search_runs([experiment.experiment_id])
    assert made.info.run_name == run.path.parent.name and made.info.status == "FINISHED"
    assert (
        made.data.params["label"] == "FedAvg"
        and "scores/clean balanced_accuracy" in made.data.metrics
    )
    assert [point.step for point in client.get_metric_history(made.info.run_id, "loss/north")] == [
        1,
        2,
    ]
    assert [file.path for file in client.list_artifacts(made.info.run_id)] == ["report.html"]


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

        def options(self, known):
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
