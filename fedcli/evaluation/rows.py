"""Runs as the rows of a report: which runs are one system, in what the systems differ, what a reader must know.

A number is the mean over the last five rounds (± population standard deviation) unless another `at` is asked for; group
columns are those of the clean test set. Runs that differ in nothing but the seed of training are one system, and one
row where a spread over seeds is asked for.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..errors import UsageError
from . import shots
from .cells import BEST, LAST5, POOLED, SHOWN, Body, cells, joined, mark_best, view_cells

STAGES = "partition", "corruption"  # a partition stands for its dataset too
LONG = 30  # characters; what a run differs in stands below the table if it is longer
TOLD, BLIND = "true group at test", "group-blind"
SEED = "seed"

Row = dict[str, Any]


def rows(
    paths: list[Path],
    *,
    metrics: Sequence[str] = SHOWN,
    at: str = LAST5,
    spread: str | None = None,
    minutes: bool = False,
    traffic: bool = False,
) -> list[Row]:
    """One row per system, verified first, and below it one per view; says on stderr what cannot be compared.

    at: "last5" for means over the last five rounds, "last" for the last round, "best" for the round that was best on the
    clients' validation images. spread: "pooled" or "runs" makes the runs of a system one row whose ± is over all its
    rounds, or over the runs' means; None keeps runs apart. minutes: also how long each run trained, by the clocks beside
    it; they are no part of any promise of equal bytes. traffic: also the bytes that travel, where runs recorded them.
    A row's "places" are those of its runs in `paths`. Raises FedcliError, HashError, UsageError.
    """
    scores = [manifest.verify(path, "scores") for path in paths]
    if at == BEST and not any(one.body.get("best_on_validation") for one in scores):
        raise UsageError(
            "no run kept the model that was best on validation", "partition with --val 0.1, train and evaluate again"
        )
    found = [_about([scores[place] for place in places]) | {"places": places} for places in _systems(scores, spread)]
    for number, (row, told) in enumerate(zip(found, _differences(found), strict=True), 1):
        row |= {"differs": told, "mark": f"[{number}]" if len(told) > LONG else "", "at": at}
        row["spread"] = spread if row["runs"] > 1 else None
        row["minutes"] = _mean([_minutes(paths[place]) for place in row["places"]]) if minutes else None
        row["bytes"] = _bytes(scores[row["places"][0]].body) if traffic else None
    how = {"metrics": metrics, "at": at}
    found = [line for row in found for line in _lines(row, [scores[place] for place in row["places"]], spread, how)]
    for row in found:
        row["name"] = f"{_name(row, '' if row['mark'] else row['differs'])} {row['mark']}".rstrip()
    mark_best([row["cells"] for row in found])
    for note in notes(found):
        console.say(f"note: {note}")
    return found


def notes(found: list[Row]) -> list[str]:
    """What a reader must know before comparing: unlike runs, groups too small to tell."""
    unlike = [what for what in (*STAGES, "rounds") if _differ([{**row, **row["data"]}[what] for row in found])]
    unlike += ["shot groups"] if _differ([row["shot_groups"] for row in found if row["shot_groups"]]) else []
    told = [
        f"these runs do not share the same {', '.join(unlike)}; their numbers compare more than methods"
        if unlike
        else "",
        _seeds_told(found),
        *(f"{row['mark']} {row['differs']}" for row in found if row["mark"]),
        *(note for row in found for note in (*_cautions(row), *row["small_groups"], *row["shot_groups"])),
    ]
    return [note for note in dict.fromkeys(told) if note]


def long_name(row: Row) -> str:
    """The name with all that a row differs in, however long."""
    return _name(row, row["differs"])


def _systems(scores: list[manifest.Manifest], spread: str | None) -> list[list[int]]:
    """Places of the runs of each system; runs of one seed are told apart by something else, so they stay apart."""
    if spread is None:
        return [[place] for place in range(len(scores))]
    found: dict[str, list[int]] = {}
    for place, one in enumerate(scores):
        about = _about([one])
        alike = {key: about[key] for key in ("method", "label", "rule", "settings", "rounds", "roster_size", "data")}
        alike |= {"options": {k: v for k, v in about["options"].items() if k != SEED}, "asked": one.options}
        found.setdefault(json.dumps(alike, sort_keys=True), []).append(place)
    systems: list[list[int]] = []
    for places in found.values():
        seeds = {place: scores[place].body["options"].get(SEED, 0) for place in places}
        several = len(set(seeds.values())) == len(places)
        systems += [sorted(places, key=seeds.get)] if several else [[place] for place in places]
    return systems


def _about(runs: list[manifest.Manifest]) -> Row:
    body = runs[0].body
    options = {"dataset": body["dataset"]}
    for kind, stage in body["data"].items():
        options |= {f"{kind} {key}": value for key, value in (stage["options"] if stage else {}).items()}
    seeds = [run.body["options"].get(SEED) for run in runs]
    cautions = [each for run in runs for each in (run.body.get("caution"), _whole(run.body))]
    groups = [f"{body['dataset']}: {shots.told(body['shots'])}"] if "shots" in runs[0].options else []
    return {
        **{key: body[key] for key in ("method", "label", "rule", "settings", "rounds", "roster_size")},
        "view": TOLD if body.get("views") else "",
        "runs": len(runs),
        "seeds": seeds,
        "options": options | body["options"] | ({SEED: seeds} if len(runs) > 1 else {}),
        "data": {kind: stage and stage["sha256"] for kind, stage in body["data"].items()},
        "attributes": list(body["groups"]),
        "caution": "; ".join(dict.fromkeys(filter(None, cautions))),
        "small_groups": list(_small(body)),
        "shot_groups": groups,
    }


def _lines(row: Row, scores: list[manifest.Manifest], spread: str | None, how: dict[str, Any]) -> Iterator[Row]:
    """The row with its cells, and one for each view below the first: what it cost to train stands once."""
    by_shots = "shots" in scores[0].options
    found = [cells(run.body, by_shots=by_shots, **how) for run in scores]
    yield row | {"cells": _cells(found, spread), "is_view": False}
    for view in scores[0].body.get("views", {}):
        found = [view_cells(run.body["views"][view], **how) for run in scores]
        named = {"view": f"{BLIND}: {view.replace('-', ' ')}", "is_view": True}
        yield row | {"cells": _cells(found, spread), "minutes": None, "bytes": None, "caution": ""} | named


def _cells(columns: list[dict[str, Any]], spread: str | None) -> dict[str, Any]:
    found = joined(columns, spread or POOLED)
    return {name: {key: cell[key] for key in ("mean", "std", "lower_is_better")} for name, cell in found.items()}


def _name(row: Row, told: str) -> str:
    """The label, and in brackets the view, how many seeds and what is told of the run."""
    seeds = f"{row['runs']} seeds" if row["runs"] > 1 else ""
    inside = ", ".join(filter(None, [row["view"], seeds, told]))
    return f"{row['label']} ({inside})" if inside else row["label"]


def _cautions(row: Row) -> list[str]:
    """What is to be known of one row; a run has one caution for all its views."""
    missing = row["at"] == BEST and not row["is_view"] and all(cell["mean"] is None for cell in row["cells"].values())
    told = [row["caution"], "it kept no model that was best on validation" if missing else ""]
    return [f"{row['name']}: {text}" for text in told if text]


def _seeds_told(found: list[Row]) -> str:
    """Which seeds the rows are means over, where they are not the same."""
    means = [row for row in found if not row["is_view"]]
    if not any(row["runs"] > 1 for row in means) or not _differ([sorted(map(str, row["seeds"])) for row in means]):
        return ""
    each = "; ".join(f"{row['label']} {', '.join(map(str, row['seeds']))}" for row in means)
    return f"the rows are means over different seeds: {each}"


def _small(body: Body) -> Iterator[str]:
    for attribute, versions in body["groups"].items():
        for value, part in versions["clean"]["last_round"]["groups"].items():
            if part["small"]:
                yield f"{attribute} {value} of {body['dataset']} is a small group: {part['reason']}"


def _whole(body: Body) -> str:
    """A word where clients' own models are scored on images that are not their clients'."""
    shared = body.get("personal") and all(c.get("part") == "whole" for c in body.get("clients", {}).values())
    return "clients have no test images of their own, so their own models are scored on all of them" if shared else ""


def _bytes(body: Body) -> dict[str, float] | None:
    """Bytes to and from a client in a round; None where the run did not record them."""
    found = body.get("bytes", {})
    return found if found.get("down") is not None else None


def _minutes(path: Path) -> float | None:
    """How long the run behind a scores.json trained; None where its clocks are not there."""
    seconds, run = 0.0, manifest.parent(path, "run")
    while run:  # and the runs that it began with
        clocks = run.parent / "timing.jsonl"
        if not clocks.is_file():
            return None
        lines = map(json.loads, clocks.read_text(encoding="utf-8").splitlines())
        seconds += sum({line["round"]: line["seconds"] for line in lines}.values())
        run = manifest.parent(run, "run")
    return seconds / 60


def _mean(values: list[float | None]) -> float | None:
    return None if None in values else sum(values) / len(values)


def _differences(found: list[Row]) -> list[str]:
    """The settings and options in which each run differs from the others."""
    out = []
    for row in found:
        alike = [other for other in found if other["method"] == row["method"]]
        rounds = [f"rounds={row['rounds']}"] if _stands_out(row["rounds"], [other["rounds"] for other in found]) else []
        out.append(", ".join(_unlike("settings", row, alike) + rounds + _unlike("options", row, found)))
    return out


def _unlike(part: str, row: Row, others: list[Row]) -> list[str]:
    """key=value where a row is not as most others are; the rule has a column of its own, several seeds their number."""
    told = ("rule", SEED) if row["runs"] > 1 else ("rule",)
    values = {key: [other[part].get(key) for other in others] for key in row[part] if key not in told}
    return [f"{key}={_brief(row[part][key])}" for key, column in values.items() if _stands_out(row[part][key], column)]


def _stands_out(value: Any, column: list[Any]) -> bool:
    """Whether a value is to be told: the column has others, and this is not what more than half of it has."""
    return _differ(column) and 2 * sum(value == other for other in column) <= len(column)


def _brief(value: Any) -> str:
    """A hash by its first digits, all else as it is."""
    return str(value)[:8] if re.fullmatch(r"[0-9a-f]{64}", str(value)) else str(value)


def _differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)
