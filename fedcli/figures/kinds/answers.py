"""ROC, precision and recall, reliability and decision curves of each group and client."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
import pandas
from pandas import DataFrame

from ...errors import FedcliError
from ...scores.binary import BENEFITS
from ..bands import Curve, band, benefit, precision, reliability, roc
from ..drawing import INK, MOST_CLASSES, MOST_LINES, OF_ALL, Axes, Panel, Picture, look
from ..figure import Figure, Options, register
from ..seen import BY, RESAMPLES, VERSION, heading, shown_classes
from ..system import System

FAINT = 0.12  # of a band
LOWEST = -0.05  # net benefit that an axis shows
CURVE = 3.3, 2.9  # inches of a panel with an even scale both ways
BANDS = "Bands: pointwise 95 % percentile intervals, {} bootstrap resamples of the {} of each group."


@dataclass(frozen=True)
class Kind:
    """A kind of curve: its name, what it is in words, which question it answers, the function that
    makes it, and what else stands on its axes, by the share of the class."""

    name: str
    title: str
    question: str
    about: str
    of: Curve
    around: Callable[[Axes, float], None]


def _diagonal(axes: Axes, x: str, y: str) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.6, alpha=0.5, linestyle=(0, (1, 3)))
    axes.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def _roc_frame(axes: Axes, share: float) -> None:
    _diagonal(axes, "false positive rate", "sensitivity")


def _precision_frame(axes: Axes, share: float) -> None:
    axes.axhline(share, color=INK, linewidth=0.6, alpha=0.5, linestyle=(0, (1, 3)))
    axes.set(xlabel="sensitivity (recall)", ylabel="precision (PPV)", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def _reliability_frame(axes: Axes, share: float) -> None:
    _diagonal(axes, "mean predicted probability", "share of the class")


def _benefit_frame(axes: Axes, share: float) -> None:
    treated = share - (1 - share) * BENEFITS / (1 - BENEFITS)
    axes.plot(BENEFITS, np.where(treated >= LOWEST, treated, np.nan), color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(xlabel="threshold probability", ylabel="net benefit", xlim=(0, 1), ylim=(LOWEST, max(share * 1.15, 0.02)))


KINDS = (
    Kind(
        "roc", "ROC curves", "Which sensitivity goes with which rate of false alarms?",
        "Sensitivity at each false positive rate; the dotted line is chance.", roc, _roc_frame,
    ),
    Kind(
        "precision-recall", "Precision and recall", "How many of the images that are found have the class?",
        "Precision at each sensitivity; the dotted line is the share of the class among all images.",
        precision, _precision_frame,
    ),
    Kind(
        "reliability", "Reliability curves", "Do probabilities come true as often as they say?",
        "Share of the class among images of a predicted probability, in ten bins of equal width; the dotted line is "
        "perfect calibration.", reliability, _reliability_frame,
    ),
    Kind(
        "decision", "Decision curves", "Is acting on the model better than treating all or none?",
        "Net benefit TP/n - FP/n * p/(1-p) at threshold probability p; dotted: treating all, of all images; 0: none.",
        benefit, _benefit_frame,
    ),
)  # fmt: skip


def frame(
    kind: Kind, systems: list[System], *, by: Annotated[str, BY] = "", version: Annotated[str, VERSION] = "clean"
) -> DataFrame:  # fmt: skip
    """class, group, place, share, x, y, low, high: a line per point of each curve, and the share of the class among all
    images. Raises FedcliError, UsageError."""
    (system,) = systems
    images = system.images(version, by)
    parts = []
    for name in shown_classes(system.scores, images):
        group_of = list(images.parts(by, name))
        for part in group_of:
            curve = band(kind.of, part.score, part.label, part.weights)
            about = {"class": name, "group": part.name, "place": part.place, "share": group_of[0].label.mean()}
            parts.append(DataFrame({"x": curve.x, "y": curve.y, "low": curve.low, "high": curve.high}).assign(**about))
    if not parts:
        raise FedcliError(f"{system.one} has no image of a class to draw", "evaluate it on other images")
    table = pandas.concat(parts, ignore_index=True)
    crowded = [f"the {MOST_LINES} largest groups"] * bool(
        by and len(np.unique(images.groupings[by][0])) > MOST_LINES + 1
    )
    crowded += [f"at most {MOST_CLASSES} classes"] * (len(images.classes) > MOST_CLASSES)
    unit = "patients or lesions" if images.by_patient else "images, as no patients are known,"
    shown = f" Shown are {' and '.join(crowded)}." if crowded else ""
    table.attrs |= {
        "title": heading(kind.title, by, version, system.one),
        "caption": f"{kind.about} Last round's model. A panel for each class against all others.{shown} "
        f"{BANDS.format(RESAMPLES, unit)} n = {len(images.ids):,} images.",
        "sizes": {name: len(rows) for name, _, rows in images.members(by)},
    }
    return table


def draw(kind: Kind, table: DataFrame) -> Picture:
    sizes = table.attrs["sizes"]
    places = table.drop_duplicates("group").set_index("group")["place"]
    legend = {
        group if place == OF_ALL else f"{group} (n = {sizes[group]})": look(place) for group, place in places.items()
    }
    panels = [Panel(str(name), partial(_panel, kind, part)) for name, part in table.groupby("class", sort=False)]
    return Picture(table.attrs["title"], panels, legend, table.attrs["caption"], size=CURVE)


def _panel(kind: Kind, part: DataFrame, axes: Axes) -> None:
    for place, curve in part.groupby("place", sort=False):
        known = curve[np.isfinite(curve["x"]) & np.isfinite(curve["y"])]
        if place != OF_ALL:
            colour = look(place)["color"]
            axes.fill_between(known["x"], known["low"], known["high"], color=colour, alpha=FAINT, linewidth=0)
        axes.plot(known["x"], known["y"], marker="o" if len(curve) <= 10 else "", **look(place))
    kind.around(axes, part["share"].iloc[0])


def _variants(system: System) -> Iterator[Options]:
    return (of for of in system.variants if shown_classes(system.scores, system.versions[of["version"]]))


def _registered(kind: Kind) -> Figure:
    made = partial(frame, kind), partial(draw, kind)
    return register(Figure(kind.name, kind.question, "systems", *made, alone=True, variants=_variants))


ROC, PRECISION, RELIABILITY, DECISION = map(_registered, KINDS)
