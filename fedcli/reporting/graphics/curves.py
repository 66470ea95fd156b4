"""ROC, precision and recall, reliability and decision curves of each group and client."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...scores.scores import Scores
from ..drawing import INK
from .bands import Band, Curve, band, benefit, precision, reliability, roc
from .graphic import ALL, MOST_CLASSES, MOST_LINES, OF_ALL, Graphic, Panel, style
from .seen import RESAMPLES, Part, Seen, shown_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAINT = 0.12  # of a band
LOWEST = -0.05  # net benefit that an axis shows


@dataclass(frozen=True)
class Kind:
    """A kind of curve: its name, what it is in words, the function that makes it, and what else stands on its axes."""

    name: str
    title: str
    about: str
    of: Curve
    frame: "Callable[[Axes, Part], None]"


def _diagonal(axes: "Axes", x: str, y: str) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.6, alpha=0.5, linestyle=(0, (1, 3)))
    axes.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def _roc_frame(axes: "Axes", everyone: Part) -> None:
    _diagonal(axes, "false positive rate", "sensitivity")


def _precision_frame(axes: "Axes", everyone: Part) -> None:
    axes.axhline(everyone.label.mean(), color=INK, linewidth=0.6, alpha=0.5, linestyle=(0, (1, 3)))
    axes.set(xlabel="sensitivity (recall)", ylabel="precision (PPV)", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def _reliability_frame(axes: "Axes", everyone: Part) -> None:
    _diagonal(axes, "mean predicted probability", "share of the class")


def _benefit_frame(axes: "Axes", everyone: Part) -> None:
    from ...scores.binary import BENEFITS

    base = everyone.label.mean()
    treated = base - (1 - base) * BENEFITS / (1 - BENEFITS)
    axes.plot(BENEFITS, np.where(treated >= LOWEST, treated, np.nan), color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(xlabel="threshold probability", ylabel="net benefit", xlim=(0, 1), ylim=(LOWEST, max(base * 1.15, 0.02)))


KINDS = (
    Kind("roc", "ROC curves", "Sensitivity at each false positive rate; the dotted line is chance.", roc, _roc_frame),
    Kind(
        "precision-recall", "Precision and recall",
        "Precision at each sensitivity; the dotted line is the share of the class among all images.",
        precision, _precision_frame,
    ),
    Kind(
        "reliability", "Reliability curves",
        "Share of the class among images of a predicted probability, in ten bins of equal width; the dotted line is "
        "perfect calibration.", reliability, _reliability_frame,
    ),
    Kind(
        "decision", "Decision curves",
        "Net benefit TP/n - FP/n * p/(1-p) at threshold probability p; dotted: treating all, of all images; 0: none.",
        benefit, _benefit_frame,
    ),
)  # fmt: skip


def graphics(system: str, scores: Scores, images: Seen) -> Iterator[Graphic]:
    """Every kind of curve for each attribute and for clients. system: its name, for titles."""
    classes = shown_classes(scores, images)
    for attribute in images.groupings or ("",):
        parts = {name: list(images.parts(attribute, name)) for name in classes}
        everyone = images.members(attribute)
        legend = {name if place == OF_ALL else f"{name} (n = {len(at)})": place for name, place, at in everyone}
        for kind in KINDS if classes else ():
            yield Graphic(
                "-".join(filter(None, [kind.name, attribute, images.version])),
                f"{kind.title}{f' by {attribute}' if attribute else ''}, {images.version} test images: {system}",
                f"{kind.about} Last round's model. A panel for each class against all others."
                + _left_out(images, attribute),
                len(images.ids),
                [Panel(name, partial(_draw, kind, parts[name])) for name in classes],
                _intervals(images.by_patient),
                legend,
            )


def _intervals(by_patient: bool) -> str:
    unit = "patients or lesions" if by_patient else "images, as no patients are known,"
    return f"Bands: pointwise 95 % percentile intervals, {RESAMPLES} bootstrap resamples of the {unit} of each group."


def _left_out(images: Seen, attribute: str) -> str:
    """What a figure does not show."""
    parts = []
    if attribute and len(np.unique(images.groupings[attribute][0])) > MOST_LINES + 1:
        parts.append(f"the {MOST_LINES} largest groups")
    if len(images.classes) > MOST_CLASSES:
        parts.append(f"at most {MOST_CLASSES} classes")
    return f" Shown are {' and '.join(parts)}." if parts else ""


def _draw(kind: Kind, parts: list[Part], axes: "Axes") -> None:
    for part in parts:
        made = band(kind.of, part.score, part.label, part.weights)
        _line(axes, made, part.place)
    kind.frame(axes, next(part for part in parts if part.name == ALL))


def _line(axes: "Axes", made: Band, place: int) -> None:
    look = style(place)
    known = np.isfinite(made.y) & np.isfinite(made.x)
    if place != OF_ALL:
        axes.fill_between(
            made.x[known], made.low[known], made.high[known], color=look["color"], alpha=FAINT, linewidth=0
        )
    axes.plot(made.x[known], made.y[known], marker="o" if len(made.x) <= 10 else "", **look)
