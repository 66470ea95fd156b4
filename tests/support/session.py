"""The recorded sessions of README and docs: run their commands again and compare, or record them anew.

`python tests/support/session.py` records the one on embedded data, `python tests/support/session.py FOLDER` those on
real images, where FOLDER is laid out as FEDCLI_REAL_DATA is.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]
EMBEDDED, SKIN, REAL = "session", "session on skin images", "session on real images"
EXTERNAL = "session of external validation"
PAGES = {
    name: ROOT / page
    for name, page in {
        EMBEDDED: "docs/first-table.md",
        SKIN: "README.md",
        REAL: "docs/real-images.md",
        EXTERNAL: "docs/external-validation.md",
    }.items()
}


def block(name: str) -> re.Pattern:
    return re.compile(rf"(<!-- {name} -->\n```console\n)(.*?)(```\n)", re.S)


def recorded(name: str) -> list[tuple[str, str]]:
    """(command, what it printed) of every command in one of the sessions."""
    text = block(name).search(PAGES[name].read_text(encoding="utf-8"))[2]
    parts = re.split(r"^\$ (.*)\n", text, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def run(command: str) -> str:
    """Stdout and stderr of a command together, in this process and folder."""
    from fedcli.commands.app import app

    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        contextlib.suppress(SystemExit),
    ):
        app(shlex.split(command)[1:], prog_name="fedcli")
    lines = [line.rstrip() + "\n" for line in out.getvalue().splitlines()]
    return "".join(line for line in lines if not _half_way(line))


def output(
    line: str,
    as_run: Callable[[str], list[str]] = lambda line: shlex.split(line)[1:],
    stdin_text: str = "",
) -> str:
    """The stdout of a line; commands in $(...) and before | or && run before it; its exit code is 0.

    as_run: the words of the command that is run for the line; stdin_text: the text that it reads from stdin.
    """
    from fedcli.commands.app import app

    if before := re.match(r"(.*) (\||&&) ", line):
        printed = output(before[1], as_run, stdin_text)
        return output(line[before.end() :], as_run, printed if before[2] == "|" else "")
    while inner := re.search(r"\$\((fedcli [^()]*)\)", line):
        line = line.replace(inner[0], output(inner[1], as_run).strip())
    out = io.StringIO()
    err = io.StringIO()
    code = None
    read = mock.patch("sys.stdin", io.StringIO(stdin_text))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), read:
        try:
            app(as_run(line), prog_name="fedcli")
        except SystemExit as end:
            code = end.code
    assert not code, f"{line}\n{err.getvalue()}"
    return out.getvalue()


def _half_way(line: str) -> bool:
    """Progress that only a slow machine prints."""
    if re.fullmatch(r"round \d+ of \d+: \d+ of \d+ clients\n?", line):
        return True
    match = re.search(r" (\d+)/(\d+) \(\d+ s\)$", line)
    return bool(match) and match[1] != match[2]


def comparable(text: str) -> tuple[list[str], list[float]]:
    """Words that are the same on every machine, and measured numbers on their own.

    Digests, clocks, speeds (of trainings of five seconds or more) and column widths, which decide where heads break,
    differ from run to run; which of two close systems has the star of a column, which group decides a gap, the verdict
    on a close difference, and the last digits of what was measured, differ from processor to processor.
    """
    text = re.sub(
        r"^(speed|Trained in |\*: |† |.*no significant difference).*\n", "", text, flags=re.M
    )
    text = re.sub(r"\n\n(?:.+\n)*?In brackets: (?:.+\n)*", "\n", text)
    text = re.sub(r"\bworst: \S+", "worst", text)
    text = re.sub(r"95 % interval, by\s.*?^Intervals: ", _without_numbers, text, flags=re.S | re.M)
    text = re.sub(r"threshold \d.*?^More: ", _without_numbers, text, flags=re.S | re.M)
    text = re.sub(r"-[0-9a-f]{8}\b|/[0-9a-f]{8}/", "-DIGEST/", text)
    text = re.sub(r"\(\d+ s\)", "(SECONDS)", text)
    numbers = [float(n) for n in re.findall(r"\d+\.\d+", text)]
    text = re.sub(r"\d+\.\d+", "N", text).replace("*", "").replace("†", "")
    return sorted(re.sub("[─━]+", " ", text).split()), numbers


def _without_numbers(table: re.Match) -> str:
    """A table of one model without its numbers, which vary more than means over rounds do."""
    return re.sub(r"[\d.,]*\d", "N", table[0])


def lay_out(data: Path, folder: Path) -> None:
    """The raw folders of the session on real images: HAM10000, and head CT slices in Kaggle's layout."""
    from raw_folders import write_csv

    (folder / "ham10000").symlink_to(data.resolve() / "ham10000")
    slices = folder / "kaggle" / "stage_2_train"
    slices.mkdir(parents=True)
    paths = sorted((data / "ct_head").rglob("*"))
    files = [path for path in paths if path.is_file() and path.name != "LICENSE"]
    kinds = "epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural", "any"
    rows = []
    for i, file in enumerate(files):
        (slices / f"ID_{i:03d}.dcm").symlink_to(file.resolve())
        for k, kind in enumerate(kinds):
            is_present = k in (i % 5, 5)
            rows.append([f"ID_{i:03d}_{kind}", int(is_present)])
    write_csv(folder / "kaggle" / "stage_2_train.csv", ["ID", "Label"], rows)


def record(*names: str, data: Path | None = None) -> None:
    """Sessions that go on from one another in one folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        if data:
            lay_out(data, Path(folder))
        for name in names:
            text = "".join(f"$ {command}\n{run(command)}" for command, _ in recorded(name))
            page = PAGES[name].read_text(encoding="utf-8")
            before, after = block(name).search(page).span(2)
            PAGES[name].write_text(page[:before] + text + page[after:], encoding="utf-8")


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"
    if sys.argv[1:]:
        record(SKIN, REAL, data=Path(sys.argv[1]).resolve())
        record(EXTERNAL, data=Path(sys.argv[1]).resolve())
    else:
        record(EMBEDDED)
