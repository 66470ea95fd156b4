"""The prepare stage: a raw folder -> pool.h5 and dataset.json, each image decoded and resized once.

Worker processes write each image to its own place in the pool, so none ever holds more than a few.
A file that turns out unreadable is left out and listed; the others stay in train or test as they
were.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ... import console, labels
from ...errors import FedcliError, UsageError
from ...io.files import may_pass
from ...options import path_of
from ...provenance import OwnCodeError
from ...system.memory import keep_freed
from ...system.processes import in_order
from .. import left_out, manifest, originals, overlap, shared_patients, sources
from .. import pool as shard
from ..pool import BlankPool, Row
from ..prepare_options import PrepareOptions
from ..sources.division import AS_LISTED, sample_rows
from ..sources.formats.photographs import (
    fit_image,
    match_channels,
    pipeline,
    shrunk_decoding,
    within,
)
from ..sources.own_files import column_notes, own_columns
from ..sources.source import Listing, Source, Unreadable
from . import given_tables
from .request import Card, command, completed, recorded

MANY = 1000  # images of a raw folder, which are announced before they are prepared
ABSENT = "-1"  # stands for the contents of a file that cannot be read
FILLED = "another --split, --test or --split-file may fill it"
READERS = 8  # threads that read raw files
TURN = 16  # files of a thread at a time
RUN = 32  # images that a worker holds before it writes them
RUN_BYTES = 2**22  # bytes of these
MOST_KEPT = 2**27  # bytes of images that a process has let go of
Skipped = list[tuple[str, str]]  # file and reason


def prepare(options: PrepareOptions) -> Path:
    """Make a dataset's pool and return its manifest's path.

    options: with the raw folder, where the dataset reads files; its name is one of sources.SOURCES,
        or of a dataset from outside: registered, PATH.py or PATH.py:NAME.
    Raises FedcliError, UsageError.
    """
    dataset = sources.find(options.name)
    name = sources.plain(options.name)
    source = dataset.source
    card = dataset.card
    raw = path_of(options.raw)
    choices = completed(name, card, options)
    check_raw(name, raw, source, card["where"])
    is_sample = sources.is_sample(raw)
    listing = _listing(name, card, source, options, choices)
    if not is_sample:  # whose people are made up
        column_notes.note_people(listing.rows, listing.attributes)
    if options.split_file:
        choices = choices.completed(choices.own, split="file")
    identity = recorded(name, card, choices) | _checked_code(dataset, listing, raw)
    contents = contents_of(raw, listing) if raw else {}
    identity["raw_fingerprint"] = fingerprint(raw, listing, contents) if raw else None
    identity.update(_recorded_files(options))

    def build(folder: Path) -> manifest.Body:
        if raw and len(listing.rows) >= MANY:
            images = f"{len(listing.rows):,} images of {name}"
            console.say(f"preparing {images} at {choices.size} pixels")
        channels = _channels(card, listing)
        rows, skipped = fill(
            folder / "pool.h5",
            source,
            raw,
            choices,
            listing,
            channels,
        )
        if raw:
            refuse_changed(raw, contents, rows, skipped)
        body = describe(name, card, choices, listing, rows, skipped)
        if is_sample:
            body["sample"] = True
        else:
            warn_of_patients(card, listing, rows)
        return body

    slug = f"{name}-{choices.size}"
    if is_sample:
        slug += "-SYNTHETIC"
    to = manifest.Destination(
        Path(options.work),
        path_of(options.out),
        command(identity),
    )
    path = manifest.make("dataset", slug, to, identity, [], build)
    if raw and source.per_file:
        originals.keep(path.parent, raw, listing.rows)
    return path


def _recorded_files(options: PrepareOptions) -> manifest.Options:
    """The facts that the manifest records of the tables that options name."""
    recorded_files: manifest.Options = {}
    if options.split_file:
        split_files = given_tables.files(Path(options.split_file))
        files = [manifest.named(file) for file in split_files]
        recorded_files["split_file"] = files[0]
        recorded_files["fold"] = options.fold
        if len(files) > 1:
            recorded_files["split_file_beside"] = files[1]
    if options.attributes:
        recorded_files["attributes_file"] = manifest.named(Path(options.attributes))
    return recorded_files


def _channels(card: Card, listing: Listing) -> int:
    return card["channels"] if listing.channels is None else listing.channels


def _classes(card: Card, listing: Listing) -> list[str]:
    return card["classes"] if listing.classes is None else listing.classes


def _listing(
    name: str,
    card: Card,
    source: Source,
    options: PrepareOptions,
    choices: PrepareOptions,
) -> Listing:
    """The raw folder's images with their parts; at least one.

    choices: the options, completed by the card.
    """
    raw = path_of(options.raw)
    whole = choices
    if options.split_file:  # which comes before a sample of the images
        whole = whole.completed(whole.own, sample_images=None)
    if options.attributes:
        # a table to which the encoding applies, even where the images have none of their own
        whole = whole.completed({**whole.own, "attributes": "yes"})
    listing = checked(name, source.rows(raw, whole))
    rows = listing.rows
    skipped = listing.skipped
    if options.split_file and rows:
        split_file = Path(options.split_file)
        rows, without_part = given_tables.by_file(
            rows,
            split_file,
            options.fold,
        )
        skipped = [*skipped, *without_part]
    refuse(skipped, choices.strict)
    if rows:
        rows = sample_rows(rows, choices)
    if not rows:
        hint = card["where"]
        if skipped:
            file, reason = skipped[0]
            hint = f"{file}: {reason}"
        raise FedcliError(f"{raw} holds no image of {name}", hint)
    check_parts(name, rows)
    listing = replace(listing, rows=rows, skipped=skipped)
    if options.attributes:
        encoding = "utf-8-sig"
        if choices.own.get("encoding"):
            encoding = own_columns.encoding(choices.own)
        listing = given_tables.joined(
            listing,
            Path(options.attributes),
            encoding,
        )
    return listing


def check_raw(name: str, raw: Path | None, source: Source, where: str) -> None:
    """Refuse a raw folder that is missing, or not wanted."""
    if source.files and raw is None:
        hint = f"give --raw DIR; the files come from {where}"
        raise UsageError(f"{name} needs the folder of its files", hint)
    if not source.files and raw is not None:
        raise UsageError(f"{name} reads no files, but --raw is {raw}", "leave --raw out")
    if raw is not None and not raw.is_dir():
        hint = f"--raw names the folder of its files; fedcli datasets {name} lists them"
        raise FedcliError(f"no such folder: {raw}", hint)


def checked(name: str, listing: Listing) -> Listing:
    """A listing in which no two images have the same id."""
    ids = [row.id for row in listing.rows]
    for id, count in Counter(ids).most_common(1):
        if count > 1:
            sentence = f"{count} images of {name} are called {id!r}"
            raise FedcliError(sentence, "rename them, or list each once")
    for file in ids + [file for file, _ in listing.skipped]:
        if not file.isascii() and any("\ud800" <= letter <= "\udfff" for letter in file):
            raise FedcliError(f"the name of {file!a} is not UTF-8", "rename the file")
    return listing


def _checked_code(
    dataset: sources.NamedDataset,
    listing: Listing,
    raw: Path | None,
) -> dict[str, Any]:
    """The manifest's record of code from outside, whose listing is checked; {} of fedcli's own."""
    if not dataset.code:
        return {}
    _check_own_listing(str(dataset.code), dataset.card, listing, raw)
    return {"code": dataset.code.recorded}


def _check_own_listing(
    code: str,
    card: Card,
    listing: Listing,
    raw: Path | None,
) -> None:
    """Refuse a label or a file of somebody's reader that cannot be. Raises FedcliError,
    OwnCodeError."""
    check_labels(code, card, listing)
    if raw:
        for row in listing.rows:
            within(raw, str(row.source), code)


def check_labels(code: str, card: Card, listing: Listing) -> None:
    """Refuse a label of somebody's reader that is none of the classes. Raises OwnCodeError."""
    count = len(_classes(card, listing))
    several = (listing.task or card["task"]) == labels.MULTI_LABEL
    if several:
        numbers = f"{count} numbers, each 1 (has the label), 0 (has it not) or 2 (not known)"
        must_be = f"its label must be {numbers}"
    else:
        number = f"a whole number from 0 to {count - 1}, the index of its class"
        must_be = f"its label must be {number}"
    for row in listing.rows:
        if several:
            is_sound = _are_labels(row.label, count)
        else:
            is_sound = _is_whole(row.label, count)
        if not is_sound:
            label = str(row.label)[:80]
            raise OwnCodeError(f"{code}: the row {row.id[:80]!r} has the label {label}", must_be)


