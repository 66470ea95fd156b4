"""What the options of every stage have in common: a frozen dataclass whose fields are the flags of a command.

`rounds: Annotated[int, "rounds of federated training, >= 1"] = 20` is the flag `--rounds`, its type, help text, range
and default at once: for the shell, for a recipe and for Python. Values are checked when the object is made.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from ..errors import UsageError, nearest
from ..options import Kind, parse

Source = str | os.PathLike[str]  # a file or folder, or what a stage made


@dataclass(frozen=True)
class Flag:
    """What a field may say of its flag beside the help text.

    Attributes:
        metavar: what stands for the value in help.
        argument: typed without the flag's name, before the flags.
        local: about this call and this machine: it decides no number, so no recipe sets it and no manifest records it.
        typed: the flag's name where it is not the field's.
    """

    metavar: str = ""
    argument: bool = False
    local: bool = False
    typed: str = ""


@dataclass(frozen=True)
class Declared:
    """One field as the flag that it is.

    Attributes:
        shape: "switch" stands alone, "one" has a value, "several" may be repeated, "table" repeats KEY=VALUE.
        kind: of one value; that of a path is str.
    """

    name: str
    shape: Literal["switch", "one", "several", "table"]
    kind: Kind
    path: bool
    default: Any
    flag: Flag

    @property
    def typed(self) -> str:
        """The flag as typed, without the dashes."""
        return self.flag.typed or self.name.replace("_", "-")

    def read(self, value: Any) -> Any:
        """A value in the field's type. Raises UsageError."""
        if value is None and self.kind.optional:
            return None
        if self.shape == "switch":
            return self._one(value)
        if self.shape == "table":
            return pairs(self.typed, value)
        if self.shape == "several":
            return tuple(self._one(item) for item in ([value] if isinstance(value, str | os.PathLike) else value or ()))
        return self._one(value)

    def _one(self, value: Any) -> Any:
        value = os.fspath(value) if isinstance(value, os.PathLike) else text(value)
        return parse(f"--{self.typed}", value, replace(self.kind, optional=False), "{name} {value}")

    def words(self, value: Any) -> list[str]:
        """The flag with its value as typed; [] where it is left out."""
        if value is None or value is False:
            return []
        if value is True:
            return [f"--{self.typed}"]
        items: Iterable[Any] = [value]
        if self.shape == "table":
            items = [f"{key}={item}" for key, item in value.items()]
        elif self.shape == "several":
            items = value
        if self.flag.argument:
            return [text(item) for item in items]
        return [word for item in items for word in (f"--{self.typed}", text(item))]


@dataclass(frozen=True)
class Options:
    """The options of one stage; the base of them all."""

    stage: ClassVar[str]  # the command's name

    def __post_init__(self) -> None:
        for field in self.declared():
            object.__setattr__(self, field.name, field.read(getattr(self, field.name)))

    @classmethod
    def declared(cls) -> tuple[Declared, ...]:
        """Its flags in the order in which they are written: first what stands without a flag, what is read last."""
        return _declared(cls)  # type: ignore[arg-type]  # the class has a hash, whatever its objects have

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """The options that flags mean.

        flags: name as typed without the dashes -> value as in a recipe: true stands alone, false leaves the flag out, a
        list repeats it, a table is KEY=VALUE pairs.
        Raises UsageError for a flag that the stage does not have or a value that it cannot take.
        """
        known = {field.name: field for field in cls.declared()}
        given = {field.name: None for field in cls.declared() if field.default is MISSING and field.kind.optional}
        for name, value in flags.items():
            if name.replace("-", "_") not in known:
                raise UsageError(
                    f"{cls.stage} has no flag {name!r}", nearest(name, [field.typed for field in known.values()])
                )
            if value is not False:
                given[name.replace("-", "_")] = value
        for field in known.values():
            if field.default is MISSING and field.name not in given:
                raise UsageError(f"{cls.stage} lacks {field.flag.metavar or field.typed}", f"give {field.kind.meaning}")
        return cls(**given)

    def reading(self, source: Source) -> Self:
        """The same on what an earlier stage made."""
        return replace(
            self, **{field.name: source for field in self.declared() if field.flag.argument and field.flag.local}
        )

    def changed(self) -> list[Declared]:
        """The flags whose value is not the default."""
        return [field for field in self.declared() if getattr(self, field.name) != field.default]

    def argv(self) -> list[str]:
        """The command line that means these options: what differs from the defaults, in one order."""
        return [self.stage, *(word for field in self.changed() for word in field.words(getattr(self, field.name)))]

    def made_by(self, always: Sequence[str] = ()) -> list[str]:
        """The command line as a manifest records it: without locations, of a file its name.

        always: flags that are written even where they have their default.
        """
        words = [self.stage]
        for field in self.declared():
            value = getattr(self, field.name)
            if not field.flag.local and (value != field.default or field.name in always):
                words += field.words(Path(value).name if field.path and value else value)
        return words


@cache
def _declared(cls: type[Options]) -> tuple[Declared, ...]:
    hints = get_type_hints(cls, include_extras=True)
    made = []
    for field in fields(cls):
        default = field.default_factory() if callable(field.default_factory) else field.default
        made.append(_field(field.name, hints[field.name], default))
    return tuple(sorted(made, key=lambda field: (not field.flag.argument, field.flag.argument and field.flag.local)))


def _field(name: str, hint: Any, default: Any) -> Declared:
    """A field by its annotation: Annotated[type, meaning] or Annotated[type, meaning, Flag(...)]."""
    inner, meaning, *more = get_args(hint)
    (flag,) = more or (Flag(),)
    parts = [part for part in get_args(inner) if part is not NoneType] if NoneType in get_args(inner) else [inner]
    optional, path = NoneType in get_args(inner), os.PathLike[str] in (*parts, *get_args(inner))
    if path:
        return Declared(name, "one", Kind(str, optional=optional, meaning=meaning), True, default, flag)
    if get_origin(parts[0]) is Mapping or get_origin(parts[0]) is dict:
        return Declared(name, "table", Kind(str, meaning=meaning), False, default, flag)
    if parts[0] in (Sequence[str], Sequence[Source]):
        return Declared(name, "several", Kind(str, meaning=meaning), False, default, flag)
    kind = Kind.of(Annotated[inner, meaning])
    return Declared(name, "switch" if kind.type is bool else "one", kind, False, default, flag)


def text(value: Any) -> str:
    """A value as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def pairs(flag: str, given: Mapping[str, Any] | Sequence[str] | None) -> dict[str, str]:
    """A table, or KEY=VALUE texts, as a dict of texts. Raises UsageError."""
    if isinstance(given, Mapping):
        return {str(key): text(value) for key, value in given.items()}
    table: dict[str, str] = {}
    for pair in [given] if isinstance(given, str) else given or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--{flag} {pair!r} is not key=value", f"write for example --{flag} tau=0.4")
        if key in table:
            raise UsageError(f"--{flag} {key} is given twice", "give each option once")
        table[key.strip()] = value.strip()
    return table
