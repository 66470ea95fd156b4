"""resamples.h5 beside the scores of many images."""

import h5py
import numpy as np
import pytest
from evaluated_runs import a_run, scorer

from fedcli import metrics
from fedcli.comparison.resampling import Resamples, _drawn, _last, _of_last
from fedcli.comparison.systems import read
from fedcli.errors import FedcliError
from fedcli.scores.statistics import resampled
from fedcli.scores.table import Where

PATIENTS = np.array([f"patient {i % 40}" for i in range(90)])
ASKED = ("balanced_accuracy", "auc_ovo_macro")


@pytest.fixture
def scores_of(monkeypatch):
    monkeypatch.setattr(resampled, "RESAMPLES", 30)
    return scorer(monkeypatch)


@pytest.mark.parametrize("units", [None, PATIENTS])
def test_reports_read_what_they_would_draw(tmp_path, scores_of, monkeypatch, units):
    monkeypatch.setattr(resampled, "MANY", 90)
    path = [scores_of(a_run(tmp_path, units=units))]
    (scored,) = read(path)
    assert (scored.path.parent / resampled.FILE).exists()
    questions = [
        Where(version, metric=metric)
        for version in ("clean", "corrupted", "average")
        for metric in ASKED
    ]
    with_file = Resamples(30)
    read_ones = [with_file.drawn(scored, question).tolist() for question in questions]
    monkeypatch.setattr(resampled, "read", lambda folder: {})
    _drawn.cache_clear()
    fresh = Resamples(30)
    result = [fresh.drawn(scored, question).tolist() for question in questions]
    assert result == read_ones


def test_intervals_over_runs_read_what_they_would_draw(tmp_path, scores_of, monkeypatch):
    monkeypatch.setattr(resampled, "MANY", 90)
    path = [scores_of(a_run(tmp_path, units=PATIENTS))]
    (scored,) = read(path)
    read_ones = [_last(scored, Where(version), False)[0] for version in ("clean", "average")]
    monkeypatch.setattr(resampled, "read", lambda folder, last=False: {})
    _of_last.cache_clear()
    for version, columns in zip(("clean", "average"), read_ones, strict=True):
        fresh = _last(scored, Where(version), False)[0]
        result = {m: c.tolist() for m, c in fresh.items()}
        expected = {m: c.tolist() for m, c in columns.items()}
        assert result == expected


@pytest.mark.parametrize("units", [None, PATIENTS])
def test_intervals_of_groups_over_runs_read_what_they_would_draw(
    tmp_path, scores_of, monkeypatch, units
):
    monkeypatch.setattr(resampled, "MANY", 90)
    path = [scores_of(a_run(tmp_path, units=units), by=["sex", "age"])]
    (scored,) = read(path)
    groups = [("sex", "male"), ("age", "young"), ("age", "eldest")]
    questions = [
        Where(version, "", *group) for group in groups for version in ("clean", "corrupted")
    ]
    read_ones = [_last(scored, question, False)[0] for question in questions]
    with monkeypatch.context() as patched:
        patched.setattr(resampled, "read_group", lambda folder, attribute, group: {})
        _of_last.cache_clear()
        fresh = [_last(scored, question, False)[0] for question in questions]
    for columns, stored in zip(fresh, read_ones, strict=True):
        result = {m: c.tolist() for m, c in columns.items()}
        expected = {m: c.tolist() for m, c in stored.items()}
        assert result == expected
    with h5py.File(scored.path.parent / resampled.FILE, "a") as file:
        del file["groups/0/1/clean/accuracy"]
        file["groups/0/1/clean/accuracy"] = np.zeros(7)
    with pytest.raises(
        FedcliError, match="does not hold 1000 resamples of groups/0/1/clean/accuracy"
    ):
        resampled.read_group(scored.path.parent, 0, 1)
    outcome = resampled.read_group(tmp_path / "none", 0, 1)
    assert outcome == {}


def test_other_resamples_than_those_that_are_kept_are_drawn(tmp_path, scores_of, monkeypatch):
    monkeypatch.setattr(resampled, "MANY", 90)
    path = [scores_of(a_run(tmp_path))]
    (scored,) = read(path)
    monkeypatch.setattr(resampled, "read", lambda folder: pytest.fail("it was read"))
    outcome = len(Resamples(20).drawn(scored, Where("clean", metric="balanced_accuracy")))
    assert outcome == 20
    result = len(Resamples(30, 1).drawn(scored, Where("clean", metric="auc_ovo_macro")))
    assert result == 30


def test_scores_of_few_images_keep_none(tmp_path, scores_of):
    assert not (scores_of(a_run(tmp_path)).parent / resampled.FILE).exists()


def test_scores_of_many_models_keep_none(tmp_path, monkeypatch):
    monkeypatch.setattr(resampled, "MANY", 1)
    two = [np.zeros((3, 2)), np.zeros((3, 2))]
    resampled.write(
        tmp_path, {"clean": [two]}, np.array([0, 1, 0]), np.array(["a", "b", "c"]), None
    )
    assert not list(tmp_path.iterdir())


def test_a_file_of_other_resamples_or_scores_is_refused(tmp_path):
    with h5py.File(tmp_path / resampled.FILE, "w") as file:
        for metric in metrics.names(metrics.CLASSES, resampled=True):
            file[f"clean/{metric}"] = np.zeros(resampled.RESAMPLES)
            file[f"last/clean/{metric}"] = np.zeros(7)
    expected = set(metrics.names(metrics.CLASSES, resampled=True))
    result = resampled.read(tmp_path)["clean"].keys()
    assert result == expected
    with h5py.File(tmp_path / resampled.FILE, "a") as file:
        del file["clean/accuracy"]
    with pytest.raises(
        FedcliError, match=f"{resampled.FILE} does not hold 2000 resamples of all clean scores"
    ):
        resampled.read(tmp_path)
    with pytest.raises(FedcliError, match="does not hold 1000 resamples of last/clean/"):
        resampled.read(tmp_path, last=True)
    assert resampled.read(tmp_path / "none") == {}
