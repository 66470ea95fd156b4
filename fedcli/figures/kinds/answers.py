"""ROC, precision and recall, reliability and decision curves of each group and client, with pointwise 95 % bands over
resampled patients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import pandas
from pandas import DataFrame

from ...scores.clinical.binary import BENEFITS, BINS, benefit, falling
from ...scores.statistics import bootstrap
from ...scores.statistics.bootstrap import LEVEL
from ...seeds import derive
from ..drawing import ALL, INK, MOST_CLASSES, MOST_LINES, OF_ALL, Axes, Look, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import lines, looks_of, panels, picture, titled
from ..system import BY, LAST_ROUND, VERSION, System

FAINT = 0.12  # of a band
LOWEST = -0.05  # net benefit that an axis shows
SHARES = -0.02, 1.02  # limits of an axis of shares
CURVE = 3.3, 2.9  # inches of a panel with an even scale both ways
BANDS = (
    "Bands: pointwise 95 % percentile intervals, {} bootstrap resamples of the {} of each group."
)
DOTTED: Look = {"color": INK, "linewidth": 0.8, "alpha": 0.6, "linestyle": (0, (1, 2))}
Line = tuple[Sequence[float], Sequence[float]]  # x and y
RESAMPLES = 500  # of the bands
GRID = np.linspace(0, 1, 101)
CLOSE = 1e-9  # of a share times a count, which is to equal a whole number
Curve = Callable[
    [np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]
]  # score, label, weights [n, b]


@dataclass(frozen=True)
class Kind:
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


def band(of: Curve, score: np.ndarray, label: np.ndarray, units: np.ndarray) -> DataFrame:
    """A curve y over x with its bounds low and high over resamples of the patients, NaN where it is not defined."""
    x, y = of(score, label, np.ones((len(score), 1), np.int64))
    weights = bootstrap.draw(units, RESAMPLES, derive("bands", 0)).T  # [n, B] counts of each image
    drawn = of(score, label, weights)[1]  # [T, B]
    known = np.isfinite(drawn).any(1)
    low, high = np.full(len(drawn), np.nan), np.full(len(drawn), np.nan)
    if known.any():
        low[known], high[known] = np.nanquantile(
            drawn[known], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1
        )
    return DataFrame({"x": x[:, 0] if x.ndim == 2 else x, "y": y[:, 0], "low": low, "high": high})


def roc(score: np.ndarray, label: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sensitivity at the largest false positive rate up to each of GRID: [T, b]."""
    curves = np.full((len(GRID), weights.shape[1]), np.nan)
    for b, (hits, alarms) in enumerate(zip(*falling(score, label, weights)[1:], strict=True)):
        if hits[-1] > 0 and alarms[-1] > 0:
            at = np.searchsorted(alarms, GRID * alarms[-1] + CLOSE, "right") - 1
            curves[:, b] = hits[at] / hits[-1]
    return GRID, curves


