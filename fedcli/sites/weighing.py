"""A site's weight by sums over the sites, for rules whose weights need nothing else of the others.

Under secure aggregation a round of such a rule has several masked sums: those of the numbers that
mixins.WeighsBySums asks for, then that of the weighted updates. Between them the report of the
round waits at its site, which gives each of its numbers once and weighs it once.
"""

from typing import Any

import torch
from torch import Tensor

from ..federation.client import ClientReport, ClientTask
from ..federation.engines.wire import Arrays, Message, pack, to_arrays, to_tensors
from ..methods.contract import Tensors
from ..methods.mixins import ClientPart, WeighsBySums
from .description import SiteError
from .transport.relay import LARGEST_NUMBER, LOSS, NUMBER, TOTAL, UPDATE, WEIGHT


class Weighing:
    """A trained report at its site, the numbers of which are added up."""

    def __init__(
        self,
        rule: WeighsBySums,
        report: ClientReport,
        task: ClientTask,
        after: int,
        of_sum: Any,
    ):
        """Keep the report.

        after: the round that its memory was of. of_sum: of the question, the clients of the sum
        and their training images.
        """
        self.rule = rule
        self.report = report
        self.task = task
        self.after = after
        self.sums: list[Tensor] = []
        self.shape: torch.Size = torch.Size()  # of the number whose sum comes next
        self.memory: Tensors = dict(report.memory)
        device = report.theta.device
        base = report.n / of_sum["images"]
        clients = len(of_sum["clients"])
        base_tensor = torch.tensor(base, dtype=torch.float64, device=device)
        self.part = ClientPart(
            task.round,
            clients,
            base_tensor,
            report.columns,
            self.memory,
        )

    @property
    def is_complete(self) -> bool:
        """True where all sums are there that the weight needs."""
        return len(self.sums) == self.rule.sums

    def number(self) -> Message:
        """The next number, as an answer of which only the sum is shown. Raises SiteError."""
        number = self.rule.number(self.part, self.sums)
        _check(number, "number")
        self.shape = number.shape
        return {"round": self.task.round}, to_arrays({NUMBER: number.flatten()})

    def add(self, arrays: Arrays) -> None:
        """Take the next sum. Raises SiteError for what is none."""
        device = str(self.report.theta.device)
        total = to_tensors(arrays, device).get(TOTAL)
        numbers = self.shape.numel()
        if total is None or total.shape != (numbers,) or total.dtype != torch.float64:
            raise SiteError("it was sent a sum of another shape or type than its numbers have")
        self.sums.append(total.view(self.shape))

    def update(self) -> Message:
        """The answer with the weight, and the update times it. Raises SiteError."""
        weight = self.rule.weight(self.part, self.sums)
        _check(weight, "weight")
        moved = self.report.theta.double() - self.task.theta.double()  # [P]
        answer, _ = pack(self.report)
        answer.update(round=self.task.round, kept=bool(self.memory))
        tensors = {
            UPDATE: weight * moved,
            WEIGHT: weight,
            LOSS: self.report.loss,
        }
        return answer, to_arrays(tensors)


def _check(numbers: Tensor, title: str) -> None:
    """Raises SiteError for numbers that no sum can have."""
    if not ((numbers >= 0) & (numbers < LARGEST_NUMBER)).all():
        sentence = f"its {title} in the sum is below 0, too large or not finite"
        raise SiteError(sentence, "lower --lr, or a strength of the method with --set")
