"""fedcli ls: what the runs of a method differ in."""

import json

from conftest import make_chain
from hospitals import prepared, write_hospitals
from typer.testing import CliRunner

import fedcli
from fedcli.commands import ls
from fedcli.commands.app import app
from fedcli.scores.scores import RunScores


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_ls_says_in_what_the_runs_of_a_method_differ(tmp_path):
    data = make_chain(tmp_path)
    for options in (
        ("--lr", 0.01),
        ("--lr", 0.003, "--epochs", 1, "--seed", 1),
        ("--lr", 0.01, "--optimizer", "sgd:nesterov"),
    ):
        sgd = "--optimizer", "sgd", "--rounds", 1
        assert run("train", "fedavg", data, *sgd, *options, "--work", tmp_path).exit_code == 0
        if options == ("--lr", 0.01):
            assert "what differs" not in run("ls", "--work", tmp_path).stdout
    listed = json.loads(run("ls", "--work", tmp_path, "--json").stdout)["run"]
    differences = {"lr 0.01, nesterov no", "lr 0.003, nesterov no", "lr 0.01, nesterov yes"}
    assert {entry["what differs"] for entry in listed} == differences
    assert "sha256" not in (out := run("ls", "--work", tmp_path).stdout)
    for difference in differences:
        assert difference in out


def test_a_run_with_validation_images_shows_their_score_and_no_test_score(tmp_path):
    raw = write_hospitals(tmp_path / "raw", count=60)
    dataset = prepared(raw, tmp_path)
    data = fedcli.partition(dataset, by=["hospital"], val=0.3, work=tmp_path)
    trained = fedcli.train("fedavg", data, rounds=1, work=tmp_path)
    scores = fedcli.evaluate(trained, work=tmp_path)
    (entry,) = json.loads(run("ls", "--work", tmp_path, "--json").stdout)["run"]
    best = RunScores.read(scores.path).best
    assert entry["validation balanced_accuracy (%)"] == 100 * best.validation
    assert "balanced_accuracy (%)" not in entry
    result = f"{100 * best.validation:.1f} (validation)"
    assert result in run("ls", "--work", tmp_path).stdout


def test_generated_images_are_not_called_real():
    made_up = ({"name": "phantom"}, {"dataset": "phantom"})
    own_images = ({"dataset": "toy"}, {"name": "own"})
    result = [ls._origin(body) for body in (*made_up, *own_images, {"sample": True})]
    expected = ["generated"] * 2 + ["real"] * 2 + ["SYNTHETIC"]
    assert result == expected
