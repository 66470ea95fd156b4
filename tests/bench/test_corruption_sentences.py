"""Checks of corruptions: what each finds in a corruption that is wrong in one way."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedcli.bench import corruption_checks
from fedcli.bench.checks import CheckFailed
from fedcli.bench.corruption_checks import CHECKS, picture, verdicts
from fedcli.data.corruption.kinds import SEVERITIES
from fedcli.errors import FedcliError


@dataclass
class MadeUp:
    """A corruption that darkens an image by its severity, unless `change` says otherwise."""

    change: Any = None
    needs_colour: bool = False
    smallest: int = 1

    def apply(self, image, id, severity, seed):
        if self.change:
            return self.change(image, severity)
        return image - severity


@pytest.fixture
def kind(monkeypatch):
    """A made-up corruption, which stands for every name."""
    corruption = MadeUp()
    monkeypatch.setattr(corruption_checks, "named", lambda name: corruption)
    return corruption


def reason(check, name="made-up"):
    with pytest.raises(CheckFailed) as failure:
        check(name)
    return str(failure.value)


@pytest.mark.usefixtures("kind")
def test_a_corruption_that_is_right_holds_all():
    results = verdicts("made-up")
    assert [verdict.about for verdict in results] == list(CHECKS)
    assert {verdict.why for verdict in results} == {""}


def test_other_bytes_the_second_time_are_named(kind):
    turns = []

    def drifting(image, severity):
        turns.append(severity)
        return image - len(turns)

    kind.change = drifting
    expected = "the same image, id, severity and seed give other bytes"
    assert reason(corruption_checks.same_bytes) == expected


def test_another_shape_is_named_beside_the_first(kind):
    kind.change = lambda image, severity: image[:, :10]
    expected = "(64, 72, 1) uint8 become (64, 10, 1) uint8"
    assert reason(corruption_checks.keeps_form) == expected


def test_another_type_is_named_beside_the_first(kind):
    kind.change = lambda image, severity: image.astype(np.float32)
    assert reason(corruption_checks.keeps_form).endswith("become (64, 72, 1) float32")


def test_an_image_that_is_written_into_is_noticed(kind):
    def careless(image, severity):
        image[0, 0] = 255
        return image

    kind.change = careless
    expected = "it writes into the image that it is given"
    assert reason(corruption_checks.keeps_form) == expected


def test_a_corruption_that_changes_nothing_is_noticed(kind):
    kind.change = lambda image, severity: image.copy()
    expected = "severity 5 changes no image of 1 channels"
    assert reason(corruption_checks.changes_images) == expected


def test_a_corruption_that_spares_colour_is_noticed(kind):
    kind.change = lambda image, severity: image - severity * (image.shape[2] == 1)
    expected = "severity 5 changes no image of 3 channels"
    assert reason(corruption_checks.changes_images) == expected


def test_a_higher_severity_that_is_nearer_is_shown_with_all_distances(kind):
    kind.change = lambda image, severity: image - [5, 6, 7, 3, 9][severity - 1]
    sentence = reason(corruption_checks.severities_rise)
    assert "are 5.00, 6.00, 7.00, 3.00, 9.00 grey levels" in sentence
    assert sentence.endswith("a higher severity should not be nearer")


def test_a_higher_severity_may_be_nearer_by_a_little(kind):
    kind.change = lambda image, severity: image - [50, 50, 50, 49, 50][severity - 1]
    corruption_checks.severities_rise("made-up")


def test_the_smallest_image_is_tried_and_none_below_8_pixels(kind):
    sides = []

    def noting(image, severity):
        sides.append(image.shape[0])
        return image - severity

    kind.change = noting
    for smallest in (1, 32):
        kind.smallest = smallest
        corruption_checks.any_size("made-up")
    assert sides == [8, 8, 32, 32]  # of one channel and of three


def test_a_corruption_of_colours_is_tried_on_colours_alone(kind):
    channels = set()

    def noting(image, severity):
        channels.add(image.shape[2])
        return image - severity

    kind.change = noting
    kind.needs_colour = True
    for check in CHECKS.values():
        check("made-up")
    assert channels == {3}


def test_a_refusal_is_the_reason_and_the_other_checks_go_on(kind):
    def refusing(image, severity):
        if severity == 3:
            raise FedcliError("mine.py: haze returned no image", "return one")
        return image - severity

    kind.change = refusing
    reasons = {verdict.check: verdict.why for verdict in verdicts("made-up")}
    assert reasons["same_bytes"] == "mine.py: haze returned no image"
    assert reasons["severities_rise"] == "mine.py: haze returned no image"
    assert reasons["keeps_form"] == reasons["any_size"] == ""


@pytest.mark.parametrize("channels", [1, 3])
def test_a_drawn_image_leaves_room_at_both_ends(channels):
    image = picture(channels)
    assert image.shape == (64, 64, channels)
    assert image.dtype == np.uint8
    assert image.min() >= 25
    assert image.max() <= 230
    assert len(np.unique(image)) > 50  # fine texture, which a blur would take


def test_drawn_images_differ_by_their_number_and_are_drawn_again_the_same():
    assert np.array_equal(picture(3, number=2), picture(3, number=2))
    assert not np.array_equal(picture(3, number=2), picture(3, number=3))


def test_there_is_a_distance_for_each_severity(kind):
    distances = corruption_checks._distances("made-up", 3)
    assert distances == [float(severity) for severity in SEVERITIES]
