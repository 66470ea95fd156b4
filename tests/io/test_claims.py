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
    with (
        Claims(tmp_path / "held", "table 2") as our_claims,
        Claims(tmp_path / "held") as other_claims,
    ):
        assert our_claims.take("a")
        assert not other_claims.take("a")
        assert other_claims.take("b")
        assert (other_claims.holder("a"), other_claims.holder("c")) == ("table 2", "")
        our_claims.give_back("a")
        assert other_claims.take("a")
        assert not our_claims.take("a")
    assert not [*tmp_path.iterdir()]


def test_a_killed_process_gives_its_pieces_back_at_once(tmp_path):
    reading, writing = os.pipe()
    if not (process := os.fork()):
        claims = Claims(tmp_path / "held")
        os.write(writing, b"y" if claims.take("a") else b"n")
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
    far_claims = Claims(tmp_path / "held")
    near_claims = Claims(tmp_path / "held")
    third_claims = Claims(tmp_path / "held")
    monkeypatch.setattr(claims, "machine", lambda: "there")
    assert far_claims.take("a")
    monkeypatch.setattr(claims, "machine", lambda: "here")
    (path,) = (tmp_path / "held").iterdir()
    for seconds in (0, claims.SILENT - 1, claims.SILENT - 1):
        clock[0] += seconds
        os.utime(path, (clock[0], clock[0]))  # it is alive
        assert not near_claims.take("a")
        assert not third_claims.take("a")
    clock[0] += claims.SILENT + 1
    assert near_claims.take("a")
    monkeypatch.setattr(claims, "machine", lambda: "a third")
    assert not third_claims.take("a")
    assert [path.name for path in (tmp_path / "held").iterdir()] == ["a.1"]
    for claim_set in (far_claims, near_claims, third_claims):
        claim_set.__exit__()
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
