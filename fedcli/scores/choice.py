"""The round whose model is taken, by a rule on the clients' validation images.

Test images choose nothing. Candidates are the models that a run keeps: those of the last rounds,
and the one that was best while it trained. With m(r) the score of round r on all validation images
and m_g(r) on those of group g, of every attribute asked for:

    overall      the largest m(r)
    worst-group  the largest min_g m_g(r): the min-max point of the Pareto front of the groups'
                 scores
    dto          the smallest distance to the utopia point, sqrt(sum_g (max_s m_g(s) - m_g(r))^2)

Of equals the larger m(r), then the earlier round.

Source: model selection of Zong, Yang and Hospedales, MEDFAIR, ICLR 2023, arXiv 2210.01725; min-max:
Martinez, Bertran and Sapiro, Minimax Pareto Fairness, ICML 2020, arXiv 2011.01821. m is the score
by which a run finds its best round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import UsageError, nearest
from ..metrics import apart
from .table import Number

OVERALL = "overall"
WORST = "worst-group"
DTO = "dto"
RULES = (OVERALL, WORST, DTO)
DISTANCE = "distance to the utopia point"
WORDS = {OVERALL: "{}", WORST: f"{WORST} {{}}", DTO: f"{DISTANCE} of {{}}"}  # {}: the score


@dataclass(frozen=True)
class Candidate:
    """A round's model on the clients' validation images.

    groups: attribute -> group -> score. images: attribute -> group -> images.
    """

    round: int
    score: Number
    groups: dict[str, dict[str, Number]] = field(default_factory=dict)
    images: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def known(self) -> list[float]:
        """The score of every group that has one, of all attributes."""
        return [score for _, _, score in self._scored()]

    def _scored(self) -> Iterator[tuple[str, str, float]]:
        """Attribute, group and score of every group that has a score."""
        for attribute, scores in self.groups.items():
            for group, score in scores.items():
                if score is not None:
                    yield attribute, group, score

    @property
    def worst(self) -> float | None:
        return min(self.known, default=None)

    @property
    def smallest(self) -> int:
        """Images of the smallest group that has a score."""
        sizes = [self.images[attribute][group] for attribute, group, _ in self._scored()]
        return min(sizes, default=0)


def check_rule(rule: str | None) -> None:
    """Raises UsageError for a rule that there is not."""
    if rule is not None and rule not in RULES:
        raise UsageError(f"--choose {rule!r} is no rule", nearest(rule, RULES))


def distances(candidates: Sequence[Candidate]) -> list[float]:
    """The distance of each from the best score of every group that some candidate reaches."""
    # [R, G]: labels are the same for all
    table = np.array([candidate.known for candidate in candidates])
    return np.sqrt(((table.max(0) - table) ** 2).sum(1)).tolist()


def values(candidates: Sequence[Candidate], rule: str) -> list[float | None]:
    """The value that the rule looks at in each candidate; None where it has no meaning."""
    if rule == OVERALL:
        return [candidate.score for candidate in candidates]
    if rule == WORST:
        return [candidate.worst for candidate in candidates]
    if all(candidate.known for candidate in candidates):
        return list(distances(candidates))
    return [None for _ in candidates]


def chosen(candidates: Sequence[Candidate], rule: str) -> int | None:
    """The index of the one that a rule takes; None where no candidate has what it looks at.

    Of equals the larger overall score, then the earlier round.
    """
    sign = -1 if rule == DTO else 1
    by_rule = {}
    overall = {}
    for index, value in enumerate(values(candidates, rule)):
        if value is not None:
            by_rule[index] = sign * value
            overall[index] = candidates[index].score or 0.0
    equals = _largest(by_rule, list(by_rule))
    return min(_largest(overall, equals), default=None)


def _largest(numbers: dict[int, float], indices: list[int]) -> list[int]:
    """The indices whose number is the largest but for rounding."""
    limit = max((numbers[index] for index in indices), default=0.0)
    return [index for index in indices if apart(numbers[index], limit) == 0]
