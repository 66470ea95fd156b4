"""A recipe: the rows, data, columns and figures of one published table, read from a TOML file and
checked.

README of recipes/ lists the keys. Every mistake is reported with its place and the nearest known
word.
"""

import json
from collections import Counter
from collections.abc import Collection
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
from ..natural import folded
from ..scores.shots import thresholds
from . import places, shape
from .flags import Flags, check_value, checked, files_in, one_of, placed
from .shape import RecipeFigure, RecipeRow

SCALES = ("paper", "small", "smoke")
ON_VALIDATION = "best_on_validation/validation"  # the one place whose numbers may choose
BEST_OTHER = "*"
PUBLISHED = (
    '{"source": "...", "unit": "percent", "rows": {row: {column: {"mean": 76.77, "std": 0.68}}}}'
)
PERCENT = "percent", "points"  # units of columns that a published table in percent is about
MOST_DIGITS = 9

_PACKAGE = Path(fedcli.__file__).parent
FOLDERS = _PACKAGE / "recipes", _PACKAGE.parent / "recipes"  # installed, or in a checkout


class RecipeColumn(shape.WrittenColumn):
    """A column as it is shown.

    Attributes:
        marked: whether its best is marked; a score that may choose nothing has none.
        validation: whether it is of the clients' validation images in each run's best round: it has
            a table of its own.
    """

    marked: bool = True
    validation: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns that this one is the mean of; empty for one with a score of its own."""
        return self.mean_of or self.harmonic_mean_of


class Recipe(shape.WrittenRecipe):
    """A recipe as it is run: rows varied, defaults filled in.

    Attributes:
        files: name of a file that the user brings -> what it is, and where a card says its address;
            see data.sources.cards.
        numbers: row -> column -> the published number.
        tests_of_chosen: whether test scores are shown of the values alone that validation images
            choose.
    """

    name: str
    columns: tuple[RecipeColumn, ...]
    tests_of_chosen: bool = False
    numbers: dict[str, dict[str, shape.Printed]] = {}

    def row(self, name: str) -> RecipeRow:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def personal(self) -> list[str]:
        """Rows that show clients' own models; tests know the global model's predictions alone."""
        return [row.name for row in self.rows if row.scores_of]

    def changes(self, scale: str, stage: str) -> Flags:
        """Flags of a stage, or options of methods ("settings"), that the recipe itself has for a
        scale."""
        if scale == "paper":
            return {}
        return getattr(getattr(self, scale), stage) or {}


def recipes_folder() -> Path:
    """The folder of the recipes that come with fedcli, and of their files: "{recipes}" in a
    flag."""
    for folder in FOLDERS:
        if folder.is_dir():
            return folder
    raise FedcliError(f"the recipes are missing from {FOLDERS[0]}", "install fedcli again")


def names() -> dict[str, Path]:
    """The recipes that come with fedcli; one in a sub-folder has its name before its own, as in
    benchmark/office-probe."""
    folder = recipes_folder()
    files = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    for path in sorted(folder.glob("*/*.toml")):
        files[f"{path.parent.name}/{path.stem}"] = path
    return files


def find(recipe: str) -> Path:
    """The file of a recipe given by name or by path. Raises UsageError, also for another recipe
    with the file name of one of fedcli's."""
    path = Path(recipe)
    paths = names()
    if path.is_file():
        _check_own_name(path, paths.values())
        return path
    is_path = path.suffix == ".toml" or path.parent != Path()
    words = [recipe, path.stem] if is_path else [recipe]
    for word in words:
        for name, file in paths.items():
            if _folded(word) in (_folded(name), _folded(file.stem)):
                return file
    word = words[-1].lower()
    every_name = [*papers(), *paths]
    close = [name for name in every_name if word in name]
    if not close:
        close = get_close_matches(word, every_name, cutoff=0.6)
    hint = "`fedcli reproduce` lists all"
    if close:
        names_text = " or ".join(map(repr, close[:3]))
        hint = f"did you mean {names_text}?"
    raise UsageError(f"no such recipe: {recipe}", hint)


def _check_own_name(path: Path, shipped: Collection[Path]) -> None:
    """Refuse a recipe whose table would go into the folder of a different one."""
    of_this_name = [toml_text.read(file) for file in shipped if file.name == path.name]
    if of_this_name and toml_text.read(path) not in of_this_name:
        raise UsageError(
            f"{path} has the name of one of fedcli's recipes and is different: both would write "
            "their tables into the same folder",
            f"rename it, for example to my-{path.name}",
        )


