"""Questions of a coordinator at the sockets of a job, and their answers."""

import json
import re
import socket
import threading
import time
from concurrent.futures import Future

import pytest

from fedcli.errors import FedcliError
from fedcli.sites.transport import relay as relays
from fedcli.sites.transport import sockets
from fedcli.sites.transport.relay import MASKED, Question, Relay, answered, paths_in

ASKED = {"ask": "train", "round": 1}, {}


class Site:
    """Answers with what it was asked."""

    def answer(self, scalars, arrays):
        return {**scalars, "client": "north"}, arrays


def asking(path):
    """Ask in a thread, once somebody listens; returns the thread and the list that gets the answer."""
    answers = []

    def ask():
        until(path.is_socket)
        with sockets.connected(path) as connection:
            answers.append(sockets.ask(connection, ASKED, 60))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, answers


def until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def next_of(relay):
    return next(relay.questions(60))


def test_a_question_is_answered_by_whoever_carries_it(tmp_path):
    with Relay(paths_in(tmp_path, ["north", "south"]), idle=60) as relay:
        thread, answers = asking(tmp_path / "north.sock")
        question = next_of(relay)
        assert (question.client, question.message) == ("north", ASKED)
        assert not relay.over
        question.answer(Site().answer(*question.message))
        question.fail("too late: the first answer counts")
        thread.join(60)
    assert answers == [({**ASKED[0], "client": "north"}, {})]
    assert not list(tmp_path.iterdir())


def test_a_job_that_ends_answers_what_is_open(tmp_path):
    with Relay(paths_in(tmp_path, ["north"]), idle=60) as relay:
        thread, answers = asking(tmp_path / "north.sock")
        next_of(relay)
    thread.join(60)
    assert answers[0][0]["error"] == "the job that carries messages to it ended"


def test_a_relay_is_over_when_nobody_asks_any_more(tmp_path):
    with Relay(paths_in(tmp_path, ["north"]), idle=0) as relay:
        until((tmp_path / "north.sock").is_socket)
        with sockets.connected(tmp_path / "north.sock"):
            until(lambda: relay._open)
            assert not relay.over
        until(lambda: relay.over)


def test_a_relay_is_not_over_in_the_moment_in_which_a_coordinator_leaves(tmp_path):
    states = []

    class Open(dict):
        def __delitem__(self, connection):
            super().__delitem__(connection)
            states.append(relay.over)

    relay = Relay(paths_in(tmp_path, ["north"]), idle=60)
    relay._open = Open()
    relay._last = time.monotonic() - 100
    with relay:
        until((tmp_path / "north.sock").is_socket)
        sockets.connected(tmp_path / "north.sock").close()
        until(lambda: states)
    assert states == [False]


def test_a_coordinator_that_comes_while_a_job_ends_is_not_listened_to(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "fedcli.sites.transport.relay.talk", lambda *_: pytest.fail("listens to it")
    )
    with Relay(paths_in(tmp_path, ["north"]), idle=60) as relay:
        pass
    ours, theirs = socket.socketpair()
    with ours, theirs:
        relay._start("north", theirs)
        assert ours.recv(1) == b""


def test_of_two_answers_at_once_one_counts():
    class Late(Future):
        def done(self):
            return False  # as it was a moment ago

    question = Question("north", ASKED, Late())
    question.answer(ASKED)
    question.fail("the job ended")
    assert question.reply.result(0) == ASKED


def test_nonsense_that_a_site_sends_is_an_answer_too():
    question = Question("north", ASKED)
    other = Question("north", ASKED)
    question.answer_of(lambda carried: json.loads(carried["scalars"]), {})
    assert (
        question.reply.result(0)[0]["error"] == "it answered with no message of fedcli (KeyError)"
    )
    other.answer_of(lambda carried: (carried, {}), {"a": 1})
    assert other.reply.result(0) == ({"a": 1}, {})


def test_what_is_no_array_is_an_answer_that_names_it():
    question = Question("north", ASKED)
    question.answer_of(lambda carried: ({}, carried), {"theta": "no array"})
    answer, arrays = question.reply.result(0)
    assert answer["client"] == "north"
    assert arrays == {}
    assert (
        "it answered with what no site sends: a message holds no array of type str"
        in answer["error"]
    )


def test_a_relay_whose_socket_is_in_use_says_so_and_leaves_none(tmp_path):
    with (
        sockets.listening(tmp_path / "south.sock"),
        pytest.raises(FedcliError, match=r"another process listens at .*south.sock"),
        Relay(paths_in(tmp_path, ["north", "south"]), idle=60),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_silent_and_a_half_open_connection_keep_nobody_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "HANDSHAKE", 60.0)
    path = tmp_path / "north.sock"
    with (
        Relay({"north": path}, idle=60) as relay,
        sockets.connected(path),
        sockets.connected(path) as half,
    ):
        half.sendall(b"FCLI\0\0")
        until(lambda: len(relay._open) == 2)
        thread, answers = asking(path)
        question = next_of(relay)
        question.answer(Site().answer(*question.message))
        thread.join(60)
    assert answers == [({**ASKED[0], "client": "north"}, {})]


def test_a_connection_that_asks_nothing_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "HANDSHAKE", 0.01)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sockets.talk(Site().answer, theirs)  # returns


