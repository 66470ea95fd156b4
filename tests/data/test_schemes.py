"""Schemes of partitions, as functions of labels, attributes and a random generator."""

import hashlib
import json

import numpy as np
import pytest
from partitions import COUNTS, SEX, VECTOR_FOLDER, Y, dealt, fedism, sizes, table

from fedcli.data.partition.build import hold_out
from fedcli.data.partition.scheme import by_owner
from fedcli.data.skew import describe

VECTORS = json.loads((VECTOR_FOLDER / "fedism_partitions.json").read_text())["partitions"]


BY_SEX = {"by": ("sex",), "clients": 2, "shares": "0.9,0.1;0.1,0.9"}


def dirichlet(y, clients, alpha, rng):
    return dealt("dirichlet", y, rng, clients=clients, alpha=alpha)


def balanced(y, clients, alpha, rng, minimum=0):
    return dealt(
        "dirichlet-balanced", y, rng, clients=clients, alpha=alpha, images={"minimum": minimum}
    )


def fedmrl(y, clients, eta, rng):
    return dealt("fedmrl", y, rng, clients=clients, eta=eta)


def shares(sex, rng):
    images = {"groups": {"sex": sex}, "attributes": {"sex": ["f", "m"]}}
    return dealt(
        "shares",
        Y,
        rng,
        **BY_SEX,
        images=images,
    )


RANDOM = {
    "iid": lambda rng: dealt("iid", Y, rng, clients=7),
    "dirichlet": lambda rng: dirichlet(Y, 7, 0.5, rng),
    "dirichlet, very uneven": lambda rng: dirichlet(Y, 7, 0.001, rng),
    "balanced": lambda rng: balanced(Y, 7, 0.5, rng),
    "balanced, very uneven": lambda rng: balanced(Y, 7, 0.001, rng),
    "minimum": lambda rng: balanced(Y, 7, 0.2, rng, 30),
    "shards": lambda rng: dealt("shards", Y, rng, clients=7, shards=2),
    "shares": lambda rng: shares(SEX, rng),
    "fedmrl": lambda rng: fedmrl(Y, 7, 1.0, rng),
    "fedmrl, few shards of its own": lambda rng: fedmrl(Y, 7, 0.0, rng),
    "fedism": lambda rng: fedism(Y, 7, 2, 1.0, int(rng.integers(100))),
}


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
    result = [np.bincount(y[part], minlength=len(v["class_counts"])).tolist() for part in parts]
    assert result == v["client_class_counts"]
    text = "\n".join(",".join(map(str, part)) for part in parts)
    result = hashlib.sha256(text.encode()).hexdigest()
    assert result == v["sha256"]


@pytest.mark.parametrize(("images", "clean"), [(1, 0), (3, 2), (5, 2), (7, 4)])
def test_fedism_rounds_a_half_to_the_even_number_as_the_authors_do(images, clean):
    """One clean and one corrupted client: half of 1, 3, 5 and 7 images is 0, 2, 2 and 4."""
    result = sizes(fedism(np.zeros(images, int), 2, 1, 1.0))
    assert result == [clean, images - clean]


def test_fedism_gives_both_groups_the_same_part_of_every_class():
    parts = fedism(Y, 10, 2, 1.0)
    counts = table(parts)
    result = counts[8:].sum(0).tolist()
    assert result == [60, 30, 8, 2]  # a fifth of each class


@pytest.mark.parametrize("name", RANDOM)
def test_every_image_goes_to_exactly_one_client(name):
    for seed in range(20):
        parts = RANDOM[name](np.random.default_rng(seed))
        result = np.sort(np.concatenate(parts))
        assert np.array_equal(result, np.arange(500))
        for part in parts:
            assert np.all(np.diff(part) > 0)


