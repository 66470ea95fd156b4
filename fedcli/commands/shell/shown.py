"""Results and tables on a terminal."""

import json
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ... import console

if TYPE_CHECKING:
    from ...reporting.table import ReportTable
    from ...reporting.tables import ScoresReport


PARTS = "train", "val", "test"
# of a manifest, where it has them
BRIEF = "name", "dataset", "method", "label", "rounds", "scheme", "severity", "sample"


def show(
    make: Callable[[], Path],
    as_json: str,
    then: Callable[[Path], None] | None = None,
) -> None:
    """Run a stage and print its result: the path on one line, or as JSON.

    as_json: "short" for what was made, its counts and warnings; "full" for the whole manifest.
    then: called with the path before it is printed.
    """
    with console.warnings_kept() as warnings:
        path = make()
    if then:
        then(path)
    if not as_json:
        console.result(str(path))
        return
    manifest = json.loads(path.read_text(encoding="utf-8"))
    facts = {"manifest": manifest} if as_json == "full" else _brief(manifest)
    show_json({"path": str(path), "warnings": warnings, **facts})


def _brief(manifest: dict[str, Any]) -> dict[str, Any]:
    """Facts of a manifest that people look at."""
    kind = manifest["kind"]
    body = manifest["body"]
    facts = {"kind": kind} | {name: body[name] for name in BRIEF if name in body}
    if kind == "corruption":
        facts["corruption"] = body["kind"]
        facts["noisy"] = body["clients"]
    if kind == "run":
        facts["seed"] = manifest["options"].get("seed")
        facts["clients"] = len(body["roster"])
        return facts
    facts["classes"] = len(body["classes"])
    facts["attributes"] = {name: len(values) for name, values in body["attributes"].items()}
    roster = body.get("roster")
    if roster is None:
        split = body.get("split", {})
        counts = {part: split[part] for part in PARTS if part in split}
        return facts | counts | {"left_out": len(body.get("skipped", []))}
    facts["clients"] = len(roster)
    for part in PARTS:
        count = sum(client[part] for client in roster)
        if count or part != "test":  # test images may be no client's: 0 would mislead
            facts[part] = count
    return facts


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    print(dumped(value))


def dumped(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)


def show_tree(values: dict[str, Any], indent: str = "") -> None:
    """Print nested values for a person, one line each."""
    for key, value in values.items():
        title = f"{indent}{_line(key)}:"
        if isinstance(value, dict) and value:
            print(title)
            show_tree(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            print(title)
            for row in value:
                cells = [f"{_line(name)} {_short(cell)}" for name, cell in row.items()]
                print(f"{indent}  {', '.join(cells)}")
        else:
            print(title, _short(value))


def _short(value: Any) -> str:
    """A value in words; "none" for nothing."""
    if isinstance(value, list):
        return " ".join(_line(str(item)) for item in value) or "none"
    return "none" if value is None or value == {} else _line(str(value))


def _line(text: str) -> str:
    """Text on one line that cannot drive a terminal: names come from files of others."""
    return console.printable(text.replace("\n", "\\n"))


def show_report(
    tables: "ScoresReport",
    file: TextIO | None = None,
    *,
    between: bool = True,
) -> None:
    """Print a report as tables, with what its rows share and show above, and what they mean below.

    between: whether to show the numbers between groups too.
    """
    from ...reporting import writers

    writers.say([*tables.about, *tables.measured], file)
    levels = [f"{text}." for text in tables.levelled]
    answers = [*tables.verdicts, *levels]
    writers.say(["\n", *answers, "\n"] if answers else [], file)
    if between:
        show_tables(tables.tables, file)
        writers.say(tables.legends, file)
        return
    for table, legends in zip(tables.tables[:1], tables.legends_by_table):
        show_tables([table], file)
        writers.say(legends, file)


def show_tables(tables: "Iterable[ReportTable]", file: TextIO | None = None) -> None:
    """Print tables, and what the numbers of alike ones are below the last of them."""
    from ...reporting import writers

    for legend, tables_of_legend in groupby(tables, key=lambda table: table.legend):
        for table in tables_of_legend:
            writers.show(table, file)
        writers.say([legend], file)
