"""Every method on the pretended GPU (pretend.py): what benchmarks/gpu_checks.py asks of a real one."""

from dataclasses import replace

import gpu_checks
import pytest
import torch
from conftest import ROSTER, toy_net, toy_shard
from method_pairs import PAIRS, covering, hooks
from pretend import Graph, pretended
from pretended_streams import Fault, Stream, on
from tapes import AT_CLIENTS
from torch.torch_version import TorchVersion

from fedcli.bench.toy import toy_federation
from fedcli.data import pipelines, shard, transforms
from fedcli.federation import state as states
from fedcli.federation.engines import pool
from fedcli.federation.engines.streams import MOST, Streams
from fedcli.methods import METHODS, resolve
from fedcli.methods.fedavg import Plain
from fedcli.runs.features import with_features
from fedcli.runs.resources import be_deterministic

SHORTER = {  # as long on any device
    "ccvr": {"features": 20, "epochs": 2},
    "creff": {"features": 4, "steps": 5, "epochs": 5},
    "fediic": {"moves": 2},
    "pfedme": {"inner_steps": 2},
}
OF_STEPS = gpu_checks.recorded_steps_are_ordinary_steps, gpu_checks.clients_at_once_change_nothing
FEW = covering(PAIRS, hooks)
MORE = [pytest.param(pair, marks=pytest.mark.long) for pair in covering(PAIRS) if pair not in FEW]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(gpu_checks, "TRAINING", replace(gpu_checks.TRAINING, epochs=1))
    monkeypatch.setattr(gpu_checks, "COMPARED", 2)


@pytest.mark.parametrize("spec", [*METHODS, *FEW, *MORE])
def test_every_check_of_a_gpu_holds(spec, monkeypatch):
    """A method that differs from another at the server alone takes the same local steps, which are checked there."""
    if spec in METHODS and spec not in AT_CLIENTS:
        rest = [check for check in gpu_checks.CHECKS if check not in OF_STEPS]
        monkeypatch.setattr(gpu_checks, "CHECKS", rest)
    settings = {
        name: value for part in spec.split("+") for name, value in SHORTER.get(part, {}).items()
    }
    with pretended():
        assert gpu_checks.failures(resolve(spec, settings), "cuda") == {}


def failures(local, **attributes):
    """Checks that fail of a method whose client half has these attributes and says that its step can be recorded."""
    kind = type("Own", (local,), {"recordable": True, **attributes})
    with pretended():
        return gpu_checks.failures(replace(METHODS["fedavg"], local=kind()), "cuda")


def waiting(self, net, batch, client):
    loss = Plain.loss(self, net, batch, client)
    return loss * 2 if loss > 1e9 else loss


def reading(self, net, batch, client):
    return Plain.loss(self, net, batch, client) * (1 + client.steps)


def sending(self, net, batch, client):
    return Plain.loss(self, net, batch, client) * torch.tensor(
        float(client.round), device=client.theta.device
    )


def on_the_host(self, net, client):
    client.scratch["scale"] = torch.tensor(float(client.round))


def scaled(self, net, batch, client):
    return Plain.loss(self, net, batch, client) * client.scratch["scale"]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (
            {"loss": waiting},
            "it trains: Fault: _local_scalar_dense waits for the GPU within a recorded step",
        ),
        ({"loss": reading}, "recorded steps are ordinary steps: theta differs after 2 rounds"),
        (
            {"loss": sending},
            "it trains: Fault: torch.tensor on the GPU waits for the GPU within a recorded step",
        ),
        (
            {"on_round_start": on_the_host, "loss": scaled},
            "Own keeps 'scale' of a client's round in the CPU's memory",
        ),
    ],
)
def test_a_method_that_waits_for_the_host_or_reads_a_number_that_changes_is_found(
    attributes, reason
):
    failed = failures(Plain, **attributes)
    assert reason in "; ".join(f"{check}: {why}" for check, why in failed.items())


def counting(self, theta, updates, weights, shared):
    shared["level"] = torch.tensor(1.0 + updates.round)  # on the host
    return theta


def levelled(self, net, batch, client):
    return Plain.loss(self, net, batch, client) * client.shared.get("level", 1.0)


