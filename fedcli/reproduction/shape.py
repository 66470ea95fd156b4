"""The keys of a recipe file and what each may hold, read by pydantic; an error becomes one sentence
with its place."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..errors import UsageError, nearest
from ..metrics.task import ONE
from .flags import MARK, checked

STAGES = "prepare", "partition", "corrupt", "train", "evaluate"
# of a column: its sign, what a number in the scores is multiplied by, and the digits that are shown
UNITS = {
    "percent": ("%", 100.0, 2),
    "points": ("points", 100.0, 2),
    "MB": ("MB", 1e-6, 6),  # single bytes
    "none": ("", 1.0, 2),
}
HIDDEN = "Cc", "Cf", "Cs", "Zl", "Zp"  # categories of characters that break a line or are invisible
Kind = Literal["sweep", "convergence", "landscape-1d", "landscape-2d", "series", "histograms"]
FIGURES: dict[Kind, set[str]] = {  # kind -> what it may say beside title and kind
    "sweep": {"x", "columns", "lines", "rows"},
    "convergence": {"data", "rows", "metric", "version", "by"},
    "landscape-1d": {"data", "rows", "version"},
    "landscape-2d": {"data", "rows", "version"},
    "series": {"data", "rows", "series"},
    "histograms": {"data", "rows"},
}
NEEDED: dict[Kind, str] = {"sweep": "x", "series": "series"}  # kind -> what it must say
PLAIN = (
    ("^(Input|Tuple|List|Dictionary) ", ""),
    ("tuple", "list"),
    ("dictionary", "table"),
    (" after validation", ""),
)


def _wrong(sentence: str, hint: str) -> PydanticCustomError:
    return PydanticCustomError(
        "fedcli",
        "{sentence}",
        {"sentence": sentence, "hint": hint},
    )


def _visible(text: str) -> str:
    if not text.strip():
        raise _wrong("is empty", "give it a text, or leave it out")
    for sign in text:
        if sign == MARK or unicodedata.category(sign) in HIDDEN:
            hint = "write it on one line, in signs that can be seen"
            raise _wrong(f"holds the character {sign!r}", hint)
    return text


def _dashless(name: str) -> str:
    if name.startswith("-"):
        raise _wrong(f"{name!r} begins with a dash", "a name begins with a letter or a digit")
    return name


def _once(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(items)) < len(items):
        words = ", ".join(repr(item) for item in items)
        raise _wrong(f"has one of {words} twice", "write each once")
    return items


Text = Annotated[StrictStr, AfterValidator(_visible)]
# stands on a command line, where a dash begins a flag
Word = Annotated[Text, AfterValidator(_dashless)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1), AfterValidator(_once)]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**63)]
FileName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Flags = dict[Text, Any]
Values = Annotated[list[Any], Field(min_length=1)]


class RecipePart(BaseModel):
    """A part of a recipe; the flags of a stage and the options of a method in it are checked by
    name and kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator(*STAGES, "settings", check_fields=False)
    @classmethod
    def _checked(
        cls,
        flags: Flags | None,
        field: ValidationInfo,
    ) -> Flags | None:
        if not flags:
            return flags
        stage = "set" if field.field_name == "settings" else str(field.field_name)
        try:
            return checked(stage, flags)
        except UsageError as error:
            raise _wrong(error.sentence, error.hint) from None


class Stages(RecipePart):
    prepare: Flags = {}
    partition: Flags = {}
    corrupt: Flags | None = None
    train: Flags = {}


class ScaleChanges(Stages):
    evaluate: Flags = {}
    settings: Flags = Field(default={}, alias="set")


class Lists(RecipePart):
    prepare: Flags
    partition: Flags


class Data(ScaleChanges):
    """A chain of stages, which makes one data set of the table.

    `lists` replace prepare and partition by the authors' published ones, with what a row adds to
    them, where the user brings all files that they name. `train` and `settings` are of the rows on
    it that leave them open, settings where their method has them.
    """

    title: Text = ""
    lists: Lists | None = None
    dataset: Text


