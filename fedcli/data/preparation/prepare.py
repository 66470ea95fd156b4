"""The prepare stage: a raw folder -> pool.h5 and dataset.json, each image decoded and resized once.

Worker processes write each image to its own place in the pool, so none ever holds more than a few. A
file that turns out unreadable is left out and listed; the others stay in train or test as they were.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ... import console, labels
from ...errors import FedcliError, UsageError
from ...io.files import may_pass
from ...provenance import OwnCodeError
from ...system.memory import keep_freed
from ...system.processes import in_order
from .. import manifest, originals, overlap, shared_patients, sources
from .. import pool as shard
from ..pool import BlankPool, Row
from ..sources.division import AS_LISTED, sample_rows
from ..sources.formats.photographs import (
    fit_image,
    match_channels,
    pipeline,
    scaled_decoding,
    within,
)
from ..sources.own_files import column_notes, own_columns
from ..sources.source import Choices, Listing, Source, Unreadable
from . import given_tables
from .request import Request, command, recorded, resolved

MANY = 1000  # images of a raw folder, which are announced before they are prepared
ABSENT = "-1"  # stands for the contents of a file that cannot be read
FILLED = "another --split, --test or --split-file may fill it"
READERS, TURN = 8, 16  # threads that read raw files, files of a turn
RUN, RUN_BYTES = 32, 2**22  # images and bytes that a worker holds before it writes them


def prepare(name: str, request: Request, *, work: Path, out: Path | None = None) -> Path:
    """Make a dataset's pool and return its manifest's path.

    Args:
        name: one of sources.SOURCES, or of a dataset from outside: registered, PATH.py or PATH.py:NAME.
        work: folder of all results.
        out: folder of this one; None for a name under work.

    Raises FedcliError, UsageError.
    """
    known, raw, name = sources.find(name), request.raw, sources.plain(name)
    source, card, code = known.source, known.card, known.code
    choices = resolved(name, card, request)
    check_raw(name, raw, source, card["where"])
    sample = sources.is_sample(raw)
    listing = _listing(name, card, source, request, choices)
    if not sample:  # whose people are made up
        column_notes.note_people(listing.rows, listing.attributes)
    if code:
        check_labels(str(code), card, listing)
        for row in listing.rows:
            if raw:
                within(raw, str(row.source), str(code))
    if request.split_file:
        choices = replace(choices, split="file")
    options = recorded(name, card, choices)
    options |= {"code": code.recorded} if code else {}
    contents = contents_of(raw, listing) if raw else {}
    options["raw_fingerprint"] = fingerprint(raw, listing, contents) if raw else None
    if file := request.split_file:
        first, *second = given_tables.files(file)
        options |= {"split_file": manifest.named(first), "fold": request.chosen.get("fold")}
        options |= {"split_file_beside": manifest.named(*second)} if second else {}
    if file := request.attributes:
        options |= {"attributes_file": manifest.named(file)}

    def build(folder: Path) -> dict[str, Any]:
        if raw and len(listing.rows) >= MANY:
            console.say(
                f"preparing {len(listing.rows):,} images of {name} at {choices.size} pixels"
            )
        channels = card["channels"] if listing.channels is None else listing.channels
        kept, skipped = fill(folder / "pool.h5", source, raw, choices, listing, channels)
        if raw:
            refuse_changed(raw, contents, kept, skipped)
        made = describe(name, card, choices, listing, kept, skipped)
        if not sample:
            warn_of_patients(card, listing, kept)
        return made | ({"sample": True} if sample else {})

    slug = f"{name}-{choices.size}{'-SYNTHETIC' * sample}"
    made = manifest.make(
        "dataset", slug, manifest.Destination(work, out, command(options)), options, [], build
    )
    if raw and source.per_file:
        originals.keep(made.parent, raw, listing.rows)
    return made


def _listing(
    name: str, card: dict[str, Any], source: Source, request: Request, choices: Choices
) -> Listing:
    """The raw folder's images with their parts; at least one."""
    whole = (
        replace(choices, sample_images=None) if request.split_file else choices
    )  # a split file comes first
    if (
        request.attributes
    ):  # a table to which --encoding applies, even where the images have none of their own
        whole = replace(whole, own={**whole.own, "attributes": "yes"})
    listing = checked(name, source.rows(request.raw, whole))
    if request.split_file and listing.rows:
        kept, left_out = given_tables.by_file(
            listing.rows, request.split_file, request.chosen.get("fold")
        )
        listing = replace(listing, rows=kept, skipped=[*listing.skipped, *left_out])
    refuse(listing.skipped, choices.strict)
    listing = replace(listing, rows=sample_rows(listing.rows, choices) if listing.rows else [])
    if not listing.rows:
        why = "{}: {}".format(*listing.skipped[0]) if listing.skipped else card["where"]
        raise FedcliError(f"{request.raw} holds no image of {name}", why)
    check_parts(name, listing.rows)
    if request.attributes:
        written = own_columns.encoding(choices.own) if choices.own.get("encoding") else "utf-8-sig"
        listing = given_tables.joined(listing, request.attributes, written)
    return listing


