"""Pictures: colours and markers of lines, names in a legend, panels on a sheet, and files."""

import warnings

import pytest

from fedcli.errors import FedcliError
from fedcli.figures import drawing, inline
from fedcli.figures.drawing import (
    BAND,
    COLOURS,
    DASHES,
    INK,
    MARKERS,
    OF_ALL,
    Panel,
    Picture,
    look,
    marked,
    point,
    short,
    wrapped,
)


def draw_line(axes):
    axes.plot([0, 1], [0, 1])


def picture_of(count, **options):
    panels = [Panel(f"panel {number}", draw_line) for number in range(count)]
    return Picture("A title", panels, **options)


def grid_of(figure):
    """Rows and columns of the panels."""
    return figure.axes[0].get_subplotspec().get_gridspec().get_geometry()


def test_lines_differ_in_dashes_too_so_that_print_without_colours_tells_them_apart():
    looks = [look(position) for position in range(len(COLOURS))]
    result = [each["color"] for each in looks]
    assert result == list(COLOURS)
    result = [each["linestyle"] for each in looks][:4]
    assert result == list(DASHES)
    result = look(len(COLOURS))["color"]
    assert result == COLOURS[0]
    assert look(len(COLOURS))["linestyle"] != look(0)["linestyle"]


def test_the_line_of_all_images_is_in_the_colour_of_text():
    expected = {"color": INK, "linestyle": "-", "linewidth": 2.2}
    assert look(OF_ALL) == expected


def test_points_have_a_marker_and_no_line():
    expected = look(1) | {"marker": MARKERS[1]}
    assert marked(1) == expected
    expected = marked(1) | {"linestyle": "", "markersize": 7}
    assert point(1) == expected
    result = marked(len(MARKERS))["marker"]
    assert result == MARKERS[0]


SHORTENED = [
    ("FedAvg", "FedAvg"),
    ("x" * 28, "x" * 28),
    ("x" * 29, "x" * 27 + "…"),
    ("_hidden", " _hidden"),
    ("tab\there", "tab?here"),
]


@pytest.mark.parametrize(("name", "text"), SHORTENED)
def test_a_name_is_shortened_to_a_line_of_the_legend(name, text):
    assert short(name) == text


DISTINCT = [
    (["a", "x" * 40], ["a", "x" * 27 + "…"]),
    (["x" * 30 + "1" * 9, "x" * 30 + "2" * 9], ["x" * 30 + "1…", "x" * 30 + "2…"]),
    (["a", "a"], ["a", "a"]),
    (["tab\there", "tab?here"], ["tab?here", "tab?here"]),
    ([], []),
]


@pytest.mark.parametrize(("names", "texts"), DISTINCT)
def test_names_are_shortened_as_far_as_they_keep_apart(names, texts):
    assert drawing.distinct(names) == texts


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("FedAvg", 1),
        ("FedAvg with a learning rate of 0.01", 2),
        ("one two three four five six seven eight nine ten eleven twelve thirteen " * 2, 3),
    ],
)
def test_a_name_has_up_to_three_lines(name, lines):
    text = wrapped(name)
    assert len(text.splitlines()) == lines
    assert max(map(len, text.splitlines())) <= 28
    assert text.endswith("…") == (lines == 3)


GRIDS = [
    (1, 0, (1, 1)),
    (2, 0, (1, 2)),
    (4, 0, (2, 2)),
    (5, 0, (2, 3)),
    (12, 0, (4, 3)),
    (5, 4, (2, 4)),
    (2, 4, (1, 2)),
]


@pytest.mark.parametrize(("panels", "columns", "grid"), GRIDS)
def test_panels_are_as_square_as_three_columns_allow(panels, columns, grid):
    figure = drawing.drawn(picture_of(panels, columns=columns))
    assert grid_of(figure) == grid


TWO = {"a": drawing.look(0), "b": drawing.look(1)}
MANY = {str(position): drawing.look(position) for position in range(20)}


