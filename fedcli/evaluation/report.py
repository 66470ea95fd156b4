"""Many scores.json side by side: one line per run, the best of each column marked.

A number is the mean over the last five rounds (± population standard deviation); group columns are
those of the clean test set. Values that print alike are alike: a tie marks all of them.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..errors import UsageError, nearest
from . import shots

STAGES = "partition", "corruption"  # a partition stands for its dataset too
LONG = 30  # characters; what a run differs in stands below the table if it is longer
SHOWN = "balanced_accuracy", "auc_ovo_macro"
LEGEND = (
    "In percent: mean over the last five rounds (all of a shorter run) ± population standard deviation. "
    "* is the best of a column; gap and std are better when low. Groups are those of the clean test set."
)
OWN = (
    " Mean among clients, own model: each client's own model on the client's test images, averaged over clients (pFL in "
    "Fed-MAS); global model: the one model of all on the same images (gFL is that model on all of them: clean)."
)
SHOTS = (
    " Head, medium and tail recall: the mean recall of the classes with many, some and few training images, on the clean "
    "test set."
)
TOLD, BLIND = "true group at test", "group-blind"
VIEWS = (
    f" A row '{TOLD}' is of a model that is told the group of each test image; one of the same model '{BLIND}' is told "
    "no image's group, as in a clinic that does not have it or may not use it."
)
TRAFFIC = "MB per client and round (down + up)"
BYTES = (
    " MB (10^6 bytes) to and from each client in a round, mean over clients and rounds: the trained numbers, and what the "
    "method tells or reports beside them."
)

Row = dict[str, Any]


def rows(paths: list[Path], *, minutes: bool = False, traffic: bool = False) -> list[Row]:
    """One row per scores.json, verified first, and below it one per view; says on stderr what cannot be compared.

    minutes: also how long each run trained, by the clocks beside it; they are no part of any promise of equal bytes.
    traffic: also the bytes that travel, where the run recorded them.
    """
    scores = [manifest.verify(path, "scores") for path in paths]
    found = [{**_about(one), "cells": dict(_cells(one.body, "shots" in one.options))} for one in scores]
    for place, (row, told) in enumerate(zip(found, _differences(found), strict=True), 1):
        row |= {"differs": told, "mark": f"[{place}]" if len(told) > LONG else ""}
        row["minutes"] = _minutes(paths[place - 1]) if minutes else None
        row["bytes"] = _bytes(scores[place - 1].body) if traffic else None
    found = [one for row, score in zip(found, scores, strict=True) for one in (row, *_views(row, score.body))]
    for row in found:
        row["name"] = f"{_name(row, '' if row['mark'] else row['differs'])} {row['mark']}".rstrip()
    _mark_best(found)
    for note in notes(found):
        console.say(f"note: {note}")
    return found


def notes(found: list[Row]) -> list[str]:
    """What a reader must know before comparing: unlike runs, groups too small to tell."""
    unlike = [what for what in (*STAGES, "rounds") if _differ([{**row, **row["data"]}[what] for row in found])]
    unlike += ["shot groups"] if _differ([row["shot_groups"] for row in found if row["shot_groups"]]) else []
    small = list(
        dict.fromkeys(note for row in found for note in (*_cautions(row), *row["small_groups"], *row["shot_groups"]))
    )
    told = list(dict.fromkeys(f"{row['mark']} {row['differs']}" for row in found if row["mark"]))
    if not unlike:
        return told + small
    return [
        f"these runs do not share the same {', '.join(unlike)}; their numbers compare more than methods",
        *told,
        *small,
    ]


def _cautions(row: Row) -> list[str]:
    """What is to be known of one row; a run has one caution for all its views."""
    return [f"{row['name']}: {row['caution']}"] if row["caution"] else []


def render(found: list[Row], format: str) -> str:
    """The rows as markdown, csv or json. Raises UsageError for another format."""
    formats = {"markdown": _markdown, "csv": _csv, "json": _json}
    if format not in formats:
        raise UsageError(f"unknown report format {format!r}", nearest(format, formats))
    return formats[format](found)


def table_cells(found: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of text, for a terminal or markdown."""
    columns = _columns(found)
    lines = [[row["name"], row["rule"], *(_text(row["cells"].get(column)) for column in columns)] for row in found]
    heads = ["method", "rule", *(f"{column} (%)" for column in columns)]
    if any(row["bytes"] for row in found):
        heads.append(TRAFFIC)
        lines = [[*line, _megabytes(row["bytes"])] for line, row in zip(lines, found, strict=True)]
    if all(row["minutes"] is None for row in found):
        return heads, lines
    times = ["-" if row["minutes"] is None else f"{row['minutes']:.1f}" for row in found]
    return [*heads, "minutes"], [[*line, time] for line, time in zip(lines, times, strict=True)]


