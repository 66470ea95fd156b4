"""One round, as a function from state to state: the only round loops, of clients together and of clients alone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FedcliError
from ..methods.contract import ClientUpdates, Local, Tensors
from ..methods.mixins import SubsetTraining
from ..methods.registry import Method
from ..methods.row_table import ROW, RowTable
from ..models.layout import Layout
from ..seeds import derive
from . import checks
from .client import Absent, Report, Task, Training
from .client_state import ClientState
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
    bytes_down: int = 0  # to each client: the model and what is broadcast with it; mean over clients
    bytes_up: int = 0  # from each client: its model and its columns; mean over clients
    absent: dict[str, str] = field(default_factory=dict)  # client of the cohort that did not answer -> why


@dataclass(frozen=True)
class Federation:
    """Clients with their data, a method and the numbers that stay the same from round to round.

    Attributes:
        clients: all clients in this process; another engine may be given for a round.
        rounds: T, of the whole training.
        participation: share of the roster that takes part in a round, in (0, 1].
        single_site: every client trains by itself and nothing is sent.
        min_clients: of a round that must answer; 0: all of them.
    """

    clients: InProcess
    rounds: int
    seed: int = 0
    participation: float = 1.0
    single_site: bool = False
    min_clients: int = 0

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

    def play(self, state: RunState, roster: list[str] | None = None, engine: Engine | None = None) -> Played:
        """Play the next round. The old state stays whole, so a round that fails can be played again.

        roster: names of the clients, all by default. engine: what runs their tasks, this process by default.
        Raises FedcliError for an update that is not finite, and where the method breaks its contract.
        """
        roster, engine = roster or self.roster, engine or self.clients
        play = _play_single_sites if self.single_site else _play_round
        return play(self, state, roster, engine)

    def tasks(self, state: RunState, roster: list[str], shared: Tensors) -> list[Task]:
        """The task of each client of the next round."""
        t = state.round + 1
        return [
            Task(roster[row], row, t, self.rounds, self.seed, state.theta, shared, state.clients.get(roster[row], {}))
            for row in cohort(len(roster), self.participation, seed=self.seed, round=t)
        ]


def _play_round(federation: Federation, state: RunState, roster: list[str], engine: Engine) -> Played:
    method, training, t = federation.method, federation.training, state.round + 1
    local, rule = method.local, method.aggregator
    shared, server = dict(state.shared), dict(state.server)
    payload = rule.broadcast(server)
    checks.tensors(method, rule, "broadcast", payload, "what clients receive")
    tasks = federation.tasks(state, roster, {**shared, **payload})
    # what a client keeps beside the model needs its training, also where the rule will not keep the model
    keeps_more = training.personal or training.keep_optimizer or training.bn == "local"
    keeps_more = keeps_more or bool(federation.layout.own_shapes)
    subset = isinstance(rule, SubsetTraining) and rule.trains_subset and not (keeps_more or _reports_training(local))
    absent: dict[str, str] = {}
    if subset and not federation.min_clients and isinstance(rule, SubsetTraining):  # else one that trains may be absent
        arriving = _train_subset(engine, tasks, method, rule)
    else:
        arriving = _present(engine(tasks), absent)
    reports, thetas, columns = _collect(method, arriving, len(tasks), state.theta)
    _check_absent(absent, len(tasks), federation.min_clients, t)
    down = sum(_bytes(task.theta, *task.shared.values()) for task in tasks)
    sent = sum(report.steps > 0 for report in reports)
    up = sent * _bytes(state.theta) + _bytes(*columns.values())
    updates = _client_updates(federation, reports, thetas, columns, roster=len(roster), round=t)
    theta, weights = checks.pair(method, rule.aggregate(state.theta, updates, server))
    checks.model(method, rule, "aggregate", theta, state.theta)
    checks.weights(method, weights, len(reports))
    checks.tensors(method, rule, "aggregate", server, "the server's memory")
    theta = local.post_aggregate(theta, updates, weights, shared)
    checks.model(method, local, "post_aggregate", theta, state.theta)
    checks.tensors(method, local, "post_aggregate", shared, "what all clients share")
    theta = _outside(thetas, {"": theta})[""]
    shared, server = _outside(thetas, shared), _outside(thetas, server)
    if not all_finite(theta[None])[0]:
        raise FedcliError(
            f"the global model is not finite after round {t}", "lower --lr, or a strength of the method with --set"
        )
    clients = _memories(state, roster, {r.client: r.memory for r in reports if r.memory})
    losses = torch.stack([r.loss for r in reports])
    return Played(
        RunState(t, theta, shared, server, clients), [r.client for r in reports], weights, losses, updates.columns,
        bytes_down=round(down / len(tasks)), bytes_up=round(up / len(reports)), absent=absent,
    )  # fmt: skip


def _present(arriving: Iterable[Report | Absent], absent: dict[str, str]) -> Iterator[Report]:
    """The reports; who is absent is put into that dict."""
    for report in arriving:
        if isinstance(report, Absent):
            absent[report.client] = report.why
        else:
            yield report


def _check_absent(absent: dict[str, str], clients: int, least: int, round: int) -> None:
    """Raises FedcliError where fewer clients answered than must."""
    if absent and clients - len(absent) < (least or clients):
        client, why = next(iter(absent.items()))
        what = f"{clients - len(absent)} of {clients} clients answered in round {round}; {client}: {why}"
        raise FedcliError(what[:380], f"at least {least or clients} must; start them again and go on with --resume")


def _reports_training(local: Local) -> bool:
    """Tell whether a client's training leaves more than a model, so that every participant has to train."""
    hooks = type(local).on_round_end, type(local).post_aggregate
    return hooks != (Local.on_round_end, Local.post_aggregate)