def papers() -> dict[str, list[Path]]:
    """Paper -> the files of its recipes: of one with a table, all whose names begin as that
    one's."""
    paths = names()
    with_tables = {name.rpartition("-table")[0] for name in paths if "-table" in name}
    files_by_paper = {}
    for paper in sorted(with_tables):
        prefix = f"{paper}-"
        files_by_paper[paper] = [file for name, file in paths.items() if name.startswith(prefix)]
    return files_by_paper


def paper_of(name: str) -> str:
    """The paper that has this name; "" where it is none, or a file."""
    if not Path(name).is_file():
        for paper in papers():
            if _folded(paper) == _folded(name):
                return paper
    return ""


def recipes_of(name: str) -> list[Path]:
    """The files of a paper's recipes, or of the one recipe given by name or by path. Raises
    UsageError."""
    paper = paper_of(name)
    return papers()[paper] if paper else [find(name)]


def _folded(name: str) -> str:
    """A name without case, blanks and punctuation, and + as recipes write it: FedISM+ Table2 is
    fedism-plus-table2."""
    return folded(name).replace("+", "plus")


def load(path: Path) -> Recipe:
    """Read a recipe and check all that can be known without running it. Raises UsageError."""
    body = toml_text.read(path)
    with placed(path.name):
        return _recipe(
            path.stem,
            shape.read(shape.WrittenRecipe, body),
            path.parent,
        )


def _recipe(name: str, written: shape.WrittenRecipe, folder: Path) -> Recipe:
    for key, data in written.chains.items():
        _check_data(f"data.{key}", data, written)
    rows: list[RecipeRow] = []
    for row in written.rows:
        rows += _rows(row, written)
    files = {}
    for key, file in written.files.items():
        files[key] = file if file.what else _of_card(key, file)
    values: dict[str, Any] = dict(written)
    values["name"] = name
    values["rows"] = tuple(rows)
    values["files"] = files
    values["columns"] = tuple(_column(column, written, rows) for column in written.columns)
    values["reference"] = written.reference or rows[0].name
    recipe = Recipe.model_construct(**values)
    row_names = [row.name for row in rows]
    _check_once("row", row_names)
    titles = [data.title or name for name, data in written.chains.items()]
    _check_once("data set", titles)
    _check_once("column", [column.name for column in recipe.columns])
    _check_once("figure", [figure.title for figure in recipe.figures])
    one_of("reference", recipe.reference, row_names)
    _check_layout(recipe)
    numbers = _published(recipe, folder / "published") if recipe.published else {}
    _check_scores(recipe)
    for figure in recipe.figures:
        with placed(f"figure {figure.title!r}"):
            _check_figure(recipe, figure)
    return recipe.model_copy(update={"numbers": numbers})


def _check_once(title: str, names: list[str]) -> None:
    counts: Counter[str] = Counter()
    for name in names:
        counts[name] += 1
        if counts[name] > 1:
            hint = f"give each {title} its own name"
            raise UsageError(f"two {title}s are named {name!r}", hint)


def _of_card(key: str, file: shape.AskedFile) -> shape.AskedFile:
    known_cards = [*cards.published(), *sources.SOURCES]
    one_of(
        f"files.{key}: card",
        file.card,
        known_cards,
    )
    card_files = cards.fetching(file.card).files
    described = [fetched for fetched in card_files if "what" in fetched]
    texts = {fetched["path"]: fetched["what"] for fetched in described}
    path = one_of(f"files.{key}: path", file.path, texts)
    return file.model_copy(update={"what": texts[path]})


def _check_data(
    where: str,
    data: shape.Data,
    written: shape.WrittenRecipe,
) -> None:
    one_of(f"{where}: dataset", data.dataset, sources.SOURCES)
    if data.corrupt is not None and "kind" not in data.corrupt:
        raise UsageError(f"{where}.corrupt has no kind", 'write kind = "gaussian"')
    for file in sorted(files_in(data.lists)):
        one_of(f"{where}.lists: file", file, written.files)


def _rows(row: RecipeRow, written: shape.WrittenRecipe) -> list[RecipeRow]:
    """The rows that a written one stands for: itself, or one for each of the values that it
    varies."""
    where = f"row {row.name!r}"
    for name in row.data:
        one_of(f"{where}: data", name, written.chains)
    chain_names = row.data or tuple(written.chains)
    row = row.model_copy(update={"data": chain_names})
    rows = [row]
    if row.vary:
        with placed(where):
            rows = _varied(row)
    if rows[0].corrupt:
        for name in row.data:
            if written.chains[name].corrupt is None:
                sentence = f"{where} changes the corruption of {name}, which has none"
                raise UsageError(sentence, f"leave {name} out of its data")
    return rows


