"""ROC, precision and recall, reliability and decision curves of each group and client.

They have pointwise 95 % bands over resampled patients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
import pandas
from numpy import ndarray
from pandas import DataFrame

from ...data.units import worded
from ...scores.clinical.binary import BENEFITS, BINS, benefit, falling
from ...scores.statistics import bootstrap
from ...scores.statistics.bootstrap import LEVEL
from ...seeds import derive
from ..drawing import INK, MOST_CLASSES, OF_ALL, Axes, Look, Looks, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import (
    FAINT,
    bands_of_groups,
    legend_of_groups,
    lines,
    looks_of,
    panels,
    picture,
    titled,
)
from ..system import (
    LARGEST,
    LAST_ROUND,
    OF_GROUPS,
    SMALL,
    VERSION,
    AnsweredImages,
    By,
    System,
    has_more_groups,
)

LOWEST = -0.05  # net benefit that an axis shows
SHARES = -0.02, 1.02  # limits of an axis of shares
CURVE = 3.3, 2.9  # inches of a panel with an even scale both ways
BANDS = "Bands: pointwise 95 % percentile intervals, {} bootstrap resamples of the {}{}."
DOTTED: Look = {
    "color": INK,
    "linewidth": 0.8,
    "alpha": 0.6,
    "linestyle": (0, (1, 2)),
}
Line = tuple[Sequence[float], Sequence[float]]  # x and y
RESAMPLES = 500  # of the bands
COLUMNS = ["x", "y", "low", "high", "class", "group", "place", "share"]
GRID = np.linspace(0, 1, 101)
CLOSE = 1e-9  # of a share times a count, which is to equal a whole number
XY = tuple[ndarray, ndarray]
Curve = Callable[[ndarray, ndarray, ndarray], XY]  # of score, label, weights [n, b]


@dataclass(frozen=True)
class CurveKind:
    """A kind of curve.

    Attributes:
        title, about: what it is, in words. axes: words below and beside it.
        of: makes it. beside: share of the class -> the dotted line it is compared with.
    """

    name: str
    title: str
    question: str
    about: str
    axes: tuple[str, str]
    of: Curve
    beside: Callable[[float], Line]


def band(
    curve: Curve,
    score: ndarray,
    label: ndarray,
    units: ndarray,
) -> DataFrame:
    """A curve y over x with its bounds low and high over resamples of the patients.

    NaN where it is not defined.
    """
    once = np.ones((len(score), 1), np.int64)
    x, y = curve(score, label, once)
    weights = bootstrap.draw(units, RESAMPLES, derive("bands", 0)).T  # [n, B] counts of each image
    _, resampled = curve(score, label, weights)  # [T, B]
    low = np.full(len(resampled), np.nan)
    high = np.full(len(resampled), np.nan)
    defined = np.isfinite(resampled).any(1)
    if defined.any():
        lower = (1 - LEVEL) / 2
        upper = (1 + LEVEL) / 2
        quantiles = lower, upper
        bounds = np.nanquantile(resampled[defined], quantiles, axis=1)
        low[defined], high[defined] = bounds
    if x.ndim == 2:
        x = x[:, 0]
    middle = y[:, 0]
    return DataFrame({"x": x, "y": middle, "low": low, "high": high})


def roc(score: ndarray, label: ndarray, weights: ndarray) -> XY:
    """Sensitivity at the largest false positive rate up to each of GRID: [T, b]."""
    curves = np.full((len(GRID), weights.shape[1]), np.nan)
    _, hits_of, alarms_of = falling(score, label, weights)
    for b, (hits, alarms) in enumerate(zip(hits_of, alarms_of)):
        if hits[-1] > 0 and alarms[-1] > 0:
            rates = GRID * alarms[-1] + CLOSE
            thresholds = np.searchsorted(alarms, rates, "right") - 1
            found_hits = hits[thresholds]
            curves[:, b] = found_hits / hits[-1]
    return GRID, curves


def precision(score: ndarray, label: ndarray, weights: ndarray) -> XY:
    """Precision at the first threshold that reaches each sensitivity of GRID: [T, b]."""
    curves = np.full((len(GRID), weights.shape[1]), np.nan)
    _, hits_of, alarms_of = falling(score, label, weights)
    for b, (hits, alarms) in enumerate(zip(hits_of, alarms_of)):
        if hits[-1] > 0:
            sensitivities = GRID * hits[-1] - CLOSE
            thresholds = np.searchsorted(hits[1:], sensitivities, "left") + 1
            positives = hits[thresholds] + alarms[thresholds]
            at_least_one = np.maximum(positives, 1)
            curves[:, b] = hits[thresholds] / at_least_one
    return GRID, curves


def reliability(
    score: ndarray,
    label: ndarray,
    weights: ndarray,
) -> XY:
    """Mean probability and share of the class in each bin: [BINS, b] both."""
    edges = np.arange(1, BINS) / BINS
    bin_of = np.searchsorted(edges, score)
    bins = np.arange(BINS)[:, None]
    inside = (bin_of == bins).astype(float)  # [BINS, n]
    images = inside @ weights
    chances = (inside * score) @ weights
    hits = (inside * label) @ weights
    with np.errstate(invalid="ignore", divide="ignore"):  # an empty bin has no share
        return chances / images, hits / images


def _diagonal(_share: float) -> Line:
    return (0, 1), (0, 1)


def _all_treated(share: float) -> Line:
    treated = share - (1 - share) * BENEFITS / (1 - BENEFITS)
    visible = np.where(treated >= LOWEST, treated, np.nan)
    return BENEFITS.tolist(), visible.tolist()


KINDS = (
    CurveKind(
        "roc",
        "ROC curves",
        "Which sensitivity goes with which rate of false alarms?",
        "Sensitivity at each false positive rate; the dotted line is chance.",
        ("false positive rate", "sensitivity"),
        roc,
        _diagonal,
    ),
    CurveKind(
        "precision-recall",
        "Precision and recall",
        "How many of the images that the model assigns to the class have it?",
        "Precision at each sensitivity; the dotted line is the share of the class among all "
        "images.",
        ("sensitivity (recall)", "precision (PPV)"),
        precision,
        lambda share: (SHARES, (share, share)),
    ),
    CurveKind(
        "reliability",
        "Reliability curves",
        "Do probabilities match observed frequencies?",
        "Share of the class among images of a predicted probability, in ten bins of equal width; "
        "the dotted line is perfect calibration.",
        ("mean predicted probability", "share of the class"),
        reliability,
        _diagonal,
    ),
    CurveKind(
        "decision",
        "Decision curves",
        "Is acting on the model better than treating all or none?",
        "Net benefit TP/n - FP/n * p/(1-p) at threshold probability p; dotted: treating all, of "
        "all images; 0: none.",
        ("threshold probability", "net benefit"),
        benefit,
        _all_treated,
    ),
)


def frame(
    kind: CurveKind,
    system: System,
    *,
    by: By = "",
    version: Annotated[str, VERSION] = "clean",
) -> DataFrame:
    """class, group, place, share, x, y, low, high: a line per point of each curve.

    share: of the class among all images. Raises NothingToDraw, UsageError.
    """
    images = system.images(version, by)
    parts = []
    for name in system.shown_classes(images):
        share = np.nan  # of the class among all images, which come first
        for group, position, score, label, units in images.parts(by, name):
            if position == OF_ALL:
                share = label.mean()
            part = band(kind.of, score, label, units)
            part = part.assign(group=group, place=position, share=share)
            parts.append(part.assign(**{"class": name})[COLUMNS])
    if not parts:
        sentence = f"{system.run_name} has no image of a class to draw"
        raise NothingToDraw(sentence, "evaluate it on other images")
    table = pandas.concat(parts, ignore_index=True)
    members = images.members(by)
    sizes = {name: len(rows) for name, _, rows in members}
    caption = _caption(kind, images, by)
    small = [group for group in system.small_members(by) if group in sizes]
    if small:
        caption += SMALL
    title = system.heading(kind.title, by, version)
    return titled(
        table,
        title,
        worded(caption, system.scores.noun),
        len(images.ids),
        sizes=sizes,
        small=small,
    )


def _caption(kind: CurveKind, images: AnsweredImages, attribute: str) -> str:
    limits = []
    if has_more_groups(images, attribute):
        limits.append(LARGEST)
    if len(images.classes) > MOST_CLASSES:
        limits.append(f"at most {MOST_CLASSES} classes")
    words = f"{kind.about} {LAST_ROUND} A panel for each class against all others."
    if limits:
        parts = " and ".join(limits)
        words += f" Shown are {parts}."
    unit = "patients or lesions" if images.by_patient else "images (no patients are known)"
    whose = OF_GROUPS if attribute else ""
    bands = BANDS.format(RESAMPLES, unit, whose)
    return f"{words} {bands}"


def draw(kind: CurveKind, table: DataFrame) -> Picture:
    looks = looks_of(table, "group")
    legend = legend_of_groups(looks, table.attrs["sizes"], table.attrs["small"])
    by_class = panels(table, "class", partial(_panel, kind, looks))
    return picture(table, by_class, legend, size=CURVE)


def _panel(
    kind: CurveKind,
    looks: Looks,
    part: DataFrame,
    axes: Axes,
) -> None:
    share = part["share"].iloc[0]
    how: Look = {"xlim": SHARES, "ylim": SHARES}
    if kind.of is benefit:
        top = max(share * 1.15, 0.02)
        how = {"xlim": (0, 1), "ylim": (LOWEST, top)}
        axes.axhline(0, color=INK, linewidth=0.8)
    axes.plot(*kind.beside(share), **DOTTED)
    points = bands_of_groups(part.dropna(subset=["x", "y"]))
    marker = "o" if kind.of is reliability else ""
    how["looks"] = {name: look | {"marker": marker} for name, look in looks.items()}
    how |= {"hue": "group", "bounds": ("low", "high"), "shade": FAINT}
    xlabel, ylabel = kind.axes
    lines(points, axes, x="x", y="y", xlabel=xlabel, ylabel=ylabel, **how)


for kind in KINDS:
    figure = Figure(kind.name, kind.question, "system", partial(frame, kind), partial(draw, kind))
    register(figure)
