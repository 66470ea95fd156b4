"""Answers of runs, remembered while tests look at the runs in turn."""

import pytest
from scored_runs import model, scored

from fedcli.reporting import answers as module
from fedcli.reporting.answers import answers


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_known", {})
    return [scored(tmp_path / f"run{seed}", model(1, seed), seed=seed) for seed in range(3)]


def test_answers_are_read_once_as_long_as_there_is_room(paths, monkeypatch):
    first = answers(paths[0])
    assert answers(paths[0]) is first and answers(paths[1]) is not first
    assert list(module._known) == paths[:2]


def test_those_that_were_asked_for_longest_ago_make_room(paths, monkeypatch):
    monkeypatch.setattr(module, "ROOM", int(2.5 * answers(paths[0]).nbytes))
    answers(paths[1])
    answers(paths[0])
    answers(paths[2])
    assert list(module._known) == [paths[0], paths[2]]
    monkeypatch.setattr(module, "ROOM", 1)
    assert answers(paths[1]).y.tolist() and list(module._known) == [paths[1]]
