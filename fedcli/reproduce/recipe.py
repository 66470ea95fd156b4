"""A recipe: the rows, data, columns and figures of one published table, read from a TOML file and checked.

README of recipes/ lists the keys. Every mistake is told with the place it stands at and the nearest known word.
"""

import json
import tomllib
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import fedcli

from ..errors import FedcliError, UsageError, nearest
from . import commandline

SCALES = ("paper", "small", "smoke")
STAGES = ("prepare", "partition", "corrupt", "train", "evaluate")
UNITS = ("percent", "points", "MB", "none")
SPREADS, MOMENTS = ("pooled", "runs"), ("last5", "last", "best")
FIGURES = ("sweep", "convergence", "landscape-1d", "landscape-2d", "series", "histograms")
KEYS = {
    "the recipe": {
        "title", "paper", "published", "notes", "seeds", "spread", "at", "reference", "data", "train", "row", "column",
        "figure", "small", "smoke",
    },
    "data": {"title", "dataset", *STAGES} - {"train"},
    "row": {"name", "method", "set", "data", "vary", *STAGES} - {"evaluate"},
    "column": {"name", "data", "score", "unit", "lower"},
    "figure": {"title", "kind", "x", "columns", "lines", "rows", "series", "data", "metric", "version"},
    "scale": set(STAGES) - {"evaluate"},
}  # fmt: skip

_PACKAGE = Path(fedcli.__file__).parent
FOLDERS = _PACKAGE / "recipes", _PACKAGE.parent / "recipes"  # installed, or in a checkout

Flags = dict[str, Any]


