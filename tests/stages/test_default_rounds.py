"""The default number of rounds, and the messages about it."""

import pytest

import fedcli
from fedcli.data import manifest
from fedcli.federation.training import Training, idle
from fedcli.methods import METHODS
from fedcli.reporting import timing
from fedcli.stages.options import TrainOptions
from fedcli.stages.train import resolved


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    """toy's 1,433 training images in even clients, by the number of clients."""
    work = tmp_path_factory.mktemp("work")
    dataset = fedcli.prepare("toy", size=8, work=work)
    paths = {}
    for count in (2, 10, 200):
        paths[count] = fedcli.partition(dataset, iid=True, clients=count, work=work).path
    return paths


ROUNDS = [
    (2, {}, 20),  # 717 images are 23 steps a round
    (10, {"batch_size": 40}, 25),  # 143 or 144 images are 4 steps
    (10, {"batch_size": 40, "epochs": 2}, 20),
    (200, {}, 50),  # 7 images are 1 step
    (200, {"rounds": 7}, 7),
]


@pytest.mark.parametrize(("count", "options", "rounds"), ROUNDS)
def test_few_images_make_more_rounds_which_is_said(clients, count, options, rounds, caplog):
    caplog.set_level("INFO", "fedcli")
    plan = resolved(TrainOptions("fedavg", **options), clients[count])
    assert plan.rounds == rounds
    sentence = f"Training {rounds} rounds, not 20: half of the clients have"
    is_printed = sentence in caplog.text
    assert is_printed == (rounds in (25, 50))


def test_a_method_with_rounds_of_its_own_keeps_them(clients):
    plan = resolved(TrainOptions("crt"), clients[200])
    assert plan.rounds == METHODS["crt"].default_training["rounds"]


def test_the_number_is_recorded(clients, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcli.stages.train.ROUNDS", 1)
    monkeypatch.setattr("fedcli.stages.train.STEPS", 8)
    run = fedcli.train("fedavg", clients[10], batch_size=40, work=tmp_path)
    assert run.body["rounds"] == 2
    assert manifest.read(run.path).options["rounds"] == 2


def test_what_comes_after_the_last_round_is_said():
    result = idle(Training(warmup=3, schedule="step:2:0.1"), 3)
    assert result == []
    (sentence,) = idle(Training(warmup=5), 3)
    assert (
        sentence
        == "warmup=5 of --schedule is longer than the 3 rounds: the learning rate ends at 3/5 of --lr"
    )
    (sentence,) = idle(Training(schedule="step:2,3,40:0.1"), 3)
    assert "no round comes after 3, 40, as there are 3" in sentence


def test_the_speed_of_a_run_is_said_when_it_was_trained_and_not_again(
    clients, tmp_path, monkeypatch, caplog
):
    caplog.set_level("DEBUG", "fedcli")
    monkeypatch.setattr(timing, "speed", lambda folder: f"speed of {folder.name}")
    folder = tmp_path / "a"
    for _ in range(2):
        fedcli.train("fedavg", clients[2], rounds=1, then="crt", work=tmp_path, out=folder)
    assert caplog.text.count("already made") == 2
    assert caplog.text.count("Trained in ") == 2
    assert caplog.text.count("speed of a\n") == 1
    assert caplog.text.count("speed of a-crt\n") == 1
