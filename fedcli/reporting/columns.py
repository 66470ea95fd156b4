"""What a scores.json says in the cells of a report: a number and its spread per column, over rounds or of one model."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError, nearest
from ..evaluation.parts import METRICS, PARITY, SHOT_GROUPS, OverRounds
from ..evaluation.rounds import over_rounds
from ..evaluation.schema import encode
from ..evaluation.scores import Scores
from ..evaluation.statistics import over_seeds
from .numbers import Entry, entries

LAST5, LAST, BEST = AT = "last5", "last", "best"
POOLED, RUNS = SPREADS = "pooled", "runs"
SHOWN = "balanced_accuracy", "auc_ovo_macro"
VERSIONS = "clean", "corrupted", "average"

Cell = dict[str, Any]  # mean, std, lower_is_better, and values: the numbers that mean and std are of
Body = dict[str, Any]  # of a scores.json


def cells(body: Body, *, by_shots: bool, metrics: Sequence[str], at: str) -> dict[str, Cell]:
    """The cells of one run by column, in the order columns are shown.

    metrics: of all images, such as f1_macro, or names of single columns, see `every`. Raises UsageError for an
        unknown one.
    """
    overall = [name for name in metrics if isinstance(body["versions"]["clean"].get(name), dict)]
    named = _named(body, [name for name in metrics if name not in overall], at)
    shown = _best(body, overall) if at == BEST else _played(body, by_shots, overall, at)
    return dict(shown) | named


def check_names(metrics: Sequence[str]) -> None:
    """Refuse a metric that no scores have; a name with a blank in it depends on the data. Raises UsageError."""
    known = [*METRICS, *PARITY, *(f"{name}_ovr_macro" for name in PARITY)]
    for name in metrics:
        if " " not in name and name not in known:
            raise UsageError(f"the scores have no metric {name!r}", nearest(name, known))


def every(scores: Scores, at: str) -> dict[str, Cell]:
    """All scores of a run by the name of their column, such as "clean gap accuracy by sex"."""
    shares = [entry for entry in entries(scores, best=at == BEST) if not entry.metric.startswith("bytes")]
    return {entry.name: _of_entry(entry, at) for entry in shares}


def view_cells(quality: Body, *, metrics: Sequence[str], at: str) -> dict[str, Cell]:
    """The cells of one view of a run's models; of the best round only the first view is known."""
    return {} if at == BEST else {**dict(_overall(quality, metrics, at)), **dict(_between(quality, metrics, at))}


def joined(columns: list[dict[str, Cell]], spread: str) -> dict[str, Cell]:
    """The cells of runs that differ in the seed alone, as one; None where a run has no number."""
    names = dict.fromkeys(name for column in columns for name in column)
    return {name: _joined([column.get(name) for column in columns], spread) for name in names}


def group_cells(body: Body, attribute: str, version: str, metric: str, at: str) -> dict[str, Cell]:
    """One metric of every group of an attribute, then what lies between the groups; {} where that is not known."""
    if at == BEST:
        return _best_groups(body, attribute, version, metric)
    found = body["groups"].get(attribute, {}).get(version)
    if found is None or metric not in found.get("each", {}):
        return {}
    low, over, across = better_low(metric), found["over_rounds"], found["across"][metric]
    named = {value: cell(numbers, at, low) for value, numbers in found["each"][metric].items()}
    named |= {"worst group": cell(over[metric]["worst"], at, low), "gap": cell(over[metric]["gap"], at, low=True)}
    if at == LAST5:  # groups are averaged over the rounds first, so there is no such number for one round
        named["mean over groups"] = number(across["average"], low)
        named["std over groups"] = number(across["std_sample"], low=True)
    return named | ({"ES-AUC": cell(over["es_auc_ovo_macro"], at)} if metric == "auc_ovo_macro" else {})


def parity_cells(body: Body, attribute: str, version: str, at: str) -> dict[str, Cell]:
    """The differences in decisions between the groups of an attribute, under their names."""
    if at == BEST:
        found = (body.get("best_on_validation") or {}).get("groups", {}).get(attribute, {}).get(version, {})
        return {name: number(value, low=True) for name, value in found.items() if name.startswith(PARITY)}
    over = body["groups"].get(attribute, {}).get(version, {}).get("over_rounds", {})
    return {name: cell(value, at, low=True) for name, value in over.items() if name.startswith(PARITY)}


def percent(share: float | None) -> str:
    """A share as it is printed."""
    return "" if share is None else f"{100 * share:.2f}"


def _named(body: Body, names: Sequence[str], at: str) -> dict[str, Cell]:
    """The columns that these names mean. Raises UsageError for a name that means none."""
    if not names:
        return {}
    scores = Scores.of(body, Path("scores.json"))
    known, meant = every(scores, at), {}
    for name in names:
        columns = {column: cell for column, cell in known.items() if name in _short_names(column)}
        if not columns:
            names_of_all = {
                *scores.versions["clean"].metrics,
                *(short for column in known for short in _short_names(column)),
            }
            plain = (
                short for short in names_of_all if " " not in short
            )  # not those of each group and client: hundreds
            raise UsageError(f"the scores have no metric {name!r}", nearest(name, names_of_all, plain))
        meant |= columns
    return meant


def _short_names(column: str) -> list[str]:
    """How a column may be asked for: in full, without the version of the images, of differences without the "
    "attribute."""
    version, _, rest = column.partition(" ")
    short = rest if version in VERSIONS else column
    bare = short.partition(" by ")[0]
    return [column, short, *([bare, bare.removesuffix("_ovr_macro")] if bare.startswith(PARITY) else [])]


