import h5py
import numpy as np
from conftest import make_chain

from fedcli.data.shard import load


def test_test_images_know_their_patient(tmp_path):
    known = load(make_chain(tmp_path, corrupted=True)).test_patients
    assert known.tolist() == [f"patient-{i // 2}" for i in range(80, 120)]


def test_an_image_of_an_unknown_patient_stands_for_itself(tmp_path):
    path = make_chain(tmp_path)
    with h5py.File(tmp_path / "datasets" / "made" / "pool.h5", "r+") as file:
        file["unit"][[80, 90]] = b""
    known = load(path).test_patients
    assert (known[0], known[1], known[10]) == ("image img-80", "patient-40", "image img-90")
    assert len(np.unique(known)) == 22


def test_a_dataset_that_tells_no_patients_has_none(tmp_path):
    path = make_chain(tmp_path)
    with h5py.File(tmp_path / "datasets" / "made" / "pool.h5", "r+") as file:
        del file["unit"]
    assert load(path).test_patients is None
