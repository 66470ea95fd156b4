"""Figures of small frames that are made by hand: positions, names, limits and legends."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from panels import axes_of, framed, points_of, texts_of
from tables_of_numbers import rows

from fedcli.figures import drawing
from fedcli.figures.drawing import COLOURS, INK, MANY
from fedcli.figures.kinds import (
    adapters,
    answers,
    confusion,
    convergence,
    counts,
    divergence,
    errors,
    features,
    flow,
    histograms,
    quality,
    reconstructions,
    severities,
    weights,
)
from fedcli.figures.system import AnsweredImages

CONFUSION = framed(
    [
        ("all images", "ill", "ill", 30),
        ("all images", "ill", "well", 10),
        ("all images", "well", "ill", 0),
        ("all images", "well", "well", 0),
        ("f", "ill", "ill", 1),
        ("f", "ill", "well", 0),
        ("f", "well", "ill", 2),
        ("f", "well", "well", 2),
    ],
    ["group", "true", "predicted", "images"],
)


def test_a_confusion_matrix_has_images_in_its_cells_and_shares_as_colours():
    panels = axes_of(confusion.draw(CONFUSION))
    assert list(panels) == ["all images (n = 40)", "f (n = 5)"]
    whole = panels["all images (n = 40)"]
    assert texts_of(whole.texts) == ["30", "10", "0", "0"]
    result = whole.images[0].get_array().tolist()
    assert result == [[0.75, 0.25], [0, 0]]
    result = (whole.get_xlabel(), whole.get_ylabel())
    assert result == ("predicted", "true")


def test_classes_and_groups_with_the_same_beginning_keep_apart():
    classes = ["pneumonia bacterial", "pneumonia viral", f"{'x' * 30}1", f"{'x' * 30}2"]
    groups = ["all images", f"{'y' * 30}1", f"{'y' * 30}2"]
    cells = [(group, true, guess, 1) for group in groups for true in classes for guess in classes]
    table = framed(cells, ["group", "true", "predicted", "images"])
    picture = confusion.draw(table)
    titles = [panel.title for panel in picture.panels]
    assert titles == [f"{name} (n = 16)" for name in groups]
    for axes in axes_of(picture).values():
        below = texts_of(axes.get_xticklabels())
        beside = texts_of(axes.get_yticklabels())
        assert below == beside == classes
    width, height = picture.size
    few, lower = confusion.draw(CONFUSION).size
    assert width > few + 1.5
    assert height > lower + 1.5


def test_many_classes_have_cells_without_numbers():
    names = [f"class {number}" for number in range(11)]
    lines = [("all images", true, guess, 1) for true in names for guess in names]
    columns = ["group", "true", "predicted", "images"]
    table = framed(lines, columns)
    picture = confusion.draw(table)
    (axes,) = axes_of(picture).values()
    assert not axes.texts
    result = axes.images[0].get_array().shape
    assert result == (11, 11)


def of_weights(clients, rounds=(1, 2), corrupted=()):
    lines = []
    for position, client in enumerate(clients):
        for number in rounds:
            weight = (position + number) / 100
            lines.append(("FedAvg", client, client in corrupted, number, weight))
    return framed(lines, weights.COLUMNS)


def test_a_corrupted_client_has_a_dashed_line_of_its_own_colour():
    picture = weights.draw(of_weights(["north", "south"], corrupted=["south"]))
    assert list(picture.legend) == ["north", "south (corrupted)"]
    assert picture.caption == f"{weights.ABOUT} A dashed line is a corrupted client's."
    axes = axes_of(picture)["FedAvg"]
    result = [line.get_linestyle() for line in axes.lines]
    assert result == ["-", "--"]
    result = [line.get_color() for line in axes.lines]
    assert result == list(MANY[:2])
    expected = [[[1, 0.01], [2, 0.02]], [[1, 0.02], [2, 0.03]]]
    assert points_of(axes) == expected
    expected = pytest.approx((0, 1.05 * 0.03))
    assert axes.get_ylim() == expected
    assert axes.get_xlabel() == "round"


def test_without_corrupted_clients_the_caption_has_no_dashes():
    result = weights.draw(of_weights(["north", "south"])).caption
    assert result == weights.ABOUT


@pytest.mark.parametrize(
    ("corrupted", "names"),
    [((), ["one client"]), (("c0", "c3"), ["clean client", "corrupted client"])],
)
def test_many_clients_have_a_colour_for_each_kind(corrupted, names):
    clients = [f"c{number}" for number in range(11)]
    picture = weights.draw(of_weights(clients, corrupted=corrupted))
    assert list(picture.legend) == names
    axes = axes_of(picture)["FedAvg"]
    assert len(axes.lines) == 11
    expected = set(MANY[: len(names)])
    result = {line.get_color() for line in axes.lines}
    assert result == expected


def test_of_a_crowd_the_median_and_the_spread_are_drawn():
    clients = [f"c{number}" for number in range(61)]
    picture = weights.draw(of_weights(clients, rounds=[1]))
    assert picture.caption == weights.ABOUT + weights.CROWDED
    axes = axes_of(picture)["FedAvg"]
    result = [line.get_ydata().tolist() for line in axes.lines]
    assert result == [[0.31], [0.31]]
    ends = [band.get_paths()[0].vertices[:, 1] for band in axes.collections]
    expected = [
        pytest.approx((0.01, 0.61)),
        pytest.approx((0.07, 0.55)),
    ]
    result = [(end.min(), end.max()) for end in ends]
    assert result == expected


def test_a_crowd_with_corrupted_clients_has_two_medians():
    clients = [f"c{number}" for number in range(61)]
    corrupted = clients[:2]
    picture = weights.draw(of_weights(clients, corrupted=corrupted))
    assert " A dashed line is a corrupted clients'." in picture.caption
    axes = axes_of(picture)["FedAvg"]
    result = {line.get_linestyle() for line in axes.lines}
    assert result == {"-", "--"}


def test_severities_have_a_tick_each_and_a_marked_line_for_each_group():
    lines = [
        ("fog", group, place, severity, 80.0 - 5 * severity - place, 20.0, 90.0)
        for group, place in (("all images", -1), ("f", 0))
        for severity in (0, 2, 5)
    ]
    sizes = {"f": 1200}
    table = framed(lines, severities.COLUMNS, score="accuracy", sizes=sizes, small=["f"])
    picture = severities.draw(table)
    assert list(picture.legend) == ["all images", "f† (n = 1,200)"]
    axes = axes_of(picture)["fog"]
    assert len(axes.collections) == 1  # the band of the group
    assert axes.get_xticks().tolist() == [0, 2, 5]
    assert axes.get_ylabel() == "accuracy (%)"
    expected = [rows("0 81; 2 71; 5 56"), rows("0 80; 2 70; 5 55")]
    assert points_of(axes) == expected
    result = [line.get_color() for line in axes.lines]
    assert result == [INK, COLOURS[0]]


def of_curves(*lines):
    return framed(lines, convergence.COLUMNS)


def test_a_system_of_several_seeds_has_a_band_and_the_legend_says_of_what():
    several_seeds = ("clean auc", "A", 1, 50.0, 45.0, 55.0, 0, "AUC, clean", "%")
    one_seed = ("clean auc", "B", 1, 60.0, np.nan, np.nan, 1, "AUC, clean", "%")
    table = of_curves(several_seeds, one_seed)
    picture = convergence.draw(table)
    assert list(picture.legend) == ["A", "B", "mean ± std over runs"]
    axes = axes_of(picture)["AUC, clean"]
    assert len(axes.collections) == 1
    assert axes.get_ylabel() == "%"
    assert axes.get_xlabel() == "round"


def test_without_a_spread_the_legend_has_none():
    table = of_curves(("loss", "A", 1, 5.0, np.nan, np.nan, 0, "Training loss", "mean"))
    result = list(convergence.draw(table).legend)
    assert result == ["A"]


def test_series_of_one_title_and_another_unit_have_panels_of_their_own():
    in_nats = ("a", "A", 1, 5.0, np.nan, np.nan, 0, "Loss", "nats")
    in_bits = ("b", "A", 1, 5.0, np.nan, np.nan, 0, "Loss", "bits")
    table = of_curves(in_nats, in_bits)
    panels = convergence.draw(table).panels
    result = [panel.title for panel in panels]
    assert result == ["Loss", "Loss"]


def of_histogram(chance):
    lines = [
        ("consistency", 10, run, edge, share, share - 5, share + 5, chance)
        for run, share in (("a", 40.0), ("b", 60.0))
        for edge in (0.5, 1.0)
    ]
    return framed(lines, histograms.COLUMNS)


def test_bars_of_runs_stand_side_by_side_in_their_bin():
    picture = histograms.draw(of_histogram(np.nan))
    axes = axes_of(picture)["after 10 rounds"]
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axes.patches]
    width = 0.85 * 0.5 / 2
    half = width / 2
    expected = pytest.approx([0.25 - half, 0.75 - half, 0.25 + half, 0.75 + half])
    assert middles == expected
    result = [bar.get_height() for bar in axes.patches]
    assert result == [40, 40, 60, 60]
    assert axes.get_ylabel() == "parameters (%)"


LEGENDS_OF_CHANCE = [
    (25.0, ["a", "b", "lowest to highest client", "expected of coin tosses"]),
    (np.nan, ["a", "b", "lowest to highest client"]),
]


@pytest.mark.parametrize(("chance", "names"), LEGENDS_OF_CHANCE)
def test_the_coin_is_in_the_legend_where_it_is_drawn(chance, names):
    result = list(histograms.draw(of_histogram(chance)).legend)
    assert result == names


def test_counts_of_up_to_seven_values_are_bars_and_of_more_a_map():
    few = [("class", client, value, 5) for client in ("n", "s") for value in "ab"]
    many = [("site", client, value, 5) for client in ("n", "s") for value in "abcdefgh"]
    lines = [*few, *many]
    columns = ["attribute", "client", "value", "images"]
    table = framed(lines, columns)
    figure = drawing.drawn(counts.draw(table))
    by_class, by_site = figure.axes[:2]
    assert len(by_class.patches) == 4
    assert not by_class.images
    result = by_site.images[0].get_array().shape
    assert result == (2, 8)


def size_of_counts(clients, values):
    lines = [("class", client, value, 5) for client in clients for value in values]
    return counts.draw(framed(lines, ["attribute", "client", "value", "images"])).size


def test_counts_with_long_or_many_names_have_larger_panels():
    usual_width, usual_height = counts.SIZE
    clients = ["north", "south"]
    size = size_of_counts(clients, ["ill", "well"])
    assert size == counts.SIZE
    size = size_of_counts(clients, "abcdefgh")
    assert size == counts.SIZE
    long_names = [f"{number} {'x' * 24}" for number in range(8)]
    width, height = size_of_counts(long_names[:2], "abcdefgh")
    assert width > usual_width
    assert height == usual_height
    width, height = size_of_counts(clients, long_names)
    assert width == usual_width
    assert height > usual_height + 0.9
    classes = [f"class {number}" for number in range(60)]
    width, height = size_of_counts(clients, classes)
    assert width > 5.5
    assert height == usual_height


def test_the_divergence_stands_beside_the_images():
    lines = [("n", "a", 5, 0.5), ("n", "b", 0, np.nan), ("s", "a", 1, 2.0), ("s", "b", 2, 1.0)]
    columns = ["client", "value", "images", "w"]
    table = framed(lines, columns)
    panels = axes_of(divergence.draw(table))
    result = list(panels)[:3]
    assert result == ["all clients", "by client", "w by client"]
    together = [bar.get_width() for bar in panels["all clients"].patches]
    assert together == [6, 2]
    result = panels["w by client"].images[0].get_array().mask.tolist()
    assert result == [
        [False, True],
        [False, False],
    ]


def test_singular_values_have_a_scale_of_their_own_and_cosines_one_up_to_1():
    lines = [("S", "f", "0", 4.0), ("S", "m", "0", -2.0), ("U'U", "0", "0", 0.5)]
    columns = ["matrix", "row", "column", "value"]
    table = framed(lines, columns)
    panels = axes_of(adapters.draw(table))
    values = panels["S, singular values"].images[0]
    cosines = panels["U'U, cosines"].images[0]
    result = (values.norm.vmin, values.norm.vmax)
    assert result == (-4, 4)
    result = (cosines.norm.vmin, cosines.norm.vmax)
    assert result == (-1, 1)


def test_singular_values_that_are_all_0_are_drawn_all_the_same():
    lines = [("S", "f", "0", 0.0)]
    columns = ["matrix", "row", "column", "value"]
    table = framed(lines, columns)
    picture = adapters.draw(table)
    (axes, *_) = axes_of(picture).values()
    assert axes.images[0].norm.vmax == 1


def test_a_class_has_a_colour_and_a_client_a_marker():
    lines = [
        (space, client, name, 1.0, 2.0)
        for space in ("features", "projected")
        for client in ("north", "south")
        for name in ("ill", "well")
    ]
    columns = ["space", "client", "class", "x", "y"]
    table = framed(lines, columns)
    picture = features.draw(table)
    assert list(picture.legend) == ["ill", "well", "north", "south"]
    panels = axes_of(picture)
    assert list(panels) == ["without projector", "with projector"]
    marks = [(line.get_color(), line.get_marker()) for line in panels["with projector"].lines]
    expected = [
        (COLOURS[0], "o"),
        (COLOURS[1], "o"),
        (COLOURS[0], "s"),
        (COLOURS[1], "s"),
    ]
    assert marks == expected


@pytest.mark.parametrize(("count", "different"), [(7, 7), (8, 8), (40, 40)])
def test_many_classes_have_colours_enough(count, different):
    result = len({tuple(colour) for colour in features._colours(count)})
    assert result == different


WITHOUT_A_PLANE = [
    np.array([[1.0, 2.0]]),
    np.array([[1.0, 2.0], [3.0, 4.0]]),
    np.ones((4, 3)),
]


@pytest.mark.parametrize("table", WITHOUT_A_PLANE)
def test_points_that_do_not_span_a_plane_have_zeros(table):
    plane = features.in_the_plane(table, "pca", seed=0)
    assert plane.shape == (len(table), 2)
    expected = pytest.approx(np.zeros(len(table)))
    assert plane[:, 1] == expected


def images_of(y, chances, ids=None):
    numbered = [f"image-{number}" for number in range(len(y))]
    ids = np.array(ids or numbered)
    groupings = {"sex": (np.arange(len(y)) % 2, ["f", "m"])}
    units = np.arange(len(y))
    return AnsweredImages(
        ["ill", "well"], ids, np.array(chances), np.array(y), units, False, groupings
    )


WRONG = images_of([0, 0, 0, 1], rows("0.2 0.8; 0.1 0.9; 0.9 0.1; 0.8 0.2"))


def test_errors_are_listed_from_the_surest_with_their_true_class():
    lines = errors._lines(WRONG, "")
    expected = [
        ("all images", "image-1", "well", "ill"),
        ("all images", "image-0", "well", "ill"),
        ("all images", "image-3", "ill", "well"),
    ]
    result = [(group, name, guess, true) for group, name, guess, _, true in lines]
    assert result == expected


def test_errors_by_group_leave_out_all_images_and_of_several_labels_there_are_none():
    result = [line[0] for line in errors._lines(WRONG, "sex")]
    assert result == ["f", "m", "m"]
    chances = [[0.5, 0.5]]
    several = images_of([[0, 1]], chances)
    assert errors._lines(several, "") == []


def test_of_equal_errors_the_first_by_id_comes_first():
    chances = [[0.2, 0.8], [0.2, 0.8]]
    images = images_of([0, 0], chances, ids=["b", "a"])
    result = errors.worst(images, np.arange(2))
    assert result == [1, 0]


def test_an_error_has_its_group_above_it_and_its_pixels_as_they_are():
    pixels = np.full((4, 4, 1), 7, np.uint8)
    lines = [("all images", "x", "ill", 0.912, "well"), ("f", "y", "ill", 0.8, "well")]
    columns = ["group", "image", "predicted", "probability", "true"]
    table = framed(lines, columns, pixels=[pixels, pixels])
    panels = axes_of(errors.draw(table))
    assert list(panels) == ["x\nill 0.91\nis well", "f\ny\nill 0.80\nis well"]
    for axes in panels.values():
        assert axes.images[0].get_array().tolist() == pixels[..., 0].tolist()


def test_long_words_above_errors_are_shortened_and_have_space():
    pixels = np.zeros((4, 4, 1), np.uint8)
    line = ("g" * 60, "i" * 60, "pneumonia bacterial", 0.8, "pneumonia viral")
    columns = ["group", "image", "predicted", "probability", "true"]
    picture = errors.draw(framed([line], columns, pixels=[pixels]))
    (panel,) = picture.panels
    group, image, *classes = panel.title.splitlines()
    assert group == f"{'g' * 27}…"
    assert image == f"{'i' * 27}…"
    assert classes == ["pneumonia bacterial 0.80", "is pneumonia viral"]
    width, height = picture.size
    assert width == pytest.approx(28 * errors.BOLD)
    assert height == 2.3


SHAPES_BY_CHANNELS = [(1, (4, 4)), (3, (4, 4, 3)), (5, (4, 4))]


@pytest.mark.parametrize(("channels", "shape"), SHAPES_BY_CHANNELS)
def test_of_a_volume_the_middle_slice_is_shown(channels, shape):
    pixels = np.zeros((4, 4, channels), np.uint8)
    pixels[..., channels // 2] = 9
    panels = [drawing.Panel("", lambda axes: errors.show_image(pixels, axes))]
    axes = drawing.drawn(drawing.Picture("", panels)).axes[0]
    shown = axes.images[0].get_array()
    assert shown.shape == shape
    assert shown.max() == 9


def test_reconstructions_have_their_psnr_above_them():
    pixels = [np.zeros((2, 2, 1), np.uint8)] * 2
    lines = [(reconstructions.finished.ORIGINAL, 0, 12.34), ("last", 0, 20.0)]
    columns = ["shown", "image", "psnr"]
    table = framed(lines, columns, pixels=pixels)
    picture = reconstructions.draw(table)
    result = [panel.title for panel in picture.panels]
    assert result == [
        "original\nmean image 12.3 dB",
        "from the\nlast model 20.0 dB",
    ]
    assert picture.columns == 2


STEPS = framed(
    [
        ("files listed", 120, "", False),
        ("images prepared", 100, "20 unreadable", False),
        ("trained on", 1080, "4 clients", True),
    ],
    ["step", "images", "about", "part"],
)


def test_a_step_is_a_box_with_its_images_and_words_beside_it():
    (axes,) = drawing.drawn(flow.draw(STEPS)).axes
    words = [text.get_text() for text in axes.texts if text.get_text()]
    assert words == [
        "files listed\n120",
        "images prepared\n100",
        "20 unreadable",
        "trained on\n1,080",
        "4 clients",
    ]
    assert len(axes.collections) == 3
    starts = [box.get_paths()[0].vertices[:, 0].min() for box in axes.collections]
    assert starts == [0.1, 0.1, 0.6]


LEFT_OUT = [
    ([], "none left out"),
    (["cut short"], "1 unreadable or excluded (1: cut short)"),
    (
        ["a", "a", "b", "c", "d", "e"],
        "6 unreadable or excluded (2: a; 1: b; 1: c; 2: other reasons)",
    ),
]


@pytest.mark.parametrize(("reasons", "words"), LEFT_OUT)
def test_what_was_left_out_is_counted_by_its_reason(reasons, words):
    result = flow._left_out([{"why": reason} for reason in reasons])
    assert result == words


def test_a_scheme_is_described_in_its_own_words():
    assert flow._scheme("halves.py:halves") == "Scheme halves.py:halves"
    words = flow._scheme("iid")
    assert words
    assert not words.endswith(".")
    assert "Scheme iid" not in words


MEASURE = quality.MEASURES[0]


def test_the_quality_of_images_has_a_line_for_each_hospital_and_the_extremes():
    lines = []
    for measure in quality.MEASURES:
        for site in ("north", "south"):
            lines += [(measure.name, site, value, 50.0) for value in (1.0, 2.0)]
    image = np.zeros((2, 2, 1), np.uint8)
    columns = ["measure", "site", "value", "share"]
    cases = [("lowest", image)]
    table = framed(lines, columns, cases=cases)
    picture = quality.draw(table)
    titles = [panel.title for panel in picture.panels]
    expected = f"{MEASURE.title} ({MEASURE.unit})"
    assert titles[0] == expected
    assert titles[-1] == "lowest"
    axes = axes_of(picture)[titles[0]]
    assert len(axes.lines) == 2
    assert axes.get_ylabel() == "images (%)"
    assert axes.get_xscale() == ("log" if MEASURE.log else "linear")


NUMBERS_OF_LOG_AXES = [
    ((0.56, 1.35), ["0.8", "1.2"]),
    ((12100, 85400), ["20000", "50000"]),
]


@pytest.mark.parametrize(("values", "texts"), NUMBERS_OF_LOG_AXES)
def test_a_logarithmic_axis_of_quality_has_numbers(values, texts):
    lines = [("noise", "north", value, 50.0) for value in values]
    table = framed(lines, ["measure", "site", "value", "share"])
    looks = {"north": drawing.look(0)}
    panel = drawing.Panel("", partial(quality._panel, table, looks, True))
    figure = drawing.drawn(drawing.Picture("", [panel]))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    low, high = axes.get_xlim()
    shown = [
        tick.get_text()
        for place, tick in zip(axes.get_xticks(), axes.get_xticklabels())
        if low <= place <= high
    ]
    assert shown == texts
    assert axes.get_xscale() == "log"


CURVE = [
    ("all images", -1, 0.0, 0.1),
    ("all images", -1, 1.0, 0.9),
    ("f", 0, 0.0, 0.2),
    ("f", 0, 1.0, 0.8),
]


def of_answers():
    lines = [(x, y, y - 0.1, y + 0.1, "ill", group, place, 0.3) for group, place, x, y in CURVE]
    sizes = {"all images": 80, "f": 40}
    return framed(lines, answers.COLUMNS, sizes=sizes, small=[])


@pytest.mark.parametrize("kind", answers.KINDS, ids=lambda kind: kind.name)
def test_a_curve_of_a_group_has_a_band_and_that_of_all_images_none(kind):
    picture = answers.draw(kind, of_answers())
    assert list(picture.legend) == ["all images", "f (n = 40)"]
    axes = axes_of(picture)["ill"]
    assert len(axes.collections) == 1
    result = (axes.get_xlabel(), axes.get_ylabel())
    assert result == kind.axes
    curves = [line for line in axes.lines if line.get_linewidth() >= 1.5]
    expected = [
        [[0, 0.1], [1, 0.9]],
        [[0, 0.2], [1, 0.8]],
    ]
    result = [line.get_xydata().tolist() for line in curves]
    assert result == expected


@pytest.mark.parametrize("kind", answers.KINDS, ids=lambda kind: kind.name)
def test_a_curve_of_all_images_alone_has_a_band(kind):
    table = of_answers()
    alone = table[table["place"] == drawing.OF_ALL]
    axes = axes_of(answers.draw(kind, alone))["ill"]
    assert len(axes.collections) == 1


LIMITS_BY_CURVE = [
    ("roc", (-0.02, 1.02)),
    ("precision-recall", (-0.02, 1.02)),
    ("reliability", (-0.02, 1.02)),
    ("decision", (-0.05, 0.3 * 1.15)),
]


@pytest.mark.parametrize(("name", "limits"), LIMITS_BY_CURVE)
def test_the_axis_of_a_curve_is_of_shares_or_of_net_benefit(name, limits):
    (kind,) = [kind for kind in answers.KINDS if kind.name == name]
    picture = answers.draw(kind, of_answers())
    axes = axes_of(picture)["ill"]
    assert axes.get_ylim() == pytest.approx(limits)


def test_the_dotted_lines_are_chance_the_share_and_treating_all():
    by_name = {kind.name: kind.beside(0.25) for kind in answers.KINDS}
    assert by_name["roc"] == by_name["reliability"] == ((0, 1), (0, 1))
    expected = (answers.SHARES, (0.25, 0.25))
    assert by_name["precision-recall"] == expected
    thresholds, treated = by_name["decision"]
    odds = thresholds[0] / (1 - thresholds[0])
    expected = pytest.approx(0.25 - 0.75 * odds)
    assert treated[0] == expected
    assert np.isnan(treated[-1])  # below what the axis shows


@pytest.mark.parametrize(
    ("by", "classes", "limits"),
    [("", 2, ""), ("sex", 2, ""), ("", 8, " Shown are at most 6 classes.")],
)
def test_the_caption_says_what_is_left_out(by, classes, limits):
    names = [f"c{number}" for number in range(classes)]
    groupings = {"sex": (np.array([0, 1]), ["f", "m"])}
    images = SimpleNamespace(classes=names, groupings=groupings, by_patient=True)
    kind = answers.KINDS[0]
    caption = answers._caption(kind, images, by)
    assert caption.startswith(f"{kind.about} This figure shows the last round")
    whose = " of each group; the curve of all images has none" if by else ""
    assert caption.endswith(f"500 bootstrap resamples of the patients or lesions{whose}.")
    assert ("Shown are" in caption) == bool(limits)
    assert limits in caption


@pytest.mark.parametrize(
    ("group_of", "is_limited"), [(range(8), True), (range(-1, 7), False), (range(7), False)]
)
def test_the_caption_says_that_groups_are_left_out_and_patients_unknown(group_of, is_limited):
    names = [f"s{number}" for number in range(9)]
    groupings = {"site": (np.array(group_of), names)}
    images = SimpleNamespace(classes=["a", "b"], groupings=groupings, by_patient=False)
    caption = answers._caption(answers.KINDS[0], images, "site")
    assert ("Shown are the 7 largest groups." in caption) == is_limited
    assert "of the images (no patients are known) of each group;" in caption