def _of_entry(entry: Entry, at: str) -> Cell:
    low = entry.lower or better_low(entry.metric)
    return cell(encode(entry.value), at, low) if isinstance(entry.value, OverRounds) else number(entry.value, low)


def _joined(found: list[Cell | None], spread: str) -> Cell:
    low = next(one["lower_is_better"] for one in found if one)
    if any(one is None or one["mean"] is None for one in found):
        return number(None, low)
    if len(found) == 1 and spread == POOLED:
        return found[0]
    over = over_seeds([one["values"] for one in found])
    return {"mean": over["mean"], "std": over[f"std_{spread}"], "lower_is_better": low, "values": []}


def _played(body: Body, by_shots: bool, metrics: Sequence[str], at: str) -> Iterator[tuple[str, Cell]]:
    yield from _overall(body, metrics, at)
    if by_shots:
        for name in SHOT_GROUPS:
            yield f"clean {name} recall", cell(body["shots"]["versions"]["clean"][name], at)
    for which, versions in body["personal"].items():
        for version in (version for version in VERSIONS if version in versions):
            yield f"{which.replace('_', ' ')} {version} auc_ovo_macro", cell(versions[version].get("auc_ovo_macro"), at)
    yield "std among clients auc_ovo_macro", _among(body, "auc_ovo_macro", "std", at) | {"lower_is_better": True}
    if body.get("among_clients_global"):
        for whose in ("own", "global"):
            found = _among(body, "balanced_accuracy", "mean", at, whose)
            yield f"mean among clients balanced_accuracy {whose} model", found
    yield from _between(body, metrics, at)


def _among(body: Body, metric: str, what: str, at: str, whose: str = "own") -> Cell:
    """Mean or population std over clients in each round; scores of format 1 have only its mean over rounds."""
    found = body["among_clients" if whose == "own" else "among_clients_global"][metric]
    if each := found.get("per_round", {}).get(what):
        return cell(encode(over_rounds(each)), at)
    if at == LAST5 or found.get(what) is None:
        return number(found.get(what))
    clients = [client if whose == "own" else client["global_model"] for client in body["clients"].values()]
    last = [client[metric]["last"] for client in clients if client[metric]["last"] is not None]
    return number(float(np.std(last) if what == "std" else np.mean(last)))


def _overall(quality: Body, metrics: Sequence[str], at: str) -> Iterator[tuple[str, Cell]]:
    for version in VERSIONS:
        for metric in metrics:
            yield (
                f"{version} {metric}",
                cell(quality["versions"].get(version, {}).get(metric), at, low=better_low(metric)),
            )


def _between(quality: Body, metrics: Sequence[str], at: str) -> Iterator[tuple[str, Cell]]:
    for attribute, versions in quality["groups"].items():
        over = versions["clean"]["over_rounds"]
        yield f"{attribute} ES-AUC (auc_ovo_macro)", cell(over.get("es_auc_ovo_macro"), at)
        for metric in _compared(metrics, over):
            yield f"{attribute} worst group {metric}", cell(over[metric]["worst"], at, low=better_low(metric))
            yield f"{attribute} gap {metric}", cell(over[metric]["gap"], at, low=True)


def _best(body: Body, metrics: Sequence[str]) -> Iterator[tuple[str, Cell]]:
    """Of the one model that the clients' validation images chose."""
    best = body.get("best_on_validation") or {"versions": {}, "groups": {}}
    for version in VERSIONS:
        for metric in metrics:
            yield f"{version} {metric}", number(best["versions"].get(version, {}).get(metric), low=better_low(metric))
    for attribute, versions in best["groups"].items():
        last = versions["clean"]
        yield f"{attribute} ES-AUC (auc_ovo_macro)", number(last.get("es_auc_ovo_macro"))
        for metric in _compared(metrics, last["between"]):
            between = last["between"][metric]
            worst = between["worst"] and between["worst"]["score"]
            yield f"{attribute} worst group {metric}", number(worst, low=better_low(metric))
            yield f"{attribute} gap {metric}", number(between["gap"], low=True)


def _best_groups(body: Body, attribute: str, version: str, metric: str) -> dict[str, Cell]:
    found = (body.get("best_on_validation") or {}).get("groups", {}).get(attribute, {}).get(version)
    if not found or metric not in found["between"]:
        return {}
    low, between = better_low(metric), found["between"][metric]
    named = {value: number(part[metric], low) for value, part in found["groups"].items()}
    worst = between["worst"] and between["worst"]["score"]
    named |= {"worst group": number(worst, low), "gap": number(between["gap"], low=True)}
    return named | ({"ES-AUC": number(found["es_auc_ovo_macro"])} if metric == "auc_ovo_macro" else {})


def _compared(metrics: Sequence[str], known: dict[str, Any]) -> list[str]:
    """The metrics that groups are compared by: the AUC, or those asked for."""
    return ["auc_ovo_macro"] if tuple(metrics) == SHOWN else [metric for metric in metrics if metric in known]


def better_low(metric: str) -> bool:
    """Whether a metric is better when it is low."""
    return metric.startswith(("calibration_error", *PARITY))


def cell(over_rounds: dict[str, Any] | None, at: str, low: bool = False) -> Cell:
    """A cell of numbers over rounds; of the last of them, or of their mean."""
    if over_rounds is None or at == LAST:
        return number(over_rounds and over_rounds["last"], low)
    mean, std = over_rounds["mean_last5"], over_rounds["std_last5"]
    return {"mean": mean, "std": std, "lower_is_better": low, "values": over_rounds["per_round"]}


def number(value: float | None, low: bool = False) -> Cell:
    """A cell of a single number."""
    return {"mean": value, "std": None, "lower_is_better": low, "values": [value]}
