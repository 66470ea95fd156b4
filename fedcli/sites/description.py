"""A site's description of itself: who it is, the form and the number of its images, by class and by group; never an id.

A cell of a table with few images is hidden, and with it others, so that no sum gives it away.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..data import image_counts, manifest, manifest_bodies, quality_by_site
from ..data.image_counts import MOST_IMAGES
from ..data.quality import NAMES, cells
from ..errors import FedcliError
from ..labels import is_multi_label
from ..provenance import version_of
from ..shapes import read_json
from .transport.frames import plain

LONGEST, LONGEST_HINT = 380, 200  # characters of an error
SMALLEST = 10  # images of a cell that is shown, where the policy says nothing
PARTS = "train", "val", "test"
NAMED = "images of one's own: give all sites the same --set classes=A,B and --set 'values=sex=female,male'"
SAME = {  # at all sites; how they become so
    "classes": NAMED,
    "attributes": NAMED,
    **dict.fromkeys(
        ("size", "channels", "augment"), "prepare the images of all sites with the same options"
    ),
    "versions": "install the same versions at all sites and at the coordinator",
}
SHAPE = {
    **manifest_bodies.POOLED,
    "client": str,
    "dataset": str,
    "data": str,
    "images": dict.fromkeys(PARTS, int),
    "counts": {str: {str: {str: (int, None)}}},
    "versions": {str: str},
    "quality?": {str: [[int]]},
}
NAME = r"\w[\w.+-]{0,79}"  # of a client, which names a file


class SiteError(FedcliError):
    """A site that cannot take part, or failed to. Its words may be the site's: they are cut, and put on one line."""

    def __init__(self, sentence: str, hint: str = ""):
        super().__init__(plain(sentence, LONGEST), plain(hint, LONGEST_HINT))


def versions() -> dict[str, str]:
    """Versions that must be the same everywhere for equal bits."""
    return {
        "fedcli": __version__,
        **{package: version_of(package) for package in ("torch", "numpy")},
    }


def held_by(data: Path, client: str | None) -> str:
    """The client of a partition or corruption manifest that a site holds; None is its only one. Raises SiteError."""
    roster = [
        entry["client"]
        for entry in manifest.read(data, "partition", "corruption", whole=True).body["roster"]
    ]
    if client is None and len(roster) == 1:
        return roster[0]
    if client is None or client not in roster:
        what = f"no client {client!r}" if client else f"{len(roster)} clients"
        raise SiteError(
            f"{data} has {what}", f"give --client with one of: {', '.join(roster)}"[:300]
        )
    return client


def describe(data: Path, client: str, name: str, smallest: int = SMALLEST) -> dict[str, Any]:
    """The description of a site.

    data: a verified partition or corruption manifest. client: its name there. name: its name in the federation.
    """
    body = manifest.read(data).body
    if is_multi_label(body):
        what = (
            f"images of {body['dataset']} have several labels, and sites count one class per image"
        )
        raise SiteError(
            what, "train where the images are together, or prepare a dataset of one label per image"
        )
    counts = image_counts.of_manifest(data)
    parts = {part: sum(counts[image_counts.CLASS][client].get(part, {}).values()) for part in PARTS}
    shown = {
        column: {part: hidden(cells, smallest) for part, cells in clients[client].items()}
        for column, clients in counts.items()
    }
    about = {key: body[key] for key in (*manifest_bodies.POOLED, "dataset")}
    about |= {"sample": True} if body.get("sample") else {}
    about |= (
        {"label_noise": True} if client in body.get("label_noise", {}) else {}
    )  # then it trains on other labels
    return {
        **about,
        "client": name,
        "data": manifest.sha256(manifest.find(data)),
        "images": parts,
        "counts": shown,
        "versions": versions(),
    }


def quality(data: Path, client: str, smallest: int) -> dict[str, list[list[int]]]:
    """Histograms of the quality of a client's training and validation images together, in cells of at least so many.

    They are of all images alone: from those of classes or groups beside them small counts would follow.
    """
    made = quality_by_site.of_manifest(data, client=client).histograms[client]  # [M, BINS]
    return {name: cells(counts, smallest) for name, counts in zip(NAMES, made, strict=True)}


