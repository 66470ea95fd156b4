"""The forest of small frames that are made by hand."""

import numpy as np
import pytest
from panels import axes_of, framed, points_of, texts_of

from fedcli.figures import drawing
from fedcli.figures.kinds import forest


def forest_line(system, place, attribute, group, value, *, low=np.nan, high=np.nan, small=False):
    return "clean", system, place, attribute, group, 12, small, value, low, high


def of_forest(*lines):
    return framed(lines, forest.COLUMNS, score="accuracy")


TWO_SYSTEMS = of_forest(
    forest_line("FedAvg", 0, "", "all images", 80.0, low=75.0, high=85.0),
    forest_line("FedHEAL", 1, "", "all images", 82.0),
    forest_line("FedAvg", 0, "sex", "f", 70.0, small=True),
    forest_line("FedHEAL", 1, "sex", "f", 74.0, small=True),
)


def test_systems_stand_side_by_side_within_each_group():
    picture = forest.draw(TWO_SYSTEMS)
    axes = axes_of(picture)["clean test images"]
    first, second = points_of(axes)[:2]
    expected = [pytest.approx([80, -0.175]), pytest.approx([70, 0.825])]
    assert first == expected
    expected = [pytest.approx([82, 0.175]), pytest.approx([74, 1.175])]
    assert second == expected
    assert list(picture.legend) == ["FedAvg", "FedHEAL"]
    assert axes.get_xlabel() == "accuracy (%)"
    assert axes.get_ylim() == (1.5, -0.5)


def test_a_small_group_has_a_mark_behind_its_name():
    picture = forest.draw(TWO_SYSTEMS)
    axes = axes_of(picture)["clean test images"]
    assert texts_of(axes.get_yticklabels()) == ["all images (n = 12)", "f† (n = 12)"]


def test_panels_grow_with_long_names_and_a_dot_at_100_is_whole():
    width, height = forest.draw(TWO_SYSTEMS).size
    assert width == forest.WIDTH
    long_name = forest_line("FedAvg", 0, "sex", "f" * 60, 100.0, small=True)
    picture = forest.draw(of_forest(forest_line("FedAvg", 0, "", "all images", 80.0), long_name))
    axes = axes_of(picture)["clean test images"]
    _, name = texts_of(axes.get_yticklabels())
    assert name == f"{'f' * 27}…† (n = 12)"
    wider, same = picture.size
    assert wider == pytest.approx(forest.SCORES + len(name) * drawing.OF_TICK)
    assert same == height
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert not any(dot.get_clip_on() for dot in dots)


def test_a_number_of_images_that_systems_do_not_share_is_left_out():
    other = TWO_SYSTEMS.copy()
    other.loc[3, "n"] = 48
    picture = forest.draw(other)
    axes = axes_of(picture)["clean test images"]
    assert texts_of(axes.get_yticklabels()) == ["all images (n = 12)", "f†"]
    other["n"] = other["n"].astype("Int64")
    other.loc[[0, 1], "n"] = None  # of folds
    picture = forest.draw(other)
    axes = axes_of(picture)["clean test images"]
    assert texts_of(axes.get_yticklabels()) == ["all images", "f†"]


def test_groups_of_several_attributes_have_theirs_in_front():
    lines = [
        forest_line("FedAvg", 0, attribute, group, 80.0)
        for attribute, group in (("", "all images"), ("sex", "f"), ("race", "b"))
    ]
    picture = forest.draw(of_forest(*lines))
    axes = axes_of(picture)["clean test images"]
    assert texts_of(axes.get_yticklabels()) == [
        "all images (n = 12)",
        "sex: f (n = 12)",
        "race: b (n = 12)",
    ]
    assert not picture.legend  # of one system


def test_many_systems_have_a_line_each_the_best_first():
    lines = [
        forest_line(f"method {number}", number, "", "all images", 50.0 + number % 7 + number / 100)
        for number in range(13)
    ]
    picture = forest.draw(of_forest(*lines))
    axes = axes_of(picture)["clean test images (n = 12)"]
    names = texts_of(axes.get_yticklabels())
    assert names[:3] == ["method 6", "method 12", "method 5"]
    assert names[-1] == "method 0"
    reference, systems = axes.lines
    assert list(reference.get_xdata()) == [50, 50]
    scores = systems.get_xdata()
    assert list(scores) == sorted(scores, reverse=True)
    assert not picture.legend


LIMITS_BY_NUMBERS = [
    ((80.0, 75.0, 85.0), (74.5, 85.5)),
    ((50.0, 0.0, 90.0), (-3.6, 93.6)),
    ((99.0, 90.0, 100.0), (89.5, 100.125)),
    ((80.0, np.nan, np.nan), (79.5, 80.5)),
]


@pytest.mark.parametrize(("numbers", "limits"), LIMITS_BY_NUMBERS)
def test_the_limits_hold_all_intervals_and_a_margin_up_to_100(numbers, limits):
    value, low, high = numbers
    table = of_forest(forest_line("A", 0, "", "all images", value, low=low, high=high))
    assert forest._limits(table) == pytest.approx(limits)
