"""Compares what two checkouts of fedcli print and write for every command line of the documentation.

    python tests/support/compare_checkouts.py record OLD              # with the old checkout
    python tests/support/compare_checkouts.py record NEW --like OLD   # with the new one: the same lines
    python tests/support/compare_checkouts.py diff OLD NEW            # exit code 1 if anything differs

`record` plays the lines of the guides, of the help texts and of fixed_sessions.py on synthetic samples. It stores
the exit code and the output of each line, and the files that are there at the end. `diff` ignores measured times.
"""

import argparse
import contextlib
import difflib
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import conftest  # noqa: F401 - one thread, and whatever else the tests run under
import fixed_sessions
import session
import test_documented_lines as guides

MEASURED = {"timing.jsonl", "forecasts.json", "costs.json"}  # files of measured times
TEXTS = {".json", ".jsonl", ".csv", ".md", ".tex", ".html", ".svg", ".txt", ".toml", ".py", ".sh"}
LONGEST_TEXT = 2_000_000  # characters of a file that are stored beside its hash
TIMES = re.compile(
    r"\d+(?:\.\d+)?(?= (?:s|ms|min|h|hours|seconds|minutes|images/s|MB|GB)\b)|\bround \d+ of \d+.*"
)
SECTIONS_OF_TIMES = re.compile(r"<h3>Time and memory</h3>.*?</table>", re.S)


def is_only_parsed(line: str) -> bool:
    return any(part in line for part in guides.ONLY_PARSED)


def lines_by_heading() -> dict[str, dict[str, list[str]]]:
    """For each heading, the lines that come before it and its own lines."""
    sessions = {}
    for heading, lines in guides.GUIDES.items():
        playable = [line for line in lines if not is_only_parsed(line)]
        sessions[heading] = {"before": guides.BEFORE.get(heading, []), "lines": playable}
    for name, lines in fixed_sessions.SESSIONS.items():
        sessions[f"answers: {name}"] = {"before": [], "lines": lines}
    return sessions


def played(words: list[str], root: str) -> dict[str, object]:
    """The exit code and the output of one command; root is replaced in the output."""
    from fedcli.commands.app import app

    out = io.StringIO()
    err = io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app(words, prog_name="fedcli")
        except SystemExit as end:
            code = end.code or 0
    return {
        "code": code,
        "out": out.getvalue().replace(root, "ROOT"),
        "err": err.getvalue().replace(root, "ROOT"),
    }


def play_line(line: str, heading: str, raw: dict[str, Path], root: str) -> dict[str, object]:
    """The result of one typed line, with the lines in its $(...) and before its | or && played first."""
    if heading.startswith("answers: "):
        return played(fixed_sessions.here(line).split()[1:], root)
    if re.search(r"\$\(fedcli| \| | && ", line):
        try:
            return {"code": 0, "out": session.output(line, lambda text: guides.as_run(text, raw))}
        except AssertionError as failure:
            return {"code": 1, "out": str(failure).replace(root, "ROOT")}
    return played(guides.as_run(line, raw), root)


def stored_files(folder: Path, root: str) -> dict[str, dict[str, str]]:
    """The hash, and if it is short the text, of every file below a folder."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or path.is_symlink() or path.name in MEASURED or "/." in f"/{name}":
            continue
        content = path.read_bytes().replace(root.encode(), b"ROOT")
        files[name] = {"sha256": hashlib.sha256(content).hexdigest()}
        if path.suffix in TEXTS and len(content) < LONGEST_TEXT:
            files[name]["text"] = content.decode(errors="replace")
    return files


def play_heading(heading: str, lines: dict, raw: dict[str, Path], root: Path) -> dict:
    """Output of the lines of one heading, and the files that they leave."""
    folder = root / "play"
    folder.mkdir()
    outputs = []
    with contextlib.chdir(folder):
        if heading.startswith("answers: "):
            os.environ["FEDCLI_WORK"] = "."
            fixed_sessions.write_files(Path())
        else:
            os.environ.pop("FEDCLI_WORK", None)
            guides.write_files_of_guides()
        for line in [*lines["before"], *lines["lines"]]:
            outputs.append({"line": line, **play_line(line, heading, raw, str(root))})
    files = stored_files(folder, str(root))
    shutil.rmtree(folder)
    return {"outputs": outputs, "files": files}


def record(target: Path, like: Path | None, only: str) -> None:
    target.mkdir(parents=True, exist_ok=True)
    lines_path = target / "lines.json"
    if like:
        shutil.copy(like / "lines.json", lines_path)
    elif not lines_path.exists():
        lines_path.write_text(json.dumps(lines_by_heading(), indent=1), encoding="utf-8")
    sessions = json.loads(lines_path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="same-") as scratch:
        raw = guides.make_raw_folders(Path(scratch))
        for number, (heading, lines) in enumerate(sessions.items()):
            result_path = target / f"{number:03d}.json.gz"
            if result_path.exists() or not re.search(only, heading):
                continue
            print(f"{number + 1}/{len(sessions)} {heading}", file=sys.stderr, flush=True)
            result = play_heading(heading, lines, raw, Path(scratch))
            text = json.dumps({"heading": heading, **result})
            result_path.write_bytes(gzip.compress(text.encode(), compresslevel=3))


def without_times(text: str) -> str:
    text = SECTIONS_OF_TIMES.sub("", text)
    text = "".join(line for line in text.splitlines(True) if not session._half_way(line))
    return TIMES.sub("N", text)


def differences(old: dict, new: dict) -> list[str]:
    """Descriptions of what differs between two results of one heading."""
    changes_found = []
    for before, after in zip(old["outputs"], new["outputs"], strict=True):
        for part in ("code", "out", "err"):
            texts = [without_times(str(result.get(part, ""))) for result in (before, after)]
            if texts[0] != texts[1]:
                changes_found.append(f"{part} of {before['line']}\n{changes(*texts)}")
    for name in sorted(old["files"].keys() | new["files"].keys()):
        before = old["files"].get(name)
        after = new["files"].get(name)
        if before is None or after is None:
            changes_found.append(f"file {name}: only {'new' if before is None else 'old'}")
        elif before["sha256"] != after["sha256"]:
            texts = [without_times(file.get("text", file["sha256"])) for file in (before, after)]
            if texts[0] != texts[1]:
                changes_found.append(f"file {name}\n{changes(*texts)}")
    return changes_found


def changes(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "old", "new", n=0, lineterm="")
    return "\n".join(line[:300] for line in list(lines)[2:14])


def read(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))


def compare(old: Path, new: Path) -> int:
    compared = files = lines = differing = 0
    for path in sorted(old.glob("*.json.gz")):
        if not (new / path.name).exists():
            continue
        before = read(path)
        after = read(new / path.name)
        compared += 1
        lines += len(before["outputs"])
        files += len(before["files"])
        for text in differences(before, after):
            differing += 1
            print(f"[{path.name[:3]} {before['heading']}] {text}\n")
    print(f"{compared} headings, {lines} lines, {files} files: {differing} differ")
    return int(differing > 0 or compared == 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("target", type=Path)
    recording.add_argument("--like", type=Path, help="a record whose lines are played")
    recording.add_argument("--only", default="", help="pattern of headings")
    comparing = commands.add_parser("diff")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.command == "diff":
        return compare(options.old, options.new)
    record(options.target.absolute(), options.like, options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