@dataclass(frozen=True)
class Chain:
    """The stages that make one data set of the table.

    Attributes:
        corrupt: flags with the kind of corruption under "kind"; None for none.
    """

    name: str
    title: str
    dataset: str
    prepare: Flags = field(default_factory=dict)
    partition: Flags = field(default_factory=dict)
    corrupt: Flags | None = None
    evaluate: Flags = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One line of the table: a method and what it has of its own.

    Attributes:
        data: names of the chains it runs on.
        at: where a varied row stands: place -> value, such as {"set.q": 0.5}.
        stem: the name of the row that was varied.
    """

    name: str
    method: str
    settings: Flags
    data: tuple[str, ...]
    prepare: Flags = field(default_factory=dict)
    partition: Flags = field(default_factory=dict)
    corrupt: Flags = field(default_factory=dict)
    train: Flags = field(default_factory=dict)
    at: Flags = field(default_factory=dict)
    stem: str = ""


@dataclass(frozen=True)
class Column:
    """One number of each row: where it stands in scores.json, and how it is shown.

    Attributes:
        lower: better when low.
        marked: whether its best is marked; a score that may choose nothing has none.
    """

    name: str
    data: str
    score: str
    unit: str = "percent"
    lower: bool = False
    marked: bool = True


@dataclass(frozen=True)
class Figure:
    """One picture; an empty field takes all, or has no meaning for its kind."""

    title: str
    kind: str = "sweep"
    x: str = ""
    columns: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    series: str = ""
    data: str = ""
    metric: str = "balanced_accuracy"
    version: str = ""


@dataclass(frozen=True)
class Recipe:
    """One table. `scales` holds what the recipe itself changes at a scale: scale -> stage -> flags."""

    name: str
    title: str
    paper: str
    notes: tuple[str, ...]
    seeds: tuple[int, ...]
    spread: str
    at: str
    reference: str
    published: dict[str, Any]
    train: Flags
    chains: dict[str, Chain]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    figures: tuple[Figure, ...]
    scales: dict[str, dict[str, Flags]]


def names() -> dict[str, Path]:
    """The recipes that come with fedcli."""
    for folder in FOLDERS:
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.toml"))}
    raise FedcliError(f"the recipes are missing from {FOLDERS[0]}", "install fedcli again")


def find(recipe: str) -> Path:
    """The file of a recipe given by name or by path. Raises UsageError."""
    path = Path(recipe)
    if path.is_file():
        return path
    if path.suffix == ".toml" or path.parent != Path():
        known = names()
        if path.stem not in known:
            raise UsageError(f"no such recipe: {recipe}", nearest(path.stem, known))
        return known[path.stem]
    if recipe not in names():
        raise UsageError(f"no such recipe: {recipe}", nearest(recipe, names()))
    return names()[recipe]


def load(path: Path) -> Recipe:
    """Read a recipe and check all that can be told without running it. Raises UsageError."""
    try:
        return _recipe(path.stem, tomllib.loads(path.read_text(encoding="utf-8")), path.parent)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}", "mend that line") from None
    except UsageError as error:
        raise UsageError(f"{path.name}: {error.sentence}", error.hint) from None


def _recipe(name: str, body: dict[str, Any], folder: Path) -> Recipe:
    paper = body.pop("paper", "")
    at_paper = {"paper": paper} if isinstance(paper, dict) else {}  # [paper.train] would hide the citation
    if at_paper:
        raise UsageError("the recipe: paper is the citation", "what it holds at --scale paper is written as it is")
    _keys("the recipe", body, "the recipe")
    chains = {key: _chain(key, value) for key, value in _table(body, "data", "the recipe").items()}
    if not chains:
        raise UsageError("the recipe has no data", "add [data.NAME] with a dataset")
    train = _flags("train", body.get("train", {}), "train")
    rows = tuple(row for given in _tables(body, "row") for row in _rows(given, chains))
    columns = tuple(_column(given, chains) for given in _tables(body, "column"))
    for what, named in (("row", rows), ("column", columns)):
        _unlike(what, [one.name for one in named])
    published = _published(body.get("published"), folder, rows, columns)
    return Recipe(
        name, _word(body, "title", "the recipe", str), paper, tuple(body.get("notes", ())), _seeds(body.get("seeds", [0])),
        _one_of("spread", body.get("spread", "pooled"), SPREADS), _one_of("at", body.get("at", "last5"), MOMENTS),
        _one_of("reference", body.get("reference", rows[0].name), [row.name for row in rows]),
        published, train, chains, rows, columns,
        tuple(_figure(given, rows, columns, chains) for given in body.get("figure", [])),
        {scale: _scale(scale, body.get(scale, {})) for scale in SCALES[1:]},
    )  # fmt: skip


def _chain(name: str, body: dict[str, Any]) -> Chain:
    from ..data import sources

    where = f"data.{name}"
    _keys("data", body, where)
    dataset = _word(body, "dataset", where, str)
    if dataset not in sources.SOURCES:
        raise UsageError(f"{where}: unknown dataset {dataset!r}", nearest(dataset, sources.SOURCES))
    flags = {
        stage: _flags(stage, body.get(stage, {}), f"{where}.{stage}") for stage in ("prepare", "partition", "evaluate")
    }
    corrupt = body.get("corrupt")
    if corrupt is not None:
        corrupt = _flags("corrupt", corrupt, f"{where}.corrupt")
        _kind(_word(corrupt, "kind", f"{where}.corrupt", str), where)
    return Chain(name, body.get("title", name), dataset, corrupt=corrupt, **flags)


def _rows(body: dict[str, Any], chains: dict[str, Chain]) -> list[Row]:
    name = _word(body, "name", "a row", str)
    where = f"row {name!r}"
    _keys("row", body, where)
    on = tuple(body.get("data", chains))
    for one in on:
        _one_of(f"{where}: data", one, chains)
    own = {
        stage: _flags(stage, body.get(stage, {}), f"{where}: {stage}")
        for stage in ("prepare", "partition", "corrupt", "train")
    }
    if own["corrupt"] and (plain := [one for one in on if chains[one].corrupt is None]):
        raise UsageError(
            f"{where} changes the corruption of {plain[0]}, which has none", f"leave {plain[0]} out of its data"
        )
    row = Row(name, _word(body, "method", where, str), dict(body.get("set", {})), on, **own, stem=name)
    return _varied(row, body.get("vary", {}), where) if body.get("vary") else [row]


def _varied(row: Row, vary: dict[str, list], where: str) -> list[Row]:
    """One row per combination of the varied values."""
    for place, values in vary.items():
        stage, _, key = place.partition(".")
        if stage not in ("set", "train", "prepare", "partition", "corrupt") or not key:
            raise UsageError(f"{where}: vary {place!r} names no place", 'write for example "set.q" or "corrupt.ratio"')
        if stage != "set":
            _flags(stage, {key: values}, f"{where}: vary")
        if not isinstance(values, list) or not values:
            raise UsageError(f"{where}: vary {place!r} needs a list of values", f'write "{place}" = [0.5, 1]')
    return [at_values(row, dict(zip(vary, chosen, strict=True))) for chosen in product(*vary.values())]


def at_values(row: Row, at: Flags) -> Row:
    """A row with some of its values changed, named after them."""
    parts = {"set": dict(row.settings)} | {
        s: dict(getattr(row, s)) for s in ("prepare", "partition", "corrupt", "train")
    }
    for place, value in at.items():
        stage, _, key = place.partition(".")
        parts[stage][key] = value
    named = ", ".join(f"{place.partition('.')[2]}={value}" for place, value in at.items())
    return Row(f"{row.name}, {named}", row.method, parts.pop("set"), row.data, **parts, at=at, stem=row.name)


def _column(body: dict[str, Any], chains: dict[str, Chain]) -> Column:
    name = _word(body, "name", "a column", str)
    where = f"column {name!r}"
    _keys("column", body, where)
    if "data" not in body and len(chains) > 1:
        raise UsageError(f"{where} does not say which data it is about", f"add data, one of {', '.join(chains)}")
    data = _one_of(f"{where}: data", body.get("data", next(iter(chains))), chains)
    unit = _one_of(f"{where}: unit", body.get("unit", "percent"), UNITS)
    return Column(name, data, _word(body, "score", where, str), unit, bool(body.get("lower", False)))


def _figure(
    body: dict[str, Any], rows: tuple[Row, ...], columns: tuple[Column, ...], chains: dict[str, Chain]
) -> Figure:
    where = f"figure {body.get('title', '')!r}"
    _keys("figure", body, where)
    title, kind = _word(body, "title", "a figure", str), _one_of(f"{where}: kind", body.get("kind", "sweep"), FIGURES)
    known = {"columns": {column.name for column in columns}}
    known["rows"] = known["lines"] = {row.name for row in rows} | {row.stem for row in rows}
    listed = {
        key: tuple(_one_of(f"{where}: {key}", one, names) for one in body.get(key, ())) for key, names in known.items()
    }
    if kind == "sweep":
        varied = {place for row in rows for place in row.at}
        _one_of(f"{where}: x", _word(body, "x", where, str), varied)
    if kind == "series":
        _word(body, "series", where, str)
    if body.get("data"):
        _one_of(f"{where}: data", body["data"], chains)
    rest = {key: body[key] for key in ("x", "series", "data", "metric", "version") if key in body}
    return Figure(title, kind, **listed, **rest)


def _scale(scale: str, body: dict[str, Any]) -> dict[str, Flags]:
    _keys("scale", body, scale)
    return {stage: _flags(stage, given, f"{scale}.{stage}") for stage, given in body.items()}


def _published(file: str | None, folder: Path, rows: tuple[Row, ...], columns: tuple[Column, ...]) -> dict[str, Any]:
    """Row name -> column name -> {"mean", "std"} as printed, checked against the recipe's own names."""
    if file is None:
        return {}
    path = folder / "published" / file
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"published {file!r} cannot be read: {error}", f"it belongs in {path.parent}") from None
    found = body.get("rows") if isinstance(body, dict) else None
    if not isinstance(found, dict):
        raise UsageError(f"{file} has no rows", '{"source": ..., "rows": {row: {column: {"mean": 1.0, "std": 0.1}}}}')
    for row, cells in found.items():
        _one_of(f"{file}: row", row, [one.name for one in rows])
        for column, cell in cells.items():
            _one_of(f"{file}: {row}: column", column, [one.name for one in columns])
            if not isinstance(cell, dict) or not isinstance(cell.get("mean"), int | float):
                raise UsageError(f"{file}: {row}, {column} has no mean", 'write {"mean": 76.77, "std": 0.68}')
    return body


