"""Frames of figures that are made by hand, and what is drawn of them."""

from pandas import DataFrame

from fedcli.figures import drawing


def framed(lines, columns, **attrs):
    table = DataFrame(lines, columns=columns)
    table.attrs |= {"title": "A title", "caption": "A caption."} | attrs
    return table


def axes_of(picture):
    """The axes of each panel, by its title."""
    figure = drawing.drawn(picture)
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def points_of(axes):
    return [line.get_xydata().tolist() for line in axes.lines]


def texts_of(labels):
    return [label.get_text() for label in labels]