@pytest.mark.parametrize("name", RANDOM)
def test_a_partition_depends_on_its_seed_only(name):
    parts, repeated, other = (RANDOM[name](np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(map(np.array_equal, parts, repeated))
    assert not all(map(np.array_equal, parts, other))


@pytest.mark.parametrize("name", ["iid", "balanced", "balanced, very uneven"])
def test_even_schemes_are_even_up_to_one_image(name):
    for seed in range(20):
        result = sorted(sizes(RANDOM[name](np.random.default_rng(seed))))
        expected = [71] * 4 + [72] * 3
        assert result == expected


def test_a_minimum_lifts_small_clients_and_keeps_the_order_of_the_others():
    plain = sizes(balanced(Y, 7, 0.2, np.random.default_rng(0), 1))
    lifted = sizes(balanced(Y, 7, 0.2, np.random.default_rng(0), 30))
    assert min(plain) < 30 <= min(lifted)
    large = [k for k in np.argsort(plain) if plain[k] > 31]
    expected = [k for k in np.argsort(lifted) if k in large]
    assert large == expected


def test_a_minimum_holds_whatever_the_draw():
    for seed in range(50):
        result = min(sizes(RANDOM["minimum"](np.random.default_rng(seed))))
        assert result >= 30


def test_the_largest_possible_minimum_makes_all_clients_equal():
    result = sizes(balanced(Y, 10, 0.1, np.random.default_rng(0), 50))
    assert result == [50] * 10


def test_dirichlet_follows_its_shares_in_every_class():
    rng = np.random.default_rng(3)
    parts = dirichlet(np.zeros(1000, int), 4, 1.0, rng)
    expected = np.random.default_rng(3)
    expected.permutation(1000)
    result = np.abs(np.array(sizes(parts)) - 1000 * expected.dirichlet(np.ones(4))).max()
    assert result < 1


def test_small_alpha_skews_and_balancing_keeps_the_skew():
    def mean_skew(alpha, scheme):
        return np.mean(
            [skew(scheme(Y, 7, alpha, np.random.default_rng(seed))) for seed in range(30)]
        )

    assert mean_skew(100, dirichlet) < 0.05 < 0.3 < mean_skew(0.1, dirichlet)
    assert mean_skew(100, balanced) < 0.05 < 0.3 < mean_skew(0.1, balanced)


def test_no_client_is_favoured_when_classes_are_smaller_than_the_clients():
    got = np.sum(
        [sizes(dirichlet(np.arange(3), 6, 100.0, np.random.default_rng(s))) for s in range(2000)],
        axis=0,
    )
    assert np.all(np.abs(got - 1000) < 150)  # five standard deviations


def test_a_client_of_two_shards_has_few_classes():
    parts = dealt(
        "shards", np.repeat(np.arange(10), 60), np.random.default_rng(0), clients=10, shards=2
    )
    assert sizes(parts) == [60] * 10
    for part in parts:
        assert len(np.unique(part // 60)) <= 2


def test_label_shards_mix_the_images_of_a_class():
    rows = dealt("shards", np.zeros(100, int), np.random.default_rng(0), clients=2, shards=1)[0]
    assert 15 < (rows < 50).sum() < 35


def test_natural_sites_leave_out_unknown_values():
    owner = np.array([1, -1, 0, 1, 3])
    parts = by_owner(owner, 4)
    expected = [[2], [0, 3], [], [4]]
    assert [part.tolist() for part in parts] == expected


def test_shares_hold_in_every_class_and_unknown_values_go_to_nobody():
    sex = np.where(np.arange(500) < 30, -1, SEX)
    parts = shares(sex, np.random.default_rng(0))
    result = np.sort(np.concatenate(parts))
    assert np.array_equal(result, np.arange(30, 500))
    for label in range(4):
        for value, share in ((0, 0.9), (1, 0.1)):
            of_cell = ((sex == value) & (Y == label)).sum()
            got = ((sex[parts[0]] == value) & (Y[parts[0]] == label)).sum()
            assert abs(got - share * of_cell) < 1


def test_held_out_images_are_a_share_of_every_class():
    for seed in range(20):
        is_held_out = hold_out(Y, np.arange(500), 0.25, np.random.default_rng(seed))
        assert is_held_out.sum() == 125
        assert np.all(np.abs(np.bincount(Y[is_held_out]) - 0.25 * np.array(COUNTS)) < 1)


def test_held_out_units_stay_whole():
    unit = np.random.default_rng(1).integers(0, 120, 500)
    is_held_out = hold_out(Y, unit, 0.25, np.random.default_rng(0))
    assert not set(unit[is_held_out]) & set(unit[~is_held_out])
    expected = round(0.25 * len(set(unit)))
    assert len(set(unit[is_held_out])) == expected


def test_one_unit_is_always_left_to_train_on():
    result = hold_out(np.array([0, 0]), np.array([5, 6]), 0.9, np.random.default_rng(0)).sum()
    assert result == 1
    assert not hold_out(np.array([0, 0]), np.array([5, 5]), 0.9, np.random.default_rng(0)).any()


def test_a_rare_class_is_sometimes_held_out():
    y = np.array([0, 0, *[1] * 8])
    draws = [
        hold_out(y, np.arange(10), 0.1, np.random.default_rng(seed))[:2].any()
        for seed in range(1000)
    ]
    assert abs(sum(draws) - 200) < 60  # its share, give or take five standard deviations


def test_fedmrl_gives_a_clients_own_class_by_eta_and_the_others_by_a_cut_normal():
    y = np.repeat(np.arange(4), 1000)
    shares = []
    for seed in range(300):
        parts = fedmrl(y, 4, 1.0, np.random.default_rng(seed))
        mix = (
            np.array([np.bincount(y[part], minlength=4) for part in parts]) / 1000
        )  # [H, C] share of the class
        class_of_client = np.random.default_rng(seed).permutation(4)
        shares += mix[np.arange(4), class_of_client].tolist()
    z = np.random.default_rng(0).normal(0.5, 1, (100_000, 3)).clip(0, 1)
    result = abs(np.mean(shares) - np.mean(1 / (1 + z.sum(1))))
    assert result < 0.01


def test_fedmrl_without_eta_leaves_a_client_nothing_of_its_own_class():
    y = np.repeat(np.arange(4), 1000)
    for seed in range(20):
        parts = fedmrl(y, 4, 0.0, np.random.default_rng(seed))
        class_of_client = np.random.default_rng(seed).permutation(4)
        of_own = [
            int((y[part] == label).sum())
            for part, label in zip(parts, class_of_client, strict=True)
        ]
        others = np.random.default_rng(seed)
        others.permutation(4)
        odds = others.normal(0.5, 1, (4, 4)).clip(0, 1)
        odds[np.arange(4), class_of_client] = 0
        alone = (
            odds.sum(0)[class_of_client] == 0
        )  # nobody has odds for the class, so all get it alike
        assert all(count == 0 for count, free in zip(of_own, alone, strict=True) if not free)


def test_fedmrl_shards_hold_images_of_one_class_in_near_equal_numbers():
    y = np.repeat([0, 1], [1001, 50])
    parts = fedmrl(y, 60, 1.0, np.random.default_rng(0))
    small = [int((y[part] == 1).sum()) for part in parts]
    assert sum(small) == 50
    assert max(small) <= 10
    large = np.array(
        [int((y[part] == 0).sum()) for part in parts]
    )  # 200 shards of five images, one of six
    result = (large % 5 != 0).sum()
    assert result == 1


POOLS = [5160, 820, 790, 362, 253, 101, 76]  # about the authors' own, from the specs of FedMRL


def test_fedmrls_authors_get_as_many_distinct_images_as_their_draws_give():
    y = np.repeat(np.arange(7), POOLS)
    n = np.array(POOLS)
    expected = n * (1 - (1 - 5 / n) ** np.minimum(200, n))
    runs = [dealt("fedmrl-authors", y, np.random.default_rng(seed), clients=4) for seed in range(5)]
    counts = np.array([[np.bincount(y[part]) for part in parts] for parts in runs])  # [runs, 4, 7]
    assert np.all(np.abs(counts.mean((0, 1)) - expected) < 0.01 * n + 1)
    published = json.loads((VECTOR_FOLDER / "fedmrl_clients.json").read_text())["class_counts"]
    assert np.all(
        np.abs(counts.mean((0, 1)) - np.mean(published, 0)) < 0.05 * np.mean(published, 0) + 1
    )
    assert 2750 < counts.sum(2).min()
    assert counts.sum(2).max() < 2900


def test_fedmrls_authors_clients_are_nearly_alike_and_share_images():
    y = np.repeat(np.arange(7), POOLS)
    parts = dealt("fedmrl-authors", y, np.random.default_rng(0), clients=4)
    description = describe(list("abcd"), parts, y, 7)
    assert 0 < description["total_variation"]["max"] < 0.02  # the authors' own: 0.008
    rows = np.concatenate(parts)
    nevus = np.bincount(rows[rows < 5160], minlength=5160)
    result = abs((nevus == 0).mean() - 0.46)
    assert result < 0.02
    for part in parts:
        assert len(np.unique(part)) == len(part)


def test_fedmrls_authors_take_all_of_a_class_smaller_than_a_draw():
    parts = dealt("fedmrl-authors", np.array([0, 0, 0, 1]), np.random.default_rng(0), clients=2)
    expected = [[0, 1, 2, 3]] * 2
    assert [part.tolist() for part in parts] == expected


def test_a_thousand_clients_of_a_hundred_images_are_even():
    y = np.random.default_rng(0).integers(0, 8, 100_000)
    parts = balanced(y, 1000, 0.3, np.random.default_rng(0))
    assert sizes(parts) == [100] * 1000