def _train_subset(engine: Engine, tasks: list[Task], method: Method, rule: SubsetTraining) -> Iterator[Report]:
    """Measures of every client, and the models of those that the rule then selects to train; in task order."""
    absent: dict[str, str] = {}
    measured = list(_present(engine([replace(task, part="measure") for task in tasks]), absent))
    _check_absent(absent, len(tasks), 0, tasks[0].round)
    for report in measured[1:]:
        checks.columns(method, (measured[0].client, measured[0].columns), (report.client, report.columns))
    columns = {name: torch.stack([report.columns[name] for report in measured]) for name in measured[0].columns}
    rows = torch.tensor([task.row for task in tasks], device=tasks[0].theta.device)
    selected = rule.select_clients(columns, rows)
    checks.selection(method, selected, len(tasks))
    chosen = selected.tolist()
    training = [replace(task, part="train") for task, trains in zip(tasks, chosen, strict=True) if trains]
    trained = _present(engine(training), absent)
    for report, trains in zip(measured, chosen, strict=True):
        if trains:
            model = next(trained)
            theta = model.theta if model.table is None else model.theta.clone()  # its place is not that of the measured
            report = replace(model, theta=theta, table=None, columns={**report.columns, **model.columns})
        yield report


def _play_single_sites(federation: Federation, state: RunState, roster: list[str], engine: Engine) -> Played:
    """A round of clients that train alone; nothing is sent, each continues from its own last model.

    That model is kept in its memory as "model", which its method does not see; state.theta stays the common start.
    """
    tasks = []
    for task in federation.tasks(state, roster, {}):
        memory = dict(task.memory)
        theta = memory.pop("model", state.theta)  # [P]
        tasks.append(replace(task, theta=theta, memory=memory, part="alone"))
    memories: dict[str, Tensors] = {}
    losses = []
    for report in _present(engine(tasks), {}):
        _check_finite(report, all_finite(report.theta[None])[0])
        own_model = report.theta if report.table is None else report.theta.clone()
        memories[report.client] = {**report.memory, "model": own_model}
        losses.append(report.loss)
    weights = torch.full((len(tasks),), torch.nan, dtype=torch.float64)  # [K]
    after = replace(state, round=state.round + 1, clients=_memories(state, roster, memories))
    return Played(after, list(memories), weights, torch.stack(losses), {})


def cohort(roster: int, participation: float, *, seed: int, round: int) -> list[int]:
    """Rows of the clients that take part in a round, rising: a share of the roster, at least one."""
    count = cohort_size(roster, participation)
    if count >= roster:
        return list(range(roster))
    drawn = np.random.default_rng(derive("cohort", seed, round)).choice(roster, count, replace=False)
    return sorted(drawn.tolist())


