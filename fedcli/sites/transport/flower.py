"""Flower: an app for the server that passes questions on, and one for a site.

The latter brings them to the site's process.

Flower starts a new process for every message to a site, which therefore imports no torch and holds
nothing: the site's own process, `fedcli site --socket PATH`, has the images, the network and the
memory.
"""

import json
from collections.abc import Collection
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FedcliError
from . import secagg
from .frames import Message
from .relay import SUM, Question, Relay, answered, paths_in

INSTALLED = find_spec("flwr") is not None
if INSTALLED:
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
    from flwr.app import Message as Sent
    from flwr.client.mod import secaggplus_mod
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

WHO = "query.fedcli"
ANSWER = "train.fedcli"
PATIENCE = 60.0  # seconds for a node to say whose it is
IMPOSTOR = (
    "find out whose the nodes are (`flwr supernode list`), and unregister the one that is not the "
    "hospital's (`flwr supernode unregister`)"
)
LOST = "start the site's SuperNode and its process again, then go on with --resume"


def check() -> None:
    """Raises FedcliError where Flower is not installed."""
    if not INSTALLED:
        raise FedcliError("Flower is not installed here", "pip install 'fedcli[flower]'")


def record_of(message: Message) -> Any:
    """A message as Flower carries it.

    A record of numbers is flat, so the scalars are one JSON text.
    """
    scalars, arrays = message
    carried = {name: Array(np.asarray(array, order="C")) for name, array in arrays.items()}
    return RecordDict(
        {
            "arrays": ArrayRecord(carried),
            "scalars": ConfigRecord({"json": json.dumps(scalars)}),
        }
    )


def message_of(record: Any) -> Message:
    """The message in what Flower carried."""
    arrays = {name: array.numpy() for name, array in record["arrays"].items()}
    return json.loads(record["scalars"]["json"]), arrays


def client() -> Any:
    """The app of a site.

    Its SuperNode's --node-config has `client`, the site's name, and `socket`, the path.
    """
    check()
    secagg.use_own_masks()
    app = ClientApp()

    @app.query("fedcli")
    def who(message: Any, context: Any) -> Any:
        client, _ = secagg.site_of(context)
        return Sent(record_of(({"client": client}, {})), reply_to=message)

    @app.train("fedcli")
    def train(message: Any, context: Any) -> Any:
        client, path = secagg.site_of(context)
        answer = answered(client, path, message_of(message.content))
        return Sent(record_of(answer), reply_to=message)

    @app.train(mods=[secaggplus_mod])
    def add(message: Any, context: Any) -> Any:
        return Sent(secagg.masked_answer(message, context), reply_to=message)

    return app


def server() -> Any:
    """The app of the server; `folder`, `clients` and `idle` are in the run's configuration."""
    check()
    secagg.use_own_masks()
    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        config = context.run_config
        clients = str(config["clients"]).split(",")
        paths = paths_in(Path(str(config["folder"])), clients)
        # alive: Flower reports a node that it loses
        with Relay(paths, float(config["idle"]), alive=True) as relay:
            pass_on(relay, Nodes(grid), context)

    return app


class Nodes:
    """The SuperNodes of the sites: Flower gives them numbers, which they are asked for."""

    def __init__(self, grid: Any):
        self.grid = grid
        self.names: dict[int, str] = {}  # node -> the site that it says it is
        self.silent: set[int] = set()  # nodes that were asked, and have not answered

    def connected(self, client: str, absent: str) -> int:
        """The node of a site. Raises FedcliError with the sentence `absent` where there is none."""
        node = self.node(client)
        if node is None:
            raise FedcliError(absent, LOST)
        return node

    def node(self, client: str) -> int | None:
        """The node of a site; None while it is not connected.

        Raises FedcliError where several say they are.
        """
        present = set(self.grid.get_node_ids())
        self._ask(present - self.names.keys() - self.silent)
        if not self._claiming(client, present):
            self._ask(present - self.names.keys())
        claiming = self._claiming(client, present)
        if len(claiming) > 1:
            raise FedcliError(f"{len(claiming)} SuperNodes claim to be {client}", IMPOSTOR)
        return claiming[0] if claiming else None

    def _claiming(self, client: str, present: set[int]) -> list[int]:
        return [node for node in sorted(present) if self.names.get(node) == client]

    def _ask(self, nodes: set[int]) -> None:
        """Ask nodes which sites they are of."""
        questions = [Sent(RecordDict(), node, WHO) for node in sorted(nodes)]
        if not questions:
            return
        self.silent |= nodes
        for reply in self.grid.send_and_receive(questions, timeout=PATIENCE):
            with suppress(Exception):  # of a node that says what is no message
                if not reply.has_error():
                    node = reply.metadata.src_node_id
                    self.names[node] = str(message_of(reply.content)[0]["client"])
                    self.silent.discard(node)


def pass_on(relay: Relay, nodes: Nodes, context: Any = None) -> None:
    """Send questions to the sites and give back what they answer, until nobody asks any more.

    context: of the app; Flower's secure aggregation wants it.
    """
    waiting: dict[str, Question] = {}  # by the id of Flower's message
    of_sum: dict[str, Question] = {}  # by client, until all clients of a sum have been asked for
    while not relay.over:
        for question in relay.questions(0.1):
            scalars, _ = question.message
            if SUM in scalars:
                of_sum = secagg.gathered(of_sum, question)
                if of_sum.keys() == set(scalars[SUM]["clients"]):
                    _add_up(nodes, context, of_sum.values())
                    of_sum = {}
                continue
            try:
                node = nodes.connected(question.client, "its SuperNode is not connected")
            except FedcliError as error:
                question.fail(error.sentence, error.hint)
                continue
            sent = Sent(record_of(question.message), node, ANSWER)
            waiting |= dict.fromkeys(nodes.grid.push_messages([sent]), question)
        replies = nodes.grid.pull_messages(list(waiting)) if waiting else ()
        for reply in replies:
            question = waiting.pop(reply.metadata.reply_to_message_id)
            if reply.has_error():
                question.fail(secagg.error_of(reply)[:200], LOST)
            else:
                question.answer_of(message_of, reply.content)


def _add_up(
    nodes: Nodes,
    context: Any,
    questions: Collection[Question],
) -> None:
    """Let the sites of these questions add their updates, and answer all of them."""
    by_node = {}
    try:
        for question in questions:
            client = question.client
            node = nodes.connected(client, f"the SuperNode of {client} is not connected")
            by_node[node] = question
    except FedcliError as error:
        for question in questions:
            question.fail(error.sentence, error.hint)
    else:
        secagg.add_up(nodes.grid, context, by_node)
