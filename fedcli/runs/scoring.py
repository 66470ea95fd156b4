"""Scores at the end of a round: of the test sets, for curves, and of the clients' validation parts, for a choice.

Both are of the model that would be kept of that round. Where clients train alone, each one's own model
answers for its own images.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from .. import metrics
from ..data.shard import Shard
from ..errors import UsageError
from ..federation.state import Best, RunState, Tensors
from ..methods.mixins import scored_model
from .assembly import PlannedFederation
from .finished import PERSONAL, alone_logits, load_personal, logits, mean_own


class Scoring:
    """Scores of a run while it goes on."""

    def __init__(self, federation: PlannedFederation):
        self.federation = federation
        self.metric = metrics.Task.of_body(federation.data.body).curves[0]
        self.parts = {c: shard for c, shard in federation.data.val.items() if len(shard)}
        self.whole = _union(list(self.parts.values())) if self.parts else None

    def due(self, round: int) -> bool:
        """Tell whether the test sets are scored after this round."""
        plan = self.federation.plan
        return plan.eval_every > 0 and (round % plan.eval_every == 0 or round == plan.rounds)

    def line(self, state: RunState) -> dict[str, Any]:
        """Entries of rounds.jsonl on the quality of a round's model."""
        line: dict[str, Any] = {}
        if self.due(state.round):
            tests = self.federation.data.test
            tables = {version: self._answers(state, shard) for version, shard in tests.items()}
            line["test"] = {
                version: _curves(tables[version], shard) for version, shard in tests.items()
            }
            if attributes := self.federation.data.attributes:
                line["groups"] = {
                    v: _of_groups(tables[v], shard, attributes) for v, shard in tests.items()
                }
        if self.whole is not None:
            line["validation"] = {self.metric: self.validation(state)}
        return line

    def _answers(self, state: RunState, shard: Shard) -> list[np.ndarray]:
        """Logits [N, C] on one test set, of each client's own model where clients train alone, see alone_logits()."""
        if not self.federation.plan.single_site:
            return [self._together(state, shard)]
        return alone_logits(
            self.federation.data, shard, partial(self._alone, self.federation.sites(state))
        )

    def validation(self, state: RunState) -> float | None:
        """The metric on all validation parts together; None where it has no meaning there."""
        assert self.whole is not None
        if not self.federation.plan.single_site:
            table = self._together(state, self.whole)
        else:
            sites = self.federation.sites(state)
            table = np.concatenate(
                [self._alone(sites, client, part) for client, part in self.parts.items()]
            )
        y = self.whole.y.cpu().numpy()
        return (
            curve(table, y)[self.metric]
            if self.whole.multi_label
            else metrics.balanced_accuracy(table, y)
        )

    def best(self, before: Best | None, state: RunState, line: dict[str, Any]) -> Best | None:
        """The best model up to this round; only a better score takes the place of an earlier round's."""
        score = line["validation"][self.metric] if "validation" in line else None
        if score is None or (before and metrics.apart(score, before.score) <= 0):
            return before
        theta, clients = self.federation.kept(state)
        own = {
            c: {name: kept[name].cpu() for name in PERSONAL if name in kept}
            for c, kept in clients.items()
        }
        return Best(state.round, score, theta.cpu(), own)

    def _together(self, state: RunState, shard: Shard) -> np.ndarray:
        """Logits [N, C] of the global model."""
        layout = self.federation.layout
        layout.load(scored_model(self.federation.method.aggregator, state.theta, state.server))
        if (own := mean_own(state.clients, self.federation.counts)) is not None:
            layout.load_own(own)  # not those of the client that trained last
        return logits(self.federation.net, shard, self.federation.method.local)

    def _alone(self, sites: dict[str, Tensors], client: str, shard: Shard) -> np.ndarray:
        """Logits [N, C] of the model of a client that trains alone."""
        load_personal(self.federation.layout, sites[client])
        return logits(self.federation.net, shard, self.federation.method.local)


def check_patience(federation: PlannedFederation) -> None:
    """Refuse to stop early where no validation images say when: the test images choose nothing."""
    plan = federation.plan
    if plan.patience and not any(map(len, federation.data.val.values())):
        sentence = f"--patience {plan.patience} stops by the clients' validation images, and they have none"
        raise UsageError(
            sentence,
            "make the partition again with fedcli partition --val 0.1, or leave --patience out",
        )


def in_words(line: dict[str, Any]) -> str:
    """Words beside the bar: the mean loss of the clients, and the scores of a round that was scored.

    Where clients have validation images, their score is shown and no test score: a person may tune by it.
    """
    losses = [loss for loss in line["loss"] if loss is not None]
    words = [f"loss {sum(losses) / len(losses):.3g}"] if losses else []
    scored = line.get("test", {})
    if "validation" in line:
        scored = {"validation": line["validation"]}
    for version, scores in scored.items():
        score = next(iter(scores.values()))
        if score is not None:
            words.append(f"{version} {100 * score:.1f} %")
    return ", ".join(words)


def _curves(
    tables: list[np.ndarray], shard: Shard, at: np.ndarray | None = None
) -> dict[str, float | None]:
    """The curves of some places of a test set, all where None; the mean over tables."""
    y, places = shard.y.cpu().numpy(), slice(None) if at is None else at
    scores = [curve(table[places], y[places]) for table in tables]
    return {name: _mean([score[name] for score in scores]) for name in scores[0]}


def _of_groups(
    tables: list[np.ndarray], shard: Shard, attributes: dict[str, list[str]]
) -> dict[str, Any]:
    groups: dict[str, Any] = {}
    for name, values in attributes.items():
        column = shard.groups[name].cpu().numpy()
        places = {value: np.flatnonzero(column == k) for k, value in enumerate(values)}
        groups[name] = {
            value: _curves(tables, shard, at) for value, at in places.items() if len(at)
        }
    return groups


def curve(logits: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    """Entries of a test set in rounds.jsonl: logits [N, C], y [N] -> the curves of its task on the 0..1 scale."""
    return metrics.score_of(metrics.plan(logits, y).sums(), metrics.Task.of(y).curves)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _union(shards: list[Shard]) -> Shard:
    groups = {
        name: torch.cat([shard.groups[name] for shard in shards]) for name in shards[0].groups
    }
    rows, y = (torch.cat([getattr(shard, name) for shard in shards]) for name in ("rows", "y"))
    return replace(
        shards[0],
        rows=rows,
        y=y,
        ids=np.concatenate([s.ids for s in shards]),
        groups=groups,
        derived={},
    )
