"""Settings and options behind a row's label: those that tell it from the other rows of a table."""

from collections.abc import Sequence
from typing import Any

from ..compare.systems import DRAWN, brief, last

Options = dict[str, Any]


def unlike(
    label: str, own: Options, alike: list[Options], every: list[Options], draws: Sequence[Options] | None = None
) -> list[str]:
    """key=value of what must stand behind a label, but not what it has already; the rule has a column of its own.

    alike: of the rows of the same method. draws: of the rows with the same label, which alone a seed or fold tells this
    one from; None where the row is of several seeds, whose number it has.
    """
    return [
        f"{key}={brief(value)}"
        for key, value in own.items()
        if last(key) not in ("rule", *(DRAWN if draws is None else ()))
        and not _in_label(label, last(key).replace("_", " "), value)
        and is_named(
            value,
            [other.get(key) for other in (draws if draws is not None and last(key) in DRAWN else alike)],
            [other.get(key) for other in every],
        )
    ]


def _in_label(label: str, name: str, value: Any) -> bool:
    """Tell whether a label has an option already: prior bsm, or balanced class weights."""
    return f", {name} {value}" in label or f", {value} {name}" in label


def is_named(value: Any, alike: list[Any], every: list[Any]) -> bool:
    """Tell whether a value is named: runs of the same method have others, or it is not what most of all rows have."""
    return differ(alike) or differ(every) and 2 * sum(value == other for other in every) <= len(every)


def differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)
