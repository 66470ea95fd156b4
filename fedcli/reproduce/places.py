"""Where the numbers of a run stand in its nested form, so that a column is checked before anything is trained.

The places are those of a run that has every number, whose clients, groups and labels are named ANY.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import Any

from ..errors import UsageError, nearest
from ..metrics import METRICS, PARITY
from ..metrics.several_labels import OF_LABEL
from ..scores import nested, scores, table
from ..scores.groups import CROSS
from ..scores.parts import MODELS, SHOT_GROUPS

ANY, OTHER = "*", "* *"  # a name of the data, and a second one
DIFFERENCES = *PARITY, *(f"{name}_ovr_macro" for name in PARITY)

FROM_TABLES = {"isic2019": ["center"], "isic-skin-tone": ["center"]}  # attributes that a table in the folder may add


def attributes(dataset: str) -> list[str]:
    """Those that a dataset may have; [ANY] where only its files say."""
    from ..data import sources

    if dataset == "images":
        return [ANY]
    return [*sources.card(dataset)["attributes"], *FROM_TABLES.get(dataset, [])]


def check_by(by: Iterable[str], dataset: str, where: str) -> None:
    """Raise UsageError for an attribute, or one of several crossed, that the dataset cannot have."""
    known = attributes(dataset)
    for name in by:
        parts = [part.strip() for part in name.split(CROSS)]
        if odd := [part for part in parts if ANY not in known and part not in known]:
            raise UsageError(f"{where}: {dataset} has no attribute {odd[0]!r}", nearest(odd[0], known))
        if len(set(parts)) < len(parts):
            raise UsageError(f"{where}: {name!r} crosses an attribute with itself", "give each once, such as race*sex")


def check(place: str, dataset: str, by: Iterable[str], *, corrupted: bool, best: bool, where: str) -> None:
    """Raise UsageError for a place at which no scores.json has a number.

    by: the attributes that are evaluated; none for all of the dataset's.
    best: the place is looked up in best_on_validation.
    """
    parts = place.split("/")
    whole = _whole(tuple(by) or tuple(attributes(dataset)), MODELS if corrupted else MODELS[:1])
    fault = _fault(whole["best_on_validation"] if best else whole, parts)
    if fault is None:
        return
    depth, known = fault
    sentence = f"{where}: no number stands at {place!r} of scores.json"
    if depth == len(parts):
        raise UsageError(
            sentence, f"it goes on there with one of: {', '.join(known)}" if known else "leave the end out"
        )
    if parts[depth] in ("corrupted", "average") and not corrupted:
        raise UsageError(sentence, "its data have no corrupt stage")
    raise UsageError(sentence, nearest(parts[depth], known))


@cache
def _whole(attributes: tuple[str, ...], versions: tuple[str, ...]) -> dict[str, Any]:
    """The nested form of a run that has every number."""
    named = {ANY: scores.Client(versions[0], "own"), OTHER: scores.Client(versions[0], "own")}
    about: dict[str, Any] = {
        "method": "",
        "label": "",
        "rule": "",
        "dataset": "",
        "settings": {},
        "options": {},
        "data": {},
    }
    sure = table.Score([0.5, 0.5], [1, 2], 1, (), "", 0.4, 0.6, "bca by image", 1)
    made = scores.Scores(
        **about, rounds=1, roster_size=1, kept_rounds=[1], bytes=scores.Traffic(1.0, 1.0), personal_models=True,
        best=scores.Chosen(1, "", 1.0), shots=scores.Shots(1, 1, {}, []), train_images=1, clients=named,
        severities={ANY: {ANY: scores.Severity(True, True)}},
        table=dict.fromkeys(_lines(attributes, versions), sure),
    )  # fmt: skip
    return nested.nested(made)


def _lines(attributes: tuple[str, ...], versions: tuple[str, ...]) -> Iterator[table.Where]:
    """Whose every number of a table may be."""
    whole = [*(("", model) for model in ("", "personal", "mean_personal", table.BEST)), (ANY, "")]
    shown = [(v, view, "", model) for v, (view, model) in product(versions, whole)]
    shown += [(f"{ANY} {ANY}", "", "", "")]
    shown += [(versions[0], "", client, model) for client in (ANY, OTHER) for model in ("", scores.GLOBAL)]
    shown += [(versions[0], "", ANY, table.TRAINED_AT + ANY)]
    for version, view, client, model in shown:
        where = table.Where(version, view, client=client, model=model)
        yield from (where._replace(metric=metric) for metric in METRICS)
        for name, metric, group in product(attributes, METRICS, (ANY, OTHER)):
            yield where._replace(attribute=name, metric=metric, group=group)
        yield from (where._replace(attribute=name, metric=metric) for name, metric in product(attributes, DIFFERENCES))
    for version in versions:
        for label in (*SHOT_GROUPS, "all", "balanced_accuracy"):
            yield table.Where(version, label=label, metric=scores.RECALL)
        for metric in OF_LABEL:
            yield table.Where(version, label=ANY, metric=metric)
            for name, group in product(attributes, (ANY, OTHER) if metric == "auc" else ()):
                yield table.Where(version, "", name, group, label=ANY, metric=metric)
        for name, metric in product(attributes, PARITY):
            yield table.Where(version, "", name, label=ANY, metric=metric)


def _fault(tree: Any, parts: list[str], depth: int = 0) -> tuple[int, list[str]] | None:
    """None where the parts lead to a number; else how many of them lead somewhere, and the names that go on there."""
    below = {name: known for name, known in tree.items() if _leads(known)} if isinstance(tree, dict) else {}
    if not parts:
        return None if _is_number(tree) else (depth, _names(below))
    if parts[0] == "*":  # the mean over all; results.everywhere() knows it between two others
        branches = [(1, known) for known in below.values()] if depth and parts[1:] else []
    else:  # a name may hold a slash
        heads = [(count, "/".join(parts[:count])) for count in range(1, len(parts) + 1)]
        branches = [
            (n, below.get(head, below.get(ANY))) for n, head in heads if head and (head in below or ANY in below)
        ]
    faults = []
    for count, known in branches:
        if (fault := _fault(known, parts[count:], depth + count)) is None:
            return None
        faults.append(fault)
    return max(faults, key=lambda fault: fault[0], default=(depth, _names(below)))


def _is_number(value: Any) -> bool:
    """Tell whether a column can be of it: a number, one of each round, or one over the kept rounds."""
    if isinstance(value, dict):
        return "last" in value
    if isinstance(value, list):
        return bool(value) and all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leads(value: Any) -> bool:
    return _is_number(value) or (isinstance(value, dict) and any(map(_leads, value.values())))


def _names(tree: dict[str, Any]) -> list[str]:
    return [name if name != ANY else "a name of your data" for name in tree if name != OTHER]
