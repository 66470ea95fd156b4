"""The ray engine, against a stand-in for the package: tests/consortium/test_ray.py has the real one."""

import pickle
from types import SimpleNamespace

import pytest
import torch
from conftest import make_chain, toy_net
from made_plans import planned, train

from fedcli.errors import FedcliError, UsageError
from fedcli.federation.engines import chosen, on_ray, parsed
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.training import Training
from fedcli.methods import METHODS, resolve
from fedcli.models.layout import Layout

TRAINING = Training(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.0, batch_size=8)


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class ObjectLostError(RayError):
    pass


class Result:
    def __init__(self, actor, value):
        self.actor, self.value = actor, value


class Actor:
    """An actor whose calls return at once; their values are there as long as it is."""

    def __init__(self, ray, kind):
        self.ray = ray
        self.actor = kind()
        self.alive = True
        for name in ("begin", "work_on"):
            setattr(
                self,
                name,
                SimpleNamespace(remote=lambda *values, name=name: self.call(name, values)),
            )

    def call(self, name, values):
        self.ray.calls += name == "work_on"
        if name == "work_on" and self.ray.calls == self.ray.lost_at:
            self.alive = False
        if name == "begin":
            return Result(self, self.actor.begin(*values))
        return Result(self, self.alive and pickle.dumps(self.actor.work_on(*values)))


class StandIn:
    """The part of ray that the engine uses, in this process; every message is pickled.

    lost_at: the call in which the worker that has it is lost, and all that it has not handed over.
    """

    exceptions = SimpleNamespace(
        RayError=RayError, RayActorError=RayActorError, ObjectLostError=ObjectLostError
    )

    def __init__(self, lost_at=0, cpus=2, error=None):
        self.lost_at, self.cpus, self.error, self.calls, self.killed = lost_at, cpus, error, 0, 0

    def is_initialized(self):
        return True

    def available_resources(self):
        return {"CPU": float(self.cpus)}

    def nodes(self):
        return [
            {"Alive": True, "Resources": {"CPU": float(self.cpus)}},
            {"Alive": False, "Resources": {"CPU": 8.0}},
        ]

    def remote(self, **resources):
        return lambda kind: SimpleNamespace(remote=lambda: Actor(self, kind))

    def put(self, value):
        return value

    def wait(self, results):
        return [results[-1]], results[:-1]  # the last one first

    def get(self, result):
        if self.error and result.actor.ray.calls:
            raise self.error
        if not result.actor.alive:
            raise RayActorError("gone")
        return pickle.loads(result.value) if isinstance(result.value, bytes) else result.value

    def kill(self, actor):
        self.killed += 1


@pytest.fixture
def ray(monkeypatch):
    """Replaces the package by a stand-in with one client in a call, and returns it."""

    def replaced(**how):
        stand_in = StandIn(**how)
        monkeypatch.setattr(on_ray, "_imported", lambda: stand_in)
        monkeypatch.setattr(on_ray, "TOGETHER", 1)
        return stand_in

    return replaced


def trained(work, method, engine, **more):
    plan = planned(method, {}, TRAINING, rounds=2)
    return train(make_chain(work), plan, work=work, engine=engine, threads=1, **more)


def made(run):
    return {
        path.name: path.read_bytes()
        for path in [run.parent / "rounds.jsonl", *run.parent.glob("models/*.h5")]
    }


@pytest.mark.parametrize("method", ["scaffold", "ditto", "afl"])
def test_bytes_are_those_of_one_process_also_where_a_worker_is_lost(tmp_path, ray, method, capsys):
    usual = made(trained(tmp_path / "usual", method, "in-process"))
    whole = ray()
    losing = ray(lost_at=6)
    assert made(trained(tmp_path / "lost", method, "ray:2")) == usual
    assert (
        "a worker of the ray cluster was lost: 1 worker goes on with its clients"
        in capsys.readouterr().err
    )
    assert losing.killed == 1
    assert not whole.calls


