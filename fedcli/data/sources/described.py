"""Rows of a dataset whose images tables describe.

Also a declaration of one whose table has a column for everything.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..pool import Row
from ..prepare_options import PrepareOptions
from .cards import defaults, read
from .own_files import own_images
from .source import Listing, Source
from .tables import DataFrame, place

OWN = defaults(read("images"))


@dataclass(frozen=True)
class Table:
    """A CSV beside images, as `fedcli prepare images` reads it.

    Spellings, gaps and damage are met as there.
    """

    file: str  # the table, relative to the raw folder
    image: str = "image"  # the column of files: a path, a name, or a name without suffix
    label: str = "label"  # the column of classes
    # a class as the table writes it -> its name; all that are there where it is empty
    classes: Mapping[str, str] | None = None
    groups: tuple[str, ...] = ()  # columns of attributes; ages are banded
    site: str = ""  # the column of hospitals, which is an attribute too
    patient: str = ""  # the column of patients or lesions, which a split keeps together

    def source(self, sample: Callable[[Path], None]) -> Source:
        """The dataset that has this table. sample: writes a tiny synthetic raw folder."""
        return Source(
            partial(_rows, self),
            partial(_decode, self),
            sample,
            per_file=True,
        )

    def options(self, choices: PrepareOptions) -> PrepareOptions:
        options = {
            "table": self.file,
            "image-column": self.image,
            "label-column": self.label,
            "group": ",".join(self.groups),
            "site": self.site,
            "patient": self.patient,
            "classes": ",".join(self.classes or ()),
        }
        return choices.completed(OWN | options)


def _rows(table: Table, raw: Path, choices: PrepareOptions) -> Listing:
    listing = own_images.rows(raw, table.options(choices))
    spellings = table.classes or {}
    classes = [spellings.get(name, name) for name in listing.classes or []]
    return replace(listing, classes=classes)


def _decode(
    table: Table,
    raw: Path,
    row: Row,
    choices: PrepareOptions,
) -> Any:
    return own_images.decode(raw, row, table.options(choices))


def listed(
    facts: DataFrame,
    attributes: Mapping[str, list[str]],
    tables: Iterable[str],
    *,
    patient: str = "",
    absent: str = "listed in the table, in none of the image folders",
    skipped: Iterable[tuple[str, str]] = (),
) -> Listing:
    """A listing of the facts of tables on images; rows are in train unless they say otherwise.

    Args:
        facts: a line per image with the columns id, label (its index), file (missing where there is
            none), one for each attribute, and perhaps patient, test, why (it is skipped) and name
            (what it is called then).
        patient: what `patient` names.
        absent: why an image without a file is skipped.
        skipped: (file, why) of others.
    """
    images = []
    left_out = list(skipped)
    columns = list(facts)
    texts = [facts[name].tolist() for name in columns]  # pandas' own ways take twice as long
    for cells in zip(*texts, strict=True):
        fact = dict(zip(columns, cells, strict=True))
        file = _text(fact["file"])
        reason = _text(fact.get("why"))
        if not file and not reason:
            reason = absent
        if reason:
            name = fact.get("name") or file or f"{fact['id']}.jpg"
            left_out.append((name, reason))
            continue
        groups = {name: place(fact[name], values) for name, values in attributes.items()}
        test = bool(fact.get("test", False))
        patient_id = _text(fact.get("patient"))
        images.append(Row(fact["id"], fact["label"], file, test, groups, patient_id))
    has_patients = any(row.patient for row in images)
    names = patient if has_patients else None
    return Listing(
        images,
        dict(attributes),
        names,
        list(tables),
        sorted(left_out),
    )


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else ""
