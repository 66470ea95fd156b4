"""A recipe: the rows, data, columns and figures of one published table, read from a TOML file and checked.

README of recipes/ lists the keys. Every mistake is reported with its place and the nearest known word.
"""

from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any

import fedcli

from ..errors import FedcliError, UsageError
from ..io import toml_text
from . import checks, places, published, shape
from .flags import files_in
from .model import BEST_OTHER, Chain, Column, Recipe, Row
from .shape import Figure

SCALES = ("paper", "small", "smoke")
ON_VALIDATION = "best_on_validation/validation"  # the one place whose numbers may choose

_PACKAGE = Path(fedcli.__file__).parent
FOLDERS = _PACKAGE / "recipes", _PACKAGE.parent / "recipes"  # installed, or in a checkout


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
    name = path.stem if path.suffix == ".toml" or path.parent != Path() else recipe
    if own := {_folded(own): own for own in known}.get(_folded(name)):
        return known[own]
    raise UsageError(f"no such recipe: {recipe}", _meant(name, known))


def _folded(name: str) -> str:
    """A name without case, blanks and punctuation, and + as recipes write it: FedISM+ Table2 is fedism-plus-table2."""
    return "".join(c for c in name.lower().replace("+", "plus") if c.isalnum())


def _meant(word: str, known: dict[str, Path]) -> str:
    """A hint that names the recipes that hold the word or are close to it, and otherwise how to list them."""
    close = [name for name in known if word.lower() in name] or get_close_matches(word.lower(), known, cutoff=0.6)
    if not close:
        return "`fedcli reproduce` lists all"
    return f"did you mean {' or '.join(map(repr, close[:3]))}?"


def load(path: Path) -> Recipe:
    """Read a recipe and check all that can be known without running it. Raises UsageError."""
    body = toml_text.read(path)
    try:
        return _recipe(path.stem, body, path.parent)
    except UsageError as error:
        raise UsageError(f"{path.name}: {error.sentence}", error.hint) from None


def _recipe(name: str, body: dict[str, Any], folder: Path) -> Recipe:
    written = shape.read(shape.Recipe, body)
    chains = {key: _chain(key, data) for key, data in written.data.items()}
    for chain in chains.values():
        for file in sorted(files_in(chain.lists)):
            checks.known(f"data.{chain.name}.lists: file", file, written.files)
    rows = tuple(row for given in written.row for row in _rows(given, chains))
    columns = tuple(_column(given, written, chains, rows) for given in written.column)
    for figure in written.figure:
        _check_names(figure, rows, columns, chains)
    checks.different("row", [row.name for row in rows])
    checks.different("column", [column.name for column in columns])
    checks.different("figure", [figure.title for figure in written.figure])
    reference = checks.known("reference", written.reference or rows[0].name, [row.name for row in rows])
    numbers = published.read(written.published, folder / "published", rows, columns) if written.published else {}
    scales = {scale: getattr(written, scale).model_dump(exclude_unset=True) for scale in SCALES[1:]}
    same = ("title", "paper", "notes", "seeds", "spread", "at", "train", "files")
    recipe = Recipe(
        name=name,
        reference=reference,
        published=numbers,
        chains=chains,
        rows=rows,
        columns=columns,
        figures=written.figure,
        scales=scales,
        **{key: getattr(written, key) for key in same},
    )
    _check_scores(recipe)
    for figure in written.figure:
        _check_figure(recipe, figure)
    return recipe


def _chain(name: str, data: shape.Data) -> Chain:
    from ..data import sources

    checks.known(f"data.{name}: dataset", data.dataset, sources.SOURCES)
    if data.corrupt is not None and "kind" not in data.corrupt:
        raise UsageError(f"data.{name}.corrupt has no kind", 'write kind = "gaussian"')
    return Chain.model_construct(**dict(data) | {"name": name, "title": data.title or name})


def _rows(given: shape.Row, chains: dict[str, Chain]) -> list[Row]:
    where = f"row {given.name!r}"
    for name in given.data:
        checks.known(f"{where}: data", name, chains)
    filled = {"data": given.data or tuple(chains), "corrupt": given.corrupt or {}, "stem": given.name}
    row = Row.model_construct(**dict(given) | filled)
    rows = _varied(row, given.vary, where) if given.vary else [row]
    if rows[0].corrupt and (plain := [name for name in row.data if chains[name].corrupt is None]):
        raise UsageError(
            f"{where} changes the corruption of {plain[0]}, which has none", f"leave {plain[0]} out of its data"
        )
    return rows


def _varied(row: Row, vary: dict[str, list[Any]], where: str) -> list[Row]:
    """One row per combination of the varied values."""
    for path, values in vary.items():
        stage, _, key = path.partition(".")
        if stage not in ("set", *checks.STAGES[:-1]) or not key:
            raise UsageError(f"{where}: vary {path!r} names no key", 'write for example "set.q" or "corrupt.ratio"')
        for value in values:
            try:
                checks.value_of(value, f"{path!r}: {value!r}")
                if stage != "set":
                    checks.flags(stage, {key: value})
            except UsageError as error:
                raise UsageError(f"{where}: vary: {error.sentence}", error.hint) from None
    return [row.at_values(dict(zip(vary, chosen, strict=True))) for chosen in product(*vary.values())]


