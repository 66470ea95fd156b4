"""Signals, other processes and changes by others at random moments: nothing is lost, and the command goes on."""

import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from .chain import (
    LATER,
    METHODS,
    STAGES,
    WRITERS,
    Chain,
    copied,
    differing,
    expanded,
    files,
    words_of,
)
from .judge import faults
from .process import Ended, run, start, wait

SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE


def whole(name: str, chain: Chain, folder: Path) -> tuple[dict[str, str], float]:
    """Files of a command that nothing interrupts, and the seconds that it takes."""
    copy = copied(chain.before(name), folder)
    begin = time.monotonic()
    ended = run(expanded(words_of(name), copy), copy)
    assert ended.code == 0, ended.err
    return files(copy), time.monotonic() - begin


def begun(words: list[str], folder: Path, seconds: float, errors: Path) -> tuple[int, int]:
    """A command that has been at work for some time; (process, its stream of errors)."""
    err = os.open(errors, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    process = start(words, folder, err=err)
    time.sleep(seconds)
    return process, err


def ended(words: list[str], process: int, err: int, seconds: float = 60) -> Ended:
    code, hung = wait(process, seconds)
    os.lseek(err, 0, os.SEEK_SET)
    with open(err, "rb") as file:
        return Ended(tuple(words), code, "", file.read().decode("utf-8", "replace"), hung)


@pytest.mark.parametrize("name", WRITERS)
def test_a_signal_at_any_moment_loses_nothing(name, chain, play, tmp_path):
    words = words_of(name)
    expected, seconds = whole(name, chain, tmp_path / "whole")
    for draw in play.cases():
        folder = copied(chain.before(name), tmp_path / "case")
        number = SIGNALS[int(draw.integers(len(SIGNALS)))]
        process, err = begun(words, folder, draw.uniform(0, 1.1 * seconds), tmp_path / "err")
        if draw.random() < 0.5:
            os.kill(process, number)
        else:
            os.killpg(
                process, number
            )  # as Ctrl-C in a terminal, and a scheduler: to its helpers too
        stopped = ended(words, process, err)
        wrong = (
            [] if stopped.code == -number else faults(stopped)
        )  # before fedcli has begun it ends plainly
        again = run(words, folder)
        differences = differing(files(folder), expected)
        if again.code or differences:
            wrong.append(f"cannot go on: {again.err[-200:] if again.code else differences[:3]}")
        play.judge(stopped, wrong, f"signal {number.name}")


@pytest.mark.parametrize(
    "name", [name for name in WRITERS if name not in METHODS or name in ("ditto", "bsm")]
)
def test_two_processes_of_one_command_end_at_the_bytes_of_one(name, chain, play, tmp_path):
    words = words_of(name)
    expected, seconds = whole(name, chain, tmp_path / "whole")
    for draw in play.cases():
        folder = copied(chain.before(name), tmp_path / "case")
        pause = draw.uniform(0, seconds) if draw.random() < 0.5 else 0.0
        process, err = begun(words, folder, pause, tmp_path / "err")
        second_end = run(words, folder)
        first_end = ended(words, process, err)
        wrong = faults(second_end) + faults(first_end)
        if first_end.code and second_end.code:
            wrong.append("both fail")
        third_end = run(words, folder)
        if third_end.code or (differences := differing(files(folder), expected)):
            wrong.append(
                f"a third is refused or differs: {third_end.err[-200:] if third_end.code else differences[:3]}"
            )
        play.judge(
            second_end if faults(second_end) else first_end,
            wrong,
            f"the second begins after {pause:.2f} s",
        )


@pytest.mark.parametrize("name", [*STAGES, *LATER])
def test_what_is_removed_while_it_is_read_ends_in_a_sentence(name, chain, play, tmp_path):
    """Also a whole folder, or a file that is replaced by another; what is put back is used again."""
    _, seconds = whole(name, chain, tmp_path / "whole")
    words = expanded(words_of(name), chain.before(name))
    for draw in play.cases():
        folder = copied(chain.before(name), tmp_path / "case")
        path = _any(folder, draw)
        process, err = begun(words, folder, draw.uniform(0, seconds), tmp_path / "err")
        how = _taken(path, draw)
        stopped = ended(words, process, err)
        wrong = faults(stopped)
        again = run(words, copied(chain.before(name), folder))
        if again.code:
            wrong.append(f"cannot go on: {again.err[-200:]}")
        play.judge(stopped, wrong, f"{path.relative_to(folder)} {how}")


def _any(folder: Path, draw: np.random.Generator) -> Path:
    """A file or folder; few of the many images."""
    paths = []
    for path in sorted(folder.rglob("*")):
        if path.suffix != ".png" or path.stem.endswith("7"):
            paths.append(path)
    return paths[int(draw.integers(len(paths)))]


def _taken(path: Path, draw: np.random.Generator) -> str:
    how = str(draw.choice(["removed", "moved away", "emptied"]))
    if how == "moved away":
        path.rename(path.with_name("elsewhere"))
    elif path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    elif how == "removed":
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(b"")
    return how


@pytest.mark.parametrize(
    "others", ["prepare", "partition", "corrupt", "train", "evaluate", "ls", "report"]
)
@pytest.mark.parametrize("name", ["partition", "train", "evaluate", "report"])
def test_two_different_commands_at_once_do_not_disturb_each_other(
    name, others, chain, play, tmp_path
):
    words = words_of(name)
    beside = expanded(words_of(others), chain.before(name))
    _, seconds = whole(name, chain, tmp_path / "whole")
    for draw in play.cases():
        folder = copied(chain.before(name), tmp_path / "case")
        pause = draw.uniform(0, seconds)
        process, err = begun(words, folder, pause, tmp_path / "err")
        second_end = run(beside, folder)
        first_end = ended(words, process, err)
        wrong = (
            faults(first_end)
            + faults(second_end)
            + ([] if first_end.code == 0 else ["the first is disturbed"])
        )
        play.judge(
            first_end if first_end.code else second_end,
            wrong,
            f"{others} begins after {pause:.2f} s",
        )