def _megabytes(traffic: dict[str, float] | None) -> str:
    """Three digits, of prompts of some thousand bytes as of models of hundreds of megabytes."""
    if not traffic:
        return "-"
    numbers = [traffic[way] / 1e6 for way in ("down", "up")]
    return " + ".join(f"{number:.0f}" if number >= 100 else f"{number:.3g}" for number in numbers)


def _bytes(body: dict[str, Any]) -> dict[str, float] | None:
    """Bytes to and from a client in a round; None where the run did not record them."""
    found = body.get("bytes", {})
    return found if found.get("down") is not None else None


def _views(row: Row, body: dict[str, Any]) -> Iterator[Row]:
    """A row for each view below the first, which are of the same model: what it cost to train stands once."""
    for view, quality in body.get("views", {}).items():
        cells = {**dict(_overall(quality)), **dict(_between(quality))}
        yield {
            **row,
            "view": f"{BLIND}: {view.replace('-', ' ')}",
            "cells": cells,
            "minutes": None,
            "bytes": None,
            "caution": "",
        }


def _name(row: Row, told: str) -> str:
    """The label, and in brackets the view and what is told of the run."""
    inside = ", ".join(filter(None, [row["view"], told]))
    return f"{row['label']} ({inside})" if inside else row["label"]


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


def _whole(body: dict[str, Any]) -> str:
    """A word where clients' own models are scored on images that are not their clients'."""
    shared = body.get("personal") and all(c.get("part") == "whole" for c in body.get("clients", {}).values())
    return "clients have no test images of their own, so their own models are scored on all of them" if shared else ""


def _about(scores: manifest.Manifest) -> Row:
    body = scores.body
    options = {"dataset": body["dataset"]}
    for kind, stage in body["data"].items():
        options |= {f"{kind} {key}": value for key, value in (stage["options"] if stage else {}).items()}
    return {
        **{key: body[key] for key in ("method", "label", "rule", "settings", "rounds", "roster_size")},
        "view": TOLD if body.get("views") else "",
        "options": options | body["options"],
        "data": {kind: stage and stage["sha256"] for kind, stage in body["data"].items()},
        "caution": "; ".join(filter(None, [body.get("caution"), _whole(body)])),
        "small_groups": list(_small(body)),
        "shot_groups": [f"{body['dataset']}: {shots.told(body['shots'])}"] if "shots" in scores.options else [],
    }


def _small(body: dict[str, Any]) -> Iterator[str]:
    for attribute, versions in body["groups"].items():
        for value, part in versions["clean"]["last_round"]["groups"].items():
            if part["small"]:
                yield f"{attribute} {value} of {body['dataset']} is a small group: {part['reason']}"


