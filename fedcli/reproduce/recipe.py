"""A recipe: the rows, data, columns and figures of one published table, read from a TOML file and checked.

README of recipes/ lists the keys. Every mistake is reported with its place and the nearest known word.
"""

import json
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any

import fedcli

from ..data import sources
from ..data.sources import cards
from ..errors import FedcliError, UsageError, nearest
from ..io import toml_text
from ..scores.shots import thresholds
from . import places, shape
from .flags import Flags, check_value, checked, files_in, one_of, placed
from .shape import Figure, Row

SCALES = ("paper", "small", "smoke")
ON_VALIDATION = "best_on_validation/validation"  # the one place whose numbers may choose
BEST_OTHER = "*"
PUBLISHED = (
    '{"source": "...", "unit": "percent", "rows": {row: {column: {"mean": 76.77, "std": 0.68}}}}'
)
PERCENT = "percent", "points"  # units of columns that a published table in percent is about

_PACKAGE = Path(fedcli.__file__).parent
FOLDERS = _PACKAGE / "recipes", _PACKAGE.parent / "recipes"  # installed, or in a checkout


class Column(shape.Column):
    """A column as it is shown.

    Attributes:
        marked: whether its best is marked; a score that may choose nothing has none.
        validation: whether it is of the clients' validation images in each run's best round: it has a table of its own.
    """

    marked: bool = True
    validation: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns that this one is the mean of; empty for one with a score of its own."""
        return self.mean_of or self.harmonic_mean_of


class Recipe(shape.Recipe):
    """A recipe as it is run: rows varied, defaults filled in.

    Attributes:
        files: name of a file that the user brings -> what it is, and where a card says its address; see
            data.sources.cards.
        numbers: row -> column -> the published number.
        tests_of_chosen: whether test scores are shown of the values alone that validation images choose.
    """

    name: str
    columns: tuple[Column, ...]
    tests_of_chosen: bool = False
    numbers: dict[str, dict[str, shape.Printed]] = {}

    def row(self, name: str) -> Row:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def personal(self) -> list[str]:
        """Rows that show clients' own models; tests know the global model's predictions alone."""
        return [row.name for row in self.rows if row.scores_of]

    def changes(self, scale: str, stage: str) -> Flags:
        """Flags of a stage, or options of methods ("settings"), that the recipe itself has for a scale."""
        return {} if scale == "paper" else getattr(getattr(self, scale), stage) or {}


def recipes_folder() -> Path:
    """Where the recipes that come with fedcli are, and files of theirs: "{recipes}" in a flag."""
    for folder in FOLDERS:
        if folder.is_dir():
            return folder
    raise FedcliError(f"the recipes are missing from {FOLDERS[0]}", "install fedcli again")


def names() -> dict[str, Path]:
    """The recipes that come with fedcli."""
    return {path.stem: path for path in sorted(recipes_folder().glob("*.toml"))}


def find(recipe: str) -> Path:
    """The file of a recipe given by name or by path. Raises UsageError."""
    path = Path(recipe)
    if path.is_file():
        return path
    known = names()
    word = path.stem if path.suffix == ".toml" or path.parent != Path() else recipe
    if name := {_folded(name): name for name in known}.get(_folded(word)):
        return known[name]
    every = [*papers(), *known]
    close = [name for name in every if word.lower() in name] or get_close_matches(
        word.lower(), every, cutoff=0.6
    )
    meant = (
        f"did you mean {' or '.join(map(repr, close[:3]))}?"
        if close
        else "`fedcli reproduce` lists all"
    )
    raise UsageError(f"no such recipe: {recipe}", meant)


def papers() -> dict[str, list[Path]]:
    """Paper -> the files of its recipes: of one with a table, all whose names begin as that one's."""
    known = names()
    with_tables = {name.rpartition("-table")[0] for name in known if "-table" in name}
    return {
        paper: [known[name] for name in known if name.startswith(f"{paper}-")]
        for paper in sorted(with_tables)
    }


def paper_of(name: str) -> str:
    """The paper that has this name; "" where it is none, or a file."""
    return (
        ""
        if Path(name).is_file()
        else {_folded(paper): paper for paper in papers()}.get(_folded(name), "")
    )


def recipes_of(name: str) -> list[Path]:
    """The files of a paper's recipes, or of the one recipe given by name or by path. Raises UsageError."""
    paper = paper_of(name)
    return papers()[paper] if paper else [find(name)]


def _folded(name: str) -> str:
    """A name without case, blanks and punctuation, and + as recipes write it: FedISM+ Table2 is fedism-plus-table2."""
    return "".join(c for c in name.lower().replace("+", "plus") if c.isalnum())


def load(path: Path) -> Recipe:
    """Read a recipe and check all that can be known without running it. Raises UsageError."""
    body = toml_text.read(path)
    with placed(path.name):
        return _recipe(path.stem, shape.read(shape.Recipe, body), path.parent)