def _varied(row: RecipeRow) -> list[RecipeRow]:
    for option, values in row.vary.items():
        stage, _, key = option.partition(".")
        if stage not in ("set", *shape.STAGES[:-1]) or not key:
            hint = 'write for example "set.q" or "corrupt.ratio"'
            raise UsageError(f"vary {option!r} names no key", hint)
        for value in values:
            with placed("vary"):
                check_value(value, f"{option!r}: {value!r}")
                checked(stage, {key: value})
    choices = product(*row.vary.values())
    combinations = [dict(zip(row.vary, chosen)) for chosen in choices]
    return [row.with_values(values) for values in combinations]


def _column(
    column: shape.WrittenColumn,
    written: shape.WrittenRecipe,
    rows: list[RecipeRow],
) -> RecipeColumn:
    """A column with its defaults; a mean of others has their unit and direction.

    Where validation images choose among the rows, no best is marked by test images.
    """
    where = f"column {column.name!r}"
    values: dict[str, Any] = dict(column)
    values["marked"] = all(other.score != ON_VALIDATION for other in written.columns)
    for key in ("mean_of", "harmonic_mean_of"):
        if getattr(column, key):
            part = _like_its_parts(where, column, key, written)
            values["unit"] = part.unit
            values["lower"] = part.lower
            return RecipeColumn.model_construct(**values)
    if not column.score:
        hint = 'write for example score = "versions/clean/accuracy"'
        raise UsageError(f"{where} has no score", hint)
    if not column.data and len(written.chains) > 1:
        hint = f"add data, one of {', '.join(written.chains)}"
        raise UsageError(f"{where} does not say which data it is about", hint)
    data = column.data or next(iter(written.chains))
    values["data"] = one_of(f"{where}: data", data, written.chains)
    if column.minus:
        row_names = [row.name for row in rows]
        one_of(f"{where}: minus", column.minus, [BEST_OTHER, *row_names])
    values["validation"] = column.score == ON_VALIDATION
    return RecipeColumn.model_construct(**values)


def _like_its_parts(
    where: str,
    column: shape.WrittenColumn,
    key: str,
    written: shape.WrittenRecipe,
) -> shape.WrittenColumn:
    """The first of the columns that a column is the mean of, which have one unit and direction.

    key: mean_of or harmonic_mean_of. Raises UsageError.
    """
    ignored = sorted(column.model_fields_set - {"name", key})
    if ignored:
        sentence = f"{where} is a mean of others and has no {ignored[0]} of its own"
        raise UsageError(sentence, f"leave {ignored[0]} out")
    with_score = {other.name: other for other in written.columns if other.score}
    written_names = getattr(column, key)
    names = [one_of(f"{where}: {key}", name, with_score) for name in written_names]
    parts = [with_score[name] for name in names]
    scales = {(part.unit, part.lower) for part in parts}
    if len(scales) > 1:
        hint = "give them the same unit and the same lower"
        raise UsageError(f"{where} is a mean of columns in different units or directions", hint)
    return parts[0]


def _check_layout(recipe: Recipe) -> None:
    """Raise UsageError for a word that stands in none of the names it is to be taken from."""
    columns = [column.name for column in recipe.columns]
    rows = [row.name for row in recipe.rows]
    for key, names in (("over", columns), ("down", columns), ("across", rows)):
        for word in getattr(recipe.layout, key):
            if not any(word in name for name in names):
                plural = "rows" if key == "across" else "columns"
                sentence = f"layout: {key} {word!r} is in the name of none of the {plural}"
                raise UsageError(sentence, nearest(word, names))


def _check_scores(recipe: Recipe) -> None:
    """Refuse what would fail only after training: an attribute or a place in scores.json that is
    not there."""
    for scale, name in product(SCALES, recipe.chains):
        data = recipe.chains[name]
        evaluate = data.evaluate | recipe.changes(scale, "evaluate")
        attributes = _attributes(evaluate.get("by") or [], name)
        where_evaluated = f"data.{name}.evaluate" if scale == "paper" else f"{scale}.evaluate"
        with placed(where_evaluated):
            places.check_by(attributes, data.dataset)
            thresholds(evaluate.get("shots") or None)
        for column in recipe.columns:
            if column.data == name:
                _check_score(recipe, column, attributes)


def _attributes(value: Any, data: str) -> list[str]:
    """The attributes that `by` of evaluate names: one, or a list. data: what {data} stands for."""
    values = value if isinstance(value, list) else [value]
    return [str(value).replace("{data}", data) for value in values]


