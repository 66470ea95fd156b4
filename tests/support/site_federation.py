"""Sites of the toy federation in this process, and a transport to them that goes through bytes."""

import io
import json
from contextlib import contextmanager, nullcontext

import h5py
import numpy as np
from conftest import ROSTER, make_chain
from made_plans import planned, train

from fedcli.data import manifest
from fedcli.federation.engines import ENGINES, register
from fedcli.federation.training import Training
from fedcli.sites.engine import Sites
from fedcli.sites.engines import reaches
from fedcli.sites.policy import Policy
from fedcli.sites.site import Site
from fedcli.sites.transport.frames import decoded, encoded

OPEN = Policy(smallest_cell=1)
TRAINING = Training(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.0, batch_size=8)


def plan(method="fedavg", rounds=2, training=TRAINING, **rest):
    return planned(method, {}, training, rounds, **rest)


def chain_with_tests(work):
    """A partition whose clients have ten test images each."""
    usual = make_chain(work)
    body = manifest.read(usual).body | {"corrupted_last": None}
    for entry in body["roster"]:
        entry["test"] = 10

    def partition(folder):
        with h5py.File(usual.parent / "rows.h5") as old, h5py.File(folder / "rows.h5", "w") as file:
            for name in ("train", "val"):
                old.copy(name, file)
            for k in range(4):
                file[f"test/{k}"] = np.arange(80 + 10 * k, 90 + 10 * k)
            file["test/all"] = np.arange(80, 120)
        return body

    return manifest.stage(
        "partition",
        folder=work / "partitions" / "tests",
        made_by=["partition"],
        options={"tests": True},
        parents=[manifest.above(usual, "dataset")],
        build=partition,
    )


def lines_of(run):
    """The lines of a run's rounds.jsonl."""
    text = (run.parent / "rounds.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def sites_of(data, folder, clients=ROSTER, **more):
    """A site for each client."""
    return {client: Site(data, folder / client, client=client, **more) for client in clients}


def through_bytes(message):
    """The message as it arrives on the other side."""
    stream = io.BytesIO(b"".join(bytes(piece) for piece in encoded(message)))
    return decoded(lambda buffer: stream.readinto(buffer))


class Carried:
    """A transport: asks sites in this process, one after another, the last one first.

    change: what becomes of an answer on its way: (client, question, answer) -> an answer, or a sentence.
    """

    def __init__(self, sites, change=lambda client, question, answer: answer):
        self.sites = sites
        self.change = change
        self.asked = []

    def __call__(self, messages, timeout):
        for client, message in reversed(messages):
            scalars, arrays = through_bytes(message)
            self.asked.append((client, scalars))
            answer = self.change(client, scalars, self.sites[client].answer(scalars, arrays))
            yield client, answer if isinstance(answer, str) else through_bytes(answer)


def train_at(sites, data, configuration, work, *, change=None, min_clients=0, **rest):
    """train() with an engine that asks these sites."""
    transport = Carried(sites, change) if change else Carried(sites)

    with engine_of(lambda federation: Sites(federation, transport)) as name:
        return train(data, configuration, work=work, engine=name, min_clients=min_clients, **rest)


@contextmanager
def engine_of(sites_of_federation, name="carried"):
    """The name of an engine that is registered meanwhile. sites_of_federation: federation -> Sites."""
    register(
        name,
        reaches(
            lambda federation, where, timeout: nullcontext(sites_of_federation(federation)),
            "nothing",
        ),
    )
    try:
        yield f"{name}:x"
    finally:
        del ENGINES[name]


def reached(monkeypatch, sites):
    """--engine here:x asks these sites."""
    transport = Carried(sites)

    opened = reaches(
        lambda federation, where, timeout: nullcontext(Sites(federation, transport)), "nothing"
    )
    monkeypatch.setitem(ENGINES, "here", opened)
    return transport
