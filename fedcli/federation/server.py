"""One round, as a function from state to state: the only round loops, of clients together and of clients alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FedcliError
from ..methods.contract import Local, Tensors
from ..methods.mixins import SubsetTraining
from ..methods.registry import Method
from ..methods.row_table import ROW, RowTable
from ..models.layout import Layout
from ..seeds import derive
from . import checks
from .client import Task, Training
from .client_state import ClientState, size
from .collected import Arrived, Collected, all_finite, check_finite
from .engines import Engine, InProcess
from .state import RunState


@dataclass(frozen=True)
class Played:
    """The result of a round: the next state, and what its line in rounds.jsonl says."""

    state: RunState
    clients: list[str]
    weights: Tensor  # [K]; NaN where nothing is averaged
    losses: Tensor  # [K] mean training loss of each client
    columns: dict[str, Tensor]  # what clients reported
    bytes_down: int = (
        0  # to each client: the model and what is broadcast with it; mean over clients
    )
    bytes_up: int = 0  # from each client: its model and its columns; mean over clients
    absent: dict[str, str] = field(
        default_factory=dict
    )  # client of the cohort that did not answer -> why
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
        """Play the next round. The old state stays whole, so a round that fails can be played again.

        roster: names of the clients, all by default. engine: what runs their tasks, this process by default.
        arrived: called for every client that answers.
        Raises FedcliError for an update that is not finite, and where the method breaks its contract.
        """
        roster, engine, t, method = (
            roster or self.roster,
            engine or self.clients,
            state.round + 1,
            self.method,
        )
        if self.single_site:
            return _play_single_sites(self, state, roster, engine, arrived)
        shared, server = dict(state.shared), dict(state.server)
        tasks = self.tasks(state, roster, {**shared, **checks.broadcast(method, server)})
        collected = Collected(method, state.theta, t, len(tasks), arrived)
        if isinstance(method.aggregator, SubsetTraining) and self._trains_subset:
            _train_subset(engine, tasks, method.aggregator, collected)
        else:
            for answer in engine(tasks):
                collected.add(collected.present(answer))
        collected.check_absent(self.min_clients)
        lr = self.training.at(t, self.rounds).lr
        updates = collected.updates(self.rounds, self.seed, lr, len(roster), self.layout)
        theta, weights = checks.aggregate(method, state.theta, updates, server)
        theta = checks.post_aggregate(method, theta, updates, weights, shared)
        theta = _outside(updates.theta, {"": theta})[""]
        shared, server = _outside(updates.theta, shared), _outside(updates.theta, server)
        if not all_finite(theta[None])[0]:
            what = f"the global model is not finite after round {t}"
            raise FedcliError(what, "lower --lr, or a strength of the method with --set")
        reports = collected.reports
        clients = _memories(state, roster, {r.client: r.memory for r in reports if r.memory})
        up = sum(r.steps > 0 for r in reports) * state.theta.nbytes + size(updates.columns)
        down = sum(task.theta.nbytes + size(task.shared) for task in tasks)
        return Played(
            RunState(t, theta, shared, server, clients),
            [r.client for r in reports],
            weights,
            torch.stack([r.loss for r in reports]),
            updates.columns,
            bytes_down=round(down / len(tasks)),
            bytes_up=round(up / len(reports)),
            absent=collected.absent,
            client_seconds=collected.seconds,
        )

    @property
    def _trains_subset(self) -> bool:
        """Tell whether clients that the rule will not keep need not train: one that trains may not be absent either."""
        training, rule, local = self.training, self.method.aggregator, type(self.method.local)
        # what a client keeps beside the model needs its training
        keeps_more = (
            training.personal
            or training.keep_optimizer
            or training.bn == "local"
            or self.layout.own_shapes
        )
        reports_training = (local.on_round_end, local.post_aggregate) != (
            Local.on_round_end,
            Local.post_aggregate,
        )
        asks = isinstance(rule, SubsetTraining) and rule.trains_subset
        return asks and not (keeps_more or reports_training or self.min_clients)

    def tasks(self, state: RunState, roster: list[str], shared: Tensors) -> list[Task]:
        """The task of each client of the next round."""
        t = state.round + 1
        return [
            Task(
                roster[row],
                row,
                t,
                self.rounds,
                self.seed,
                state.theta,
                shared,
                state.clients.get(roster[row], {}),
            )
            for row in cohort(len(roster), self.participation, seed=self.seed, round=t)
        ]


def _train_subset(
    engine: Engine, tasks: list[Task], rule: SubsetTraining, collected: Collected
) -> None:
    """Collect the measures of every client, and the models of those that the rule then selects to train."""
    method, answers = collected.method, engine([replace(task, part="measure") for task in tasks])
    measured = [report for answer in answers if (report := collected.present(answer))]
    collected.check_absent(0)
    for report in measured[1:]:
        checks.columns(
            method, (measured[0].client, measured[0].columns), (report.client, report.columns)
        )
    columns = {
        name: torch.stack([report.columns[name] for report in measured])
        for name in measured[0].columns
    }
    selected = rule.select_clients(
        columns, torch.tensor([task.row for task in tasks], device=tasks[0].theta.device)
    )
    checks.selection(method, selected, len(tasks))
    chosen = selected.tolist()
    trained = iter(
        engine(
            [
                replace(task, part="train")
                for task, trains in zip(tasks, chosen, strict=True)
                if trains
            ]
        )
    )
    for report, trains in zip(measured, chosen, strict=True):
        if trains:
            model = collected.present(next(trained))
            collected.check_absent(0)
            assert model  # else it is absent
            theta = (
                model.theta if model.table is None else model.theta.clone()
            )  # its place is not that of the measured
            report = replace(
                model, theta=theta, table=None, columns={**report.columns, **model.columns}
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

    That model is kept in its memory as "model", which its method does not see; state.theta stays the common start.
    """
    tasks = []
    for task in federation.tasks(state, roster, {}):
        memory = dict(task.memory)
        theta = memory.pop("model", state.theta)  # [P]
        tasks.append(replace(task, theta=theta, memory=memory, part="alone"))
    collected = Collected(federation.method, state.theta, state.round + 1, len(tasks), arrived)
    memories: dict[str, Tensors] = {}
    losses = []
    for report in filter(None, map(collected.present, engine(tasks))):
        check_finite([report.client], report.theta[None])
        own_model = report.theta if report.table is None else report.theta.clone()
        memories[report.client] = {**report.memory, "model": own_model}
        losses.append(report.loss)
    weights = torch.full((len(tasks),), torch.nan, dtype=torch.float64)  # [K]
    after = replace(state, round=state.round + 1, clients=_memories(state, roster, memories))
    return Played(
        after, list(memories), weights, torch.stack(losses), {}, client_seconds=collected.seconds
    )


