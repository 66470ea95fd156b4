"""Flower's side of the transport, without a SuperLink."""

from types import SimpleNamespace

import pytest
from wire_messages import MESSAGE, same

from fedcli.errors import FedcliError
from fedcli.sites.transport import flower
from fedcli.sites.transport.relay import Question

needs_flower = pytest.mark.skipif(not flower.INSTALLED, reason="the extra flower is not installed")


@needs_flower
def test_a_message_comes_through_flowers_records():
    same(MESSAGE, flower.message_of(flower.record_of(MESSAGE)))
    result = flower.message_of(flower.record_of(({"ask": "describe"}, {})))
    assert result == (
        {"ask": "describe"},
        {},
    )


@pytest.fixture(autouse=True)
def outside_of_a_run(monkeypatch):
    """Flower's own messages can only be made while an app runs."""

    def sent(content, node, kind):
        return SimpleNamespace(
            content=content, metadata=SimpleNamespace(dst_node_id=node, message_type=kind)
        )

    monkeypatch.setattr(flower, "Sent", sent, raising=False)


class Reply:
    def __init__(self, node, record, to="", error=""):
        self.metadata = SimpleNamespace(src_node_id=node, reply_to_message_id=to)
        self.content = record
        self.error = SimpleNamespace(reason=error, code=1)

    def has_error(self):
        return bool(self.error.reason)


class Grid:
    """A SuperLink whose nodes, by number, are named; answers with what it was asked, or as told."""

    def __init__(self, names, error=""):
        self.names = names
        self.error = error
        self.pushed = {}

    def get_node_ids(self):
        return list(self.names)

    def send_and_receive(self, messages, timeout):
        nodes = [message.metadata.dst_node_id for message in messages]
        return [Reply(node, flower.record_of(({"client": self.names[node]}, {}))) for node in nodes]

    def push_messages(self, messages):
        (message,) = messages
        name = f"message-{len(self.pushed)}"
        self.pushed[name] = message
        return [name]

    def pull_messages(self, names):
        return [
            Reply(
                self.pushed[name].metadata.dst_node_id, self.pushed[name].content, name, self.error
            )
            for name in names
        ]


class Asked:
    """A relay at which these questions arrive, and which is over when all are answered."""

    def __init__(self, *questions):
        self.waiting = list(questions)
        self.all = questions

    @property
    def over(self):
        return all(question.reply.done() for question in self.all)

    def questions(self, wait):
        waiting = self.waiting
        self.waiting = []
        return waiting


@needs_flower
def test_questions_go_to_the_nodes_of_their_sites():
    north = Question("north", MESSAGE)
    south = Question("south", ({"ask": "describe"}, {}))
    grid = Grid({7: "south", 9: "north"})
    flower.pass_on(Asked(north, south), flower.Nodes(grid))
    same(MESSAGE, north.reply.result(0))
    assert south.reply.result(0) == ({"ask": "describe"}, {})
    result = [message.metadata.dst_node_id for message in grid.pushed.values()]
    assert result == [9, 7]


@needs_flower
@pytest.mark.parametrize(
    ("names", "error", "sentence"),
    [
        ({7: "south"}, "", "its SuperNode is not connected"),
        ({7: "north"}, "no disk", "Flower reports: no disk"),
    ],
)
def test_a_site_that_flower_cannot_ask_is_an_answer_too(names, error, sentence):
    question = Question("north", MESSAGE)
    flower.pass_on(Asked(question), flower.Nodes(Grid(names, error)))
    assert question.reply.result(0)[0]["error"] == sentence


@needs_flower
def test_a_node_that_comes_later_is_asked_who_it_is():
    grid = Grid({7: "south"})
    nodes = flower.Nodes(grid)
    assert nodes.node("north") is None
    assert nodes.node("south") == 7
    grid.names = {7: "south", 8: "north"}
    assert nodes.node("north") == 8
    grid.names = {8: "north"}
    assert nodes.node("south") is None


@needs_flower
def test_two_nodes_that_say_they_are_one_site_are_asked_nothing():
    grid = Grid({7: "south", 8: "north"})
    nodes = flower.Nodes(grid)
    assert nodes.node("north") == 8
    grid.names = {7: "south", 8: "north", 9: "north"}
    question = Question("north", MESSAGE)
    other = Question("south", MESSAGE)
    flower.pass_on(Asked(question, other), nodes)
    answer, _ = question.reply.result(0)
    assert answer["error"] == "2 SuperNodes claim to be north"
    assert "flwr supernode unregister" in answer["hint"]
    result = [message.metadata.dst_node_id for message in grid.pushed.values()]
    assert result == [7]
    grid.names = {7: "south", 9: "north"}
    assert nodes.node("north") == 9


@needs_flower
def test_a_node_that_is_silent_is_only_asked_again_for_a_site_that_is_missing():
    grid = Grid({7: "south", 8: ""})
    nodes_asked = []

    def answered_by_one(messages, timeout):
        nodes_asked.append([message.metadata.dst_node_id for message in messages])
        return Grid.send_and_receive(grid, [m for m in messages if m.metadata.dst_node_id == 7], 0)

    grid.send_and_receive = answered_by_one
    nodes = flower.Nodes(grid)
    assert nodes.node("south") == 7
    assert nodes.node("south") == 7
    assert nodes_asked == [[7, 8]]
    assert nodes.node("north") is None
    assert nodes_asked == [[7, 8], [8]]


def test_without_flower_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(flower, "INSTALLED", False)
    for app in (flower.client, flower.server):
        with pytest.raises(FedcliError, match="Flower is not installed"):
            app()
