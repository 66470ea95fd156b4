"""Options as annotated fields of frozen dataclasses: read, described, checked, written as flags and
changed.

`q: Annotated[float, "exponent, >= 0"] = 2.0` is help text, default, type and range at once. A range
is written in the text as `in [0, 1)`, `>= 0`, `> 0` or `>= 1`, and is enforced as written. A
field's type is bool, int, float, str, a path, a Literal, several of one of these, or one of these
or None. The fields of `Options` are the flags of a command too: for the shell, for a recipe and for
Python.
"""

import math
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from .errors import UsageError, nearest

Source = str | os.PathLike[str]  # a file or folder, or what a stage made
INTERVAL = re.compile(r"in ([\[(])\s*([-\d.]+)\s*,\s*([-\d.]+|inf)\s*([\])])")
BOUND = re.compile(r"(>=|>)\s*([-\d.]+)")
MOST = 2**31  # of what is counted, which a number of 32 bits holds
SWITCH = {
    "true": True,
    "false": False,
    "1": True,
    "0": False,
    "yes": True,
    "no": False,
}
SET = "--set {name}={value}"  # how a user writes an option of a method
FLAG = "{name} {value}"
PART = "{name}={value}"  # how a user writes an option in the text of another
COMMON = "common"  # last in an annotation: the option is among the few that help shows first
# recorded in place of an option for which the method has something of its own
OWN = "the method's own"


# Facts about options that rules ask for, so that no rule has a list of names, see marked().
Mark = Literal[
    "pool",  # of prepare: recorded in dataset.json
    "pixels",  # of prepare: decides, beside --size, what becomes of an image
    "own",  # of prepare: an option of some datasets, as those of --set are
    "later",  # of prepare: about the partition or the corruption of the dataset
    "corruption",  # of prepare: an option of corrupt too, so with --corrupt alone
    "scheme",  # of partition: about the scheme
    "again",  # of train: may have another value when a run goes on
    "second",  # of train: a second stage has the value of the first
    "watching",  # of train: measures on the way and changes nothing that is learned
    "tests",  # of evaluate: chooses the test images
    "at_hand",  # of evaluate: sites score with what they have, so not with --engine
    "images",  # of evaluate: needs the test images, so not with --engine
]


PATHS = re.compile("FILE|DIR|FOLDER|PATH|MANIFEST|PROFILE|WHERE|RUN$")  # in what stands for a value
# What a command does with the path that an option names. "results" is the folder of all results,
# "typed" is no path
# but a decision, such as to download. Only what is read may be named by a file in the folder at
# hand.
Access = Literal["", "reads", "writes", "results", "trusts", "typed"]


@dataclass(frozen=True)
class Flag:
    """Properties of a field beside its help text."""

    metavar: str = ""  # what stands for the value in help
    argument: bool = False  # typed without the flag's name, before the flags
    # about this call and this machine: it decides no number, so no recipe sets it and no manifest
    # records it
    local: bool = False
    # False where another field says it, or it decides no byte; "on": where it is not the default
    recorded: bool | Literal["on"] = True
    typed: str = ""  # the flag's name where it is not the field's
    panel: str = ""  # its heading in help, in place of its class's
    # None stands for a default of the method, the optimizer or the data, see left_open()
    open: bool = False
    # how the name of a run says a value that is not the default, such as "prior {}"
    label: str = ""
    alone: str = ""  # its value where the flag stands alone; another is typed behind =
    follows: str = ""  # pattern of words that are its value, also without =, where it may be alone
    access: Access = ""  # of a path or an address; also of what only a person decides
    marks: tuple[Mark, ...] = ()
    # the option whose text holds it in place of a flag of its own, as --optimizer sgd:momentum=0.9
    # holds momentum
    within: str = ""


