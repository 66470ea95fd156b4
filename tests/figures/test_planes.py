"""Overall scores against worst groups of frames that are made by hand: points, labels and bars."""

import numpy as np
import pytest
from panels import axes_of, points_of, texts_of

from fedcli.figures.kinds import overall_and_worst


def pairs(*points, systems=None, names=None, metric="accuracy"):
    lines = []
    for place, (overall, worst) in enumerate(points):
        name = names[place] if names else f"S{place}"
        lines.append(("sex", name, place, overall, worst))
    return overall_and_worst.of_pairs(lines, metric, systems or len(points), 100)


def test_the_front_is_joined_and_each_system_is_numbered():
    picture = overall_and_worst.draw(pairs((80, 60), (70, 70), (75, 55)))
    axes = axes_of(picture)["by sex"]
    front, *points = points_of(axes)
    assert front == [[70, 70], [80, 60]]
    expected = [[[80, 60]], [[70, 70]], [[75, 55]]]
    assert points == expected
    assert texts_of(axes.texts) == ["1", "2", "3"]
    assert list(picture.legend) == ["1 S0", "2 S1", "3 S2"]
    assert axes.get_xlabel() == "accuracy, all images (%)"


def test_the_front_of_a_metric_that_is_better_when_low_has_the_lowest_points():
    table = pairs((5, 6), (20, 30), (4, 7), metric="calibration_error_top_label")
    assert table["front"].tolist() == [True, False, True]


def test_points_that_lie_together_share_a_label():
    table = pairs((80, 60), (80, 60), (60, 40), (80.1, 60))
    picture = overall_and_worst.draw(table)
    axes = axes_of(picture)["by sex"]
    assert sorted(texts_of(axes.texts)) == ["1, 2, 4", "3"]


def in_a_panel(*lines):
    """The axes of systems S0, S1 and so on, by overall, worst, the ends of both bars, group, small."""
    systems = [("sex", f"S{place}", place, *line) for place, line in enumerate(lines)]
    table = overall_and_worst.of_pairs(systems, "accuracy", len(systems), 100)
    return axes_of(overall_and_worst.draw(table))["by sex"], table.attrs["caption"]


def test_points_that_lie_together_beside_long_bars_share_a_label():
    lines = [(80.0 + k, 60.0, 50.0, 99.0, 20.0, 90.0, "f", False) for k in (0, 4, 2)]
    axes, caption = in_a_panel(*lines)
    assert texts_of(axes.texts) == ["1, 2, 3"]
    assert axes.texts[0].xy == (84, 60)
    assert "†" not in caption


def test_a_worst_group_that_is_too_small_has_a_mark_and_its_name_in_the_caption():
    bars = 75.0, 85.0, 50.0, 70.0
    axes, caption = in_a_panel(
        (80.0, 60.0, *bars, "f", True),
        (70.0, 40.0, *bars, "m", False),
        (60.0, 20.0, *bars, "f", True),
    )
    assert texts_of(axes.texts) == ["1†", "2", "3†"]
    assert " † marks a worst group that is too small" in caption
    assert "few images: sex f. n = 100" in caption


def test_a_worst_group_without_an_interval_leaves_the_bar_of_all_images():
    nan = np.nan
    axes, _ = in_a_panel((80.0, 60.0, 75.0, 85.0, nan, nan))
    (across,) = [bar.get_segments()[0].tolist() for bar in axes.collections]
    assert across == [[75, 60], [85, 60]]


def test_axes_show_one_percent_at_least():
    axes, _ = in_a_panel((80.0, 60.0), (80.001, 60.001))
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    width = 1 + 2 * overall_and_worst.MARGIN
    assert right - left == pytest.approx(width)
    assert top - bottom == pytest.approx(width)
    middle = (left + right) / 2
    assert middle == pytest.approx(80.0005)


def test_of_many_systems_those_off_the_front_are_grey_and_have_no_number():
    points = [(50 + number, 50 + number) for number in range(13)]
    table = pairs(*points)
    picture = overall_and_worst.draw(table)
    assert list(picture.legend) == ["1 S0", "2 S12"]
    assert table.attrs["caption"].count("Grey: systems that are on no such line.") == 1
    axes = axes_of(picture)["by sex"]
    grey = [line for line in axes.lines if line.get_color() == "#9a9a9a"]
    assert len(grey) == 11


def test_intervals_are_bars_both_ways_and_are_explained():
    line = ("sex", "S0", 0, 80.0, 60.0, 75.0, 85.0, 50.0, 70.0)
    table = overall_and_worst.of_pairs([line], "accuracy", 1, 100)
    assert "Bars: 95 % bootstrap intervals" in table.attrs["caption"]
    assert "so its bar lies too low" in table.attrs["caption"]
    of_errors = overall_and_worst.of_pairs([line], "calibration_error_top_label", 1, 100)
    assert "so its bar lies too high" in of_errors.attrs["caption"]
    picture = overall_and_worst.draw(table)
    axes = axes_of(picture)["by sex"]
    across, down = [bar.get_segments()[0].tolist() for bar in axes.collections]
    assert across == [[75, 60], [85, 60]]
    assert down == [[80, 50], [80, 70]]


def test_points_without_intervals_have_no_bars():
    table = pairs((80, 60), (70, 70))
    assert "Bars:" not in table.attrs["caption"]
    picture = overall_and_worst.draw(table)
    assert not axes_of(picture)["by sex"].collections