def test_a_number_that_the_server_sends_from_the_host_is_read_anew_in_each_round():
    assert failures(Plain, post_aggregate=counting, loss=levelled) == {}


def in_round(self, net, batch, client):
    return Plain.loss(self, net, batch, client) * client.round


@pytest.mark.parametrize(
    ("spec", "recordings"),
    [("fedism-plus", 1), ("fedproc", 2)],  # the latter's first round has no prototypes
)
def test_a_number_that_changes_with_the_round_needs_no_new_recording(spec, recordings):
    with pretended():
        played = gpu_checks._OnDevice(resolve(spec), "cuda", None)
    assert played.clients.steps.captures == recordings


def test_a_method_that_says_so_is_recorded_anew_in_every_round():
    kind = type("Own", (Plain,), {"recordable": True, "reads_round": True, "loss": in_round})
    method = replace(METHODS["fedavg"], local=kind())
    with pretended():
        played = gpu_checks._OnDevice(method, "cuda", None)
        assert gpu_checks.recorded_steps_are_ordinary_steps(played) == ""
    assert played.clients.steps.captures == gpu_checks.ROUNDS


def test_one_method_that_fails_ends_no_other(monkeypatch):
    broken = type("Broken", (Plain,), {"on_round_end": lambda *_: 1 / 0})
    monkeypatch.setattr(
        gpu_checks, "METHODS", dict.fromkeys(("broken", "fedavg"), METHODS["fedavg"])
    )
    gpu_checks.METHODS["broken"] = replace(METHODS["fedavg"], local=broken())
    monkeypatch.setattr(gpu_checks, "resolve", lambda name: gpu_checks.METHODS[name])
    with pretended():
        result = [proof.failed for proof in gpu_checks.proofs("cuda")]
        assert result == [
            {"it trains": "ZeroDivisionError: division by zero"},
            {},
        ]


def test_a_recording_has_one_stream_of_its_network_and_workers_have_no_more_than_there_are():
    with pretended():
        clients = toy_federation(
            resolve("fedism"), shards=gpu_checks.toy_clients("cuda"), device="cuda"
        ).clients
        engine = Streams.of(clients, 2)
        gpu_checks._OnDevice(resolve("fedism"), "cuda", None)
        before = Stream.made
        [*engine(tasks(clients, 1)), *engine(tasks(clients, 2))]
        assert Graph.captures > 2
        assert Stream.made == before == 5
        assert len(Streams.of(clients, 40).workers) == MOST
        assert 2 * MOST <= 32


def tasks(clients, round):
    """Tasks of every client in a round, from the model as it starts."""
    from fedcli.federation.client import ClientTask

    theta = clients.layout.read()
    return [
        ClientTask(client, row, round, 3, 1, theta, {}, {}) for row, client in enumerate(ROSTER)
    ]


@pytest.mark.parametrize(
    ("version", "dropout", "workers", "records"),
    [
        ("2.11.1", 0.2, 2, False),
        ("2.11.1", 0.0, 2, True),
        ("2.11.1", 0.2, 1, True),
        ("2.12.0", 0.2, 2, True),
    ],
)
def test_before_torch_2_12_clients_side_by_side_are_recorded_where_nothing_is_drawn(
    version, dropout, workers, records, monkeypatch
):
    """All recordings draw from one seed and offset there."""
    monkeypatch.setattr(torch, "__version__", TorchVersion(version))
    with pretended():
        played = gpu_checks._OnDevice(resolve("fedavg"), "cuda", None)
        one_by_one = played.prepared("cuda", dropout)
        *_, expected = played.play(one_by_one)
        clients = played.prepared("cuda", dropout)
        engine = Streams.of(clients, workers)
        *_, last = played.play(clients, engine)
        assert gpu_checks._difference(last, expected) == ""
        result = {worker.steps.captures > 0 for worker in engine.workers}
        assert result == {records}


