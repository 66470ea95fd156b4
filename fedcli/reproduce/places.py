"""Where the numbers of scores.json stand, so that a column is checked before anything is trained.

The tree of places follows from the dataclasses of evaluation/scores.py: name -> tree; the name "" says that a number
stands there, and ANY that every name may.
"""

from collections.abc import Iterable

from ..errors import UsageError, nearest
from ..scores.groups import CROSS
from ..scores.parts import ANY
from ..scores.schema import Tree
from ..scores.scores import score_places

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
    fault = _fault(score_places(tuple(by) or tuple(attributes(dataset)), corrupted=corrupted, best=best), parts)
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


def _fault(tree: Tree, parts: list[str], depth: int = 0) -> tuple[int, list[str]] | None:
    """None where the parts lead to a number; else how many of them lead somewhere, and the names that go on there."""
    if not parts:
        return None if "" in tree else (depth, _names(tree))
    if parts[0] == "*":  # the mean over all; results.everywhere() knows it between two others
        branches = [(1, below) for name, below in tree.items() if name] if depth and parts[1:] else []
    else:  # a name may hold a slash
        heads = [(count, "/".join(parts[:count])) for count in range(1, len(parts) + 1)]
        branches = [(n, tree.get(head, tree.get(ANY))) for n, head in heads if head and (head in tree or ANY in tree)]
    faults = []
    for count, below in branches:
        if (fault := _fault(below, parts[count:], depth + count)) is None:
            return None
        faults.append(fault)
    return max(faults, key=lambda fault: fault[0], default=(depth, _names(tree)))


def _names(tree: Tree) -> list[str]:
    return [name if name != ANY else "a name of your data" for name in tree if name]
