"""A dataset or partition in a few lines for a person: images, classes, groups and patients, each
with its count."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import console, labels
from ..console import counted
from . import image_contents, left_out, manifest, sources, units
from .image_counts import CLASS, Counts, of_manifest
from .manifest import Body
from .pool import ALL, pool_of

WIDTH = 100  # characters of a line
NAMES = 30  # characters of a name
ATTRIBUTES = 3  # with a line of their own
SPLITS = {
    "image": "image by image",
    "official": "as published",
    "file": "as the split file says",
}


def say(made_path: Path) -> None:
    """Tell a person of a dataset, or of the one that a partition or corruption is of.

    Preparation itself has said which files were left out.
    """
    dataset = manifest.above(made_path, "dataset")
    for line in _of_images(dataset, of_manifest(dataset)):
        console.say(line)


def of_dataset(path: Path, counts: Counts) -> list[str]:
    """Lines about a dataset, of which the counts were taken, and the files that were left out."""
    skipped = manifest.read(path, "dataset").body.get("skipped", [])
    return _of_images(path, counts) + left_out.lines(
        [(file["file"], file["why"]) for file in skipped]
    )


def _of_images(path: Path, counts: Counts) -> list[str]:
    """At most eight lines about the images of a dataset, and up to three about odd ones."""
    body = manifest.read(path, "dataset").body
    names = list(body["attributes"])
    lines = [_images(body)]
    labelled = "labels" if labels.is_multi_label(body) else "classes"
    lines.append(_of_values(labelled, _total(counts[CLASS][ALL])))
    for name in names[:ATTRIBUTES]:
        lines.append(_of_values(name, _total(counts[name][ALL])))
    if len(names) > ATTRIBUTES:
        lines.append(fitted("also known: ", names[ATTRIBUTES:]))
    lines += _of_patients(path, body)
    return lines + of_contents(image_contents.of_manifest(path))


def _images(body: Body) -> str:
    split = body.get("split", {})
    train = split.get("train", 0)
    test = split.get("test", 0)
    count = body.get("count", train + test)
    parts = f"{train:,} train, {test:,} test, {how_split(body)}"
    size = "x".join(map(str, body["size"]))
    return f"images: {count:,} ({parts}), {size} pixels"


def of_contents(contents: Mapping[str, Any]) -> list[str]:
    """Lines about images that show next to nothing, and about those that are equal to another one
    of their part."""
    lines = []
    for part, images in contents["nearly_one_colour"].items():
        names = [f"{_short(name)} {count:,}" for name, count in images.items()]
        lines.append(fitted(f"{image_contents.PARTS[part]} of nearly one colour: ", names))
    identical = contents["identical_within_part"]
    if identical:
        counts = [f"{count:,} {image_contents.PARTS[part]}" for part, count in identical.items()]
        lines.append(f"identical to another image of their part: {console.listed(counts)}")
    return lines


def how_split(body: Body) -> str:
    """The way in which a dataset was divided into training and test images, in words."""
    how = body.get("split", {}).get("by", "")
    if how in SPLITS:
        return SPLITS[how]
    if body["unit"]:
        return units.worded("patients kept together", units.noun(body["unit"]))
    return "image by image" if how == "unit" else how


def _of_patients(path: Path, body: Body) -> list[str]:
    pool = pool_of(path)
    if pool.patient is None:
        shows_people = body.get("people", sources.shows_people(body["name"]))
        return ["patients: not known"] if shows_people else []
    ids = pool.patient.tolist()
    patients = set(ids) - {""}
    plural = units.plural(units.noun(body["unit"]))
    line = f"{plural}: {len(patients):,} ({body['unit']})"
    without = ids.count("")
    if without:
        line += f", {without:,} images of unknown ones"
    return [line]


def of_partition(body: Body, noun: str) -> list[str]:
    """Lines about how a partition's clients differ, and which images are in none of them."""
    lines = []
    if body.get("skew"):
        variation = body["skew"]["total_variation"]
        if variation["between"]:
            pair = " and ".join(variation["between"])
            share = f"{100 * variation['max']:.0f} % would have to change to match"
            lines.append(f"labels: {pair} differ most; {share}")
    for site in body.get("left_out", []):
        lines.append(f"left out: {counted(site['images'], 'image', 'images')} of {site['value']}")
    held_out = body.get("held_out")
    if held_out:
        images = counted(held_out["images"], "image", "images")
        lines.append(f"tested on {held_out['value']}, which trains nothing: {images}")
    if body.get("dropped"):
        images = counted(body["dropped"], "training image", "training images")
        lines.append(f"in no client: {images}")
    if body.get("unit_overlap"):
        patients = counted(body["unit_overlap"], noun, units.plural(noun))
        lines.append(f"in several clients: {patients}")
    return lines


def groups(counts: Counts, attributes: Any) -> Counts:
    """Images by client and value, without the attributes that divide the clients: training, and all
    test images.

    attributes: these, as a manifest records them; a list where there are any.
    """
    dividing = attributes if isinstance(attributes, list) else []
    groups: Counts = {}
    for name, clients in counts.items():
        if name == CLASS or name in dividing:
            continue
        groups[name] = {}
        for client, parts in clients.items():
            part = "test" if client == ALL else "train"
            groups[name][client] = {part: parts[part]} if part in parts else {}
    return groups


def _total(parts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for values in parts.values():
        total.update(values)
    return dict(total)


def _of_values(name: str, counts: Mapping[str, int]) -> str:
    head = f"{_short(name)}: "
    texts = [f"{_short(value)} {count:,}" for value, count in counts.items()]
    line = head + ", ".join(texts)
    if len(line) <= WIDTH or not counts:
        return line
    by_count = sorted(counts, key=lambda value: counts[value])
    rarest = by_count[0]
    commonest = by_count[-1]
    lowest = f"{counts[rarest]:,} ({_short(rarest)})"
    highest = f"{counts[commonest]:,} ({_short(commonest)})"
    return f"{head}{len(counts)}, from {lowest} to {highest}"


def fitted(head: str, names: Sequence[str]) -> str:
    """A line of as many names as fit, and of how many more there are."""
    line = head
    for k, name in enumerate(names):
        name = _short(name)
        others = f" and {len(names) - k} more"
        is_full = len(line) + len(name) + 2 + len(others) > WIDTH
        if k and is_full:
            return line + others
        if k:
            line += ", "
        line += name
    return line


def _short(text: str) -> str:
    text = console.printable(text.replace("\n", " "))
    if len(text) <= NAMES:
        return text
    start = text[: NAMES - 1]
    whole_words = start.rpartition(" ")[0]
    return f"{whole_words or start}…"
