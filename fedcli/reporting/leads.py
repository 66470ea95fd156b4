"""Whether the best row of a report is significantly better than another, by the paired tests of compare.py."""

from collections.abc import Sequence

from ..errors import FedcliError
from ..metrics import RESAMPLED
from . import verdicts
from .pairs import paired, sample_of
from .sampler import Sampler
from .systems import Scored
from .tested import Compared, adjusted, headline

Score = tuple[str, str]  # version of the test images, metric


class Leads:
    """Tests of pairs of systems, each made when it is first asked for.

    systems: each system's runs. metrics: those that are shown; only some of them have a test.
    samples: the fewest seeds, folds or splits of a pair that was tested; None before any was.
    """

    def __init__(self, systems: Sequence[Sequence[Scored]], metrics: Sequence[str]):
        self.systems = systems
        self.samples: int | None = None
        self.over = "seeds"
        self._metrics = tuple(metric for metric in metrics if metric in RESAMPLED)
        self._sampler = Sampler(self._metrics, verdicts.enough(len(systems) - 1), 0)
        self._pairs: dict[tuple[int, int], dict[Score, Compared]] = {}

    def test(self, score: Score, first: int, second: int, comparisons: int) -> bool | None:
        """Whether two systems differ significantly in a score; None where there is no test of it.

        comparisons: how many the best of the column is part of; p is multiplied by it (Bonferroni), so that no table
        of tests that adjusts over the same systems (Holm) can contradict the mark. Fewer than three seeds are tested
        over patients alone.
        """
        if score[1] not in self._metrics or (row := self._pair(first, second).get(score)) is None:
            return None
        self.samples, self.over = min(row.samples, self.samples or row.samples), row.over
        row = adjusted(row, *(p and min(1.0, comparisons * p) for p in (row.p, row.p_seeds)))
        return row.verdict in (verdicts.HIGHER, verdicts.LOWER) or (
            row.verdict == verdicts.MODELS_ONLY and row.samples < verdicts.ENOUGH
        )

    def _pair(self, first: int, second: int) -> dict[Score, Compared]:
        """The tests of two systems by score; none where they share no seed or test set, or have no predictions."""
        key = min(first, second), max(first, second)
        if key not in self._pairs:
            try:
                pairs, _ = paired(*(list(self.systems[system]) for system in key))
                rows = headline(pairs, self._sampler, sample_of(pairs))
            except FedcliError:  # the legend then says that there is no test
                rows = []
            self._pairs[key] = {(row.version, row.metric): row for row in rows}
        return self._pairs[key]