def _recipe(name: str, written: shape.Recipe, folder: Path) -> Recipe:
    for key, data in written.chains.items():
        _check_data(f"data.{key}", data, written)
    rows = tuple(row for given in written.rows for row in _rows(given, written))
    files = {key: file if file.what else _of_card(key, file) for key, file in written.files.items()}
    columns = tuple(_column(given, written, rows) for given in written.columns)
    filled = {"name": name, "rows": rows, "files": files, "columns": columns}
    recipe = Recipe.model_construct(
        **dict(written) | filled | {"reference": written.reference or rows[0].name}
    )
    named = {
        "row": [row.name for row in rows],
        "column": [column.name for column in recipe.columns],
    }
    named["figure"] = [figure.title for figure in recipe.figures]
    for what, names in named.items():
        if twice := [name for number, name in enumerate(names) if name in names[:number]]:
            raise UsageError(
                f"two {what}s are named {twice[0]!r}", f"give each {what} its own name"
            )
    one_of("reference", recipe.reference, named["row"])
    _check_layout(recipe)
    numbers = _published(recipe, folder / "published") if recipe.published else {}
    _check_scores(recipe)
    for figure in recipe.figures:
        with placed(f"figure {figure.title!r}"):
            _check_figure(recipe, figure)
    return recipe.model_copy(update={"numbers": numbers})


def _of_card(key: str, file: shape.AskedFile) -> shape.AskedFile:
    one_of(f"files.{key}: card", file.card, [*cards.published(), *sources.SOURCES])
    known = {
        each["path"]: each["what"] for each in cards.fetching(file.card).files if "what" in each
    }
    return file.model_copy(update={"what": known[one_of(f"files.{key}: path", file.path, known)]})


def _check_data(where: str, data: shape.Data, written: shape.Recipe) -> None:
    one_of(f"{where}: dataset", data.dataset, sources.SOURCES)
    if data.corrupt is not None and "kind" not in data.corrupt:
        raise UsageError(f"{where}.corrupt has no kind", 'write kind = "gaussian"')
    for file in sorted(files_in(data.lists)):
        one_of(f"{where}.lists: file", file, written.files)


def _rows(given: Row, written: shape.Recipe) -> list[Row]:
    where = f"row {given.name!r}"
    for name in given.data:
        one_of(f"{where}: data", name, written.chains)
    row = given.model_copy(update={"data": given.data or tuple(written.chains)})
    with placed(where):
        rows = _varied(row) if given.vary else [row]
    if rows[0].corrupt and (
        plain := [name for name in row.data if written.chains[name].corrupt is None]
    ):
        hint = f"leave {plain[0]} out of its data"
        raise UsageError(f"{where} changes the corruption of {plain[0]}, which has none", hint)
    return rows


def _varied(row: Row) -> list[Row]:
    for path, values in row.vary.items():
        stage, _, key = path.partition(".")
        if stage not in ("set", *shape.STAGES[:-1]) or not key:
            raise UsageError(
                f"vary {path!r} names no key", 'write for example "set.q" or "corrupt.ratio"'
            )
        for value in values:
            with placed("vary"):
                check_value(value, f"{path!r}: {value!r}")
                checked(stage, {key: value})
    return [
        row.at_values(dict(zip(row.vary, chosen, strict=True)))
        for chosen in product(*row.vary.values())
    ]


def _column(given: shape.Column, written: shape.Recipe, rows: tuple[Row, ...]) -> Column:
    """A column with its defaults; a mean of others has their unit and direction.

    Where validation images choose among the rows, no best is marked by test images.
    """
    where = f"column {given.name!r}"
    filled: dict[str, Any] = {
        "marked": all(column.score != ON_VALIDATION for column in written.columns)
    }
    if key := next((key for key in ("mean_of", "harmonic_mean_of") if getattr(given, key)), ""):
        if own := sorted(given.model_fields_set - {"name", key}):
            raise UsageError(
                f"{where} is a mean of others and has no {own[0]} of its own", f"leave {own[0]} out"
            )
        single = {column.name: column for column in written.columns if column.score}
        parts = [single[one_of(f"{where}: {key}", name, single)] for name in getattr(given, key)]
        if len({(part.unit, part.lower) for part in parts}) > 1:
            hint = "give them the same unit and the same lower"
            raise UsageError(f"{where} is a mean of columns in different units or directions", hint)
        filled |= {"unit": parts[0].unit, "lower": parts[0].lower}
        return Column.model_construct(**dict(given) | filled)
    if not given.score:
        raise UsageError(
            f"{where} has no score", 'write for example score = "versions/clean/accuracy"'
        )
    if not given.data and len(written.chains) > 1:
        hint = f"add data, one of {', '.join(written.chains)}"
        raise UsageError(f"{where} does not say which data it is about", hint)
    filled["data"] = one_of(
        f"{where}: data", given.data or next(iter(written.chains)), written.chains
    )
    if given.minus:
        one_of(f"{where}: minus", given.minus, [BEST_OTHER, *(row.name for row in rows)])
    return Column.model_construct(
        **dict(given) | filled | {"validation": given.score == ON_VALIDATION}
    )


