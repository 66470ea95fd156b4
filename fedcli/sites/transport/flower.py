"""Flower: an app for the server that passes questions on, and one for a site that brings them to the site's process.

Flower starts a new process for every message to a site, which therefore imports no torch and holds nothing: the site's
own process, `fedcli site --socket PATH`, has the images, the network and the memory.
"""

import json
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

WHO, ANSWER = "query.fedcli", "train.fedcli"
PATIENCE = 60.0  # seconds for a node to say whose it is
IMPOSTOR = (
    "find out whose the nodes are (`flwr supernode list`), and unregister the one that is not the hospital's "
    "(`flwr supernode unregister`)"
)
LOST = "start the site's SuperNode and its process again, then go on with --resume"


def check() -> None:
    """Raises FedcliError where Flower is not installed."""
    if not INSTALLED:
        raise FedcliError("Flower is not installed here", "pip install 'fedcli[flower]'")


def record_of(message: Message) -> Any:
    """A message as Flower carries it; a record of numbers is flat, so the scalars are one JSON text."""
    scalars, arrays = message
    return RecordDict(
        {
            "arrays": ArrayRecord(
                {name: Array(np.asarray(array, order="C")) for name, array in arrays.items()}
            ),
            "scalars": ConfigRecord({"json": json.dumps(scalars)}),
        }
    )


def message_of(record: Any) -> Message:
    """The message in what Flower carried."""
    return json.loads(record["scalars"]["json"]), {
        name: array.numpy() for name, array in record["arrays"].items()
    }


def client() -> Any:
    """The app of a site. Its SuperNode's --node-config has `client`, the site's name, and `socket`, the path."""
    check()
    secagg.use_own_masks()
    app = ClientApp()

    @app.query("fedcli")
    def who(message: Any, context: Any) -> Any:
        return Sent(
            record_of(({"client": str(context.node_config.get("client"))}, {})), reply_to=message
        )

    @app.train("fedcli")
    def train(message: Any, context: Any) -> Any:
        node = context.node_config
        answer = answered(
            str(node.get("client")), Path(str(node.get("socket"))), message_of(message.content)
        )
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
        with Relay(
            paths, float(config["idle"]), alive=True
        ) as relay:  # Flower reports a node that it loses
            pass_on(relay, Nodes(grid), context)

    return app


class Nodes:
    """The SuperNodes of the sites: Flower gives them numbers, which they are asked for."""

    def __init__(self, grid: Any):
        self.grid = grid
        self.names: dict[int, str] = {}  # node -> the site that it says it is
        self.silent: set[int] = set()  # nodes that were asked, and have not answered

    def node(self, client: str) -> int | None:
        """The node of a site; None while it is not connected. Raises FedcliError where several say they are."""
        present = set(self.grid.get_node_ids())
        self._ask(present - self.names.keys() - self.silent)
        if not self._claiming(client, present):
            self._ask(present - self.names.keys())
        claiming = self._claiming(client, present)
        if len(claiming) > 1:
            raise FedcliError(f"{len(claiming)} SuperNodes say that they are {client}", IMPOSTOR)
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
            if SUM in question.message[0]:
                of_sum = secagg.gathered(of_sum, question)
                if set(of_sum) == set(question.message[0][SUM]["clients"]):
                    _add_up(nodes, context, of_sum)
                    of_sum = {}
                continue
            try:
                node = nodes.node(question.client)
            except FedcliError as error:
                question.fail(error.sentence, error.hint)
                continue
            if node is None:
                question.fail("its SuperNode is not connected", LOST)
                continue
            sent = Sent(record_of(question.message), node, ANSWER)
            waiting |= dict.fromkeys(nodes.grid.push_messages([sent]), question)
        for reply in nodes.grid.pull_messages(list(waiting)) if waiting else ():
            question = waiting.pop(reply.metadata.reply_to_message_id)
            if reply.has_error():
                question.fail(
                    f"Flower reports: {reply.error.reason or reply.error.code}"[:200], LOST
                )
            else:
                question.answer_of(message_of, reply.content)


def _add_up(nodes: Nodes, context: Any, questions: dict[str, Question]) -> None:
    try:
        known = {client: nodes.node(client) for client in questions}
    except FedcliError as error:
        for question in questions.values():
            question.fail(error.sentence, error.hint)
        return
    if absent := [client for client, node in known.items() if node is None]:
        for question in questions.values():
            question.fail(f"the SuperNode of {absent[0]} is not connected", LOST)
        return
    secagg.add_up(
        nodes.grid,
        context,
        {node: questions[client] for client, node in known.items() if node is not None},
    )
