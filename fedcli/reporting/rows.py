"""Runs as the rows of a report: which runs are one system, in what the systems differ, what a reader must know.

Rows of one method that were asked for unlike things all say what they were asked for. The best is marked only among
rows of the same data and as many rounds. A number is the mean over the last five rounds (± population standard
deviation) unless another `at` is asked for; group columns are those of the clean test set. Runs that differ in nothing
but the seed of training are one system, and one row where a spread over seeds is asked for.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..errors import UsageError
from ..evaluation import shots
from ..evaluation.schema import decode
from ..evaluation.scores import Shots
from . import timing
from .columns import BEST, LAST5, POOLED, SHOWN, Body, cells, joined, percent, view_cells
from .doubts import doubtful, small_groups_of
from .systems import DRAWN, asked, draw, grouped, identity, last

STAGES = "partition", "corruption"  # a partition stands for its dataset too
LONG = 36  # characters; what a run differs in stands below the table if it is longer
TOLD, BLIND = "true group at test", "group-blind"
SEED = "seed"
SYNTHETIC = "SYNTHETIC data: rows marked so are of a made-up sample, and their numbers say nothing about patients"

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
    found = [
        _about([scores[at] for at in places]) | {"places": places, "paths": [paths[at] for at in places]}
        for places in _systems(scores, spread)
    ]
    for number, (row, told) in enumerate(zip(found, _differences(found), strict=True), 1):
        row |= {"differs": told, "mark": f"[{number}]" if len(told) > LONG else "", "at": at}
        row["spread"] = spread if row["runs"] > 1 else None
        row["minutes"] = _minutes([paths[place] for place in row["places"]]) if minutes else None
        row["bytes"] = _bytes(scores[row["places"][0]].body) if traffic else None
        if at == BEST:
            row |= _chosen([scores[place] for place in row["places"]], metrics)
    how = {"metrics": metrics, "at": at}
    found = [line for row in found for line in _lines(row, [scores[place] for place in row["places"]], spread, how)]
    for row in found:
        row["name"] = f"{_name(row, '' if row['mark'] else row['differs'])} {row['mark']}".rstrip()
    for note in notes(found):
        console.warn(note)
    return found


def notes(found: list[Row]) -> list[str]:
    """What a reader must know before comparing: unlike runs, groups too small to tell."""
    unlike = [what for what in (*STAGES, "rounds") if _differ([{**row, **row["data"]}[what] for row in found])]
    unlike += ["shot groups"] if _differ([row["shot_groups"] for row in found if row["shot_groups"]]) else []
    told = [
        SYNTHETIC if any(row.get("sample") for row in found) else "",
        f"these runs do not share the same {', '.join(unlike)}; their numbers compare more than methods"
        if unlike
        else "",
        _seeds_told(found),
        _left_out(found),
        *(f"{row['mark']} {row['differs']}" for row in found if row["mark"]),
        *(note for row in found for note in (*_warnings(row), *row["small_groups"], *row["shot_groups"])),
    ]
    return [note for note in dict.fromkeys(told) if note]


def long_name(row: Row) -> str:
    """The name with all that a row differs in, however long."""
    return _name(row, row["differs"])


def comparable(row: Row) -> str:
    """What rows must share for one of them to be the best: data and rounds."""
    return json.dumps([row["rounds"], row["data"]], sort_keys=True)


def _systems(scores: list[manifest.Manifest], spread: str | None) -> list[list[int]]:
    """The places of the runs of each system; runs of equal seeds differ in something unknown and stay separate."""
    if spread is None:
        return [[place] for place in range(len(scores))]
    wanted = [asked(run.body) for run in scores]
    systems: list[list[int]] = []
    for places in grouped(range(len(scores)), lambda at: (identity(wanted[at]), json.dumps(scores[at].options))):
        several = len({draw(wanted[at]) for at in places}) == len(places)
        ordered = sorted(places, key=lambda at: (wanted[at].get(SEED) or 0, draw(wanted[at])))
        systems += [ordered] if several else [[at] for at in places]
    return systems


def _about(runs: list[manifest.Manifest]) -> Row:
    body = runs[0].body
    options = {"dataset": body["dataset"]} | ({"model": body["model"]["name"]} if body.get("model") else {})
    for kind, stage in body["data"].items():
        options |= {f"{kind} {key}": value for key, value in (stage["options"] if stage else {}).items()}
    seeds = [run.body["options"].get(SEED) for run in runs]
    warnings = [each for run in runs for each in (run.body.get("warning"), _whole(run.body))]
    by_shots = [run.body for run in runs if "shots" in run.options]
    groups = [f"{body['dataset']}: {shots.described(decode(Shots, body['shots']))}" for body in by_shots]
    return {
        **{key: body[key] for key in ("method", "label", "rule", "settings", "rounds", "roster_size")},
        "view": TOLD if body.get("views") else "",
        "sample": bool(body.get("sample")),
        "runs": len(runs),
        "seeds": seeds,
        "options": options | body["options"] | ({SEED: seeds} if len(runs) > 1 else {}),
        "drawn": _drawn_word(runs),
        "data": {kind: _hashes(runs, kind) for kind in body["data"]},
        "attributes": list(body["groups"]),
        "warning": "; ".join(dict.fromkeys(filter(None, warnings))),
        "small_groups": list(dict.fromkeys(note for run in runs for note in _small(run.body))),
        "shot_groups": list(dict.fromkeys(groups)),
    }


def _drawn_word(runs: list[manifest.Manifest]) -> str:
    """What the runs of a row are: "folds" where each has one of its own, else "seeds"."""
    folds = {run.body["data"]["dataset"]["options"].get("fold") for run in runs}
    return "folds" if len(runs) > 1 and len(folds) == len(runs) else "seeds"


def _hashes(runs: list[manifest.Manifest], kind: str) -> str | list[str] | None:
    """The hash of the runs' data, several where their data were drawn anew; None where no run has this stage."""
    hashes = sorted({stage["sha256"] for run in runs if (stage := run.body["data"][kind])})
    return hashes if len(hashes) > 1 else next(iter(hashes), None)