def _column(
    given: shape.Column, written: shape.Recipe, chains: dict[str, Chain], rows: tuple[Row, ...]
) -> Column:  # fmt: skip
    where = f"column {given.name!r}"
    if given.mean_of or given.harmonic_mean_of:
        return _mean_of(given, written, where)
    if not given.score:
        raise UsageError(f"{where} has no score", 'write for example score = "versions/clean/accuracy"')
    if not given.data and len(chains) > 1:
        raise UsageError(f"{where} does not say which data it is about", f"add data, one of {', '.join(chains)}")
    data = checks.known(f"{where}: data", given.data or next(iter(chains)), chains)
    if given.minus:
        checks.known(f"{where}: minus", given.minus, [BEST_OTHER, *(row.name for row in rows)])
    filled = {"data": data, "marked": not _chosen(written), "validation": given.score == ON_VALIDATION}
    return Column.model_construct(**dict(given) | filled)


def _chosen(written: shape.Recipe) -> bool:
    """Tell whether validation images choose among the rows, so that no best is marked by test images."""
    return any(column.score == ON_VALIDATION for column in written.column)


def _mean_of(given: shape.Column, written: shape.Recipe, where: str) -> Column:
    """A column that is the mean of others, in their unit."""
    key = "mean_of" if given.mean_of else "harmonic_mean_of"
    if own := sorted(given.model_fields_set - {"name", key}):
        raise UsageError(f"{where} is a mean of others and has no {own[0]} of its own", f"leave {own[0]} out")
    single = {column.name: column for column in written.column if column.score}
    parts = [single[checks.known(f"{where}: {key}", name, single)] for name in getattr(given, key)]
    if len({(part.unit, part.lower) for part in parts}) > 1:
        raise UsageError(
            f"{where} is a mean of columns in different units or directions",
            "give them the same unit and the same lower",
        )
    filled = {"unit": parts[0].unit, "lower": parts[0].lower, "marked": not _chosen(written)}
    return Column.model_construct(**dict(given) | filled)


def _check_names(figure: Figure, rows: tuple[Row, ...], columns: tuple[Column, ...], chains: dict[str, Chain]) -> None:
    """A picture is of rows, columns and data that there are."""
    names = {row.name for row in rows} | {row.stem for row in rows}
    varied = {path for row in rows for path in row.at}
    asked = {
        "columns": figure.columns,
        "rows": figure.rows,
        "lines": figure.lines,
        "x": [figure.x],
        "data": [figure.data],
    }
    known = {"columns": {column.name for column in columns}, "rows": names, "lines": names, "x": varied, "data": chains}
    for key, given in asked.items():
        for name in filter(None, given):
            checks.known(f"figure {figure.title!r}: {key}", name, known[key])


def _check_scores(recipe: Recipe) -> None:
    """Refuse what would fail only after training: an attribute or a place in scores.json that is not there."""
    from ..scores.shots import thresholds

    for scale in SCALES:
        for chain in recipe.chains.values():
            where = f"data.{chain.name}.evaluate" if scale == "paper" else f"{scale}.evaluate"
            evaluate = chain.evaluate | recipe.scales.get(scale, {}).get("evaluate", {})
            by = _by(evaluate.get("by") or [], chain)
            places.check_by(by, chain.dataset, where)
            try:
                thresholds(evaluate.get("shots") or None)
            except UsageError as error:
                raise UsageError(f"{where}: {error.sentence}", error.hint) from None
            for column in recipe.columns:
                if column.data == chain.name:
                    best, corrupted = recipe.at == "best", chain.corrupt is not None
                    if best or column.score.startswith("best_on_validation/"):
                        _check_validated(recipe, chain)
                    where = f"column {column.name!r}"
                    places.check(column.score, chain.dataset, by, corrupted=corrupted, best=best, where=where)


def _by(given: Any, chain: Chain) -> list[str]:
    """The attributes asked for, where only the name of the data may be left open."""
    listed = given if isinstance(given, list) else [given]
    return [str(attribute).replace("{data}", chain.name) for attribute in listed]


def _check_validated(recipe: Recipe, chain: Chain) -> None:
    """The best round on validation needs clients with validation parts."""
    for row in recipe.rows:
        if chain.name in row.data and not (chain.partition | row.partition).get("val"):
            raise UsageError(
                f"data.{chain.name} has no validation parts to choose the best round by, for row {row.name!r}",
                f"write val = 0.1 in data.{chain.name}.partition",
            )


def _check_figure(recipe: Recipe, figure: Figure) -> None:
    """A picture of corrupted images needs some, and one of validation images too."""
    chain = recipe.chains[figure.data or next(iter(recipe.chains))]
    where = f"figure {figure.title!r}"
    if figure.by:
        places.check_by([figure.by], chain.dataset, where)
    if figure.version == "corrupted" and chain.corrupt is None:
        raise UsageError(f"{where}: data.{chain.name} has no corrupted images", 'use version = "clean"')
    if figure.version == "validation":
        if figure.kind != "convergence":
            raise UsageError(f"{where}: a {figure.kind} is not of validation images", 'write version = "clean"')
        _check_validated(recipe, chain)
