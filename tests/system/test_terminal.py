"""Tables on a terminal of any width: no number and no name is cut, no line is longer than the terminal."""

import contextlib
import io
import os
import re
import shlex
import struct
import threading
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from conftest import make_chain
from made_plans import planned, train

from fedcli.commands.app import app
from fedcli.federation.client import Training
from fedcli.system import terminal

WIDTHS = 60, 80, 100, 160
NUMBERS = ["79.58 ±7.04 *", "5.30", "-12.34 to +4.50", "0.001", "-"]


def on_terminal(command: str, width: int) -> str:
    """The output of a command on a pseudo-terminal of so many columns."""
    fcntl, termios, tty = map(pytest.importorskip, ("fcntl", "termios", "tty"))
    reader, writer = os.openpty()
    tty.setraw(writer)
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    pieces: list[bytes] = []
    keeper = threading.Thread(target=_keep, args=(reader, pieces), daemon=True)
    keeper.start()
    with open(writer, "w", encoding="utf-8") as screen, contextlib.redirect_stdout(screen):
        with contextlib.redirect_stderr(io.StringIO()):
            _run(command)
        print("\0", end="", flush=True)
        keeper.join()
    os.close(reader)
    return b"".join(pieces).decode().rstrip("\0")


def _keep(reader: int, pieces: list[bytes]) -> None:
    while not pieces or not pieces[-1].endswith(b"\0"):
        pieces.append(os.read(reader, 4096))


@cache
def as_file(command: str) -> str:
    """The output of a command where stdout is no terminal."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        _run(command)
    return out.getvalue()


def _run(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        app(shlex.split(command)[1:], prog_name="fedcli")
    assert not ended.value.code


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two systems of two seeds each, on data with a corrupted client."""
    work = tmp_path_factory.mktemp("terminal")
    data = make_chain(work, corrupted=True)
    for method in ("fedavg", "fedheal"):
        for seed in (0, 1):
            plan = planned(method, {}, Training(batch_size=10, lr=0.01), rounds=2, seed=seed)
            train(data, plan, work=work, out=None)
    as_file(f"fedcli report {work / 'runs'}")  # which scores them
    return work / "runs"


COMMANDS = {  # and the widths at which what it shows is laid out differently
    "fedcli report {runs}": WIDTHS,
    "fedcli report {runs} --separate --metric f1_macro --metric auc_ovo_macro --metric balanced_accuracy": WIDTHS,
    "fedcli compare {runs} --resamples 100": WIDTHS,
    "fedcli datasets": (60, 100),
    "fedcli methods": (60, 100),
    "fedcli methods fedism-plus": (60, 100),
    "fedcli inspect {partition}": WIDTHS,
    "fedcli inspect {scores}": WIDTHS,
    "fedcli reproduce": (60, 100),
}


@pytest.mark.parametrize(
    ("command", "width"), [(command, width) for command, at in COMMANDS.items() for width in at]
)
def test_every_number_and_name_appears_whole_at_any_width(runs, command, width):
    partition = runs.parent / "partitions" / "made"
    scores = next(runs.glob("*/scores/*/scores.json"))
    command = command.format(runs=runs, partition=partition, scores=scores)
    printed = on_terminal(command, width)
    words = [Counter(re.sub("[─,]", "", text).split()) for text in (as_file(command), printed)]
    missing = words[0] - words[1]
    assert not missing
    tables = [line for line in printed.splitlines() if not line.startswith(("path:", "  "))]
    if "inspect" not in command:  # which shows paths beside its tables
        for line in tables:
            if "±" in line or "─" in line:
                assert len(line) <= width or len(line.split()) == 1


@pytest.mark.long
def test_the_demo_fits_a_narrow_terminal_and_ends_with_its_page(tmp_path, caplog):
    lines = on_terminal(f"fedcli demo --rounds 1 --work {tmp_path}", 60).splitlines()
    assert Path(lines[-1]) == tmp_path / "report.html"
    assert Path(lines[-1]).is_file()
    assert any("by race" in line for line in lines)
    assert any("by sex" in line for line in lines)
    assert (
        caplog.text.count("groups of few test images") == 1
    )  # not once for the tables and once for the page
    for line in lines:
        if "─" in line or "auc_ovo_macro" in line:
            assert len(line) <= 60