def cohort(roster: int, participation: float, *, seed: int, round: int) -> list[int]:
    """Rows of the clients that take part in a round, rising: a share of the roster, at least one."""
    count = cohort_size(roster, participation)
    if count >= roster:
        return list(range(roster))
    drawn = np.random.default_rng(derive("cohort", seed, round)).choice(
        roster, count, replace=False
    )
    return sorted(drawn.tolist())


def cohort_size(roster: int, participation: float) -> int:
    """The number of clients that take part in a round."""
    return min(roster, max(1, int(participation * roster + 0.5 + 1e-9)))


def _memories(
    state: RunState, roster: list[str], made: Mapping[str, ClientState]
) -> dict[str, ClientState]:
    """Memory that every client keeps after a round, in roster order, which a resume has too."""
    kept = {**state.clients, **made}
    return {client: kept[client] for client in roster if client in kept}


def _outside(table: Tensor, tensors: Tensors) -> Tensors:
    """These tensors, but copies of those that are parts of the table [K, P], which an engine may use again."""
    whole = table.untyped_storage().data_ptr()

    def inside(value: Any) -> bool:
        return isinstance(value, Tensor) and value.untyped_storage().data_ptr() == whole

    def outside(value: Any) -> Any:
        if not isinstance(value, RowTable):
            return value.clone() if inside(value) else value
        in_memory = {row: kept[ROW] for row, kept in value.rows.items() if isinstance(kept, dict)}
        return value.replaced(
            {row: kept.clone() for row, kept in in_memory.items() if inside(kept)}
        )

    return {name: outside(value) for name, value in tensors.items()}