class RecipeRow(Stages):
    """One line of the table: a method and what it has of its own; with `vary` one for each value.

    As it is run, a varied row has the one value of its own in `vary`.
    """

    name: Text
    scores_of: Literal["", "personal", "mean_personal"] = ""
    method: Word
    data: Texts = ()
    settings: Flags = Field(default={}, alias="set")
    vary: Annotated[dict[Text, Values], Field(min_length=1)] = {}

    @property
    def varied_values(self) -> Flags:
        """The varied options of the row with their values, such as {"set.q": 0.5}."""
        return {option: values[0] for option, values in self.vary.items()}

    @property
    def stem(self) -> str:
        """The name of the row that was varied."""
        stem = self.name.removesuffix(named_after(self.varied_values)).removesuffix(", ")
        return stem or self.method

    def with_values(self, values: Flags) -> "RecipeRow":
        """This row with some of its values changed, named after them. values: by option, such as
        "set.q"."""
        changes: dict[str, Any] = {}
        for stage in ("settings", *STAGES[:-1]):
            changes[stage] = dict(getattr(self, stage) or {})
        for option, value in values.items():
            stage, _, key = option.partition(".")
            if stage == "set":
                changes["settings"][key] = value
            else:
                changes[stage][key.replace("-", "_")] = value
        changes["name"] = f"{self.name}, {named_after(values)}"
        changes["vary"] = {option: [value] for option, value in values.items()}
        return self.model_copy(update=changes)

    def place(self, score: str) -> str:
        """The place in the scores of a column's number of this row."""
        if not self.scores_of or not score.startswith(("versions/", "groups/")):
            return score
        return f"personal/{self.scores_of}/{score.removeprefix('versions/')}"


def named_after(values: Flags) -> str:
    return ", ".join(f"{key_of(option)}={value}" for option, value in values.items())


def key_of(option: str) -> str:
    """The last part of a varied option's name: "q" of "set.q"."""
    return option.partition(".")[2]


class WrittenColumn(RecipePart):
    """One number of each row: where it stands in the scores, and how it is shown.

    A part of `score` that is * takes the mean over all that stand there, in each round. `minus`
    names a row whose number of the same seed and round is taken off; that row itself has none, and
    BEST_OTHER is the best of the others.
    """

    name: Text
    data: Text = ""
    score: Text = ""
    unit: Literal["percent", "points", "MB", "none"] = "percent"
    lower: StrictBool = False
    minus: Text = ""
    mean_of: Texts = ()
    harmonic_mean_of: Texts = ()


class RecipeFigure(RecipePart):
    """One picture; an empty field means all, or has no meaning for its kind."""

    title: Text
    kind: Kind = "sweep"
    x: Text = ""
    columns: Texts = ()
    lines: Texts = ()
    rows: Texts = ()
    series: Text = ""
    data: Text = ""
    by: Text = ""
    # one of a list that another room keeps
    metric: Literal[*ONE.curves] = ONE.curves[0]  # type: ignore[valid-type]
    version: Literal["", "clean", "corrupted", "validation"] = ""

    @model_validator(mode="after")
    def _as_its_kind(self) -> "RecipeFigure":
        fields = FIGURES[self.kind]
        odd = sorted(self.model_fields_set - fields - {"title", "kind"})
        if odd:
            fields_text = ", ".join(sorted(fields))
            raise _wrong(f"a {self.kind} has no {odd[0]}", f"it has {fields_text}")
        key = NEEDED.get(self.kind, "title")
        if key not in self.model_fields_set:
            raise _wrong(f"has no {key}", f'add {key} = "..."')
        return self


class PrintedLayout(RecipePart):
    """The shape in which the paper prints its table; by default a line for each row, a column for
    each column.

    over: words of columns' names that stand once over all that have them. down: those that make a
    line of their own of each row; outer: above the rows' names. across: words of rows' names that
    make a column of their own. transposed: rows and columns change places.
    """

    over: Texts = ()
    down: Texts = ()
    across: Texts = ()
    outer: StrictBool = False
    transposed: StrictBool = False


class AskedFile(RecipePart):
    """A file that the user brings: what it is in words, or a file of a card, which `reproduce
    --fetch` gets."""

    what: Text = ""
    card: Text = ""
    path: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _in_words(cls, body: Any) -> Any:
        return {"what": body} if isinstance(body, str) else body

    @model_validator(mode="after")
    def _of_something(self) -> Self:
        if bool(self.card) != bool(self.path) or not (self.card or self.what):
            hint = 'describe it in words, or write { card = "moco-v2", path = "..." }'
            raise _wrong("names no file", hint)
        return self


