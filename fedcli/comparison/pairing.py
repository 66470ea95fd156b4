"""Pairs of runs of two systems, and what the pairs are a sample of.

Two runs of different systems are a pair where their seeds are equal, of training and of the data (and the fold, where
folds take the place of seeds). Pairs of one test set are a sample of seeds; pairs whose test sets differ are a sample
of folds, or of splits that were drawn anew.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import FedcliError
from .predicted import predicted
from .systems import NOT_THE_METHOD, Pairs, Scored

COUNTED = (
    "both were scored by counts at their sites, which do not pair images: the two systems are taken as independent,"
    " which widens the interval of a difference, and images of one patient too, which narrows it; areas under curves of"
    " more than two classes, and the average of clean and corrupted images, have no test"
)


@dataclass(frozen=True)
class Sample:
    """The population that the pairs of a comparison are a sample of.

    over: "seeds", where all have one test set, else "folds" or "splits". sets: the number of each pair's test set.
    overlap: test images per training image, mean over the test sets; 0 of seeds.
    test_images, units: of all test sets together; unit: "patient or lesion" or "image".
    """

    over: str
    sets: tuple[int, ...]
    overlap: float
    test_images: int
    unit: str
    units: int

    @property
    def count(self) -> int:
        """Seeds, folds or splits."""
        return len(self.sets) if self.over == "seeds" else max(self.sets) + 1

    @property
    def note(self) -> str:
        """The weights of runs where folds or splits have unlike numbers of them; "" where they do not."""
        runs = [self.sets.count(k) for k in range(self.count)]
        if self.over == "seeds" or len(set(runs)) == 1:
            return ""
        return (
            f"the {self.over} have unlike numbers of runs ({', '.join(map(str, runs))}): means, differences, their "
            f"intervals and p over patients weigh every run alike, p over {self.over} every {self.over[:-1]}"
        )

    def means(self, means: list[float]) -> list[float]:
        """One number for each seed, fold or split, from that of each pair's run."""
        if self.over == "seeds":
            return means
        return [
            float(np.mean([m for m, at in zip(means, self.sets) if at == k]))
            for k in range(self.count)
        ]


class Paired(NamedTuple):
    """Runs of equal draws, their test sets checked, what they are a sample of, and what a reader must know of it."""

    pairs: Pairs
    sample: Sample
    notes: list[str]


def paired(a: Sequence[Scored], b: Sequence[Scored]) -> Paired:
    """The pairs of two systems' runs. Raises FedcliError where there is none, or test sets differ."""
    if not a or not b:
        raise FedcliError(
            "there is no run to compare", "give the scores of at least one run of each system"
        )
    first, second = _by_draw(a), _by_draw(b)
    if len(a) == len(b) == 1 and first.keys() != second.keys():
        pairs, notes = (
            [(a[0], b[0])],
            ["the two runs do not have the same seeds: they differ in their draw as well"],
        )
    else:
        shared = sorted(
            (draw for draw in first if draw in second), key=lambda draw: first[draw].seed
        )
        pairs, notes = [(first[draw], second[draw]) for draw in shared], []
        alone = [run for draw, run in [*first.items(), *second.items()] if draw not in shared]
        if alone:
            names = ", ".join(f"{run.scores.name} {run.which}" for run in alone)
            notes.append(f"left out, as the other system has no run of these seeds: {names}")
    if not pairs:
        seeds = [", ".join(sorted({str(run.seed) for run in runs})) for runs in (a, b)]
        what = f"no run of {a[0].scores.name} and of {b[0].scores.name} has the same seeds"
        raise FedcliError(
            f"{what} (of training: {seeds[0]}; {seeds[1]})", "train both with the same seeds"
        )
    for pair in pairs:
        _check_same_test(*pair)
    if any(predicted(run.path).counted for run in pairs[0]):
        notes.append(COUNTED)
    differ = [
        kind
        for kind in ("partition", "corruption")
        if any(x.sha256(kind) != y.sha256(kind) for x, y in pairs)
    ]
    if differ:
        notes.append(
            f"the systems were not trained on the same {' and '.join(differ)}: {NOT_THE_METHOD}"
        )
    sample = _sample(pairs)
    return Paired(pairs, sample, [*notes, *filter(None, [sample.note])])


def _by_draw(runs: Sequence[Scored]) -> dict[str, Scored]:
    by_draw: dict[str, Scored] = {}
    for run in runs:
        if run.draw in by_draw:
            what = f"{by_draw[run.draw].path} and {run.path} are of one system and the same seed"
            raise FedcliError(what, "give each run once")
        by_draw[run.draw] = run
    return by_draw


def _check_same_test(a: Scored, b: Scored) -> None:
    first, second = (predicted(run.path) for run in (a, b))
    if bool(first.counted) != bool(second.counted):
        at_sites, here = (a, b) if first.counted else (b, a)
        raise FedcliError(
            f"{at_sites.path} was counted at sites and {here.path} was not",
            "evaluate both with the same --engine",
        )
    if not np.array_equal(first.id, second.id):
        shared = len(np.intersect1d(first.id, second.id))
        counts = f"{shared} of {len(first.id)} and {len(second.id)}"
        what = f"{a.path} and {b.path} were not scored on the same test images: {counts}"
        raise FedcliError(f"{what} are shared", "compare runs on one dataset and one split")
    if not np.array_equal(first.y, second.y) or not np.array_equal(first.units, second.units):
        what = f"{a.path} and {b.path} have different labels or patients for the same test images"
        raise FedcliError(what, "evaluate both runs again, on one dataset")


def _sample(pairs: Pairs) -> Sample:
    runs = [run for run, _ in pairs]
    sets = numbered([predicted(run.path).id.tobytes() for run in runs])
    firsts = one_of_each(runs)
    tests = [predicted(run.path) for run in firsts]
    overlaps = (
        [len(test.y) / _trained_on(run) for test, run in zip(tests, firsts)]
        if len(tests) > 1
        else [0.0]
    )
    over = "splits" if None in [run.fold for run in firsts] else "folds"
    return Sample(
        over if len(tests) > 1 else "seeds",
        tuple(sets),
        float(np.mean(overlaps)),
        sum(len(test.y) for test in tests),
        "patient or lesion" if all(test.by_patient for test in tests) else "image",
        sum(len(np.unique(test.units)) for test in tests),
    )


def numbered(keys: Sequence[Hashable]) -> list[int]:
    """The number of each key among the different ones, in the order in which they come."""
    numbers = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    return [numbers[key] for key in keys]


def one_of_each(runs: list[Scored]) -> list[Scored]:
    """A run of each test set."""
    return list({predicted(run.path).id.tobytes(): run for run in reversed(runs)}.values())[::-1]


def _trained_on(run: Scored) -> int:
    if run.scores.train_images:
        return run.scores.train_images
    if not run.scores.shots:
        raise FedcliError(
            f"{run.path} does not say how many images were trained on", "evaluate the run again"
        )
    return sum(count for classes in run.scores.shots.classes.values() for count in classes.values())
