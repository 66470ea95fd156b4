import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import make_chain
from tables_of_numbers import rows

from fedcli.commands.inspect import inspect
from fedcli.data import manifest, skew
from fedcli.data.partition import make_partition, resolve
from fedcli.data.partition.build import _differences
from fedcli.data.skew import describe, distances, entropies, readable, shared

AUTHORS = json.loads((Path(__file__).parents[1] / "vectors" / "fedmrl_clients.json").read_text())[
    "class_counts"
]


def clients(counts):
    """Names, disjoint rows and labels of clients with these class counts [K, C]."""
    counts = np.array(counts)
    y = np.concatenate([np.repeat(np.arange(counts.shape[1]), row) for row in counts])
    parts = np.split(np.arange(len(y)), counts.sum(1).cumsum()[:-1])
    return [f"site-{k}" for k in range(len(counts))], parts, y, counts.shape[1]


def test_the_fedmrl_authors_four_clients_are_almost_alike():
    description = describe(*clients(AUTHORS))
    result = round(description["total_variation"]["max"], 3)
    assert result == 0.008  # their "non-IID" clients
    expected = {"min": 2803, "max": 2849, "ratio": 1.016411}
    assert description["images"] == expected
    assert description["classes_per_client"] == 7


def test_distances_are_half_the_summed_differences():
    mix = np.array(rows("0.5 0.5 0.0; 0.25 0.25 0.5; 0.0 0.0 1.0"))
    result = np.concatenate(list(distances(mix))).tolist()
    assert result == [0.5, 1.0, 0.5]
    counts = rows("4 4 0; 1 1 2; 0 0 4")
    description = describe(*clients(counts))
    expected = {
        "max": 1.0,
        "mean": 0.666667,
        "between": ["site-0", "site-2"],
    }
    assert description["total_variation"] == expected
    expected = {
        "site-0": 0.375,
        "site-1": 0.125,
        "site-2": 0.625,
    }
    assert description["total_variation_to_pooled"] == expected
    assert description["classes_per_client"] == 2


def test_clients_of_one_mix_have_no_distance_whatever_their_size():
    counts = rows("1 2; 3 6; 7 14")
    description = describe(*clients(counts))
    assert description["total_variation"]["max"] == description["total_variation"]["mean"] == 0
    result = set(description["total_variation_to_pooled"].values())
    assert result == {0}
    expected = {"min": 3, "max": 21, "ratio": 7}
    assert description["images"] == expected


def test_clients_without_a_common_class_have_distance_one():
    counts = rows("5 0 0; 0 3 0; 0 0 9")
    description = describe(*clients(counts))
    assert description["total_variation"]["max"] == description["total_variation"]["mean"] == 1
    result = set(description["entropy_nats"].values())
    assert result == {0}


def test_entropy_is_the_log_of_the_classes_where_they_are_even():
    mix = np.array([[0.25] * 4, [0.5, 0.5, 0, 0]])
    result = entropies(mix)
    expected = pytest.approx(np.log([4, 2]))
    assert result == expected


def test_images_and_lesions_in_several_clients_are_counted_once_each():
    y = np.zeros(6, int)
    lesion = np.array([0, 0, 1, 2, 2, 3])
    parts = [np.array([0, 2]), np.array([1, 2, 3]), np.array([2, 4, 5])]
    description = describe(["a", "b", "c"], parts, y, 1, lesion)
    assert description["images_in_several"] == {"count": 1, "share": 0.166667}  # image 2
    assert description["units_in_several"] == shared(parts, lesion) == 3  # lesions 0, 1, 2
    assert describe(["a", "b", "c"], parts, y, 1)["units_in_several"] is None


def test_one_client_alone_has_no_distance():
    description = describe(["all"], [np.arange(4)], np.array([0, 1, 1, 1]), 2)
    expected = {"max": None, "mean": None, "between": None}
    assert description["total_variation"] == expected
    for line in readable(description):
        assert "(total variation" not in line


def partition(tmp_path, *, scheme, val=0.0, **options):
    """A partition of 80 images of three classes, two to a patient, and its body."""
    dataset = manifest.parent(make_chain(tmp_path), "dataset")
    to = manifest.Destination(tmp_path, made_by=["partition"])
    path = make_partition(dataset, resolve(scheme, options), to, val=val)
    return path, manifest.verify(path, "partition").body


