"""Answers of a round's clients, collected as they arrive."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..errors import FedcliError
from ..methods.contract import ClientUpdates, Tensors
from ..methods.registry import Method
from ..models.layout import Layout
from . import checks
from .client import Absent, ClientReport

Arrived = Callable[[int, int, int], None]  # (round, clients that answered, clients of the round)


class Collected:
    """The reports of a round without their tensors, and these as tables.

    The tables are of models [K, P], and of a column [K, ...] per name. A tensor is copied into its
    table as it arrives, so that no client's model or column exists twice; not where an engine has
    put it into the table of the first report.
    """

    def __init__(
        self,
        method: Method,
        theta: Tensor,
        round: int,
        expected: int,
        arrived: Arrived | None,
    ):
        self.method = method
        self.theta = theta
        self.round = round
        self.expected = expected  # answers
        self.arrived = arrived
        self.reports: list[ClientReport] = []
        self.columns: Tensors = {}
        self.absent: dict[str, str] = {}  # client that did not answer -> why
        self.seconds = 0.0  # waiting for clients
        self._begin = time.perf_counter()
        self._count = 0
        self._table: Tensor | None = None

    def present(self, answer: ClientReport | Absent) -> ClientReport | None:
        """The report, counted; None for a client that did not answer."""
        self.seconds += time.perf_counter() - self._begin
        self._count += 1
        if self.arrived:
            self.arrived(self.round, self._count, self.expected)
        self._begin = time.perf_counter()
        if isinstance(answer, Absent):
            self.absent[answer.client] = answer.why
            return None
        return answer

    def add(self, report: ClientReport | None) -> None:
        """Keep a report and its tensors.

        Raises ContractError for columns that the first one does not have.
        """
        if report is None:
            return
        k = len(self.reports)
        theta = report.theta
        if self._table is None:
            self._table = report.table
            if self._table is None or len(self._table) < self.expected:
                self._table = torch.empty(
                    self.expected,
                    len(theta),
                    device=theta.device,
                )
        if theta.data_ptr() != self._table[k].data_ptr():
            self._table[k] = theta
        if k:
            first_values = {name: column[0] for name, column in self.columns.items()}
            first_report = (self.reports[0].client, first_values)
            checks.columns(
                self.method,
                first_report,
                (report.client, report.columns),
            )
        for name, value in report.columns.items():
            if name not in self.columns:
                self.columns[name] = value.new_empty(self.expected, *value.shape)
            self.columns[name][k] = value
        self.reports.append(replace(report, theta=self.theta[:0], table=None, columns={}))
        self._begin = time.perf_counter()

    def check_absent(self, min_clients: int) -> None:
        """Raise FedcliError where fewer clients answered than must; 0: all."""
        required = min_clients or self.expected
        answered = self.expected - len(self.absent)
        if not self.absent or answered >= required:
            return
        client, reason = next(iter(self.absent.items()))
        text = (
            f"{answered} of {self.expected} clients answered in round {self.round}; "
            f"{client}: {reason}"
        )
        hint = f"at least {required} must; start them again and go on with --resume"
        raise FedcliError(text[:380], hint)

    def updates(
        self,
        rounds: int,
        seed: int,
        lr: float,
        roster: int,
        layout: Layout,
    ) -> ClientUpdates:
        """The tables of those who answered, as a server rule gets them.

        Raises FedcliError where one is not finite.
        """
        reports = self.reports
        count = len(reports)
        thetas = self.theta[None][:0] if self._table is None else self._table[:count]
        check_finite([report.client for report in reports], thetas)
        device = thetas.device
        rows = [report.row for report in reports]
        images = [report.n for report in reports]
        steps = [report.steps for report in reports]
        return ClientUpdates(
            round=self.round,
            rounds=rounds,
            seed=seed,
            lr=lr,
            roster=roster,
            layout=layout,
            theta=thetas,
            rows=torch.tensor(rows, device=device),
            n=torch.tensor(images, dtype=torch.float64, device=device),
            steps=torch.tensor(steps, dtype=torch.float64, device=device),
            columns={name: column[:count] for name, column in self.columns.items()},
        )


def check_finite(clients: Sequence[str], models: Tensor) -> None:
    """Raise FedcliError for a client whose model, a row of [K, P], is not finite."""
    for client, is_finite in zip(clients, all_finite(models), strict=True):
        if not is_finite:
            raise FedcliError(
                f"client {client} sent an update that is not finite (NaN or infinity)",
                "its training diverged: lower --lr, or look at its images with fedcli inspect",
            )


def all_finite(table: Tensor) -> list[bool]:
    """Truth values by row of a table [K, P]: all its numbers are finite. Waits for the device once.

    A sum is finite only where all its terms are, and takes a tenth of the time of testing each;
    large finite terms may overflow, so that the other rows are tested.
    """
    finite = table.sum(1).isfinite().tolist()
    for index, row in enumerate(table):
        if not finite[index]:
            finite[index] = bool(row.isfinite().all())
    return finite