def test_what_a_rule_keeps_on_the_host_is_there_again_after_a_resume(tmp_path):
    with pretended():
        on_gpu = torch.ones(3, device="cuda")
        state = states.RunState(
            1, on_gpu, {"a": on_gpu}, {"seen": torch.arange(3)}, {"north": {"b": torch.ones(2)}}
        )
        states.save(tmp_path, state, ROSTER)
        restored = states.restore(tmp_path / "00001.h5", ROSTER, "cuda")
        for part in ("theta", "shared", "server"):
            assert states.equal(getattr(restored, part), getattr(state, part))
        assert not restored.server["seen"].is_cuda
        assert not states.equal(restored.server["seen"], state.server["seen"].cuda())


def on_the_host_alone(kind="none", images=None):
    """Twelve images that found no room on the GPU."""
    toy = toy_shard("north", 12)
    y = toy.y.to("cuda")
    groups = {name: codes.to("cuda") for name, codes in toy.groups.items()}
    return shard.Shard(toy.images, toy.rows, y, toy.ids, groups, 3, 1, kind)


def test_images_on_the_host_are_gathered_there_while_the_gpu_works():
    with pretended():
        part = on_the_host_alone("flip")
        for batch in part.epoch(4, shuffle=1, augment=2):
            assert batch.x.is_cuda
            assert batch.y.is_cuda
            assert batch.at.is_cuda
            assert torch.equal(batch.y, part.y[batch.at])
        whole = torch.cat([batch.x for batch in part.in_order()]).cpu()
        plain = torch.cat([batch.x for batch in toy_shard("north", 12).in_order()])
        assert torch.equal(whole, plain)


def test_a_batch_from_the_host_does_not_wait_for_the_gpu():
    with pretended():
        part = on_the_host_alone("flip")
        stream = torch.cuda.Stream()
        turns = [*part.turns(4, shuffle=1, augment=2)]
        [*part.batches(turns)]  # the first batch sends what every one is scaled by
        with on(stream):
            late = torch.ones(1, device="cuda") + 1
            [*part.batches(turns)]
        with pytest.raises(Fault, match="did not wait"):
            late + 1  # nothing above has waited for this stream


def test_a_pipelines_threads_touch_no_gpu(monkeypatch):
    """They start on the default stream, which waits for no other."""
    monkeypatch.setattr(pipelines, "augment", lambda x, kind, chance: x.flip(3))
    with pretended():
        part = on_the_host_alone(pipelines.PREFIX + "{}")
        batches = []
        with on(torch.cuda.Stream()):
            for batch in part.batches(part.turns(4, shuffle=1, augment=2)):
                batches.append(batch.x)
            assert torch.cat(batches).shape == (12, 1, 8, 8)


def test_what_pixels_are_scaled_by_is_ready_for_every_stream():
    with pretended():
        with on(torch.cuda.Stream()):
            transforms.normalised(torch.ones(1, 3, 2, 2, device="cuda"))
        images = torch.ones(1, 3, 2, 2, device="cuda")
        other = torch.cuda.Stream()
        other.wait_stream(torch.cuda.current_stream())
        with on(other):
            transforms.normalised(images)


def test_features_of_images_on_the_host_lie_on_the_gpu():
    with pretended():
        net = toy_net().to("cuda")
        part = on_the_host_alone()
        data = shard.Shards([], {}, [], {"north": part}, {}, {}, {}, [], {})
        features = with_features(net, data).train["north"]
        assert features.images.is_cuda
        assert features.rows.is_cuda
        assert features.images.shape == (12, 16)
        result = features.batch(torch.arange(3)).x.shape
        assert result == (3, 16)


def test_workers_of_one_gpu_share_what_is_free():
    with pretended(free=10_000):
        images = torch.zeros(4, 1000, dtype=torch.uint8)
        assert shard._placed(images, "cuda").is_cuda
        assert not shard._placed(images, "cuda", 2).is_cuda


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_products_are_as_exact_as_the_precision_says(precision):
    with pretended():
        be_deterministic("cuda", 0, precision)
        modes = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
        be_deterministic("cuda", 0)
        assert modes == ((precision == "tf32",) * 2)
        assert not torch.backends.cudnn.allow_tf32


def test_a_gpu_pays_for_no_processes(monkeypatch):
    monkeypatch.setattr(pool, "cores", lambda: 2)
    assert not pool.pays(4, "cuda")
    assert pool.pays(4, "cpu")
