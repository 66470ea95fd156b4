"""Scores at the end of a round: of test sets, for curves, and of validation parts, for a choice.

Both are of the model that would be kept of that round. Where clients train alone, each one's model
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
        self.parts = {client: shard for client, shard in federation.data.val.items() if len(shard)}
        self.whole = _union(list(self.parts.values())) if self.parts else None

    def due(self, round: int) -> bool:
        """Tell whether the test sets are scored after this round."""
        plan = self.federation.plan
        if not plan.eval_every:
            return False
        return round % plan.eval_every == 0 or round == plan.rounds

    def line(self, state: RunState) -> dict[str, Any]:
        """Entries of rounds.jsonl on the quality of a round's model."""
        line: dict[str, Any] = {}
        if self.due(state.round):
            line["test"] = {}
            groups = {}
            attributes = self.federation.data.attributes
            for version, shard in self.federation.data.test.items():
                tables = self._answers(state, shard)
                line["test"][version] = _curves(tables, shard)
                groups[version] = _curves_of_groups(tables, shard, attributes)
            if attributes:
                line["groups"] = groups
        if self.whole is not None:
            line["validation"] = {self.metric: self.validation(state)}
        return line

    def _answers(self, state: RunState, shard: Shard) -> list[np.ndarray]:
        """Logits [N, C] on one test set; of clients that train alone, as of alone_logits()."""
        if not self.federation.plan.single_site:
            return [self._together(state, shard)]
        logits_of = partial(self._alone, self.federation.sites(state))
        return alone_logits(self.federation.data, shard, logits_of)

    def validation(self, state: RunState) -> float | None:
        """The metric on all validation parts together; None where it has no meaning there."""
        whole = self.whole
        assert whole is not None
        if self.federation.plan.single_site:
            sites = self.federation.sites(state)
            tables = [self._alone(sites, client, part) for client, part in self.parts.items()]
            table = np.concatenate(tables)
        else:
            table = self._together(state, whole)
        y = whole.y.cpu().numpy()
        if whole.multi_label:
            return curve(table, y)[self.metric]
        return metrics.balanced_accuracy(table, y)

    def best(
        self,
        before: Best | None,
        state: RunState,
        line: dict[str, Any],
    ) -> Best | None:
        """The best model up to this round; an earlier one is replaced only by a better score."""
        score = line.get("validation", {}).get(self.metric)
        if score is None:
            return before
        if before and metrics.apart(score, before.score) <= 0:
            return before
        theta, clients = self.federation.kept(state)
        personal = {}
        for client, memory in clients.items():
            personal[client] = {name: memory[name].cpu() for name in PERSONAL if name in memory}
        return Best(state.round, score, theta.cpu(), personal)

    def _together(self, state: RunState, shard: Shard) -> np.ndarray:
        """Logits [N, C] of the global model."""
        layout = self.federation.layout
        layout.load(scored_model(self.federation.method.aggregator, state.theta, state.server))
        own_numbers = mean_own(layout, state.clients, self.federation.counts)
        if own_numbers is not None:
            layout.load_own(own_numbers)  # not those of the client that trained last
        return logits(self.federation.net, shard, self.federation.method.local)

    def _alone(
        self,
        sites: dict[str, Tensors],
        client: str,
        shard: Shard,
    ) -> np.ndarray:
        """Logits [N, C] of the model of a client that trains alone."""
        load_personal(self.federation.layout, sites[client])
        return logits(self.federation.net, shard, self.federation.method.local)


def check_patience(federation: PlannedFederation) -> None:
    """Refuse to stop early without validation images: the test images choose nothing."""
    patience = federation.plan.patience
    if patience and not any(map(len, federation.data.val.values())):
        raise UsageError(
            f"--rounds patience={patience} stops by the clients' validation images, and they have "
            "none",
            "make the partition again with fedcli partition --val 0.1, or leave patience out",
        )


def in_words(line: dict[str, Any]) -> str:
    """Words beside the bar: the mean loss of the clients, and the scores of the round.

    Where clients have validation images, their score appears and no test score: a person may tune
    by it.
    """
    words = []
    losses = [loss for loss in line["loss"] if loss is not None]
    if losses:
        mean = sum(losses) / len(losses)
        words.append(f"loss {mean:.3g}")
    scored = line.get("test", {})
    if "validation" in line:
        scored = {"validation": line["validation"]}
    for version, scores in scored.items():
        score = next(iter(scores.values()))
        if score is not None:
            words.append(f"{version} {100 * score:.1f} %")
    return ", ".join(words)


def _curves(
    tables: list[np.ndarray], shard: Shard, places: np.ndarray | None = None
) -> dict[str, float | None]:
    """The curves of some places of a test set, all where None; the mean over tables."""
    y = shard.y.cpu().numpy()
    if places is not None:
        y = y[places]
        tables = [table[places] for table in tables]
    scores = [curve(table, y) for table in tables]
    means = {}
    for name in scores[0]:
        means[name] = _mean([score[name] for score in scores])
    return means


def _curves_of_groups(
    tables: list[np.ndarray], shard: Shard, attributes: dict[str, list[str]]
) -> dict[str, Any]:
    """The curves of a test set by attribute and value, without values that no image has."""
    groups: dict[str, Any] = {}
    for name, values in attributes.items():
        groups[name] = {}
        column = shard.groups[name].cpu().numpy()
        for index, value in enumerate(values):
            places = np.flatnonzero(column == index)
            if len(places):
                groups[name][value] = _curves(tables, shard, places)
    return groups


def curve(logits: np.ndarray, y: np.ndarray) -> dict[str, float | None]:
    """Entries of a test set in rounds.jsonl: the curves of its task on the 0..1 scale.

    logits: [N, C]. y: [N].
    """
    sums = metrics.plan(logits, y).sums()
    return metrics.score_of(sums, metrics.Task.of(y).curves)


def _mean(values: list[float | None]) -> float | None:
    """The mean; None where a value is None."""
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return None
    return sum(numbers) / len(numbers)


def _union(shards: list[Shard]) -> Shard:
    """The images of all shards as one shard."""
    groups = {}
    for name in shards[0].groups:
        groups[name] = torch.cat([shard.groups[name] for shard in shards])
    rows = torch.cat([shard.rows for shard in shards])
    labels = torch.cat([shard.y for shard in shards])
    ids = np.concatenate([shard.ids for shard in shards])
    return replace(
        shards[0],
        rows=rows,
        y=labels,
        ids=ids,
        groups=groups,
        derived={},
    )
