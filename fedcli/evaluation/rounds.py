"""Scores of several rounds, versions or clients as one: what a number in scores.json is made of."""

from typing import Any

import numpy as np

from .groups import HEADLINE, PARITY, across

Logits = dict[str, list[list[np.ndarray]]]  # version -> kept round -> logits [N, C] of each model that answers
Scores = dict[str, Any]  # of one model on some images: metric -> number or None, beside counts


def over_rounds(values: list[float | None]) -> Scores:
    """One metric over the kept rounds. Labels do not change, so it is defined in all rounds or in none."""
    known = None not in values
    return {
        "last": values[-1],
        "mean_last5": float(np.mean(values)) if known else None,
        "std_last5": float(np.std(values)) if known and len(values) > 1 else None,
        "per_round": values,
    }


def summary(rounds: list[Scores]) -> Scores:
    """Scores of the kept rounds: each metric over them, and the counts once."""
    counts = {key: rounds[-1][key] for key in ("count", "classes_missing") if key in rounds[-1]}
    return {**counts, **{key: over_rounds([r[key] for r in rounds]) for key in rounds[-1] if key not in counts}}


def summary_of_groups(rounds: list[Scores]) -> Scores:
    """Group scores of the kept rounds: the last round in full, what lies between groups and each group over them."""
    last = rounds[-1]
    single = [key for key in last if key == "es_auc_ovo_macro" or key.startswith(PARITY)]
    each = {
        metric: {value: over_rounds([r["groups"][value][metric] for r in rounds]) for value in last["groups"]}
        for metric in last["between"]
    }
    return {
        "last_round": last,
        "over_rounds": {
            **{metric: _between([r["between"][metric] for r in rounds]) for metric in last["between"]},
            **{key: over_rounds([r[key] for r in rounds]) for key in single},
        },
        "each": each,
        "across": {m: across({v: found["mean_last5"] for v, found in column.items()}) for m, column in each.items()},
    }


def _between(rounds: list[Scores]) -> Scores:
    worst = over_rounds([r["worst"] and r["worst"]["score"] for r in rounds])
    return {"worst": worst, **{key: over_rounds([r[key] for r in rounds]) for key in ("gap", "std", "average")}}


def mean(scores: list[Any]) -> Any:
    """Mean of scores of the same images, nested or not; what is no number stays where all agree, and else is null."""
    first = scores[0]
    if isinstance(first, dict):
        return {key: mean([one[key] for one in scores]) for key in first}
    if isinstance(first, float):
        return sum(scores) / len(scores)
    return first if all(one == first for one in scores) else None


def with_average(versions: dict[str, list[Scores]]) -> dict[str, list[Scores]]:
    """Scores of each version's rounds, and the mean of both versions in each round where there are two."""
    if "corrupted" not in versions:
        return versions
    pairs = zip(versions["clean"], versions["corrupted"], strict=True)
    return {**versions, "average": [mean(list(pair)) for pair in pairs]}


def among(clients: dict[str, Scores], *, personal: bool) -> Scores:
    """How each headline metric varies among clients, over those that have it; null where nothing can vary."""
    return _among(clients, () if _share_images(clients) and not personal else ("mean", "std", "worst"))


def among_global(clients: dict[str, Scores]) -> Scores:
    """The same for the global model on each client's images; on shared images it has a mean, but nothing varies."""
    names = ("mean",) if _share_images(clients) else ("mean", "std", "worst")
    return _among({name: client["global_model"] for name, client in clients.items()}, names)


def _share_images(clients: dict[str, Scores]) -> bool:
    tests = {(client["version"], client["part"]) for client in clients.values()}
    return tests in ({("clean", "whole")}, {("corrupted", "whole")})


def _among(clients: dict[str, Scores], names: tuple[str, ...]) -> Scores:
    """These numbers over clients, each taken in every round and then averaged; null for the others."""
    columns, out = {"mean": np.mean, "std": np.std, "worst": np.min}, {}
    for metric in HEADLINE:
        rounds = [client[metric]["per_round"] for client in clients.values() if client[metric]["last"] is not None]
        table = np.array(rounds, float).T  # [rounds, clients]
        known = names if len(rounds) > 1 else ()
        out[metric] = {name: float(f(table, axis=1).mean()) if name in known else None for name, f in columns.items()}
    return out
