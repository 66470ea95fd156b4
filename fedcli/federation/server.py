"""One round as a function from state to state, of clients together and of clients alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FedcliError
from ..methods.contract import Local, Tensors
from ..methods.mixins import SubsetTraining
from ..methods.priors import COUNTS_OF_ALL, OF_ALL
from ..methods.registry import Method
from ..methods.row_table import ROW, RowTable
from ..models.layout import Layout
from ..seeds import derive
from . import checks
from .client import ClientTask, Training
from .client_state import ClientState, size
from .collected import Arrived, Collected, all_finite, check_finite
from .collusion import collude
from .engines import Engine, InProcess
from .state import RunState


@dataclass(frozen=True)
class Played:
    """The result of a round: the next state, and the content of its line in rounds.jsonl."""

    state: RunState
    clients: list[str]
    weights: Tensor  # [K]; NaN where nothing is averaged
    losses: Tensor  # [K] mean training loss of each client
    columns: dict[str, Tensor]  # what clients reported
    # to each client: the model and what is broadcast with it; mean over clients
    bytes_down: int = 0
    bytes_up: int = 0  # from each client: its model and its columns; mean over clients
    # client of the cohort that did not answer -> why
    absent: dict[str, str] = field(default_factory=dict)
    client_seconds: float = 0.0  # spent waiting for clients


@dataclass(frozen=True)
class Federation:
    """Clients with their data, a method and the numbers that stay the same from round to round."""

    clients: InProcess  # all clients in this process; another engine may be given for a round
    rounds: int  # T, of the whole training
    seed: int = 0
    participation: float = 1.0  # share of the roster that takes part in a round, in (0, 1]
    single_site: bool = False  # every client trains by itself and nothing is sent
    min_clients: int = 0  # of a round that must answer; 0: all of them

    @property
    def method(self) -> Method:
        return self.clients.method

    @property
    def layout(self) -> Layout:
        return self.clients.layout

    @property
    def training(self) -> Training:
        return self.clients.training

    @property
    def roster(self) -> list[str]:
        return list(self.clients.shards)

    @property
    def cohort_size(self) -> int:
        """K, the clients of a round."""
        return cohort_size(len(self.clients.shards), self.participation)

    def first(self) -> RunState:
        """The state before the first round, of a network that has not played one."""
        return RunState(0, self.layout.read())

    def play(
        self,
        state: RunState,
        roster: list[str] | None = None,
        engine: Engine | None = None,
        arrived: Arrived | None = None,
    ) -> Played:
        """Play the next round.

        The old state stays whole, so a round that fails can be played again.

        roster: names of the clients, all by default.
        engine: runs their tasks, this process by default.
        arrived: called for every client that answers.
        Raises FedcliError for an update that is not finite, and where the method breaks its
        contract.
        """
        roster = roster or self.roster
        engine = engine or self.clients
        if self.single_site:
            return _play_single_sites(self, state, roster, engine, arrived)
        method = self.method
        t = state.round + 1
        shared = dict(state.shared)
        server = dict(state.server)
        broadcast = checks.broadcast(method, server)
        tasks = self.tasks(state, roster, {**shared, **broadcast})
        collected = Collected(method, state.theta, t, len(tasks), arrived)
        if isinstance(method.aggregator, SubsetTraining) and self._trains_subset:
            _train_subset(engine, tasks, method.aggregator, collected)
        else:
            for answer in engine(tasks):
                collected.add(collected.present(answer))
        collected.check_absent(self.min_clients)
        lr = self.training.at(t, self.rounds).lr
        updates = collected.updates(
            self.rounds,
            self.seed,
            lr,
            len(roster),
            self.layout,
        )
        collude(state.theta, updates, collected.reports, self.clients.shards)
        if collected.reports[0].is_global:
            theta = updates.theta[0]
            weights = torch.full_like(updates.base, torch.nan)  # [K] nobody but the clients knows
        else:
            theta, weights = checks.aggregate(method, state.theta, updates, server)
        theta = checks.post_aggregate(method, theta, updates, weights, shared)
        theta = _outside(updates.theta, {"": theta})[""]
        shared = _outside(updates.theta, shared)
        server = _outside(updates.theta, server)
        if not all_finite(theta[None])[0]:
            raise FedcliError(
                f"the global model is not finite after round {t}",
                "lower --lr, or a strength of the method with --set",
            )
        reports = collected.reports
        memories = {report.client: report.memory for report in reports if report.memory}
        clients = _memories(state, roster, memories)
        trained = sum(report.steps > 0 for report in reports)
        bytes_up = trained * state.theta.nbytes + size(updates.columns)
        bytes_down = sum(task.theta.nbytes + size(task.shared) for task in tasks)
        return Played(
            RunState(t, theta, shared, server, clients),
            [report.client for report in reports],
            weights,
            torch.stack([report.loss for report in reports]),
            updates.columns,
            bytes_down=round(bytes_down / len(tasks)),
            bytes_up=round(bytes_up / len(reports)),
            absent=collected.absent,
            client_seconds=collected.seconds,
        )

    @cached_property
    def _class_counts(self) -> Tensors:
        """Training images of each class [C] of all clients, where the prior needs them."""
        if self.training.prior != OF_ALL:
            return {}
        counts = [shard.class_counts for shard in self.clients.shards.values()]
        return {COUNTS_OF_ALL: torch.stack(counts).sum(0)}

    @property
    def _trains_subset(self) -> bool:
        """Tell whether clients that the rule will not keep need not train.

        A client that trains may then not be absent either.
        """
        rule = self.method.aggregator
        if not isinstance(rule, SubsetTraining) or not rule.trains_subset or self.min_clients:
            return False
        # what a client keeps beside the model needs its training
        training = self.training
        if training.personal or training.keep_optimizer or training.bn == "local":
            return False
        local = type(self.method.local)
        ends_round = local.on_round_end != Local.on_round_end
        steps_at_server = local.post_aggregate != Local.post_aggregate
        return not (self.layout.own_shapes or ends_round or steps_at_server)

    def tasks(
        self,
        state: RunState,
        roster: list[str],
        shared: Tensors,
    ) -> list[ClientTask]:
        """The task of each client of the next round."""
        t = state.round + 1
        shared = {**shared, **self._class_counts}
        tasks = []
        for row in cohort(len(roster), self.participation, seed=self.seed, round=t):
            client = roster[row]
            memory = state.clients.get(client, {})
            tasks.append(
                ClientTask(client, row, t, self.rounds, self.seed, state.theta, shared, memory)
            )
        return tasks


def _train_subset(
    engine: Engine,
    tasks: list[ClientTask],
    rule: SubsetTraining,
    collected: Collected,
) -> None:
    """Collect the measures of every client, and the models of those that the rule selects."""
    method = collected.method
    measured = []
    for answer in engine([replace(task, part="measure") for task in tasks]):
        report = collected.present(answer)
        if report:
            measured.append(report)
    collected.check_absent(0)
    reference = measured[0]
    for report in measured[1:]:
        expected = (reference.client, reference.columns)
        checks.columns(method, expected, (report.client, report.columns))
    columns = {}
    for name in reference.columns:
        columns[name] = torch.stack([report.columns[name] for report in measured])
    rows = torch.tensor([task.row for task in tasks], device=tasks[0].theta.device)
    selected = rule.select_clients(columns, rows)
    checks.selection(method, selected, len(tasks))
    is_selected = selected.tolist()
    to_train = [task for task, trains in zip(tasks, is_selected, strict=True) if trains]
    answers = iter(engine([replace(task, part="train") for task in to_train]))
    for report, trains in zip(measured, is_selected, strict=True):
        if trains:
            trained = collected.present(next(answers))
            collected.check_absent(0)
            assert trained  # else it is absent
            theta = trained.theta
            if trained.table is not None:
                theta = theta.clone()  # its row is not that of the measured
            columns_of_both = {**report.columns, **trained.columns}
            report = replace(
                trained,
                theta=theta,
                table=None,
                columns=columns_of_both,
            )
        collected.add(report)


def _play_single_sites(
    federation: Federation,
    state: RunState,
    roster: list[str],
    engine: Engine,
    arrived: Arrived | None,
) -> Played:
    """A round of clients that train alone; nothing is sent, each continues from its own last model.

    That model is kept in its memory as "model", which its method does not see; state.theta stays
    the common start.
    """
    tasks = []
    for task in federation.tasks(state, roster, {}):
        memory = dict(task.memory)
        theta = memory.pop("model", state.theta)  # [P]
        tasks.append(replace(task, theta=theta, memory=memory, part="alone"))
    t = state.round + 1
    collected = Collected(
        federation.method,
        state.theta,
        t,
        len(tasks),
        arrived,
    )
    memories: dict[str, Tensors] = {}
    losses = []
    for answer in engine(tasks):
        report = collected.present(answer)
        if report is None:
            continue
        check_finite([report.client], report.theta[None])
        theta = report.theta if report.table is None else report.theta.clone()
        memories[report.client] = {**report.memory, "model": theta}
        losses.append(report.loss)
    return Played(
        replace(state, round=t, clients=_memories(state, roster, memories)),
        list(memories),
        torch.full((len(tasks),), torch.nan, dtype=torch.float64),  # [K]
        torch.stack(losses),
        {},
        client_seconds=collected.seconds,
    )


def cohort(
    roster: int,
    participation: float,
    *,
    seed: int,
    round: int,
) -> list[int]:
    """Rows, rising, of the clients of a round: a share of the roster, at least one."""
    count = cohort_size(roster, participation)
    if count >= roster:
        return list(range(roster))
    generator = np.random.default_rng(derive("cohort", seed, round))
    rows = generator.choice(roster, count, replace=False)
    return sorted(rows.tolist())


def cohort_size(roster: int, participation: float) -> int:
    """The number of clients that take part in a round."""
    count = int(participation * roster + 0.5 + 1e-9)
    return min(roster, max(1, count))


def _memories(
    state: RunState, roster: list[str], of_round: Mapping[str, ClientState]
) -> dict[str, ClientState]:
    """The clients' memories with this round's in place of the old ones.

    They are in the order of the roster, so that a resumed run has the same order.
    """
    memories = {**state.clients, **of_round}
    return {client: memories[client] for client in roster if client in memories}


def _outside(table: Tensor, tensors: Tensors) -> Tensors:
    """These tensors, with copies of parts of the table [K, P], which an engine may use again."""
    storage = table.untyped_storage().data_ptr()
    return {name: _copied_from(storage, value) for name, value in tensors.items()}


def _copied_from(storage: int, value: Any) -> Any:
    """The value, with copies of the tensors that lie in a storage."""
    if not isinstance(value, RowTable):
        return value.clone() if _is_in(storage, value) else value
    copies = {}
    for row, values in value.rows.items():
        if isinstance(values, dict) and _is_in(storage, values[ROW]):
            copies[row] = values[ROW].clone()
    return value.replaced(copies)


def _is_in(storage: int, value: Any) -> bool:
    return isinstance(value, Tensor) and value.untyped_storage().data_ptr() == storage
