"""Checks of every method on the toy federation.

`fedcli check` and tests/methods/test_every_method.py run them.

A check is a function of a Subject that raises CheckFailed, with a sentence on what does not hold.
"""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from .. import extensions, options
from ..data.shard import Shard
from ..errors import FedcliError, UsageError
from ..federation import state as states
from ..federation.client import ClientReport, ClientTask, Training
from ..federation.engines import open_engine
from ..federation.engines.in_process import Engine
from ..federation.server import Federation, Played
from ..federation.state import RunState
from ..methods import Method, resolve
from ..methods.mixins import scored_model
from ..runs import rules
from ..runs.train_options import TrainOptions
from .measuring import threads
from .toy import ROSTER, toy_federation, toy_shard

ROUNDS = 3
FEDAVG = "fedavg"  # with whose model that of every other method is compared


class CheckFailed(Exception):
    """A method does not hold what is checked; its text says why."""


@dataclass(frozen=True)
class Subject:
    """A method under check. settings: options in place of its defaults."""

    spec: str
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def method(self) -> Method:
        return resolve(self.spec, self.settings)

    @cached_property
    def shards(self) -> dict[str, Shard]:
        """Few images for each toy client, of two or three steps.

        If all had equally many, FedNova would be FedAvg. The first has no image of the last class:
        if clients had all classes, FedRS would be FedAvg.
        """
        shards = {}
        for k, client in enumerate(ROSTER):
            absent = 2 if k == 0 else None
            shards[client] = toy_shard(client, 9 + 4 * k, absent=absent)
        return shards

    @cached_property
    def rounds(self) -> list[Played]:
        """The result of each round of a training."""
        played: list[Played] = []
        self.train(observe=played.append)
        return played

    def federation(self, **changed: Any) -> Federation:
        options = {"rounds": ROUNDS, "shards": self.shards, **changed}
        return toy_federation(self.method, **options)

    def train(
        self,
        *,
        state: RunState | None = None,
        until: int | None = None,
        engine: Engine | None = None,
        observe: Callable[[Played], Any] | None = None,
        **changed: Any,
    ) -> RunState:
        """The state after some rounds.

        observe: is given every round's result. changed: options of toy_federation().
        """
        federation = self.federation(**changed)
        engine = engine or federation.clients
        last = until or federation.rounds
        state = state or federation.first()
        while state.round < last:
            played = federation.play(state, ROSTER, engine)
            state = played.state
            if observe:
                observe(played)
        return state


def keeps_the_contract(subject: Subject) -> None:
    """Three rounds can be played: hooks return and keep what the contract says."""
    _refuse_unless(len(subject.rounds) == ROUNDS, "not every round was trained")


def is_finite(subject: Subject) -> None:
    """The model is finite after all rounds."""
    state = subject.rounds[-1].state
    models = [state.theta, *_models(subject.method, state)]
    finite = all(bool(theta.isfinite().all()) for theta in models)
    _refuse_unless(finite, "the model holds NaN or infinity after three rounds")


def differs_from_fedavg(subject: Subject) -> None:
    """It comes to another model than FedAvg."""
    if subject.spec == FEDAVG:
        return
    theta = _models(subject.method, subject.rounds[-1].state)[0]
    plain = _fedavg().theta
    if theta.shape == plain.shape:
        same = bool(torch.equal(theta, plain))
        _refuse_unless(not same, "its model is FedAvg's to the last bit")


def _models(method: Method, state: RunState) -> list[torch.Tensor]:
    """The clients' models, which Ditto changes, then the scored one, which CReFF changes."""
    models = [memory["model"] for memory in state.clients.values() if "model" in memory]
    models.append(scored_model(method.aggregator, state.theta, state.server))
    return models


@cache
def _fedavg() -> RunState:
    return Subject(FEDAVG).rounds[-1].state


def resumes(subject: Subject) -> None:
    """Resumed from disk it ends at the same bits."""
    before = subject.rounds[1].state
    end = subject.rounds[2].state
    with tempfile.TemporaryDirectory() as folder:
        states.save(Path(folder), before, ROSTER)
        restored = states.restore(states.saved(Path(folder))[-1], ROSTER, "cpu")
    state = subject.train(state=restored)
    _compare(
        state,
        end,
        "keep all that changes in memory and shared, nothing in the method",
    )


def replays(subject: Subject) -> None:
    """A round can be played again from the state before it."""
    before = subject.rounds[0].state
    after = subject.rounds[1].state
    state = subject.train(state=before, until=2)
    _compare(
        state,
        after,
        "replace tensors of memory and shared, never write into them",
    )


def takes_clients_in_any_order(subject: Subject) -> None:
    """Clients that run backwards come to the same bits."""
    federation = subject.federation()

    def backwards(tasks: list[ClientTask]) -> list[ClientReport]:
        reports = [federation.clients.run_one(task) for task in reversed(tasks)]
        return list(reversed(reports))

    state = federation.first()
    while state.round < 2:
        state = federation.play(state, ROSTER, backwards).state
    _compare(
        state,
        subject.rounds[1].state,
        "a client's work must depend on its task alone",
    )