def test_more_connections_than_can_be_served_are_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(relays, "MOST", 1)
    path = tmp_path / "north.sock"
    with Relay({"north": path}, idle=60) as relay, sockets.connected(path):
        until(lambda: relay._open)
        with sockets.connected(path) as other:
            assert other.recv(1) == b""


def test_a_second_coordinator_is_told_since_when_another_is_served(tmp_path, monkeypatch):
    monkeypatch.setattr(relays, "LIFE", 0.01)
    path = tmp_path / "north.sock"
    notices = []
    with (
        Relay({"north": path}, idle=60) as relay,
        sockets.connected(path) as first_connection,
        sockets.connected(path) as second_connection,
    ):
        sockets.send(first_connection, ASKED)
        question = next_of(relay)
        sockets.send(second_connection, ASKED)

        def noticed(why, alive):
            notices.append((why, alive))
            question.answer(ASKED)
            first_connection.close()

        until(lambda: second_connection.recv(1, socket.MSG_PEEK))
        thread = threading.Thread(target=lambda: next_of(relay).answer(ASKED), daemon=True)
        thread.start()
        assert sockets.receive(second_connection, 60, noticed) == ASKED
        thread.join(60)
    assert re.fullmatch(
        r"it serves another coordinator since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", notices[0][0]
    )
    assert notices[0][1] is False


def test_a_coordinator_that_is_silent_loses_the_site_to_one_that_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(relays, "LIFE", 0.01)
    path = tmp_path / "north.sock"
    with (
        Relay({"north": path}, idle=60) as relay,
        sockets.connected(path) as silent,
        sockets.connected(path) as other,
    ):
        sockets.send(silent, ASKED)
        next_of(relay).answer(ASKED)
        assert sockets.receive(silent) == ASKED
        monkeypatch.setattr(relays, "PATIENCE", -1.0)
        sockets.send(other, ASKED)
        next_of(relay).answer(ASKED)
        assert sockets.receive(other, 60) == ASKED
        assert silent.recv(1) == b""


@pytest.mark.parametrize("alive", [True, False])
def test_signs_of_life_outlast_a_patience_and_other_notices_do_not(tmp_path, monkeypatch, alive):
    monkeypatch.setattr(relays, "LIFE", 0.01)
    with (
        Relay({"north": tmp_path / "n"}, idle=60, alive=alive) as relay,
        sockets.connected(tmp_path / "n") as connection,
    ):
        sockets.send(connection, ASKED)
        question = next_of(relay)
        notices = []

        def noticed(why, alive):
            notices.append(why)
            if alive and len(notices) == 30:  # ten times as long
                question.answer(ASKED)

        if alive:
            assert sockets.receive(connection, 30, noticed) == ASKED
            assert set(notices) == {"it is at work"}
        else:
            with pytest.raises(TimeoutError):
                sockets.receive(connection, 0.1, noticed)
            assert set(notices) == {"the job waits for it"}


def test_a_question_that_nobody_waits_for_any_more_is_not_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(relays, "LIFE", 0.01)
    path = tmp_path / "north.sock"
    questions = []
    with Relay({"north": path}, idle=60) as relay:
        with sockets.connected(path) as gone:
            sockets.send(gone, ASKED)
            until(lambda: relay._waiting)
        until(lambda: not relay._open)
        with sockets.connected(path) as other:
            sockets.send(other, ({"ask": "describe"}, {}))
            until(lambda: questions.extend(relay.questions(1)) or questions)
    assert [question.message[0] for question in questions] == [{"ask": "describe"}]


@pytest.fixture
def site(tmp_path):
    """A site's process, in a thread, which answers one connection as told, and its socket."""
    threads = []

    def start(talk):
        def serve():
            with sockets.listening(path) as listener:
                connection, _ = listener.accept()
                with connection:
                    talk(connection)

        path = tmp_path / "north.sock"
        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        until(path.is_socket)
        return path

    yield start
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_site_is_asked_at_its_socket(site):
    path = site(lambda connection: sockets.talk(Site().answer, connection))
    expected = ({**ASKED[0], "client": "north"}, {})
    assert answered("north", path, ASKED) == expected


WRONG_ENDS = [
    (
        lambda connection: sockets.receive(connection, None),
        "its process ended before it answered",
    ),
    (
        lambda connection: sockets.receive(connection, None) and connection.sendall(b"x" * 99),
        "what arrived is no message of fedcli",
    ),
]


@pytest.mark.parametrize(("talk", "sentence"), WRONG_ENDS)
def test_a_site_that_breaks_off_or_answers_nonsense_is_an_answer_too(site, talk, sentence):
    scalars, arrays = answered("north", site(talk), ASKED)
    assert (scalars["client"], scalars["error"], arrays) == ("north", sentence, {})


@pytest.mark.parametrize(("masked", "expected"), [(0, None), (3, 3)])
def test_only_the_sites_own_machine_says_that_an_answer_is_masked(site, masked, expected):
    path = site(lambda connection: sockets.talk(Site().answer, connection))
    assert (
        answered("north", path, ({**ASKED[0], MASKED: 9}, {}), masked=masked)[0].get(MASKED)
        == expected
    )


def test_a_site_that_is_not_there_is_an_answer_too(tmp_path):
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale,
        sockets.named(tmp_path / "left.sock") as name,
    ):
        stale.bind(name)
    for name in ("left", "absent"):
        scalars, _ = answered("north", tmp_path / f"{name}.sock", ASKED)
        assert scalars["error"] == f"no process of fedcli listens at {tmp_path}/{name}.sock"
