"""Overall score against that of the worst group, of several systems: a panel for each attribute."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...metrics import title
from ...scores.table import Where
from ...scores.views import WORST, worst_of
from ..drawing import Axes, Look, Picture, point
from ..figure import Figure, NothingToDraw, register
from ..shapes import DASHED, panels, picture, titled
from ..system import System

GREY: Look = {"color": "#9a9a9a", "marker": "o", "markersize": 3.5, "linestyle": "", "zorder": 0}
MOST_NAMED = 12  # systems; of more, the first and those on the front are named
NEAR = 0.03  # of the width and height of all points; points within it share a label
BARS = "overall_low", "overall_high", "worst_low", "worst_high"
ABOUT = (
    "Each system's score on all clean test images against that of its worst group, both as in the tables. The line "
    "joins the systems that no other one beats in both."
)
BARRED = (
    " Bars: 95 % intervals over patients, of all images and of the group that is worst on average. The same images choose "
    "that group, so its bar lies too low where there are many groups: of five equal ones it holds the true score in about "
    "90 % of cases."
)
GREYED = " Grey: systems that are on no such line."


def frame(
    systems: list[System], *, metric: Annotated[str, "default: the area under the curve"] = ""
) -> DataFrame:
    """attribute, system, place, overall and worst in percent with their BARS, and whether no other system beats it in
    both (front).

    Raises NothingToDraw where fewer than two systems have groups.
    """
    metric = metric or systems[0].scores.usual[1]
    lines = [
        (attribute, system.name, system.place, *numbers)
        for attribute in systems[0].scores.groups
        if all(attribute in system.scores.groups for system in systems)
        for system in systems
        if np.isfinite((numbers := _numbers(system, attribute, metric))[:2]).all()
    ]
    if len(systems) < 2 or not lines:
        what = f"no two systems have {title(metric)} of groups to compare"
        raise NothingToDraw(what, "give runs evaluated with --by")
    return of_pairs(lines, metric, len(systems), systems[0].scores.images)


def of_pairs(lines: Sequence[tuple], metric: str, systems: int, images: int) -> DataFrame:
    """The frame of lines (attribute, system, place, overall, worst, with BARS or without). systems, images: how many
    there are."""
    names = ["attribute", "system", "place", "overall", "worst", *BARS]
    table = DataFrame(lines, columns=names[: len(lines[0])]).reindex(columns=names)
    table["front"] = False
    for _, part in table.groupby("attribute"):
        kept = front(
            dict(
                zip(part["place"], part[["overall", "worst"]].itertuples(index=False), strict=True)
            )
        )
        table.loc[part.index, "front"] = part["place"].isin(kept)
    about = (
        ABOUT
        + BARRED * bool(table[[*BARS]].notna().any(axis=None))
        + GREYED * (systems > MOST_NAMED)
    )
    words = title(metric)
    return titled(
        table,
        f"Overall score and worst group: {words}",
        about,
        images,
        score=words,
        systems=systems,
    )


def _numbers(system: System, attribute: str, metric: str) -> tuple[float, ...]:
    """Overall and worst group, and the intervals of all images and of the group that is worst on average."""
    all_images = Where("clean", metric=metric)
    by = all_images._replace(attribute=attribute)
    groups = {
        name: system.percent(by._replace(group=name)) for name in system.scores.members(attribute)
    }
    lowest = worst_of(groups, metric)
    bars = (
        *system.bounds(all_images),
        *(system.bounds(by._replace(group=lowest)) if lowest else (np.nan, np.nan)),
    )
    return system.percent(all_images), system.percent(by._replace(measure=WORST)), *bars


def front(points: Mapping[int, Sequence[float]]) -> list[int]:
    """Places of the points that no other one beats in one number without losing in the other, by the first number."""
    kept = [
        at
        for at, (x, y) in points.items()
        if not any((a >= x and b >= y) and (a > x or b > y) for a, b in points.values())
    ]
    return sorted(kept, key=lambda at: points[at][0])


def draw(table: DataFrame) -> Picture:
    """Systems that the legend names are numbered there and beside their points; others are grey."""
    named = table["front"] | (table["place"] == 0) | (table.attrs["systems"] <= MOST_NAMED)
    names = table[named].sort_values("place", kind="stable")["system"].unique()
    numbers = {name: k for k, name in enumerate(names, 1)}
    legend = {f"{k} {name}": point(k - 1) for name, k in numbers.items()}
    drawn = partial(_panel, numbers, table.attrs["score"])
    return picture(
        table, panels(table, "attribute", drawn, "by {}".format), legend, size=(3.8, 3.2)
    )


def _panel(numbers: Mapping[str, int], score: str, part: DataFrame, axes: Axes) -> None:
    best = part[part["front"]].sort_values("overall")
    axes.plot(best["overall"], best["worst"], zorder=1, **DASHED)
    near = NEAR * np.maximum(np.ptp(part[["overall", "worst"]].to_numpy(), axis=0), 1e-9)  # [2]
    labels: dict[tuple[float, float], list[int]] = {}
    columns = ["overall", "worst", "system", *BARS]
    for x, y, name, left, right, low, high in part.sort_values("place")[columns].itertuples(
        index=False
    ):
        how = point(numbers[name] - 1) if name in numbers else GREY
        axes.plot([x], [y], **how)
        if name in numbers and np.isfinite(left + low):
            bar: Look = {"color": how["color"], "linewidth": 1.4, "alpha": 0.4, "zorder": 0}
            axes.hlines(y, left, right, **bar)
            axes.vlines(x, low, high, **bar)
        if name in numbers:
            beside = next(
                (at for at in labels if (np.abs(np.subtract(at, (x, y))) <= near).all()), (x, y)
            )
            labels.setdefault(beside, []).append(numbers[name])
    for at, shown in labels.items():
        axes.annotate(
            ", ".join(map(str, shown)), at, (4, 4), textcoords="offset points", fontsize=7
        )
    axes.set(xlabel=f"{score}, all images (%)", ylabel="worst group (%)")
    axes.margins(0.15)


QUESTION = "Which methods are best overall and for the worst group?"
register(Figure("overall-and-worst", QUESTION, "systems", frame, draw, every=True, usual=True))
