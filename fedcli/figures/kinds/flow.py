"""The flow of images as boxes: from the files of a dataset to those that train and test, with what was left out."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pandas import DataFrame

from ...console import counted
from ...data import glance, manifest
from ...data.corruption.mixture import spoken
from ...data.partition import SCHEMES
from ...data.pool import CHANGED
from ...io.hdf5 import open_hdf5
from ...scores.scores import Scores
from ..drawing import INK, Axes, Panel, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import picture, titled
from ..system import System

REASONS = 3  # for which images were left out that are named
HIGH, GAP = 1.0, 0.45  # of a box and of what lies between two, in units of the axes
LETTERS = 46  # of a line beside a box
ABOUT = "Images after each step, from the manifests; beside a box what was left out or how it was divided."
Step = tuple[
    str, int, str, bool
]  # its name, images, what happened to the others, whether they are part of those above


def frame(system: System) -> DataFrame:
    """step, images, about, part. Raises NothingToDraw where the data are not there, as at sites."""
    run = manifest.parent(system.paths[0], "run")
    if not run or not manifest.parent(run, "dataset"):
        raise NothingToDraw(f"the data of {system.one} are not here", "draw it where they are")
    table = DataFrame(_steps(run, system.scores), columns=["step", "images", "about", "part"])
    return titled(table, f"Flow of images: {system.one}", ABOUT, table["images"].iloc[0])


def _steps(run: Path, scores: Scores) -> Iterator[Step]:
    data = manifest.above(run, "partition")
    dataset = manifest.read(manifest.above(run, "dataset")).body
    body = manifest.read(data).body
    skipped = dataset.get("skipped", [])
    yield _step("files listed", dataset["count"] + len(skipped), part=False)
    yield _step("images prepared", dataset["count"], _left_out(skipped), part=False)
    split = dataset["split"]
    yield _step("training part", split["train"], glance.how_split(dataset))
    images = {
        part: sum(client[part] for client in body["roster"]) for part in ("train", "val", "test")
    }
    outside = split["train"] - images["train"] - images["val"]
    about = counted(len(body["roster"]), "client", "clients")
    about += f", {outside:,} of the training part held by none" if outside > 0 else ""
    yield _step("trained on", images["train"], f"{about}; {_scheme(body['scheme'])}")
    yield _step("validated on", images["val"])
    if held_out := body.get("held_out"):
        yield _step(
            "held out",
            held_out["images"],
            f"{held_out['attribute']} {held_out['value']}, for testing",
        )
    corruption = manifest.parent(run, "corruption", "partition")
    if corruption and manifest.read(corruption).kind == "corruption":
        yield from _corrupted(corruption)
    tested = scores.images
    if scores.external:
        yield _step("tested on", tested, scores.external.sentence)
        return
    own = (
        f"{images['test']:,} in clients' own test parts"
        if images["test"]
        else "shared by all clients"
    )
    yield _step("tested on", tested, own)


def _scheme(name: str) -> str:
    """The way in which a scheme divides images, in its own words; its name where it is not of fedcli."""
    described = (SCHEMES[name].__doc__ or "") if name in SCHEMES else ""
    return described.partition("\n")[0].partition(";")[0].rstrip(".") or f"scheme {name}"


def _left_out(skipped: list[dict[str, str]]) -> str:
    if not skipped:
        return "none left out"
    reasons = Counter(each["why"] for each in skipped).most_common()
    named = [f"{count:,}: {why}" for why, count in reasons[:REASONS]]
    rest = sum(count for _, count in reasons[REASONS:])
    named += [f"{rest:,}: other reasons"] if rest else []
    return f"{len(skipped):,} unreadable or excluded ({'; '.join(named)})"


def _corrupted(path: Path) -> Iterator[Step]:
    body = manifest.read(path).body
    with open_hdf5(path.parent / "changed.h5", CHANGED, hint="corrupt again") as file:
        trained, tested = len(file["train/rows"]), len(file["test/rows"])
    who = counted(len(body["clients"]), "client", "clients")
    yield _step(
        "of these corrupted",
        trained,
        f"{spoken(body)}, {who}; and a copy of {tested:,} test images",
    )


def _step(name: str, images: int, about: str = "", part: bool = True) -> Step:
    return name, images, about, part


def draw(table: DataFrame) -> Picture:
    size = 6.2, 0.2 + 0.62 * len(table)
    return picture(table, [Panel("", partial(_boxes, table))], size=size)


def _boxes(table: DataFrame, axes: Axes) -> None:
    axes.set_axis_off()
    axes.set(xlim=(0, 10), ylim=(-len(table) * (HIGH + GAP) + GAP / 2, 0.2))
    for place, (step, images, about, part) in enumerate(table.itertuples(index=False)):
        top = -place * (HIGH + GAP)
        left, middle = 0.6 if part else 0.1, top - HIGH / 2
        axes.fill_between(
            [left, 4.1], top - HIGH, top, facecolor="none", edgecolor=INK, linewidth=1.0
        )
        named = f"{step}\n{images:,}"
        axes.text((left + 4.1) / 2, middle, named, ha="center", va="center", fontsize=9, color=INK)
        about = textwrap.fill(about, LETTERS, max_lines=3, placeholder="…")
        axes.text(4.4, middle, about, ha="left", va="center", fontsize=8, color=INK)
        if place and not part:
            arrow = {"arrowstyle": "->", "color": INK, "linewidth": 1.0}
            axes.annotate("", (2.1, top), (2.1, top + GAP), arrowprops=arrow)


register(
    Figure(
        "flow", "Which images became training and test images?", "system", frame, draw, usual=True
    )
)
