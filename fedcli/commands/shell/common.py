"""Flags that several commands have and no stage declares, and what commands refuse or do alike."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from ... import console
from ...common_options import ATTRIBUTE, OUTPUT, RESULTS, TO_OUTPUT, WORK
from ...errors import LimitError, UsageError, nearest
from ...io import outputs
from ...options import Flag

Work = Annotated[Path, "folder of all results", RESULTS]
Json = Annotated[bool, "print JSON instead of a path or a table", TO_OUTPUT]
BriefJson = Annotated[
    Literal["", "short", "full"],
    "print JSON instead of a path or a table: the main numbers and warnings; "
    "--json=full: everything",
    Flag("[=full]", local=True, panel=OUTPUT, alone="short"),
]
FailIf = Annotated[
    Sequence[str],
    "end with exit code 4 if this is true, such as 'gap(sex) > 5', 'worst(age) of "
    "accuracy on noisy < 60' or, of compare, 'change(auc_ovo_macro) < -1'; in "
    "percent; may be repeated",
    Flag("LIMIT", local=True, panel=OUTPUT),
]
AcceptLicence = Annotated[
    bool,
    "accept the licences of what is downloaded, which are shown; a terminal asks",
    Flag(access="typed"),
]
Force = Annotated[
    bool,
    "replace existing files, even if fedcli did not write them or they were changed since",
    Flag(local=True, panel=OUTPUT, access="typed"),
]
Seed = Annotated[int, "seed of every random number of this stage"]
Size = Annotated[int | None, "side of the prepared images in pixels, >= 8"]
By = Annotated[Sequence[str], "an attribute; may be repeated", ATTRIBUTE]

DEFAULT_WORK = Path(WORK)
DRY_RUN_ALONE = "-"  # the value of --dry-run where it is typed alone
FORMATS = "table", "markdown", "latex", "csv", "json", "html"
DRAWN = "svg", "pdf", "png"


def refuse_together(**flags: object) -> None:
    """Raise UsageError if more than one of these flags has a value."""
    names = [f"--{name.replace('_', '-')}" for name, value in flags.items() if value]
    if len(names) > 1:
        raise UsageError(f"{names[0]} and {names[1]} exclude each other", "give one of them")


def refuse_broken(sentences: Sequence[str]) -> None:
    """Raise LimitError where there is a sentence on a limit that is broken, and say all of them."""
    for sentence in sentences[:-1]:
        console.fail(sentence)
    if sentences:
        raise LimitError(sentences[-1], "all results are written and printed")


def write(out: Path, text: str) -> None:
    """Write a file among fedcli's own, which is none of a run, and its folder where it is not
    there.
    """
    from ...io.files import write_text

    outputs.refuse_sealed(out)
    write_text(out, text)


def check_named(out: Path, *, force: bool) -> None:
    """Refuse a file that a person names where it would take the place of another. Raises
    FedcliError, UsageError.
    """
    outputs.refuse_sealed(out)
    outputs.check(out, force=force)


def write_named(out: Path, result: bytes, *, force: bool) -> None:
    """Write what a person has named. Raises FedcliError, UsageError as check_named() does."""
    outputs.refuse_sealed(out)
    outputs.write(out, result, force=force)


def fill(
    folder: Path, draw: Callable[[Path], Sequence[Path]], *, force: bool = False
) -> list[Path]:
    """Write files into a folder that a person names, and return their paths.

    draw: writes them into another folder, and returns their paths there.
    Raises FedcliError, UsageError before any is written, as check_named() does.
    """
    with tempfile.TemporaryDirectory() as scratch:
        paths = {folder / path.name: path for path in draw(Path(scratch))}
        for target in paths:
            check_named(target, force=force)
        for target, path in paths.items():
            write_named(target, path.read_bytes(), force=force)
    return list(paths)


def give(text: str, out: Path | None, *, force: bool = False) -> None:
    """Print a text, or write it to a file that a person names and print its path."""
    if out is None:
        print(text, end="")
        return
    write_named(out, text.encode(), force=force)
    if not outputs.is_stream(out):
        console.result(str(out))


def formats(text: str, draws: bool) -> tuple[str, list[str]]:
    """The format of the table and those of the figures. Raises UsageError."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    tables = [name for name in names if name in FORMATS]
    figures = [name for name in names if name in DRAWN]
    for name in names:
        if name not in (*FORMATS, *DRAWN):
            raise UsageError(f"--format {name!r} is unknown", nearest(name, [*FORMATS, *DRAWN]))
    if figures and not draws:
        hint = "add --figures DIR, a folder for them"
        raise UsageError(f"--format {figures[0]} is of figures", hint)
    if len(tables) > 1:
        sentence = f"--format {tables[0]} and {tables[1]} are two formats of one table"
        raise UsageError(sentence, "give one of them")
    return tables[0] if tables else "table", figures or ["svg"]
