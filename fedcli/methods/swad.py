"""SWAD: the weights of all steps between the rounds where the validation loss settles and where it
rises are averaged.

Source: Cha, Chun, Lee, Cho, Park, Lee and Park, "SWAD: domain generalization by seeking flat
minima", NeurIPS 2021, arXiv 2102.08604, Algorithm 1; one of MEDFAIR's (Zong, Yang and Hospedales,
ICLR 2023, arXiv 2210.01725). With E_t the validation loss, N_s = patience, N_e = overfit and r =
tolerance, it averages the weights of every step

    from   the first t whose E_t is the lowest of E_t ... E_(t + N_s - 1); then l = r times the
           mean of these
    to     the last t before E_(t + 1) ... E_(t + N_e) are all above l, or the end

The paper trains one network. Here a step's weights are the mean over clients of what each has after
as many local steps, which is the model that they would have had if they had averaged then. So a
client sends, beside its model, the mean of its weights over its local steps, and the server
averages these. How we differ, and why:
- t counts rounds, and E_t is the mean over clients, by training images, of the loss of the model
  that round t began with, since a client has no later one. It is of validation images (partition
  --val); a client without any takes its training images, whose loss rarely rises.
- the averaged model is scored and kept; the one that travels is FedAvg's to the last bit. Until the
  first t is found, the weights of the last round's steps are scored.
- batch-norm statistics are averaged along the way, as weights are; the paper freezes batch norm.
The released code (khanrc/swad, LossValley, where r is 1.3) differs from Algorithm 1, which is used
here: where N_e is above N_s, as by default, it also goes back over up to N_e - N_s rounds before
the start whose loss is below l, counts some of the rounds twice, and drops a tail that has risen
above l.
A client sends its model twice, and the server keeps the means of max(N_s, N_e) rounds.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from .contract import (
    Aggregated,
    Aggregator,
    Batch,
    ClientRound,
    ClientUpdates,
    Local,
    Network,
    Tensors,
)
from .helpers import average
from .mixins import ScoredModel
from .probes import mean_loss
from .registry import register


@dataclass(frozen=True)
class DenseMean(Local):
    """Plain local training; the mean of the weights over its steps is sent too."""

    cost = {"step": 1}
    not_recorded = "it adds up the weights of every step"
    works_without_server = False

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        client.scratch["sum"] = torch.zeros_like(client.theta)  # [P]
        client.scratch["start"] = client.layout.read()  # [P], with a client's own statistics

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        # before the step: of the start, and of every step but the last
        client.scratch["sum"] += client.layout.flat
        return super().gradient(net, batch, client)

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        moved = client.layout.flat - client.scratch["start"]  # [P]
        total = client.scratch["sum"] + moved
        client.report["dense_mean"] = total / max(client.steps, 1)  # [P]


@dataclass(frozen=True)
class LossValley(ScoredModel, Aggregator):
    """The mean of the models travels; that of all steps between two rounds is scored."""

    cost = {"forward": 1}
    needs = "sums"

    patience: Annotated[
        int, "N_s, rounds in which the validation loss finds no lower one, >= 1"
    ] = 3
    overfit: Annotated[int, "N_e, rounds above the tolerance that end the mean, >= 1"] = 6
    tolerance: Annotated[
        float, "r, share of the loss at the start above which it has risen, >= 1"
    ] = 1.3

    def warning(self, rounds: int, validation: bool) -> str:
        if validation:
            return ""
        return (
            "SWAD chooses its rounds by training images where a client has no validation images "
            "(partition --val)"
        )

    def measure_global(self, net: Network, client: ClientRound) -> None:
        shard = client.val if client.val else client.shard
        client.report["validation_loss"] = mean_loss(net, client, shard)

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        if "swad_ended" not in memory:
            self._follow(updates, memory)
        return average(updates.theta, updates.base), updates.base

    def _follow(self, updates: ClientUpdates, memory: Tensors) -> None:
        """Algorithm 1, one pass of its loop."""
        mean = average(updates["dense_mean"], updates.base)  # [P]
        loss = (updates.base * updates["validation_loss"]).sum()
        means = self._appended("swad_means", mean, memory)  # [W, P]
        losses = self._appended("swad_losses", loss, memory)  # [W]
        memory["swad_model"] = mean
        valley = losses[-self.patience :]
        latest = losses[-self.overfit :]
        if "swad_limit" not in memory:
            if len(valley) < self.patience or valley[0] > valley.min():
                return
            memory["swad_limit"] = self.tolerance * valley.mean()  # l
            latest_means = means[-self.patience :]
            total = latest_means.double().sum(0)
            count = torch.tensor(self.patience)
        else:
            total = memory["swad_sum"] + mean
            count = memory["swad_count"] + 1
            is_full = len(latest) == self.overfit
            if is_full and latest.min() > memory["swad_limit"]:
                overfit_means = means[-self.overfit :]
                total = total - overfit_means.double().sum(0)
                count = count - self.overfit
                memory["swad_ended"] = torch.tensor(True)
        memory["swad_sum"] = total  # float64 [P]
        memory["swad_count"] = count  # a scalar
        memory["swad_model"] = (total / count).float()

    def _appended(self, name: str, value: Tensor, memory: Tensors) -> Tensor:
        """The values of the newest rounds under this name in memory, with one more."""
        values = value[None]
        if name in memory:
            values = torch.cat([memory[name], values])
        values = values[-max(self.patience, self.overfit) :]
        memory[name] = values
        return values

    def scored(self, theta: Tensor, memory: Tensors) -> Tensor:
        return memory.get("swad_model", theta)


register(
    "swad",
    DenseMean(),
    LossValley(),
    label="SWAD",
    about="averages the models of many steps, which carries over better to new scanners",
    families="domain",
)
