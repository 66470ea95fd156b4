"""Predictions of runs, remembered while tests look at the runs in turn."""

import shutil

import numpy as np
import pytest
from scored_runs import model, scored

from fedcli.comparison import predicted as module
from fedcli.comparison.predicted import differing, predicted
from fedcli.comparison.resampling import bounds_of_mean
from fedcli.comparison.systems import read
from fedcli.io.files import sha256
from fedcli.metrics import probabilities
from fedcli.scores.table import Score, Where

DRAWN = Score([0.5], [6], low=0.4, high=0.6, interval="percentile by image", units=60)


@pytest.fixture
def paths(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_remembered", {})
    return [scored(tmp_path / f"run{seed}", model(1, seed), seed=seed) for seed in range(3)]


def test_answers_are_read_once_as_long_as_there_is_room(paths, monkeypatch):
    answers = predicted(paths[0])
    assert predicted(paths[0]) is answers
    assert predicted(paths[1]) is not answers
    expected = list(map(sha256, paths[:2]))
    assert list(module._remembered) == expected


def test_those_that_were_asked_for_longest_ago_make_room(paths, monkeypatch):
    monkeypatch.setattr(module, "ROOM", int(2.5 * predicted(paths[0]).nbytes))
    predicted(paths[1])
    predicted(paths[0])
    predicted(paths[2])
    expected = [sha256(paths[0]), sha256(paths[2])]
    assert list(module._remembered) == expected
    monkeypatch.setattr(module, "ROOM", 1)
    assert predicted(paths[1]).y.tolist()
    assert list(module._remembered) == [sha256(paths[1])]


def test_scores_that_replace_others_at_the_same_path_are_read_anew(tmp_path):
    """A notebook may evaluate another run into the same folder."""
    other = scored(tmp_path / "other", model(2, 2))

    def seen(logits):
        shutil.rmtree(tmp_path / "one", ignore_errors=True)
        pairs = [tuple(read([other, scored(tmp_path / "one", logits)]))]
        bounds = bounds_of_mean(pairs[0], Where("clean", metric="accuracy"), [DRAWN] * 2)
        return (
            predicted(pairs[0][1].path).last["clean"][-1].tolist(),
            differing(pairs, Where("clean", metric="accuracy")),
            bounds,
        )

    before = seen(model(2, 2))
    after = seen(model(0, 1))
    assert before[1] == 0 < after[1]  # patients of whom the answers differ
    assert before[0] != after[0]
    assert before[2] != after[2]


def test_answers_whose_mean_differs_by_rounding_alone_do_not_differ(tmp_path):
    """Three rounds, added in two orders."""
    rounds = [*model(1, 0), *model(1, 1)][:3]
    turned = [rounds[2], rounds[0], rounds[1]]
    pair = tuple(read([scored(tmp_path / "a", rounds), scored(tmp_path / "b", turned)]))
    chance = np.stack([probabilities(table) for table in rounds])
    assert (chance.mean(0) != chance[[2, 0, 1]].mean(0)).any()
    assert differing([pair], Where("clean", metric="auc_ovo_macro")) == 0
