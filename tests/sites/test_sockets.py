"""Sites as processes of their own behind sockets: the reference engine."""

import multiprocessing
import os
import signal
import socket
import threading

import pytest
from conftest import ROSTER
from made_plans import train
from site_federation import plan

from fedcli.errors import FedcliError
from fedcli.federation.server import Federation
from fedcli.io.locks import held
from fedcli.sites import sockets
from fedcli.sites.description import SiteError
from fedcli.sites.running import LOCK
from fedcli.sites.site import Site
from fedcli.sites.transport.sockets import Closed, named, receive, talk, tell
from fedcli.sites.transport.sockets import listening as listening_at

FORK = multiprocessing.get_context("fork")


def _site(data, folder, client, path):
    try:
        sockets.serve(Site(data, folder, client=client), path)
    except FedcliError as error:
        raise SystemExit(error.sentence) from None


@pytest.fixture
def start(tmp_path):
    """Starts a client's site in a process and returns it; all are ended with the test."""
    begun = []
    patient = pytest.MonkeyPatch()
    patient.setattr(sockets, "WAIT", 200.0)  # seconds: a busy machine takes long to start processes

    def started(data, client):
        path = tmp_path / "s" / f"{client}.sock"
        arguments = (data, tmp_path / "sites" / client, client, path)
        process = FORK.Process(target=_site, args=arguments, daemon=True)
        process.start()
        begun.append(process)
        return process

    yield started
    patient.undo()
    for process in begun:
        process.kill()
        process.join()


def at(tmp_path, **more):
    return {"engine": f"socket:{tmp_path / 's'}", **more}


def test_killed_sites_and_a_resumed_coordinator_come_to_the_bytes_of_one_process(
    data, tmp_path, start, monkeypatch
):
    usual = train(data, plan("scaffold", 4), work=tmp_path, out=tmp_path / "usual")
    sites = {client: start(data, client) for client in ROSTER}
    play = Federation.play

    def killed(federation, state, *rest, **named):
        if state.round == 2 and sites["south"].is_alive():
            os.kill(sites["south"].pid, signal.SIGKILL)
            sites["south"].join()
        return play(federation, state, *rest, **named)

    monkeypatch.setattr(Federation, "play", killed)
    with pytest.raises(SiteError, match=r"site south: (no site listens|its process ended)"):
        train(data, plan("scaffold", 4), work=tmp_path, out=tmp_path / "run", **at(tmp_path))
    monkeypatch.undo()
    start(data, "south")
    run = train(
        data, plan("scaffold", 4), work=tmp_path, out=tmp_path / "run", **at(tmp_path), resume=True
    )
    for name in ("rounds.jsonl", "run.json", "models/00004.h5"):
        expected = (usual.parent / name).read_bytes()
        assert (run.parent / name).read_bytes() == expected


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def test_waiting_for_sites_is_said_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sockets, "time", clock := Clock())
    caplog.set_level("INFO")
    with sockets.Connections(tmp_path / "s") as connections:
        connections.wait_for(["north"], 2.0)
    assert caplog.text.count("waiting up to 2 s for north to listen at") == 1
    assert clock.now >= 2


def test_sites_that_listen_hear_of_a_coordinator_that_waits_for_others(
    tmp_path, monkeypatch, listening
):
    """Else they end its connection, since it asks nothing, and are named in place of the one that is not there."""
    monkeypatch.setattr(sockets, "time", Clock())
    notices = []
    with sockets.Connections(tmp_path) as connections:
        connections.wait_for(["north", "south"], sockets.WAIT)
        connections.open["north"].shutdown(socket.SHUT_WR)
        with listening.accept()[0] as heard, pytest.raises(Closed):
            receive(heard, 60, lambda why, alive: notices.append((why, alive)))
    assert notices == [("it waits for other sites", True)] * 2


def test_a_site_that_is_not_there_is_named(data, tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "WAIT", 0.0)
    with pytest.raises(SiteError, match=r"site north: no site listens at .*north.sock"):
        train(data, plan(), work=tmp_path, **at(tmp_path))


