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
from .client import Absent, Report

Arrived = Callable[[int, int, int], None]  # (round, clients that answered, clients asked)


class Collected:
    """The reports of a round without their tensors, and these as tables: models [K, P], and a column [K, ...] per name.

    A tensor is copied into its table as it arrives, so that no client's model or column exists twice; not where an
    engine has put it into the table of the first report.
    """

    def __init__(
        self, method: Method, theta: Tensor, round: int, asked: int, arrived: Arrived | None
    ):
        self.method, self.theta, self.round, self.asked, self.arrived = (
            method,
            theta,
            round,
            asked,
            arrived,
        )
        self.reports: list[Report] = []
        self.columns: Tensors = {}
        self.absent: dict[str, str] = {}  # client that did not answer -> why
        self.seconds, self._begin, self._count = 0.0, time.perf_counter(), 0  # waiting for clients
        self._table: Tensor | None = None

    def present(self, answer: Report | Absent) -> Report | None:
        """The report, counted; None of a client that did not answer."""
        self.seconds += time.perf_counter() - self._begin
        self._count += 1
        if self.arrived:
            self.arrived(self.round, self._count, self.asked)
        self._begin = time.perf_counter()
        if isinstance(answer, Absent):
            self.absent[answer.client] = answer.why
            return None
        return answer

    def add(self, report: Report | None) -> None:
        """Keep a report and its tensors. Raises ContractError for columns that the first one does not have."""
        if report is None:
            return
        k, theta = len(self.reports), report.theta
        if self._table is None:
            self._table = report.table
            if self._table is None or len(self._table) < self.asked:
                self._table = torch.empty(self.asked, len(theta), device=theta.device)
        if theta.data_ptr() != self._table[k].data_ptr():
            self._table[k] = theta
        if k:
            first = {name: column[0] for name, column in self.columns.items()}
            checks.columns(
                self.method, (self.reports[0].client, first), (report.client, report.columns)
            )
        for name, value in report.columns.items():
            self.columns.setdefault(name, value.new_empty(self.asked, *value.shape))[k] = value
        self.reports.append(replace(report, theta=self.theta[:0], table=None, columns={}))
        self._begin = time.perf_counter()

    def check_absent(self, least: int) -> None:
        """Raise FedcliError where fewer clients answered than must; 0: all."""
        answered = self.asked - len(self.absent)
        if self.absent and answered < (least or self.asked):
            client, why = next(iter(self.absent.items()))
            what = f"{answered} of {self.asked} clients answered in round {self.round}; {client}: {why}"
            hint = f"at least {least or self.asked} must; start them again and go on with --resume"
            raise FedcliError(what[:380], hint)

    def updates(
        self, rounds: int, seed: int, lr: float, roster: int, layout: Layout
    ) -> ClientUpdates:
        """The tables of those who answered, as a server rule gets them. Raises FedcliError where one is not finite."""
        reports = self.reports
        thetas = self.theta[None][:0] if self._table is None else self._table[: len(reports)]
        check_finite([report.client for report in reports], thetas)
        device = thetas.device
        return ClientUpdates(
            round=self.round,
            rounds=rounds,
            seed=seed,
            lr=lr,
            roster=roster,
            layout=layout,
            theta=thetas,
            rows=torch.tensor([r.row for r in reports], device=device),
            n=torch.tensor([r.n for r in reports], dtype=torch.float64, device=device),
            steps=torch.tensor([r.steps for r in reports], dtype=torch.float64, device=device),
            columns={name: column[: len(reports)] for name, column in self.columns.items()},
        )


def check_finite(clients: Sequence[str], models: Tensor) -> None:
    """Raise FedcliError for a client whose model, a row of [K, P], is not finite."""
    for client, finite in zip(clients, all_finite(models), strict=True):
        if not finite:
            what = f"client {client} sent an update that is not finite (NaN or infinity)"
            raise FedcliError(
                what, "its training diverged: lower --lr, or look at its images with fedcli inspect"
            )


def all_finite(table: Tensor) -> list[bool]:
    """Of each row of a table [K, P]: whether all its numbers are finite. Waits for the device once.

    A sum is finite only where all its terms are, and takes a tenth of the time of asking each; large finite terms may
    overflow, so that the other rows are asked.
    """
    sums = table.sum(1).isfinite().tolist()
    return [known or bool(row.isfinite().all()) for known, row in zip(sums, table, strict=True)]
