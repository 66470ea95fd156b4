"""A command that is killed anywhere, or fails at any operation on files, and is typed again ends at the same bytes.

Killed means SIGKILL for all its processes, just before one of its operations on files.
"""

import errno
import os
import signal

import pytest

from .chain import WRITERS, copied, differing, files, words_of
from .judge import faults
from .operations import ERRORS, Operations, operations
from .process import run


@pytest.mark.parametrize("name", WRITERS)
def test_a_killed_command_typed_again_ends_at_the_same_bytes(name, chain, play, tmp_path):
    words = words_of(name)
    folder = copied(chain.before(name), tmp_path / "whole")
    count = operations(words, folder)
    expected = files(folder)
    for number in play.some(range(1, count + 1)):
        folder = copied(chain.before(name), tmp_path / "killed")
        killed = run(words, folder, before=Operations(number).watch)
        again = run(words, folder)
        wrong = faults(again)
        if not wrong and again.code:
            wrong = ["refuses to go on"]
        if differences := differing(files(folder), expected):
            wrong.append(f"leaves other files: {', '.join(differences[:4])}")
        if killed.code != -signal.SIGKILL and killed.code:
            wrong.append("is not killed, and fails")
        play.judge(again, wrong, f"killed before operation {number} of {count}")


@pytest.mark.parametrize("way", ERRORS)
@pytest.mark.parametrize("name", WRITERS)
def test_an_operation_that_fails_ends_in_a_sentence_and_the_command_can_be_typed_again(
    name, way, chain, play, tmp_path
):
    words = words_of(name)
    case_folder = tmp_path / "case"  # one place for all: what is counted are files inside it
    reading = case_folder if way == "reading" else None
    count = operations(words, copied(chain.before(name), case_folder), reading=reading)
    expected = files(case_folder)
    for number in play.some(range(1, count + 1)):
        error = int(play.draw().choice(ERRORS[way]))
        folder = copied(chain.before(name), case_folder)
        failed = run(words, folder, before=Operations(number, error, reading=reading).watch)
        wrong = faults(failed)
        again = run(words, folder)
        differences = [] if "left out: 1 file" in failed.err else differing(files(folder), expected)
        if again.code or differences:
            wrong.append(f"cannot go on: {again.err[-200:] if again.code else differences[:3]}")
        play.judge(
            failed,
            wrong,
            f"{errno.errorcode[error]} ({os.strerror(error)}) at operation {number} of {count}",
        )
