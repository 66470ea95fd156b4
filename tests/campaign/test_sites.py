"""Data that sites and coordinators exchange: messages, policies, descriptions. Played without new processes."""

import json
import re
import shutil
import signal
import socket
import threading
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from site_federation import chain_with_tests, plan, sites_of, train_at

from fedcli.data import manifest
from fedcli.errors import FedcliError
from fedcli.sites import description, policy, roster
from fedcli.sites.site import Site
from fedcli.sites.transport import sockets

from .formats import MUTATIONS
from .judge import LONGEST
from .messages import as_bytes, changed, of_bytes
from .mutations import damage, mutate

SECONDS = 20
POLICY = """
methods = ["fedavg", "scaffold"]
columns = ["control_change"]
minimum_images = 5
smallest_cell = 3
maximum_rounds = 100
gradients = false
scores = true
[privacy]
clip = 1.0
noise = 20.0
epsilon = 8.0
delta = 1e-5
"""


class Hangs(BaseException):
    """A call that takes too long."""


def tried(call: Callable[[], object]) -> list[str]:
    """Faults of the end of a call: it may return, or raise a FedcliError whose sentence can be shown."""

    def late(*_):
        raise Hangs

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        call()
    except FedcliError as error:
        return judged(error.sentence)
    except Hangs:
        return ["hangs"]
    except Exception as error:
        return [f"raises {type(error).__name__}: {error}"]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return []


def judged(sentence: object) -> list[str]:
    if not isinstance(sentence, str):
        return [f"a sentence that is {sentence!r}"]
    out = [f"a sentence of {len(sentence)} characters"] if len(sentence) > LONGEST else []
    return out + (
        ["says unexpected"] if re.search(r"unexpected \w*(Error|Exception)", sentence) else []
    )


@pytest.fixture(scope="module")
def federation(tmp_path_factory) -> tuple[Path, Path]:
    """(a folder, a partition in it whose clients have test images)."""
    folder = tmp_path_factory.mktemp("sites")
    return folder, chain_with_tests(folder)


@pytest.fixture(scope="module")
def questions(federation) -> dict[str, bytes]:
    """A question of each kind to the site north, as bytes."""
    folder, data = federation
    messages: dict[str, bytes] = {"describe": as_bytes(({"ask": "describe"}, {}))}
    sites = sites_of(data, folder / "asked")
    north = sites["north"].answer

    def heard(scalars, arrays):
        messages[scalars["ask"]] = as_bytes((scalars, arrays))
        return north(scalars, arrays)

    sites["north"].answer = heard
    train_at(sites, data, plan("scaffold", 1), folder / "heard")
    scalars, arrays = of_bytes(messages["train"])
    question = {"ask": "score", "run": scalars["run"], "round": 1, "client": "north"}
    messages["score"] = as_bytes((question, {"theta": arrays["theta"]}))
    return messages


@pytest.mark.parametrize("kind", ["describe", "begin", "train", "score"])
def test_a_site_answers_any_bytes_and_goes_on(kind, questions, federation, play, tmp_path):
    """They come in pieces, or stop in the middle."""
    _folder, data = federation
    site = Site(data, tmp_path / "site", client="north")
    for draw in play.cases():
        for before in ("begin", "train")[: ("describe", "begin", "train", "score").index(kind) - 1]:
            site.answer(*of_bytes(questions[before]))
        sent, note = changed(questions[kind], draw, tmp_path)
        wrong = tried(lambda sent=sent, draw=draw: _talked(site, sent, draw))
        usual = site.answer(*of_bytes(questions["describe"]))[0]
        if "description" not in usual:
            wrong.append(f"does not go on: {usual}")
        play.note(wrong, f"{kind}: {note}")


def _talked(site: Site, sent: bytes, draw: np.random.Generator) -> None:
    """One connection. Raises where an answer is none."""
    ours, theirs = socket.socketpair()
    answers: list[bytes] = []
    pieces = (
        [sent]
        if draw.random() < 0.5
        else [sent[start : start + 4096] for start in range(0, len(sent), 4096)]
    )

    def peer() -> None:
        with suppress(OSError):
            for piece in pieces:
                ours.sendall(piece)
        with suppress(OSError):
            ours.shutdown(socket.SHUT_WR)
        with suppress(OSError):
            while received := ours.recv(2**20):
                answers.append(received)

    other = threading.Thread(target=peer, daemon=True)
    other.start()
    try:
        with theirs:
            sockets.talk(site.answer, theirs)
    finally:
        other.join(SECONDS)
        ours.close()
    stream = b"".join(answers)
    while stream:
        scalars, arrays = of_bytes(stream)
        stream = stream[len(as_bytes((scalars, arrays))) :]
        if "error" in scalars and (wrong := judged(scalars["error"])):
            raise ValueError(f"answers with {wrong}: {scalars['error']}")


