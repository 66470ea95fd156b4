"""What a comparison of two systems shows: its numbers, in sentences, in a small table, and what to beware of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import console
from ..scores.bca import BCA
from ..scores.groups import SMALL, unknown_note
from ..scores.schema import encode
from ..scores.statistics import OverSeeds
from . import verdicts
from .table import Table, of_text
from .verdicts import HIGHER, INCONCLUSIVE, LOWER, MODELS_ONLY, SIGNIFICANT, UNITS, Compared

TESTS = {"mcnemar": "McNemar's exact test of the decisions", "delong": "DeLong's test of auc_binary"}
OF_MODELS = (
    "These tests ask whether two trained models differ on these images. They do not account for repeated training, "
    "so p may be below 0.05 where the verdict is neither `higher` nor `lower`."
)
SHORT = 30  # characters of settings that fit behind a name
SCORES_SAY = {
    HIGHER: "{b} is higher than {a} in {what}",
    LOWER: "{b} is lower than {a} in {what}",
    MODELS_ONLY: "{b} and {a} as trained here differ significantly in {what}, but {reason}",
    INCONCLUSIVE: "the difference in {what} is inconclusive",
}
GAPS_SAY = SCORES_SAY | {
    HIGHER: "{b} has a larger {what} than {a}",
    LOWER: "{b} has a smaller {what} than {a}",
}
SCORES = (
    "A score is the mean over the last five rounds (all of a shorter run), then over {over}, ± population standard "
    "deviation over rounds and {over}; the difference is B - A; the test set has {drawn}."
)
OF_BCA = "Intervals are bias-corrected and accelerated (BCa)."
OF_GAPS = "Chance alone produces a gap, so the interval of a gap's difference need not contain the difference."
Named = tuple[str, Compared]  # a score by its name in the table


@dataclass(frozen=True)
class Side:
    """One of two systems; one_class: where its models answer one class for every image."""

    method: str
    label: str
    rule: str
    seeds: list[Any]
    warning: str
    one_class: str


@dataclass(frozen=True)
class GroupTests:
    """The gaps between the groups of an attribute, and each group; small: group -> why; unknown: images in no group."""

    gaps: list[Compared]
    each: list[Compared]
    small: dict[str, str]
    unknown: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that can be said of b against a. Differences are b minus a, on the 0..1 scale.

    Attributes:
        settings: in what the two differ before any score. level: of the intervals. pairs: of runs.
        interval: how intervals are made of resamples, "percentile" or "bca".
        over, samples, overlap, test_images, unit, units: see pairs.Sample.
        images: tests of the last round's models, image by image, of each pair of runs.
        remarks: what pairing has to say.
    """

    systems: dict[str, Side]
    settings: list[dict[str, str]]
    level: float
    resamples: int
    interval: str
    pairs: int
    over: str
    samples: int
    overlap: float
    test_images: int
    unit: str
    units: int
    rows: list[Compared]
    groups: dict[str, GroupTests]
    images: list[dict[str, Any]]
    remarks: list[str]

    def body(self) -> dict[str, Any]:
        """As JSON values, with the sentences, notes and legend."""
        body = encode(self)
        body["systems"] = {side: about | {"name": self.names[side]} for side, about in body["systems"].items()}
        del body["remarks"]
        return body | {"sentences": self.sentences(), "notes": self.notes(), "legend": self.legend()}

    @property
    def names(self) -> dict[str, str]:
        """Labels; of one method twice, with what differs, or A and B where that is long."""
        labels = {side: about.label for side, about in self.systems.items()}
        if labels["a"] != labels["b"]:
            return labels
        differing = {side: ", ".join(f"{row['what']}={row[side]}" for row in self.settings) for side in "ab"}
        if all(0 < len(text) <= SHORT for text in differing.values()):
            return {side: f"{labels[side]} ({differing[side]})" for side in "ab"}
        return {side: f"{labels[side]} {side.upper()}" for side in "ab"}

    def table(self) -> Table:
        """The scores, then the gaps between groups on the clean images."""
        of_samples = console.counted(self.samples, self.over[:-1], self.over)
        runs = of_samples if self.samples == self.pairs else f"{of_samples}, {self.pairs} runs"
        several = [f"p over {self.over}"] if self.samples > 1 else []
        a, b = (f"{side.upper()}: {name}, {runs}" for side, name in self.names.items())
        drawn = "images" if self.unit == "image" else "patients"
        heads = ["score (%)", a, b, "B-A", "95 % interval", f"p over {drawn}", *several, "verdict"]
        return of_text("", heads, [self._line(name, row) for name, row in self._scores() + self._gaps()])

    def _line(self, name: str, row: Compared) -> list[str]:
        ps = [row.p_holm, *([row.p_seeds_holm] if self.samples > 1 else [])]
        numbers = [_score(row.a), _score(row.b), verdicts.signed(row.difference), verdicts.interval_text(row)]
        return [name, *numbers, *map(verdicts.p_text, ps), row.verdict or ""]

    def sentences(self) -> list[str]:
        """What the scores say, what the gaps say, and what neither can."""
        rows, gaps = self._scores(), self._gaps()
        lines = [_sentence(rows, self.names, SCORES_SAY, "scores")]
        lines += [_sentence(gaps, self.names, GAPS_SAY, "gaps")] if gaps else []
        inconclusive = any(row.verdict == INCONCLUSIVE for _, row in rows + gaps)
        return lines + ([verdicts.NOT_EQUAL] if inconclusive else [])

    def image_tests(self) -> list[str]:
        """A line for each test of the last round's models, image by image: its p for each run; then what they are
        not."""
        independent = "" if self.units == self.test_images else ", with a patient's images taken as independent"
        lines: dict[str, list[str]] = {}
        for pair in self.images:
            for version, tests in pair["versions"].items():
                for test, result in tests.items():
                    head = f"{TESTS[test]} on the last round's models, {version} images{independent}"
                    lines.setdefault(head, []).append(f"{verdicts.p_text(result['p'])} ({pair['which']})")
        return [f"{head}: p {', '.join(ps)}." for head, ps in lines.items()] + ([OF_MODELS] if lines else [])

    def legend(self) -> str:
        drawn = console.counted(self.units, self.unit, UNITS[self.unit])
        scores = SCORES.format(over=self.over, drawn=drawn)
        more = [OF_BCA] * (self.interval == BCA) + [OF_GAPS] * bool(self._gaps())
        return " ".join([scores, verdicts.legend(self.rows, self.resamples), *more])

    def notes(self) -> list[str]:
        """What a reader must know: models of another kind or that learned nothing, few seeds, patients or images of a
        group."""
        sides = [(self.names[side], about) for side, about in self.systems.items()]
        notes = [*self.remarks, *(f"{name}: {about.warning}" for name, about in sides if about.warning)]
        notes += [f"{name} {about.one_class}" for name, about in sides if about.one_class]
        notes += self._of_samples() if self.samples > 1 else []
        if self.units < SMALL:
            few = console.counted(self.units, self.unit, UNITS[self.unit])
            notes.append(f"{few} in the test set, fewer than {SMALL}: the intervals may be too narrow")
        for attribute, part in self.groups.items():
            notes += filter(None, [unknown_note(attribute, part.unknown, self.test_images)])
            notes += [
                f"{attribute} {value} is a small group: {reason}; its score is unreliable"
                for value, reason in part.small.items()
            ]
        return notes

    def _of_samples(self) -> list[str]:
        """What the tests over seeds, folds or splits cannot give."""
        floor, notes = (self.rows[0].over_seeds or {})["wilcoxon"]["floor"], []
        if floor >= SIGNIFICANT:
            least = (
                f"Wilcoxon's test over {self.samples} {self.over} cannot give a p below {floor:g}, whatever the numbers"
            )
            notes.append(
                f"{least} (six are needed for 0.05); the t test assumes normally distributed differences instead"
            )
        same = [name for name, row in self._scores() + self._gaps() if row.p_seeds is None]
        if same:
            text = f"{_listed(same)}: the difference is the same in every {self.over[:-1]}"
            notes.append(f"{text}, so there is no test over {self.over}")
        return notes

    def _scores(self) -> list[Named]:
        return [(f"{row.version} {row.metric}", row) for row in self.rows]

    def _gaps(self) -> list[Named]:
        """Of the clean images, as in a report: the corrupted ones' are in the JSON."""
        return [
            (f"{attribute} gap {row.metric}", row)
            for attribute, part in self.groups.items()
            for row in part.gaps
            if row.version == "clean"
        ]


def _score(numbers: OverSeeds) -> str:
    return f"{100 * numbers.mean:.2f} ± {100 * numbers.std_pooled:.2f}"


def _sentence(rows: Sequence[Named], names: dict[str, str], texts: dict[str, str], noun: str) -> str:
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, row in rows:
        kinds.setdefault((row.verdict or "", row.reason or ""), []).append(name)
    parts = []
    for kind, why in sorted(kinds, key=lambda kind: list(texts).index(kind[0])):
        own = kinds[kind, why]
        every = f"{'any of the' if kind == INCONCLUSIVE else 'all'} {len(rows)} {noun}"
        what = every if len(own) == len(rows) > 2 else _listed(own)
        text = texts[kind].format(reason=why, a=names["a"], b=names["b"], what=what)
        parts.append(f"{text}: {why}" if kind == INCONCLUSIVE and why else text)
    whole = "; ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
