"""Fixed sessions give the numbers recorded in golden/tables.json, on any processor.

Trained models differ in their last bits from one processor to the next, and tables of them by whole points. Here the
models are trained, and then answer from a seed: scores, tables, tests and predictions of these answers must agree to
1e-6, and texts exactly. Of every scores.json one number in sixty is recorded. Numbers that a later version adds are not
compared. After an intended change,
`PYTHONPATH=tests:tests/support python tests/test_golden_tables.py [SESSION...]` records them anew.
"""

import contextlib
import csv
import io
import json
import os
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import fixed_sessions
import pytest
import session
from made_answers import made_answers

from fedcli.scores.nested import nested
from fedcli.scores.scores import RunScores

TABLES = Path(__file__).parent / "golden" / "tables.json"
CLOSE = 1e-6
ONE_IN = 60  # numbers of scores.json
DIGEST = re.compile(r"-[0-9a-f]{8}\b|\b[0-9a-f]{64}\b")
# sentences, settings and paths; numbers and cells are compared
NOT_COMPARED = {
    "columns",
    "command",
    "data",
    "legend",
    "model",
    "notes",
    "options",
    "paper",
    "scores",
    "sentences",
    "settings",
    "warning",
    "warnings",
}


def play(name: str) -> dict[str, dict[str, Any]]:
    """Play a session in this folder; the numbers and cells that each line gave, by their paths."""
    fixed_sessions.write_files(Path())
    answers = {}
    with mock.patch.dict(os.environ, {"FEDCLI_WORK": "."}), made_answers():
        for line in fixed_sessions.SESSIONS[name]:
            printed = session.output(fixed_sessions.here(line))
            if numbers := numbers_of_line(line, printed):
                answers[line] = numbers
    if name == "demo":
        for path in sorted(Path().glob("**/scores/*/scores.json")):
            method = path.parts[-4].rsplit("-", 1)[0]
            answers[f"scores of {method}"] = numbers_of_scores(path)
    return answers


def numbers_of_line(line: str, printed: str) -> dict[str, Any]:
    if line.split()[1] == "evaluate":
        return numbers_of_scores(Path(printed.strip()))
    if "--export long.csv" in line:
        return cells_of(printed) | numbers_of_long_table(Path("long.csv"))
    if line.endswith(("json", "json=full")):
        return dict(leaves(json.loads(printed)))
    if line.endswith("csv"):
        return cells_of(printed)
    return {}


def numbers_of_scores(path: Path) -> dict[str, Any]:
    body = json.loads(json.dumps(nested(RunScores.read(path))))
    return {name: number for name, number in leaves(body) if is_recorded(name, number)}


def is_recorded(name: str, number: Any) -> bool:
    """Tell whether a number of a long list is one of those that are recorded; others do not decide it."""
    return not isinstance(number, str) and zlib.crc32(name.encode()) % ONE_IN == 0


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, number or text) of everything in nested dicts and lists that is compared."""
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    else:
        if value is not None:
            yield path, without_digests(value)
        return
    for key, item in entries:
        if key not in NOT_COMPARED:
            yield from leaves(item, f"{path}/{key}".lstrip("/"))


def without_digests(value: Any) -> Any:
    return DIGEST.sub("-DIGEST", value) if isinstance(value, str) else value


def cells_of(text: str) -> dict[str, Any]:
    """The cells of a CSV table, by row and column."""
    cells = {}
    for number, row in enumerate(csv.DictReader(io.StringIO(text))):
        for column, cell in row.items():
            cells[f"{number}/{column}"] = number_or_text(cell)
    return cells


def numbers_of_long_table(path: Path) -> dict[str, Any]:
    """The numbers of an exported table, by the texts before them."""
    _, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    numbers = {}
    for *texts, cell in rows:
        name = "long/" + ",".join(texts)
        number = number_or_text(cell)
        if is_recorded(name, number):
            numbers[name] = number
    return numbers


def number_or_text(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return without_digests(cell)


def is_close(number: Any, before: Any) -> bool:
    if isinstance(before, str) or isinstance(number, str):
        return number == before
    return number == pytest.approx(before, rel=CLOSE, abs=CLOSE, nan_ok=True)


def differences(answers: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What is recorded and has another value now, or none."""
    changed = {}
    for name, number in before.items():
        if not is_close(answers.get(name, "missing"), number):
            changed[name] = number, answers.get(name, "missing")
    return changed


def test_another_number_and_a_missing_one_differ_and_a_further_one_does_not():
    before = {"auc": 0.5, "gap": 0.1, "label": "FedAvg", "worst": 0.3}
    answers = {"auc": 0.5 + 1e-9, "gap": 0.2, "label": "FedProx", "f1": 0.7}
    assert differences(answers, before) == {
        "gap": (0.1, 0.2),
        "label": ("FedAvg", "FedProx"),
        "worst": (0.3, "missing"),
    }


@pytest.mark.long
@pytest.mark.parametrize("name", fixed_sessions.SESSIONS)
def test_a_session_gives_the_recorded_numbers(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded = json.loads(TABLES.read_text(encoding="utf-8"))[name]
    answers = play(name)
    assert list(answers) == list(recorded)
    for line, before in recorded.items():
        changed = differences(answers[line], before)
        assert not changed, f"{line}: {len(changed)} of {len(before)} differ: {changed}"


def record(names: list[str]) -> None:
    """Write what these sessions give, a line for each command."""
    recorded = json.loads(TABLES.read_text(encoding="utf-8")) if TABLES.exists() else {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            recorded[name] = play(name)
    sessions = []
    for name in fixed_sessions.SESSIONS:
        lines = []
        for line, numbers in recorded[name].items():
            text = json.dumps(rounded(numbers), separators=(",", ":"))
            lines.append(f"  {json.dumps(line)}: {text}")
        body = ",\n".join(lines)
        sessions.append(f" {json.dumps(name)}: {{\n{body}\n }}")
    TABLES.write_text("{\n" + ",\n".join(sessions) + "\n}\n", encoding="utf-8")


def rounded(numbers: dict[str, Any]) -> dict[str, Any]:
    texts_and_numbers = {}
    for name, number in numbers.items():
        texts_and_numbers[name] = round(number, 8) if isinstance(number, float) else number
    return texts_and_numbers


if __name__ == "__main__":
    import conftest  # noqa: F401 - one thread, and what else tests run under

    record(sys.argv[1:] or list(fixed_sessions.SESSIONS))