def precision(
    score: np.ndarray, label: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Precision at the first threshold that reaches each sensitivity of GRID: [T, b]."""
    curves = np.full((len(GRID), weights.shape[1]), np.nan)
    for b, (hits, alarms) in enumerate(zip(*falling(score, label, weights)[1:], strict=True)):
        if hits[-1] > 0:
            at = np.searchsorted(hits[1:], GRID * hits[-1] - CLOSE, "left") + 1
            curves[:, b] = hits[at] / np.maximum(hits[at] + alarms[at], 1)
    return GRID, curves


def reliability(
    score: np.ndarray, label: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean probability and share of the class in each bin: [BINS, b] both."""
    place = np.searchsorted(np.arange(1, BINS) / BINS, score)
    inside = (place == np.arange(BINS)[:, None]).astype(float)  # [BINS, n]
    with np.errstate(invalid="ignore", divide="ignore"):  # an empty bin has no share
        images = inside @ weights
        return (inside * score) @ weights / images, (inside * label) @ weights / images


def _diagonal(share: float) -> Line:
    return (0, 1), (0, 1)


def _all_treated(share: float) -> Line:
    treated = share - (1 - share) * BENEFITS / (1 - BENEFITS)
    return BENEFITS.tolist(), np.where(treated >= LOWEST, treated, np.nan).tolist()


KINDS = (
    Kind(
        "roc",
        "ROC curves",
        "Which sensitivity goes with which rate of false alarms?",
        "Sensitivity at each false positive rate; the dotted line is chance.",
        ("false positive rate", "sensitivity"),
        roc,
        _diagonal,
    ),
    Kind(
        "precision-recall",
        "Precision and recall",
        "How many of the images that are found have the class?",
        "Precision at each sensitivity; the dotted line is the share of the class among all images.",
        ("sensitivity (recall)", "precision (PPV)"),
        precision,
        lambda share: (SHARES, (share, share)),
    ),
    Kind(
        "reliability",
        "Reliability curves",
        "Do probabilities come true as often as they say?",
        "Share of the class among images of a predicted probability, in ten bins of equal width; the dotted line is "
        "perfect calibration.",
        ("mean predicted probability", "share of the class"),
        reliability,
        _diagonal,
    ),
    Kind(
        "decision",
        "Decision curves",
        "Is acting on the model better than treating all or none?",
        "Net benefit TP/n - FP/n * p/(1-p) at threshold probability p; dotted: treating all, of all images; 0: none.",
        ("threshold probability", "net benefit"),
        benefit,
        _all_treated,
    ),
)


def frame(
    kind: Kind,
    system: System,
    *,
    by: Annotated[str, BY] = "",
    version: Annotated[str, VERSION] = "clean",
) -> DataFrame:
    """class, group, place, share, x, y, low, high: a line per point of each curve, and the share of the class among all
    images. Raises NothingToDraw, UsageError."""
    images = system.images(version, by)
    parts = []
    for name in system.shown_classes(images):
        share = np.nan  # of the class among all images, which come first
        for group, place, score, label, units in images.parts(by, name):
            share = label.mean() if place == OF_ALL else share
            curve = {"class": name, "group": group, "place": place, "share": share}
            parts.append(band(kind.of, score, label, units).assign(**curve))
    if not parts:
        raise NothingToDraw(
            f"{system.one} has no image of a class to draw", "evaluate it on other images"
        )
    table = pandas.concat(parts, ignore_index=True)
    crowded = bool(by) and len(np.unique(images.groupings[by][0])) > MOST_LINES + 1
    some = [f"the {MOST_LINES} largest groups"] * crowded
    some += [f"at most {MOST_CLASSES} classes"] * (len(images.classes) > MOST_CLASSES)
    shown = f" Shown are {' and '.join(some)}." if some else ""
    unit = "patients or lesions" if images.by_patient else "images, as no patients are known,"
    about = f"{kind.about} {LAST_ROUND} A panel for each class against all others.{shown}"
    about = f"{about} {BANDS.format(RESAMPLES, unit)}"
    sizes = {name: len(rows) for name, _, rows in images.members(by)}
    return titled(
        table, system.heading(kind.title, by, version), about, len(images.ids), sizes=sizes
    )


def draw(kind: Kind, table: DataFrame) -> Picture:
    looks, sizes = looks_of(table, "group"), table.attrs["sizes"]
    legend = {
        name if name == ALL else f"{name} (n = {sizes[name]})": look for name, look in looks.items()
    }
    return picture(table, panels(table, "class", partial(_panel, kind, looks)), legend, size=CURVE)


def _panel(kind: Kind, looks: dict[str, Look], part: DataFrame, axes: Axes) -> None:
    share = part["share"].iloc[0]
    limits: dict[str, Any] = {"xlim": SHARES, "ylim": SHARES}
    if kind.of is benefit:
        limits = {"xlim": (0, 1), "ylim": (LOWEST, max(share * 1.15, 0.02))}
        axes.axhline(0, color=INK, linewidth=0.8)
    axes.plot(*kind.beside(share), **DOTTED)
    shown = part.dropna(subset=["x", "y"])
    shown = shown.assign(
        low=shown["low"].where(shown["place"] != OF_ALL)
    )  # the line of all images has no band
    looks = {
        name: look | {"marker": "o" if kind.of is reliability else ""}
        for name, look in looks.items()
    }
    how: Any = {"hue": "group", "looks": looks, "bounds": ("low", "high"), "shade": FAINT}
    lines(shown, axes, x="x", y="y", **how, xlabel=kind.axes[0], ylabel=kind.axes[1], **limits)


for kind in KINDS:
    register(Figure(kind.name, kind.question, "system", partial(frame, kind), partial(draw, kind)))
