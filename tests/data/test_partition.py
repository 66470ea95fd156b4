"""The partition stage: what it writes, and what it refuses."""

import itertools
import json
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
from partitions import dataset, everyone, fedism, names, partition

from fedcli.data import manifest
from fedcli.data.partition import make_partition, resolve
from fedcli.data.pool import read_pool
from fedcli.errors import FedcliError, UsageError


def test_balanced_clients_are_even_or_have_the_minimum(tmp_path):
    options = {"scheme": "dirichlet-balanced", "clients": 4, "alpha": 0.3}
    even, lifted = (
        partition(tmp_path, **options, minimum=minimum)[1]["roster"] for minimum in (0, 5)
    )
    result = [client["train"] for client in even]
    assert result == [15] * 4
    assert 5 <= min(client["train"] for client in lifted) < 15


def test_only_training_images_are_divided_and_the_test_set_stays_whole(tmp_path):
    _, body, arrays = partition(tmp_path, scheme="iid", clients=4)
    assert names(body) == ["client-00", "client-01", "client-02", "client-03"]
    expected = [k for k in range(80) if k % 4 != 3]
    assert everyone(arrays, "train") == expected
    expected = list(range(3, 80, 4))
    assert arrays["test"]["all"].tolist() == expected
    assert everyone(arrays, "val") == everyone(arrays, "test") == []
    assert arrays["train"]["0"].dtype == np.int64


def test_the_roster_counts_what_the_rows_hold(tmp_path):
    path, body, arrays = partition(tmp_path, scheme="dirichlet", clients=4, alpha=5.0, val=0.2)
    y = read_pool(manifest.parent(path, "dataset").parent / "pool.h5").y
    for k, client in enumerate(body["roster"]):
        expected = len(arrays["train"][str(k)])
        assert client["train"] == expected
        assert client["val"] == len(arrays["val"][str(k)]) > 0
        expected = np.bincount(y[arrays["train"][str(k)]], minlength=3).tolist()
        assert client["class_counts"] == expected
    expected = [k for k in range(80) if k % 4 != 3]
    assert sorted(everyone(arrays, "train", "val")) == expected


@pytest.mark.parametrize("clients", [1, 4])
def test_it_says_how_many_images_are_kept_for_validation(tmp_path, capsys, clients):
    _, body, _ = partition(tmp_path, scheme="dirichlet", alpha=5.0, clients=clients, val=0.2)
    counts = [client["val"] for client in body["roster"]]
    range_of_clients = f", {min(counts)} to {max(counts)} of each client" if clients > 1 else ""
    sentence = f"{sum(counts)} training images are kept for validation{range_of_clients}\n"
    assert min(counts) < max(counts) or clients == 1
    assert sentence in capsys.readouterr().err


def test_it_warns_where_no_image_is_kept_for_validation(tmp_path, capsys):
    partition(tmp_path, scheme="iid", clients=4, val=0.02)
    assert (
        "warning: --val 0.02 keeps no image for validation: the clients have too few\n"
        in capsys.readouterr().err
    )
    partition(tmp_path, scheme="iid", clients=4)
    assert "validation" not in capsys.readouterr().err


