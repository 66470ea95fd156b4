"""Hostile files, links, signals, other processes, full disks, odd environments: an answer, and no other harm."""

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .chain import STAGES, copied, files
from .judge import faults
from .process import run

THESIS = "ten years of work\n"


def _replaced(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink()
    make(path)


KINDS: dict[str, Callable[[Path], None]] = {
    "a FIFO": lambda path: _replaced(path, os.mkfifo),
    "a link to a FIFO": lambda path: _replaced(path, _linked_fifo),
    "a link to itself": lambda path: _replaced(path, lambda p: p.symlink_to(p.name)),
    "/dev/zero": lambda path: _replaced(path, lambda p: p.symlink_to("/dev/zero")),
    "a folder": lambda path: _replaced(path, lambda p: p.mkdir()),
    "unreadable": lambda path: path.chmod(0),
    "a link outside": lambda path: _replaced(path, lambda p: p.symlink_to("/etc/hostname")),
    "a huge empty file": lambda path: os.truncate(path, 2**30),
}


def _linked_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to("fifo")


ATTACKED = {  # a file that somebody has replaced -> the stage that meets it
    "raw/labels.csv": "prepare",
    "raw/im07.png": "prepare",
    "fedcli-work/datasets/*/dataset.json": "partition",
    "fedcli-work/datasets/*/pool.h5": "partition",
    "fedcli-work/corruptions/*/corruption.json": "train",
    "fedcli-work/corruptions/*/changed.h5": "train",
    "fedcli-work/runs/*/run.json": "evaluate",
    "fedcli-work/runs/*/models/00003.h5": "evaluate",
    "fedcli-work/runs/*/rounds.jsonl": "evaluate",
}


@pytest.mark.parametrize("pattern", ATTACKED)
def test_what_is_no_plain_file_ends_in_a_sentence(pattern, chain, play, tmp_path):
    stage = ATTACKED[pattern]
    for kind in play.some(sorted(KINDS)):
        if kind == "unreadable" and os.geteuid() == 0:
            continue  # root reads everything
        folder = copied(chain.before(stage), tmp_path / "case")
        KINDS[kind](next(folder.glob(pattern)))
        ended = run(STAGES[stage], folder, seconds=20, before=_limited)
        play.judge(
            ended, faults(ended, must_fail=pattern != "raw/im07.png"), f"{pattern} is {kind}"
        )


def _limited() -> None:
    """Enough address space for the work, not for a bomb."""
    resource.setrlimit(resource.RLIMIT_CPU, (30, 40))


TARGETS = [
    ".lock",
    "timing.jsonl",
    "rounds.jsonl",
    "settings.json.tmp",
    "state/00003.h5",
    "models/00003.h5",
    "run.json.tmp",
]


@pytest.mark.parametrize("name", TARGETS)
def test_a_link_in_a_work_folder_is_never_written_through(name, chain, tmp_path):
    begun = copied(chain.before("train"), tmp_path / "begun")
    stopped = run(STAGES["train"], begun, before=stops_in_round_3)
    assert stopped.code == 130, stopped.err
    thesis = tmp_path / "thesis.txt"
    thesis.write_text(THESIS)
    link = next(begun.glob("fedcli-work/runs/*")) / name
    link.unlink(missing_ok=True)
    link.symlink_to(thesis)
    ended = run(STAGES["train"], begun)
    assert thesis.read_text() == THESIS, f"{name}: the file behind a link is written to"
    assert not faults(ended), ended.err


def stops_in_round_3() -> None:
    from conftest import interrupt_in_round

    from fedcli.federation.server import Federation

    Federation.play = interrupt_in_round(3)


def _no_space(limit: int) -> Callable[[], None]:
    def before() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return before


@pytest.mark.parametrize("stage", STAGES)
def test_a_write_that_fails_ends_in_a_sentence_and_the_command_can_be_typed_again(
    stage, chain, play, tmp_path
):
    whole = copied(chain.before(stage), tmp_path / "whole")
    assert run(STAGES[stage], whole).code == 0
    for draw in play.cases():
        limit = int(draw.integers(0, 120_000))
        folder = copied(chain.before(stage), tmp_path / "case")
        ended = run(STAGES[stage], folder, before=_no_space(limit))
        wrong = faults(ended)
        again = run(STAGES[stage], folder)
        if again.code or files(folder) != files(whole):
            wrong.append(f"cannot go on: {again.err[-200:]}")
        play.judge(ended, wrong, f"no file may be longer than {limit} bytes")


ODD_ENVIRONMENTS: dict[str, dict] = {
    "no HOME": {"env": {"HOME": None}},
    "C locale": {
        "env": {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii"},
        "encoding": "ascii",
    },
    "40 columns": {"env": {"COLUMNS": "40"}},
    "closed input": {"before": lambda: os.close(0)},
    "closed output": {"before": lambda: os.close(1)},
    "closed errors": {"before": lambda: os.close(2)},
    "closed pipe": {"before": lambda: _closed_pipe()},
    "full output": {"before": lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1)},
    "few files": {"before": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))},
    "no temporary folder": {"env": {"TMPDIR": "/nowhere"}},
    "deep recursion": {"before": lambda: sys.setrecursionlimit(400)},
}


def _closed_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)


@pytest.mark.parametrize("stage", STAGES)
def test_an_odd_environment_gives_the_same_bytes_or_a_sentence(stage, chain, play, tmp_path):
    whole = copied(chain.before(stage), tmp_path / "whole")
    assert run(STAGES[stage], whole).code == 0
    for name in play.some(list(ODD_ENVIRONMENTS)):
        folder = copied(chain.before(stage), tmp_path / "case")
        ended = run(STAGES[stage], folder, **ODD_ENVIRONMENTS[name])
        wrong = faults(ended)
        if name in (
            "closed output",
            "closed errors",
            "full output",
        ):  # an error may have nowhere to be said
            wrong = [w for w in wrong if "error sentences" not in w]
        if ended.code == 0 and files(folder) != files(whole):
            wrong.append("other bytes")
        play.judge(ended, wrong, name)
