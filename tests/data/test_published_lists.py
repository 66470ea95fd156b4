"""A sample of the images, and the lists that FedISM's authors publish."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from raw_folders import completed, prepare, write_csv, write_skin

from fedcli.data import manifest
from fedcli.data.partition import resolve
from fedcli.data.pool import Pool, Row, read_pool
from fedcli.data.preparation import given_tables
from fedcli.data.sources.division import sample_rows, split_rows
from fedcli.errors import FedcliError, UsageError

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "fedism_partitions.json").read_text()
)["partitions"]
ROWS = [Row(f"{label}-{i}", label, None) for label, n in enumerate([60, 30, 10]) for i in range(n)]


def sampled(count, **options):
    return [
        row.id for row in sample_rows(ROWS, completed(16, "image", sample_images=count, **options))
    ]


def test_a_sample_has_its_size_keeps_the_order_and_depends_on_the_seed_alone():
    ids = sampled(40)
    assert len(ids) == 40
    expected = [row.id for row in ROWS if row.id in ids]
    assert ids == expected
    choices = completed(16, "image", sample_images=40)
    rows = ROWS[::-1]
    again = sample_rows(rows, choices)
    assert {row.id for row in again} == set(ids) != set(sampled(40, seed=1))
    assert sampled(100) == sampled(None) == [row.id for row in ROWS]


def test_a_stratified_sample_has_each_class_in_proportion():
    result = Counter(id[0] for id in sampled(11, stratified=True))
    assert result == {"0": 7, "1": 3, "2": 1}


def test_a_sample_is_drawn_before_the_split_so_that_its_shares_are_exact():
    choices = completed(16, "image", sample_images=50, stratified=True)
    rows = split_rows(ROWS, choices, by_patient=False)
    expected = {
        (0, False): 24,
        (0, True): 6,
        (1, False): 12,
        (1, True): 3,
        (2, False): 4,
        (2, True): 1,
    }
    result = Counter((row.label, row.test) for row in rows)
    assert result == expected


@pytest.fixture
def skin(tmp_path):
    rows = [[f"L{i}", f"i{i:02d}", "nv" if i % 4 < 2 else "mel", 30, "male"] for i in range(20)]
    return write_skin(
        tmp_path,
        rows,
    )


def run(tmp_path, **options):
    work = tmp_path / "work"
    return prepare("isic2018", raw=tmp_path, work=work, size=8, jobs=1, **options)


def test_a_sample_is_recorded_and_what_it_leaves_out_is_no_skipped_file(skin, tmp_path):
    record = manifest.read(run(tmp_path, sample_images=12, stratified=True, split="image"))
    assert record.body["count"] == 12
    assert record.body["skipped"] == []
    assert record.body["split"]["test"] == 4
    result = (record.options["sample_images"], record.options["stratified"])
    assert result == (12, True)
    assert "--sample-images 12:stratified --seed 0" in " ".join(record.made_by)
    assert "sample_images" not in manifest.read(run(tmp_path)).options


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sample_images": 21}, "--sample-images 21, but there are only 20 usable images"),
        ({"stratified": True}, "stratified is about a sample"),
    ],
)
def test_a_sample_that_cannot_be_is_refused(skin, tmp_path, options, sentence):
    with pytest.raises(FedcliError, match=sentence) as error:
        run(tmp_path, **options)
    assert error.value.hint


def test_a_train_csv_and_the_test_csv_beside_it_are_a_split(skin, tmp_path):
    folder = tmp_path / "lists"
    folder.mkdir()
    rows = [[f"i{i:02d}", 0] for i in range(12)]
    write_csv(folder / "train.csv", ["id", "class"], rows)
    with pytest.raises(FedcliError, match="no split column"):
        split_file = folder / "train.csv"
        run(tmp_path, split_file=split_file)
    rows = [[f"i{i:02d}", 0] for i in range(12, 15)]
    write_csv(folder / "test.csv", ["id", "class"], rows)
    for name in ("train.csv", "test.csv"):
        record = manifest.read(path := run(tmp_path, split_file=folder / name))
        pool = read_pool(path.parent / "pool.h5")
        result = pool.id[pool.split == 1].tolist()
        assert result == ["i12", "i13", "i14"]
        assert len(pool.id) == 15
        result = {record.options["split_file"]["name"], record.options["split_file_beside"]["name"]}
        assert result == {
            "train.csv",
            "test.csv",
        }
    rows = [["i11", 0]]
    write_csv(folder / "test.csv", ["id", "class"], rows)
    with pytest.raises(FedcliError, match="i11 is in"):
        rows = [Row(f"i{i:02d}", 0, None) for i in range(12)]
        given_tables.by_file(rows, folder / "train.csv", None)


# the authors' clients


def authors(tmp_path, name):
    """A pool of the authors' class counts in another order than their train.csv, and that file."""
    y = np.repeat(np.arange(5), VECTORS[name]["class_counts"])
    ids = np.array([f"ID_{row}" for row in range(len(y))])
    order = np.random.default_rng(1).permutation(len(y))
    rows = [[id, label] for id, label in zip(ids, y, strict=True)]
    path = tmp_path / "train.csv"
    write_csv(
        path,
        ["id", "class"],
        rows,
    )
    split = np.zeros(len(y), np.uint8)
    shape = (len(y), 8, 8, 1)
    path = tmp_path / "pool.h5"
    pool = Pool(
        path,
        shape,
        y[order],
        ids[order],
        split,
        None,
        {},
    )
    return pool, {id: row for row, id in enumerate(ids)}


