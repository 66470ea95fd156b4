"""Places in the nested form of a run's scores: what stands there, and whether a column can be of it.

A column is checked before anything is trained, in the form of a run that has every number, whose clients, groups and
labels are named ANY.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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

ANY, OTHER = MARK, MARK * 2  # a name of the data, and a second one
DIFFERENCES = *PARITY, *(f"{name}_ovr_macro" for name in PARITY)

FROM_TABLES = {
    "isic2019": ["center"],
    "isic-skin-tone": ["center"],
}  # attributes that a table in the folder may add


def attributes(dataset: str) -> list[str]:
    """Those that a dataset may have; [ANY] where only its files say."""
    if dataset == "images":
        return [ANY]
    return [*sources.card(dataset)["attributes"], *FROM_TABLES.get(dataset, [])]


def check_by(by: Iterable[str], dataset: str) -> None:
    """Raise UsageError for an attribute, or one of several crossed, that the dataset cannot have."""
    known = attributes(dataset)
    for name in by:
        parts = [part.strip() for part in name.split(CROSS)]
        if odd := [part for part in parts if ANY not in known and part not in known]:
            raise UsageError(f"{dataset} has no attribute {odd[0]!r}", nearest(odd[0], known))
        if len(set(parts)) < len(parts):
            raise UsageError(
                f"{name!r} crosses an attribute with itself", "give each once, such as race*sex"
            )


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
    """Follow the parts of a place. A part that is * means all between two others; a name may hold a slash."""
    below = tree if isinstance(tree, dict) else {}
    if not parts:
        return Reached([tree], depth, list(below))
    if parts[0] == "*":
        ways = (
            [reach(inner, parts[1:], depth + 1) for inner in below.values()]
            if depth and parts[1:]
            else []
        )
    else:
        heads = {count: "/".join(parts[:count]) for count in range(len(parts), 0, -1)}
        names = {count: head if head in below else ANY for count, head in heads.items() if head}
        ways = [
            reach(below[name], parts[count:], depth + count)
            for count, name in names.items()
            if name in below
        ]
    if not ways:
        return Reached([], depth, list(below))
    furthest = max(ways, key=lambda way: (any(map(_is_number, way.values)), way.depth))
    return (
        replace(furthest, values=[x for way in ways for x in way.values])
        if parts[0] == "*"
        else furthest
    )


def _is_number(value: Any) -> bool:
    """Tell whether a column can be of it: a number, one of each round, or one over the kept rounds."""
    if isinstance(value, dict):
        return "last" in value
    if isinstance(value, list):
        return bool(value) and all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(tree: dict[str, Any]) -> dict[str, Any]:
    """The part of a tree that leads to numbers."""
    inner = {
        name: _numbers(value) if isinstance(value, dict) else value for name, value in tree.items()
    }
    return {
        name: value
        for name, value in inner.items()
        if (isinstance(value, dict) and value) or _is_number(value)
    }


def rounds(tree: Any, place: str, at: str) -> list[float]:
    """The number at a place in each round that counts; with a part * the mean over all that have one.

    at: "last" for the last round alone. Empty where none of them has a meaning.
    """
    values: list[list[Any]] = []
    for value in reach(tree, place.split("/")).values:
        if isinstance(value, dict) and "last" in value:
            over = value.get("per_round", [value["mean_last5"]])
            value = [value["last"]] if at == "last" else over
        values.append(value if isinstance(value, list) else [value])
    known = [numbers for numbers in values if None not in numbers]
    return [sum(numbers) / len(numbers) for numbers in zip(*known, strict=True)]


def check(place: str, dataset: str, by: Iterable[str], *, corrupted: bool, best: bool) -> None:
    """Raise UsageError for a place at which no scores.json has a number.

    by: the attributes that are evaluated; none for all of the dataset's.
    best: the place is looked up in best_on_validation.
    """
    parts = place.split("/")
    whole = _whole(tuple(by) or tuple(attributes(dataset)), MODELS if corrupted else MODELS[:1])
    reached = reach(whole["best_on_validation"] if best else whole, parts)
    if any(map(_is_number, reached.values)):
        return
    names = [
        "a name of your data" if name == ANY else name for name in reached.names if name != OTHER
    ]
    if reached.depth == len(parts):
        hint = f"it goes on there with one of: {', '.join(names)}" if names else "leave the end out"
    elif parts[reached.depth] in ("corrupted", "average") and not corrupted:
        hint = "its data have no corrupt stage"
    else:
        hint = nearest(parts[reached.depth], names)
    raise UsageError(f"no number stands at {place!r} of scores.json", hint)


@cache
def _whole(attributes: tuple[str, ...], versions: tuple[str, ...]) -> dict[str, Any]:
    named = {ANY: scores.Client(versions[0], "own"), OTHER: scores.Client(versions[0], "own")}
    about: dict[str, Any] = dict.fromkeys(("method", "label", "rule", "dataset"), "")
    about |= {"settings": {}, "options": {}, "data": {}}
    sure = table.Score([0.5, 0.5], [1, 2], 1, (), "", 0.4, 0.6, "bca by image", 1)
    made = scores.Scores(
        **about,
        rounds=1,
        roster_size=1,
        kept_rounds=[1],
        bytes=scores.Traffic(1.0, 1.0),
        personal_models=True,
        best=scores.Chosen(1, "", 1.0),
        shots=scores.Shots(1, 1, {}, []),
        train_images=1,
        clients=named,
        severities={ANY: {ANY: scores.Severity(True, True)}},
        table=dict.fromkeys(_lines(attributes, versions), sure),
    )
    return _numbers(nested.nested(made))


def _lines(attributes: tuple[str, ...], versions: tuple[str, ...]) -> Iterator[table.Where]:
    """Whose every number of a table may be."""
    whole = [*(("", model) for model in ("", "personal", "mean_personal", table.BEST)), (ANY, "")]
    shown = [(v, view, "", model) for v, (view, model) in product(versions, whole)]
    shown += [(f"{ANY} {ANY}", "", "", "")]
    shown += [
        (versions[0], "", client, model) for client in (ANY, OTHER) for model in ("", scores.GLOBAL)
    ]
    shown += [(versions[0], "", ANY, table.TRAINED_AT + ANY)]
    for version, view, client, model in shown:
        where = table.Where(version, view, client=client, model=model)
        yield from (where._replace(metric=metric) for metric in METRICS)
        for name, metric, group in product(attributes, METRICS, (ANY, OTHER)):
            yield where._replace(attribute=name, metric=metric, group=group)
        yield from (
            where._replace(attribute=name, metric=metric)
            for name, metric in product(attributes, DIFFERENCES)
        )
    for version in versions:
        for label in (*SHOT_GROUPS, "all", "balanced_accuracy"):
            yield table.Where(version, label=label, metric=scores.RECALL)
        for metric in OF_LABEL:
            yield table.Where(version, label=ANY, metric=metric)
            for name, group in product(attributes, (ANY, OTHER) if metric == "auc" else ()):
                yield table.Where(version, "", name, group, label=ANY, metric=metric)
        for name, metric in product(attributes, PARITY):
            yield table.Where(version, "", name, label=ANY, metric=metric)
