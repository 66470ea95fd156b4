"""Results and tables on a terminal."""

import json
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ... import console

if TYPE_CHECKING:
    from ...reporting.rows import Row
    from ...reporting.table import Table


PARTS = "train", "val", "test"
TOLD = (
    "name",
    "dataset",
    "method",
    "label",
    "rounds",
    "scheme",
    "severity",
)  # of a manifest, where it has them


def show(
    make: Callable[[], Path], as_json: str, then: Callable[[Path], None] | None = None
) -> None:
    """Run a stage and print its result: the path on one line, or as JSON.

    as_json: "short" for what was made, its counts and warnings; "full" for the whole manifest.
    then: called with the path before it is printed.
    """
    with console.warnings_kept() as warned:
        path = make()
    if then:
        then(path)
    if not as_json:
        console.result(str(path))
        return
    manifest = json.loads(path.read_text(encoding="utf-8"))
    about = {"manifest": manifest} if as_json == "full" else _brief(manifest)
    show_json({"path": str(path), "warnings": warned, **about})


def _brief(manifest: dict[str, Any]) -> dict[str, Any]:
    body, roster = manifest["body"], manifest["body"].get("roster")
    about = {"kind": manifest["kind"], **{name: body[name] for name in TOLD if name in body}}
    if "sample" in body:
        about["sample"] = body["sample"]
    if manifest["kind"] == "corruption":
        about |= {"corruption": body["kind"], "noisy": body["clients"]}
    if manifest["kind"] == "run":
        return about | {"seed": manifest["options"].get("seed"), "clients": len(roster)}
    groups = {name: len(values) for name, values in body["attributes"].items()}
    about |= {"classes": len(body["classes"]), "attributes": groups}
    if roster is not None:
        held = {part: sum(client[part] for client in roster) for part in PARTS}
        shared = (
            {"test"} if not held["test"] else set()
        )  # its test images are no client's, so 0 would mislead
        return about | {
            "clients": len(roster),
            **{part: held[part] for part in PARTS if part not in shared},
        }
    images = {
        part: body.get("split", {}).get(part, 0) for part in PARTS if part in body.get("split", {})
    }
    return about | images | {"left_out": len(body.get("skipped", []))}


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    print(dumped(value))


def dumped(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)


def show_tree(values: dict[str, Any], indent: str = "") -> None:
    """Print nested values for a person, one line each."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            print(f"{indent}{_line(key)}:")
            show_tree(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            print(f"{indent}{_line(key)}:")
            for item in value:
                print(f"{indent}  " + ", ".join(f"{_line(k)} {_short(v)}" for k, v in item.items()))
        else:
            print(f"{indent}{_line(key)}: {_short(value)}")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_line(str(item)) for item in value) or "none"
    return "none" if value is None or value == {} else _line(str(value))


def _line(text: str) -> str:
    """Text on one line that cannot drive a terminal: names come from files of others."""
    return console.printable(text.replace("\n", "\\n"))


def show_rows(rows: "list[Row]", file: TextIO | None = None, *, between: bool = True) -> None:
    """Print the rows of a report as tables, with what they share above, and what they show and mean below.

    between: whether to show the numbers between groups too.
    """
    from ...reporting import writers
    from ...reporting.tables import report

    made = report(rows)
    writers.say([*made.about, *made.measured], file)
    show_tables(made.tables if between else made.tables[:1], file)
    writers.say([*made.verdicts, *(f"{text}." for text in made.levelled), *made.legends], file)


def show_tables(tables: "Iterable[Table]", file: TextIO | None = None) -> None:
    """Print tables, and what the numbers of alike ones are below the last of them."""
    from ...reporting import writers

    for legend, alike in groupby(tables, key=lambda table: table.legend):
        for table in alike:
            writers.show(table, file)
        writers.say([legend] if legend else [], file)
