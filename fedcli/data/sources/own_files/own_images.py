"""Your own images: a folder with a CSV that names each file and its class, or with a folder per class and no CSV.

Everything a table can get wrong is refused or listed, never guessed: a file that is listed and absent is skipped with
the reason, one that is listed with two labels is an error, and no name in the table may lead out of the folder.
"""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from .... import console
from ....errors import FedcliError, UsageError
from ...pool import Row
from ..division import divided
from ..drawing import picture, save, table
from ..formats import dicom, dicom_header, nifti, packed, photographs
from ..formats.photographs import leads_out, read_grey_or_rgb
from ..source import Choices, Listing, Source, Unreadable
from ..tables import lacking
from . import class_folders, own_columns
from .own_table import INDEX, NAMING, NO_LABEL, described, from_table, table_name

PICTURES = ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp"
SUFFIXES = *PICTURES, ".dcm", *nifti.SUFFIXES
CHANNELS = "auto", "1", "3"


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of the table that is there, or of the class folders where there is no table."""
    if choices.own["channels"] not in CHANNELS:
        raise UsageError(
            f"channels is {choices.own['channels']!r}", f"known: {', '.join(CHANNELS)}"
        )
    white(choices)
    files, others, outside = image_files(raw)
    together = [] if files else [file for file in others if packed.is_packed(file)]
    if not files and not together:
        hint = f"files that are read: {', '.join(SUFFIXES)}, and DICOM without suffix"
        raise FedcliError(f"{raw} holds no image", hint + _ignored(others))
    table = "" if together else table_name(raw, choices.own["table"], files)
    if together:
        listing = _from_packed(raw, together, choices)
    elif table:
        listing = from_table(raw, table, files, others, choices)
    else:
        listing = class_folders.listed(raw, files, others, choices)
    listing = own_columns.agreed(_split(raw, listing, choices), choices.own)
    listing = replace(listing, skipped=[*listing.skipped, *outside])
    classes = listing.classes or []
    if listing.rows and len(classes) < 2:
        hint = "a classifier needs two classes; is --label-column the right one?"
        if not (table or together):
            hint = class_folders.deeper(raw, listing.rows)
            hint += "it needs a folder for each of at least two classes" + _ignored(others)
        if listing.skipped:
            file, why = listing.skipped[0]
            hint += (
                f"; {len(listing.skipped)} of its images are left out, the first is {file}: {why}"
            )
        raise FedcliError(f"every image in {raw} is of the class {classes[0]!r}", hint)
    if volumes := [row.source for row in listing.rows if nifti.is_nifti(row.source)]:
        return replace(listing, channels=_slices(raw, choices, volumes, listing.rows))
    channels = choices.own["channels"]
    coloured = (files and len(dicom.windows_of(choices)) == 3) or _any_coloured(raw, listing.rows)
    return replace(listing, channels=int(channels) if channels != "auto" else 3 if coloured else 1)


def _split(raw: Path, listing: Listing, choices: Choices) -> Listing:
    """The listing with its test part; where no table names patients, those that DICOM files name stay together.

    Raises FedcliError where all files are one patient's.
    """
    if not listing.patient and (
        files := [row.source for row in listing.rows if is_dicom(row.source)]
    ):
        digests = dict(zip(files, dicom_header.patients(raw, files), strict=True))
        known = set(digests.values()) - {""}
        if len(known) == 1 and len(files) == len(listing.rows) > 1 and "" not in digests.values():
            sentence = f"all {len(files)} images in {raw} show one patient, as the PatientID of their DICOM files says"
            if choices.split not in ("image", "folder"):
                hint = "name a column of patients by --patient where that is wrong; --split image divides one patient"
                raise FedcliError(f"{sentence}, so none can be kept for testing", hint)
            console.warn(f"{sentence}: scores will say nothing about other patients")
        rows = [replace(row, patient=digests.get(row.source, "")) for row in listing.rows]
        listing = replace(listing, rows=rows, patient="PatientID" if known else None)
    return divided(listing, choices, "patient" if listing.patient else "")


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    if packed.is_packed(row.source):
        return read_grey_or_rgb(packed.picture(raw, row.source), white(choices))
    path = raw / row.source
    if nifti.is_nifti(row.source):
        return nifti.read_slices(path, choices, dicom.windows_of(choices)[0])
    if is_dicom(row.source):
        return dicom.read_picture(path, dicom.windows_of(choices))
    return read_grey_or_rgb(path, white(choices))


def _from_packed(raw: Path, files: list[str], choices: Choices) -> Listing:
    if choices.split == "folder":
        raise UsageError(
            "--split folder is for a folder per class, not for packed files", "use --split-file"
        )
    table, named = packed.read_columns(raw, files), own_columns.columns(choices.own)
    if missing := [
        name for name in [*named, *own_columns.of_people(choices.own)] if name not in table
    ]:
        known = ", ".join(name for name in table if name != packed.AT)[:200]
        raise FedcliError(f"{raw / files[0]} has {lacking(missing)}, only {known}", NAMING)
    table = own_columns.renamed(table, choices.own)
    unlabelled = table[named[0]].str.lower().isin(NO_LABEL) & (len(named) == 1)
    skipped = [(place, f"has no {named[0]}") for place in table[packed.AT][unlabelled]]
    return replace(
        described(table[~unlabelled], raw / files[0], choices), tables=files, skipped=skipped
    )


def _slices(raw: Path, choices: Choices, volumes: list[str], listed: list[Row]) -> int:
    """The number of slices of each volume that become channels. Raises FedcliError, UsageError if they cannot all."""
    nifti.library()
    if len(volumes) < len(listed):
        other = next(row.source for row in listed if not nifti.is_nifti(row.source))
        raise FedcliError(
            f"{raw} holds volumes and pictures: {volumes[0]}, {other}",
            "give each a folder of its own",
        )
    if choices.own["channels"] != "auto":
        raise UsageError("--set channels is for pictures, not for volumes", "give --set slices=K")
    if len(dicom.windows_of(choices)) == 3:
        raise UsageError("three windows are for pictures, not for volumes", "give one")
    return nifti.slices(choices)


def white(choices: Choices) -> float | None:
    """The stored value that is white in a grey image of more than eight bits, None for auto. Raises UsageError."""
    text = choices.own["white"]
    if text == "auto":
        return None
    hint = (
        "give the stored value that is white, 4095 for 12 bits, 65535 for 16, 0.003 for fractions"
    )
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"white is {text!r}", hint) from None
    if not 0 < value <= 65535:
        raise UsageError(f"white is {text!r}", hint)
    return value


def image_files(raw: Path) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Every image below raw and every other file, relative to it, sorted, and links out of raw with why these are left
    out; links to folders are not followed."""
    images, others, linked = list[str](), list[str](), list[str]()
    outside: list[tuple[str, str]] = []
    for folder, below, names in os.walk(raw):
        below[:] = [name for name in below if not name.startswith((".", "__MACOSX"))]
        at = Path(folder).relative_to(raw)
        linked += [(at / name).as_posix() for name in below if (Path(folder) / name).is_symlink()]
        for name in names:
            if name.startswith("."):
                continue
            file = (at / name).as_posix()
            known = name.lower().endswith(SUFFIXES)
            if known and (raw / file).is_symlink() and leads_out(raw, file):
                outside.append((file, "is a link that leads out of the folder"))
                continue
            (images if known or _is_bare_dicom(raw, file) else others).append(file)
    if linked:
        console.say(
            f"links to folders are not followed: {min(linked)}{_more(linked)}; copy the files or name it --raw"
        )
    return sorted(images), sorted(others), sorted(outside)


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _is_bare_dicom(raw: Path, file: str) -> bool:
    """Tell whether a file without suffix, or with a number for one as in 1.2.840.1, begins as DICOM does."""
    path = raw / file
    if (
        (path.suffix and not path.suffix[1:].isdigit())
        or path.name.upper() == INDEX
        or leads_out(raw, file)
    ):
        return False
    with suppress(OSError, Unreadable):  # of what is no regular file
        return photographs.is_dicom(path)
    return False


