"""Time, memory and disk of a run, estimated before it starts."""

import json
import time
from types import SimpleNamespace

import pytest
from conftest import make_chain
from made_plans import planned

from fedcli.bench.estimate import (
    Estimate,
    bytes_of_images,
    estimate,
    evaluation_cost,
    server_cost,
    span,
    writing_cost,
)
from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.engines.pool import shared_out
from fedcli.federation.server import cohort
from fedcli.runs.assembly import assemble
from fedcli.runs.finished import KEPT
from fedcli.runs.rules import check
from fedcli.runs.scoring import Scoring
from fedcli.stages.partition import partition

FIXED, EACH = 0.5, 0.01  # seconds of a visit and of an image in it

TRAINING = Training(optimizer="sgd", lr=0.05, momentum=0.9, batch_size=8)


def plan(method="fedavg", rounds=6, **rest):
    return planned(method, {}, TRAINING, rounds, **rest)


@pytest.fixture
def clock(monkeypatch):
    """Time that passes in visits alone."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

    clock = Clock()
    real = InProcess.run_one

    def run_one(engine, task):
        clock.now += FIXED + EACH * len(engine.shards[task.client])
        return real(engine, task)

    monkeypatch.setattr(time, "perf_counter", clock.perf_counter)
    monkeypatch.setattr(InProcess, "run_one", run_one)
    return clock


@pytest.mark.parametrize(
    ("limit", "participation"),
    [(1.0, 1.0), (1000.0, 0.5)],  # too short for whole rounds, and enough
)
def test_clients_take_what_their_images_take(tmp_path, clock, limit, participation):
    dataset = manifest.parent(make_chain(tmp_path), "dataset")
    data = partition(dataset, work=tmp_path, dirichlet=1.0, clients=4).path
    images = [client["train"] for client in manifest.read(data).body["roster"]]
    assert len(set(images)) > 1
    forecast = estimate(data, plan(participation=participation), limit=limit)
    rows = [row for t in range(1, 7) for row in cohort(4, participation, seed=0, round=t)]
    expected = pytest.approx(sum(FIXED + EACH * images[row] for row in rows))
    assert forecast.seconds["clients"] == expected
    assert forecast.seconds["server"] == forecast.seconds["evaluation"] == 0
    assert forecast.seconds_per_round * 6 == pytest.approx(forecast.total_seconds)
    assert forecast.measured_steps >= 10


def test_clients_on_several_processes_take_what_the_busiest_takes(tmp_path, clock):
    dataset = manifest.parent(make_chain(tmp_path), "dataset")
    data = partition(dataset, work=tmp_path, dirichlet=1.0, clients=4).path
    roster = manifest.read(data).body["roster"]
    images = {client["client"]: client["train"] for client in roster}
    result = estimate(data, plan(engine="pool:2"), limit=1.0)
    process_of = shared_out(images, 2)
    seconds = [0, 0]
    for client, n in images.items():
        seconds[process_of[client]] += FIXED + EACH * n
    expected = pytest.approx(6 * max(seconds))
    assert result.seconds["clients"] == expected
    assert result.processes == 2
    assert result.bytes["training processes"] > 0


def test_memory_is_counted_and_nothing_is_written(tmp_path):
    data = make_chain(tmp_path, corrupted=True)
    before = sorted(tmp_path.rglob("*"))
    forecast = estimate(data, plan("scaffold"), limit=0.1)
    federation = assemble(data, plan("scaffold"), check(plan("scaffold")))
    numbers = federation.layout.size
    trainable = federation.layout.trainable
    expected = {
        "images": (120 + 40) * 64,
        "models of a round": 4 * 4 * numbers,
        "kept between rounds": 4 * 4 * trainable,
    }
    assert forecast.bytes == expected
    assert forecast.fits
    assert forecast.peak_bytes > sum(forecast.bytes.values())
    assert sorted(tmp_path.rglob("*")) == before


def test_validation_curves_and_clients_alone_are_in_it(tmp_path):
    dataset = manifest.parent(make_chain(tmp_path), "dataset")
    data = partition(dataset, work=tmp_path, dirichlet=3.0, clients=4, val=0.25).path
    forecast = estimate(data, plan(eval_every=2), limit=0.1)
    alone = estimate(data, plan(single_site=True), limit=0.1)
    model = forecast.bytes["models of a round"] // 4
    assert forecast.seconds["evaluation"] > 0
    assert forecast.bytes["kept between rounds"] == model
    assert alone.seconds["server"] == 0
    expected = (2 * 4 + 1) * model
    assert alone.bytes["kept between rounds"] == expected


def test_a_rule_that_asks_one_client_to_train_costs_every_measurement_and_one_visit(
    tmp_path, clock
):
    afl = planned("afl", {"rule": "released"}, TRAINING, rounds=6)
    forecast = estimate(make_chain(tmp_path), afl, limit=1.0)
    expected = pytest.approx(6 * 5 * (FIXED + EACH * 20))
    assert forecast.seconds["clients"] == expected  # four measure, one trains
    assert forecast.measured_steps >= 5


def test_a_recipe_with_such_a_rule_is_forecast(tmp_path, capsys):
    raw = tmp_path / "raw"
    for words in (
        ["datasets", "isic2019", "--make-sample", str(raw)],
        [
            "reproduce",
            "fedism-plus-table3",
            "--raw",
            str(raw),
            "--scale",
            "smoke",
            "--seeds",
            "1",
            "--dry-run",
        ],
    ):
        line = words
        if words[0] == "reproduce":
            line = [*words, "--work", str(tmp_path)]
        with pytest.raises(SystemExit) as end:
            app(line, prog_name="fedcli")
        assert not end.value.code, capsys.readouterr().err


def test_models_that_do_not_fit_are_measured_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcli.runs.resources.free", lambda device: 1)
    monkeypatch.setattr(
        "fedcli.runs.resources.in_use", lambda device: 300_000
    )  # bytes: a model has 97,000
    forecast = estimate(make_chain(tmp_path), plan(), limit=0.1)
    assert not forecast.fits
    assert forecast.bytes["models of a round"] > 300_000


def test_where_the_system_does_not_say_what_is_free_nothing_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcli.runs.resources.free", lambda device: 0)
    forecast = estimate(make_chain(tmp_path), plan(), limit=0.1)
    assert forecast.fits
    assert forecast.free_bytes == 0


def test_the_command_prints_it_and_makes_no_run(tmp_path, capsys):
    dataset = manifest.parent(make_chain(tmp_path), "dataset")
    before = sorted(tmp_path.rglob("*"))
    words = ["train", "fedavg", str(dataset), "--rounds", "3", "--dry-run", "--work", str(tmp_path)]
    for flags in ([], ["--json"]):
        with pytest.raises(SystemExit) as end:
            app([*words, *flags], prog_name="fedcli")
        assert not end.value.code
    out = capsys.readouterr().out
    assert "fedavg, 3 rounds" in out
    result = json.loads(out[out.index("{") :])["rounds"]
    assert result == 3
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (4, "4 s"), (89, "89 s"), (180, "3 min"), (7800, "2 h 10 min")],
)
def test_a_time_is_told_for_a_person(seconds, text):
    assert span(seconds) == text


def test_what_train_would_refuse_is_refused(tmp_path):
    with pytest.raises(UsageError, match="--rounds"):
        estimate(make_chain(tmp_path), plan(rounds=0))


def assembled(folder, training_plan, **split):
    """A plan's federation over four clients."""
    dataset = manifest.parent(make_chain(folder), "dataset")
    data = partition(dataset, work=folder, dirichlet=3.0, clients=4, **split).path
    return assemble(data, training_plan, check(training_plan))


