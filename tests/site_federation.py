"""Sites of the toy federation in this process, and a transport to them that goes through bytes."""

import io

from conftest import ROSTER

from fedcli.federation.training import Training
from fedcli.runs.configuration import Execution, Plan
from fedcli.runs.train import train
from fedcli.sites.engine import Sites
from fedcli.sites.site import Site
from fedcli.transport.frames import decoded, encoded

TRAINING = Training(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.0, batch_size=8)


def plan(method="fedavg", rounds=2, training=TRAINING, **rest):
    return Plan(method, {}, training, rounds, **rest)


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
        self.sites, self.change, self.asked = sites, change, []

    def __call__(self, messages, timeout):
        for client, message in reversed(messages):
            scalars, arrays = through_bytes(message)
            self.asked.append((client, scalars))
            answer = self.change(client, scalars, self.sites[client].answer(scalars, arrays))
            yield client, answer if isinstance(answer, str) else through_bytes(answer)


def train_at(sites, data, configuration, work, *, change=None, opened=Sites, **rest):
    """train() with an engine that asks these sites."""
    transport = Carried(sites, change) if change else Carried(sites)

    class Opened:
        def __init__(self, federation):
            self.federation = federation

        def __enter__(self):
            return opened(self.federation, transport)

        def __exit__(self, *_):
            pass

    return train(data, configuration, work=work, execution=Execution(open_with=Opened), **rest)