def cohort_size(roster: int, participation: float) -> int:
    """The number of clients that take part in a round."""
    return min(roster, max(1, int(participation * roster + 0.5 + 1e-9)))


def _memories(state: RunState, roster: list[str], made: Mapping[str, ClientState]) -> dict[str, ClientState]:
    """Memory that every client keeps after a round, in roster order, which a resume has too."""
    kept = {**state.clients, **made}
    return {client: kept[client] for client in roster if client in kept}


def _bytes(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _check_finite(report: Report, finite: bool) -> None:
    if not finite:
        raise FedcliError(
            f"client {report.client} sent an update that is not finite (NaN or infinity)",
            "its training diverged: lower --lr, or look at its images with fedcli inspect",
        )


def all_finite(table: Tensor) -> list[bool]:
    """Of each row of a table [K, P]: whether all its numbers are finite. Waits for the device once.

    A sum is finite only where all its terms are, and takes a tenth of the time of asking each; large finite terms may
    overflow, so that the other rows are asked.
    """
    sums = table.sum(1).isfinite().tolist()
    return [known or bool(row.isfinite().all()) for known, row in zip(sums, table, strict=True)]


def _outside(table: Tensor, tensors: Tensors) -> Tensors:
    """These tensors, but copies of those that are parts of the table [K, P], which an engine may use again."""
    whole = table.untyped_storage().data_ptr()

    def inside(value: Any) -> bool:
        return isinstance(value, Tensor) and value.untyped_storage().data_ptr() == whole

    def outside(value: Any) -> Any:
        if not isinstance(value, RowTable):
            return value.clone() if inside(value) else value
        in_memory = {row: kept[ROW] for row, kept in value.rows.items() if isinstance(kept, dict)}
        return value.replaced({row: kept.clone() for row, kept in in_memory.items() if inside(kept)})

    return {name: outside(value) for name, value in tensors.items()}


def _collect(
    method: Method, arriving: Iterable[Report], count: int, theta: Tensor
) -> tuple[list[Report], Tensor, dict[str, Tensor]]:
    """Reports without their tensors, and these as tables: models [K, P] and a column [K, ...] per name.

    count: K at most.
    Each is copied into its table as it arrives, so that no client's model or column exists twice; not where an engine
    has put it into the table of the first report.
    """
    table: Tensor | None = None
    reports: list[Report] = []
    columns: dict[str, Tensor] = {}
    for k, report in enumerate(arriving):
        if table is None:
            table = report.table
            if table is None or len(table) < count:
                table = torch.empty(count, len(theta), device=theta.device)
        if report.theta.data_ptr() != table[k].data_ptr():
            table[k] = report.theta
        if k:
            known = {name: column[0] for name, column in columns.items()}
            checks.columns(method, (reports[0].client, known), (report.client, report.columns))
        for name, value in report.columns.items():
            columns.setdefault(name, value.new_empty(count, *value.shape))[k] = value
        reports.append(replace(report, theta=theta[:0], table=None, columns={}))
    if table is None:
        return [], theta[None][:0], columns
    table, columns = table[: len(reports)], {name: column[: len(reports)] for name, column in columns.items()}
    for report, finite in zip(reports, all_finite(table), strict=True):
        _check_finite(report, finite)
    return reports, table, columns


def _client_updates(
    federation: Federation,
    reports: list[Report],
    thetas: Tensor,
    columns: dict[str, Tensor],
    *,
    roster: int,
    round: int,
) -> ClientUpdates:
    device = thetas.device
    return ClientUpdates(
        round=round,
        rounds=federation.rounds,
        seed=federation.seed,
        lr=federation.training.at(round, federation.rounds).lr,
        rows=torch.tensor([r.row for r in reports], device=device),
        roster=roster,
        n=torch.tensor([r.n for r in reports], dtype=torch.float64, device=device),
        steps=torch.tensor([r.steps for r in reports], dtype=torch.float64, device=device),
        theta=thetas,
        columns=columns,
        layout=federation.layout,
    )
