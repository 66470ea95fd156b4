"""Several kinds and severities of corruption over the clients of one federation."""

import h5py
import numpy as np
import pytest

import fedcli
from fedcli.data import manifest
from fedcli.data.corruption import mixture
from fedcli.data.corruption.corrupt import corrupt_image
from fedcli.data.pool import read_pool
from fedcli.errors import FedcliError, UsageError
from fedcli.runs.finished import open_run
from fedcli.scores import severities


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    dataset = fedcli.prepare("phantom", size=16, sample_images=240, work=work, jobs=1)
    return work, fedcli.partition(dataset, iid=True, clients=4, work=work)


def corrupt(parts, source=None, kind=None, **options):
    work, partition = parts
    return fedcli.corrupt(source or partition, kind, work=work, jobs=1, **options)


def test_adding_to_a_corruption_and_naming_the_clients_are_the_same_bytes(parts):
    noisy = corrupt(parts, kind="gaussian", severity=1, ratio=0.25)
    both = corrupt(parts, noisy, "contrast", severity=4, on=["client-00"])
    by_client = corrupt(parts, client=["client-03=gaussian:1", "client-00=contrast:4"])
    assert both.body == by_client.body
    assert both.manifest.files == by_client.manifest.files
    result = (both.body["kind"], both.body["clients"])
    assert result == ("mixed", ["client-00", "client-03"])
    expected = [
        {"kind": "contrast", "severity": 4, "clients": ["client-00"]},
        {"kind": "gaussian-noise", "severity": 1, "clients": ["client-03"]},
    ]
    assert both.body["each"] == expected
    assert "each" not in noisy.body


def test_one_kind_named_client_by_client_is_the_plain_corruption(parts):
    plain = corrupt(parts, kind="gaussian", on=["client-01", "client-02"])
    by_client = corrupt(parts, client=["client-01=gaussian:3", "client-02=gaussian"])
    assert by_client.body == plain.body
    assert by_client.manifest.files == plain.manifest.files


def test_every_image_is_corrupted_as_its_client_is_and_test_images_as_one_of_them(parts):
    mixed = corrupt(parts, client=["client-00=contrast:4", "client-03=gaussian:1"])
    dataset = manifest.parent(mixed.path, "dataset")
    path = dataset.parent / "pool.h5"
    pool = read_pool(path)
    with h5py.File(manifest.parent(mixed.path, "partition").parent / "rows.h5") as file:
        rows_of = {k: set(file[f"train/{k}"][()].tolist()) for k in (0, 3)}
    with h5py.File(mixed.path.parent / "changed.h5") as file:
        train, test = (
            dict(zip(file[f"{part}/rows"][()].tolist(), file[f"{part}/x"][()], strict=True))
            for part in ("train", "test")
        )
    expected = rows_of[0] | rows_of[3]
    assert set(train) == expected

    def changed(row, kind, severity):
        image = pool.pixels(np.array([row]))[0]
        return corrupt_image(image, pool.id[row], kind=kind, severity=severity, seed=0)

    for row, image in list(train.items())[::9]:
        expected = changed(row, *(("contrast", 4) if row in rows_of[0] else ("gaussian-noise", 1)))
        assert np.array_equal(image, expected)
    kinds = set()
    for row, image in list(test.items())[:12]:
        has_contrast = np.array_equal(image, changed(row, "contrast", 4))
        has_noise = np.array_equal(image, changed(row, "gaussian-noise", 1))
        assert has_contrast != has_noise
        kinds.add("contrast" if has_contrast else "noise")
    assert kinds == {"contrast", "noise"}


def test_each_client_is_scored_on_test_images_corrupted_as_its_own(parts):
    work, _ = parts
    data = corrupt(parts, client=["client-00=contrast:5", "client-03=gaussian:5"])
    run = fedcli.train("fedavg", data, rounds=1, work=work)
    scores = fedcli.evaluate(run, by=["sex"], corrupt=["contrast", "gaussian"], severity=["5"])
    clients = scores.body["clients"]
    levels = scores.body["severities"]
    for client, kind in (("client-00", "contrast"), ("client-03", "gaussian-noise")):
        assert clients[client]["corruption"] == f"{kind} 5"
        assert clients[client]["version"] == "corrupted"
        expected = levels[kind]["5"]["scores"]["accuracy"]
        assert clients[client]["accuracy"] == expected
        assert levels[kind]["5"]["severity_in_training"]
    assert "corruption" not in clients["client-01"]
    result = set(severities.differing(open_run(run.path)))
    assert result == {"client-00", "client-03"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "no kind of corruption"),
        ({"client": ["client-00"]}, "is not NAME=KIND:SEVERITY"),
        ({"client": ["client-00=gausian:3"]}, "unknown corruption"),
        ({"client": ["client-00=gaussian:6"]}, "severity is 6"),
        ({"client": ["client-00=gaussian:x"]}, "severity is x"),
        ({"client": ["north=gaussian:3"]}, "no client 'north'"),
        ({"client": ["client-00=shot:1", "client-00=shot:2"]}, "client-00 is given twice"),
        (
            {"client": ["client-00=shot:1"], "kind": "contrast", "on": ["client-00"]},
            "client-00 is corrupted already",
        ),
    ],
)
def test_what_cannot_be_is_refused(parts, options, sentence):
    with pytest.raises(UsageError, match=sentence) as error:
        corrupt(parts, **options)
    assert error.value.hint


def test_a_client_keeps_the_corruption_it_has_and_its_seed(parts):
    noisy = corrupt(parts, kind="gaussian", on=["client-03"])
    with pytest.raises(UsageError, match="client-03 has gaussian-noise 3 already"):
        corrupt(parts, noisy, client=["client-03=contrast:1"])
    with pytest.raises(UsageError, match="was made with seed 0"):
        corrupt(parts, noisy, "contrast", seed=1)
    mixed = corrupt(parts, noisy, "contrast", ratio=0.5)
    expected = {
        "client-01": ("contrast", 3),
        "client-02": ("contrast", 3),
        "client-03": ("gaussian-noise", 3),
    }
    assert mixture.of_body(mixed.body) == expected
    with pytest.raises(UsageError, match="4 more clients, but 3 are clean"):
        corrupt(parts, noisy, "contrast", ratio=1)


def test_clients_that_share_an_image_cannot_be_corrupted_differently():
    rows = {"a": np.array([1, 2]), "b": np.array([2, 3])}
    with pytest.raises(FedcliError, match="also another client's"):
        how_by_client = {"a": ("contrast", 1), "b": ("contrast", 2)}
        mixture.train_hows(rows, how_by_client)
    how_by_client = {"a": ("contrast", 1), "b": ("contrast", 1)}
    result = mixture.train_hows(rows, how_by_client)[0].tolist()
    assert result == [
        1,
        2,
        3,
    ]
