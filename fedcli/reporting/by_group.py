"""One run group by group: how many images, the score with its interval, what noise costs it, and the gap."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..compare.cautions import small_groups
from ..compare.predicted import predicted
from ..compare.resampling import Resamples
from ..compare.systems import Quantity, Scored
from ..data.glance import fitted
from ..metrics import RESAMPLED, better_low, title
from ..scores import numbers, views
from ..scores.parts import MODELS
from ..scores.scores import Scores
from ..scores.statistics.intervals import RESAMPLES, bounds
from ..scores.table import Score
from .table import DAGGER, NONE, Table, bounded

SMALL, REASON = f"{DAGGER} not reliable: ", 64  # then each group with its reason, of at most so many characters


def tables(run: Scored, metric: str = "") -> Iterator[Table]:
    """A table for each attribute, on clean and corrupted test images; metric: by default the AUC.

    Scores are means over the kept rounds, with intervals of these means over patients; of a metric that is not
    resampled they are the last round's.
    """
    scores = run.scores
    shown = _Shown(run, metric or scores.usual[1])
    words = numbers.versions([scores])
    for attribute, versions in scores.groups.items():
        lost = [f"lost to {'noise' if words[MODELS[1]] == 'noisy' else 'corruption'}"] if len(versions) > 1 else []
        lines = [shown.line(attribute, group, some) for group, some in scores.members(attribute).items()]
        if any(gap := [shown.gap(attribute, version) for version in versions]):
            lines.append(["gap", "", *gap, *("" for _ in lost)])
        heads = [attribute, "images", *(words.get(version, version) for version in versions), *lost]
        yield Table.of(f"{shown.about}, by {attribute}", heads, lines)


def worst_groups(run: Scored) -> Iterator[str]:
    """A sentence for each attribute and version of the test images: the worst group and the gap, as the tables have
    them."""
    shown, words = _Shown(run, run.scores.usual[1]), numbers.versions([run.scores])
    for attribute, versions in run.scores.groups.items():
        for version, columns in versions.items():
            scores = {group: shown.value(score) for group, score in columns.get(shown.metric, {}).items()}
            if gap := shown.gap(attribute, version):
                worst = views.worst_of(scores, shown.metric)
                where = f"{attribute} on {words.get(version, version)} images, {shown.rounds}: {worst}"
                score = f"{100 * (scores[worst] or 0):.1f} % {title(shown.metric)}"
                yield f"worst group by {where}, {score}; gap {gap} points"


@dataclass
class _Shown:
    """The numbers of one metric as they stand in a table."""

    run: Scored
    metric: str

    @cached_property
    def drawn(self) -> Resamples:
        return Resamples(RESAMPLES, bca=self.run.options.get("interval") == "bca")

    @property
    def is_mean(self) -> bool:
        """Tell whether numbers are means over rounds, of which an interval can be drawn."""
        return self.metric in RESAMPLED and (self.run.path.parent / "predictions.h5").is_file()

    @property
    def rounds(self) -> str:
        """The rounds that numbers are of."""
        kept = self.run.scores.kept_rounds
        return f"mean of rounds {kept[0]} to {kept[-1]}" if self.is_mean and len(kept) > 1 else "last round"

    @property
    def about(self) -> str:
        """Whose numbers they are, of which rounds and in which metric."""
        seed = [] if self.run.seed is None else [f"seed {self.run.seed}"]
        return f"{', '.join([self.run.scores.name, *seed, self.rounds])}: {title(self.metric)} in %, 95 % interval"

    def line(self, attribute: str, group: str, some: Score) -> list[str]:
        """The group, its images, its score on each version, and how much worse the second is, in points."""
        columns = self.run.scores.groups[attribute]
        each = {version: columns[version].get(self.metric, {}).get(group, Score()) for version in columns}
        values = [self.value(score) for score in each.values()]
        ends = [self._bounds(Quantity(of, self.metric, attribute, group), score) for of, score in each.items()]
        cells = [bounded(value, low, high).text for value, (low, high) in zip(values, ends)]
        known = [value for value in values if value is not None]
        sign = -100 if better_low(self.metric) else 100
        lost = [f"{sign * (known[0] - known[1]):.1f}" if len(known) == 2 else NONE] if len(values) == 2 else []
        return [group + DAGGER * bool(some.small and some.count), f"{some.count:,}", *cells, *lost]

    def value(self, score: Score) -> float | None:
        return score.mean if self.is_mean else score.last

    def _bounds(self, of: Quantity, score: Score) -> tuple[float | None, float | None]:
        if not self.is_mean or len(score.values) < 2 or score.mean is None:
            return score.low, score.high
        found = predicted(self.run.path).of(of.attribute)
        if len(set(found.units[found.members(of)].tolist())) < 2:
            return None, None
        without = self.drawn.left(self.run, of) if self.drawn.bca else None
        return bounds(score.mean, self.drawn.drawn(self.run, of), without)

    def gap(self, attribute: str, version: str) -> str:
        """Between the best and the worst group, as the mean of the rounds or in the last; "" of fewer than two."""
        gap = self.run.scores.part().lies(attribute, version, self.metric, views.GAP)
        value = self.value(gap) if gap else None
        return "" if value is None else f"{100 * value:.1f}"


def legend(scores: Scores, metrics: Sequence[str] = ()) -> list[str]:
    """A line for what intervals are over, and one with the reason of each small group."""
    shown = [scores.usual[1], *metrics]
    columns = [
        by.get(metric, {}) for versions in scores.groups.values() for by in versions.values() for metric in shown
    ]
    each = [score for column in columns for score in column.values() if score.interval]
    kind = "BCa intervals" if any(score.is_bca for score in each) else "Intervals"
    over = "patients" if any(score.unit.startswith("patient") for score in each) else "images"
    if scores.curves:  # sites counted, which do not say whose image is which
        over = "images, which sites count without their patients, so too narrow where patients have several"
    lines = [f"{kind}: {RESAMPLES:,} bootstrap resamples of the {over} of a group."] if each else []
    return list(filter(None, [*lines, unreliable([scores])]))


def unreliable(runs: Iterable[Scores], attribute: str = "") -> str:
    """A line that names each small group with its reason; "" where there is none. attribute: of this one alone."""
    small = dict.fromkeys(
        f"{of} {name} ({why})" for scores in runs for of in scores.groups if attribute in ("", of)
        for name, why in small_groups(scores, of).items()
    )  # fmt: skip
    return f"{fitted(SMALL, list(small), REASON)}." if small else ""