def test_a_table_that_fits_is_shown_as_it_is():
    result = terminal.lines(
        ["method", "clean auc"], [["FedAvg", "79.58 ±7.04 *"], ["B", "-"]], width=40
    )
    assert result == [
        "method      clean auc",
        "─────────────────────",
        "FedAvg  79.58 ±7.04 *",
        "B                   -",
    ]


def test_columns_under_one_head_stay_together_and_the_head_stands_once_above_them():
    heads = ["", "clean", "noisy", "clean", ""]
    over = ["", "accuracy, %", "accuracy, %", "AUC, %", "spread"]
    row = ["FedAvg", "35.1 ±1.9", "26.9 ±4.2", "75.6 ±1.0", "1.5"]
    result = terminal.lines(heads, [row], over=over, width=60)
    assert result == [
        "         accuracy, % ────────      AUC, %",
        "             clean      noisy       clean   spread",
        "──────────────────────────────────────────────────",
        "FedAvg   35.1 ±1.9  26.9 ±4.2   75.6 ±1.0      1.5",
    ]
    stacked = terminal.lines(heads, [row], over=over, width=32)
    result = [line.split() for line in stacked if "FedAvg" in line]
    assert result == [
        ["FedAvg", "35.1", "±1.9", "26.9", "±4.2"],
        ["FedAvg", "75.6", "±1.0", "1.5"],
    ]
    for line in stacked:
        assert len(line) <= 32


@pytest.mark.parametrize("width", range(40, 120, 3))
def test_tables_under_many_heads_are_never_wider_than_asked(width):
    over = ["", *(f"head {letter}, %" for letter in "aabbcdef")]
    row = ["FedAvg", *["12.3 ±45.6"] * 8]
    lines = terminal.lines(["method", *["clean"] * 8], [row], width=width, over=over)
    assert max(map(len, lines)) <= width
    assert " ".join(lines).count("12.3 ±45.6") == 8


def test_text_folds_between_words_before_anything_else_changes():
    row = ["isic2018", "a rather long title of a dataset", "7"]
    result = terminal.lines(["dataset", "title", "classes"], [row], width=36)
    assert result == [
        "dataset   title              classes",
        "────────────────────────────────────",
        "isic2018  a rather long            7",
        "          title of a",
        "          dataset",
    ]


def test_a_table_of_numbers_that_does_not_fit_is_transposed():
    result = terminal.lines(
        ["method", "one", "two", "three"], [["FedAvg", *["79.58 ±7.04"] * 3]], width=40
    )
    assert result == [
        "method       FedAvg",
        "───────────────────",
        "one     79.58 ±7.04",
        "two     79.58 ±7.04",
        "three   79.58 ±7.04",
    ]


def test_a_table_wider_than_that_is_split_and_its_first_column_repeated():
    names = ["clean balanced_accuracy", "corrupted auc_ovo_macro", "sex gap auc_ovo_macro"]
    lines = terminal.lines(
        ["score", "A", "B", "interval", "p"], [[name, *NUMBERS[:4]] for name in names], width=46
    )
    result = [line.split() for line in lines if line.startswith("score")]
    assert result == [
        ["score", "A", "B"],
        ["score", "interval", "p"],
    ]
    for line in lines:
        assert len(line) <= 46


def test_where_nothing_else_fits_there_is_a_list():
    lines = terminal.lines(
        ["dataset", "attributes"], [["a_very_long_name", "another_long_name and more"]], width=24
    )
    assert lines == ["a_very_long_name", "  attributes:", "    another_long_name", "    and more"]


def test_a_table_in_a_file_is_as_wide_as_asked_and_has_no_control_character(monkeypatch):
    widest = []
    for columns in ("", "60", "400"):
        monkeypatch.setenv("COLUMNS", columns)
        out = io.StringIO()
        terminal.table(
            ["name", "number"], [["a\x1b[31m" + "long " * 60, "5.30"]], title="Title", file=out
        )
        assert out.getvalue().startswith("Title\n name")
        widest.append(max(map(len, out.getvalue().splitlines())))
    assert widest[0] <= 100
    assert widest[1] <= 60
    assert 300 < widest[2] <= 400
    assert "\x1b" not in out.getvalue()
    assert "a\\x1b[31mlong" in out.getvalue()


def test_wide_letters_count_as_two_columns():
    lines = terminal.lines(["方法", "n"], [["方法", "1"], ["abcd", "2"]], width=20)
    assert [len(line) for line in lines[2:]] == [5, 7]