@pytest.mark.parametrize(
    ("panels", "legend", "beside", "inside"),
    [(2, {}, 0, False), (2, TWO, 2.2, False), (3, TWO, 0, True), (3, MANY, 2.2, False)],
)
def test_a_sheet_is_as_large_as_its_panels_title_and_a_legend_beside_them(
    panels, legend, beside, inside
):
    figure = drawing.drawn(picture_of(panels, size=(3.0, 2.0), legend=legend))
    rows = -(-panels // 2)
    expected = pytest.approx([2 * 3 + beside, 2 * rows + 0.6])
    assert figure.get_size_inches().tolist() == expected
    assert bool(figure.legends) == (bool(legend) and not inside)
    legends = [axes.get_legend() for axes in figure.axes]
    assert bool(legends[-1]) == inside


def test_each_panel_has_its_title_and_only_the_lowest_name_a_shared_axis():
    figure = drawing.drawn(picture_of(5, below="round"))
    expected = [f"panel {number}" for number in range(5)]
    result = [axes.get_title(loc="left") for axes in figure.axes]
    assert result == expected
    result = [axes.get_xlabel() for axes in figure.axes]
    assert result == ["", "", "round", "round", "round"]
    shared = figure.axes[0].get_shared_x_axes()
    assert shared.joined(figure.axes[0], figure.axes[4])


def test_panels_with_an_axis_of_their_own_share_none():
    figure = drawing.drawn(picture_of(2))
    shared = figure.axes[0].get_shared_x_axes()
    assert not shared.joined(figure.axes[0], figure.axes[1])


def test_a_small_panel_has_small_words_above_it():
    small = drawing.drawn(picture_of(1, size=(3.9, 2.0))).axes[0]
    usual = drawing.drawn(picture_of(1, size=(4.0, 2.0))).axes[0]
    assert small._left_title.get_fontsize() == 9
    assert usual._left_title.get_fontsize() > 9


def test_the_legend_names_what_is_drawn_and_is_left_out_where_nothing_is_named():
    figure = drawing.drawn(picture_of(1, legend={"FedAvg": look(0), "mean ± std": BAND}))
    (legend,) = figure.legends
    result = [text.get_text() for text in legend.get_texts()]
    assert result == ["FedAvg", "mean ± std"]
    assert not drawing.drawn(picture_of(1)).legends


def test_a_long_title_is_broken_beside_the_legend():
    title = "word " * 30
    panels = picture_of(1).panels
    figure = drawing.drawn(Picture(title, panels, TWO))
    lines = figure.get_suptitle().splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= int((4.1 - 0.7) / 0.105)


def test_a_picture_without_a_panel_is_refused():
    with pytest.raises(FedcliError) as refusal:
        drawing.drawn(Picture("A title", []))
    assert refusal.value.sentence == "no number is there to draw"


CUNEIFORM, IN_STIX = "\U00012000", "\u1d81"  # no font of matplotlib has the first


@pytest.fixture
def further_fonts(monkeypatch):
    """Sets the further fonts; warnings of before are forgotten."""
    drawing._warn_of.cache_clear()
    return lambda *names: monkeypatch.setattr(drawing, "FURTHER_FONTS", names)


def test_letters_that_no_font_has_are_said_once_and_not_as_a_warning_of_python(
    further_fonts, capsys
):
    panels = picture_of(1).panels
    picture = Picture(f"{CUNEIFORM} cuneiform", panels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        content = drawing.picture_bytes(picture, ".png")
        drawing.picture_bytes(picture, ".svg")
    assert content.startswith(b"\x89PNG")
    said = capsys.readouterr().err
    assert said.count(f"figures show boxes in place of {CUNEIFORM}, which no installed font") == 1


def test_a_page_says_nothing_of_letters_which_a_browser_has(further_fonts, capsys):
    def draw(axes):
        axes.set_xlabel(CUNEIFORM)

    panels = [Panel("one", draw)]
    assert CUNEIFORM in inline.of_picture(Picture("A title", panels)).figures[0].svg
    assert "boxes" not in capsys.readouterr().err


def test_a_further_font_has_letters_that_the_first_lacks_and_changes_no_other(
    further_fonts, capsys
):
    kinds = ".png", ".svg", ".pdf"
    further_fonts("No Such Font")
    before = [drawing.picture_bytes(picture_of(2), kind) for kind in kinds]
    letter = Picture(f"a letter {IN_STIX}", picture_of(1).panels)
    drawing.picture_bytes(letter, ".png")
    assert f"in place of {IN_STIX}" in capsys.readouterr().err
    further_fonts("No Such Font", "STIXGeneral")
    drawing._warn_of.cache_clear()
    drawing.picture_bytes(letter, ".png")
    assert not capsys.readouterr().err
    assert [drawing.picture_bytes(picture_of(2), kind) for kind in kinds] == before


def test_warnings_of_python_that_are_not_of_letters_go_on():
    def draw(axes):
        warnings.warn("something else", UserWarning, stacklevel=1)

    with pytest.warns(UserWarning, match="something else"):
        drawing.picture_bytes(Picture("A title", [Panel("one", draw)]), ".png")


@pytest.mark.parametrize(
    ("suffix", "key"), [(".svg", b"what it shows"), (".pdf", b"/Subject"), (".png", b"Description")]
)
def test_a_file_has_the_caption_among_its_metadata_and_no_clock(suffix, key):
    picture = picture_of(1, caption="what it shows")
    content = drawing.picture_bytes(picture, suffix)
    assert key in content
    assert b"CreationDate" not in content
    assert drawing.picture_bytes(picture, suffix) == content


def test_several_files_are_written_at_once_into_a_new_folder(tmp_path):
    files = [tmp_path / "new" / f"a.{kind}" for kind in ("png", "svg")]
    drawing.write(picture_of(2), *files)
    result = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert result == ["a.png", "a.svg"]


def test_a_page_has_a_drawing_for_each_panel_with_its_words():
    panels = [Panel("one", draw_line, "small words"), Panel("", draw_line)]
    picture = Picture("A title", panels, caption="what it shows")
    sheet = inline.of_picture(picture)
    first, second = sheet.figures
    assert sheet.title == "A title"
    assert sheet.legend == "what it shows"
    assert (first.caption, first.about) == ("one", "small words")
    assert 'aria-label="one. small words"' in first.svg
    assert second.caption == "A title"  # of the picture where a panel has none


def test_words_of_a_panel_are_escaped_on_a_page():
    panels = [Panel("a < b", draw_line)]
    picture = Picture("A title", panels)
    sheet = inline.of_picture(picture)
    assert 'aria-label="a &lt; b"' in sheet.figures[0].svg


def test_equal_panels_of_two_pictures_have_ids_of_their_own():
    def clip(axes):
        axes.plot([0, 5], [0, 5])
        axes.set_xlim(1, 2)

    panels = [Panel("one", clip), Panel("two", clip)]
    picture = Picture("A title", panels)
    sheet = inline.of_picture(picture)
    identifiers = [set(inline.re.findall(r' id="([^"]+)"', figure.svg)) for figure in sheet.figures]
    assert identifiers[0]
    assert not identifiers[0] & identifiers[1]


def test_colours_of_the_page_take_the_place_of_those_of_files():
    def draw(axes):
        axes.plot([0, 1], [0, 1], color=COLOURS[1])

    panels = [Panel("one", draw)]
    picture = Picture("A title", panels)
    svg = inline.of_picture(picture).figures[0].svg
    assert "var(--c1)" in svg
    assert COLOURS[1].lower() not in svg.lower()
    assert "var(--ink)" in svg
    assert "font-family" not in svg


LEGENDS = [
    ({"a": look(0)}, []),
    ({"a": look(0), "b": look(1)}, ["a", "b"]),
    ({"a": look(0), "mean": BAND}, []),
    ({"a": look(0), "b": look(1), "mean": BAND}, ["a", "b"]),
]


@pytest.mark.parametrize(("legend", "names"), LEGENDS)
def test_the_legend_of_a_page_leaves_out_a_lone_line_and_the_band(legend, names):
    picture = picture_of(1, legend=legend)
    keys = inline.of_picture(picture).keys
    assert [key.name for key in keys] == names


KEYS = [
    (look(0), "var(--c0)", "none", False),
    (look(1), "var(--c1)", "6 3", False),
    (point(0), "var(--c0)", "", True),
    (marked(2), "var(--c2)", "1.5 2.5", True),
    ({"color": "#123456", "linestyle": "-."}, "#123456", "7 3 1.5 3", False),
    ({"color": INK, "marker": "|", "linestyle": ""}, "var(--ink)", "", False),
]


@pytest.mark.parametrize(("drawn_as", "colour", "pattern", "has_mark"), KEYS)
def test_a_key_has_the_colour_dashes_and_marker_of_its_line(drawn_as, colour, pattern, has_mark):
    key = inline._key("name", drawn_as)
    assert (key.colour, key.pattern) == (colour, pattern)
    assert bool(key.mark) == has_mark


def test_a_marker_of_the_legend_fits_into_its_line():
    numbers = [float(number) for number in inline.re.findall(r"[\d.]+", inline._mark("s"))]
    across = numbers[::2]
    down = numbers[1::2]
    assert min(across) == 13 - 4.5
    assert max(across) == 13 + 4.5
    assert min(down) == 0.5
    assert max(down) == 9.5