def fingerprint(division, pool, line_of):
    """sha256 of the clients' lines of train.csv, as the vectors have it."""
    lines = []
    for rows in division.train.values():
        numbers = sorted(line_of[id] for id in pool.id[rows])
        lines.append(",".join(map(str, numbers)))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


DATASET = {"attributes": {}, "clients": 20}


@pytest.mark.parametrize(("name", "corrupted"), [("rsna-ich-4", 4), ("rsna-ich-6", 6)])
def test_the_fedism_scheme_in_the_order_of_train_csv_gives_all_twenty_published_clients(
    tmp_path, name, corrupted
):
    pool, line_of = authors(tmp_path, name)
    scheme = resolve("fedism", {"corrupted": corrupted, "order_file": tmp_path / "train.csv"})
    division = scheme.divide(pool, DATASET, 0, 0)
    assert fingerprint(division, pool, line_of) == VECTORS[name]["sha256"]
    result = scheme.recorded(DATASET)["order_file"]["name"]
    assert result == "train.csv"
    bare = resolve("fedism", {"corrupted": corrupted})
    result = fingerprint(bare.divide(pool, DATASET, 0, 0), pool, line_of)
    assert result != VECTORS[name]["sha256"]
    assert "order_file" not in bare.recorded(DATASET)


def test_the_published_npy_gives_the_same_twenty_clients(tmp_path):
    pool, line_of = authors(tmp_path, "rsna-ich-4")
    order = {"corrupted": 4, "order_file": tmp_path / "train.csv"}
    method = resolve("fedism", order)
    rows_of_clients = method.divide(pool, DATASET, 0, 0).train.values()
    lists = {}
    for k, rows in enumerate(rows_of_clients):
        lists[k] = [np.int64(line_of[id]) for id in pool.id[rows]]
    np.save(tmp_path / "clients.npy", np.array(lists, dtype=object), allow_pickle=True)
    files = {"clients_file": tmp_path / "clients.npy", "order_file": tmp_path / "train.csv"}
    method = resolve("file", files)
    division = method.divide(pool, DATASET, 0, 0)
    assert fingerprint(division, pool, line_of) == VECTORS["rsna-ich-4"]["sha256"]


@pytest.mark.parametrize(
    ("ids", "sentence"), [(["a"], "names 1 of the 2 training images"), (["a", "b", "x"], "1 image")]
)
def test_an_order_of_other_images_is_refused(tmp_path, ids, sentence):
    rows = [[id, 0] for id in ids]
    path = tmp_path / "train.csv"
    write_csv(path, ["id", "class"], rows)
    split = np.zeros(2, np.uint8)
    shape = (2, 8, 8, 1)
    pool = Pool(
        tmp_path,
        shape,
        np.zeros(2, int),
        np.array(["a", "b"]),
        split,
        None,
        {},
    )
    scheme = resolve("fedism", {"corrupted": 1, "clients": 2, "order_file": tmp_path / "train.csv"})
    with pytest.raises(FedcliError, match=sentence) as error:
        scheme.divide(pool, DATASET, 0, 0)
    assert "--split-file" in error.value.hint


def test_an_order_file_needs_a_scheme_that_reads_it():
    from fedcli.stages.options import PartitionOptions
    from fedcli.stages.partition import scheme_of

    with pytest.raises(UsageError, match="--order-file is about a file of clients or --fedism"):
        options = PartitionOptions(order_file="train.csv", iid=True)
        scheme_of(options, DATASET)