def is_dicom(file: str) -> bool:
    """Tell whether one of the images found is DICOM; all others tell by their suffix what they are."""
    return not file.lower().endswith((*PICTURES, *nifti.SUFFIXES))


def _ignored(others: list[str]) -> str:
    """The end of a hint: files that are there and not read."""
    others = [file for file in others if not file.lower().endswith(".csv")]
    return f"; not read: {others[0]}{_more(others)}" if others else ""


def _any_coloured(raw: Path, rows: list[Row]) -> bool:
    """Tell whether any file is coloured, by its header; the first one that is ends the search."""
    for row in rows:
        with suppress(Unreadable):  # decode meets it again, and says so
            file = (
                packed.picture(raw, row.source)
                if packed.is_packed(row.source)
                else raw / row.source
            )
            if isinstance(file, Path) and is_dicom(row.source):
                coloured = dicom.header(file)[1]
            else:
                coloured = photographs.header(file)[0]
            if coloured:
                return True
    return False


# the synthetic sample


def sample(folder: Path) -> None:
    """A CSV with hospitals, patients and groups beside twenty images of each class, of which one is grey."""
    rows, classes = [], ["benign", "malignant", "uncertain"]
    for i in range(60):
        label, k = divmod(i, 20)
        name = (
            f"{'north' if i % 2 else 'south'}/image-{i:03d}.{('png', 'jpg', 'tif', 'bmp')[i % 4]}"
        )
        save(folder / name, picture(name, label)[..., : 1 if k == 3 else 3])
        sex, age = ("female", "male", "")[i % 3], "" if k == 5 else str(20 + 7 * i % 70)
        rows.append([name, classes[label], sex, age, name.split("/")[0], f"p{i // 2:02d}"])
    table(folder / "labels.csv", ["image", "label", "sex", "age", "hospital", "patient"], rows)


SOURCE = Source(rows, decode, sample, per_file=True)