def hidden(cells: Mapping[str, int], smallest: int) -> dict[str, int | None]:
    """Counts by value, with None for those from 1 to below smallest, and for others until the hidden sum is as large.

    The sum of all is known, so that a single hidden cell would be its difference to those that are shown. Of equal
    counts the first is hidden: what a site later counts of its test images leaves out the same classes.
    """
    rising = sorted(
        ((count, value) for value, count in cells.items() if count), key=lambda cell: cell[0]
    )
    secret = [value for count, value in rising if count < smallest]
    for _, value in rising[len(secret) :]:
        if not secret or (len(secret) > 1 and sum(cells[name] for name in secret) >= smallest):
            break
        secret.append(value)
    return {value: None if value in secret else count for value, count in cells.items()}


def read(path: Path) -> dict[str, Any]:
    """A description from a file. Raises FedcliError where it is none."""
    hint = "give files that `fedcli site describe` wrote"
    content = read_json(path, SHAPE, hint)
    check_name(content["client"])
    try:
        check_bounds(content)
        check_numbers(content)
    except SiteError as error:
        raise FedcliError(f"{path}: {error.sentence}", hint) from None
    return content


def check_bounds(description: Mapping[str, Any]) -> None:
    """Raises SiteError for numbers that cannot be, before anything is made of them."""
    numbers = [(f"images of the part {part!r}", description["images"][part]) for part in PARTS]
    numbers += [("pixels", side) for side in description["size"]] + [
        ("channels", description["channels"])
    ]
    odd = [(of, number) for of, number in numbers if not 0 <= number <= MOST_IMAGES]
    for column, parts in description["counts"].items():
        counts = (count for cells in parts.values() for count in cells.values())
        odd += [
            (f"images by {column!r}", count) for count in counts if abs(count or 0) > MOST_IMAGES
        ]
    for of, number in odd[:1]:
        raise SiteError(f"it describes {str(number)[:40]} {of}")


def check_numbers(description: Mapping[str, Any]) -> None:
    """Raises SiteError for numbers of images that do not add up."""
    images, counts = description["images"], description["counts"]
    for column in ("class", *description["attributes"]):
        for part in PARTS:
            cells = counts.get(column, {}).get(part, {})
            shown = [count for count in cells.values() if count is not None]
            whole = column == "class" and len(shown) == len(cells)
            odd_sum = sum(shown) != images[part] if whole else sum(shown) > images[part]
            if min(shown, default=0) < 0 or odd_sum:
                raise SiteError(
                    f"its numbers of images by {column!r} do not add up to {images[part]} of {part!r}"
                )


def check_name(client: str) -> None:
    """Raises SiteError for a name that could not be a file's."""
    if not re.fullmatch(NAME, client):
        hint = "letters, digits, and - _ . + after the first, such as hospital-a: give --name"
        raise SiteError(f"{client[:80]!r} is no name for a site", hint)


def check_same(descriptions: Sequence[Mapping[str, Any]]) -> None:
    """Raises SiteError that names the first site which differs from the first of all in what must be the same."""
    first, names = descriptions[0], [site["client"] for site in descriptions]
    for other in descriptions[1:]:
        check_against(first, other, first["client"])
    if twice := {name for name in names if names.count(name) > 1}:
        raise SiteError(
            f"two sites are called {min(twice)}", "start one of them with another --name"
        )


def check_against(expected: Mapping[str, Any], description: Mapping[str, Any], whose: str) -> None:
    """Raises SiteError where a site differs from what is expected. whose: the expectation, for the sentence."""
    for key, hint in SAME.items():
        if key in expected and description.get(key) != expected[key]:
            what = f"{key} {_short(description.get(key))}; {whose} has {_short(expected[key])}"
            raise SiteError(f"site {description['client']} has the {what}", hint)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:120]}…"