def _check_score(
    recipe: Recipe,
    column: RecipeColumn,
    attributes: list[str],
) -> None:
    is_best = recipe.at == "best"
    data = recipe.chains[column.data]
    if is_best or column.score.startswith("best_on_validation/"):
        _check_validated(recipe, column.data)
    with placed(f"column {column.name!r}"):
        is_corrupted = data.corrupt is not None
        places.check(
            column.score,
            data.dataset,
            attributes,
            corrupted=is_corrupted,
            best=is_best,
        )


def _check_validated(recipe: Recipe, name: str) -> None:
    """Refuse data whose clients lack the validation parts that the best round on validation
    needs."""
    for row in recipe.rows:
        if name not in row.data:
            continue
        partition = recipe.chains[name].partition | row.partition
        if not partition.get("val"):
            lacking = f"data.{name} has no validation parts to choose the best round by"
            hint = f"write val = 0.1 in data.{name}.partition"
            raise UsageError(f"{lacking}, for row {row.name!r}", hint)


def _check_figure(recipe: Recipe, figure: RecipeFigure) -> None:
    """Refuse a picture of rows, columns or data that are not there, or of images that the data
    lack."""
    rows: set[str] = set()
    varied: set[str] = set()
    for row in recipe.rows:
        rows.update((row.name, row.stem))
        varied.update(row.vary)
    columns = {column.name for column in recipe.columns}
    choices: dict[str, Collection[str]] = {
        "columns": columns,
        "rows": rows,
        "lines": rows,
        "x": varied,
        "data": recipe.chains,
    }
    for key, names in choices.items():
        value = getattr(figure, key)
        for name in [value] if isinstance(value, str) else value:
            if name:
                one_of(key, name, names)
    name = figure.data or next(iter(recipe.chains))
    data = recipe.chains[name]
    if figure.by:
        places.check_by([figure.by], data.dataset)
    if figure.version == "corrupted" and data.corrupt is None:
        raise UsageError(f"data.{name} has no corrupted images", 'use version = "clean"')
    if figure.version == "validation":
        if figure.kind != "convergence":
            sentence = f"a {figure.kind} is not of validation images"
            raise UsageError(sentence, 'write version = "clean"')
        _check_validated(recipe, name)


def _published(recipe: Recipe, folder: Path) -> dict[str, dict[str, shape.Printed]]:
    """The published numbers, in the columns' units.

    folder: published/ beside the recipe; no name may lead out of it.
    """
    file = recipe.published
    body = _published_body(file, folder)
    try:
        published = shape.read(shape.Published, body)
    except UsageError as error:
        raise UsageError(f"{file}: {error.sentence}", f"write {PUBLISHED}") from None
    columns = {column.name: column for column in recipe.columns}
    row_names = [row.name for row in recipe.rows]
    digits_of_column: dict[str, int] = {}  # behind the point
    for row, numbers in published.rows.items():
        one_of(f"{file}: row", row, row_names)
        for name, printed in numbers.items():
            one_of(f"{file}: {row}: column", name, columns)
            _check_unit(file, published.unit, columns[name])
            exponent = Decimal(str(printed.mean)).as_tuple().exponent
            digits = -int(exponent)
            digits_of_column[name] = max(digits_of_column.get(name, digits), digits)
    published_by_row: dict[str, dict[str, shape.Printed]] = {}
    for row, numbers in published.rows.items():
        published_by_row[row] = {}
        for name, printed in numbers.items():
            digits = min(published.digits or digits_of_column[name], MOST_DIGITS)
            update = {"digits": digits, "runs": published.runs}
            published_by_row[row][name] = printed.model_copy(update=update)
    return published_by_row


def _published_body(file: str, folder: Path) -> Any:
    try:
        path = (folder / file).resolve()
        if Path(file).is_absolute() or not path.is_relative_to(folder.resolve()):
            hint = "give the name of a file in that folder"
            raise UsageError(f"published {file!r} lies outside of {folder}", hint)
        return json.loads((folder / file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, RuntimeError) as error:
        sentence = f"published {file!r} cannot be read: {error}"
        raise UsageError(sentence, f"it belongs in {folder}") from None


def _check_unit(file: str, unit: str, column: RecipeColumn) -> None:
    """Refuse published numbers in another unit than a column's.

    They stand beside ours as they are, so both are in one unit; a difference in percent is in
    points.
    """
    is_in_percent = column.unit in PERCENT
    if unit in ("", column.unit) or (unit == "percent" and is_in_percent):
        return
    expected = "percent" if is_in_percent else column.unit
    raise UsageError(
        f"{file}: unit {unit!r} differs from the unit of column {column.name!r}, {column.unit}",
        f"give the numbers in {expected}, or change the column's unit",
    )
