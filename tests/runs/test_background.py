"""States are written beside the rounds, in order, and nothing that goes wrong there is lost."""

import threading

import pytest

from fedcli.runs.background import Background


def test_calls_run_one_after_another_and_are_done_at_the_end():
    begun, go, done = threading.Event(), threading.Event(), []

    def slow(name):
        begun.set()
        assert go.wait(60)
        done.append(name)

    with Background() as background:
        background.run(slow, "first")
        assert begun.wait(60) and not done  # the caller went on
        go.set()
        background.run(done.append, "second")
    assert done == ["first", "second"]


def test_an_error_is_raised_by_the_next_call():
    def fails():
        raise OSError("disk full")

    with Background() as background:
        background.run(fails)
        with pytest.raises(OSError, match="disk full"):
            background.run(print)


def test_an_error_is_raised_at_the_end():
    def fails():
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), Background() as background:
        background.run(fails)
