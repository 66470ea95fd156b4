"""Shapes that figures share: where lines, cells and bars stand, and how their axes are written."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from pandas import DataFrame
from tables_of_numbers import rows

from fedcli.figures import shapes
from fedcli.figures.drawing import COLOURS, MARKERS, look, marked


@pytest.fixture
def axes():
    return Figure().add_subplot()


def table_of(**columns):
    return DataFrame(columns)


CURVES = table_of(
    x=[1, 2, 3, 1, 2],
    y=[5.0, 6.0, 7.0, 1.0, 2.0],
    name=["b", "b", "b", "a", "a"],
    low=[4.0, 5.0, 6.0, np.nan, np.nan],
    high=[6.0, 7.0, 8.0, np.nan, np.nan],
)
LOOKS = {"a": look(0), "b": look(1)}


def draw_lines(axes, table=CURVES, x="x", **options):
    shapes.lines(table, axes, x=x, y="y", hue="name", looks=LOOKS, **options)


def texts_of(ticks):
    return [label.get_text() for label in ticks]


def test_each_name_has_a_line_of_its_colour_in_the_order_of_the_table(axes):
    draw_lines(axes, xlabel="rounds", ylabel="loss")
    first, second = axes.lines
    expected = rows("1 5; 2 6; 3 7")
    assert first.get_xydata().tolist() == expected
    expected = [[1, 1], [2, 2]]
    assert second.get_xydata().tolist() == expected
    expected = [COLOURS[1], COLOURS[0]]
    assert [first.get_color(), second.get_color()] == expected
    result = [first.get_linestyle(), second.get_linestyle()]
    assert result == ["--", "-"]
    result = (axes.get_xlabel(), axes.get_ylabel())
    assert result == ("rounds", "loss")


def test_only_names_with_bounds_have_a_band(axes):
    draw_lines(axes, bounds=("low", "high"), shade=0.5)
    (band,) = axes.collections
    assert band.get_alpha() == 0.5
    corners = band.get_paths()[0].vertices
    assert corners[:, 0].min() == 1
    assert corners[:, 0].max() == 3
    assert corners[:, 1].min() == 4
    assert corners[:, 1].max() == 8


def test_without_bounds_there_is_no_band(axes):
    draw_lines(axes)
    assert not axes.collections


def test_rounds_have_whole_numbers_along_their_axis(axes):
    rounds = CURVES.rename(columns={"x": "round"})
    draw_lines(axes, rounds, "round")
    ticks = axes.get_xticks()
    assert (ticks == ticks.round()).all()


ALONE = [
    ([True, True, False, True], [False, False, False, True]),
    ([True, False, True, True], [True, False, False, False]),
    ([False, True, False], [False, True, False]),
    ([True], [True]),
    ([False, False], [False, False]),
]


@pytest.mark.parametrize(("finite", "expected"), ALONE)
def test_a_value_between_two_gaps_is_alone(finite, expected):
    result = shapes.alone(np.array(finite)).tolist()
    assert result == expected


def test_a_short_curve_has_a_dot_at_each_finite_value(axes):
    shapes.line(axes, np.array([[1, 5.0], [2, np.nan], [3, 6.0]]))
    result = axes.lines[0].get_markevery()
    assert result == [0, 2]


def test_a_long_curve_has_dots_at_lonely_values_alone(axes):
    values = np.full(50, 1.0)
    values[[10, 12]] = np.nan
    shapes.line(axes, np.column_stack([np.arange(50), values]))
    assert axes.lines[0].get_markevery() == [11]


def test_a_look_may_leave_the_dots_out(axes):
    shapes.line(axes, np.array([[1, 5.0], [2, 6.0]]), marker="")
    assert axes.lines[0].get_marker() == ""


CELLS = DataFrame([[0.9, 0.1], [0.3, 0.7]], index=["ill", "well"], columns=["ill", "well"])


def test_a_matrix_has_a_cell_for_each_row_and_column_with_their_names(axes):
    shapes.matrix(CELLS, axes)
    (image,) = axes.images
    assert image.get_array().tolist() == CELLS.to_numpy().tolist()
    assert texts_of(axes.get_yticklabels()) == ["ill", "well"]
    assert texts_of(axes.get_xticklabels()) == ["ill", "well"]
    assert len(axes.figure.axes) == 1  # no scale of colours
    assert not axes.texts


def test_numbers_on_dark_cells_are_white(axes):
    texts = np.array([[90, 10], [30, 70]])
    shapes.matrix(CELLS, axes, texts=texts)
    numbers = {text.get_position(): text for text in axes.texts}
    assert numbers[0, 0].get_text() == "90"
    assert numbers[1, 0].get_text() == "10"
    assert numbers[0, 0].get_color() == "#ffffff"
    assert numbers[1, 0].get_color() == "#000000"


@pytest.mark.parametrize(("names", "turn"), [(["a", "bc"], 0), (["a", "abc"], 90)])
def test_long_names_below_a_matrix_are_turned(axes, names, turn):
    cells = DataFrame([[1.0, 2.0]], columns=names)
    shapes.matrix(cells, axes)
    result = {label.get_rotation() for label in axes.get_xticklabels()}
    assert result == {turn}


def test_cells_without_images_stay_white_and_far_numbers_have_a_logarithmic_scale(axes):
    cells = DataFrame([[0, 1], [50, 900]], columns=["a", "b"])
    shapes.amounts(cells, axes, "images")
    (image,) = axes.images
    expected = [[True, False], [False, False]]
    assert image.get_array().mask.tolist() == expected
    assert type(image.norm).__name__ == "LogNorm"
    scale = axes.figure.axes[1]
    assert scale.get_ylabel() == "images"


def test_near_numbers_have_an_even_scale_from_0(axes):
    cells = DataFrame([[5, 9]], columns=["a", "b"])
    shapes.amounts(cells, axes, "images")
    assert axes.images[0].norm.vmin == 0
    result = type(axes.images[0].norm).__name__
    assert result == "Normalize"


def test_bars_of_several_values_follow_one_another(axes):
    cells = DataFrame({"ill": [3, 1], "well": [2, 5]}, index=["north", "south"])
    shapes.bars(cells, axes, "images")
    places = [(bar.get_x(), bar.get_width(), bar.get_y() + 0.4) for bar in axes.patches]
    expected = rows("0 3 0; 0 1 1; 3 2 0; 1 5 1")
    assert np.array(places).tolist() == expected
    assert texts_of(axes.get_yticklabels()) == ["north", "south"]
    ticks = axes.get_legend().get_texts()
    result = texts_of(ticks)
    assert result == ["ill", "well"]
    assert axes.yaxis_inverted()
    assert axes.get_xscale() == "linear"


def test_bars_of_one_value_have_no_legend_and_may_be_logarithmic(axes):
    cells = DataFrame({"images": [3, 900]}, index=["a", "b"])
    shapes.bars(cells, axes, "images")
    assert axes.get_legend() is None
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel() == "images"


def test_a_wide_table_keeps_the_order_in_which_names_come():
    client = ["z", "z", "a", "a"]
    images = [1, 2, 3, 4]
    long = table_of(client=client, value=["y", "x", "y", "x"], images=images)
    wide = shapes.wide(long, "client", "value", "images")
    assert list(wide.index) == ["z", "a"]
    assert list(wide.columns) == ["y", "x"]
    expected = [[1, 2], [3, 4]]
    assert wide.to_numpy().tolist() == expected


WRITTEN_NAMES = [(1, [0]), (30, list(range(30))), (31, list(range(0, 31, 2)))]


@pytest.mark.parametrize(("count", "shown"), WRITTEN_NAMES)
def test_of_many_names_every_second_is_written(axes, count, shown):
    names = [f"n{number}" for number in range(count)]
    shapes.name_ticks(axes.xaxis, names)
    assert axes.get_xticks().tolist() == shown
    expected = [f"n{number}" for number in shown]
    assert texts_of(axes.get_xticklabels()) == expected


SCALES = [
    ([1, 20], ""),
    ([1, 20.1], "log"),
    ([0, 1, 1000], ""),
    ([0, 1, 1001], "symlog"),
    ([-1, 1, 10_000], ""),
    ([0, 0], ""),
    ([], ""),
    ([5], ""),
]


@pytest.mark.parametrize(("values", "scale"), SCALES)
def test_values_that_spread_far_have_another_scale(axes, values, scale):
    numbers = np.array(values, float)
    assert shapes.spread_far(numbers) == scale
    shapes.stretch(axes, numbers)
    assert axes.get_yscale() == (scale or "linear")
    assert axes.get_xscale() == "linear"


@pytest.mark.parametrize(
    ("value", "text"), [(0.001, "0.001"), (0.00001, "1e-5"), (1e6, "1e+06"), (20.0, "20")]
)
def test_numbers_along_a_logarithmic_axis_are_plain(axes, value, text):
    values = np.array([1.0, 5000.0])
    shapes.stretch(axes, values)
    assert axes.yaxis.get_major_formatter()(value, None) == text


def test_a_logarithmic_axis_of_few_decades_has_ticks_between_them(axes):
    axes.set_ylim(1, 100)
    values = np.array([1.0, 100.0])
    shapes.stretch(axes, values)
    ticks = axes.get_yticks()
    assert {2, 5, 20, 50} <= set(ticks)


def test_an_axis_with_zero_is_even_up_to_the_smallest_number(axes):
    result = shapes.scaled(axes, np.array([0.0, 0.5, 900.0]), "x")
    assert result == "symlog"
    assert axes.xaxis.get_transform().linthresh == 0.5


def test_looks_follow_the_column_of_places_or_the_order_of_names():
    name = ["b", "a", "b"]
    table = table_of(name=name)
    expected = {"b": look(0), "a": look(1)}
    assert shapes.looks_of(table, "name") == expected
    table["place"] = [3, 0, 3]
    looks = shapes.looks_of(table, "name", marked)
    assert looks["b"]["marker"] == MARKERS[3]
    assert looks["a"]["marker"] == MARKERS[0]


def test_a_caption_ends_with_the_number_of_images():
    table = shapes.titled(table_of(), "A title", "What it shows.", 1234, score="accuracy")
    expected = {
        "title": "A title",
        "caption": "What it shows. n = 1,234 images.",
        "score": "accuracy",
    }
    assert table.attrs == expected
    result = shapes.titled(table_of(), "A title").attrs["caption"]
    assert result == ""


def test_a_picture_has_the_words_of_its_frame():
    table = shapes.titled(table_of(), "A title", "What it shows.", 5)
    picture = shapes.picture(table, [], {"a": look(0)}, columns=2)
    assert picture.title == "A title"
    assert picture.caption == "What it shows. n = 5 images."
    assert list(picture.legend) == ["a"]
    assert picture.columns == 2
    assert shapes.picture(table_of(), []).title == ""


def test_a_panel_is_of_the_lines_of_one_value(axes):
    kind = ["x", "y", "x"]
    number = [1, 2, 3]
    table = table_of(kind=kind, number=number)
    drawn = []

    def draw(part, axes):
        drawn.append(part["number"].tolist())

    panels = shapes.panels(table, "kind", draw, "kind {}".format, words="small words")
    for panel in panels:
        panel.draw(axes)
    result = [panel.title for panel in panels]
    assert result == ["kind x", "kind y"]
    result = [panel.about for panel in panels]
    assert result == ["small words", "small words"]
    assert drawn == [[1, 3], [2]]


def test_a_legend_of_groups_has_their_images_and_marks_behind_short_names():
    names = ["all images", "f", f"{'very ' * 8}long a", f"{'very ' * 8}long b"]
    looks = {name: shapes.look(position) for position, name in enumerate(names)}
    sizes = dict.fromkeys(names, 1200)
    legend = shapes.legend_of_groups(looks, sizes, [names[3]])
    assert list(legend.values()) == list(looks.values())
    whole, short, first, second = legend
    assert (whole, short) == ("all images", "f (n = 1,200)")
    assert first.endswith("long a (n = 1,200)")
    assert second.endswith("long b† (n = 1,200)")
