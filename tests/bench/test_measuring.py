"""Visits and passes are timed, on a clock that a test moves."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from conftest import make_chain
from made_plans import planned

from fedcli.bench import measuring
from fedcli.bench.measuring import Visits, busiest, next_state, some_images, times
from fedcli.data import manifest
from fedcli.federation.client import Training
from fedcli.runs.assembly import assemble
from fedcli.runs.rules import check
from fedcli.stages.partition import partition


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(measuring.time, "perf_counter", clock.perf_counter)
    return clock


@pytest.fixture
def federation(tmp_path):
    plan = planned("fedavg", {}, Training(batch_size=4), rounds=3)
    dataset = manifest.parent(make_chain(tmp_path), "dataset")
    data = partition(dataset, work=tmp_path, dirichlet=3.0, clients=4, val=0.25).path
    return assemble(data, plan, check(plan))


def visits_of(**seconds):
    """Visits whose seconds are given, by part of the round and number of images."""
    visits = object.__new__(Visits)
    visits.seconds = seconds
    return visits


def test_the_busiest_process_has_the_largest_sum():
    assert busiest([(0, 3.0), (1, 2.0), (0, 1.0), (1, 2.5)]) == 4.5


@pytest.mark.parametrize(
    ("seconds", "line"),
    [
        ({10: [1.5], 20: [2.5]}, (0.5, 0.1)),
        ({10: [9.0, 1.5, 1.4], 20: [2.5]}, (0.5, 0.1)),  # the median of three
        ({10: [2.0]}, (0.0, 0.2)),  # one number of images
        ({10: [2.0], 20: [1.0]}, (0.0, 0.05)),  # a slope below zero
        ({10: [1.0], 20: [3.0]}, (0.0, 0.15)),  # a start below zero
    ],
)
def test_a_line_through_the_visits_is_never_below_zero(seconds, line):
    assert visits_of(train=seconds).line("train") == pytest.approx(line)


def test_visits_alone_take_what_the_line_says():
    visits = visits_of(train={10: [1.5], 20: [2.5]})
    both = [measuring._Visit(0, "train", 30), measuring._Visit(1, "train", 5)]
    assert dict(visits._alone(both)) == pytest.approx({0: 3.5, 1: 1.0})


@pytest.mark.parametrize(("seconds", "count"), [(0.1, 4), (1.0, 3), (2.5, 1)])
def test_quick_work_is_timed_four_times_and_slow_work_until_it_took_two_seconds(
    clock, seconds, count
):
    def work():
        clock.now += seconds

    assert times(work) == pytest.approx([seconds] * count)


def test_threads_are_as_before_whatever_was_set_or_raised_inside():
    before = torch.get_num_threads()
    with measuring.threads(2):
        assert torch.get_num_threads() == 2
        torch.set_num_threads(3)
    assert torch.get_num_threads() == before
    with pytest.raises(RuntimeError, match="inside"), measuring.threads(2):
        raise RuntimeError("inside")
    assert torch.get_num_threads() == before


def test_some_images_are_from_all_over_a_shard_and_in_its_order(federation):
    client, *_ = federation.data.roster
    shard = federation.data.train[client]
    some = some_images(federation.clients, [client], 3).shards[client]
    middle = (len(shard) - 1) // 2
    assert some.rows.tolist() == [shard.rows[index].item() for index in (0, middle, len(shard) - 1)]


def test_more_images_than_there_are_is_all_of_them(federation):
    client, *_ = federation.data.roster
    shard = federation.data.train[client]
    some = some_images(federation.clients, [client], 10**6).shards[client]
    assert some.rows.tolist() == shard.rows.tolist()


def test_validation_images_are_reduced_by_the_same_share_and_never_to_none(federation):
    name, *_ = federation.data.roster
    half = some_images(federation.clients, [name], federation.counts[name] // 2)
    val = len(federation.data.val[name])
    share = len(half.shards[name]) / federation.counts[name]
    assert len(half.val[name]) == max(1, round(share * val))
    fewest = some_images(federation.clients, [name], 1)
    assert len(fewest.val[name]) == 1
    assert list(fewest.val) == [name]


@pytest.mark.parametrize(
    ("size", "noted"), [(measuring.EVALUATION_BATCH, 1), (measuring.EVALUATION_BATCH - 1, 0)]
)
def test_a_pass_in_order_is_noted_where_its_batches_are_those_of_evaluation(
    federation, size, noted
):
    client, *_ = federation.data.roster
    shard = measuring._Watched.of(federation.data.train[client], 4)
    images = sum(len(batch.y) for batch in shard.in_order(size))
    assert images == 4
    assert len(shard.evaluations) == noted


def test_the_first_round_follows_where_no_round_is_left(federation):
    roster = federation.data.roster[:2]
    engine = some_images(federation.clients, roster, 4)
    last = replace(federation.first(), round=federation.rounds)
    for state in (federation.first(), last):
        assert next_state(federation, state, roster, engine).round == 1


def test_exactly_the_named_clients_play(federation):
    roster = federation.data.roster[1:3]
    engine = some_images(federation.clients, roster, 4)
    tasks_played = []

    def noting(tasks):
        tasks_played.extend(task.client for task in tasks)
        return engine(tasks)

    next_state(federation, federation.first(), roster, noting)
    assert tasks_played == roster


@pytest.mark.parametrize(("processes", "seconds"), [(1, 6.0), (2, 4.0)])
def test_a_round_takes_what_its_busiest_process_takes_of_all_its_rounds(processes, seconds):
    visits = visits_of(train={10: [1.0], 20: [2.0]})
    counts = {"north": 20, "south": 10}
    aggregator = SimpleNamespace()  # which selects nobody
    method = SimpleNamespace(aggregator=aggregator)
    visits.federation = SimpleNamespace(counts=counts, method=method)
    visits.slowdown = 1.0
    rounds = [["north", "south"], ["north", "south"]]
    assert visits.seconds_in(rounds, processes) == pytest.approx(seconds)
    visits.slowdown = 1.5
    assert visits.seconds_in(rounds, processes) == pytest.approx(1.5 * seconds)
