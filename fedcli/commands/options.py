"""One vocabulary of options for every command, and what they have in common."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import console
from ..common_options import OUTPUT
from ..errors import UsageError

DEBUG = "fedcli.debug"  # key of the context's notes that all commands of a call share


def _quiet(value: bool) -> bool:
    if value:
        console.be_quiet()
    return value


def _debug(context: typer.Context, value: bool) -> bool:
    context.meta[DEBUG] = value
    return value


Work = Annotated[Path, typer.Option(help="folder that results go to and are looked for in", rich_help_panel=OUTPUT)]
Out = Annotated[
    Path | None, typer.Option(help="folder of this result; default: a name under --work", rich_help_panel=OUTPUT)
]
Seed = Annotated[int, typer.Option(help="seed of every random number of this stage")]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of a path or a table", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool, typer.Option("--quiet", callback=_quiet, help="no progress and no notes on stderr", rich_help_panel=OUTPUT)
]
Debug = Annotated[
    bool, typer.Option("--debug", callback=_debug, help="show the traceback of an error", rich_help_panel=OUTPUT)
]
Size = Annotated[int | None, typer.Option(min=8, help="side of the prepared images in pixels")]
Clients = Annotated[int | None, typer.Option(min=1, help="number of clients")]
By = Annotated[list[str] | None, typer.Option(metavar="ATTRIBUTE", help="an attribute; may be repeated")]

DEFAULT_WORK = Path("fedcli-work")
LONGEST_PATH = 65536  # characters that are read of a stream, which may have no end


def piped() -> str:
    """A path that another command printed. Raises UsageError."""
    if sys.stdin and (path := sys.stdin.readline(LONGEST_PATH).strip()):
        return path
    raise UsageError("stdin holds no path", "pipe the output of another fedcli command into this one")


def source(path: str | None, work: Path, *kinds: str) -> Path:
    """The manifest a command reads: its argument, a line of stdin for "-", or the newest under --work."""
    from ..stages.call import source

    return source(piped() if path == "-" else path, work, *kinds)


def show(path: Path, as_json: bool) -> None:
    """Print a stage's result: its path on one line, or path and manifest as JSON."""
    if not as_json:
        console.result(str(path))
        return
    show_json({"path": str(path), "manifest": json.loads(path.read_text(encoding="utf-8"))})


def refuse_sealed(out: Path) -> None:
    """Raise UsageError for a folder, and for a file among those of a run, which are hashed when it ends."""
    if str(out) == "-":
        raise UsageError("- is no file", "leave it out to print")
    if out.is_dir():
        raise UsageError(f"{out} is a folder", "give the name of a file")
    _refuse_in_a_run(out, out.resolve().parents, "file")


def refuse_sealed_folder(out: Path) -> None:
    """Raise UsageError for a file, and for a folder that is, or lies in, that of a run."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file", "give a folder")
    _refuse_in_a_run(out, [out.resolve(), *out.resolve().parents], "folder")


def _refuse_in_a_run(out: Path, folders: Iterable[Path], what: str) -> None:
    if any((folder / "settings.json").is_file() for folder in folders):
        raise UsageError(f"{out} lies in the folder of a run, whose files are sealed", f"give a {what} elsewhere")


def write(out: Path, text: str) -> None:
    """Write a file, and its folder where it is not there."""
    from ..data import manifest

    refuse_sealed(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(out, text)


def show_json(value: Any) -> None:
    print(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False))


def refuse_together(**flags: object) -> None:
    """Raise UsageError if more than one of these flags is given."""
    given = ["--" + name.replace("_", "-") for name, value in flags.items() if value not in (None, False, [])]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} exclude each other", "give one of them")


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
