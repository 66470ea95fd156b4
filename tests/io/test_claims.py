"""Pieces of work that processes take one by one: a killed one gives its piece back, here at once, elsewhere in time."""

import os
import signal
import time

import pytest

from fedcli.io import claims
from fedcli.io.claims import Claims


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(claims.time, "monotonic", lambda: now[0])
    return now


def test_one_process_has_a_piece_until_it_gives_it_back(tmp_path):
    with Claims(tmp_path / "held", "table 2") as first, Claims(tmp_path / "held") as second:
        assert first.take("a")
        assert not second.take("a")
        assert second.take("b")
        assert (second.holder("a"), second.holder("c")) == ("table 2", "")
        first.give_back("a")
        assert second.take("a")
        assert not first.take("a")
    assert not [*tmp_path.iterdir()]


def test_a_killed_process_gives_its_pieces_back_at_once(tmp_path):
    reading, writing = os.pipe()
    if not (process := os.fork()):
        kept = Claims(tmp_path / "held")
        os.write(writing, b"y" if kept.take("a") else b"n")
        time.sleep(60)
    assert os.read(reading, 1) == b"y"
    with Claims(tmp_path / "held") as mine:
        assert not mine.take("a")
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        assert mine.take("a")
    assert not [*tmp_path.iterdir()]


def test_a_claim_of_another_machine_is_taken_over_when_nobody_has_touched_it_for_long(
    tmp_path, monkeypatch, clock
):
    """flock does not hold between these machines, as on some file systems."""
    monkeypatch.setattr(claims, "flock", lambda file, wait=False: True)
    there, here, third = (
        Claims(tmp_path / "held"),
        Claims(tmp_path / "held"),
        Claims(tmp_path / "held"),
    )
    monkeypatch.setattr(claims, "machine", lambda: "there")
    assert there.take("a")
    monkeypatch.setattr(claims, "machine", lambda: "here")
    (path,) = (tmp_path / "held").iterdir()
    for seconds in (0, claims.SILENT - 1, claims.SILENT - 1):
        clock[0] += seconds
        os.utime(path, (clock[0], clock[0]))  # it is alive
        assert not here.take("a")
        assert not third.take("a")
    clock[0] += claims.SILENT + 1
    assert here.take("a")
    monkeypatch.setattr(claims, "machine", lambda: "a third")
    assert not third.take("a")
    assert [path.name for path in (tmp_path / "held").iterdir()] == ["a.1"]
    for each in (there, here, third):
        each.__exit__()
    assert not [*tmp_path.iterdir()]


def test_a_process_that_was_overtaken_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "BEAT", 0.01)
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell ignores it for what it starts with &
    try:
        with Claims(tmp_path / "held") as mine:
            assert mine.take("a")
            (path,) = (tmp_path / "held").iterdir()
            path.unlink()
            with pytest.raises(KeyboardInterrupt):
                time.sleep(10)
    finally:
        signal.signal(signal.SIGINT, before)


def test_two_machines_that_take_a_piece_over_at_the_same_time_both_draw_back(tmp_path, monkeypatch):
    mine = Claims(tmp_path / "held")
    listed = [[], [tmp_path / "held" / "a.0", tmp_path / "held" / "a.1"]]
    monkeypatch.setattr(Claims, "_files", lambda self, name: listed.pop(0))
    assert not mine.take("a")
    assert not [*(tmp_path / "held").iterdir()]


def test_a_pipe_or_a_link_in_place_of_a_claim_is_nobodys_to_take(tmp_path):
    (tmp_path / "somebodys").write_text("notes")
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "a.0").symlink_to(tmp_path / "somebodys")
    os.mkfifo(tmp_path / "held" / "b.0")
    with Claims(tmp_path / "held") as mine:
        assert not mine.take("a")
        assert not mine.take("b")
    assert (tmp_path / "somebodys").read_text() == "notes"