def test_a_partition_writes_its_skew_and_says_it_in_the_line_about_sizes(tmp_path, capsys):
    path, body = partition(tmp_path, scheme="dirichlet", clients=4, alpha=5.0, val=0.2)
    with h5py.File(path.parent / "rows.h5") as file:
        whole = []
        for k in range(4):
            whole.append(np.concatenate([file[f"train/{k}"][()], file[f"val/{k}"][()]]))
    image = np.arange(120)
    expected = describe([f"client-{k:02d}" for k in range(4)], whole, image % 3, 3, image // 2)
    assert body["skew"] == expected
    assert body["skew"]["units_in_several"] == body["unit_overlap"] > 0
    largest = expected["total_variation"]["max"]
    sentence = f"The two most different clients differ in {100 * largest:.0f} % of their labels"
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("pairs", [1, 7, 1000])
def test_distances_are_the_same_in_pieces_of_any_size(monkeypatch, pairs):
    counts = np.random.default_rng(0).integers(0, 9, (23, 4)) + 1
    whole = describe(*clients(counts.tolist()))
    monkeypatch.setattr(skew, "PAIRS", pairs)
    result = describe(*clients(counts.tolist()))
    assert result == whole
    mix = counts / counts.sum(1, keepdims=True)
    row, column = np.triu_indices(23, 1)
    expected = np.abs(mix[row] - mix[column]).sum(1) / 2
    result = np.concatenate(list(distances(mix))).tolist()
    assert result == expected.tolist()
    names = [f"site-{k}" for k in range(23)]
    furthest = expected.round(6).argmax()
    expected = [names[row[furthest]], names[column[furthest]]]
    assert whole["total_variation"]["between"] == expected


@pytest.mark.parametrize(
    ("attribute", "plural"),
    [
        ("age", "ages"),
        ("sex", "sexes"),
        ("race", "races"),
        ("ethnicity", "ethnicities"),
        ("display", "displays"),
        ("skin_tone", "values of skin_tone"),
        ("Scanner", "values of Scanner"),
    ],
)
def test_differences_are_said_of_any_attribute(attribute, plural):
    shares = {attribute: 0.41}
    result = _differences("clients", 3, 0.59, shares)
    assert result == (
        f"The two most different clients differ in 59 % of their labels and 41 % of their {plural}."
    )
    assert (
        _differences("hospitals", 2, 0.59, {})
        == "The two hospitals differ in 59 % of their labels."
    )


def test_clients_of_one_size_are_no_range(tmp_path, capsys):
    partition(tmp_path, scheme="iid", clients=1)
    assert "1 client with 80 images" in capsys.readouterr().err


def test_inspect_shows_first_who_holds_what_and_last_how_it_was_made(tmp_path, capsys):
    path, body = partition(tmp_path, scheme="dirichlet", clients=4, alpha=5.0, val=0.2)
    capsys.readouterr()
    inspect(str(path), json=False)
    lines = [line for line in capsys.readouterr().out.splitlines() if "─" not in line]
    expected = f"partition {path.parent.name}, of made"
    assert lines[0] == expected
    for line in lines:
        assert len(line) <= 100
    heading = next(k for k, line in enumerate(lines) if line.split()[:1] == ["client"])
    expected = ["client", *body["classes"], "train", "val", "test"]
    assert lines[heading].split() == expected
    for line, client in zip(lines[heading + 1 :], body["roster"], strict=False):
        numbers = [*client["class_counts"], client["train"], client["val"], client["test"]]
        expected = [client["client"], *map(str, numbers)]
        assert line.split() == expected
    assert "hashes: verified" not in lines
    assert "options:" not in lines
    inspect(str(path), everything=True, json=False)
    result = set(capsys.readouterr().out.splitlines())
    assert {"hashes: verified", "options:", "parents:", "files:", "overlap:"} <= result


def test_inspect_says_it_in_words_and_skips_a_manifest_without_it(tmp_path, capsys):
    path, body = partition(tmp_path, scheme="shards", clients=4, shards=1)
    inspect(str(path), everything=True, json=False)
    out = capsys.readouterr().out
    distance = body["skew"]["total_variation"]
    result = f"{distance['max']:.3f} at most ({' and '.join(distance['between'])})"
    assert result in out
    assert "images in more than one client: 0 (0.0 %)" in out

    without = tmp_path / "partitions" / "made"
    assert "skew" not in manifest.read(without).body
    inspect(str(without), everything=True, json=False)
    assert "skew" not in capsys.readouterr().out


@pytest.mark.parametrize("pairs_at_once", [1, 100])
def test_of_pairs_with_the_same_distance_the_first_is_named(monkeypatch, pairs_at_once):
    monkeypatch.setattr(skew, "PAIRS", pairs_at_once)
    mix = np.array(rows("1 0; 1 0; 0 1; 0 1"))
    between = skew._between(list("abcd"), mix)
    mean = round(4 / 6, 6)
    expected = {"max": 1.0, "mean": mean, "between": ["a", "c"]}
    assert between == expected
