"""A site's description of itself: who it is, the form of its images and their number.

The number is by class and by group; no id is ever part of it.

A cell of a table with few images is hidden, and with it others, so that no sum gives it away.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .. import __version__
from ..data import image_counts, manifest, manifest_bodies, shared_patients, units
from ..data.corruption import attack as attacks
from ..data.image_counts import MOST_IMAGES
from ..data.quality import NAMES
from ..data.quality import cells as in_cells
from ..errors import FedcliError
from ..labels import is_multi_label
from ..leaves import require
from ..provenance import version_of
from ..shapes import read_json
from .transport.frames import plain

LONGEST, LONGEST_HINT = 380, 200  # characters of an error
GOES_ON = "training goes on with --resume"  # the end of a hint; evaluation has another
SMALLEST = 10  # images of a cell that is shown, where the policy says nothing
PARTS = "train", "val", "test"
NAMED = (
    "images of one's own: give all sites the same --set classes=A,B and "
    "--set 'values=sex=female,male'"
)
PREPARED = "prepare the images of all sites with the same options"
SAME = {  # values that are the same at all sites -> how they become so
    "classes": NAMED,
    "attributes": NAMED,
    "size": PREPARED,
    "channels": PREPARED,
    "augment": PREPARED,
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
    "shared_patients?": {"unit": str, **manifest_bodies.SHARED_BY_PART},
}
NAME = r"\w[\w.+-]{0,79}"  # of a client, which names a file
Value = TypeVar("Value")
Described = Mapping[str, Any]  # a description


class SiteError(FedcliError):
    """A site that cannot take part, or failed to.

    Its words may be the site's: they are cut, and put on one line.
    """

    def __init__(self, sentence: str, hint: str = ""):
        super().__init__(plain(sentence, LONGEST), plain(hint, LONGEST_HINT))


def versions() -> dict[str, str]:
    """Versions that must be the same everywhere for equal bits."""
    return {
        "fedcli": __version__,
        "torch": version_of("torch"),
        "numpy": version_of("numpy"),
    }


def held_by(data: Path, client: str | None) -> str:
    """The client of a partition or corruption manifest that a site holds; None is its only one.

    Raises SiteError.
    """
    body = manifest.read(data, "partition", "corruption", whole=True).body
    roster = [entry["client"] for entry in body["roster"]]
    if client is None and len(roster) == 1:
        return roster[0]
    if client is None or client not in roster:
        clients = f"no client {client!r}" if client else f"{len(roster)} clients"
        hint = f"give --client with one of: {', '.join(roster)}"
        raise SiteError(f"{data} has {clients}", hint[:300])
    return client


def describe(
    data: Path,
    client: str,
    name: str,
    smallest: int = SMALLEST,
) -> dict[str, Any]:
    """The description of a site. Raises SiteError.

    data: a verified partition or corruption manifest. client: its name there.
    name: its name in the federation.
    """
    body = manifest.read(data).body
    if is_multi_label(body):
        raise SiteError(
            f"images of {body['dataset']} have several labels, and sites count one class per image",
            (
                "train in simulation, with all images on one machine, or prepare a dataset of "
                "one label per image"
            ),
        )
    if attacks.is_joint(body):
        raise SiteError(
            f"clients of {data} attack by what the others send, which no site sees",
            "train in simulation, with all images on one machine, or attack by --kind sign-flip",
        )
    counts = {}
    for column, clients in image_counts.of_manifest(data).items():
        counts[column] = clients[client]
    images = {part: sum(counts[image_counts.CLASS].get(part, {}).values()) for part in PARTS}
    visible: dict[str, dict[str, Any]] = {}
    for column, parts in counts.items():
        visible[column] = {part: hidden(cells, smallest) for part, cells in parts.items()}
    description = {key: body[key] for key in (*manifest_bodies.POOLED, "dataset")}
    data_sha256 = manifest.sha256(manifest.find(data))
    patients = patients_shown(shared_patients.of_client(data, client), smallest)
    description |= {
        "client": name,
        "data": data_sha256,
        "images": images,
        "counts": visible,
        "versions": versions(),
        **patients,
    }
    if body.get("sample"):
        description["sample"] = True
    if client in body.get("label_noise", {}):  # then it trains on other labels
        description["label_noise"] = True
    return description


def patients_shown(entry: dict[str, Any], smallest: int) -> dict[str, Any]:
    """The entry of a site on patients of both test and training images, without small numbers.

    None stands for a number that is small, or from which the number of the other patients would
    follow where that is small. entry: as of shared_patients.of_site().
    """
    shown: dict[str, Any] = {}
    for key, content in entry.items():
        shown[key] = {"unit": content["unit"]}
        for part in shared_patients.WORDS:
            if part in content:
                shown[key][part] = _count_shown(content[part], smallest)
    return shown


def _count_shown(count: Mapping[str, int], smallest: int) -> dict[str, int | None]:
    cells = {"shared": count["shared"], "others": count["of"] - count["shared"]}
    shared_count = hidden(cells, smallest)["shared"]
    patient_count = hidden({"of": count["of"]}, smallest)["of"]
    return {
        "shared": shared_count,
        "of": patient_count,
    }


def quality(
    data: Path,
    client: str,
    smallest: int,
) -> dict[str, list[list[int]]]:
    """Histograms of the quality of a client's training and validation images together.

    A cell has at least `smallest` images. They are of all images alone: from those of classes or
    groups beside them small counts would follow.
    """
    require("fedcli.data.quality_by_site", "--quality")
    from ..data import quality_by_site

    measured = quality_by_site.of_manifest(data, client=client)
    histograms = zip(NAMES, measured.histograms[client], strict=True)  # of each measure [BINS]
    return {name: in_cells(counts, smallest) for name, counts in histograms}


def hidden(cells: Mapping[Value, int], smallest: int) -> dict[Value, int | None]:
    """Counts by value, with None for those that may not be shown.

    They are those from 1 to below smallest, and others until the hidden sum is as large. The sum of
    all is known, so that a single hidden cell would be its difference to those that are shown. Of
    equal counts the first is hidden: what a site later counts of its test images leaves out the
    same classes.
    """
    rising = sorted(filter(cells.get, cells), key=lambda value: cells[value])
    secret = [value for value in rising if cells[value] < smallest]
    for value in rising[len(secret) :]:
        hidden_sum = sum(cells[name] for name in secret)
        if not secret or (len(secret) > 1 and hidden_sum >= smallest):
            break
        secret.append(value)
    return {value: None if value in secret else count for value, count in cells.items()}


def read(path: Path) -> dict[str, Any]:
    """A description from a file. Raises FedcliError where it is none."""
    hint = "give files that `fedcli site describe` wrote"
    description = read_json(path, SHAPE, hint)
    check_name(description["client"])
    try:
        check_bounds(description)
        check_numbers(description)
    except SiteError as error:
        raise FedcliError(f"{path}: {error.sentence}", hint) from None
    return description


def check_bounds(description: Described) -> None:
    """Raises SiteError for numbers that cannot be, before anything is made of them."""
    for part in PARTS:
        _check_bound(description["images"][part], f"images of the part {part!r}")
    for side in description["size"]:
        _check_bound(side, "pixels")
    _check_bound(description["channels"], "channels")
    for column, parts in description["counts"].items():
        for cells in parts.values():
            for count in cells.values():
                _check_bound(count or 0, f"images by {column!r}", -MOST_IMAGES)


def _check_bound(number: int, unit: str, least: int = 0) -> None:
    if not least <= number <= MOST_IMAGES:
        raise SiteError(f"it describes {str(number)[:40]} {unit}")


def check_numbers(description: Described) -> None:
    """Raises SiteError for numbers of images or patients that do not add up."""
    _check_patients(description)
    for column in ("class", *description["attributes"]):
        parts = description["counts"].get(column, {})
        for part in PARTS:
            images = description["images"][part]
            counts = parts.get(part, {}).values()
            visible = [count for count in counts if count is not None]
            adds_up = sum(visible) <= images
            if column == "class" and len(visible) == len(counts):
                adds_up = sum(visible) == images
            if min(visible, default=0) < 0 or not adds_up:
                raise SiteError(
                    f"its numbers of images by {column!r} do not add up to {images} of {part!r}"
                )


def _check_patients(description: Described) -> None:
    """Raises SiteError for patients of test and training images who cannot be that many."""
    entry = description.get(shared_patients.KEY, {})
    for part in shared_patients.WORDS:
        count = entry.get(part, {"shared": 0, "of": 0})
        images = description["images"][part]
        of_all = images if count["of"] is None else count["of"]
        if not 0 <= (count["shared"] or 0) <= of_all <= images:
            raise SiteError(
                f"its numbers of patients of {part!r} do not fit its {images} images of that part"
            )
    if entry and entry["unit"] not in units.SEVERAL:
        words = ", ".join(units.SEVERAL)
        raise SiteError(f"it counts {entry['unit'][:40]!r}, which are none of {words}")


def check_name(client: str) -> None:
    """Raises SiteError for a name that could not be a file's."""
    if not re.fullmatch(NAME, client):
        hint = "letters, digits, and - _ . + after the first, such as hospital-a: give --name"
        raise SiteError(f"{client[:80]!r} is no name for a site", hint)


def check_same(descriptions: Sequence[Described]) -> None:
    """Raises SiteError where sites differ in what must be the same, or have one name.

    It names the first site that differs from the first of all.
    """
    reference, *others = descriptions
    for description in others:
        check_against(reference, description, reference["client"])
    names = Counter(description["client"] for description in descriptions)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        raise SiteError(
            f"two sites are called {min(repeated)}", "start one of them with another --name"
        )


def check_against(
    expected: Described,
    description: Described,
    whose: str,
) -> None:
    """Raises SiteError where a site differs from what is expected.

    whose: the expectation, for the sentence.
    """
    for key, hint in SAME.items():
        if key in expected and description.get(key) != expected[key]:
            value = _short(description.get(key))
            expected_value = _short(expected[key])
            raise SiteError(
                f"site {description['client']} has the {key} {value}; {whose} has {expected_value}",
                hint,
            )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:120]}…"
