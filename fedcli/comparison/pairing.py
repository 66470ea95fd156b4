"""Pairs of runs of two systems, and the population that the pairs are a sample of.

Two runs of different systems are a pair if their seeds are equal, of training and of the data (and
the fold, if folds take the place of seeds). Pairs of one test set are a sample of seeds; pairs
whose test sets differ are a sample of folds, or of splits that were drawn anew.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..data.units import IMAGE
from ..errors import FedcliError
from .predicted import predicted
from .systems import NOT_THE_METHOD, Pairs, Scored

COUNTED = (
    "both were scored by counts at their sites, which do not pair images: the two "
    "systems are treated as independent, which widens the interval of a difference, "
    "and so are images of one patient, which narrows it; areas under curves of more "
    "than two classes, and the average of clean and corrupted images, have no test"
)


@dataclass(frozen=True)
class Sample:
    """The population that the pairs of a comparison are a sample of.

    Attributes:
        over: "seeds" if all pairs have one test set, else "folds" or "splits".
        sets: the number of each pair's test set.
        overlap: test images per training image, mean over the test sets; 0 of seeds.
        test_images, units: counts over all test sets together.
        unit: noun of the units, such as "patient" or "image".
    """

    over: str
    sets: tuple[int, ...]
    overlap: float
    test_images: int
    unit: str
    units: int

    @property
    def count(self) -> int:
        """The number of seeds, folds or splits."""
        if self.over == "seeds":
            return len(self.sets)
        return max(self.sets) + 1

    @property
    def note(self) -> str:
        """A sentence on the weights of runs if folds or splits have unequal numbers of them, else
        "".
        """
        run_counts = [self.sets.count(number) for number in range(self.count)]
        if self.over == "seeds" or len(set(run_counts)) == 1:
            return ""
        counts = ", ".join(map(str, run_counts))
        singular = self.over[:-1]
        return (
            f"the {self.over} have different numbers of runs ({counts}): means, differences, "
            "their intervals and p over patients weight every run equally, p over "
            f"{self.over} every {singular}"
        )

    def means(self, means: list[float]) -> list[float]:
        """One number for each seed, fold or split, from that of each pair's run."""
        if self.over == "seeds":
            return means
        means_by_set: dict[int, list[float]] = {}
        for number, mean in zip(self.sets, means, strict=True):
            means_by_set.setdefault(number, []).append(mean)
        return [float(np.mean(means_by_set[number])) for number in range(self.count)]


class Paired(NamedTuple):
    """Runs of equal draws with checked test sets, the population they are a sample of, and notes
    for readers.
    """

    pairs: Pairs
    sample: Sample
    notes: list[str]


def paired(a: Sequence[Scored], b: Sequence[Scored]) -> Paired:
    """The pairs of two systems' runs. Raises FedcliError if there is none, or test sets differ."""
    if not a or not b:
        raise FedcliError(
            "there is no run to compare", "give the scores of at least one run of each system"
        )
    pairs, notes = _pairs(a, b)
    if not pairs:
        raise _no_pair(a, b)
    for run_a, run_b in pairs:
        _check_same_test(run_a, run_b)
    if any(predicted(run.path).counted for run in pairs[0]):
        notes.append(COUNTED)
    differing = [kind for kind in ("partition", "corruption") if _differ_in(kind, pairs)]
    if differing:
        stages = " and ".join(differing)
        notes.append(f"the systems were not trained on the same {stages}: {NOT_THE_METHOD}")
    sample = _sample(pairs)
    if sample.note:
        notes.append(sample.note)
    return Paired(pairs, sample, notes)


def _pairs(a: Sequence[Scored], b: Sequence[Scored]) -> tuple[Pairs, list[str]]:
    """Runs of equal draws, or the only run of each system, with notes on the other runs."""
    runs_a = _by_draw(a)
    runs_b = _by_draw(b)
    is_of_single_runs = len(a) == len(b) == 1
    if is_of_single_runs and runs_a.keys() != runs_b.keys():
        note = "the two runs do not have the same seeds: their random draws differ too"
        return [(a[0], b[0])], [note]
    shared = [draw for draw in runs_a if draw in runs_b]
    shared.sort(key=lambda draw: runs_a[draw].seed)
    pairs = [(runs_a[draw], runs_b[draw]) for draw in shared]
    unpaired = []
    for draw, run in [*runs_a.items(), *runs_b.items()]:
        if draw not in shared:
            unpaired.append(f"{run.scores.name} {run.which}")
    if not unpaired:
        return pairs, []
    names = ", ".join(unpaired)
    return pairs, [f"left out, as the other system has no run of these seeds: {names}"]


def _no_pair(a: Sequence[Scored], b: Sequence[Scored]) -> FedcliError:
    seeds_a = ", ".join(sorted({str(run.seed) for run in a}))
    seeds_b = ", ".join(sorted({str(run.seed) for run in b}))
    name_a = a[0].scores.name
    name_b = b[0].scores.name
    sentence = (
        f"no run of {name_a} and of {name_b} has the same seeds (of training: {seeds_a}; {seeds_b})"
    )
    return FedcliError(sentence, "train both with the same seeds")