@dataclass(frozen=True)
class Option:
    """One field: its name, what its value may be, its default, its meaning and its flag."""

    name: str
    kind: type  # bool, int, float, str, Path or any other type called with the text
    default: Any
    meaning: str = ""
    choices: tuple[Any, ...] = ()  # of a Literal; () for any value
    # list or tuple where the field holds several values of that type, typed with commas, otherwise
    # None
    many: Callable[..., Any] | None = None
    # "switch" stands alone, "one" has a value, "several" may be repeated, "table" repeats KEY=VALUE
    shape: Literal["switch", "one", "several", "table"] = "one"
    path: bool = False
    optional: bool = False  # None is a value too
    common: bool = False  # among the few that help shows first
    flag: Flag = Flag()
    parts: tuple["Option", ...] = ()  # options that its text may hold, see Flag.within

    @classmethod
    def of(cls, name: str, hint: Any, default: Any) -> "Option":
        """The option that an annotated field declares. Raises TypeError for a type that is not
        among those above.
        """
        origin = get_origin(hint)
        inside = get_args(hint)
        if origin is Annotated:
            inner, meaning, *rest = inside
            option = cls.of(name, inner, default)
            flags = [part for part in rest if part != COMMON]
            return replace(
                option,
                meaning=meaning,
                common=COMMON in rest,
                flag=flags[0] if flags else Flag(),
            )
        if origin in (Union, types.UnionType):
            kinds = [kind for kind in inside if kind is not type(None)]
            optional = len(kinds) < len(inside)
            if set(kinds) == set(get_args(Source)):
                return cls(name, str, default, path=True, optional=optional)
            if len(kinds) != 1:
                raise TypeError(f"an option is of one type, or of one type and None, not {hint}")
            return replace(cls.of(name, kinds[0], default), optional=optional)
        if origin is Literal:
            return cls(name, type(inside[0]), default, choices=inside)
        if origin in (list, tuple):
            return replace(cls.of(name, inside[0], default), many=origin)
        if origin is Mapping:
            return cls(name, str, default, shape="table")
        if origin is Sequence:
            return cls(name, str, default, shape="several")
        if not isinstance(hint, type):
            raise TypeError(f"{hint} is no type of an option")
        return cls(
            name,
            hint,
            default,
            shape="switch" if hint is bool else "one",
        )

    @property
    def type(self) -> str:
        """The type as help shows it: `float`, `paper|released`, `str,...` for several."""
        kind = "|".join(map(str, self.choices)) or self.kind.__name__
        return f"{kind},..." if self.many else kind

    @property
    def word(self) -> str:
        """The name as typed on a command line, of a part inside the text that holds it."""
        return self.flag.typed or self.name.replace("_", "-")

    @property
    def key(self) -> str:
        """The name in a recipe's table, where parts have lines of their own."""
        return self.name.replace("_", "-") if self.flag.within else self.word

    @property
    def typed(self) -> str:
        """The flag as a sentence names it, without the dashes; of a part "optimizer momentum"."""
        return f"{self.flag.within} {self.word}" if self.flag.within else self.word

    @property
    def title(self) -> str:
        """The option in a few words: how its meaning begins, or its name where that is a value."""
        name = self.name.replace("_", " ")
        beginning = re.split(r"[,;:(]| >=", self.meaning)[0].strip()
        if beginning.startswith("of "):
            return f"{name} {beginning}"
        return beginning if " " in beginning else name

    @property
    def access(self) -> Access | None:
        """The use that a command makes of a path; "" where that is not declared, None for an option
        that is no path.
        """
        is_path = self.path or self.kind is Path or PATHS.search(self.flag.metavar)
        return self.flag.access or ("" if is_path else None)

    def about(self) -> dict[str, Any]:
        """The line of it that help and JSON show."""
        facts = "name", "type", "default", "meaning"
        return {fact: getattr(self, fact) for fact in facts}

    def read(self, value: Any, name: str = "", write: str = SET) -> Any:
        """A value in the field's type, checked.

        value: as typed, or already of the field's type; several values as a sequence or as text
            with commas.
        name: in a sentence, such as --lr. write: how a user writes this option, for the hint of an
        error. Raises UsageError for a wrong type or a value out of range.
        """
        name = name or self.name
        if self.parts and isinstance(value, str) and self.divided(value)[1]:
            return value  # read part by part when the options are made
        # a flag is left out instead
        if self.optional and (value is None or (value == "none" and write != FLAG)):
            return None
        if self.shape == "table":
            return pairs(self.typed, value)
        if self.shape == "several":
            items = [value] if isinstance(value, str | os.PathLike) else value or ()
            return tuple(self._one(name, item, write) for item in items)
        if self.many is None:
            return self._one(name, value, write)
        several = value.split(",") if isinstance(value, str) else value
        items = [item.strip() if isinstance(item, str) else item for item in several]
        return self.many(self._one(name, item, write) for item in items)

    def _one(self, name: str, value: Any, write: str) -> Any:
        """One value in the type that the choices or the kind say. Raises UsageError."""
        if isinstance(value, os.PathLike) and self.kind is str:
            value = os.fspath(value)
        typed = f"{name}={value!r:.60}"
        if self.choices:
            for choice in self.choices:
                if str(choice) == str(value):
                    return choice
            choices = [str(choice) for choice in self.choices if choice != ""]
            hint = nearest(str(value), choices)
            raise UsageError(f"{typed} is not one of {', '.join(choices)}", hint)
        if self.kind is bool:
            switched = SWITCH.get(str(value).lower())
            if switched is None:
                hint = f"write {write.format(name=name, value='true')}"
                raise UsageError(f"{typed} is neither true nor false", hint)
            return switched
        if self.kind is str:
            if not isinstance(value, str | int | float):
                raise UsageError(f"{typed} is no text", self.meaning)
            return text(value)
        return self._number(name, value, write)

    def _number(self, name: str, value: Any, write: str) -> Any:
        # of a TOML or JSON file: int() would cut it
        cut = self.kind is int and isinstance(value, float) and not value.is_integer()
        try:
            if isinstance(value, bool) or cut:
                raise ValueError
            number = self.kind(value)
        except (ValueError, TypeError, OverflowError):
            hint = f"write for example {write.format(name=name, value=1)}"
            for part in self.parts:
                if part.shape == "switch":
                    hint += f", or {write.format(name=name, value=part.word)}"
            sentence = f"{name}={value!r:.60} is not a number of type {self.kind.__name__}"
            raise UsageError(sentence, hint) from None
        if isinstance(number, float) and not math.isfinite(number):
            raise UsageError(f"{name}={number} is not finite", self.meaning)
        allowed = outside(number, self.meaning) if isinstance(number, int | float) else ""
        if allowed:
            sentence = f"{name}={number} is out of range: it must be {allowed}"
            raise UsageError(sentence, self.meaning)
        return number

    def divided(self, typed: str) -> tuple[str, dict[str, Any]]:
        """A text such as sgd:momentum=0.9,nesterov as the option's own value and, by name, those of
        its parts. A text of parts alone has "" as the value.

        Raises UsageError for a part that the option does not have.
        """
        names = {part.word: part.name for part in self.parts}
        texts = {part.name for part in self.parts if part.kind is str}
        switches = {part.name for part in self.parts if part.shape == "switch"}
        first, colon, rest = typed.partition(":")
        if colon and first in names:  # client:20 is client=20
            typed = f"{first}={rest}".replace(":", ",")
        if self.parts and typed.endswith(":"):
            hint = "leave the colon out, or write a value behind it"
            raise UsageError(f"--{self.typed} {typed!r:.60} ends in a colon", hint)
        own_value, _, items = typed.rpartition(":")
        values: dict[str, Any] = {}
        unknown = []
        last = ""  # a part whose value may have commas
        for item in items.split(","):
            word, equals, value = item.strip().partition("=")
            if word in names:
                last = names[word]
                if last in values:
                    raise UsageError(f"--{self.typed} {word} is given twice", "give it once")
                if last not in switches and not value:
                    example = "NAME" if last in texts else "1"
                    hint = f"write for example --{self.typed} {word}={example}"
                    raise UsageError(f"--{self.typed} {word} needs a value", hint)
                values[last] = value if equals else True
            elif last in texts and not equals:
                values[last] += f",{item}"
            else:
                unknown.append(word)
        is_closed = self.choices or self.kind is not str  # its own value has no colon
        has_parts = "=" in items or (own_value and items and is_closed)
        if not values and not has_parts:
            return typed, {}
        if unknown:
            sentence = f"--{self.typed} {typed!r:.60} has the unknown part {unknown[0]!r}"
            raise UsageError(sentence, nearest(unknown[0], names))
        return own_value, values

    def with_part(self, word: str, value: Any, own_value: str) -> str:
        """A text of this option with a part of this name, such as sgd:momentum=0.9.

        own_value: of the option; "" for the choice that the part's meaning names, else the first
        one, or for an option without choices the value of the example in its meaning.
        """
        part = next(part for part in self.parts if word in (part.word, part.key))
        if not own_value and self.choices:
            words = re.findall(r"\w+", part.meaning)
            named = [choice for choice in self.choices if choice in words]
            own_value = named[0] if named else self.choices[0]
        elif not own_value and self.flag.recorded:
            example = re.search(r"such as (\S+):", self.meaning)
            own_value = example[1] if example else ""
        return self.joined(own_value, {part.name: value})

    def joined(self, value: Any, values: Mapping[str, Any]) -> str:
        """The text that divided() reads as this value and these of its parts."""
        items = []
        for part in self.parts:
            if part.name not in values:
                continue
            is_switch = values[part.name] is True
            items.append(part.word if is_switch else f"{part.word}={text(values[part.name])}")
        if not self.flag.recorded and items:  # it has no value of its own
            items[0] = items[0].replace("=", ":")
        own_value = [] if value in (None, "") else [text(value)]
        return ":".join([*own_value, ",".join(items)] if items else own_value)

    def words(self, value: Any) -> list[str]:
        """The flag with its value as typed; [] where it is left out."""
        if isinstance(value, bool):
            names = self.typed.split("/--")  # of sample/--no-sample what is on, and what is off
            return [f"--{name}" for name in (names[:1] if value else names[1:])]
        if value is None:
            return []
        items: Iterable[Any] = value if self.shape == "several" else [value]
        if self.shape == "table":
            items = [f"{key}={item}" for key, item in value.items()]
        words = []
        for item in items:
            if not self.flag.argument:
                words.append(f"--{self.typed}")
            words.append(text(item))
        return words