def _are_labels(label: Any, count: int) -> bool:
    """Tell whether a label of several per image has a 0, 1 or 2 for each class."""
    values = (label,)
    if isinstance(label, Sequence | np.ndarray):
        values = tuple(label)
    limit = labels.UNKNOWN + 1
    return len(values) == count and all(_is_whole(value, limit) for value in values)


def _is_whole(value: Any, limit: int) -> bool:
    return isinstance(value, int | np.integer) and bool(0 <= value < limit)


def contents_of(raw: Path, listing: Listing) -> dict[str, str]:
    """Size and digest of every image used; "-1" of one that cannot be read."""
    used = {str(row.source) for row in listing.rows}
    used.update(name for name, _ in listing.skipped)
    names = sorted(used)
    # handing a thread one file costs as much as reading it
    turns = [names[start : start + TURN] for start in range(0, len(names), TURN)]
    with ThreadPoolExecutor(READERS) as readers:
        contents = readers.map(partial(_seen_of, raw), turns)
        return dict(zip(names, chain.from_iterable(contents), strict=True))


def _seen_of(raw: Path, names: list[str]) -> list[str]:
    root = str(raw)  # a Path per image would take longer than looking it up
    return [_seen(f"{root}/{name}") for name in names]


def fingerprint(
    raw: Path,
    listing: Listing,
    contents: Mapping[str, str],
) -> str:
    """sha256 over the names and contents of the images used and of the tables."""
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{content}\n".encode())
    for name in listing.tables:
        digest.update(f"{name}\0{manifest.sha256(raw / name)}\n".encode())
    return digest.hexdigest()


