"""A run whose manifest was changed after it was scored: what stands on it says so."""

import json
from pathlib import Path

import pytest
from conftest import make_chain
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.errors import FedcliError
from fedcli.methods import resolve
from fedcli.scores import table
from fedcli.scores.scores import RunScores
from fedcli.scores.table import Score, Where


@pytest.fixture(scope="module")
def edited(tmp_path_factory) -> Path:
    """A scored run with another label."""
    folder = tmp_path_factory.mktemp("edited")
    line = [
        "train",
        "fedavg",
        make_chain(folder),
        "--rounds",
        1,
        "--work",
        folder,
        "--engine",
        "in-process",
    ]
    assert typed(*line).exit_code == typed("evaluate", "--work", folder).exit_code == 0
    (path,) = folder.glob("runs/*/run.json")
    text = path.read_text(encoding="utf-8")
    label = resolve("fedavg").label
    assert f'"label": "{label}"' in text
    path.write_text(text.replace(f'"label": "{label}"', '"label": "Better"'), encoding="utf-8")
    return path


def typed(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.mark.parametrize("command", ["evaluate", "report", "inspect"])
def test_it_is_refused_with_what_was_made_from_it(command, edited):
    ended = typed(command, edited)
    assert ended.exit_code == 3
    assert f"{edited} has changed since" in ended.stderr
    assert "restore it; or, if the run was trained again, remove" in ended.stderr


def test_what_is_not_made_from_it_is_shown(edited):
    partition = next(path for path in edited.parents[2].rglob("partition.json"))
    assert typed("inspect", partition).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("partition", "dataset"),
        ("partition", "dataset", "--iid"),
        ("partition", "--merge", "dataset"),
        ("train", "fedavg", "partition", "--rounds", "1"),
        ("train", "fedavg", "partition", "--prior", "none"),
        ("corrupt", "clients", "partition", "--kind", "scale"),
        ("train", "fedavg", "fedheal", "partition"),
        ("train", "fedavg", "dataset", "--over", "hold-out=all"),
        ("site", "describe", "--data", "partition"),
    ],
)
def test_data_whose_manifest_lacks_its_keys_are_refused_in_a_sentence(words, tmp_path):
    path_of_kind = {
        path.stem: path for path in [make_chain(tmp_path), *tmp_path.rglob("dataset.json")]
    }
    for path in path_of_kind.values():
        path.write_text(
            json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"body": {}}),
            encoding="utf-8",
        )
    ended = typed(
        words[0], *(path_of_kind.get(word, word) for word in words[1:]), "--work", tmp_path
    )
    assert ended.exit_code == 1
    assert "body.classes is missing" in ended.stderr


@pytest.mark.parametrize(
    "words",
    [("train", "fedavg"), *(("plot", name) for name in ("counts", "quality", "divergence"))],
)
def test_a_manifest_of_another_kind_is_refused(words, edited):
    (scores,) = edited.parent.glob("scores/*/scores.json")
    ended = typed(*words, scores, "--work", edited.parents[2])
    assert ended.exit_code == 1
    assert f"{scores} is a scores manifest; this command reads" in ended.stderr


def test_counts_that_are_not_of_each_class_are_refused(tmp_path):
    path = make_chain(tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["body"]["roster"][1]["class_counts"][0]
    name = content["body"]["roster"][1]["client"]
    path.write_text(json.dumps(content), encoding="utf-8")
    train = ["train", "fedavg", path, "--rounds", "1"]
    for words in (["inspect", path], train, ["corrupt", "clients", path, "--kind", "scale"]):
        ended = typed(*words, "--work", tmp_path)
        assert ended.exit_code == 1
        assert f"{path}: class_counts of {name} are not of each class" in ended.stderr


def test_an_attack_in_scores_is_checked_before_it_is_shown(edited):
    (path,) = edited.parent.glob("scores/*/scores.json")
    body = json.loads(path.read_text(encoding="utf-8"))["body"]
    body["data"]["partition"]["options"]["attack"] = {
        "kind": "scale",
        "strength": 10.0,
        "seed": 0,
        "clients": [7],
    }
    with pytest.raises(FedcliError, match=r"scores.json: attack: clients\[0\] is"):
        RunScores.of(body, path)


def test_a_warning_in_scores_that_is_no_text_is_refused(edited, tmp_path):
    (path,) = edited.parent.glob("scores/*/scores.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["body"]["warning"] = [1]
    (copy := tmp_path / "scores.json").write_text(json.dumps(content), encoding="utf-8")
    ended = typed("report", copy)
    assert ended.exit_code == 1
    assert f"{copy}: body.warning is '[1]', not text" in ended.stderr


def test_scores_whose_rounds_do_not_agree_are_refused(tmp_path):
    whole = {
        Where("clean", attribute="sex", group=group, metric="accuracy"): Score([0.5, 1.0], [1, 2])
        for group in ("female", "male")
    }
    path = tmp_path / "scores.csv"
    table.write(path, whole)
    assert table.read(path) == whole
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:-2], lines[-1]]), encoding="utf-8")
    with pytest.raises(FedcliError, match="accuracy of male has no score of some rounds"):
        table.read(path)
    path.write_text("\n".join([*lines, lines[-1]]), encoding="utf-8")
    with pytest.raises(FedcliError, match="accuracy has a score of one round twice"):
        table.read(path)
