"""A run whose manifest was changed after it was scored: what stands on it says so."""

import json
from pathlib import Path

import pytest
from conftest import make_chain
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.methods import resolve


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
    assert "restore it; or, where the run was trained again, remove" in ended.stderr


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
        ("attack", "partition", "--kind", "scale"),
        ("sweep", "fedavg", "fedheal", "partition"),
        ("sweep", "fedavg", "dataset", "--over", "hold-out=all"),
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
