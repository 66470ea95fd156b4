"""A dataset or partition in a few lines for a person: images, classes, groups and patients, each with its count."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import console, labels
from ..console import counted
from . import image_contents, manifest, sources
from .image_counts import CLASS, Counts, of_manifest
from .pool import ALL, pool_of

WIDTH, NAMES, ATTRIBUTES, REASONS = (
    100,
    30,
    3,
    2,
)  # characters of a line and of a name; what is shown in full
SPLITS = {"image": "image by image", "official": "as published", "file": "as the split file says"}


def say(made: Path) -> None:
    """Tell a person of a dataset, or of the one that a partition or corruption is of."""
    dataset = manifest.above(made, "dataset")
    for line in of_dataset(dataset, of_manifest(dataset)):
        console.say(line)


def of_dataset(path: Path, counts: Counts) -> list[str]:
    """At most eight lines about a dataset, of which the counts were taken, and up to three about odd images."""
    body = manifest.read(path, "dataset").body
    parts = counts[CLASS][ALL]
    train, test = (body.get("split", {}).get(part, 0) for part in ("train", "test"))
    how, size = how_split(body), "x".join(map(str, body["size"]))
    lines = [
        f"images: {body.get('count', train + test):,} ({train:,} train, {test:,} test, {how}), {size} pixels"
    ]
    lines.append(_of_values("labels" if labels.is_multi_label(body) else "classes", _total(parts)))
    names = list(body["attributes"])
    lines += [_of_values(name, _total(counts[name][ALL])) for name in names[:ATTRIBUTES]]
    if more := names[ATTRIBUTES:]:
        lines.append(fitted("also known: ", more))
    lines += _of_patients(path, body)
    if skipped := body.get("skipped"):
        reasons = Counter(each["why"] for each in skipped).most_common()
        rest = sum(count for _, count in reasons[REASONS:])
        named = [f"{_short(why, 2 * NAMES)} ({count:,})" for why, count in reasons[:REASONS]]
        named += [f"other reasons ({rest:,})"] if rest else []
        lines.append(
            fitted(f"left out: {counted(len(skipped), 'file', 'files')}: ", named, 3 * NAMES)
        )
    return lines + of_contents(image_contents.of_manifest(path))


def of_contents(contents: Mapping[str, Any]) -> list[str]:
    """Lines about images that show next to nothing, and about those that are equal to another one of their part."""
    lines = []
    for part, images in contents["nearly_one_colour"].items():
        head = f"{image_contents.PARTS[part]} of nearly one colour: "
        lines.append(fitted(head, [f"{_short(name)} {count:,}" for name, count in images.items()]))
    identical = contents["identical_within_part"]
    if identical:
        counts = [f"{count:,} {image_contents.PARTS[part]}" for part, count in identical.items()]
        lines.append(f"identical to another image of their part: {console.listed(counts)}")
    return lines


def how_split(body: Mapping[str, Any]) -> str:
    """The way in which a dataset was divided into training and test images, in words."""
    how = body.get("split", {}).get("by", "")
    return SPLITS.get(
        how,
        "patients kept together" if body["unit"] else "image by image" if how == "unit" else how,
    )


def _of_patients(path: Path, body: Mapping[str, Any]) -> list[str]:
    pool = pool_of(path)
    if pool.patient is None:
        return (
            ["patients: not known"]
            if body.get("people", sources.shows_people(body["name"]))
            else []
        )
    known = set(pool.patient.tolist()) - {""}
    alone = int((pool.patient == "").sum())
    return [
        f"patients or lesions: {len(known):,} ({body['unit']})"
        + f", {alone:,} images of unknown ones" * bool(alone)
    ]


def of_partition(body: Mapping[str, Any]) -> list[str]:
    """Lines about how a partition's clients differ, and which images are in none of them."""
    lines = []
    if (skew := body.get("skew")) and (between := skew["total_variation"]["between"]):
        distance = 100 * skew["total_variation"]["max"]
        lines.append(
            f"labels: {' and '.join(between)} differ most; {distance:.0f} % would have to change to match"
        )
    for site in body.get("left_out", []):
        lines.append(f"left out: {counted(site['images'], 'image', 'images')} of {site['value']}")
    if held := body.get("held_out"):
        lines.append(
            f"tested on {held['value']}, which trains nothing: {counted(held['images'], 'image', 'images')}"
        )
    if dropped := body.get("dropped"):
        lines.append(f"in no client: {counted(dropped, 'training image', 'training images')}")
    if several := body.get("unit_overlap"):
        lines.append(
            f"in several clients: {counted(several, 'patient or lesion', 'patients or lesions')}"
        )
    return lines


def groups(counts: Counts, by: Any) -> Counts:
    """Images by client and value, without the attributes that divide the clients: training, and all test images."""
    by = by if isinstance(by, list) else []  # as a manifest says it
    return {
        name: {
            client: {
                part: images
                for part, images in parts.items()
                if part == ("test" if client == ALL else "train")
            }
            for client, parts in clients.items()
        }
        for name, clients in counts.items()
        if name != CLASS and name not in by
    }


def _total(parts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for values in parts.values():
        total.update(values)
    return dict(total)


def _of_values(name: str, values: Mapping[str, int]) -> str:
    head, each = (
        f"{_short(name)}: ",
        [f"{_short(value)} {count:,}" for value, count in values.items()],
    )
    if len(head + ", ".join(each)) <= WIDTH or not values:
        return head + ", ".join(each)
    by_size = sorted(values, key=lambda value: values[value])
    least, most = by_size[0], by_size[-1]
    return f"{head}{len(values)}, from {values[least]:,} ({_short(least)}) to {values[most]:,} ({_short(most)})"


def fitted(head: str, names: Sequence[str], longest: int = NAMES) -> str:
    """As many names as fit a line, and how many more there are."""
    line, names = head, [_short(name, longest) for name in names]
    for k, name in enumerate(names):
        more = f" and {len(names) - k} more"
        if k and len(line) + len(name) + 2 + len(more) > WIDTH:
            return line + more
        line += f"{', ' if k else ''}{name}"
    return line


def _short(text: str, longest: int = NAMES) -> str:
    text = console.printable(text.replace("\n", " "))
    return text if len(text) <= longest else text[: longest - 1] + "…"