def outside(value: int | float, meaning: str) -> str:
    """The range in a text that a number is not in, "" where it is in all of them."""
    for bound in BOUND.finditer(meaning):
        if not _is_above(value, float(bound[2]), bound[1] == ">="):
            return bound[0]
        if isinstance(value, int) and value >= MOST:
            return f"below {MOST}"
    for interval in INTERVAL.finditer(meaning):
        above = _is_above(value, float(interval[2]), interval[1] == "[")
        # below an end: above it with both signs turned
        if not above or not _is_above(-value, -float(interval[3]), interval[4] == "]"):
            return interval[0]
    return ""


def _is_above(value: float, end: float, may_equal: bool) -> bool:
    return value >= end if may_equal else value > end


def values(options: Any) -> dict[str, Any]:
    """Option name -> value; empty of what is no dataclass."""
    if not is_dataclass(options):
        return {}
    return {field.name: getattr(options, field.name) for field in fields(options)}


def describe(options: Any) -> dict[str, Option]:
    """The options of a dataclass, or of one of its objects, whose values then are their defaults;
    by name, in order.
    """
    if isinstance(options, type):
        return dict(_options_of(options))
    described = {}
    for name, value in values(options).items():
        described[name] = replace(_options_of(type(options))[name], default=value)
    return described


