import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import h5py
import numpy as np
import pytest
from raw_folders import write_pool
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.data.corrupt import Who, make_corruption
from fedcli.data.partition import SCHEMES, Scheme, listing, make_partition, register, resolve, scheme_from_flags
from fedcli.data.partition.build import hold_out
from fedcli.data.partition.dirichlet import dirichlet, dirichlet_balanced
from fedcli.data.partition.fedism import fedism
from fedcli.data.partition.fedmrl import fedmrl, fedmrl_authors
from fedcli.data.partition.iid import iid
from fedcli.data.partition.shards import label_shards
from fedcli.data.partition.sites import attribute_shares, by_attribute
from fedcli.data.pool import Row, read_pool
from fedcli.data.shard import load
from fedcli.data.skew import describe
from fedcli.errors import FedcliError, UsageError

VECTOR_FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS = json.loads((VECTOR_FOLDER / "fedism_partitions.json").read_text())["partitions"]
COUNTS = [300, 150, 40, 10]
Y = np.random.default_rng(0).permutation(np.repeat(np.arange(4), COUNTS))  # 500 images of four uneven classes
SEX = np.where(np.arange(500) % 5 == 0, 1, 0)  # 400 of value 0, 100 of value 1

RANDOM = {
    "iid": lambda rng: iid(len(Y), 7, rng),
    "dirichlet": lambda rng: dirichlet(Y, 7, 0.5, rng),
    "dirichlet, very uneven": lambda rng: dirichlet(Y, 7, 0.001, rng),
    "balanced": lambda rng: dirichlet_balanced(Y, 7, 0.5, rng),
    "balanced, very uneven": lambda rng: dirichlet_balanced(Y, 7, 0.001, rng),
    "minimum": lambda rng: dirichlet_balanced(Y, 7, 0.2, rng, 30),
    "shards": lambda rng: label_shards(Y, 7, 2, rng),
    "shares": lambda rng: attribute_shares(SEX, Y, np.array([[0.9, 0.1], [0.1, 0.9]]), rng),
    "fedmrl": lambda rng: fedmrl(Y, 7, 1.0, rng),
    "fedmrl, few shards of its own": lambda rng: fedmrl(Y, 7, 0.0, rng),
    "fedism": lambda rng: fedism(Y, 7, 2, 1.0, int(rng.integers(100))),
}


def sizes(parts):
    return [len(part) for part in parts]


def table(parts):
    return np.array([np.bincount(Y[part], minlength=4) for part in parts])  # [K, C]


def skew(parts):
    """Mean total variation between a client's class mix and everybody's."""
    mix = table(parts) / np.maximum(table(parts).sum(1, keepdims=True), 1)
    return float(np.abs(mix - np.array(COUNTS) / 500).sum(1).mean() / 2)


@pytest.mark.parametrize("name", VECTORS)
def test_fedism_rebuilds_the_authors_assignment_from_class_counts(name):
    v = VECTORS[name]
    y = np.repeat(np.arange(len(v["class_counts"])), v["class_counts"])
    parts = fedism(y, 20, v["corrupted"], 1.0)
    assert sizes(parts) == v["sizes"]
    assert [np.bincount(y[part], minlength=len(v["class_counts"])).tolist() for part in parts] == v[
        "client_class_counts"
    ]
    text = "\n".join(",".join(map(str, part)) for part in parts)
    assert hashlib.sha256(text.encode()).hexdigest() == v["sha256"]


@pytest.mark.parametrize(("images", "clean"), [(1, 0), (3, 2), (5, 2), (7, 4)])
def test_fedism_rounds_a_half_to_the_even_number_as_the_authors_do(images, clean):
    """One clean and one corrupted client: half of 1, 3, 5 and 7 images is 0, 2, 2 and 4."""
    assert sizes(fedism(np.zeros(images, int), 2, 1, 1.0)) == [clean, images - clean]


def test_fedism_gives_both_groups_the_same_part_of_every_class():
    counts = table(fedism(Y, 10, 2, 1.0))
    assert counts[8:].sum(0).tolist() == [60, 30, 8, 2]  # a fifth of each class


@pytest.mark.parametrize("name", RANDOM)
def test_every_image_goes_to_exactly_one_client(name):
    for seed in range(20):
        parts = RANDOM[name](np.random.default_rng(seed))
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(500))
        assert all(np.all(np.diff(part) > 0) for part in parts)


