"""Images of every class and attribute, by client and part."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from session import run

import fedcli
from fedcli.data import image_counts
from fedcli.data.pool import Pool, read_pool
from fedcli.errors import FedcliError
from fedcli.reporting import page


@pytest.fixture(scope="module")
def dataset(work):
    return fedcli.prepare("phantom", size=16, sample_images=240, work=work, jobs=1)


def test_every_image_of_a_dataset_and_of_a_partition_is_counted_once(dataset, tmp_path):
    path = dataset.path.parent / "pool.h5"
    pool = read_pool(path)
    counts = image_counts.of_manifest(dataset.path)
    expected = ["class", *dataset.body["attributes"]]
    assert list(counts) == expected
    for name, clients in counts.items():
        parts = {part: sum(values.values()) for part, values in clients["all"].items()}
        expected = {
            "train": dataset.body["split"]["train"],
            "test": dataset.body["split"]["test"],
        }
        assert parts == expected, name
    women = (pool.groups["sex"] == 0) & (pool.split == 1)
    result = counts["sex"]["all"]["test"]["female"]
    assert result == women.sum()

    partition = fedcli.partition(dataset, iid=True, clients=3, val=0.2, work=tmp_path)
    counts = image_counts.of_manifest(partition.path)
    for client in partition.body["roster"]:
        of_client = counts["class"][client["client"]]
        assert list(of_client["train"].values()) == client["class_counts"]
        assert sum(counts["sex"][client["client"]]["val"].values()) == client["val"] > 0
    totals = image_counts.totals(partition.path)
    for client in partition.body["roster"]:
        expected = {"train": client["train"], "val": client["val"]}
        assert totals[client["client"]] == expected
    assert totals["all"] == {"test": dataset.body["split"]["test"]}
    result = counts["sex"]["all"]["test"]["female"]
    assert result == women.sum()

    body = json.loads(partition.path.read_text())
    for changed in ({"sex": []}, {"site": ["north"]}):
        partition.path.write_text(
            json.dumps(body | {"body": body["body"] | {"attributes": changed}})
        )
        with pytest.raises(FedcliError, match=r"partition.json: its values of"):
            image_counts.of_manifest(partition.path)


def test_unknown_values_are_counted_as_such(tmp_path):
    sex = np.array([0, -1, 1, -1])
    groups = {"sex": sex}
    shape = (4, 8, 8, 1)
    split = np.zeros(4)
    pool = Pool(
        tmp_path,
        shape,
        np.array([0, 1, 1, 1]),
        np.array(list("abcd")),
        split,
        None,
        groups,
    )
    body = {"classes": ["x", "y"], "attributes": {"sex": ["female", "male"]}}
    train = np.array([0, 1, 3])
    north = {"train": train, "test": np.array([], int)}
    counts = image_counts.counted(pool, {"north": north}, body)
    train = {"female": 1, "male": 0, "unknown": 2}
    sex = {"north": {"train": train}}
    north = {"train": {"x": 1, "y": 2}}
    expected = {
        "class": {"north": north},
        "sex": sex,
    }
    assert counts == expected
    expected = (
        ["client", "part", "female", "male", "unknown"],
        [["north", "train", "1", "0", "2"]],
    )
    assert image_counts.lines(counts["sex"]) == expected


def test_a_skewed_attribute_stands_in_the_partitions_line_and_an_even_one_does_not(
    dataset, tmp_path, capsys
):
    capsys.readouterr()
    fedcli.partition(dataset, by=["site"], work=tmp_path)
    assert "their sites" not in capsys.readouterr().err  # which is what divides the clients
    path = dataset.path.parent / "pool.h5"
    women = read_pool(path)
    names = {0: "north", 1: "south"}
    lines = [
        f"{id},{names[sex]}"
        for id, sex in zip(women.id, women.groups["sex"], strict=True)
        if sex >= 0
    ]
    (tmp_path / "who.csv").write_text("image,client\n" + "\n".join(lines) + "\n")
    clients_file = tmp_path / "who.csv"
    fedcli.partition(dataset, clients_file=clients_file, work=tmp_path)
    assert "100 % of their sexes" in capsys.readouterr().err
    fedcli.partition(dataset, iid=True, clients=2, work=tmp_path)
    assert "their sexes" not in capsys.readouterr().err


def test_inspect_and_the_page_show_them(dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    partition = fedcli.partition(dataset, iid=True, clients=2)
    for data in (dataset, partition):
        output = run(f"fedcli inspect {data.path}")
        assert "female" in output
        assert "white" in output
        assert "sha256" not in output
        assert "materialize" not in output
    command = f"fedcli inspect {partition.path} --json"
    result = json.loads(run(command))["counts"]
    assert result == image_counts.of_manifest(partition.path)
    scores = fedcli.evaluate(fedcli.train("fedavg", partition, rounds=1))
    text = page.write(tmp_path / "page.html", [scores.path]).read_text(encoding="utf-8")
    assert "Images of each client" in text
    assert "female" in text
    assert "asian" in text


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_the_nevi_of_ham10000_are_counted():
    raw = Path(os.environ["FEDCLI_REAL_DATA"], "ham10000")
    from raw_folders import completed

    from fedcli.data.sources import card
    from fedcli.data.sources.skin import isic2018

    rows = isic2018.rows(raw, completed(8, "lesion")).rows
    y = np.array([row.label for row in rows])
    split = np.array([int(row.test) for row in rows])
    shape = (len(rows), 8, 8, 3)
    pool = Pool(raw, shape, y, np.array([row.id for row in rows]), split, None, {})
    train = np.flatnonzero(split == 0)
    test = np.flatnonzero(split == 1)
    parts = {"all": {"train": train, "test": test}}
    classes = card("isic2018")["classes"]
    counts = image_counts.counted(pool, parts, {"classes": classes, "attributes": {}})["class"][
        "all"
    ]
    result = counts["train"]["nv"] + counts["test"]["nv"]
    assert result == 6705