def _check_layout(recipe: Recipe) -> None:
    """Raise UsageError for a word that stands in none of the names it is to be taken from."""
    columns, rows = [column.name for column in recipe.columns], [row.name for row in recipe.rows]
    for key, names in (("over", columns), ("down", columns), ("across", rows)):
        for word in getattr(recipe.layout, key):
            if not any(word in name for name in names):
                of = "rows" if key == "across" else "columns"
                raise UsageError(
                    f"layout: {key} {word!r} is in the name of none of the {of}",
                    nearest(word, names),
                )


def _check_scores(recipe: Recipe) -> None:
    """Refuse what would fail only after training: an attribute or a place in scores.json that is not there."""
    best = recipe.at == "best"
    for scale, (name, data) in product(SCALES, recipe.chains.items()):
        evaluate = data.evaluate | recipe.changes(scale, "evaluate")
        given = evaluate.get("by") or []
        by = [
            str(each).replace("{data}", name)
            for each in (given if isinstance(given, list) else [given])
        ]
        with placed(f"data.{name}.evaluate" if scale == "paper" else f"{scale}.evaluate"):
            places.check_by(by, data.dataset)
            thresholds(evaluate.get("shots") or None)
        for column in recipe.columns:
            if column.data == name:
                if best or column.score.startswith("best_on_validation/"):
                    _check_validated(recipe, name)
                with placed(f"column {column.name!r}"):
                    places.check(
                        column.score,
                        data.dataset,
                        by,
                        corrupted=data.corrupt is not None,
                        best=best,
                    )


def _check_validated(recipe: Recipe, name: str) -> None:
    """The best round on validation needs clients with validation parts."""
    for row in recipe.rows:
        if name in row.data and not (recipe.chains[name].partition | row.partition).get("val"):
            lacking = f"data.{name} has no validation parts to choose the best round by, for row {row.name!r}"
            raise UsageError(lacking, f"write val = 0.1 in data.{name}.partition")


def _check_figure(recipe: Recipe, figure: Figure) -> None:
    """A picture is of rows, columns and data that there are; one of corrupted or of validation images needs some."""
    rows = {name for row in recipe.rows for name in (row.name, row.stem)}
    varied = {path for row in recipe.rows for path in row.at}
    columns = {column.name for column in recipe.columns}
    named: list[tuple[str, Iterable[str], Any]] = [
        ("columns", figure.columns, columns),
        ("rows", figure.rows, rows),
        ("lines", figure.lines, rows),
        ("x", [figure.x], varied),
        ("data", [figure.data], recipe.chains),
    ]
    for key, given, known in named:
        for name in filter(None, given):
            one_of(key, name, known)
    data = figure.data or next(iter(recipe.chains))
    if figure.by:
        places.check_by([figure.by], recipe.chains[data].dataset)
    if figure.version == "corrupted" and recipe.chains[data].corrupt is None:
        raise UsageError(f"data.{data} has no corrupted images", 'use version = "clean"')
    if figure.version == "validation":
        if figure.kind != "convergence":
            raise UsageError(
                f"a {figure.kind} is not of validation images", 'write version = "clean"'
            )
        _check_validated(recipe, data)


def _published(recipe: Recipe, folder: Path) -> dict[str, dict[str, shape.Printed]]:
    """The published numbers, in the columns' units.

    folder: published/ beside the recipe; no name may lead out of it.
    """
    file, columns = recipe.published, {column.name: column for column in recipe.columns}
    try:
        if Path(file).is_absolute() or not (folder / file).resolve().is_relative_to(
            folder.resolve()
        ):
            raise UsageError(
                f"published {file!r} lies outside of {folder}",
                "give the name of a file in that folder",
            )
        body = json.loads((folder / file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, RuntimeError) as error:
        raise UsageError(
            f"published {file!r} cannot be read: {error}", f"it belongs in {folder}"
        ) from None
    try:
        published = shape.read(shape.Published, body)
    except UsageError as error:
        raise UsageError(f"{file}: {error.sentence}", f"write {PUBLISHED}") from None
    most: dict[str, int] = {}  # digits behind the point of a column
    for row, numbers in published.rows.items():
        one_of(f"{file}: row", row, [known.name for known in recipe.rows])
        for name, printed in numbers.items():
            digits = -int(Decimal(str(printed.mean)).as_tuple().exponent)
            most[name] = max(most.get(name, digits), digits)
            unit, own = (
                published.unit,
                columns[one_of(f"{file}: {row}: column", name, columns)].unit,
            )
            # numbers stand beside ours as they are, so both are in one unit; a difference in percent is in points
            if unit not in ("", own) and not (unit == "percent" and own in PERCENT):
                hint = f"give the numbers in {'percent' if own in PERCENT else own}, or change the column's unit"
                raise UsageError(
                    f"{file}: unit {unit!r} is not that of column {name!r}, {own}", hint
                )
    return {
        row: {
            name: printed.model_copy(
                update={"digits": min(published.digits or most[name], 9), "runs": published.runs}
            )
            for name, printed in numbers.items()
        }
        for row, numbers in published.rows.items()
    }
