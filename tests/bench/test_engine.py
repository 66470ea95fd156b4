"""fedcli beside a bare loop: the loop does the same work, and what is said of their times."""

import json

import numpy as np
import pytest
import torch

from fedcli.bench import engine
from fedcli.bench.engine import Timing
from fedcli.commands import bench as command
from fedcli.commands.app import app
from fedcli.errors import UsageError

ONE_STEP = {"step": 1, "look": 0, "gradient": 0, "forward": 0}
TIMING = Timing(
    "fedavg, cnn, 8 px, sgd",
    ours=[4.0, 2.0, 3.0],
    bare=[2.0, 2.0, 2.0],
    images=6000,
    flops=30e9,
    limit=20e9,
)


@pytest.fixture(autouse=True)
def _torch_as_before():
    """A bare loop may do what other tests may not."""
    yield
    torch.set_deterministic_debug_mode("error")
    torch.set_num_threads(1)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until a test moves it."""

    class Clock:
        now = 0.0

        def perf_counter(self):
            return self.now

        def moves(self, name, seconds, calls):
            def work():
                calls.append(name)
                self.now += seconds

            return work

    clock = Clock()
    monkeypatch.setattr(engine.time, "perf_counter", clock.perf_counter)
    return clock


@pytest.fixture
def federation():
    return engine.plain_federation("cnn", 8, clients=2, images=40, device="cpu")


def bare_model(federation, passes, **options):
    """The bare loop's network after one client, and its forward passes by batch size."""
    net = engine.network("cnn", 8, "cpu")
    sizes = []
    net.register_forward_pre_hook(lambda _, inputs: sizes.append((net.training, len(inputs[0]))))
    client, shard = next(iter(federation.clients.shards.items()))
    training = federation.training
    engine._bare_client(net, client, shard, training, passes)
    return net, sizes


def test_the_ratio_is_the_median_of_the_pairs_and_not_of_the_sides():
    assert TIMING.ratios == [1.0, 1.5, 2.0]
    assert TIMING.ratio == 1.5
    shifted = Timing("", ours=[1.0, 9.0, 10.0], bare=[1.0, 3.0, 10.0], images=1)
    assert shifted.ratio == 1.0


def test_the_share_is_of_the_limit_at_our_median_speed():
    assert TIMING.share == 30e9 / 3.0 / 20e9
    assert Timing("", [1.0], [1.0], images=1).share is None


def test_a_row_has_a_cell_for_each_column():
    row = TIMING.row()
    assert len(row) == len(engine.COLUMNS)
    assert row == [
        "fedavg, cnn, 8 px, sgd",
        "2,000 images/s",
        "3,000 images/s",
        "1.500",
        "1.000 to 2.000",
        "50 %",
    ]


def test_without_images_a_row_has_seconds_and_without_a_limit_a_dash():
    row = Timing("a whole command", [1.5, 2.5], [1.0, 1.0], images=0).row()
    assert row[1:3] == ["2.00 s", "1.00 s"]
    assert row[-1] == "-"


def test_json_has_the_seconds_of_every_repetition():
    assert TIMING.body() == {
        "what": "fedavg, cnn, 8 px, sgd",
        "ratio": 1.5,
        "seconds": [4.0, 2.0, 3.0],
        "bare_seconds": [2.0, 2.0, 2.0],
        "images": 6000,
        "share_of_limit": 0.5,
    }


def test_the_sides_alternate_and_take_turns_to_begin(clock):
    calls = []
    ours = clock.moves("ours", 3.0, calls)
    bare = clock.moves("bare", 2.0, calls)
    between = clock.moves("between", 100.0, calls)
    seconds = engine.alternate(ours, bare, 2, between=between)
    warm_up = ["ours", "bare", "between"]
    assert calls == [*warm_up, "ours", "bare", "between", "bare", "ours", "between"]
    assert seconds == ([3.0, 3.0], [2.0, 2.0])


def test_random_shards_are_the_same_each_time_and_no_image_is_shared():
    shards = engine.random_shards(clients=3, images=4, size=8, device="cpu")
    again = engine.random_shards(clients=3, images=4, size=8, device="cpu")
    assert list(shards) == ["client-00", "client-01", "client-02"]
    rows = [shard.rows.tolist() for shard in shards.values()]
    assert np.concatenate(rows).tolist() == list(range(12))
    for client, shard in shards.items():
        assert torch.equal(shard.images, again[client].images)
        assert torch.equal(shard.y, again[client].y)
        assert shard.images.shape == (12, 3, 8, 8)
        assert shard.y.max() < engine.CLASSES


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_bare_loop_comes_to_the_model_of_a_client_of_fedavg(optimizer):
    federation = engine.plain_federation(
        "cnn", 8, clients=1, images=40, device="cpu", optimizer=optimizer
    )
    state = federation.play(federation.first()).state
    net, _ = bare_model(federation, ONE_STEP)
    layout = federation.clients.layout
    bare = torch.cat([tensor.flatten() for tensor in net.parameters()])
    theta = state.theta[: layout.trainable]
    assert torch.allclose(theta, bare, atol=1e-5)
    start = torch.cat([tensor.flatten() for tensor in engine.network("cnn", 8, "cpu").parameters()])
    assert not torch.allclose(theta, start, atol=1e-5)


