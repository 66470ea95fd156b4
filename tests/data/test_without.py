"""Sites that are left out of training and of the test images."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from raw_folders import write_pool

import fedcli
from fedcli.data import manifest
from fedcli.data.partition import held_out
from fedcli.data.pool import Row, holdings, pool_of
from fedcli.errors import FedcliError, UsageError

SITES = ["north", "south", "west"]


@pytest.fixture
def dataset(tmp_path) -> Path:
    """12 images: every third one of a site, the last six test."""
    rows = [Row(f"i{i}", i // 3 % 2, None, i >= 6, {"center": i % 3}) for i in range(12)]

    def build(folder: Path) -> dict:
        images = [np.full((4, 4, 1), i, np.uint8) for i in range(12)]
        path = folder / "pool.h5"
        write_pool(
            path,
            rows,
            images,
            ["center"],
        )
        body = {
            "classes": ["a", "b"],
            "attributes": {"center": SITES},
            "size": [4, 4],
            "channels": 1,
        }
        return body | {
            "augment": "none",
            "name": "made",
            "clients": 2,
            "sites": "center",
            "unit": None,
            "count": 12,
        }

    return manifest.stage(
        "dataset",
        folder=tmp_path / "made",
        made_by=["prepare"],
        options={},
        parents=[],
        build=build,
    )


def parts(partition) -> tuple[dict[str, list[int]], list[int]]:
    """Client -> its training images, and the test images."""
    _, rows_of, test = holdings(partition.path)
    return {name: rows["train"].tolist() for name, rows in rows_of.items()}, test.tolist()


def test_a_site_leaves_training_and_the_test_images(dataset, tmp_path, capsys):
    partition = fedcli.partition(dataset, by=["center"], without=["west"], work=tmp_path)
    expected = ({"north": [0, 3], "south": [1, 4]}, [6, 7, 9, 10])
    assert parts(partition) == expected
    expected = [{"attribute": "center", "value": "west", "images": 4}]
    assert partition.body["left_out"] == expected
    assert "without west: 2 training images, 2 test images left out" in capsys.readouterr().err
    result = parts(fedcli.partition(dataset, without=["center=west", "south"], work=tmp_path))[0]
    assert result == {"north": [0, 3]}
    dealt = fedcli.partition(dataset, iid=True, clients=2, without=["west"], work=tmp_path)
    rows_by_client, _ = parts(dealt)
    result = sorted(itertools.chain(*rows_by_client.values()))
    assert result == [0, 1, 3, 4]
    result = manifest.read(dealt.path).options["without"]
    expected = [{"attribute": "center", "value": "west"}]
    assert result == expected


def test_a_partition_without_the_option_says_nothing_of_it(dataset, tmp_path):
    partition = fedcli.partition(dataset, by=["center"], work=tmp_path)
    assert "left_out" not in partition.body
    assert "without" not in partition.manifest.options


def test_a_client_of_a_file_or_a_site_in_it_leaves(dataset, tmp_path):
    file = tmp_path / "clients.json"
    ids_by_client = {"x": ["i0", "i1", "i6"], "y": ["i2", "i3", "i8"], "z": ["i2", "i5"]}
    file.write_text(json.dumps(ids_by_client))
    partition = fedcli.partition(dataset, clients_file=file, without=["y"], work=tmp_path)
    expected = ({"x": [0, 1], "z": [2, 5]}, [6, 7, 9, 10, 11])
    assert parts(partition) == expected
    partition = fedcli.partition(dataset, clients_file=file, without=["west"], work=tmp_path)
    expected = ({"x": [0, 1], "y": [3]}, [6, 7, 9, 10])
    assert parts(partition) == expected
    assert (pool_of(dataset).split < 2).all()


def test_a_value_that_is_called_all_is_held_out_where_there_are_no_sites():
    dataset = {"name": "own", "sites": "", "attributes": {"cover": ["all", "part"]}}
    result = held_out.held_out("all", (), dataset)
    assert result == held_out.HeldOutSite("cover", "all")
    with pytest.raises(UsageError, match="names no sites"):
        held_out.sites("all", (), dataset)  # of a sweep: each site in turn
    result = [site.value for site in held_out.sites("cover=all", (), dataset)]
    assert result == ["all", "part"]
    attributes = {**dataset["attributes"], "center": ["x", "y"]}
    with_sites = dataset | {
        "sites": "center",
        "attributes": attributes,
    }
    result = held_out.held_out("all", (), with_sites)
    assert result == held_out.HeldOutSite("cover", "all")
    result = [site.value for site in held_out.sites("all", (), with_sites)]
    assert result == ["x", "y"]


def test_wrong_names_are_refused_with_the_nearest(dataset, tmp_path):
    with pytest.raises(UsageError, match="center is never 'nort'") as error:
        fedcli.partition(dataset, by=["center"], without=["nort"], work=tmp_path)
    assert "did you mean 'north'?" in error.value.hint
    file = tmp_path / "clients.json"
    file.write_text(json.dumps({"alpha": ["i0", "i1"]}))
    with pytest.raises(UsageError, match="no site or client is called 'alfa'") as error:
        fedcli.partition(dataset, clients_file=file, without=["alfa"], work=tmp_path)
    assert "did you mean 'alpha'?" in error.value.hint
    with pytest.raises(FedcliError, match="no training image"):
        fedcli.partition(dataset, by=["center"], without=SITES, work=tmp_path)
