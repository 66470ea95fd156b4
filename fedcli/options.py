"""Options as annotated fields of frozen dataclasses: read, described, checked and changed.

`q: Annotated[float, "exponent, >= 0"] = 2.0` is help text, default, type and range at once. A range
is written in the text as `in [0, 1)`, `>= 0`, `> 0` or `>= 1`, and is enforced as written. A field's type is
bool, int, float, str, Path, a Literal, a list or a tuple of one of these, or one of these or None.
"""

import math
import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from .errors import UsageError

INTERVAL = re.compile(r"in ([\[(])\s*([-\d.]+)\s*,\s*([-\d.]+|inf)\s*([\])])")
BOUND = re.compile(r"(>=|>)\s*([-\d.]+)")
SWITCH = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
SET = "--set {name}={value}"  # how a user writes an option of a method


@dataclass(frozen=True)
class Option:
    """One option as `fedcli methods NAME` shows it."""

    name: str
    type: str
    default: Any
    meaning: str


@dataclass(frozen=True)
class Kind:
    """The kind of value that a field's annotation asks for.

    Attributes:
        type: bool, int, float, str, Path or any other type called with the text.
        choices: of a Literal; () for any value.
        many: list or tuple where the field holds several values of that type, otherwise None.
        optional: None is a value too.
        meaning: the help text with the range.
    """

    type: type
    choices: tuple[Any, ...] = ()
    many: Callable[..., Any] | None = None
    optional: bool = False
    meaning: str = ""

    @classmethod
    def of(cls, hint: Any) -> "Kind":
        """Reads one annotation. Raises TypeError for one that is not among those above."""
        if get_origin(hint) is Annotated:
            inner, meaning, *_ = get_args(hint)
            return replace(cls.of(inner), meaning=meaning)
        if get_origin(hint) in (Union, types.UnionType):
            inside = [part for part in get_args(hint) if part is not type(None)]
            if len(inside) != 1:
                raise TypeError(f"an option is of one type, or of one type and None, not {hint}")
            return replace(cls.of(inside[0]), optional=type(None) in get_args(hint))
        if get_origin(hint) is Literal:
            return cls(type(get_args(hint)[0]), choices=get_args(hint))
        if get_origin(hint) in (list, tuple):
            return replace(cls.of(get_args(hint)[0]), many=get_origin(hint))
        if not isinstance(hint, type):
            raise TypeError(f"{hint} is no type of an option")
        return cls(hint)

    @property
    def name(self) -> str:
        """As help shows it: `float`, `paper|released`, `str,...` for several."""
        return ("|".join(map(str, self.choices)) or self.type.__name__) + (",..." if self.many else "")


def values(options: Any) -> dict[str, Any]:
    """Option name -> value."""
    return {f.name: getattr(options, f.name) for f in fields(options)} if is_dataclass(options) else {}


def kinds(options: Any) -> dict[str, Kind]:
    """Option name -> what its annotation says; of a dataclass or one of its objects."""
    cls = options if isinstance(options, type) else type(options)
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: Kind.of(hints[f.name]) for f in fields(cls)} if is_dataclass(cls) else {}


def describe(options: Any) -> list[Option]:
    """The options of one object, in order, its values as their defaults."""
    known = kinds(options)
    return [Option(name, known[name].name, value, known[name].meaning) for name, value in values(options).items()]


def change(options: Any, key: str, value: Any, write: str = SET) -> Any:
    """A copy with one option changed, its value checked.

    value: as typed, or already of the field's type; several values as a sequence or as text with commas.
    write: how a user writes this option, for the hint of an error.
    Raises UsageError for a wrong type or a value out of range.
    """
    return replace(options, **{key: parse(key, value, kinds(options)[key], write)})


def parse(key: str, value: Any, kind: Kind, write: str = SET) -> Any:
    """The value of one option in its type, checked; arguments and error as those of change()."""
    if kind.optional and (value is None or value == "none"):
        return None
    if kind.many is None:
        return _one(key, value, kind, write)
    several: Sequence[Any] = value.split(",") if isinstance(value, str) else value
    return kind.many(_one(key, item.strip() if isinstance(item, str) else item, kind, write) for item in several)


def _one(key: str, value: Any, kind: Kind, write: str) -> Any:
    if kind.choices:
        chosen = next((choice for choice in kind.choices if str(choice) == str(value)), None)
        if chosen is None:
            wrong = f"{key}={value!r} is not one of {', '.join(map(str, kind.choices))}"
            raise UsageError(wrong, f"write {write.format(name=key, value=kind.choices[0])}")
        return chosen
    if kind.type is bool:
        if str(value).lower() not in SWITCH:
            raise UsageError(
                f"{key}={value!r} is neither true nor false", f"write {write.format(name=key, value='true')}"
            )
        return SWITCH[str(value).lower()]
    try:
        if kind.type is int and (isinstance(value, bool) or (isinstance(value, float) and not value.is_integer())):
            raise ValueError  # of a TOML or JSON file: int() would cut it
        return _in_range(key, kind.type(value), kind.meaning)
    except (ValueError, TypeError):
        wrong = f"{key}={value!r} is not a number of type {kind.type.__name__}"
        raise UsageError(wrong, f"write for example {write.format(name=key, value=1)}") from None


def _in_range(key: str, value: Any, meaning: str) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{key}={value} is not finite", meaning)
    if not isinstance(value, int | float):
        return value
    interval, bound = INTERVAL.search(meaning), BOUND.search(meaning)
    if interval and not _within(value, interval):
        raise UsageError(f"{key}={value} is out of range: it must be {interval[0]}", meaning)
    if bound and not (value >= float(bound[2]) if bound[1] == ">=" else value > float(bound[2])):
        raise UsageError(f"{key}={value} is out of range: it must be {bound[0]}", meaning)
    return value


def _within(value: float, interval: re.Match[str]) -> bool:
    low, high = float(interval[2]), float(interval[3])
    above = value >= low if interval[1] == "[" else value > low
    return above and (value <= high if interval[4] == "]" else value < high)
