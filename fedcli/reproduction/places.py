"""Places in the nested form of a run's scores: what stands there, and whether a column can be of
it.

A column is checked before anything is trained, in the form of a run that has every number, whose
clients, groups and labels are named ANY.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from ..data import sources
from ..errors import UsageError, nearest
from ..metrics import METRICS, PARITY
from ..metrics.several_labels import OF_LABEL
from ..scores import nested, scores, table
from ..scores.groups import CROSS
from ..scores.parts import MODELS, SHOT_GROUPS
from .flags import MARK

ANY = MARK  # a name of the data
OTHER = MARK * 2  # a second one
DIFFERENCES = *PARITY, *(f"{name}_ovr_macro" for name in PARITY)

# attributes that a table in the folder may add
FROM_TABLES = {"isic2019": ["center"], "isic-skin-tone": ["center"]}


def attributes(dataset: str) -> list[str]:
    """The attributes that a dataset may have; [ANY] where only its files say."""
    if dataset == "images":
        return [ANY]
    declared = sources.card(dataset)["attributes"]
    return [*declared, *FROM_TABLES.get(dataset, [])]


def check_by(evaluated: Iterable[str], dataset: str) -> None:
    """Raise UsageError for an attribute, or one of several crossed, that the dataset cannot
    have."""
    names = attributes(dataset)
    for crossed in evaluated:
        parts = [part.strip() for part in crossed.split(CROSS)]
        for part in parts:
            if ANY not in names and part not in names:
                raise UsageError(f"{dataset} has no attribute {part!r}", nearest(part, names))
        if len(set(parts)) < len(parts):
            hint = "give each once, such as race*sex"
            raise UsageError(f"{crossed!r} crosses an attribute with itself", hint)


@dataclass(frozen=True)
class Reached:
    """Where a place leads.

    Attributes:
        values: all that stands there; empty where it leads nowhere.
        depth: how many of its parts lead somewhere. names: what goes on from there.
    """

    values: list[Any]
    depth: int
    names: list[str]


def reach(tree: Any, parts: list[str], depth: int = 0) -> Reached:
    """Follow the parts of a place. A part that is * means all between two others; a name may hold a
    slash."""
    below = tree if isinstance(tree, dict) else {}
    if not parts:
        return Reached([tree], depth, list(below))
    takes_all = parts[0] == "*"
    ways = _all_ways(below, parts, depth) if takes_all else _ways(below, parts, depth)
    if not ways:
        return Reached([], depth, list(below))
    furthest = max(ways, key=_furthest)
    values = furthest.values
    if takes_all:
        values = []
        for way in ways:
            values += way.values
    return Reached(values, furthest.depth, furthest.names)


def _all_ways(
    below: dict[str, Any],
    parts: list[str],
    depth: int,
) -> list[Reached]:
    """The ways through every name, between two other parts."""
    if not depth or len(parts) == 1:
        return []
    return [reach(inner, parts[1:], depth + 1) for inner in below.values()]


def _ways(below: dict[str, Any], parts: list[str], depth: int) -> list[Reached]:
    """The ways through a name of one part or of several, the longest first."""
    ways = []
    for count in range(len(parts), 0, -1):
        name = "/".join(parts[:count])
        if not name:
            continue
        if name not in below:
            name = ANY
        if name in below:
            end = depth + count
            ways.append(reach(below[name], parts[count:], end))
    return ways


def _furthest(way: Reached) -> tuple[bool, int]:
    return any(_is_number(value) for value in way.values), way.depth


def _is_number(value: Any) -> bool:
    """Tell whether a column can be of it: a number, one of each round, or one over the kept
    rounds."""
    if isinstance(value, dict):
        return "last" in value
    if isinstance(value, list):
        return bool(value) and all(_is_number(item) for item in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(tree: dict[str, Any]) -> dict[str, Any]:
    """The part of a tree that leads to numbers."""
    numbers = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            value = _numbers(value)
            if value:
                numbers[name] = value
        elif _is_number(value):
            numbers[name] = value
    return numbers


def rounds(tree: Any, score: str, moment: str) -> list[float]:
    """The number at a place in each round that counts; with a part * the mean over all that have
    one.

    moment: "last" for the last round alone. Empty where none of them has a meaning.
    """
    values_by_name: list[list[Any]] = []
    for value in reach(tree, score.split("/")).values:
        values = _by_round(value, moment)
        if None not in values:
            values_by_name.append(values)
    values_by_round = zip(*values_by_name, strict=True)
    return [sum(values) / len(values) for values in values_by_round]


def _by_round(value: Any, moment: str) -> list[Any]:
    """The values that stand at a place, one of each round that counts."""
    if isinstance(value, dict) and "last" in value:
        if moment == "last":
            return [value["last"]]
        value = value.get("per_round", [value["mean_last5"]])
    return value if isinstance(value, list) else [value]


def check(
    score: str,
    dataset: str,
    evaluated: Iterable[str],
    *,
    corrupted: bool,
    best: bool,
) -> None:
    """Raise UsageError for a place at which no scores.json has a number.

    evaluated: the attributes that are evaluated; none for all of the dataset's.
    best: the place is looked up in best_on_validation.
    """
    parts = score.split("/")
    names = tuple(evaluated) or tuple(attributes(dataset))
    tree = _whole(names, MODELS if corrupted else MODELS[:1])
    reached = reach(tree["best_on_validation"] if best else tree, parts)
    if any(_is_number(value) for value in reached.values):
        return
    hint = _hint(parts, reached, corrupted=corrupted)
    raise UsageError(f"scores.json has no number at {score!r}", hint)


def _hint(parts: list[str], reached: Reached, *, corrupted: bool) -> str:
    names = []
    for name in reached.names:
        if name == ANY:
            names.append("a name of your data")
        elif name != OTHER:
            names.append(name)
    if reached.depth == len(parts):
        if not names:
            return "leave the end out"
        return f"it goes on there with one of: {', '.join(names)}"
    if parts[reached.depth] in ("corrupted", "average") and not corrupted:
        return "its data have no corrupt stage"
    return nearest(parts[reached.depth], names)


@cache
def _whole(attributes: tuple[str, ...], versions: tuple[str, ...]) -> dict[str, Any]:
    """The numbers of a run that has every number, in their nested form."""
    client = scores.Client(versions[0], "own")
    score = table.Score(
        [0.5, 0.5],
        [1, 2],
        1,
        (),
        "",
        0.4,
        0.6,
        "bca by image",
        1,
    )
    whole = scores.RunScores(
        method="",
        label="",
        rule="",
        dataset="",
        settings={},
        options={},
        data={},
        rounds=1,
        roster_size=1,
        kept_rounds=[1],
        bytes=scores.Traffic(1.0, 1.0),
        personal_models=True,
        best=scores.Chosen(1, "", 1.0),
        shots=scores.Shots(1, 1, {}, []),
        train_images=1,
        clients={ANY: client, OTHER: client},
        severities={ANY: {ANY: scores.Severity(True, True)}},
        table=dict.fromkeys(_lines(attributes, versions), score),
    )
    return _numbers(nested.nested(whole))


def _lines(attributes: tuple[str, ...], versions: tuple[str, ...]) -> Iterator[table.Where]:
    """The lines that a table of scores may have."""
    for where in _test_sets(versions):
        yield from _lines_of(where, METRICS, attributes, METRICS, DIFFERENCES)
    for version in versions:
        for label in (*SHOT_GROUPS, "all", "balanced_accuracy"):
            yield table.Where(version, label=label, metric=scores.RECALL)
        where = table.Where(version, label=ANY)
        yield from _lines_of(where, OF_LABEL, attributes, ["auc"], PARITY)


def _test_sets(versions: tuple[str, ...]) -> Iterator[table.Where]:
    """The test sets, models and clients whose scores a table may hold."""
    for version in versions:
        for model in ("", "personal", "mean_personal", table.BEST):
            yield table.Where(version, model=model)
        yield table.Where(version, ANY)
    yield table.Where(f"{ANY} {ANY}")
    for client, model in product((ANY, OTHER), ("", scores.GLOBAL)):
        yield table.Where(versions[0], client=client, model=model)
    yield table.Where(versions[0], client=ANY, model=table.TRAINED_AT + ANY)


def _lines_of(
    where: table.Where,
    metrics: Iterable[str],
    attributes: Iterable[str],
    compared: Iterable[str],
    differences: Iterable[str],
) -> Iterator[table.Where]:
    """Lines of all images, of two groups of each attribute, and between these."""
    for metric in metrics:
        yield where._replace(metric=metric)
    for attribute in attributes:
        of_attribute = where._replace(attribute=attribute)
        for metric, group in product(compared, (ANY, OTHER)):
            yield of_attribute._replace(metric=metric, group=group)
        for name in differences:
            yield of_attribute._replace(metric=name)