@pytest.mark.parametrize(
    ("passes", "training_passes", "fixed_passes"),
    [
        (ONE_STEP, [32, 8], []),
        (ONE_STEP | {"step": 2}, [32, 32, 8, 8], []),
        (ONE_STEP | {"look": 1}, [32, 32, 8, 8], []),
        (ONE_STEP | {"forward": 2}, [32, 8], [40, 40]),
        (ONE_STEP | {"gradient": 1}, [32, 8], [40]),
    ],
)
def test_the_bare_loop_makes_the_passes_of_the_formula(
    federation, passes, training_passes, fixed_passes
):
    assert federation.training.batch_size == 32
    _, sizes = bare_model(federation, passes)
    assert [size for training, size in sizes if training] == training_passes
    assert [size for training, size in sizes if not training] == fixed_passes


def test_a_method_is_timed_over_all_images_and_beside_the_machine(monkeypatch):
    monkeypatch.setattr(engine.limits, "matrix_speed", lambda device: 1e12)
    timing = engine.engine(
        "fedavg", model="cnn", size=8, clients=2, images=8, optimizer="sgd", repeats=2
    )
    assert timing.what == "fedavg, cnn, 8 px, sgd"
    assert timing.images == 16
    assert len(timing.ours) == len(timing.bare) == 2
    assert timing.flops > 0
    assert timing.limit == 1e12


def test_a_method_that_has_no_formula_is_not_timed_and_others_are_named():
    with pytest.raises(UsageError) as refusal:
        engine.engine("kd", model="cnn", size=8, clients=2, images=8, optimizer="sgd", repeats=1)
    assert refusal.value.sentence.startswith("kd cannot be timed against a formula: ")
    assert "fedavg" in refusal.value.hint
    assert "fedprox" in refusal.value.hint


@pytest.fixture
def timed_methods(monkeypatch):
    """The methods and options that the command asks to be timed; every timing is the same."""
    asked_for = []

    def timing(method, **options):
        asked_for.append((method, options))
        return TIMING

    monkeypatch.setattr(engine, "engine", timing)
    return asked_for


@pytest.fixture
def tables(monkeypatch):
    """Heads and rows of the tables that are printed."""
    tables = []
    monkeypatch.setattr(command.terminal, "table", lambda *table: tables.append(table))
    return tables


def run_bench(capsys, *flags):
    """Stdout and stderr of the command."""
    with pytest.raises(SystemExit) as end:
        app(["bench", *flags], prog_name="fedcli")
    assert not end.value.code
    return capsys.readouterr()


def test_the_command_times_a_method_with_both_optimizers(timed_methods, capsys):
    printed = run_bench(capsys, "--method", "fedprox", "--images", "9", "--repeats", "3", "--json")
    methods = [(method, options["optimizer"]) for method, options in timed_methods]
    assert methods == [("fedprox", "sgd"), ("fedprox", "adam")]
    assert timed_methods[0][1] == {
        "optimizer": "sgd",
        "repeats": 3,
        "device": "cpu",
        "model": "cnn",
        "size": 32,
        "clients": 8,
        "images": 9,
    }
    assert json.loads(printed.out) == [TIMING.body(), TIMING.body()]
    assert "fedprox against a bare loop, adam: 3 runs each" in printed.err


def test_the_command_times_fedavg_by_default_and_prints_a_table(timed_methods, tables, capsys):
    run_bench(capsys)
    assert {method for method, _ in timed_methods} == {"fedavg"}
    assert tables == [(engine.COLUMNS, [TIMING.row(), TIMING.row()])]


def test_all_methods_are_those_with_a_formula(timed_methods, capsys):
    run_bench(capsys, "--method", "all")
    methods = [method for method, options in timed_methods if options["optimizer"] == "sgd"]
    assert methods == engine.measurable()


def test_a_method_without_a_formula_is_refused_before_another_is_timed(timed_methods, capsys):
    with pytest.raises(SystemExit) as end:
        app(["bench", "--method", "fedavg", "--method", "kd"], prog_name="fedcli")
    assert end.value.code == 2
    assert "kd cannot be timed against a formula" in capsys.readouterr().err
    assert not timed_methods


def speed(**changed):
    measures = {
        "network": "cnn",
        "size": 32,
        "way": "recorded",
        "images_per_second": 12345.6,
        "share": 0.256,
        "peak_bytes": 2_340_000_000,
        "why": "",
    }
    return measures | changed


def test_a_gpu_has_a_row_for_each_network_and_way(tables, monkeypatch, capsys):
    failed = speed(way="compiled", images_per_second=None, why="RuntimeError: no compiler")
    unmeasured = speed(network="resnet18", share=None)
    report = {"speeds": [speed(), unmeasured, failed]}
    monkeypatch.setattr("fedcli.bench.device.report", lambda device: report)
    command._show_device("cuda", as_json=False)
    heads, rows = tables.pop()
    assert heads == command.HEADS
    assert rows == [
        ["cnn", "32", "recorded", "12,346", "26 %", "2.34"],
        ["resnet18", "32", "recorded", "12,346", "-", "2.34"],
        ["cnn", "32", "compiled", "RuntimeError: no compiler", "-", "-"],
    ]
    command._show_device("cuda", as_json=True)
    assert json.loads(capsys.readouterr().out) == report
