import json

import h5py
import numpy as np
import pytest
from conftest import make_chain

from fedcli.data.shard import load, load_tests
from fedcli.errors import FedcliError

CHANGES = {
    "classes": ["a", "b", "d"],
    "attributes": {"sex": ["f"]},
    "size": [8, 9],
    "channels": 3,
}


@pytest.mark.parametrize("corrupted", [False, True])
@pytest.mark.parametrize(("key", "value"), CHANGES.items())
def test_a_chain_that_differs_in_what_its_images_are_is_refused(tmp_path, key, value, corrupted):
    path = make_chain(tmp_path, corrupted=corrupted)
    record = json.loads(path.read_text())
    body = record["body"] | {key: value}
    path.write_text(json.dumps(record | {"body": body}))
    with pytest.raises(FedcliError, match=f"{path.name}: {key} differs from that of "):
        load(path)


def test_a_dataset_without_an_attribute_of_its_images_is_refused(tmp_path):
    make_chain(tmp_path)
    path = tmp_path / "datasets" / "made" / "dataset.json"
    record = json.loads(path.read_text())
    body = record["body"] | {"attributes": {}}
    path.write_text(json.dumps(record | {"body": body}))
    with pytest.raises(
        FedcliError, match=r"holds 'sex' of each image, which is no attribute of dataset.json"
    ):
        load_tests(path, channels=1)


def test_test_images_know_their_patient(tmp_path):
    patients = load(make_chain(tmp_path, corrupted=True)).test_patients
    expected = [f"patient-{i // 2}" for i in range(80, 120)]
    assert patients.tolist() == expected


def test_an_image_of_an_unknown_patient_stands_for_itself(tmp_path):
    path = make_chain(tmp_path)
    with h5py.File(tmp_path / "datasets" / "made" / "pool.h5", "r+") as file:
        file["unit"][[80, 90]] = b""
    patients = load(path).test_patients
    result = (patients[0], patients[1], patients[10])
    assert result == (
        "image img-80",
        "patient-40",
        "image img-90",
    )
    assert len(np.unique(patients)) == 22


def test_a_dataset_that_tells_no_patients_has_none(tmp_path):
    path = make_chain(tmp_path)
    with h5py.File(tmp_path / "datasets" / "made" / "pool.h5", "r+") as file:
        del file["unit"]
    assert load(path).test_patients is None
