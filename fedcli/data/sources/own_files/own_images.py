"""Your own images: a folder with a CSV that names each file and its class, or a folder per class.

Everything a table can get wrong is refused or listed, never guessed: a file that is listed and
absent is skipped with the reason, one that is listed with two labels is an error, and no name in
the table may lead out of the folder.
"""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from numpy import ndarray

from .... import console
from ....errors import FedcliError, UsageError
from ...pool import Row
from ...prepare_options import PrepareOptions
from ..division import divided
from ..drawing import picture, save, table
from ..formats import dicom, dicom_header, nifti, packed, photographs
from ..formats.photographs import leads_out, read_grey_or_rgb
from ..source import Listing, Source, Unreadable
from ..tables import lacking
from . import class_folders, own_columns
from .own_table import INDEX, NAMING, described, from_table, table_name, without_label

PICTURES = ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp"
SUFFIXES = *PICTURES, ".dcm", *nifti.SUFFIXES
CHANNELS = "auto", "1", "3"
OUTSIDE = "is a link that leads out of the folder"


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image of the table that is there, or of the class folders where there is no table."""
    channels = choices.own["channels"]
    if channels not in CHANNELS:
        raise UsageError(f"channels is {channels!r}", f"known: {', '.join(CHANNELS)}")
    white(choices)
    files, others, outside = image_files(raw)
    listing = _listing(raw, files, others, choices)
    listing = own_columns.agreed(_split(raw, listing, choices), choices.own)
    listing = replace(listing, skipped=[*listing.skipped, *outside])
    if listing.rows and len(listing.classes or []) < 2:
        raise _of_one_class(raw, listing, others)
    return replace(listing, channels=_channels(raw, listing.rows, bool(files), choices))


def _listing(
    raw: Path,
    files: list[str],
    others: list[str],
    choices: PrepareOptions,
) -> Listing:
    """The images of packed files where there are no others, of a table, or of class folders."""
    if files:
        table = table_name(raw, choices.own["table"], files)
        if table:
            return from_table(raw, table, files, others, choices)
        return class_folders.listed(raw, files, others, choices)
    packed_files = [file for file in others if packed.is_packed(file)]
    if packed_files:
        return _from_packed(raw, packed_files, choices)
    hint = f"files that are read: {', '.join(SUFFIXES)}, and DICOM without suffix"
    raise FedcliError(f"{raw} holds no image", hint + _ignored(others))


def _of_one_class(
    raw: Path,
    listing: Listing,
    others: list[str],
) -> FedcliError:
    """An error with a hint on where the other classes may be."""
    hint = "a classifier needs two classes; is --label-column the right one?"
    if not listing.tables:
        hint = class_folders.deeper(raw, listing.rows)
        hint += "it needs a folder for each of at least two classes" + _ignored(others)
    if listing.skipped:
        file, why = listing.skipped[0]
        count = f"{len(listing.skipped)} of its images are left out"
        hint += f"; {count}, the first is {file}: {why}"
    label = (listing.classes or [])[0]
    return FedcliError(f"every image in {raw} is of the class {label!r}", hint)


def _channels(
    raw: Path,
    images: list[Row],
    has_files: bool,
    choices: PrepareOptions,
) -> int:
    """Channels of the images: slices of volumes, or 1 or 3 by option, windows and colours.

    has_files: whether images are files of their own.
    """
    volumes = [row.source for row in images if nifti.is_nifti(row.source)]
    if volumes:
        return _slices(raw, choices, volumes, images)
    has_windows = has_files and len(dicom.windows_of(choices)) == 3
    has_colours = has_windows or _any_coloured(raw, images)
    channels = choices.own["channels"]
    if channels != "auto":
        return int(channels)
    return 3 if has_colours else 1


def _split(raw: Path, listing: Listing, choices: PrepareOptions) -> Listing:
    """The listing with its test part.

    Where no table names patients, those that DICOM files name stay together. Raises FedcliError
    where all files are one patient's.
    """
    files = [row.source for row in listing.rows if is_dicom(row.source)]
    if files and not listing.patient:
        digests = dict(zip(files, dicom_header.patients(raw, files), strict=True))
        rows = [replace(row, patient=digests.get(row.source, "")) for row in listing.rows]
        patients = {row.patient for row in rows}
        if len(rows) > 1 and len(patients) == 1 and "" not in patients:
            _warn_of_one_patient(raw, len(rows), choices)
        patient = "PatientID" if any(patients) else None
        listing = replace(listing, rows=rows, patient=patient)
    return divided(listing, choices, "patient" if listing.patient else "")


def _warn_of_one_patient(
    raw: Path,
    count: int,
    choices: PrepareOptions,
) -> None:
    """A warning for one patient. Raises FedcliError where the split keeps patients together."""
    show = f"all {count} images in {raw} show one patient"
    sentence = f"{show}, as the PatientID of their DICOM files says"
    if choices.split not in ("image", "folder"):
        hint = (
            "name a column of patients by --patient where that is wrong; "
            "--split image divides one patient"
        )
        raise FedcliError(f"{sentence}, so none can be kept for testing", hint)
    console.warn(f"{sentence}: scores will say nothing about other patients")


def decode(raw: Path, row: Row, choices: PrepareOptions) -> ndarray:
    if packed.is_packed(row.source):
        return read_grey_or_rgb(packed.picture(raw, row.source), white(choices))
    path = raw / row.source
    if nifti.is_nifti(row.source):
        return nifti.read_slices(path, choices, dicom.windows_of(choices)[0])
    if is_dicom(row.source):
        return dicom.read_picture(path, dicom.windows_of(choices))
    return read_grey_or_rgb(path, white(choices))


def _from_packed(
    raw: Path,
    files: list[str],
    choices: PrepareOptions,
) -> Listing:
    options = choices.own
    if choices.split == "folder":
        sentence = "--split folder is for a folder per class, not for packed files"
        raise UsageError(sentence, "use --split-file")
    path = raw / files[0]
    table = packed.read_columns(raw, files)
    labels = own_columns.columns(options)
    columns = [*labels, *own_columns.of_people(options)]
    missing = [name for name in columns if name not in table]
    if missing:
        names = ", ".join(name for name in table if name != packed.AT)[:200]
        raise FedcliError(f"{path} has {lacking(missing)}, only {names}", NAMING)
    table = own_columns.renamed(table, options)
    unlabelled = without_label(table, labels)
    unlabelled_images = table[packed.AT][unlabelled]
    skipped = [(image, f"has no {labels[0]}") for image in unlabelled_images]
    listing = described(table[~unlabelled], path, choices)
    return replace(listing, tables=files, skipped=skipped)


def _slices(
    raw: Path,
    choices: PrepareOptions,
    volumes: list[str],
    images: list[Row],
) -> int:
    """The number of slices of each volume that become channels.

    Raises FedcliError, UsageError if they cannot all.
    """
    nifti.library()
    for row in images:
        if not nifti.is_nifti(row.source):
            sentence = f"{raw} holds volumes and pictures: {volumes[0]}, {row.source}"
            raise FedcliError(sentence, "give each a folder of its own")
    if choices.own["channels"] != "auto":
        raise UsageError("--set channels is for pictures, not for volumes", "give --set slices=K")
    if len(dicom.windows_of(choices)) == 3:
        raise UsageError("three windows are for pictures, not for volumes", "give one")
    return nifti.slices(choices)


def white(choices: PrepareOptions) -> float | None:
    """The stored value that is white in a grey image of more than eight bits, None for auto.

    Raises UsageError.
    """
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
    """Every image below raw, every other file, and links out of raw with why these are left out.

    All are relative to raw and sorted; links to folders are not followed.
    """
    images = list[str]()
    others = list[str]()
    links = list[str]()
    outside = list[tuple[str, str]]()
    for folder, subfolders, names in os.walk(raw):
        subfolders[:] = [name for name in subfolders if not name.startswith((".", "__MACOSX"))]
        relative = Path(folder).relative_to(raw)
        for name in subfolders:
            if Path(folder, name).is_symlink():
                links.append((relative / name).as_posix())
        for name in names:
            if name.startswith("."):
                continue
            file = (relative / name).as_posix()
            has_suffix = name.lower().endswith(SUFFIXES)
            if has_suffix and Path(folder, name).is_symlink() and leads_out(raw, file):
                outside.append((file, OUTSIDE))
            elif has_suffix or _is_bare_dicom(raw, file):
                images.append(file)
            else:
                others.append(file)
    if links:
        example = f"{min(links)}{_and_more(links)}"
        hint = "copy the files or name it --raw"
        console.say(f"links to folders are not followed: {example}; {hint}")
    return sorted(images), sorted(others), sorted(outside)


def _and_more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _is_bare_dicom(raw: Path, file: str) -> bool:
    """Tell whether a file without suffix begins as DICOM does.

    A number such as that of 1.2.840.1 is no suffix.
    """
    path = raw / file
    if path.suffix and not path.suffix[1:].isdigit():
        return False
    if path.name.upper() == INDEX or leads_out(raw, file):
        return False
    with suppress(OSError, Unreadable):  # of what is no regular file
        return photographs.is_dicom(path)
    return False


def is_dicom(file: str) -> bool:
    """Tell whether an image is DICOM; all others tell by their suffix what they are."""
    return not file.lower().endswith((*PICTURES, *nifti.SUFFIXES))


def _ignored(others: list[str]) -> str:
    """The end of a hint: files that are there and not read."""
    names = [file for file in others if not file.lower().endswith(".csv")]
    return f"; not read: {names[0]}{_and_more(names)}" if names else ""


def _any_coloured(raw: Path, rows: list[Row]) -> bool:
    """Tell whether any file is coloured, by its header; the search ends at one that is."""
    for row in rows:
        with suppress(Unreadable):  # decode meets it again, and says so
            if _is_coloured(raw, row.source):
                return True
    return False


def _is_coloured(raw: Path, source: str) -> bool:
    if packed.is_packed(source):
        return photographs.header(packed.picture(raw, source))[0]
    if is_dicom(source):
        return dicom.header(raw / source)[1]
    return photographs.header(raw / source)[0]


# the synthetic sample

CLASSES = "benign", "malignant", "uncertain"
EACH = 20  # images of a class
ENDINGS = "png", "jpg", "tif", "bmp"


def sample(folder: Path) -> None:
    """A CSV with hospitals, patients and groups beside twenty images of each class.

    One of each twenty is grey.
    """
    lines = []
    for i in range(EACH * len(CLASSES)):
        label, k = divmod(i, EACH)
        hospital = "north" if i % 2 else "south"
        ending = ENDINGS[i % 4]
        name = f"{hospital}/image-{i:03d}.{ending}"
        image = picture(name, label)
        if k == 3:
            image = image[..., :1]
        save(folder / name, image)
        sex = ("female", "male", "")[i % 3]
        age = "" if k == 5 else str(20 + 7 * i % 70)
        patient = f"p{i // 2:02d}"
        lines.append([name, CLASSES[label], sex, age, hospital, patient])
    head = ["image", "label", "sex", "age", "hospital", "patient"]
    table(
        folder / "labels.csv",
        head,
        lines,
    )


SOURCE = Source(rows, decode, sample, per_file=True)