def test_a_pool_of_images_that_shards_share_is_counted_once(tmp_path):
    federation = assembled(tmp_path, plan(), val=0.25)
    shards = [*federation.data.train.values(), *federation.data.val.values()]
    shards += federation.data.test.values()
    pools = {id(shard.images): shard.images for shard in shards}
    assert len(shards) > len(pools)
    expected = sum(pool.nbytes for pool in pools.values())
    assert bytes_of_images(federation) == expected


def test_models_that_are_kept_are_written_once_each(tmp_path, monkeypatch):
    federation = assembled(tmp_path, plan(rounds=20))
    monkeypatch.setattr("fedcli.bench.estimate.times", lambda work: [0.001])
    monkeypatch.setattr("fedcli.bench.estimate.seconds_of", lambda work: 0.1)
    report = SimpleNamespace(memory={}, theta=None)
    assert writing_cost(federation, report) == pytest.approx(2 * 20 * 0.001 + (KEPT + 1) * 0.1)


def test_fewer_rounds_than_kept_models_write_a_model_each(tmp_path, monkeypatch):
    federation = assembled(tmp_path, plan(rounds=2))
    monkeypatch.setattr("fedcli.bench.estimate.times", lambda work: [0.001])
    monkeypatch.setattr("fedcli.bench.estimate.seconds_of", lambda work: 0.1)
    report = SimpleNamespace(memory={}, theta=None)
    assert writing_cost(federation, report) == pytest.approx(2 * 2 * 0.001 + 2 * 0.1)


