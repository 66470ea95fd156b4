"""Classes and values that hospitals agree on, and the test images of a hospital that prepares its own."""

import json

import h5py
import numpy as np
import pytest
from hospitals import prepared, write_hospitals
from typed_lines import fedcli as typed

import fedcli
from fedcli.data import manifest
from fedcli.data.pool import TEST, holdings, pool_of
from fedcli.errors import FedcliError, UsageError
from fedcli.io.files import sha256
from fedcli.sites.description import check_same, describe

AGREED = {"classes": "ill,healthy", "values": "sex=male,female; hospital=south,north,east"}


def described(raw, work, **settings):
    """The description that a hospital with one client gives of itself."""
    columns = {
        "group": ["sex"],
        "site": "hospital",
        "patient": "patient",
        "size": 8,
        "jobs": 1,
        "test": 0.4,
    }
    dataset = fedcli.prepare("images", raw=raw, work=work, set=settings, **columns)
    path = fedcli.partition(dataset, clients=1, work=work).path
    return describe(path, "client-00", work.name)


def lacking(raw, word):
    """The folder without the images whose line has this word."""
    table = raw / "labels.csv"
    table.write_text(
        "".join(line for line in table.read_text().splitlines(True) if f",{word}," not in line)
    )
    return raw


def test_hospitals_that_lack_a_class_or_a_group_have_the_form_of_all(tmp_path):
    raw = write_hospitals(tmp_path / "a")
    work = tmp_path / "north"
    whole = described(raw, work, **AGREED)
    raw = lacking(write_hospitals(tmp_path / "b"), "ill")
    work = tmp_path / "east"
    no_ill = described(raw, work, **AGREED)
    raw = lacking(write_hospitals(tmp_path / "c"), "f")
    work = tmp_path / "south"
    no_women = described(raw, work, **AGREED)
    check_same([whole, no_ill, no_women])
    assert whole["classes"] == ["healthy", "ill"]
    assert whole["attributes"]["sex"] == [
        "female",
        "male",
    ]
    result = no_ill["counts"]["class"]["train"]["ill"]
    assert result == 0
    result = no_women["counts"]["sex"]["train"]["female"]
    assert result == 0


def test_the_agreed_names_change_nothing_where_all_are_there(tmp_path):
    raw = write_hospitals(tmp_path / "raw")
    plain, with_names = (
        described(raw, tmp_path / name, **options) for name, options in (("a", {}), ("b", AGREED))
    )
    assert plain["counts"] == with_names["counts"]
    assert plain["classes"] == with_names["classes"]
    (usual,) = (tmp_path / "a" / "datasets").glob("*/pool.h5")
    (other,) = (tmp_path / "b" / "datasets").glob("*/pool.h5")
    assert usual.read_bytes() == other.read_bytes()


def test_names_that_do_not_fit_the_images_are_refused(tmp_path):
    raw = write_hospitals(tmp_path / "raw")
    for settings, error, sentence in (
        (
            {"classes": "ill,well"},
            FedcliError,
            "the class 'healthy' of some images is none of ill, well",
        ),
        (
            {"values": "sex=female,x"},
            FedcliError,
            "the sex 'male' of some images is none of female, x",
        ),
        ({"values": "race=a,b"}, UsageError, "'race', which is no group"),
        ({"values": "sex"}, UsageError, "values has 'sex'"),
    ):
        with pytest.raises(error, match=sentence):
            work = tmp_path / "work"
            described(raw, work, **settings)


def test_the_test_images_are_the_only_clients_own_unless_they_are_another_hospitals(tmp_path):
    raw = write_hospitals(tmp_path / "raw")
    dataset = prepared(raw, tmp_path)
    alone = fedcli.partition(dataset, clients=1, work=tmp_path).path
    _, rows, test = holdings(alone)
    assert [parts["test"].tolist() for parts in rows.values()] == [test.tolist()] != [[]]
    assert manifest.read(alone).body["scheme"] == "all"
    assert alone.parent.name.startswith("images-all-")
    held_out = fedcli.partition(dataset, clients=1, hold_out="south", work=tmp_path).path
    for parts in holdings(held_out).rows.values():
        assert not len(parts["test"])
    several = fedcli.partition(dataset, clients=2, work=tmp_path).path
    result = [client["test"] for client in manifest.read(several).body["roster"]]
    assert result == [0, 0]
    code, output, _ = typed("site", "check", "--data", alone, "--name", "north")
    assert code == 0
    assert f"counts of the {len(test)} test images" in output


def test_the_only_site_that_trains_has_no_test_images_of_others(tmp_path):
    dataset = prepared(write_hospitals(tmp_path / "raw"), tmp_path).path
    pool = pool_of(dataset)
    hospitals = manifest.read(dataset).body["attributes"]["hospital"]
    trains = next(name for name in hospitals if name != "south")
    with h5py.File(dataset.parent / "pool.h5", "r+") as file:  # the others have test images only
        file["split"][:] = np.where(
            pool.groups["hospital"] == hospitals.index(trains), pool.split, TEST
        )
    raw = json.loads(dataset.read_text())
    path = dataset.parent / "pool.h5"
    raw["files"]["pool.h5"] = sha256(path)
    dataset.write_text(json.dumps(raw))
    by_site = fedcli.partition(dataset, by=["hospital"], work=tmp_path).path
    result = [client["client"] for client in manifest.read(by_site).body["roster"]]
    assert result == [trains]
    test_rows = holdings(by_site).rows[trains]["test"]
    result = {hospitals[hospital] for hospital in pool.groups["hospital"][test_rows]}
    assert result == {trains}