def _differ_in(kind: str, pairs: Pairs) -> bool:
    """Tell whether the runs of some pair have data of another stage of this kind."""
    return any(run_a.sha256(kind) != run_b.sha256(kind) for run_a, run_b in pairs)


def _by_draw(runs: Sequence[Scored]) -> dict[str, Scored]:
    by_draw: dict[str, Scored] = {}
    for run in runs:
        if run.draw in by_draw:
            other = by_draw[run.draw]
            sentence = f"{other.path} and {run.path} are of one system and the same seed"
            raise FedcliError(sentence, "give each run once")
        by_draw[run.draw] = run
    return by_draw


def _check_same_test(a: Scored, b: Scored) -> None:
    images_a = predicted(a.path)
    images_b = predicted(b.path)
    if images_a.counted != images_b.counted:
        at_sites, pooled = (a, b) if images_a.counted else (b, a)
        raise FedcliError(
            f"{at_sites.path} was counted at sites and {pooled.path} was not",
            "evaluate both with the same --engine",
        )
    if images_a.counted:
        _check_same_counts(a, b)
        return
    if not np.array_equal(images_a.id, images_b.id):
        shared = len(np.intersect1d(images_a.id, images_b.id))
        counts = f"{shared} of {len(images_a.id)} and {len(images_b.id)}"
        raise FedcliError(
            f"{a.path} and {b.path} were not scored on the same test images: {counts} are shared",
            "compare runs on one dataset and one split",
        )
    same_labels = np.array_equal(images_a.y, images_b.y)
    if not same_labels or not np.array_equal(images_a.units, images_b.units):
        raise FedcliError(
            f"{a.path} and {b.path} have different labels or patients for the same test images",
            "evaluate both runs again, on one dataset",
        )


def _check_same_counts(a: Scored, b: Scored) -> None:
    """Raises FedcliError where sites counted other images for one system than for the other."""
    if a.sha256("partition") != b.sha256("partition"):
        raise FedcliError(
            (
                f"{a.path} and {b.path} were scored at different sites, or on different data of "
                "the same sites"
            ),
            "compare runs of the same sites and data",
        )
    labels_a = np.sort(predicted(a.path).y)
    labels_b = np.sort(predicted(b.path).y)
    if not np.array_equal(labels_a, labels_b):
        share_a = _scored_share(a)
        share_b = _scored_share(b)
        raise FedcliError(
            f"the sites had different policies when they scored {a.path} and {b.path}, so the two "
            f"do not cover the same images: {share_a}, and {share_b}",
            "evaluate both runs again under one policy of each site",
        )


def _scored_share(run: Scored) -> str:
    """The test images of a run that are scored, in words."""
    unscored = run.scores.unscored
    if unscored:
        return unscored.share
    return f"all {run.scores.images:,} test images"


def _sample(pairs: Pairs) -> Sample:
    runs = [run for run, _ in pairs]
    sets = numbered([predicted(run.path).id.tobytes() for run in runs])
    run_of_each_set = one_of_each(runs)
    tests = [predicted(run.path) for run in run_of_each_set]
    over = "seeds"
    overlaps = [0.0]
    if len(tests) > 1:
        has_folds = all(run.fold is not None for run in run_of_each_set)
        over = "folds" if has_folds else "splits"
        test_sizes = [len(test.y) for test in tests]
        train_sizes = [_trained_on(run) for run in run_of_each_set]
        overlaps = [size / train for size, train in zip(test_sizes, train_sizes, strict=True)]
    by_patient = all(test.by_patient for test in tests)
    overlap = float(np.mean(overlaps))
    test_images = sum(len(test.y) for test in tests)
    unit = runs[0].scores.noun if by_patient else IMAGE
    units = sum(len(np.unique(test.units)) for test in tests)
    return Sample(
        over=over,
        sets=tuple(sets),
        overlap=overlap,
        test_images=test_images,
        unit=unit,
        units=units,
    )


def numbered(keys: Sequence[Hashable]) -> list[int]:
    """The number of each key among the different keys, counted from 0 in the order in which they
    come.
    """
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return [numbers[key] for key in keys]


def one_of_each(runs: list[Scored]) -> list[Scored]:
    """The first run of each test set, where sets come in the order of their last runs."""
    run_by_set = {predicted(run.path).id.tobytes(): run for run in reversed(runs)}
    return list(run_by_set.values())[::-1]


def _trained_on(run: Scored) -> int:
    if run.scores.train_images:
        return run.scores.train_images
    if not run.scores.shots:
        raise FedcliError(
            f"{run.path} does not say how many images were trained on", "evaluate the run again"
        )
    return sum(sum(classes.values()) for classes in run.scores.shots.classes.values())