def runs_on_processes(subject: Subject) -> None:
    """Two processes come to the same bits (--engine pool:2)."""
    federation = subject.federation()
    with open_engine("pool:2", federation.clients, len(ROSTER)) as engine:
        state = federation.play(federation.first(), ROSTER, engine).state
    _compare(
        state,
        subject.rounds[0].state,
        "a client's work must depend on its task alone",
    )


def survives_one_image(subject: Subject) -> None:
    """A client of one image and a class that nobody has."""
    count = 12 if not subject.method.local.freezes else 9
    shards = {client: toy_shard(client, count, absent=2) for client in ROSTER}
    shards["east"] = toy_shard("east", 1, absent=2)
    _refuse_unless_finite(subject.train(shards=shards, until=2))


def handles_partial_participation(subject: Subject) -> None:
    """Half of the clients in a round: it works, or is refused by name."""
    model = "clip-tiny" if subject.method.local.freezes else "cnn"
    plan = TrainOptions(
        subject.spec,
        set=subject.settings,
        rounds=2,
        participation=0.5,
        model=model,
    )
    if not subject.method.aggregator.full_participation:
        rules.check(plan)
        _refuse_unless_finite(subject.train(rounds=4, participation=0.5))
        return
    try:
        rules.check(plan)
    except UsageError as error:
        _refuse_unless("needs every client" in error.sentence, error.sentence)
        return
    raise CheckFailed("it needs every client, and is trained with half of them")


def trains_as_asked(subject: Subject) -> None:
    """Adam, several epochs, weight decay and batch norm of each client's own"""
    training = Training(
        optimizer="adam",
        lr=0.01,
        weight_decay=5e-4,
        epochs=2,
        batch_size=16,
        bn="local",
    )
    _refuse_unless_finite(subject.train(training=training, until=2))


def reports_the_same_columns(subject: Subject) -> None:
    """Reports of clients have the same names and shapes in every round."""
    expected = _shapes(subject.rounds[0])
    for played in subject.rounds[1:]:
        shapes = _shapes(played)
        _refuse_unless(shapes == expected, f"round 1 had {expected}, a later one {shapes}")


def _shapes(played: Played) -> str:
    shapes = [f"{name} {list(column.shape)}" for name, column in played.columns.items()]
    return ", ".join(shapes) or "none"


def explains_its_options(subject: Subject) -> None:
    """Every option says what it means and refuses what is no value."""
    for half in (subject.method.local, subject.method.aggregator):
        for option in options.describe(half).values():
            hint = "annotate it with Annotated[type, 'meaning, range']"
            _refuse_unless(bool(option.meaning), f"{option.name} says nothing: {hint}")
            with suppress(UsageError):
                options.change(half, option.name, "no such value")
                if option.type != "str":
                    raise CheckFailed(f"{option.name}='no such value' is taken")


def is_rebuilt_from_its_record(subject: Subject) -> None:
    """Name and recorded settings build the same method again."""
    rebuilt = resolve(subject.spec, subject.method.settings)
    why = "an option's value is another after it was recorded and read"
    _refuse_unless(rebuilt == subject.method, why)


CHECKS: tuple[Callable[[Subject], None], ...] = (
    keeps_the_contract,
    is_finite,
    differs_from_fedavg,
    resumes,
    replays,
    takes_clients_in_any_order,
    runs_on_processes,
    survives_one_image,
    handles_partial_participation,
    trains_as_asked,
    reports_the_same_columns,
    explains_its_options,
    is_rebuilt_from_its_record,
)


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check; why: "" where it holds, None where it was not tried."""

    check: str
    about: str
    why: str | None


def verdicts(subject: Subject) -> list[Verdict]:
    """Every check, in order. Where no three rounds can be played, the others are not tried."""
    results: list[Verdict] = []
    for check in CHECKS:
        why = None
        if not results or results[0].why == "":
            why = outcome(check, subject)
        words = (check.__doc__ or "").rstrip(".")
        results.append(Verdict(check.__name__, words, why))
    return results


def outcome(check: Callable[[Subject], None], subject: Subject) -> str:
    """The reason why a method does not hold a check; "" where it does.

    Raises what is no fault of the method.
    """
    try:
        with threads(1):  # processes side by side have one each, and bits are compared
            check(subject)
    except CheckFailed as error:
        return str(error)
    except FedcliError as error:
        return error.sentence
    except Exception as error:
        fault = extensions.fault(error)
        if fault is None and not subject.method.code:
            raise
        if fault:
            return fault.sentence
        return f"{type(error).__name__}: {error}"
    return ""


def pairs_of(spec: str) -> list[str]:
    """Pairs of a method with one of fedcli's, as a base and as an add-on where it can be each."""
    pairs: list[str] = []
    if "+" in resolve(spec).name:
        return pairs
    for pair in (f"{spec}+fedheal", f"moon+{spec}"):
        with suppress(UsageError):
            resolve(pair)
            pairs.append(pair)
    return pairs


def _refuse_unless(holds: bool, why: str) -> None:
    if not holds:
        raise CheckFailed(why)


def _refuse_unless_finite(state: RunState) -> None:
    _refuse_unless(bool(state.theta.isfinite().all()), "the model holds NaN or infinity")


def _compare(state: RunState, expected: RunState, hint: str) -> None:
    for part in ("theta", "shared", "server", "clients"):
        if not states.equal(getattr(state, part), getattr(expected, part)):
            raise CheckFailed(f"{part} differs: {hint}")