def refuse_changed(
    raw: Path, contents: Mapping[str, str], rows: list[Row], skipped: Skipped
) -> None:
    """Raises FedcliError for a file that could be read at one time and not at the other: the
    fingerprint is wrong."""
    changed = []
    for row in rows:
        name = str(row.source)
        file, _, _ = name.rpartition("#")  # FILE#IMAGE: one of many in it
        if contents[name] == ABSENT and not (raw / file).is_file():
            changed.append(name)
    for name, _ in skipped:
        if name in contents and _seen(f"{raw}/{name}") != contents[name]:
            changed.append(name)
    if changed:
        sentence = f"{raw / changed[0]} changed while it was read"
        raise FedcliError(sentence, "prepare again when nothing writes there")


def _seen(path: str) -> str:
    """Size and digest of a regular file, "-1" of anything else."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            return ABSENT
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            digest = hashlib.file_digest(file, "sha256")
    except (OSError, ValueError) as error:  # ValueError: no name at all
        if may_pass(error):
            raise
        return ABSENT
    return f"{size} {digest.hexdigest()}"


def refuse(skipped: Skipped, strict: bool) -> None:
    """Raise for the first unusable file if the person asked for that."""
    if strict and skipped:
        file, reason = skipped[0]
        hint = "mend or remove it, or leave --strict out to skip such files"
        raise FedcliError(f"{file}: {reason}", hint)


@dataclass(frozen=True)
class Reader:
    """Work of a process: decode some rows that follow one another, fit them, write them to their
    places."""

    source: Source
    raw: Path | None
    choices: PrepareOptions
    pool: BlankPool

    def __call__(self, places_and_rows: list[tuple[int, Row]]) -> list[str]:
        """The reason why each row cannot be read, "" where all went well."""
        keep_freed(MOST_KEPT)
        images = np.empty((len(places_and_rows), *self.pool.shape[1:]), np.uint8)
        reasons = []
        for (_, row), image in zip(places_and_rows, images, strict=True):
            reasons.append(self._read(row, image))
        start, _ = places_and_rows[0]
        self.pool.put(start, images)
        return reasons

    def _read(self, row: Row, out: np.ndarray) -> str:
        choices = self.choices
        try:
            with shrunk_decoding(choices):
                image = self.source.decode(self.raw, row, choices)
        except Unreadable as error:
            out[...] = 0
            return str(error)
        channels = out.shape[2]
        self._check(image, row, channels)
        image = match_channels(image, channels)
        out[...] = fit_image(image, choices.size, choices.fit, choices.clahe)
        return ""

    def _check(self, image: Any, row: Row, channels: int) -> None:
        """Check an image that decode() returned. Raises OwnCodeError where it is none that can be
        written."""
        allowed = {1, 3} if channels in (1, 3) else {channels}
        if isinstance(image, np.ndarray):
            is_image = image.dtype == np.uint8 and image.ndim == 3 and image.size > 0
            if is_image and image.shape[2] in allowed:
                return
            returned = f"{image.dtype} {list(image.shape)}"
        else:
            returned = f"a {type(image).__name__}"
        reader = "the reader: decode"
        code = getattr(self.source.decode, "__code__", None)
        if code:
            reader = f"{Path(code.co_filename).name}: {code.co_name}"
        numbers = " or ".join(map(str, sorted(allowed)))
        hint = f"return uint8 [H, W, {numbers}], from 0 to 255, with at least one pixel"
        raise OwnCodeError(f"{reader} returned {returned} for the image {row.id[:80]!r}", hint)


def fill(
    path: Path,
    source: Source,
    raw: Path | None,
    choices: PrepareOptions,
    listing: Listing,
    channels: int,
) -> tuple[list[Row], Skipped]:
    """Write a listing's images and columns as a pool; returns the rows kept and the files
    skipped."""
    size = choices.size
    if choices.fit != "stretch" or choices.clahe:
        # the slow import, once for all workers to inherit
        pipeline(size, choices.fit, choices.clahe, True)
    pool = shard.BlankPool.make(path, (len(listing.rows), size, size, channels))
    reader = Reader(source, raw, choices, pool)
    work = list(enumerate(listing.rows))
    run = max(1, min(RUN, RUN_BYTES // (size * size * channels)))
    reasons: Iterator[str] = in_order(
        reader,
        work,
        label="preparing",
        jobs=choices.jobs,
        run=run,
    )
    positions = []
    rows = []
    skipped = list(listing.skipped)
    for (position, row), reason in zip(work, reasons, strict=True):
        if reason:
            skipped.append((str(row.source), reason))
            refuse(skipped[-1:], choices.strict)
        else:
            positions.append(position)
            rows.append(row)
    if not rows:
        file, reason = skipped[-1]
        sentence = f"none of the {len(work)} images can be read"
        raise FedcliError(sentence, f"the last one, {file}: {reason}")
    _check_classes(listing.rows, rows, skipped)
    pool.finish(rows, positions, listing.attributes)
    return rows, skipped


def _check_classes(
    listed: list[Row],
    read: list[Row],
    skipped: Skipped,
) -> None:
    """Raises FedcliError where of several listed classes or sets of labels one is left."""
    if len({row.label for row in read}) == 1 and len({row.label for row in listed}) > 1:
        file, reason = skipped[-1]
        sentence = f"all {len(read)} images that can be read are of one class"
        raise FedcliError(sentence, f"the last one that cannot, {file}: {reason}")


def check_parts(name: str, rows: list[Row]) -> None:
    """Say that there is no test image. Raises FedcliError where there is none to train on."""
    if all(row.test for row in rows):
        sentence = f"all {len(rows)} images of {name} are test images"
        raise FedcliError(sentence, FILLED.replace("fill", "change"))
    if not any(row.test for row in rows):
        console.say(f"the test part is empty: {FILLED}")


def _occurring(rows: list[Row], classes: int) -> np.ndarray:
    """bool [C]: marks of the classes that some image is of, or of the labels that it has."""
    numbers = np.array([row.label for row in rows], np.int64)
    return labels.counts(numbers, classes) > 0


def warn_of_patients(card: Card, listing: Listing, rows: list[Row]) -> None:
    """Warn where nobody can tell whose the images are, or where two ids may be one patient's."""
    pairs = overlap.alike(row.patient for row in rows)
    if pairs:
        console.warn(overlap.alike_sentence(pairs, len(pairs)))
    if not listing.patient and card.get("people", True):
        warning = "no patients are known, so images of one patient may be in both train and test"
        if "patient" in card.get("options", {}):
            warning += "; name their column by --patient"
        console.warn(warning)


