"""--sampling: which images are drawn for local steps."""

from dataclasses import replace

import pytest
import torch
from conftest import play, toy_shard
from made_plans import planned

from fedcli.errors import UsageError
from fedcli.federation import sampling
from fedcli.federation.client import Training
from fedcli.federation.sampling import strata
from fedcli.runs.rules import check

SEX = {"sex": ["f", "m"]}


def shard_of(labels, groups):
    """Many images, of which these are repeated."""
    shard = toy_shard("north", 100 * len(labels))
    shard.y[:] = torch.tensor(labels).repeat(100)
    return replace(shard, groups={"sex": torch.tensor(groups).repeat(100)})


def shares(sampling, labels, groups):
    """Share of draws of each of the given images."""
    shard = shard_of(labels, groups)
    batches = []
    for shuffle in range(10):
        parts = strata(sampling, shard, SEX)
        batches += shard.epoch(64, shuffle=shuffle, augment=1, strata=parts)
    draws = torch.cat([batch.at for batch in batches])
    return ((draws % len(labels)).bincount(minlength=len(labels)) / len(draws)).tolist()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        ("shuffle", [1 / 6] * 6),
        ("class", [1 / 8] * 4 + [1 / 4] * 2),  # four images of class 0, two of class 1
        ("group", [1 / 4, 1 / 4, 1 / 8, 1 / 8, 1 / 8, 1 / 8]),  # two of f, four of m
        ("group-class:sex", [1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6]),  # three pairs of two each
    ],
)
def test_parts_are_drawn_equally_often(sampling, expected):
    result = shares(sampling, [0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1])
    assert result == pytest.approx(expected, abs=0.03)


def test_images_without_a_group_are_drawn_as_often_as_without_sampling():
    """One of four is unknown; of the others f has one and m two."""
    result = shares("group", [0, 0, 0, 0], [-1, 0, 1, 1])
    expected = pytest.approx([1 / 4, 3 / 8, 3 / 16, 3 / 16], abs=0.03)
    assert result == expected
    result = shares("group", [0, 1], [-1, -1])
    expected = pytest.approx([1 / 2, 1 / 2], abs=0.03)
    assert result == expected
    result = shares("group-class", [0, 1, 1], [-1, 0, -1])
    expected = pytest.approx([1 / 3] * 3, abs=0.03)
    assert result == expected


def test_it_trains_with_any_method_and_differs():
    training = Training(optimizer="sgd", lr=0.1, batch_size=8, weight_decay=0.0)
    thetas = [
        play("moon", rounds=1, training=replace(training, sampling=sampling)).theta
        for sampling in ("shuffle", "class", "group", "group-class")
    ]
    for theta in thetas:
        assert theta.isfinite().all()
    assert not any(torch.equal(thetas[i], thetas[j]) for i in range(4) for j in range(i))


@pytest.mark.parametrize("wrong", ["groups", "group:", "class:sex", "shuffle:sex", "group:age", ""])
def test_what_is_no_sampling_is_refused(wrong):
    with pytest.raises(UsageError, match="--sampling"):
        sampling.check(wrong, SEX)
    if wrong != "group:age":
        with pytest.raises(UsageError, match="--sampling"):
            check(planned("fedavg", {}, Training(sampling=wrong)))


def test_data_without_groups_and_a_method_that_draws_itself_are_refused():
    with pytest.raises(UsageError, match="this dataset has none"):
        sampling.check("group", {})
    with pytest.raises(UsageError, match="draws its classes equally often itself"):
        check(planned("crt", {}, Training(sampling="group"), rounds=1))
