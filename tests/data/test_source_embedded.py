"""The data sets that fedcli brings: digits, and phantoms with a planted disparity."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from raw_folders import completed, ids

from fedcli.data.pool import Row
from fedcli.data.sources import phantom, toy


def test_toy_is_scikit_learns_digits():
    listing = toy.rows(None, completed(16, "image"))
    assert len(listing.rows) == 1797
    assert listing.rows[0].id == "digit-0000"
    assert listing.rows[0].label == 0
    images_of_class = Counter(row.label for row in listing.rows)
    expected = sum(int(0.8 * n) for n in images_of_class.values())
    assert len(ids(listing, test=False)) == expected
    image = toy.decode(None, listing.rows[0], completed(16, "image"))
    assert image.shape == (8, 8, 1)
    assert image.max() == 239


def test_phantom_deals_every_attribute_alike_to_every_class():
    listing = phantom.rows(None, completed(64, "patient"))
    assert len(listing.rows) == 1200
    result = len({row.patient for row in listing.rows})
    assert result == 600
    for label in range(4):
        races = Counter(row.groups["race"] for row in listing.rows if row.label == label)
        assert races == {0: 210, 1: 60, 2: 30}
    assert not {r.patient for r in listing.rows if r.test} & {
        r.patient for r in listing.rows if not r.test
    }
    result = sum(row.test for row in listing.rows)
    assert result == 240


def test_a_phantom_slice_depends_on_seed_and_id_alone():
    choices = completed(32, "patient")
    row = phantom.rows(None, choices).rows[7]
    expected = phantom.decode(None, row, choices)
    assert np.array_equal(phantom.decode(None, row, choices), expected)
    other = phantom.decode(None, row, replace(choices, seed=1))
    assert not np.array_equal(phantom.decode(None, row, choices), other)
    assert not np.array_equal(
        phantom.decode(None, row, choices), phantom.decode(None, replace(row, id="x"), choices)
    )


def of_race(row: Row, race: int) -> np.ndarray:
    groups = {**row.groups, "race": race}
    return phantom.decode(None, replace(row, groups=groups), completed(64, "patient")).astype(int)


def test_phantom_plants_its_disparity_in_the_bleed_and_nowhere_else():
    rows = phantom.rows(None, completed(64, "patient")).rows
    healthy = next(row for row in rows if phantom.CLASSES[row.label] == "none")
    assert np.array_equal(of_race(healthy, 0), of_race(healthy, 1))
    bleeding = next(row for row in rows if phantom.CLASSES[row.label] == "intraparenchymal")
    white, black, asian = (of_race(bleeding, race) for race in range(3))
    inside = (white < 255) & (white - black > 30)  # where nothing was clipped
    assert inside.sum() > 20
    result = ((white - black)[inside] / (white - asian)[inside]).mean()
    expected = pytest.approx((1 - 0.4) / (1 - 0.6), rel=0.02)
    assert result == expected