def check_raw(name: str, raw: Path | None, source: Source, where: str) -> None:
    """Refuse a raw folder that is missing, or not wanted."""
    if source.files and raw is None:
        raise UsageError(
            f"{name} needs the folder of its files", f"give --raw DIR; the files come from {where}"
        )
    if not source.files and raw is not None:
        raise UsageError(f"{name} reads no files, but --raw is {raw}", "leave --raw out")
    if raw is not None and not raw.is_dir():
        raise FedcliError(
            f"no such folder: {raw}",
            f"--raw names the folder of its files; fedcli datasets {name} lists them",
        )


def checked(name: str, listing: Listing) -> Listing:
    """A listing in which no two images have the same id."""
    id, count = next(iter(Counter(row.id for row in listing.rows).most_common(1)), ("", 0))
    if count > 1:
        raise FedcliError(
            f"{count} images of {name} are called {id!r}", "rename them, or list each once"
        )
    for file in [row.id for row in listing.rows] + [file for file, _ in listing.skipped]:
        if not file.isascii() and any("\ud800" <= letter <= "\udfff" for letter in file):
            raise FedcliError(f"the name of {ascii(file)} is not UTF-8", "rename the file")
    return listing


def check_labels(code: str, card: dict[str, Any], listing: Listing) -> None:
    """Refuse a label of somebody's reader that is none of the classes. Raises OwnCodeError."""
    classes = card["classes"] if listing.classes is None else listing.classes
    several = (listing.task or card["task"]) == labels.MULTI_LABEL
    for row in listing.rows:
        each = (
            tuple(row.label)
            if several and isinstance(row.label, Sequence | np.ndarray)
            else (row.label,)
        )
        limit = labels.UNKNOWN + 1 if several else len(classes)
        whole = all(isinstance(label, int | np.integer) and 0 <= label < limit for label in each)
        if not whole or len(each) != (len(classes) if several else 1):
            one = f"a whole number from 0 to {len(classes) - 1}, the index of its class"
            many = (
                f"{len(classes)} numbers, each 1 (has the label), 0 (has it not) or 2 (not known)"
            )
            what = f"{code}: the row {row.id[:80]!r} has the label {str(row.label)[:80]}"
            raise OwnCodeError(what, f"its label must be {many if several else one}")


def contents_of(raw: Path, listing: Listing) -> dict[str, str]:
    """Size and digest of every image used; "-1" of one that cannot be read."""
    root = str(raw)  # a Path per image would take longer than looking it up
    names = sorted(
        {str(row.source) for row in listing.rows} | {name for name, _ in listing.skipped}
    )
    parts = [
        names[at : at + TURN] for at in range(0, len(names), TURN)
    ]  # handing a thread one file costs as much
    with ThreadPoolExecutor(READERS) as readers:
        seen = readers.map(lambda part: [_seen(f"{root}/{name}") for name in part], parts)
        return dict(zip(names, chain.from_iterable(seen), strict=True))


