"""Widths and detectable gaps of the test images of a manifest."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedcli.labels import NO, UNKNOWN, YES
from fedcli.reporting import power
from fedcli.scores.statistics.power import smallest_gap


def test_images_of_which_the_label_is_unknown_are_left_out(monkeypatch):
    y = np.array([[YES, NO], [NO, NO], [UNKNOWN, NO], [UNKNOWN, YES], [NO, YES]])
    groups = {"sex": np.array([0, 0, 0, 1, 1])}
    pool = SimpleNamespace(y=y, id=np.arange(5), patient=None, groups=groups)
    body = {"classes": ["edema", "mass"], "attributes": {"sex": ["f", "m"]}}
    dataset = SimpleNamespace(kind="dataset", body=body)
    monkeypatch.setattr(power.manifest, "read", lambda *_: dataset)
    monkeypatch.setattr(power, "holdings", lambda _: (pool, {}, np.arange(5)))
    facts = power.of_manifest(Path("dataset.json"), "edema")
    (every,), (f, m) = (facts[name]["groups"] for name in (power.ALL, "sex"))
    result = [(group["images"], group["positives"], group["negatives"]) for group in (every, f, m)]
    expected = [
        (3, 1, 2),
        (2, 1, 1),
        (1, 0, 1),
    ]
    assert result == expected


def test_the_smallest_gap_is_that_of_fleiss():
    """1.96 and 0.84 standard errors of a difference of two shares of 80 %, of 50 and 200 patients."""
    expected = pytest.approx((1.959964 + 0.841621) * np.sqrt(0.16 * (1 / 50 + 1 / 200)))
    assert smallest_gap(50, 200, 0.8) == expected
    assert smallest_gap(1, 200, 0.8) is None
    assert smallest_gap(0, 9, 0.8) is None


def test_a_gap_that_no_other_share_can_have_is_none():
    """Of three patients and three it would be 91 points, and of 80 % the other group is 80 off at most."""
    assert smallest_gap(3, 3, 0.8) is None
    assert smallest_gap(4, 3, 0.8) is None
    assert smallest_gap(4, 4, 0.8) == pytest.approx(0.7924, abs=1e-4)
    assert smallest_gap(4, 4, 0.2) == pytest.approx(smallest_gap(4, 4, 0.8))