def _described(cls: Any) -> dict[str, Option]:
    if not is_dataclass(cls):
        return {}
    hints = get_type_hints(cls, include_extras=True)
    described = {}
    for field in fields(cls):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        described[field.name] = Option.of(
            field.name,
            hints[field.name],
            default,
        )
    for name, option in described.items():
        parts = [part for part in described.values() if part.flag.within == option.key]
        described[name] = replace(option, parts=tuple(parts))
    return described


# mypy takes Options for no type to be hashed
_options_of: Callable[[Any], dict[str, Option]] = cache(_described)


def change(options: Any, key: str, value: Any, write: str = SET) -> Any:
    """A copy with one option changed, its value checked; arguments and error as those of
    Option.read().
    """
    return replace(options, **{key: _options_of(type(options))[key].read(value, write=write)})


@dataclass(frozen=True)
class Options:
    """The options of one stage, or a part of them; the base of them all. Values are checked when an
    object is made.
    """

    stage: ClassVar[str]  # the command's name
    panel: ClassVar[str] = "Data"  # the heading of its flags in help
    usual: ClassVar[dict[str, Any]] = {}  # defaults of fields that are open, see left_open()

    def __post_init__(self) -> None:
        for option in _options_of(type(self)).values():
            if option.parts:
                self._divide(option)
        for option in _options_of(type(self)).values():
            value = option.read(
                getattr(self, option.name),
                f"--{option.typed}",
                PART if option.flag.within else FLAG,
            )
            object.__setattr__(self, option.name, value)

    def _divide(self, option: Option) -> None:
        """Give the parts of an option the values that its text holds. Raises UsageError."""
        typed = getattr(self, option.name)
        own_value, values = option.divided(typed) if isinstance(typed, str) else (typed, {})
        if own_value and not option.flag.recorded:
            raise UsageError(f"--{option.typed} {typed!r:.60} is not understood", option.meaning)
        for part in option.parts:
            if part.name not in values:
                continue
            if getattr(self, part.name) != part.default:
                raise UsageError(f"--{part.typed} is given twice", "give it once")
            object.__setattr__(self, part.name, values[part.name])
        if values and not option.flag.recorded:
            parts = [part for part in option.parts if part.name in values]
            usual = {part.name: part.default for part in parts}
            read = {
                part.name: part.read(values[part.name], f"--{part.typed}", PART) for part in parts
            }
            if read == usual:
                sentence = f"--{option.typed} {typed} changes nothing"
                raise UsageError(sentence, f"leave --{option.typed} out, or give a value above 0")
        object.__setattr__(self, option.name, option.default if own_value == "" else own_value)

    @classmethod
    def declared(cls) -> tuple[Option, ...]:
        """Its flags in the order in which they are written: first those without a flag's name, what
        is read last.
        """
        return tuple(sorted(_options_of(cls).values(), key=_place))

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """The options that flags mean.

        flags: name as typed without the dashes -> value as in a recipe: true stands alone, false
        leaves the flag out, a list repeats it, a table is KEY=VALUE pairs.
        Raises UsageError for a flag that the stage does not have or a value that it cannot take.
        """
        options = _options_of(cls)
        chosen: dict[str, Any] = {}
        for name, value in flags.items():
            key = name.replace("-", "_")
            if key not in options:
                hint = nearest(name, [option.key for option in options.values()])
                raise UsageError(f"{cls.stage} has no flag {name!r}", hint)
            option = options[key]
            may_be_off = option.optional and option.shape == "switch"
            if value is not False or may_be_off:
                chosen[key] = value
        for key, option in options.items():
            if option.default is not MISSING or key in chosen:
                continue
            if not option.optional:
                sentence = f"{cls.stage} needs {option.flag.metavar or option.typed}"
                raise UsageError(sentence, f"give {option.meaning}")
            chosen[key] = None
        return cls(**chosen)

    @classmethod
    def fields_of(cls, flags: Mapping[str, Any]) -> list[str]:
        """The names of the fields that flags fill, with those of the parts in their texts. Raises
        UsageError.
        """
        names = []
        for name, value in flags.items():
            option = _options_of(cls)[name.replace("-", "_")]
            names.append(option.name)
            if option.parts and isinstance(value, str):
                names += option.divided(value)[1]
        return names

    def reading(self, source: Source) -> Self:
        """These options on what an earlier stage made."""
        inputs = [option.name for option in self.declared() if _is_input(option)]
        return replace(self, **dict.fromkeys(inputs, source))

    def changed(self, *names: str) -> list[Option]:
        """The flags, of all or of those named, whose value is not the default."""
        options = [_options_of(type(self))[name] for name in names] or self.declared()
        return [option for option in options if getattr(self, option.name) != option.default]

    def unusual(self, *names: str) -> list[Option]:
        """The changed flags without open ones that were filled in with their usual value."""
        unusual = []
        for option in self.changed(*names):
            if getattr(self, option.name) != self.usual.get(option.name, MISSING):
                unusual.append(option)
        return unusual

    @classmethod
    def marked(cls, mark: Mark) -> list[Option]:
        """The flags that have a mark, in the order in which they are written."""
        return [option for option in cls.declared() if mark in option.flag.marks]

    def of_mark(self, mark: Mark) -> dict[str, Any]:
        """The values of the flags that have a mark, by name."""
        return {option.name: getattr(self, option.name) for option in self.marked(mark)}

    def given(self, mark: Mark) -> dict[str, Any]:
        """The values of the flags that have a mark and are not left at their default, by name."""
        changed = [option.name for option in self.changed()]
        return {name: value for name, value in self.of_mark(mark).items() if name in changed}

    def filled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of fields: these, but for what these options do not leave open."""
        given = {name: getattr(self, name) for name in values}
        return {**values, **{name: value for name, value in given.items() if value is not None}}

    def record(self, options: Iterable[Option]) -> dict[str, Any]:
        """The values of these options as a manifest has them, by name."""
        recorded = {}
        for option in options:
            value = getattr(self, option.name)
            if value != option.default or option.flag.recorded != "on":
                recorded[option.name] = value
        return recorded

    def argv(self) -> list[str]:
        """The command line that means these options: what differs from the defaults, in one
        order.
        """
        changed = {option.name: getattr(self, option.name) for option in self.changed()}
        return [self.stage, *self._words(changed)]

    def _words(self, values: Mapping[str, Any]) -> list[str]:
        """The flags with these values, by name; parts are in the text of the option that holds
        them.
        """
        words: list[str] = []
        for option in self.declared():
            value = values.get(option.name)
            if option.parts:
                value = option.joined(value, values) or None
            if not option.flag.within:
                words += option.words(value)
        return words

    def made_by(self, always: Sequence[str] = ()) -> list[str]:
        """The command line as a manifest records it: without locations, of a file its name.

        always: flags that are written even where they have their default.
        """
        values = {}
        for option in recorded(type(self)):
            value = getattr(self, option.name)
            if value != option.default or option.name in always:
                values[option.name] = Path(value).name if option.path and value else value
        return [self.stage, *self._words(values)]


def _is_input(option: Option) -> bool:
    """Tell whether an option is what a stage reads: a path without a flag's name."""
    return option.flag.argument and option.flag.local


