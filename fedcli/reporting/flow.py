"""The flow of images: from the files of a dataset to those that train and test, with what was left out on the way."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..console import counted
from ..data import manifest
from ..data.corruption.mixture import spoken
from ..data.pool import CHANGED
from ..io.hdf5 import open_hdf5
from ..scores.scores import Scores
from .table import Cell, Column, Table

REASONS = 3  # for which images were left out that are named
LEGEND = "From the manifests of the run's data; what was left out of a step stands beside it."


@dataclass(frozen=True)
class Step:
    """Images after a step, and what happened to the others. part: whether they are a part of those of a step above."""

    name: str
    images: int
    about: str = ""
    part: bool = True


def steps(path: Path, scores: Scores) -> list[Step]:
    """Of the run behind a scores.json; [] where its data are not there, as at sites."""
    return list(_steps(path, scores)) if manifest.parent(manifest.above(path, "run"), "dataset") else []


def _steps(path: Path, scores: Scores) -> Iterator[Step]:
    run = manifest.above(path, "run")
    data = manifest.above(run, "partition")
    dataset = manifest.read(manifest.above(run, "dataset")).body
    body = manifest.read(data).body
    skipped = dataset.get("skipped", [])
    yield Step("files listed", dataset["count"] + len(skipped), part=False)
    yield Step("images prepared", dataset["count"], _left_out(skipped), part=False)
    split = dataset["split"]
    yield Step("training part", split["train"], f"split by {split['by']}")
    images = {part: sum(client[part] for client in body["roster"]) for part in ("train", "val", "test")}
    outside = split["train"] - images["train"] - images["val"]
    about = [counted(len(body["roster"]), "client", "clients"), f"scheme {body['scheme']}"]
    about += [f"{outside:,} of the training part held by none"] if outside > 0 else []
    yield Step("trained on", images["train"], ", ".join(about))
    yield Step("validated on", images["val"])
    if held_out := body.get("held_out"):
        yield Step("held out", held_out["images"], f"{held_out['attribute']} {held_out['value']}, for testing")
    corruption = manifest.parent(run, "corruption", "partition")
    if corruption and manifest.read(corruption).kind == "corruption":
        yield from _corrupted(corruption)
    tested = scores.versions["clean"].count
    if scores.external:
        yield Step("tested on", tested, scores.external.sentence)
        return
    own = f"{images['test']:,} in clients' own test parts" if images["test"] else "shared by all clients"
    yield Step("tested on", tested, own)


def _left_out(skipped: list[dict[str, str]]) -> str:
    """How many files were left out, by reason."""
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
    yield Step("of these corrupted", trained, f"{spoken(body)}, {who}; and a copy of {tested:,} test images")


def table(name: str, path: Path, scores: Scores) -> Iterator[Table]:
    """As a table, where the data are there."""
    lines = [[Cell(each.name), Cell(f"{each.images:,}"), Cell(each.about or "")] for each in steps(path, scores)]
    if lines:
        yield Table(f"Flow of images: {name}", [Column("step"), Column("images"), Column("about")], lines, LEGEND)