@pytest.mark.parametrize("absent", [False, True])
def test_a_coordinator_goes_on_or_ends_in_a_sentence_after_any_answer(
    absent, federation, play, tmp_path
):
    _folder, data = federation
    sites = sites_of(data, tmp_path / "sites")
    for draw in play.cases():
        moment = int(draw.integers(6))
        notes = []

        def change(client, question, answer, draw=draw, moment=moment, notes=notes):
            if client != "south" or (question.get("round") or 0) != moment // 2:
                return answer
            data, note = changed(as_bytes(answer), draw, tmp_path)
            notes.append(f"{question['ask']}: {note}")
            try:
                return of_bytes(data)
            except sockets.Closed:
                return "its process ended or closed the connection"
            except FedcliError as error:
                return error.sentence

        ended: list[str] = []
        shutil.rmtree(tmp_path / "w", ignore_errors=True)

        def train(change=change, ended=ended):
            try:
                train_at(
                    sites,
                    data,
                    plan("scaffold", 2),
                    tmp_path / "w",
                    min_clients=2 * absent,
                    change=change,
                )
            except FedcliError as error:
                ended.append(f"{error.sentence} {error.hint}")
                raise

        wrong = tried(train)
        if ended and "south" not in ended[0]:
            wrong.append(f"does not name the site that lies: {ended[0]}")
        if (
            ended and absent and not notes[0].startswith("train: theta with")
        ):  # a model within its bounds may bend it
            wrong.append(f"ends, where other sites are enough: {ended[0]}")
        play.note(wrong, "; ".join(notes) or "nothing changed")


@pytest.mark.parametrize("kind", ["counts"])
def test_a_coordinator_refuses_counts_that_cannot_be(kind, federation, questions, play, tmp_path):
    from fedcli.sites.engine import Sites

    _folder, data = federation
    site = Site(data, tmp_path / "site", client="north")
    site.answer(*of_bytes(questions["begin"]))
    whole = site.answer(*of_bytes(questions["score"]))
    assert "error" not in whole[0], whole
    sites = Sites.__new__(Sites)
    body = manifest.read(data).body
    sites.federation = type("Federation", (), {"data": type("Data", (), {"body": body})})
    sites.run = whole[0]["run"]
    sites.timeout = None
    sites.descriptions = {"north": site.description}
    theta = _theta(questions)
    for draw in play.cases():
        sent, note = changed(as_bytes(whole), draw, tmp_path)

        def transport(messages, timeout, sent=sent):
            with suppress(sockets.Closed):
                yield "north", of_bytes(sent)

        sites.transport = transport
        tallies: list = []
        wrong = tried(
            lambda tallies=tallies: tallies.extend(sites.tallies(1, theta, ["north"]).values())
        )
        if tallies and tallies[0].versions["clean"]["all"].images + tallies[0].left_out != 10:
            wrong.append("scores counts that are not of its ten images")
        play.note(wrong, note)


def _theta(questions):
    import torch

    return torch.from_numpy(of_bytes(questions["score"])[1]["theta"])


@pytest.mark.parametrize("part", range(4))
def test_a_changed_policy_is_refused_or_kept(part, federation, questions, play, tmp_path):
    _folder, data = federation
    path = tmp_path / "policy.toml"
    sites_tried = 0
    for draw in play.cases():
        path.write_text(POLICY)
        notes = [MUTATIONS[".toml"](path, draw) for _ in range(int(draw.integers(1, 3)))]
        if draw.random() < 0.2:
            notes.append(damage(path, draw))
        policies: list[policy.Policy] = []
        wrong = tried(lambda policies=policies: policies.append(policy.read(path)))
        if policies:
            wrong += _kept(path, policies[0])
        if policies and sites_tried < 20:  # a description takes as long as a hundred policies
            sites_tried += 1
            site = Site(data, tmp_path / "site", client="north", policy=policies[0])
            for kind in ("describe", "begin", "train", "score"):
                answer = site.answer(*of_bytes(questions[kind]))[0]
                wrong += judged(answer["error"]) if "error" in answer else []
        play.note(wrong, "; ".join(notes))


def _kept(path: Path, policy_read: policy.Policy) -> list[str]:
    """Numbers of the file that the policy does not hold as written."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    written = {**table, **table.pop("privacy", {})}
    values = {**vars(policy_read), **(vars(policy_read.privacy) if policy_read.privacy else {})}
    return [
        f"{name} is {values[name]!r}, and {value!r} in the file"
        for name, value in written.items()
        if not isinstance(value, list | dict) and isinstance(values.get(name), int | float)
        if values[name] != value and values[name] != float(value)
    ]


@pytest.mark.parametrize("part", range(4))
def test_a_changed_description_of_a_site_is_refused_or_kept(part, federation, play, tmp_path):
    _folder, data = federation
    whole = tmp_path / "whole"
    whole.mkdir()
    for client in ("north", "south"):
        described = description.describe(data, client, client, smallest=2)
        (whole / f"{client}.json").write_text(json.dumps(described))
    for draw in play.cases():
        shutil.rmtree(tmp_path / "given", ignore_errors=True)
        shutil.rmtree(tmp_path / "work", ignore_errors=True)
        shutil.copytree(whole, tmp_path / "given")
        path = tmp_path / "given" / str(draw.choice(["north.json", "south.json"]))
        note = mutate(path, draw)
        wrong = tried(lambda: roster.gathered([tmp_path / "given"], tmp_path / "work"))
        if leftovers := [
            p for p in (tmp_path / "work").rglob("*") if p.name.endswith((".tmp", ".lock"))
        ]:
            wrong.append(f"leaves {leftovers[0].name}")
        play.note(wrong, f"{path.name}: {note}")
