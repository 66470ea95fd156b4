"""predictions.h5 beside the scores."""

import h5py
import numpy as np
import pytest
from evaluated_runs import a_run, logits_of, scorer

from fedcli.data import manifest
from fedcli.errors import FedcliError, HashError
from fedcli.scores.predictions import read


@pytest.fixture
def scores_of(monkeypatch):
    return scorer(monkeypatch)


def test_predictions_lie_beside_the_scores(tmp_path, scores_of):
    run = a_run(tmp_path)
    path = scores_of(run)
    expected = tmp_path / "run" / "scores"
    assert path.parent.parent == expected
    with h5py.File(path.parent / "predictions.h5") as file:
        assert sorted(file) == ["group", "id", "logits", "y"]
        result = {version: sorted(rounds) for version, rounds in file["logits"].items()}
        expected = {
            "clean": ["4", "5", "6"],
            "corrupted": ["4", "5", "6"],
        }
        assert result == expected
        stored = file["logits/corrupted/5"]
        assert stored.dtype == np.float32
        assert (stored[()] == logits_of(run, 5, "corrupted")).all()
        assert (file["y"][()] == run.data.test["clean"].y.numpy()).all()
        assert file["id"][3].decode() == "é3"
        assert (file["group/sex"][()] == run.data.test["clean"].groups["sex"].numpy()).all()
        assert sorted(file["group"]) == ["age", "sex"]


def test_predictions_are_read_back_as_they_were_written(tmp_path, scores_of):
    units = np.array([f"patient ö{i // 2}" for i in range(90)])
    run = a_run(tmp_path, units=units, own={"south": range(10, 20)})
    path = scores_of(run).parent / "predictions.h5"
    contents = read(path)
    assert (contents.y == run.data.test["clean"].y.numpy()).all()
    assert contents.y.dtype == np.int64
    assert (contents.unit == units).all()
    assert contents.id[3] == "é3"
    assert (contents.groups["sex"] == run.data.test["clean"].groups["sex"].numpy()).all()
    result = {version: list(rounds) for version, rounds in contents.logits.items()}
    expected = {
        "clean": [4, 5, 6],
        "corrupted": [4, 5, 6],
    }
    assert result == expected
    assert (contents.logits["corrupted"][5] == logits_of(run, 5, "corrupted")).all()
    result = (
        contents.clients,
        {row: rows_tested.tolist() for row, rows_tested in contents.tests.items()},
    )
    expected = (
        {},
        {2: list(range(10, 20))},
    )
    assert result == expected
    monkeypatch = a_run(tmp_path / "another")
    path = scores_of(monkeypatch).parent / "predictions.h5"
    assert read(path).unit is None


def test_a_file_that_holds_no_predictions_is_refused(tmp_path):
    with h5py.File(tmp_path / "pool.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(FedcliError, match="has no dataset 'y'"):
        read(tmp_path / "pool.h5")


def test_a_changed_prediction_is_noticed(tmp_path, scores_of):
    path = scores_of(a_run(tmp_path))
    with (path.parent / "predictions.h5").open("ab") as file:
        file.write(b"!")
    with pytest.raises(HashError, match=r"predictions.h5"):
        manifest.verify(path)


CHANGES = [
    ("id", lambda ids: np.concatenate([ids, ids]), "90 rows for 180 images"),
    ("group/sex", lambda values: values[:5], "group/sex has 5 rows for 90 images"),
    ("y", lambda y: y + 9, "y has labels that are none of its"),
    ("clients/2/test", lambda rows: rows + 85, "places outside of its 90 images"),
    ("logits/clean/5", lambda logits: logits[:, :1], "logits are of 1 and of"),
]


@pytest.mark.parametrize(("name", "change", "words"), CHANGES)
def test_columns_that_cannot_belong_together_are_refused(tmp_path, scores_of, name, change, words):
    own = {"south": range(10, 20)}
    monkeypatch = a_run(tmp_path, own=own)
    path = scores_of(monkeypatch).parent / "predictions.h5"
    with h5py.File(path, "r+") as file:
        values = change(file[name][()])
        del file[name]
        file[name] = values
    with pytest.raises(FedcliError, match=words):
        read(path)
