"""State that clients keep between rounds, on disk."""

import gc

import pytest
import torch
from conftest import toy_net, toy_shard

from fedcli.federation import state as states
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.federation.client_state import ClientStateStore, StoredState, size
from fedcli.methods import resolve
from fedcli.methods.row_table import RowTable
from fedcli.models.layout import Layout

STATE = {
    "control": torch.tensor([1.5, -2.0]),
    "steps": torch.tensor(3),
    "seen": torch.tensor([[True], [False]]),
    "none": torch.zeros(0, 4),
}


def test_what_is_stored_comes_back_bit_for_bit(tmp_path):
    store = ClientStateStore(tmp_path)
    state = store.write(STATE)
    half = store.write({"control": torch.tensor([0.1], dtype=torch.bfloat16)})
    assert list(state) == list(STATE)
    assert len(state) == 4
    assert "steps" in state
    assert "model" not in state
    assert states.equal(state, STATE)
    assert size(state) == 8 + 8 + 2
    expected = torch.tensor(0.1, dtype=torch.bfloat16).item()
    assert half["control"].item() == expected


def test_what_is_changed_after_it_was_read_stays_as_it_was(tmp_path):
    state = ClientStateStore(tmp_path).write(STATE)
    state["control"].zero_()
    assert state["control"].tolist() == [1.5, -2]


def test_a_place_is_written_again_only_when_no_state_refers_to_it(tmp_path):
    store = ClientStateStore(tmp_path)
    zeros = store.write({"a": torch.zeros(4)})
    ones = store.write({"a": torch.ones(4)})
    state = {"x": zeros}
    del zeros
    twos = store.write({"a": torch.full((4,), 2.0)})
    result = state["x"]["a"].tolist()
    assert result == [0] * 4
    assert ones["a"].tolist() == [1] * 4
    assert twos["a"].tolist() == [2] * 4
    assert store._end == 48
    state.clear()
    gc.collect()
    store.write({"a": torch.full((4,), 3.0)})
    assert store._end == 48
    assert ones["a"].tolist() == [1] * 4


def test_few_stay_in_memory_and_all_go_to_the_disk_once_they_are_many(tmp_path):
    store = ClientStateStore(tmp_path, in_memory=40)
    few = {"a": {"x": torch.ones(5)}, "b": {"x": torch.ones(5)}}
    assert store.offload(few) == few
    three = {**few, "c": {"x": torch.ones(1)}}
    assert store.offload(three, ["c"]) == three  # it is in the round, so it is in memory anyway
    many = store.offload(three)
    assert list(many) == ["a", "b", "c"]
    for stored in many.values():
        assert isinstance(stored, StoredState)
    again = store.offload({**many, "a": {"x": torch.zeros(5)}, "d": {}})
    assert isinstance(again["a"], StoredState)
    assert again["a"]["x"].sum() == 0
    assert again["b"] is many["b"]
    assert again["d"] == {}
    assert not list(tmp_path.iterdir())  # the file has no name, so a kill leaves none


def test_a_disk_that_is_full_is_named(tmp_path, monkeypatch):
    def full(*asked):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedcli.federation.client_state.os.pwrite", full)
    with pytest.raises(OSError) as error:
        ClientStateStore(tmp_path).write(STATE)
    assert error.value.filename == str(tmp_path)


@pytest.mark.parametrize("in_memory", [0, 10**6])
def test_a_state_is_saved_and_restored_with_client_states_on_disk(tmp_path, in_memory):
    roster = ["a", "b", "c"]
    for folder in ("usual", "stored"):
        (tmp_path / folder).mkdir()
    plain = {"a": {"x": torch.ones(5)}, "c": {"x": torch.zeros(5), "own": torch.ones(2)}}
    state = states.RunState(2, torch.ones(3), {"s": torch.zeros(1)}, {"t": torch.ones(1)}, plain)
    usual = states.save(tmp_path / "usual", state, roster)
    offloaded = states.RunState(
        2, torch.ones(3), state.shared, state.server, ClientStateStore(tmp_path, 0).offload(plain)
    )
    path = states.save(tmp_path / "stored", offloaded, roster)
    assert path.read_bytes() == usual.read_bytes()
    restored = states.restore(path, roster, "cpu", ClientStateStore(tmp_path, in_memory))
    assert states.equal(restored.clients, plain)
    assert isinstance(restored.clients["a"], StoredState) == (in_memory == 0)
    assert states.equal(restored.shared, state.shared)
    assert states.equal(restored.server, state.server)


def test_rows_of_the_servers_tables_go_to_the_disk_once_they_are_many(tmp_path):
    store = ClientStateStore(tmp_path, in_memory=8)
    row = torch.ones(4, dtype=torch.uint8)
    server = {
        "t": RowTable((9, 4), torch.uint8).replaced({0: row, 5: 2 * row}),
        "seen": torch.ones(9),
    }
    assert store.offload_rows(server)["t"].rows == server["t"].rows
    server["t"] = server["t"].replaced({7: row})
    stored = store.offload_rows(server)
    assert stored["seen"] is server["seen"]
    assert all(isinstance(row, StoredState) for row in stored["t"].rows.values())
    assert states.equal(stored, server)
    assert list(stored["t"]) == [0, 5, 7]


@pytest.mark.parametrize("in_memory", [0, 10**6])
def test_a_table_by_rows_is_saved_and_restored_wherever_its_rows_are(
    tmp_path, monkeypatch, in_memory
):
    table = RowTable((3, 4), torch.int16).replaced(
        {1: torch.tensor([1, 0, 3, 4], dtype=torch.int16)}
    )
    state = states.RunState(2, torch.ones(3), server={"t": table, "seen": torch.ones(3)})
    (tmp_path / "usual").mkdir()
    usual = states.save(tmp_path / "usual", state, ["a", "b", "c"])
    monkeypatch.setattr(states, "BLOCK", 5)  # less than a row
    store = ClientStateStore(tmp_path, in_memory)
    stored = states.RunState(2, torch.ones(3), server=store.offload_rows(state.server))
    path = states.save(tmp_path, stored, ["a", "b", "c"])
    assert path.read_bytes() == usual.read_bytes()
    again = states.restore(path, ["a", "b", "c"], "cpu", store)
    assert states.equal(again.server, state.server)
    assert again.server["t"].shape == (3, 4)
    result = isinstance(again.server["t"].rows[1], StoredState)
    assert result == (in_memory == 0)


@pytest.mark.parametrize("in_memory", [0, 10**9])
def test_a_personal_model_is_that_of_the_last_round_wherever_the_one_before_waits(
    tmp_path, in_memory
):
    net = toy_net()
    layout = Layout(net)
    before = {"north": {"model": layout.read()}}
    stored = ClientStateStore(tmp_path, in_memory).offload(before)
    task = ClientTask("north", 0, 2, 3, 5, layout.read(), {}, stored["north"])
    training = Training(lr=0.01, batch_size=8, personal=True)
    report = run_client(resolve("fedavg"), net, layout, toy_shard("north"), task, training)
    assert torch.equal(report.memory["model"], report.theta)
