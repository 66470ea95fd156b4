"""Overall score against that of the worst group, of several systems: a panel for each attribute."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...errors import FedcliError
from ...scores.scores import Scores
from ...scores.views import WORST
from ..drawing import INK, Axes, Look, Panel, Picture, point
from ..figure import Figure, Options, register
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

    Raises FedcliError where fewer than two systems have groups.
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
        raise FedcliError(f"no two systems have {metric} of groups to compare", "give runs evaluated with --by")
    return of_pairs(lines, metric, len(systems), systems[0].scores.images)


def of_pairs(
    lines: Sequence[tuple[str, str, int, float, float]], metric: str, systems: int, images: int
) -> DataFrame:  # fmt: skip
    """The frame of lines (attribute, system, place, overall, worst). systems, images: how many there are."""
    table = DataFrame(lines, columns=["attribute", "system", "place", "overall", "worst"])
    table["front"] = False
    for _, part in table.groupby("attribute"):
        kept = front(dict(zip(part["place"], part[["overall", "worst"]].itertuples(index=False), strict=True)))
        table.loc[part.index, "front"] = part["place"].isin(kept)
    caption = f"{ABOUT}{GREYED if systems > MOST_NAMED else ''} n = {images:,} images."
    table.attrs |= {"score": metric, "systems": systems, "caption": caption}
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
    about = table.attrs
    named = table["front"] | (table["place"] == 0) | (about["systems"] <= MOST_NAMED)
    systems = table[named].drop_duplicates("system").sort_values("place").set_index("place")["system"]
    looks = {place: look for look, place in enumerate(systems.index)}
    panels = [
        Panel(f"by {attribute}", partial(_panel, part, looks, about["score"]))
        for attribute, part in table.groupby("attribute", sort=False)
    ]
    legend = {f"{look + 1} {systems[place]}": point(look) for place, look in looks.items()}
    return Picture(
        f"Overall score and worst group: {about['score']}", panels, legend, about["caption"], size=(3.8, 3.2)
    )


def _panel(part: DataFrame, looks: Mapping[int, int], score: str, axes: Axes) -> None:
    """looks: of the systems that the legend names and numbers; others are grey."""
    best = part[part["front"]].sort_values("overall")
    axes.plot(best["overall"], best["worst"], color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    points = dict(zip(part["place"], part[["overall", "worst"]].to_numpy(), strict=True))
    for place, (x, y) in points.items():
        axes.plot([x], [y], **(point(looks[place]) if place in looks else GREY))
    near = NEAR * np.maximum(np.ptp(list(points.values()), axis=0), 1e-9)  # [2]
    labels: list[tuple[np.ndarray, list[int]]] = []
    for place in sorted(points.keys() & looks.keys()):
        beside = next((numbers for at, numbers in labels if (np.abs(at - points[place]) <= near).all()), None)
        if beside is None:
            labels.append((points[place], beside := []))
        beside.append(looks[place] + 1)
    for at, numbers in labels:
        axes.annotate(", ".join(map(str, numbers)), tuple(at), (4, 4), textcoords="offset points", fontsize=7)
    axes.set(xlabel=f"{score}, all images (%)", ylabel="worst group (%)")
    axes.margins(0.15)


def _variants(systems: list[System]) -> Iterator[Options]:
    for metric in usual(systems[0].scores) if len(systems) > 1 else ():
        shared = [name for name in systems[0].scores.groups if all(name in s.scores.groups for s in systems)]
        if any(_pair(system.each, name, metric) for name in shared for system in systems):
            yield {"metric": metric}


register(Figure("overall-and-worst", "Which methods are best overall and for the worst group?", "systems", frame, draw,
                every=True, variants=_variants))  # fmt: skip