class WrittenRecipe(RecipePart):
    """A recipe as written; README of recipes/ says what each key means."""

    title: Text
    paper: Text = ""
    published: Text = ""
    notes: Texts = ()
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1), AfterValidator(_once)] = (0,)
    spread: Literal["pooled", "runs"] = "pooled"
    at: Literal["last5", "last", "best"] = "last5"
    reference: Text = ""
    layout: PrintedLayout = PrintedLayout()
    files: dict[FileName, AskedFile] = {}
    chains: Annotated[dict[Word, Data], Field(min_length=1, alias="data")]
    train: Flags = {}
    rows: Annotated[tuple[RecipeRow, ...], Field(min_length=1, alias="row")]
    columns: Annotated[tuple[WrittenColumn, ...], Field(min_length=1, alias="column")]
    figures: tuple[RecipeFigure, ...] = Field(default=(), alias="figure")
    small: ScaleChanges = ScaleChanges()
    smoke: ScaleChanges = ScaleChanges()


class Printed(RecipePart):
    """A number as printed. digits: behind the point, of its whole column; runs: those that it is
    the mean of."""

    mean: Annotated[float, Field(strict=True, allow_inf_nan=False)]
    std: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)] | None = None
    digits: Annotated[StrictInt, Field(ge=0, le=9)] = 2
    runs: Annotated[StrictInt, Field(ge=1)] = 1


class Published(RecipePart):
    """Published numbers: row -> column -> mean and spread as printed.

    runs: those that each is the mean of, where the paper says. digits: behind the point; default:
    the most of a column, as text loses zeros at the end.
    """

    source: Text = ""
    unit: Text = ""
    digits: Annotated[StrictInt, Field(ge=0, le=9)] | None = None
    runs: Annotated[StrictInt, Field(ge=1)] = 1
    rows: dict[Text, dict[Text, Printed]]


PARTS: dict[Any, type[RecipePart]] = {
    "row": RecipeRow,
    "column": WrittenColumn,
    "figure": RecipeFigure,
    "data": Data,
    "small": ScaleChanges,
    "smoke": ScaleChanges,
    "rows": Printed,
    "layout": PrintedLayout,
    "files": AskedFile,
}
Read = TypeVar("Read", bound=RecipePart)


def read(part: type[Read], body: Any) -> Read:
    """The part that a file's body is. Raises UsageError that names the place of the first
    mistake."""
    try:
        return part.model_validate(body)
    except ValidationError as error:
        mistake = error.errors()[0]
    raise _error(part, body, mistake)


def _error(part: type[RecipePart], body: Any, mistake: Any) -> UsageError:
    """The error that names a mistake, as pydantic reports it, in the body of a part."""
    *above, key = mistake["loc"] or ("",)
    where = _named(above, body) or "the recipe"
    if mistake["type"] == "extra_forbidden":
        innermost = PARTS[above[0]] if above else part
        keys = [field.alias or name for name, field in innermost.model_fields.items()]
        key_hint = nearest(str(key), keys)
        return UsageError(f"{where}: unknown key {key!r}", key_hint)
    if mistake["type"] == "missing":
        return UsageError(f"{where} has no {key}", "recipes/README.md shows one")
    sentence = mistake["msg"]
    for word, plain in PLAIN:
        sentence = re.sub(word, plain, sentence)
    where = _named([*above, key], body)
    hint = "recipes/README.md shows one that is sound"
    if mistake["type"] == "fedcli":
        hint = mistake["ctx"]["hint"]
        if key in (*STAGES, "set"):
            where += ":"
    return UsageError(f"{where} {sentence}", hint)


def _named(steps: Sequence[Any], body: Any) -> str:
    """The place that steps through a file lead to: "row 'FedAvg': train", "data.noise.corrupt"."""
    where = ""
    for step in steps:
        inner = None
        if isinstance(body, list) or (isinstance(body, dict) and step in body):
            inner = body[step]
        if isinstance(step, int):
            is_table = isinstance(inner, dict)
            where += f" {_label(inner, step)!r}" if is_table else f", value {step + 1},"
        elif step != "[key]":
            if where:
                where += ": " if "'" in where else "."
            where += step if step.isprintable() else repr(step)
        body = inner
    return where


def _label(item: Any, position: int) -> Any:
    """The name or title of an item of a list, or else its number."""
    for key in ("name", "title"):
        if key in item:
            return item[key]
    return position + 1
