"""Classes and groups' values that a federation has agreed on, where the images of one hospital do not show them all."""

import csv
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ....errors import FedcliError, UsageError, nearest
from ..source import Listing
from .own_table import ordered


def agreed(listing: Listing, own: Mapping[str, str]) -> Listing:
    """The listing with all classes and values that the options name, in the order that they have where all are there.

    Raises FedcliError for an image of another class or value, UsageError.
    """
    classes, values = _names(own.get("classes", "")), _values(own.get("values", ""))
    if odd := [name for name in values if name not in listing.attributes]:
        raise UsageError(f"values names {odd[0]!r}, which is no group", nearest(odd[0], listing.attributes))
    if classes and listing.task:
        raise UsageError("classes is about one label per image", "name the columns of labels, which all sites have")
    rows, attributes = listing.rows, dict(listing.attributes)
    if classes:
        known, place = _places(listing.classes or [], classes, "class")
        rows = [replace(row, label=place[row.label]) for row in rows]
        listing = replace(listing, classes=known)
    for name, named in values.items():
        attributes[name], place = _places(attributes[name], named, name)
        there = {**place, -1: -1}  # unknown stays so
        rows = [replace(row, groups={**row.groups, name: there[row.groups[name]]}) for row in rows]
    return replace(listing, rows=rows, attributes=attributes)


def _places(found: list[str], named: list[str], what: str) -> tuple[list[str], dict[Any, int]]:
    """All names, and the place of each found one among them. Raises FedcliError for one that is not among them."""
    if odd := [name for name in found if name not in named]:
        raise FedcliError(f"the {what} {odd[0]!r} of some images is none of {', '.join(named)}", nearest(odd[0], named))
    every = ordered(set(named))
    return every, {place: every.index(name) for place, name in enumerate(found)}


def _names(text: str) -> list[str]:
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip()]


def _values(text: str) -> dict[str, list[str]]:
    """Of "sex=female,male;race=asian,black,white". Raises UsageError."""
    made = {}
    for part in filter(str.strip, text.split(";")):
        name, equals, names = part.partition("=")
        if not equals or not _names(names):
            raise UsageError(
                f"values has {part!r}", "write for example --set 'values=sex=female,male;race=black,white'"
            )
        made[name.strip()] = _names(names)
    return made