def test_the_body_carries_what_later_stages_need(tmp_path):
    _, body, _ = partition(tmp_path, scheme="fedism", clients=4, corrupted=1)
    result = {
        name: body[name]
        for name in ("dataset", "scheme", "size", "channels", "augment", "corrupted_last")
    }
    expected = {
        "dataset": "toy",
        "scheme": "fedism",
        "size": [4, 4],
        "channels": 1,
        "augment": "none",
        "corrupted_last": 1,
    }
    assert result == expected
    assert body["classes"] == ["a", "b", "c"]
    assert set(body["attributes"]) == {"sex", "center"}


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "iid", "clients": 4},
        {"scheme": "dirichlet", "clients": 4, "alpha": 5.0},
        {"scheme": "dirichlet-balanced", "clients": 4, "alpha": 0.3, "minimum": 5},
        {"scheme": "dirichlet-balanced", "clients": 4, "alpha": 0.3},
        {"scheme": "shards", "clients": 4, "shards": 2},
        {"scheme": "by", "by": ["sex"]},
        {"scheme": "shares", "clients": 4, "by": ["sex"], "shares": "0.8,0.2"},
        {"scheme": "fedism", "clients": 4, "corrupted": 1},
        {"scheme": "fedmrl", "clients": 4, "eta": 0.7},
        {"scheme": "fedmrl-authors", "clients": 4},
        {"scheme": "iid", "clients": 4, "keep_units": True},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_the_same_options_write_the_same_bytes(tmp_path, options):
    paths = [partition(tmp_path / name, val=0.1, materialize=True, **options)[0] for name in "ab"]
    files = [sorted(path.parent.rglob("*.*")) for path in paths]
    result = [f.relative_to(paths[0].parent) for f in files[0]]
    expected = [f.relative_to(paths[1].parent) for f in files[1]]
    assert result == expected
    result = [f.read_bytes() for f in files[0]]
    expected = [f.read_bytes() for f in files[1]]
    assert result == expected


def test_equal_options_give_the_same_partition_and_unknown_ones_are_refused(tmp_path):
    path = partition(tmp_path, scheme="iid", clients=4)[0]
    result = partition(tmp_path, scheme="iid", clients="4", keep_units=False)[0]
    assert result == path
    result = partition(tmp_path, scheme="iid", clients=4, seed=1)[0]
    assert result != path
    with pytest.raises(UsageError, match="the partition scheme iid has no option 'alpha'"):
        partition(tmp_path, scheme="iid", alpha=9.0)


def test_the_fedism_seed_counts_from_the_authors_own(tmp_path):
    _, _, arrays = partition(tmp_path, scheme="fedism", clients=4, corrupted=1, alpha=2.0)
    rows = np.array([k for k in range(80) if k % 4 != 3])
    expected = fedism(rows % 3, 4, 1, 2.0, 2024)
    result = [arrays["train"][str(k)].tolist() for k in range(4)]
    assert result == [rows[part].tolist() for part in expected]


def test_natural_sites_have_their_values_names_and_their_own_test_images(tmp_path, capsys):
    _, body, arrays = partition(tmp_path, scheme="by", by=["sex"])
    assert names(body) == ["female", "male"]
    assert body["dropped"] == 5
    assert "5 training images have an unknown attribute" in capsys.readouterr().err
    assert arrays["test"]["0"].tolist() == []  # every fourth image is odd, and odd is male
    expected = list(range(7, 80, 4))
    assert arrays["test"]["1"].tolist() == expected
    expected = list(range(3, 80, 4))
    assert arrays["test"]["all"].tolist() == expected


def test_sites_by_two_attributes_are_their_pairs(tmp_path):
    _, body, arrays = partition(tmp_path, scheme="by", by=["center", "sex"])
    assert names(body) == [
        "St. Anna/1+female",
        "St. Anna/1+male",
        "st_anna 1+female",
        "st_anna 1+male",
    ]
    for k in arrays["train"]["1"]:
        assert k % 3 % 2 == 0
        assert k % 2 == 1


def test_one_row_of_shares_is_rotated(tmp_path):
    rows = partition(tmp_path, scheme="shares", clients=4, by=["sex"], shares="0.9,0.1")[2]["train"]
    rows_in_full = partition(
        tmp_path, scheme="shares", clients=4, by=["sex"], shares="0.9,0.1;0.1,0.9"
    )[2]["train"]
    result = [rows[str(k)].tolist() for k in range(4)]
    expected = [rows_in_full[str(k)].tolist() for k in range(4)]
    assert result == expected
    female = [np.mean(rows[str(k)] % 2 == 0) for k in range(4)]
    assert min(female[:2]) > 0.8
    assert max(female[2:]) < 0.3