def describe(
    name: str,
    card: Card,
    choices: PrepareOptions,
    listing: Listing,
    rows: list[Row],
    skipped: Skipped,
) -> manifest.Body:
    """The manifest's body, with a word to the person about what was left out."""
    for line in left_out.lines(skipped):
        console.say(line)
    if skipped:
        check_parts(name, rows)
    classes = _classes(card, listing)
    _say_untrained(classes, choices, rows)
    test = sum(row.test for row in rows)
    body: manifest.Body = {
        "name": name,
        "title": card["title"],
        "task": listing.task or card["task"],
        "augment": card["augment"],
        "clients": card["clients"],
        "classes": classes,
        "channels": _channels(card, listing),
        "attributes": listing.attributes,
        "sites": None,
        "size": [choices.size, choices.size],
        "count": len(rows),
        "split": {"train": len(rows) - test, "test": test, "by": choices.split},
        "unit": listing.patient,
        "skipped": [{"file": file, "why": reason} for file, reason in skipped],
        **shared_patients.of_rows(listing.patient, rows),
    }
    sites = listing.sites if listing.sites in listing.attributes else card["sites"]
    if sites in listing.attributes:
        body["sites"] = sites
    if name not in sources.SOURCES and not card.get("people", True):
        body["people"] = False
    body["unknown"] = {}
    for attribute in listing.attributes:
        body["unknown"][attribute] = sum(row.groups[attribute] < 0 for row in rows)
    return body


def _say_untrained(
    classes: list[str],
    choices: PrepareOptions,
    rows: list[Row],
) -> None:
    """Say which classes of the images have no training image."""
    trained = _occurring([row for row in rows if not row.test], len(classes))
    untrained = _occurring(rows, len(classes)) & ~trained
    names = [name for name, lacks in zip(classes, untrained, strict=True) if lacks]
    if names:
        reason = "" if choices.split in AS_LISTED else ": too few images to divide"
        console.say(f"no training image of {', '.join(names)}{reason}")
