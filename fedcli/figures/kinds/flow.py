"""The flow of images as boxes: from the files of a dataset to those that train and test.

Beside them is what was left out.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pandas import DataFrame

from ...console import counted
from ...data import glance, manifest
from ...data.corruption.mixture import spoken
from ...data.partition import SCHEMES
from ...data.pool import CHANGED
from ...io.hdf5 import open_hdf5
from ...scores.scores import RunScores
from ..drawing import INK, Axes, Look, Panel, Picture
from ..figure import Figure, NothingToDraw, register
from ..shapes import picture, titled
from ..system import System

REASONS = 3  # for which images were left out that are named
HIGH = 1.0  # of a box, in units of the axes
GAP = 0.45  # between two boxes
RIGHT = 4.1  # end of the boxes
LETTERS = 46  # of a line beside a box
ABOUT = (
    "Images after each step, from the manifests; next to a box, what was left out or "
    "how it was divided."
)


class FlowStep(NamedTuple):
    """A box. about: what happened to the others. part: whether its images are among those above."""

    step: str
    images: int
    about: str = ""
    part: bool = True


def frame(system: System) -> DataFrame:
    """step, images, about, part.

    Raises NothingToDraw where the data are not there, as at sites.
    """
    run = manifest.parent(system.paths[0], "run")
    if not run or not manifest.parent(run, "dataset"):
        sentence = f"the data of {system.run_name} are not here"
        raise NothingToDraw(sentence, "draw it where the images are")
    table = DataFrame(list(_steps(run, system.scores)))
    title = f"Flow of images: {system.run_name}"
    return titled(table, title, ABOUT, table["images"].iloc[0])


def _steps(run: Path, scores: RunScores) -> Iterator[FlowStep]:
    dataset = manifest.read(manifest.above(run, "dataset")).body
    body = manifest.read(manifest.above(run, "partition")).body
    skipped = dataset.get("skipped", [])
    split = dataset["split"]
    listed = dataset["count"] + len(skipped)
    yield FlowStep("files listed", listed, part=False)
    yield FlowStep("images prepared", dataset["count"], _left_out(skipped), part=False)
    yield FlowStep("training part", split["train"], glance.how_split(dataset))
    images: Counter[str] = Counter()
    for client in body["roster"]:
        for part in ("train", "val", "test"):
            images[part] += client[part]
    clients = counted(len(body["roster"]), "client", "clients")
    outside = split["train"] - images["train"] - images["val"]
    if outside > 0:
        clients += f", {outside:,} of the training part held by none"
    scheme = _scheme(body["scheme"])
    clients_and_scheme = f"{clients}. {scheme}"
    yield FlowStep("trained on", images["train"], clients_and_scheme)
    yield FlowStep("validated on", images["val"])
    held_out = body.get("held_out")
    if held_out:
        group = f"{held_out['attribute']} {held_out['value']}, for testing"
        yield FlowStep("held out", held_out["images"], group)
    corruption = manifest.parent(run, "corruption", "partition")
    if corruption and manifest.read(corruption).kind == "corruption":
        yield _corrupted(corruption)
    origin = "shared by all clients"
    if scores.external:
        origin = scores.external.sentence
    elif images["test"]:
        origin = f"{images['test']:,} in clients' own test parts"
    yield FlowStep("tested on", scores.images, origin)


def _scheme(name: str) -> str:
    """A description of a scheme, in its own words; its name where it is not of fedcli."""
    description = ""
    if name in SCHEMES:
        documentation = SCHEMES[name].__doc__ or ""
        first_line = documentation.partition("\n")[0]
        description = first_line.partition(";")[0].rstrip(".")
    return description or f"Scheme {name}"


def _left_out(skipped: list[dict[str, str]]) -> str:
    if not skipped:
        return "none left out"
    reasons = Counter(image["why"] for image in skipped).most_common()
    shown_reasons = reasons[:REASONS]
    texts = [f"{count:,}: {why}" for why, count in shown_reasons]
    other_reasons = reasons[REASONS:]
    rest = sum(count for _, count in other_reasons)
    if rest:
        texts.append(f"{rest:,}: other reasons")
    words = "; ".join(texts)
    return f"{len(skipped):,} unreadable or excluded ({words})"


def _corrupted(path: Path) -> FlowStep:
    body = manifest.read(path).body
    with open_hdf5(path.parent / "changed.h5", CHANGED, hint="corrupt again") as file:
        test_count = len(file["test/rows"])
    images: Counter[str] = Counter()
    for client in body["roster"]:
        if client["client"] in body["clients"]:
            images["train"] += client["train"]
            images["val"] += client["val"]
    clients = counted(len(body["clients"]), "client", "clients")
    mixture = spoken(body)
    others = f"a copy of {test_count:,} test images"
    if images["val"]:
        others = f"{images['val']:,} validation images and {others}"
    words = f"{mixture}, {clients}; also {others}"
    return FlowStep("training images corrupted", images["train"], words)


def draw(table: DataFrame) -> Picture:
    size = 6.2, 0.2 + 0.62 * len(table)
    panel = Panel("", partial(_boxes, table))
    return picture(table, [panel], size=size)


def _boxes(table: DataFrame, axes: Axes) -> None:
    axes.set_axis_off()
    bottom = -len(table) * (HIGH + GAP)
    lowest = bottom + GAP / 2
    axes.set(xlim=(0, 10), ylim=(lowest, 0.2))
    box: Look = {"facecolor": "none", "edgecolor": INK, "linewidth": 1.0}
    arrow = {"arrowstyle": "->", "color": INK, "linewidth": 1.0}
    for row in table.itertuples():
        top = -row.Index * (HIGH + GAP)
        middle = top - HIGH / 2
        start = 0.6 if row.part else 0.1
        ends = [start, RIGHT]
        axes.fill_between(ends, top - HIGH, top, **box)
        words = f"{row.step}\n{row.images:,}"
        centre = (start + RIGHT) / 2
        axes.text(
            centre,
            middle,
            words,
            ha="center",
            va="center",
            fontsize=9,
            color=INK,
        )
        beside = textwrap.fill(row.about, LETTERS, max_lines=3, placeholder="…")
        axes.text(
            4.4,
            middle,
            beside,
            ha="left",
            va="center",
            fontsize=8,
            color=INK,
        )
        if row.Index and not row.part:
            axes.annotate("", (2.1, top), (2.1, top + GAP), arrowprops=arrow)


QUESTION = "Which images became training and test images?"
register(Figure("flow", QUESTION, "system", frame, draw, usual=True))