def fingerprint(raw: Path, listing: Listing, contents: Mapping[str, str]) -> str:
    """sha256 over the names and contents of the images used and of the tables."""
    digest = hashlib.sha256()
    for name, seen in contents.items():
        digest.update(f"{name}\0{seen}\n".encode())
    for name in listing.tables:
        digest.update(f"{name}\0{manifest.sha256(raw / name)}\n".encode())
    return digest.hexdigest()


def refuse_changed(
    raw: Path, contents: Mapping[str, str], kept: list[Row], skipped: list[tuple[str, str]]
) -> None:
    """Raises FedcliError for a file that could be read at one time and not at the other: the fingerprint is wrong."""
    absent = (str(row.source) for row in kept if contents[str(row.source)] == ABSENT)
    came = [
        name for name in absent if not (raw / name.rpartition("#")[0]).is_file()
    ]  # FILE#IMAGE: one of many in it
    went = [
        name for name, _ in skipped if name in contents and _seen(f"{raw}/{name}") != contents[name]
    ]
    if changed := came + went:
        raise FedcliError(
            f"{raw / changed[0]} changed while it was read",
            "prepare again when nothing writes there",
        )


def _seen(path: str) -> str:
    """Size and digest of a regular file, "-1" of anything else."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            return ABSENT
        with open(path, "rb", buffering=0) as file:
            return f"{os.fstat(file.fileno()).st_size} {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except (OSError, ValueError) as error:  # ValueError: no name at all
        if may_pass(error):
            raise
        return ABSENT


def refuse(skipped: list[tuple[str, str]], strict: bool) -> None:
    """Raise for the first unusable file if the person asked for that."""
    if strict and skipped:
        file, why = skipped[0]
        raise FedcliError(
            f"{file}: {why}", "mend or remove it, or leave --strict out to skip such files"
        )


MOST_KEPT = 2**27  # bytes of images that a process has let go of


@dataclass(frozen=True)
class Reader:
    """Work of a process: decode some rows that follow one another, fit them, write them to their places."""

    source: Source
    raw: Path | None
    choices: Choices
    pool: BlankPool

    def __call__(self, placed: list[tuple[int, Row]]) -> list[str]:
        """The reason why each row cannot be read, "" where all went well."""
        keep_freed(MOST_KEPT)
        images = np.empty((len(placed), *self.pool.shape[1:]), np.uint8)
        reasons = [self._read(row, image) for (_, row), image in zip(placed, images, strict=True)]
        self.pool.put(placed[0][0], images)
        return reasons

    def _read(self, row: Row, out: np.ndarray) -> str:
        try:
            with scaled_decoding(self.choices):
                image = self.source.decode(self.raw, row, self.choices)
        except Unreadable as error:
            out[...] = 0
            return str(error)
        image = match_channels(self._checked(image, row, out.shape[2]), out.shape[2])
        out[...] = fit_image(image, self.choices.size, self.choices.fit, self.choices.clahe)
        return ""

    def _checked(self, image: Any, row: Row, channels: int) -> np.ndarray:
        """An image that decode() returned. Raises OwnCodeError where it is none that can be written."""
        known = (
            isinstance(image, np.ndarray)
            and image.dtype == np.uint8
            and image.ndim == 3
            and image.size > 0
        )
        if known and image.shape[2] in ({1, 3, channels} if channels in (1, 3) else {channels}):
            return image
        array = isinstance(image, np.ndarray)
        what = f"{image.dtype} {list(image.shape)}" if array else f"a {type(image).__name__}"
        decode = getattr(self.source.decode, "__code__", None)
        file, name = (
            (Path(decode.co_filename).name, decode.co_name) if decode else ("the reader", "decode")
        )
        wanted = "1 or 3" if channels in (1, 3) else str(channels)
        raise OwnCodeError(
            f"{file}: {name} returned {what} for the image {row.id[:80]!r}",
            f"return uint8 [H, W, {wanted}], from 0 to 255, with at least one pixel",
        )


def fill(
    path: Path, source: Source, raw: Path | None, choices: Choices, listing: Listing, channels: int
) -> tuple[list[Row], list[tuple[str, str]]]:
    """Write a listing's images and columns as a pool; returns the rows kept and the files skipped."""
    size = choices.size
    if choices.fit != "stretch" or choices.clahe:
        pipeline(
            size, choices.fit, choices.clahe, True
        )  # the slow import, once for all workers to inherit
    pool = shard.BlankPool.make(path, (len(listing.rows), size, size, channels))
    reader, work = Reader(source, raw, choices, pool), list(enumerate(listing.rows))
    run = max(1, min(RUN, RUN_BYTES // (size * size * channels)))
    reasons: Iterator[str] = in_order(reader, work, label="preparing", jobs=choices.jobs, run=run)
    places, skipped = [], list(listing.skipped)
    for (place, row), why in zip(work, reasons, strict=True):
        if why:
            skipped.append((str(row.source), why))
            refuse(skipped[-1:], choices.strict)
            continue
        places.append(place)
    if not places:
        raise FedcliError(
            f"none of the {len(work)} images can be read",
            "the last one, {}: {}".format(*skipped[-1]),
        )
    kept = [listing.rows[place] for place in places]
    pool.finish(kept, places, listing.attributes)
    return kept, skipped


def check_parts(name: str, rows: list[Row]) -> None:
    """Say that there is no test image. Raises FedcliError where there is none to train on."""
    if all(row.test for row in rows):
        raise FedcliError(
            f"all {len(rows)} images of {name} are test images", FILLED.replace("fill", "change")
        )
    if not any(row.test for row in rows):
        console.say(f"the test part is empty: {FILLED}")


def _held(rows: list[Row], classes: int) -> np.ndarray:
    """bool [C]: whether any of the images is of the class, or has the label."""
    return labels.counts(np.array([row.label for row in rows], np.int64), classes) > 0


def warn_of_patients(card: dict[str, Any], listing: Listing, kept: list[Row]) -> None:
    """Warn where nobody can tell whose the images are, or where two ids may be one patient's."""
    if pairs := overlap.alike(row.patient for row in kept):
        console.warn(overlap.alike_sentence(pairs, len(pairs)))
    if not listing.patient and card.get("people", True):
        how = "; name their column by --patient" if "patient" in card.get("options", {}) else ""
        console.warn(
            f"no patients are known, so images of one patient may be in both train and test{how}"
        )


def describe(
    name: str,
    card: dict[str, Any],
    choices: Choices,
    listing: Listing,
    kept: list[Row],
    skipped: list[tuple[str, str]],
) -> dict[str, Any]:
    """The manifest's body, with a word to the person about what was left out."""
    if skipped:
        total, (file, why) = len(kept) + len(skipped), skipped[0]
        console.say(
            f"skipped {len(skipped)} of {total} files, listed in dataset.json; the first is {file}: {why}"
        )
    test = sum(row.test for row in kept)
    if skipped:
        check_parts(name, kept)
    classes = card["classes"] if listing.classes is None else listing.classes
    trained, every = (
        _held([row for row in kept if not row.test], len(classes)),
        _held(kept, len(classes)),
    )
    if missing := [name for name, label in zip(classes, every & ~trained, strict=True) if label]:
        why = "" if choices.split in AS_LISTED else ": too few images to divide"
        console.say(f"no training image of {', '.join(missing)}{why}")
    return {
        "name": name,
        **{key: card[key] for key in ("title", "task", "augment", "clients")},
        **({"task": listing.task} if listing.task else {}),
        **(
            {"people": False}
            if name not in sources.SOURCES and not card.get("people", True)
            else {}
        ),
        "classes": classes,
        "channels": card["channels"] if listing.channels is None else listing.channels,
        "attributes": listing.attributes,
        "sites": next(
            (name for name in (listing.sites, card["sites"]) if name in listing.attributes), None
        ),
        "size": [choices.size, choices.size],
        "count": len(kept),
        "split": {"train": len(kept) - test, "test": test, "by": choices.split},
        "unit": listing.patient,
        **shared_patients.of_rows(listing.patient, kept),
        "unknown": {
            attribute: sum(row.groups[attribute] < 0 for row in kept)
            for attribute in listing.attributes
        },
        "skipped": [{"file": file, "why": why} for file, why in skipped],
    }