def _lines(row: Row, scores: list[manifest.Manifest], spread: str | None, how: dict[str, Any]) -> Iterator[Row]:
    """The row with its cells, and one for each view below the first: what it cost to train stands once."""
    by_shots = "shots" in scores[0].options
    found = [cells(run.body, by_shots=by_shots, **how) for run in scores]
    unsure = doubtful([run.body for run in scores], how["metrics"], how["at"])
    unsure += [name for name in found[0] if small_groups_of(scores[0].body, name.partition(" by ")[2])]
    yield row | {"cells": _cells(found, spread), "is_view": False, "doubtful": unsure}
    for view in scores[0].body.get("views", {}):
        found = [view_cells(run.body["views"][view], **how) for run in scores]
        unsure = doubtful([run.body["views"][view] for run in scores], how["metrics"], how["at"])
        named = {"view": f"{BLIND}: {view.replace('-', ' ')}", "is_view": True, "doubtful": unsure}
        yield row | {"cells": _cells(found, spread), "minutes": None, "bytes": None, "warning": ""} | named


def _cells(columns: list[dict[str, Any]], spread: str | None) -> dict[str, Any]:
    found = joined(columns, spread or POOLED)
    return {name: {key: cell[key] for key in ("mean", "std", "lower_is_better")} for name, cell in found.items()}


def _name(row: Row, told: str) -> str:
    """The label, and in brackets the view, how many seeds and what is told of the run."""
    draws = f"{row['runs']} {row['drawn']}" if row["runs"] > 1 else ""
    inside = ", ".join(filter(None, [row["view"], draws, told]))
    return f"{row['label']} ({inside})" if inside else row["label"]


def _warnings(row: Row) -> list[str]:
    """What is to be known of one row; a run has one warning for all its views."""
    missing = row["at"] == BEST and not row["is_view"] and all(cell["mean"] is None for cell in row["cells"].values())
    told = [row["warning"], "it kept no model that was best on validation" if missing else _chosen_told(row)]
    return [f"{row['name']}: {text}" for text in told if text]


def _chosen(runs: list[manifest.Manifest], metrics: Sequence[str]) -> dict[str, Any]:
    """Which round each run's validation images chose, and the columns that are known of the last rounds alone."""
    found = [run.body.get("best_on_validation") for run in runs]
    chosen = [
        {"seed": run.body["options"].get(SEED), **{key: best[key] for key in ("round", "metric", "validation")}}
        for run, best in zip(runs, found, strict=True)
        if best
    ]
    last, best = (
        cells(runs[0].body, by_shots="shots" in runs[0].options, metrics=metrics, at=at) for at in (LAST5, BEST)
    )
    lost = [name for name, cell in last.items() if cell["mean"] is not None and name not in best]
    return {"chosen": chosen, "left_out": lost if chosen else []}


def _chosen_told(row: Row) -> str:
    chosen = [] if row["is_view"] else row.get("chosen", [])
    if not chosen:
        return ""
    several = len(chosen) > 1
    each = [
        f"round {one['round']}{f' of seed {one[SEED]}' if several else ''} ({percent(one['validation'])})"
        for one in chosen
    ]
    return f"chosen by validation {chosen[0]['metric']} (%): {', '.join(each)}"


def _left_out(found: list[Row]) -> str:
    lost = dict.fromkeys(name for row in found for name in row.get("left_out", []))
    return f"not known of the best round, so left out: {', '.join(lost)}" if lost else ""


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


def _minutes(paths: list[Path]) -> float | None:
    """How long the runs behind these scores trained, on average; None where clocks are not there."""
    found = timing.of_runs(paths)
    return found.minutes if found else None


def _differences(found: list[Row]) -> list[str]:
    """The settings and options in which each run differs from the others."""
    out = []
    for row in found:
        alike = [other for other in found if other["method"] == row["method"]]
        rounds = [f"rounds={row['rounds']}"] if _is_told(row["rounds"], *_columns("rounds", alike, found)) else []
        noise = [bool(other["data"]["corruption"]) for other in alike]
        clean = ["no corruption"] if not row["data"]["corruption"] and any(noise) else []
        told = _unlike("settings", row, alike, alike) + rounds + clean + _unlike("options", row, alike, found)
        out.append(", ".join(told))
    return out


def _unlike(part: str, row: Row, alike: list[Row], others: list[Row]) -> list[str]:
    """key=value where a row is to be told from others; the rule has a column of its own, several seeds their number."""
    own = ("rule", *DRAWN) if row["runs"] > 1 else ("rule",)
    return [
        f"{key}={_brief(value)}"
        for key, value in row[part].items()
        if last(key) not in own
        and _is_told(value, *_columns(key, [other[part] for other in alike], [other[part] for other in others]))
    ]


def _columns(key: str, *tables: list[dict[str, Any]]) -> list[list[Any]]:
    return [[line.get(key) for line in lines] for lines in tables]


def _is_told(value: Any, alike: list[Any], every: list[Any]) -> bool:
    """Whether a value is told: runs of the same method have others, or it is not what more than half of all rows have."""
    return _differ(alike) or _differ(every) and 2 * sum(value == other for other in every) <= len(every)


def _brief(value: Any) -> str:
    """A hash by its first digits, a number without idle zeros, all else as it is."""
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    return str(value)[:8] if re.fullmatch(r"[0-9a-f]{64}", str(value)) else str(value)


def _differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)