@pytest.mark.parametrize("name", RANDOM)
def test_a_partition_depends_on_its_seed_only(name):
    first, again, other = (RANDOM[name](np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


@pytest.mark.parametrize("name", ["iid", "balanced", "balanced, very uneven"])
def test_even_schemes_are_even_up_to_one_image(name):
    for seed in range(20):
        assert sorted(sizes(RANDOM[name](np.random.default_rng(seed)))) == [71] * 4 + [72] * 3


def test_a_minimum_lifts_small_clients_and_keeps_the_order_of_the_others():
    plain = sizes(dirichlet_balanced(Y, 7, 0.2, np.random.default_rng(0), 0))
    lifted = sizes(dirichlet_balanced(Y, 7, 0.2, np.random.default_rng(0), 30))
    assert min(plain) < 30 <= min(lifted)
    large = [k for k in np.argsort(plain) if plain[k] > 31]
    assert large == [k for k in np.argsort(lifted) if k in large]


def test_a_minimum_holds_whatever_the_draw():
    assert all(min(sizes(RANDOM["minimum"](np.random.default_rng(seed)))) >= 30 for seed in range(50))


def test_the_largest_possible_minimum_makes_all_clients_equal():
    assert sizes(dirichlet_balanced(Y, 10, 0.1, np.random.default_rng(0), 50)) == [50] * 10


def test_dirichlet_follows_its_shares_in_every_class():
    rng = np.random.default_rng(3)
    parts = dirichlet(np.zeros(1000, int), 4, 1.0, rng)
    expected = np.random.default_rng(3)
    expected.permutation(1000)
    assert np.abs(np.array(sizes(parts)) - 1000 * expected.dirichlet(np.ones(4))).max() < 1


def test_small_alpha_skews_and_balancing_keeps_the_skew():
    def mean_skew(alpha, scheme):
        return np.mean([skew(scheme(Y, 7, alpha, np.random.default_rng(seed))) for seed in range(30)])

    assert mean_skew(100, dirichlet) < 0.05 < 0.3 < mean_skew(0.1, dirichlet)
    assert mean_skew(100, dirichlet_balanced) < 0.05 < 0.3 < mean_skew(0.1, dirichlet_balanced)


def test_no_client_is_favoured_when_classes_are_smaller_than_the_clients():
    got = np.sum([sizes(dirichlet(np.arange(3), 6, 100.0, np.random.default_rng(s))) for s in range(2000)], axis=0)
    assert np.all(np.abs(got - 1000) < 150)  # five standard deviations


def test_a_client_of_two_shards_has_few_classes():
    parts = label_shards(np.repeat(np.arange(10), 60), 10, 2, np.random.default_rng(0))
    assert sizes(parts) == [60] * 10
    assert all(len(np.unique(part // 60)) <= 2 for part in parts)


def test_label_shards_mix_the_images_of_a_class():
    first = label_shards(np.zeros(100, int), 2, 1, np.random.default_rng(0))[0]
    assert 15 < (first < 50).sum() < 35


def test_natural_sites_leave_out_unknown_values():
    parts = by_attribute(np.array([1, -1, 0, 1, 3]))
    assert [part.tolist() for part in parts] == [[2], [0, 3], [], [4]]


def test_shares_hold_in_every_class_and_unknown_values_go_to_nobody():
    sex = np.where(np.arange(500) < 30, -1, SEX)
    parts = attribute_shares(sex, Y, np.array([[0.9, 0.1], [0.1, 0.9]]), np.random.default_rng(0))
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(30, 500))
    for label in range(4):
        for value, share in ((0, 0.9), (1, 0.1)):
            of_cell = ((sex == value) & (Y == label)).sum()
            got = ((sex[parts[0]] == value) & (Y[parts[0]] == label)).sum()
            assert abs(got - share * of_cell) < 1


def test_held_out_images_are_a_share_of_every_class():
    for seed in range(20):
        held = hold_out(Y, np.arange(500), 0.25, np.random.default_rng(seed))
        assert held.sum() == 125
        assert np.all(np.abs(np.bincount(Y[held]) - 0.25 * np.array(COUNTS)) < 1)


def test_held_out_units_stay_whole():
    unit = np.random.default_rng(1).integers(0, 120, 500)
    held = hold_out(Y, unit, 0.25, np.random.default_rng(0))
    assert not set(unit[held]) & set(unit[~held])
    assert len(set(unit[held])) == round(0.25 * len(set(unit)))


def test_one_unit_is_always_left_to_train_on():
    assert hold_out(np.array([0, 0]), np.array([5, 6]), 0.9, np.random.default_rng(0)).sum() == 1
    assert not hold_out(np.array([0, 0]), np.array([5, 5]), 0.9, np.random.default_rng(0)).any()


def test_a_rare_class_is_sometimes_held_out():
    y = np.array([0, 0, *[1] * 8])
    draws = [hold_out(y, np.arange(10), 0.1, np.random.default_rng(seed))[:2].any() for seed in range(1000)]
    assert abs(sum(draws) - 200) < 60  # its share, give or take five standard deviations


def test_fedmrl_gives_a_clients_own_class_by_eta_and_the_others_by_a_cut_normal():
    y = np.repeat(np.arange(4), 1000)
    own = []
    for seed in range(300):
        parts = fedmrl(y, 4, 1.0, np.random.default_rng(seed))
        mix = np.array([np.bincount(y[part], minlength=4) for part in parts]) / 1000  # [H, C] share of the class
        place = np.random.default_rng(seed).permutation(4)
        own += mix[np.arange(4), place].tolist()
    z = np.random.default_rng(0).normal(0.5, 1, (100_000, 3)).clip(0, 1)
    assert abs(np.mean(own) - np.mean(1 / (1 + z.sum(1)))) < 0.01


def test_fedmrl_without_eta_leaves_a_client_nothing_of_its_own_class():
    y = np.repeat(np.arange(4), 1000)
    for seed in range(20):
        parts, own = fedmrl(y, 4, 0.0, np.random.default_rng(seed)), np.random.default_rng(seed).permutation(4)
        of_own = [int((y[part] == label).sum()) for part, label in zip(parts, own, strict=True)]
        others = np.random.default_rng(seed)
        others.permutation(4)
        odds = others.normal(0.5, 1, (4, 4)).clip(0, 1)
        odds[np.arange(4), own] = 0
        alone = odds.sum(0)[own] == 0  # nobody has odds for the class, so all get it alike
        assert all(count == 0 for count, free in zip(of_own, alone, strict=True) if not free)


def test_fedmrl_shards_hold_images_of_one_class_in_near_equal_numbers():
    y = np.repeat([0, 1], [1001, 50])
    parts = fedmrl(y, 60, 1.0, np.random.default_rng(0))
    small = [int((y[part] == 1).sum()) for part in parts]
    assert sum(small) == 50 and max(small) <= 10  # fifty shards of one image
    large = np.array([int((y[part] == 0).sum()) for part in parts])  # 200 shards of five images, one of six
    assert (large % 5 != 0).sum() == 1


POOLS = [5160, 820, 790, 362, 253, 101, 76]  # about the authors' own, from the specs of FedMRL


def test_fedmrls_authors_get_as_many_distinct_images_as_their_draws_give():
    y = np.repeat(np.arange(7), POOLS)
    n = np.array(POOLS)
    expected = n * (1 - (1 - 5 / n) ** np.minimum(200, n))
    runs = [fedmrl_authors(y, 4, np.random.default_rng(seed)) for seed in range(5)]
    counts = np.array([[np.bincount(y[part]) for part in parts] for parts in runs])  # [runs, 4, 7]
    assert np.all(np.abs(counts.mean((0, 1)) - expected) < 0.01 * n + 1)
    published = json.loads((VECTOR_FOLDER / "fedmrl_clients.json").read_text())["class_counts"]
    assert np.all(np.abs(counts.mean((0, 1)) - np.mean(published, 0)) < 0.05 * np.mean(published, 0) + 1)
    assert 2750 < counts.sum(2).min() and counts.sum(2).max() < 2900


def test_fedmrls_authors_clients_are_nearly_alike_and_share_images():
    y = np.repeat(np.arange(7), POOLS)
    parts = fedmrl_authors(y, 4, np.random.default_rng(0))
    description = describe(list("abcd"), parts, y, 7)
    assert 0 < description["total_variation"]["max"] < 0.02  # the authors' own: 0.008
    held = np.concatenate(parts)
    nevus = np.bincount(held[held < 5160], minlength=5160)
    assert abs((nevus == 0).mean() - 0.46) < 0.02 and all(len(np.unique(part)) == len(part) for part in parts)


def test_fedmrls_authors_take_all_of_a_class_smaller_than_a_draw():
    parts = fedmrl_authors(np.array([0, 0, 0, 1]), 2, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0, 1, 2, 3]] * 2


# ---- the stage


def dataset(folder, *, units=True):
    """60 training and 20 test images of three classes, sex known for all but six, three images to a lesion."""
    rows = [
        Row(
            f"i{k}",
            k % 3,
            k,
            test=k % 4 == 3,
            groups={"sex": -1 if k < 6 else k % 2, "center": k % 3 % 2},
            patient=f"l{k // 3}",
        )
        for k in range(80)
    ]
    if not units:
        rows = [Row(row.id, row.label, row.source, row.test, row.groups) for row in rows]

    def build(target):
        images = (np.full((4, 4, 1), k, np.uint8) for k in range(80))
        write_pool(target / "pool.h5", rows, images, ["sex", "center"])
        return {
            **{"name": "toy", "title": "toy", "task": "multiclass", "classes": ["a", "b", "c"]},
            **{"attributes": {"sex": ["female", "male"], "center": ["St. Anna/1", "st_anna 1", "empty"]}},
            **{"size": [4, 4], "channels": 1, "count": 80, "split": {"train": 60, "test": 20, "by": "image"}},
            **{"unit": "lesion" if units else None, "skipped": [], "augment": "none", "clients": 4, "sites": "center"},
        }

    return manifest.stage("dataset", folder=folder / "data", made_by=[], options={}, parents=[], build=build)


def partition(folder, *, scheme, units=True, val=0.0, minimum=0, seed=0, materialize=False, **options):
    to = manifest.Destination(folder, made_by=["partition"])
    stage = {"val": val, "minimum": minimum, "seed": seed, "materialize": materialize}
    path = make_partition(dataset(folder, units=units), resolve(scheme, options), to, **stage)
    with h5py.File(path.parent / "rows.h5") as file:
        arrays = {name: {k: rows[()] for k, rows in group.items()} for name, group in file.items()}
    return path, manifest.verify(path, "partition").body, arrays


def names(body):
    return [client["client"] for client in body["roster"]]


def everyone(arrays, *parts):
    return sorted(row for part in parts for k, rows in arrays[part].items() if k != "all" for row in rows)


def test_balanced_clients_are_even_or_have_the_minimum(tmp_path):
    options = {"scheme": "dirichlet-balanced", "clients": 4, "alpha": 0.3}
    even, lifted = (partition(tmp_path, **options, minimum=minimum)[1]["roster"] for minimum in (0, 5))
    assert [client["train"] for client in even] == [15] * 4
    assert 5 <= min(client["train"] for client in lifted) < 15


def test_only_training_images_are_divided_and_the_test_set_stays_whole(tmp_path):
    _, body, arrays = partition(tmp_path, scheme="iid", clients=4)
    assert names(body) == ["client-00", "client-01", "client-02", "client-03"]
    assert everyone(arrays, "train") == [k for k in range(80) if k % 4 != 3]
    assert arrays["test"]["all"].tolist() == list(range(3, 80, 4))
    assert everyone(arrays, "val") == everyone(arrays, "test") == []
    assert arrays["train"]["0"].dtype == np.int64


def test_the_roster_counts_what_the_rows_hold(tmp_path):
    path, body, arrays = partition(tmp_path, scheme="dirichlet", clients=4, alpha=5.0, val=0.2)
    y = read_pool(manifest.parent(path, "dataset").parent / "pool.h5").y
    for k, client in enumerate(body["roster"]):
        assert client["train"] == len(arrays["train"][str(k)])
        assert client["val"] == len(arrays["val"][str(k)]) > 0
        assert client["class_counts"] == np.bincount(y[arrays["train"][str(k)]], minlength=3).tolist()
    assert sorted(everyone(arrays, "train", "val")) == [k for k in range(80) if k % 4 != 3]


def test_the_body_carries_what_later_stages_need(tmp_path):
    _, body, _ = partition(tmp_path, scheme="fedism", clients=4, corrupted=1)
    assert {name: body[name] for name in ("dataset", "scheme", "size", "channels", "augment", "corrupted_last")} == {
        **{"dataset": "toy", "scheme": "fedism", "size": [4, 4], "channels": 1, "augment": "none", "corrupted_last": 1}
    }
    assert body["classes"] == ["a", "b", "c"] and set(body["attributes"]) == {"sex", "center"}


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
    assert [f.relative_to(paths[0].parent) for f in files[0]] == [f.relative_to(paths[1].parent) for f in files[1]]
    assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]


def test_equal_options_give_the_same_partition_and_unknown_ones_are_refused(tmp_path):
    made = partition(tmp_path, scheme="iid", clients=4)[0]
    assert partition(tmp_path, scheme="iid", clients="4", keep_units=False)[0] == made
    assert partition(tmp_path, scheme="iid", clients=4, seed=1)[0] != made
    with pytest.raises(UsageError, match="the partition scheme iid has no option 'alpha'"):
        partition(tmp_path, scheme="iid", alpha=9.0)


def test_the_fedism_seed_counts_from_the_authors_own(tmp_path):
    _, _, arrays = partition(tmp_path, scheme="fedism", clients=4, corrupted=1, alpha=2.0)
    rows = np.array([k for k in range(80) if k % 4 != 3])
    expected = fedism(rows % 3, 4, 1, 2.0, 2024)
    assert [arrays["train"][str(k)].tolist() for k in range(4)] == [rows[part].tolist() for part in expected]


def test_natural_sites_have_their_values_names_and_their_own_test_images(tmp_path, capsys):
    _, body, arrays = partition(tmp_path, scheme="by", by=["sex"])
    assert names(body) == ["female", "male"]
    assert body["dropped"] == 5
    assert "5 training images have an unknown attribute" in capsys.readouterr().err
    assert arrays["test"]["0"].tolist() == []  # every fourth image is odd, and odd is male
    assert arrays["test"]["1"].tolist() == list(range(7, 80, 4))
    assert arrays["test"]["all"].tolist() == list(range(3, 80, 4))


def test_sites_by_two_attributes_are_their_pairs(tmp_path):
    _, body, arrays = partition(tmp_path, scheme="by", by=["center", "sex"])
    assert names(body) == ["St. Anna/1+female", "St. Anna/1+male", "st_anna 1+female", "st_anna 1+male"]
    assert all(k % 3 % 2 == 0 and k % 2 == 1 for k in arrays["train"]["1"])


def test_one_row_of_shares_is_rotated(tmp_path):
    first = partition(tmp_path, scheme="shares", clients=4, by=["sex"], shares="0.9,0.1")[2]["train"]
    second = partition(tmp_path, scheme="shares", clients=4, by=["sex"], shares="0.9,0.1;0.1,0.9")[2]["train"]
    assert [first[str(k)].tolist() for k in range(4)] == [second[str(k)].tolist() for k in range(4)]
    female = [np.mean(first[str(k)] % 2 == 0) for k in range(4)]
    assert min(female[:2]) > 0.8 and max(female[2:]) < 0.3


def test_validation_keeps_lesions_whole_within_a_client(tmp_path):
    _, body, arrays = partition(tmp_path, scheme="iid", clients=3, val=0.3)
    for k in range(3):
        train, val = (set(arrays[part][str(k)] // 3) for part in ("train", "val"))
        assert val and not train & val


def test_lesions_shared_between_clients_are_counted(tmp_path, capsys):
    _, body, arrays = partition(tmp_path, scheme="iid", clients=4)
    held = [set(arrays["train"][str(k)] // 3) for k in range(4)]
    assert body["unit_overlap"] == sum(sum(lesion in client for client in held) > 1 for lesion in range(27)) > 0
    assert f"{body['unit_overlap']} patients or lesions (lesion)" in capsys.readouterr().err


def test_a_pool_without_lesions_has_no_overlap_to_count(tmp_path):
    assert partition(tmp_path, units=False, scheme="iid", clients=4, val=0.2)[1]["unit_overlap"] is None


def test_a_site_file_holds_the_clients_images_train_then_val_then_test(tmp_path):
    path, body, arrays = partition(tmp_path, scheme="by", by=["sex"], val=0.2, materialize=True)
    site = read_pool(path.parent / "sites" / "male.h5")
    rows = np.concatenate([arrays[part]["1"] for part in ("train", "val", "test")])
    assert site.id.tolist() == [f"i{k}" for k in rows]
    assert site.pixels()[:, 0, 0, 0].tolist() == rows.tolist()
    male = body["roster"][1]
    assert site.split.tolist() == [0] * (male["train"] + male["val"]) + [1] * male["test"]
    assert site.groups["sex"].tolist() == [1] * len(rows)


def test_site_files_get_safe_and_distinct_names(tmp_path):
    path, _, _ = partition(tmp_path, scheme="by", by=["center"], materialize=True)
    assert sorted(file.name for file in (path.parent / "sites").iterdir()) == ["St_Anna_1-0.h5", "st_anna_1-1.h5"]


@pytest.mark.parametrize(
    ("options", "sentence", "hint"),
    [
        ({"scheme": "dirichlett"}, "unknown partition scheme 'dirichlett'", "did you mean 'dirichlet'?"),
        ({"scheme": "iid", "clients": 0}, "clients=0 is out of range: it must be >= 1", "number of clients"),
        ({"scheme": "dirichlet", "alpha": 0.0}, "alpha=0.0 is out of range: it must be > 0", "very uneven"),
        ({"scheme": "dirichlet", "alpha": float("nan")}, "alpha=nan is not finite", "very uneven"),
        ({"scheme": "shards", "shards": 0}, "shards=0 is out of range", "per client"),
        ({"scheme": "iid", "val": 1.0}, "validation share is 1.0", "0.1"),
        ({"scheme": "by", "by": ["sx"]}, "no attribute 'sx'", "did you mean 'sex'?"),
        ({"scheme": "by"}, "the partition scheme by needs by: attributes", "--set by=VALUE"),
        ({"scheme": "by", "by": []}, "needs an attribute", "--by center"),
        ({"scheme": "shares", "by": ["sex", "center"], "shares": "1,1"}, "exactly one attribute", "--by center"),
        ({"scheme": "shares", "by": ["sex"]}, "--shares is missing", "female, male"),
        ({"scheme": "shares", "by": ["sex"], "shares": "0.9;0.1"}, "rows of 2 numbers", "female, male"),
        ({"scheme": "shares", "by": ["sex"], "shares": "a,b"}, "rows of 2 numbers", "female, male"),
        (
            {"scheme": "shares", "by": ["sex"], "shares": "0.9,0.1;0.2,0.9"},
            "shares of 'female' are 0.9, 0.2",
            "female",
        ),
        ({"scheme": "shares", "by": ["sex"], "shares": "1.5,0;-0.5,1"}, "at least 0", "female"),
        ({"scheme": "shares", "by": ["sex"], "shares": "1,0", "clients": 1}, "1 client for 2 rows", "--clients 2"),
        ({"scheme": "fedism"}, "fedism needs corrupted: number of last clients", "--set corrupted=VALUE"),
        ({"scheme": "fedism", "corrupted": 1, "alpha": 1e7}, "must be in [0.001, 1000000]", "authors"),
        ({"scheme": "fedism", "clients": 4, "corrupted": 4}, "1 to 3 corrupted clients, not 4", "of 20"),
        ({"scheme": "fedmrl", "eta": 1.5}, "eta=1.5 is out of range: it must be in [0, 1]", "the authors have 1"),
        ({"scheme": "fedism", "corrupted": 2, "keep_units": True}, "fedism has no option 'keep_units'", "clients"),
        ({"scheme": "file"}, "the partition scheme file needs clients_file: a CSV", "--set clients_file"),
        ({"scheme": "file", "clients_file": Path("a.npy"), "client_column": "x"}, "a.npy has no columns", "leave"),
        ({"scheme": "file", "clients_file": Path("a.csv"), "order_file": Path("b.csv")}, "no order of rows", "leave"),
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
        ({"scheme": "iid", "clients": 61}, "60 training images cannot be divided among 61 clients", "fewer --clients"),
        (
            {"scheme": "dirichlet", "clients": 20, "alpha": 0.01},
            "gets no training images (and so do",
            "--dirichlet 10, fewer --clients, another --seed, or --balanced",
        ),
        ({"scheme": "dirichlet-balanced", "clients": 4, "minimum": 16}, "cannot give 4 clients 16 each", "fewer"),
        ({"scheme": "iid", "clients": 4, "minimum": 16}, "client-00 gets 15 training images", "minimum"),
        ({"scheme": "shards", "clients": 20, "shards": 4}, "cannot give 20 clients 4 each", "fewer --clients"),
        (
            {"scheme": "by", "by": ["sex"], "minimum": 30},
            "client male gets 18",
            "--minimum, another attribute for --by",
        ),
        ({"scheme": "fedism", "clients": 60, "corrupted": 2, "alpha": 5.0}, "training images", "try --dirichlet 50"),
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
        make_partition(path, resolve("by", {"by": ["sex"]}), manifest.Destination(tmp_path))


def test_a_thousand_clients_of_a_hundred_images_are_even():
    y = np.random.default_rng(0).integers(0, 8, 100_000)
    parts = dirichlet_balanced(y, 1000, 0.3, np.random.default_rng(0))
    assert sizes(parts) == [100] * 1000


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "iid"},
        {"scheme": "dirichlet", "alpha": 5.0},
        {"scheme": "dirichlet-balanced", "alpha": 0.5, "minimum": 3},
        {"scheme": "shards", "shards": 2},
        {"scheme": "fedmrl"},
    ],
    ids=lambda options: options["scheme"],
)
def test_whole_patients_go_to_one_client_if_asked_for(tmp_path, options, capsys):
    _, body, arrays = partition(tmp_path, clients=4, keep_units=True, val=0.2, **options)
    held = [set(np.concatenate([arrays[part][str(k)] for part in ("train", "val")]) // 3) for k in range(4)]
    assert sum(map(len, held)) == len(set.union(*held)) == 27 and body["unit_overlap"] == 0
    assert everyone(arrays, "train", "val") == [k for k in range(80) if k % 4 != 3]
    assert "more than one client" not in capsys.readouterr().err
    if options["scheme"] == "iid":
        assert sorted(map(len, held)) == [6, 7, 7, 7]


def test_patients_cannot_be_kept_whole_where_nobody_knows_them(tmp_path):
    with pytest.raises(FedcliError, match="does not say which patient or lesion"):
        partition(tmp_path / "bare", units=False, scheme="iid", clients=4, keep_units=True)
    with pytest.raises(FedcliError, match="27 training patients cannot be divided among 28 clients"):
        partition(tmp_path, scheme="iid", clients=28, keep_units=True)


def test_four_clients_by_shares_of_two_skin_tones(tmp_path):
    shares = "0.45,0.05;0.30,0.10;0.20,0.15;0.05,0.70"
    _, body, arrays = partition(tmp_path, scheme="shares", clients=4, by=["sex"], shares=shares)
    for value, (count, column) in enumerate([(37, [0.45, 0.3, 0.2, 0.05]), (18, [0.05, 0.1, 0.15, 0.7])]):
        got = [int((arrays["train"][str(k)] % 2 == value).sum()) for k in range(4)]
        assert sum(got) == count and np.all(np.abs(np.array(got) - count * np.array(column)) <= 3)  # one per class


# ---- clients that share images


def test_clients_that_share_images_are_told_and_can_be_trained_and_corrupted(tmp_path, capsys):
    path, body, arrays = partition(tmp_path, scheme="fedmrl-authors", clients=3, val=0.2)
    assert (
        "images are in more than one client" in (said := capsys.readouterr().err) and "validate one and train" in said
    )
    held = [np.concatenate([arrays[part][str(k)] for part in ("train", "val")]) for k in range(3)]
    assert body["skew"]["images_in_several"]["count"] == (np.bincount(np.concatenate(held)) > 1).sum() > 0
    made = make_corruption(path, "gaussian", manifest.Destination(tmp_path), Who(on=["client-02"]), jobs=1)
    clean, noisy = load(path), load(made)
    for client in ("client-00", "client-01", "client-02"):
        for part in ("train", "val"):
            before, after = getattr(clean, part)[client], getattr(noisy, part)[client]
            assert before.ids.tolist() == after.ids.tolist() and before.y.equal(after.y)
            same = before.images[before.rows].equal(after.images[after.rows])
            assert same == (client != "client-02")


def test_a_clean_clients_validation_image_that_a_corrupted_client_holds_too_stays_clean(tmp_path):
    both = [f"i{k}" for k in range(20)]
    (tmp_path / "who.json").write_text(json.dumps({"a": both, "b": both}))
    path, *_ = partition(tmp_path, units=False, scheme="file", clients_file=tmp_path / "who.json", val=0.3)
    made = make_corruption(path, "gaussian", manifest.Destination(tmp_path), Who(on=["b"]), jobs=1)
    clean, noisy = load(path), load(made)
    assert set(clean.val["a"].ids) & set(clean.train["b"].ids)
    for part in ("train", "val"):
        before, after = getattr(clean, part)["a"], getattr(noisy, part)["a"]
        assert len(before) and before.images[before.rows].equal(after.images[after.rows])


def test_one_clients_corruption_is_the_same_whether_it_shares_images_or_not(tmp_path):
    (tmp_path / "shared.json").write_text(json.dumps({"a": ["i0", "i1", "i2"], "b": ["i2", "i4"]}))
    (tmp_path / "apart.json").write_text(json.dumps({"a": ["i0", "i1"], "b": ["i2", "i4"]}))
    shards = []
    for name in ("shared", "apart"):
        path, *_ = partition(tmp_path, scheme="file", clients_file=tmp_path / f"{name}.json")
        shards.append(
            load(make_corruption(path, "gaussian", manifest.Destination(tmp_path), Who(on=["b"]), jobs=1)).train["b"]
        )
    first, second = (shard.images[shard.rows] for shard in shards)
    assert first.equal(second) and len(first) == 2


# ---- a file of clients


def test_a_file_of_clients_gives_each_its_images_and_its_own_test_part(tmp_path, capsys):
    (tmp_path / "who.csv").write_text("image,hospital\ni0,b\ni1,a\ni2,b\ni3,b\ni99,a\ni1,b\n")
    path, body, arrays = partition(tmp_path, scheme="file", clients_file=tmp_path / "who.csv")
    assert names(body) == ["a", "b"] and body["not_in_dataset"] == 1 and body["dropped"] == 57
    assert [arrays["train"][k].tolist() for k in "01"] == [[1], [0, 1, 2]]
    assert [arrays["test"][k].tolist() for k in ("0", "1")] == [[], [3]] and len(arrays["test"]["all"]) == 20
    printed = capsys.readouterr().err
    assert (
        "who.csv names 1 image that the dataset does not have: i99" in printed and "1 image is in more than" in printed
    )
    assert (
        "1 image that who.csv gives to clients is a test image here" in printed
        and "57 training images are left over" in printed
    )
    assert str(tmp_path) not in path.read_text()


def test_clients_whose_images_are_all_absent_are_left_out_with_a_note(tmp_path, capsys):
    (tmp_path / "who.json").write_text(json.dumps({"a": ["i0"], "b": ["x1", "x2"], "c": ["i1"], "d": ["x3"]}))
    _, body, arrays = partition(tmp_path, scheme="file", clients_file=tmp_path / "who.json")
    assert names(body) == ["a", "c"] and body["not_in_dataset"] == 3 and arrays["train"]["1"].tolist() == [1]
    assert "2 clients of who.json without an image in the dataset are left out: b" in capsys.readouterr().err
    (tmp_path / "who.json").write_text(json.dumps({"b": ["x1"], "d": ["x3"]}))
    with pytest.raises(FedcliError, match="names none of the 80 images"):
        partition(tmp_path, scheme="file", clients_file=tmp_path / "who.json")


def test_another_files_bytes_or_column_are_another_partition(tmp_path):
    who = tmp_path / "who.csv"
    who.write_text("image,client,center\ni0,a,x\ni1,b,x\ni2,b,y\n")
    first, by_center = (
        partition(tmp_path, scheme="file", clients_file=who, client_column=c)[0] for c in (None, "center")
    )
    who.write_text("image,client,center\ni0,a,x\ni1,b,x\ni2,a,y\n")
    assert len({first, by_center, partition(tmp_path, scheme="file", clients_file=who)[0]}) == 3


def test_fedisms_npy_counts_in_the_training_images_by_class_or_in_an_order_file(tmp_path):
    np.save(
        tmp_path / "d.npy", np.array({0: [np.int64(0), np.int64(59)], 1: [np.int64(21)]}, object), allow_pickle=True
    )
    _, body, arrays = partition(tmp_path, scheme="file", clients_file=tmp_path / "d.npy")
    by_class = sorted((k for k in range(80) if k % 4 != 3), key=lambda k: (k % 3, k))
    assert names(body) == ["client-00", "client-01"]
    assert [arrays["train"][k].tolist() for k in "01"] == [sorted([by_class[0], by_class[59]]), [by_class[21]]]
    (tmp_path / "train.csv").write_text("id,class\n" + "".join(f"i{k},0\n" for k in range(79, -1, -1)))
    _, _, arrays = partition(
        tmp_path, scheme="file", clients_file=tmp_path / "d.npy", order_file=tmp_path / "train.csv"
    )
    assert arrays["train"]["0"].tolist() == [20] and arrays["test"]["0"].tolist() == [79]


def test_a_client_of_test_images_alone_is_refused(tmp_path):
    (tmp_path / "who.json").write_text('{"a": ["i3"], "b": ["i0"]}')
    with pytest.raises(FedcliError, match="client a gets no training images"):
        partition(tmp_path, scheme="file", clients_file=tmp_path / "who.json")


# ---- the registry


def test_every_scheme_lists_its_options_with_their_meaning():
    table = listing()
    assert set(table) == set(SCHEMES)
    for name, options in table.items():
        assert SCHEMES[name].__doc__ and all(option.meaning for option in options), name
    assert ("corrupted", "required") in [(option.name, option.default) for option in table["fedism"]]


def test_a_scheme_of_ones_own_is_reached_by_its_name(tmp_path):
    @register("odd-and-even")
    @dataclass(frozen=True, kw_only=True)
    class OddAndEven(Scheme):
        """Images by the parity of their number."""

        swap: Annotated[bool, "the even ones come last"] = False

        def assign(self, images):
            parts = {"even": np.arange(0, len(images), 2), "odd": np.arange(1, len(images), 2)}
            return dict(reversed(parts.items())) if self.swap else parts

    try:
        done = CliRunner().invoke(
            app,
            [
                "partition",
                str(dataset(tmp_path)),
                "--work",
                str(tmp_path),
                "--scheme",
                "odd-and-even",
                "--set",
                "swap=yes",
            ],
        )
        made = manifest.verify(Path(done.stdout.strip()))
    finally:
        del SCHEMES["odd-and-even"]
    assert names(made.body) == ["odd", "even"] and made.options["swap"] is True
    assert made.made_by == ["partition", "--scheme", "odd-and-even", "--set", "swap=yes"]


DATASET = {"clients": 4}


@pytest.mark.parametrize(
    ("flags", "name", "settings"),
    [
        ({}, "dirichlet", {"alpha": 1.0, "clients": 4}),
        ({"dirichlet": 0.5, "balanced": True, "clients": 8}, "dirichlet-balanced", {"alpha": 0.5, "clients": 8}),
        ({"iid": True, "keep_units": True, "by": []}, "iid", {"keep_units": True}),
        ({"shards": 3}, "shards", {"shards": 3}),
        ({"fedism": 2, "dirichlet": 0.3}, "fedism", {"corrupted": 2, "alpha": 0.3}),
        ({"fedmrl": 0.0}, "fedmrl", {"eta": 0.0}),
        ({"by": ["sex"], "portion": 0.2}, "domains", {"by": ("sex",), "portion": 0.2}),
        ({"by": ["sex"], "shares": ["0.9,0.1", "0.1,0.9"]}, "shares", {"shares": "0.9,0.1;0.1,0.9"}),
        ({"scheme": "shards", "set": {"shards": "3"}}, "shards", {"shards": 3, "clients": 4}),
    ],
)
def test_flags_mean_a_scheme(flags, name, settings):
    scheme = scheme_from_flags(flags, DATASET)
    assert scheme.name == name
    assert {key: getattr(scheme, key) for key in settings} == settings


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"iid": True, "shards": 2}, "--iid and --shards exclude each other"),
        ({"iid": True, "dirichlet": 1.0}, "--dirichlet and --iid are different schemes"),
        ({"scheme": "shards", "dirichlet": 1.0}, "--dirichlet and --scheme are different schemes"),
        ({"scheme": "iid", "by": ["sex"]}, "--by and --scheme exclude each other"),
        ({"set": {"alpha": "1"}}, "--set is about the options of a scheme"),
        ({"shares": ["1,0"]}, "--shares needs to know which attribute"),
        ({"fedism": 2, "keep_units": True}, "the scheme fedism deals out images, not patients"),
        ({"scheme": "iidd"}, "unknown partition scheme 'iidd'"),
    ],
)
def test_flags_that_exclude_each_other_are_refused(flags, sentence):
    with pytest.raises(UsageError) as error:
        scheme_from_flags(flags, DATASET)
    assert sentence in error.value.sentence and error.value.hint