@pytest.fixture
def listening(tmp_path):
    """A socket at which nobody answers."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        named(tmp_path / "north.sock") as name,
    ):
        listener.bind(name)
        listener.listen()
        yield listener


def test_a_site_that_does_not_answer_in_time_is_given_up(tmp_path, listening):
    with sockets.Connections(tmp_path) as connections:
        answers = dict(connections([("north", ({}, {}))], 0.05))
        assert answers == {"north": "it gave no sign of life for 0.05 s"}
        assert not connections.open


@pytest.mark.parametrize(
    ("of_job", "sentence"),
    [(False, "its process ended"), (True, "the job that carries its messages ended")],
)
def test_the_end_of_a_job_is_not_said_to_be_that_of_a_site(tmp_path, listening, of_job, sentence):
    with sockets.Connections(tmp_path, of_job=of_job) as connections:
        connections.wait_for(["north"], 60)
        listening.accept()[0].close()
        answers = dict(connections([("north", ({}, {}))], 60))
    assert answers == {"north": f"{sentence} or closed the connection"}


def test_while_a_site_is_waited_for_a_sentence_names_it_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "EVERY", 0.01)
    is_said = threading.Event()

    class Slow:
        def answer(self, scalars, arrays):
            tell(theirs, "it serves another coordinator since noon", alive=False)
            assert is_said.wait(60)
            return scalars, arrays

    def heard(text):
        if text.startswith(
            "waiting for north (it serves another coordinator since noon, last sign of life "
        ):
            is_said.set()

    monkeypatch.setattr(sockets.console, "say", heard)
    ours, theirs = socket.socketpair()
    idle, site = socket.socketpair()
    with ours, theirs, idle, site, sockets.Connections(tmp_path) as connections:
        connections.open |= {"north": ours, "south": idle}
        threading.Thread(target=talk, args=(Slow().answer, theirs), daemon=True).start()
        result = dict(connections([("north", ({"a": 1}, {}))], 60))
        assert result == {"north": ({"a": 1}, {})}
        assert is_said.is_set()
        assert b"it waits for other sites" in site.recv(1000)


def test_who_is_waited_for_is_cut_where_there_are_many(tmp_path):
    with sockets.Connections(tmp_path) as connections:
        connections._heard = dict.fromkeys("abcdefgh", 0.0)
        sentence = connections._waiting_for("abcdefgh")
    assert sentence.startswith("waiting for a (no answer yet, last sign of life ")
    assert sentence.endswith(" and 3 more")


@pytest.mark.parametrize(
    ("sent", "sentence"), [(b"", "its process ended"), (b"x" * 99, "no message of fedcli")]
)
def test_a_site_that_breaks_off_or_answers_nonsense_is_said(tmp_path, listening, sent, sentence):
    def answer():
        connection, _ = listening.accept()
        with connection:
            receive(connection, None)
            connection.sendall(sent)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with sockets.Connections(tmp_path) as connections:
        ((_, why),) = connections([("north", ({}, {}))], 60)
    thread.join(60)
    assert sentence in why


def test_a_socket_that_is_left_over_is_replaced_and_one_in_use_is_not(data, tmp_path, start):
    path = tmp_path / "s" / "north.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stale, named(path) as name:
        stale.bind(name)
    start(data, "north")
    with sockets.Connections(path.parent) as connections:
        connections.wait_for(["north"], 60)
        answer = dict(connections([("north", ({"ask": "describe"}, {}))], 60))["north"]
    assert answer[0]["description"]["client"] == "north"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FedcliError, match="another process listens"), listening_at(path):
        pass


def test_two_processes_cannot_be_one_site_since_each_would_count_its_own_epsilon(data, tmp_path):
    with held(tmp_path / "state" / LOCK, "", ""):
        site = Site(data, tmp_path / "state", client=ROSTER[0])
        with pytest.raises(
            FedcliError, match=r"another process is a site that keeps its memory in .*state"
        ):
            sockets.serve(site, tmp_path / "b.sock", over=lambda: True)
        sockets.serve(
            Site(data, tmp_path / "other", client=ROSTER[0]), tmp_path / "b.sock", over=lambda: True
        )
    sockets.serve(site, tmp_path / "b.sock", over=lambda: True)