def test_validation_keeps_lesions_whole_within_a_client(tmp_path):
    _, _body, arrays = partition(tmp_path, scheme="iid", clients=3, val=0.3)
    for k in range(3):
        train, val = (set(arrays[part][str(k)] // 3) for part in ("train", "val"))
        assert val
        assert not train & val


def test_lesions_shared_between_clients_are_counted(tmp_path, capsys):
    _, body, arrays = partition(tmp_path, scheme="iid", clients=4)
    lesions_of_clients = [set(arrays["train"][str(k)] // 3) for k in range(4)]
    clients_of_lesion = Counter(itertools.chain(*lesions_of_clients))
    in_several = sum(count > 1 for count in clients_of_lesion.values())
    assert body["unit_overlap"] == in_several > 0
    assert (
        f"{body['unit_overlap']} lesions lie in more than one client's data"
        in capsys.readouterr().err
    )


def test_a_pool_without_lesions_has_no_overlap_to_count(tmp_path):
    assert (
        partition(tmp_path, units=False, scheme="iid", clients=4, val=0.2)[1]["unit_overlap"]
        is None
    )


def test_a_site_file_holds_the_clients_images_train_then_val_then_test(tmp_path):
    path, body, arrays = partition(tmp_path, scheme="by", by=["sex"], val=0.2, materialize=True)
    site = read_pool(path.parent / "sites" / "male.h5")
    rows = np.concatenate([arrays[part]["1"] for part in ("train", "val", "test")])
    expected = [f"i{k}" for k in rows]
    assert site.id.tolist() == expected
    result = site.pixels()[:, 0, 0, 0].tolist()
    assert result == rows.tolist()
    male = body["roster"][1]
    expected = [0] * (male["train"] + male["val"]) + [1] * male["test"]
    assert site.split.tolist() == expected
    expected = [1] * len(rows)
    assert site.groups["sex"].tolist() == expected


def test_site_files_get_safe_and_distinct_names(tmp_path):
    path, _, _ = partition(tmp_path, scheme="by", by=["center"], materialize=True)
    result = sorted(file.name for file in (path.parent / "sites").iterdir())
    assert result == [
        "St_Anna_1-0.h5",
        "st_anna_1-1.h5",
    ]


@pytest.mark.parametrize(
    ("options", "sentence", "hint"),
    [
        (
            {"scheme": "dirichlett"},
            "unknown partition scheme 'dirichlett'",
            "did you mean 'dirichlet'?",
        ),
        (
            {"scheme": "iid", "clients": 0},
            "clients=0 is out of range: it must be >= 1",
            "number of clients",
        ),
        (
            {"scheme": "dirichlet", "alpha": 0.0},
            "alpha=0.0 is out of range: it must be > 0",
            "very uneven",
        ),
        ({"scheme": "dirichlet", "alpha": float("nan")}, "alpha=nan is not finite", "very uneven"),
        ({"scheme": "shards", "shards": 0}, "shards=0 is out of range", "per client"),
        ({"scheme": "by", "by": ["sx"]}, "no attribute 'sx'", "did you mean 'sex'?"),
        ({"scheme": "by"}, "the partition scheme by needs by: attributes", "--set by=VALUE"),
        ({"scheme": "by", "by": []}, "needs an attribute", "--by center"),
        (
            {"scheme": "shares", "by": ["sex", "center"], "shares": "1,1"},
            "exactly one attribute",
            "--by center",
        ),
        ({"scheme": "shares", "by": ["sex"]}, "--shares is missing", "female, male"),
        (
            {"scheme": "shares", "by": ["sex"], "shares": "0.9;0.1"},
            "rows of 2 numbers",
            "female, male",
        ),
        ({"scheme": "shares", "by": ["sex"], "shares": "a,b"}, "rows of 2 numbers", "female, male"),
        (
            {"scheme": "shares", "by": ["sex"], "shares": "0.9,0.1;0.2,0.9"},
            "shares of 'female' are 0.9, 0.2",
            "female",
        ),
        ({"scheme": "shares", "by": ["sex"], "shares": "1.5,0;-0.5,1"}, "at least 0", "female"),
        (
            {"scheme": "shares", "by": ["sex"], "shares": "1,0", "clients": 1},
            "1 client for 2 rows",
            "--clients 2",
        ),
        (
            {"scheme": "fedism"},
            "fedism needs corrupted: number of last clients",
            "--set corrupted=VALUE",
        ),
        (
            {"scheme": "fedism", "corrupted": 1, "alpha": 1e7},
            "must be in [0.001, 1000000]",
            "authors",
        ),
        (
            {"scheme": "fedism", "clients": 4, "corrupted": 4},
            "1 to 3 corrupted clients, not 4",
            "of 20",
        ),
        (
            {"scheme": "fedmrl", "eta": 1.5},
            "eta=1.5 is out of range: it must be in [0, 1]",
            "the authors have 1",
        ),
        (
            {"scheme": "fedism", "corrupted": 2, "keep_units": True},
            "fedism has no option 'keep_units'",
            "clients",
        ),
        (
            {"scheme": "file"},
            "the partition scheme file needs clients_file: a CSV",
            "--set clients_file",
        ),
        (
            {"scheme": "file", "clients_file": Path("a.npy"), "client_column": "x"},
            "a.npy has no columns",
            "leave",
        ),
        (
            {"scheme": "file", "clients_file": Path("a.csv"), "order_file": Path("b.csv")},
            "no order of rows",
            "leave",
        ),
        ({"scheme": "iid", "corrupted": 2}, "iid has no option 'corrupted'", "clients"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path, options, sentence, hint):
    with pytest.raises(UsageError) as error:
        partition(tmp_path, **options)
    assert sentence in error.value.sentence
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("options", "sentence", "hint"),
    [
        (
            {"scheme": "iid", "clients": 61},
            "60 training images cannot be divided among 61 clients",
            "fewer --clients",
        ),
        (
            {"scheme": "dirichlet", "clients": 20, "alpha": 0.01},
            "gets no training images (and so do",
            "--dirichlet 10, fewer --clients, another --seed, or --balanced",
        ),
        (
            {"scheme": "dirichlet-balanced", "clients": 4, "minimum": 16},
            "cannot give 4 clients 16 each",
            "fewer",
        ),
        (
            {"scheme": "iid", "clients": 4, "minimum": 16},
            "client-00 gets 15 training images",
            "minimum",
        ),
        (
            {"scheme": "shards", "clients": 20, "shards": 4},
            "cannot give 20 clients 4 each",
            "fewer --clients",
        ),
        (
            {"scheme": "by", "by": ["sex"], "minimum": 30},
            "client male gets 18",
            "--minimum, another attribute for --by",
        ),
        (
            {"scheme": "fedism", "clients": 60, "corrupted": 2, "alpha": 5.0},
            "training images",
            "try --dirichlet 50",
        ),
    ],
)
def test_clients_without_enough_images_are_refused(tmp_path, options, sentence, hint):
    with pytest.raises(FedcliError) as error:
        partition(tmp_path, **options)
    assert sentence in error.value.sentence
    assert hint in error.value.hint
    assert not (tmp_path / "partitions").exists() or list((tmp_path / "partitions").iterdir()) == []


def test_an_attribute_nobody_knows_cannot_divide(tmp_path):
    path = dataset(tmp_path)
    with h5py.File(path.parent / "pool.h5", "r+") as file:
        file["group/sex"][...] = -1
    raw = json.loads(path.read_text())
    raw["files"]["pool.h5"] = manifest.sha256(path.parent / "pool.h5")
    path.write_text(json.dumps(raw))
    with pytest.raises(FedcliError, match="no training image has a known sex"):
        scheme = resolve("by", {"by": ["sex"]})
        make_partition(path, scheme, manifest.Destination(tmp_path))
