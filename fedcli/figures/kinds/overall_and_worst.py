"""Overall score against that of the worst group, of several systems: a panel for each attribute."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...scores.scores import Scores
from ...scores.views import WORST
from ..drawing import Axes, Look, Picture, point
from ..figure import Figure, NothingToDraw, register
from ..shapes import DASHED, panels, picture
from ..system import System, usual

GREY: Look = {"color": "#9a9a9a", "marker": "o", "markersize": 3.5, "linestyle": "", "zorder": 0}
MOST_NAMED = 12  # systems; of more, the first and those on the front are named
NEAR = 0.03  # of the width and height of all points; points within it share a label
ABOUT = (
    "Each system's score on all clean test images against that of its worst group, means over the last five rounds and "
    "over seeds. The line joins the systems that no other one beats in both."
)
GREYED = " Grey: systems that are on no such line."


def frame(systems: list[System], *, metric: Annotated[str, "default: balanced_accuracy"] = "") -> DataFrame:
    """attribute, system, place, overall, worst in percent, and whether no other system beats it in both (front).

    Raises NothingToDraw where fewer than two systems have groups.
    """
    metric = metric or usual(systems[0].scores)[0]
    lines = [
        (attribute, system.name, system.place, *pair)
        for attribute in systems[0].scores.groups
        if all(attribute in system.scores.groups for system in systems)
        for system in systems
        if (pair := _pair(system.each, attribute, metric))
    ]
    if len(systems) < 2 or not lines:
        raise NothingToDraw(f"no two systems have {metric} of groups to compare", "give runs evaluated with --by")
    return of_pairs(lines, metric, len(systems), systems[0].scores.images)


def of_pairs(lines: Sequence[tuple[str, str, int, float, float]], metric: str, systems: int, images: int) -> DataFrame:
    """The frame of lines (attribute, system, place, overall, worst). systems, images: how many there are."""
    table = DataFrame(lines, columns=["attribute", "system", "place", "overall", "worst"])
    table["front"] = False
    for _, part in table.groupby("attribute"):
        kept = front(dict(zip(part["place"], part[["overall", "worst"]].itertuples(index=False), strict=True)))
        table.loc[part.index, "front"] = part["place"].isin(kept)
    caption = f"{ABOUT}{GREYED if systems > MOST_NAMED else ''} n = {images:,} images."
    title = f"Overall score and worst group: {metric}"
    table.attrs |= {"title": title, "score": metric, "systems": systems, "caption": caption}
    return table


def _pair(runs: Sequence[Scores], attribute: str, metric: str) -> tuple[float, float] | None:
    """Overall and worst group, in percent."""
    pairs = []
    for scores in runs:
        both = scores.versions["clean"].get(metric), scores.part().lies(attribute, "clean", metric, WORST)
        means = [score.mean for score in both if score and score.mean is not None]
        if len(means) < 2:
            return None
        pairs.append([100 * mean for mean in means])
    first, second = np.mean(pairs, axis=0)
    return float(first), float(second)


def front(points: Mapping[int, Sequence[float]]) -> list[int]:
    """Places of the points that no other one beats in one number without losing in the other, by the first number."""
    kept = [
        at for at, (x, y) in points.items()
        if not any((a >= x and b >= y) and (a > x or b > y) for a, b in points.values())
    ]  # fmt: skip
    return sorted(kept, key=lambda at: points[at][0])


def draw(table: DataFrame) -> Picture:
    """Systems that the legend names are numbered there and beside their points; others are grey."""
    named = table["front"] | (table["place"] == 0) | (table.attrs["systems"] <= MOST_NAMED)
    numbers = {
        name: k + 1 for k, name in enumerate(table[named].sort_values("place", kind="stable")["system"].unique())
    }
    legend = {f"{k} {name}": point(k - 1) for name, k in numbers.items()}
    drawn = partial(_panel, numbers, table.attrs["score"])
    return picture(table, panels(table, "attribute", drawn, "by {}".format), legend, size=(3.8, 3.2))


def _panel(numbers: Mapping[str, int], score: str, part: DataFrame, axes: Axes) -> None:
    best = part[part["front"]].sort_values("overall")
    axes.plot(best["overall"], best["worst"], zorder=1, **DASHED)
    near = NEAR * np.maximum(np.ptp(part[["overall", "worst"]].to_numpy(), axis=0), 1e-9)  # [2]
    labels: dict[tuple[float, float], list[int]] = {}
    for x, y, name in part.sort_values("place")[["overall", "worst", "system"]].itertuples(index=False):
        axes.plot([x], [y], **(point(numbers[name] - 1) if name in numbers else GREY))
        if name in numbers:
            beside = next((at for at in labels if (np.abs(np.subtract(at, (x, y))) <= near).all()), (x, y))
            labels.setdefault(beside, []).append(numbers[name])
    for at, shown in labels.items():
        axes.annotate(", ".join(map(str, shown)), at, (4, 4), textcoords="offset points", fontsize=7)
    axes.set(xlabel=f"{score}, all images (%)", ylabel="worst group (%)")
    axes.margins(0.15)


register(
    Figure("overall-and-worst", "Which methods are best overall and for the worst group?", "systems", frame, draw, True)
)