@pytest.mark.parametrize(
    ("free", "peak", "fits"), [(100, 100, True), (100, 101, False), (0, 101, True)]
)
def test_a_training_fits_where_its_peak_is_not_above_what_is_free(free, peak, fits):
    numbers = {"peak_bytes": peak, "free_bytes": free, "rounds": 1, "measured_steps": 0}
    seconds = {"seconds_per_round": 1.0, "total_seconds": 1.0, "seconds": {}}
    assert Estimate(**numbers, **seconds, processes=1, bytes={}).fits is fits


def test_fewer_models_than_clients_are_timed_where_memory_is_short_and_time_is_scaled(
    tmp_path, monkeypatch
):
    federation = assembled(tmp_path, plan())
    rosters = []
    monkeypatch.setattr("fedcli.bench.estimate.times", lambda work, device: work() or [9.0, 0.5])
    monkeypatch.setattr(
        "fedcli.bench.estimate.next_state",
        lambda federation, state, roster, engine: rosters.append(roster),
    )
    model_bytes = 4 * federation.layout.size
    seconds, table_bytes = server_cost(federation, {}, clients=4, available=4 * model_bytes)
    assert rosters == [federation.data.roster[:2]]
    assert table_bytes == 2 * model_bytes
    assert seconds == 0.5 * 4 / 2  # of the median without the first, which is slow


def test_without_curves_and_validation_scores_take_no_time(tmp_path):
    federation = assembled(tmp_path, plan())
    scoring = Scoring(federation)
    assert evaluation_cost(federation, scoring, in_any_case=False) == 0.0


def test_validation_of_a_round_costs_a_pass_over_its_images_and_a_score(tmp_path, monkeypatch):
    federation = assembled(tmp_path, plan(rounds=3), val=0.25)
    scoring = Scoring(federation)

    def times_of_a_pass(work):
        work()
        return [1.0]

    monkeypatch.setattr("fedcli.bench.estimate.times", times_of_a_pass)
    timed = max([*federation.data.test.values(), *federation.data.train.values()], key=len)
    seconds = evaluation_cost(federation, scoring, in_any_case=False)
    assert seconds == pytest.approx(3 * (len(scoring.whole) / len(timed) + 1.0))


def test_a_rule_that_adds_up_over_rounds_is_measured_for_longer_than_it_has_rounds(tmp_path):
    """FedCE divides what it summed by the number of the round."""
    data = make_chain(tmp_path)
    assert estimate(data, plan("fedce", rounds=1), limit=0.1).total_seconds > 0
