"""Datasets from outside the package: a reader and its card, registered by a file, a package or a notebook."""

from dataclasses import dataclass
from typing import Any

from ... import extensions, shapes
from ...provenance import Code, of_functions
from .source import Source

CARD = {
    "title": str, "classes": [str], "task?": str, "attributes?": {str: [str]}, "size?": int, "channels?": int,
    "split?": str, "splits?": {str: str}, "augment?": str, "clients?": int, "sites?": (str, None), "where?": str,
    "licence?": str, "people?": bool, "citation?": str, "files?": [dict], "options?": dict,
}  # fmt: skip
USUAL = {
    "attributes": {}, "files": [], "where": "whoever wrote the reader", "licence": "none stated",
    "citation": "none stated", "size": 64, "channels": 3, "split": "image", "splits": {"image": "8:2 per class"},
    "augment": "none", "clients": 4, "sites": None,
}  # fmt: skip


@dataclass(frozen=True)
class Own:
    """A dataset that is not one of fedcli's. code: where it comes from; None of a session that cannot say."""

    name: str
    source: Source
    card: dict[str, Any]
    code: Code | None


REGISTERED: dict[str, Own] = {}  # by a notebook


def register(name: str, source: Source, card: dict[str, Any]) -> None:
    """Put a dataset into the table. card: at least its title and classes. Raises ValueError, FedcliError."""
    extensions.check_name(name)
    shapes.check(card, CARD, f"the card of {name}", "see fedcli datasets toy --json")
    table, filled = extensions.table("datasets", REGISTERED), {**USUAL, **card}
    if extensions.origin() and name in table:
        raise ValueError(f"dataset {name!r} is registered twice")
    if not filled["classes"] or not isinstance(source, Source):
        raise ValueError(f"{name} has no classes" if not filled["classes"] else f"{source!r} is no Source")
    if filled["split"] not in filled["splits"]:
        raise ValueError(f"the split {filled['split']!r} of {name} is none of {', '.join(filled['splits'])}")
    filled.setdefault("task", "binary" if len(filled["classes"]) == 2 else "multiclass")
    code = extensions.origin() or of_functions(source.rows, source.decode)
    table[name] = Own(name, source, filled, code)


def own(name: str) -> Own | None:
    """A dataset by PATH.py, PATH.py:NAME or the name that was registered; None where there is none of that name.

    Raises FedcliError, UsageError for a file that registers none.
    """
    if extensions.is_file(name):
        return extensions.pick(name, "datasets")
    if name in REGISTERED:
        return REGISTERED[name]
    offered = extensions.offered("datasets", name)
    return offered[0] if offered else None


def plain(name: str) -> str:
    """The name of a dataset without the file that it comes from."""
    known = own(name) if extensions.is_file(name) else None
    return known.name if known else name


def names() -> list[str]:
    """Names of those that a notebook registered, and the entry points of packages, of which none is loaded."""
    return [*REGISTERED, *extensions.packages("datasets")]