def _place(option: Option) -> tuple[bool, bool]:
    return not option.flag.argument, _is_input(option)


def recorded(cls: type[Options]) -> list[Option]:
    """The options that a manifest records."""
    return [option for option in cls.declared() if option.flag.recorded and not option.flag.local]


Class = TypeVar("Class", bound=type["Options"])


def left_open(cls: Class) -> Class:
    """A decorator below @dataclass: fields whose flag is open begin as None, to be filled in before
    they count.
    """
    cls.usual = {}
    for base in cls.__mro__[:-1]:
        for name, hint in dict(base.__annotations__).items():
            if get_origin(hint) is not Annotated or name in cls.usual:
                continue
            inner, meaning, *rest = get_args(hint)
            if any(isinstance(part, Flag) and part.open for part in rest):
                cls.usual[name] = getattr(cls, name)
                cls.__annotations__[name] = Annotated[inner | None, meaning, *rest]
                setattr(cls, name, None)
    return cls


def text(value: Any) -> str:
    """A value as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def path_of(source: Source | None) -> Path | None:
    """A path that may be left open."""
    return None if source is None else Path(source)


def pairs(flag: str, table: Mapping[str, Any] | Sequence[str] | None) -> dict[str, str]:
    """A table, or KEY=VALUE texts, as a dict of texts. Raises UsageError."""
    if isinstance(table, Mapping):
        return {str(key): text(value) for key, value in table.items()}
    texts: dict[str, str] = {}
    for pair in [table] if isinstance(table, str) else table or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            hint = f"write for example --{flag} tau=0.4"
            raise UsageError(f"--{flag} {pair!r} is not key=value", hint)
        if key in texts:
            raise UsageError(f"--{flag} {key} is given twice", "give each option once")
        texts[key.strip()] = value.strip()
    return texts
