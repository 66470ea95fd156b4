"""What clients keep, on disk."""

import gc

import pytest
import torch

from fedcli.federation import state as states
from fedcli.federation.shelf import OnShelf, Shelf, size

KEPT = {
    "control": torch.tensor([1.5, -2.0]),
    "steps": torch.tensor(3),
    "seen": torch.tensor([[True], [False]]),
    "none": torch.zeros(0, 4),
}


def test_what_is_put_on_the_shelf_comes_back_bit_for_bit(tmp_path):
    shelf = Shelf(tmp_path)
    kept, half = shelf.put(KEPT), shelf.put({"control": torch.tensor([0.1], dtype=torch.bfloat16)})
    assert list(kept) == list(KEPT) and len(kept) == 4 and "steps" in kept and "model" not in kept
    assert states.equal(kept, KEPT) and size(kept) == 8 + 8 + 2
    assert half["control"].item() == torch.tensor(0.1, dtype=torch.bfloat16).item()


def test_what_is_changed_after_it_was_read_stays_as_it_was(tmp_path):
    kept = Shelf(tmp_path).put(KEPT)
    kept["control"].zero_()
    assert kept["control"].tolist() == [1.5, -2]


def test_a_place_is_written_again_only_when_no_state_refers_to_it(tmp_path):
    shelf = Shelf(tmp_path)
    first = shelf.put({"a": torch.zeros(4)})
    second = shelf.put({"a": torch.ones(4)})
    state = {"x": first}
    del first
    third = shelf.put({"a": torch.full((4,), 2.0)})
    assert state["x"]["a"].tolist() == [0] * 4 and second["a"].tolist() == [1] * 4 and third["a"].tolist() == [2] * 4
    assert shelf._end == 48
    state.clear()
    gc.collect()
    shelf.put({"a": torch.full((4,), 3.0)})
    assert shelf._end == 48 and second["a"].tolist() == [1] * 4


def test_few_stay_in_memory_and_all_go_to_the_disk_once_they_are_many(tmp_path):
    shelf = Shelf(tmp_path, room=40)
    few = {"a": {"x": torch.ones(5)}, "b": {"x": torch.ones(5)}}
    assert shelf.settle(few) == few
    more = {**few, "c": {"x": torch.ones(1)}}
    assert shelf.settle(more, ["c"]) == more  # it is in the round, so it is in memory anyway
    many = shelf.settle(more)
    assert list(many) == ["a", "b", "c"] and all(isinstance(kept, OnShelf) for kept in many.values())
    again = shelf.settle({**many, "a": {"x": torch.zeros(5)}, "d": {}})
    assert isinstance(again["a"], OnShelf) and again["a"]["x"].sum() == 0 and again["b"] is many["b"]
    assert again["d"] == {}
    assert not list(tmp_path.iterdir())  # the file has no name, so a kill leaves none


def test_a_disk_that_is_full_is_named(tmp_path, monkeypatch):
    def full(*asked):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedcli.federation.shelf.os.pwrite", full)
    with pytest.raises(OSError) as error:
        Shelf(tmp_path).put(KEPT)
    assert error.value.filename == str(tmp_path)


@pytest.mark.parametrize("room", [0, 10**6])
def test_a_state_is_saved_and_restored_with_what_lies_on_the_shelf(tmp_path, room):
    roster = ["a", "b", "c"]
    for folder in ("usual", "shelved"):
        (tmp_path / folder).mkdir()
    plain = {"a": {"x": torch.ones(5)}, "c": {"x": torch.zeros(5), "own": torch.ones(2)}}
    wanted = states.RunState(2, torch.ones(3), {"s": torch.zeros(1)}, {"t": torch.ones(1)}, plain)
    usual = states.save(tmp_path / "usual", wanted, roster)
    shelved = states.RunState(2, torch.ones(3), wanted.shared, wanted.server, Shelf(tmp_path, 0).settle(plain))
    path = states.save(tmp_path / "shelved", shelved, roster)
    assert path.read_bytes() == usual.read_bytes()
    again = states.restore(path, roster, "cpu", Shelf(tmp_path, room))
    assert states.equal(again.clients, plain) and isinstance(again.clients["a"], OnShelf) == (room == 0)
    assert states.equal(again.shared, wanted.shared) and states.equal(again.server, wanted.server)