def _cells(body: dict[str, Any], by_shots: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """(column, cell) of one run, in the order columns are shown."""
    yield from _overall(body)
    if by_shots:
        for name in shots.GROUPS:
            yield f"clean {name} recall", _cell(body["shots"]["versions"]["clean"][name])
    for which, versions in body["personal"].items():
        for version, summary in versions.items():
            yield f"{which.replace('_', ' ')} {version} auc_ovo_macro", _cell(summary.get("auc_ovo_macro"))
    among = body["among_clients"]["auc_ovo_macro"]["std"]
    yield "std among clients auc_ovo_macro", {"mean": among, "std": None, "lower_is_better": True}
    if general := body.get("among_clients_global"):
        for whose, numbers in (("own", body["among_clients"]), ("global", general)):
            mean = numbers["balanced_accuracy"]["mean"]
            column = f"mean among clients balanced_accuracy {whose} model"
            yield column, {"mean": mean, "std": None, "lower_is_better": False}
    yield from _between(body)


def _overall(quality: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for version in ("clean", "corrupted", "average"):
        for metric in SHOWN:
            yield f"{version} {metric}", _cell(quality["versions"].get(version, {}).get(metric))


def _between(quality: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for attribute, versions in quality["groups"].items():
        between = versions["clean"]["over_rounds"]["auc_ovo_macro"]
        yield f"{attribute} ES-AUC (auc_ovo_macro)", _cell(versions["clean"]["over_rounds"].get("es_auc_ovo_macro"))
        yield f"{attribute} worst group auc_ovo_macro", _cell(between["worst"])
        yield f"{attribute} gap auc_ovo_macro", _cell(between["gap"], lower_is_better=True)


def _cell(over_rounds: dict[str, Any] | None, lower_is_better: bool = False) -> dict[str, Any]:
    mean, std = (over_rounds["mean_last5"], over_rounds["std_last5"]) if over_rounds else (None, None)
    return {"mean": mean, "std": std, "lower_is_better": lower_is_better}


def _differences(found: list[Row]) -> list[str]:
    """The settings and options in which each run differs from the others."""
    out = []
    for row in found:
        alike = [other for other in found if other["method"] == row["method"]]
        rounds = [f"rounds={row['rounds']}"] if _stands_out(row["rounds"], [other["rounds"] for other in found]) else []
        out.append(", ".join(_unlike("settings", row, alike) + rounds + _unlike("options", row, found)))
    return out


def _unlike(part: str, row: Row, others: list[Row]) -> list[str]:
    """key=value where a row is not as most others are; the rule has a column of its own."""
    values = {key: [other[part].get(key) for other in others] for key in row[part] if key != "rule"}
    return [f"{key}={_brief(row[part][key])}" for key, column in values.items() if _stands_out(row[part][key], column)]


def _stands_out(value: Any, column: list[Any]) -> bool:
    """Whether a value is to be told: the column has others, and this is not what more than half of it has."""
    return _differ(column) and 2 * sum(value == other for other in column) <= len(column)


def _brief(value: Any) -> str:
    """A hash by its first digits, all else as it is."""
    return str(value)[:8] if re.fullmatch(r"[0-9a-f]{64}", str(value)) else str(value)


def _differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)


def _columns(found: list[Row]) -> list[str]:
    """Columns in which some run has a number."""
    every = dict.fromkeys(column for row in found for column in row["cells"])
    return [column for column in every if any(row["cells"].get(column, {}).get("mean") is not None for row in found)]


def _mark_best(found: list[Row]) -> None:
    """Set `best` in every cell; a run alone in its column has beaten nobody."""
    for column in {column for row in found for column in row["cells"]}:
        cells = [row["cells"][column] for row in found if column in row["cells"]]
        numbers = [float(_percent(cell["mean"])) for cell in cells if cell["mean"] is not None]
        winner = (min if cells[0]["lower_is_better"] else max)(numbers, default=None)
        for cell in cells:
            cell["best"] = len(numbers) > 1 and cell["mean"] is not None and float(_percent(cell["mean"])) == winner


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def _text(cell: dict[str, Any] | None) -> str:
    if cell is None or cell["mean"] is None:
        return "-"
    spread = "" if cell["std"] is None else f" ± {_percent(cell['std'])}"
    return f"{_percent(cell['mean'])}{spread}{' *' if cell['best'] else ''}"


def _markdown(found: list[Row]) -> str:
    columns, lines = table_cells(found)
    rule = ["---", "---", *("---:" for _ in columns[2:])]
    table = [f"| {' | '.join(map(_escaped, line))} |" for line in [columns, rule, *lines]]
    return "\n".join([*table, "", legend(columns, found), *(f"Note: {note}." for note in notes(found))]) + "\n"


def legend(columns: list[str], found: list[Row]) -> str:
    """What the numbers are, and the columns that not every table has."""
    shown = " ".join(columns)
    viewed = any(row["view"] for row in found)
    there = {SHOTS: " recall" in shown, OWN: "own model" in shown, BYTES: TRAFFIC in columns, VIEWS: viewed}
    return LEGEND + "".join(text for text, needed in there.items() if needed)


def _escaped(cell: str) -> str:
    return " ".join(cell.replace("\\", "\\\\").replace("|", "\\|").split())


def _csv(found: list[Row]) -> str:
    columns, parts = _columns(found), ("mean", "std")
    timed, weighed = any(row["minutes"] is not None for row in found), any(row["bytes"] for row in found)
    ways = ("down", "up") if weighed else ()
    last = [*(f"MB {way} per client and round" for way in ways), *(["minutes"] if timed else [])]
    lines = [["method", "rule", *(f"{column} {part} (%)" for column in columns for part in parts), *last]]
    for row in found:
        cells = [row["cells"].get(column, {}) for column in columns]
        sent = [f"{row['bytes'][way] / 1e6:.6f}" if row["bytes"] else "" for way in ways]
        time = [f"{row['minutes']:.2f}" if row["minutes"] is not None else ""] if timed else []
        scores = [_percent(cell.get(part)) for cell in cells for part in parts]
        lines.append([_name(row, row["differs"]), row["rule"], *scores, *sent, *time])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def _json(found: list[Row]) -> str:
    meaning = "shares from 0 to 1: mean and population std over the last five rounds (all of a shorter run)"
    body = {"legend": meaning, "notes": notes(found), "rows": found}
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
