"""Attributes that are unknown in training for a share of patients."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROSTER

import fedcli
from fedcli.data import manifest, shard
from fedcli.data.corruption.hidden_attributes import groups_without, hidden
from fedcli.errors import FedcliError, UsageError

HOW = {"hide": ["sex"], "share": 0.3, "seed": 0, "images": {"north": {}}}


def pool(images=3000, images_of_patient=3):
    """Patients of three images; the last images have no patient."""
    patient = np.array(
        [f"p{k // images_of_patient}" if k < images - 6 else "" for k in range(images)]
    )
    sex = np.arange(images) % 3 - 1
    groups = {"sex": sex}
    return SimpleNamespace(
        id=np.array([f"i{k}" for k in range(images)]),
        patient=patient,
        groups=groups,
    )


def test_the_share_of_patients_that_was_asked_for_loses_all_of_its_images():
    is_hidden = hidden(pool(), np.arange(3000), "sex", HOW, "north")
    by_patient = is_hidden[:2994].reshape(-1, 3)
    assert (by_patient.all(1) == by_patient.any(1)).all()
    expected = pytest.approx(0.3, abs=0.05)
    assert is_hidden.mean() == expected  # 3.4 standard deviations of 1,000 patients


def test_a_draw_is_of_the_seed_the_client_the_attribute_and_the_patient_alone():
    rows = np.random.default_rng(1).permutation(3000)[:500]
    whole = hidden(pool(), np.arange(3000), "sex", HOW, "north")
    assert (hidden(pool(), rows, "sex", HOW, "north") == whole[rows]).all()
    for other in (
        (HOW | {"seed": 1}, "sex", "north"),
        (HOW, "age", "north"),
        (HOW, "sex", "south"),
    ):
        how, name, client = other
        assert (hidden(pool(), np.arange(3000), name, how, client) != whole).any()


def test_nothing_and_everything():
    rows = np.arange(30)
    assert not hidden(pool(), rows, "sex", HOW | {"share": 0.0}, "north").any()
    hidden_attributes = HOW | {"share": 1.0}
    body = {"hidden_attributes": hidden_attributes}
    assert (groups_without(pool(), rows, body, "north")["sex"] == -1).all()
    assert (
        groups_without(pool(), rows, {"hidden_attributes": HOW}, "south")
        == {}
        == groups_without(pool(), rows, {}, "x")
    )


@pytest.fixture(scope="module")
def partly(work, source):
    return fedcli.corrupt(source, "attributes", hide=["sex"], share=0.5, on=[ROSTER[0]], work=work)


def test_training_groups_of_the_clients_that_were_chosen_are_hidden_and_nothing_else(
    source, partly
):
    before = shard.load(source)
    after = shard.load(partly.path)
    for client in ROSTER:
        groups_before = before.train[client].groups["sex"]
        groups_after = after.train[client].groups["sex"]
        result = set(groups_after[groups_after != groups_before].tolist())
        assert result <= {-1}
        lost = int((groups_after != groups_before).sum())
        assert (lost > 0) == (client == ROSTER[0])
        result = partly.body["hidden_attributes"]["images"].get(client, {})
        expected = {"sex": lost} if client == ROSTER[0] else {}
        assert result == expected
        expected = after.train[client].y.tolist()
        assert before.train[client].y.tolist() == expected
        result = before.val[client].groups["sex"].tolist()
        assert result == after.val[client].groups["sex"].tolist()
    result = before.test["clean"].groups["sex"].tolist()
    expected = after.test["clean"].groups["sex"].tolist()
    assert result == expected


def test_it_is_a_partition_that_labels_and_images_are_changed_on_and_group_methods_train_on(
    partly, source, work
):
    again = fedcli.corrupt(source, "attributes", hide=["sex"], share=0.5, on=[ROSTER[0]], work=work)
    assert partly.kind == "partition"
    assert partly == again
    result = set(manifest.verify(partly.path).files)
    assert result == {"rows.h5"}
    labels = fedcli.corrupt(partly, "labels", rate=0.5, on=[ROSTER[1]], work=work)
    images = fedcli.corrupt(labels, "gaussian", ratio=0.25, work=work, jobs=1)
    assert images.body["hidden_attributes"] == partly.body["hidden_attributes"]
    loaded = shard.load(images.path).train
    result = loaded[ROSTER[0]].groups["sex"].tolist()
    expected = shard.load(partly.path).train[ROSTER[0]].groups["sex"].tolist()
    assert result == expected
    run = fedcli.train("group-dro", images, rounds=1, work=work)
    assert fedcli.evaluate(run, by=["sex"]).body["groups"]


def test_labels_that_were_changed_before_stay_changed(source, work):
    noisy = fedcli.corrupt(source, "labels", rate=0.5, on=[ROSTER[1]], work=work)
    both = fedcli.corrupt(noisy, "attributes", hide=["sex"], work=work)
    result = set(both.body["hidden_attributes"]["images"])
    assert result == set(ROSTER)  # every client, where none is named
    labels, labels_after = (
        shard.load(data.path).train[ROSTER[1]].y.tolist() for data in (noisy, both)
    )
    assert labels == labels_after


def test_files_of_single_sites_are_left_out_since_they_hold_the_groups(source, work):
    dataset = manifest.above(source, "dataset")
    divided = fedcli.partition(dataset, clients=2, materialize=True, work=work)
    assert any(name.startswith("sites/") for name in manifest.read(divided.path).files)
    hidden_sex = fedcli.corrupt(divided, "attributes", hide=["sex"], share=1.0, work=work)
    result = set(manifest.verify(hidden_sex.path).files)
    assert result == {"rows.h5"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "no attribute to hide"),
        ({"hide": ["race"]}, "'race', which is no attribute"),
        ({"hide": ["sex"], "share": 1.5}, "share=1.5 is out of range"),
        ({"hide": ["sex"], "on": ["nowhere"]}, "no client 'nowhere'"),
        ({"hide": ["sex"], "severity": 4}, "--severity is for images"),
        ({"hide": ["sex"], "ratio": 0.5}, "--ratio is for images and labels"),
        ({"hide": ["sex"], "rate": 0.5}, "--rate is for labels"),
    ],
)
def test_mistakes_are_explained(source, work, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        fedcli.corrupt(source, "attributes", work=work, **options)


def test_what_it_is_not_for_is_refused(partly, source, work):
    with pytest.raises(FedcliError, match="has hidden attributes already"):
        fedcli.corrupt(partly, "attributes", hide=["sex"], work=work)
    images = fedcli.corrupt(source, "gaussian", ratio=0.25, work=work, jobs=1)
    with pytest.raises(FedcliError, match="attributes are hidden before images are"):
        fedcli.corrupt(images, "attributes", hide=["sex"], work=work)
    with pytest.raises(FedcliError, match="attributes are hidden before images are"):
        fedcli.corrupt(images.path.parent, "attributes", hide=["sex"], work=work)
    with pytest.raises(UsageError, match="--hide is for attributes"):
        fedcli.corrupt(source, "labels", hide=["sex"], work=work)


def test_it_says_how_many_of_the_known_groups_are_hidden(source, tmp_path, capsys):
    hidden_sex = fedcli.corrupt(
        source, "attributes", hide=["sex"], share=1.0, on=[ROSTER[0]], work=tmp_path
    )
    count = hidden_sex.body["hidden_attributes"]["images"][ROSTER[0]]["sex"]
    assert f"hidden in training: sex of {count} of {count} images;" in " ".join(
        capsys.readouterr().err.split()
    )