def test_without_a_worker_it_ends_in_a_sentence_and_resumes_to_the_same_bytes(tmp_path, ray):
    usual = made(trained(tmp_path / "usual", "scaffold", "in-process"))
    ray(lost_at=5, cpus=1)
    with pytest.raises(FedcliError, match="the last worker of the ray cluster was lost") as error:
        trained(tmp_path / "ray", "scaffold", "ray")
    assert "--resume" in error.value.hint
    ray()
    result = made(trained(tmp_path / "ray", "scaffold", "ray", resume=True))
    assert result == usual


def test_what_goes_wrong_at_a_worker_reaches_the_user(tmp_path, ray, monkeypatch):
    def fails(self, net, batch, client):
        raise FedcliError("an image is odd", "look at it")

    ray()
    monkeypatch.setattr(METHODS["fedavg"].local.__class__, "gradient", fails)
    with pytest.raises(FedcliError, match="an image is odd") as error:
        trained(tmp_path, "fedavg", "ray:2")
    assert error.value.hint == "look at it"


def test_what_goes_wrong_in_ray_is_a_sentence(tmp_path, ray):
    ray(error=RayError("the store is full\nand more"))
    with pytest.raises(FedcliError, match=r"ray failed: the store is full$"):
        trained(tmp_path, "fedavg", "ray:2")


def test_a_cluster_without_a_free_processor_is_refused(tmp_path, ray):
    ray(cpus=0)
    with pytest.raises(FedcliError, match="no free 1 CPU for a worker"):
        trained(tmp_path, "fedavg", "ray")


def test_a_node_without_the_data_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a worker goes, which is this process here
    worker = on_ray.Worker()
    calls = []
    clients = InProcess(resolve("fedavg"), toy_net(), Layout(toy_net()), {}, TRAINING)

    def remake(*arguments):
        calls.append(arguments)
        return clients

    result = worker.begin(remake, str(tmp_path), frozenset(), "cuda", 1, 3)
    assert result == []
    assert calls == [("cuda", 1, 3)]
    refused = worker.begin(remake, str(tmp_path / "absent"), frozenset(), "cpu", 1, 1)
    assert isinstance(refused, FedcliError)
    assert f"has no {tmp_path / 'absent'}" in refused.sentence


def test_data_that_differ_between_nodes_are_refused(tmp_path):
    from fedcli.errors import HashError
    from fedcli.runs.assembly import remake

    data = make_chain(tmp_path)
    plan = planned("fedavg", {}, TRAINING, rounds=1)
    with pytest.raises(HashError, match="is another"):
        remake(data, "0" * 64, plan, "cpu", 1)
    with pytest.raises(FedcliError, match="has no "):
        remake(tmp_path / "absent.json", "0" * 64, plan, "cpu", 1)


def test_clients_without_files_are_refused():
    clients = InProcess(resolve("fedavg"), toy_net(), Layout(toy_net()), {}, TRAINING)
    with pytest.raises(UsageError, match="loaded from files"):
        on_ray.Ray(clients, 2)


def test_without_the_package_a_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(on_ray.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="ray, which is not installed") as error:
        on_ray._imported()
    assert error.value.hint == "pip install 'fedcli[ray]'"


def test_a_cluster_that_cannot_be_reached_is_named(monkeypatch):
    def init(**_):
        raise ConnectionError("nobody listens\nlong text")

    monkeypatch.setenv("RAY_ADDRESS", "node-1:6379")
    with pytest.raises(FedcliError, match=r"no ray cluster at node-1:6379: nobody listens$"):
        on_ray._connect(SimpleNamespace(init=init))
    monkeypatch.setenv("RAY_ADDRESS", "ray://node-1:10001")
    with pytest.raises(UsageError, match="ray's client"):
        on_ray._connect(SimpleNamespace(init=init))


def test_its_number_of_workers_may_be_left_out():
    assert chosen("ray", clients=4, device="cpu") == ("ray", 4)
    assert chosen("ray:1", clients=4, device="cuda") == ("ray", 1)
    assert parsed("ray:3", "cpu") == ("ray", 3)
    with pytest.raises(UsageError, match="needs the number"):
        parsed("ray:", "cpu")
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("sent", [b"", b"done"])
def test_a_run_that_ray_ends_at_once_says_so(sent, capfd):
    watch = on_ray._watched()
    watch.communicate(sent)
    expected = "" if sent else f"{on_ray.GONE}\n"
    assert capfd.readouterr().err == expected