def _seeds(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not given or not all(type(seed) is int for seed in given):
        raise UsageError(f"seeds {given!r} is no list of whole numbers", "write seeds = [0, 1, 2]")
    _unlike("seed", [str(seed) for seed in given])
    return tuple(given)


def _flags(stage: str, given: Any, where: str) -> Flags:
    """Flags of a stage as a recipe gives them, checked by name; `kind` of corrupt is its argument."""
    if not isinstance(given, dict):
        raise UsageError(f"{where} is no table", f"write {where} = {{ flag = value }}")
    for name in given:
        if stage == "train" and name == "set":
            raise UsageError(f"{where}: a method's options stand in its row", "write set = { ... } in the row itself")
        if stage == "train" and name == "seed":
            raise UsageError(f"{where}: the seeds of training stand above", "write seeds = [0, 1, 2]")
        if (stage, name) == ("corrupt", "kind"):
            continue
        try:
            commandline.known(stage, name)
        except UsageError as error:
            raise UsageError(f"{where}: {error.sentence}", error.hint) from None
    return {name.replace("-", "_"): value for name, value in given.items()}


def _kind(kind: str, where: str) -> None:
    from ..data.corrupt import full_kind

    try:
        full_kind(kind)
    except UsageError as error:
        raise UsageError(f"{where}.corrupt: {error.sentence}", error.hint) from None


def _keys(what: str, body: Any, where: str) -> None:
    if not isinstance(body, dict):
        raise UsageError(f"{where} is no table", "see recipes/README.md")
    if odd := [key for key in body if key not in KEYS[what]]:
        raise UsageError(f"{where}: unknown key {odd[0]!r}", nearest(odd[0], KEYS[what]))


def _table(body: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    found = body.get(key, {})
    if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
        raise UsageError(f"{where}: {key} is no table of tables", f"write [{key}.NAME]")
    return found


def _tables(body: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = body.get(key)
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise UsageError(f"the recipe has no {key}", f"add [[{key}]]")
    return found


def _word(body: dict[str, Any], key: str, where: str, kind: type) -> Any:
    if not isinstance(body.get(key), kind) or not body[key]:
        raise UsageError(f"{where} has no {key}", f'write {key} = "..."')
    return body[key]


def _one_of(what: str, word: Any, known: Any) -> Any:
    if word not in known:
        raise UsageError(f"{what} {word!r} is unknown", nearest(str(word), known))
    return word


def _unlike(what: str, named: list[str]) -> None:
    if twice := [name for place, name in enumerate(named) if name in named[:place]]:
        raise UsageError(f"two {what}s are named {twice[0]!r}", f"give each {what} its own name")
