"""Two systems on the same test images: in what they differ, by how much, and what can be said of it.

A system is a method in one setting, trained with one seed or several; runs of equal seeds are paired. A score is the
mean over the kept rounds (the last five), then over seeds, as in a report. There are two sources of chance:

    test patients   the trained models stay, the patients are drawn anew (bootstrap.bootstrap, the same draw for every
                    model); this gives the interval of the difference and the first p
    training        the test images stay, and the paired t test takes the seeds as the sample; where folds or other
                    splits take the place of seeds nothing stays, and the t test is Nadeau and Bengio's corrected one;
                    Wilcoxon's test stands beside it with the smallest p that so few seeds can give

What the two p let one say is in verdicts.py. Holm's adjustment is over the systems that are tested against one in one
score, never over scores: of two systems there is nothing to adjust. McNemar's and DeLong's tests are of the last
round's models, seed by seed, and take images as independent.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import console
from ..errors import FedcliError, UsageError, nearest
from ..evaluation.bootstrap import LEVEL, METRICS
from ..evaluation.statistics import holm, over_seeds
from . import verdicts
from .answers import VERSIONS, one_class
from .pairs import paired, sample_of
from .sampler import Sampler
from .systems import Scored, read, settings
from .tested import Row, group_rows, headline, image_tests, judge, judged, over_rounds

SHOWN = "balanced_accuracy", "auc_ovo_macro"
TESTED = (
    "difference", "low", "high", "p", "p_holm", "differing", "unit", "floor", "over", "samples", "overlap",
    "over_seeds", "p_seeds", "p_seeds_holm", "verdict", "reason", "note",
)  # fmt: skip


def compare(
    a: list[Path], b: list[Path], *, metrics: Sequence[str] = SHOWN, resamples: int = 2000, seed: int = 0
) -> dict[str, Any]:
    """All that can be said of b against a, from their scores.json and the predictions beside them.

    Differences are b minus a, on the 0..1 scale; `sentences` say what they come to, `notes` what to beware of, and
    `legend` what a number is. Raises FedcliError where the runs share no seed or no test set, UsageError for an unknown
    metric.
    """
    first_system, second_system = read(a), read(b)
    if len({bool(run.body.get("sample")) for run in (*first_system, *second_system)}) > 1:
        hint = "compare runs on the same data: prepare both from the real files"
        raise UsageError("some of these runs are of a SYNTHETIC sample and others of real data", hint)
    pairs, notes = paired(first_system, second_system)
    sampler = Sampler(_checked(metrics, pairs[0][0]), resamples, seed)
    for run in console.progress([run for pair in pairs for run in pair], label="compare", total=2 * len(pairs)):
        sampler.take(run)
    first, second = pairs[0]
    sample = sample_of(pairs)
    rows = judged(headline(pairs, sampler, sample))
    if not rows:
        raise FedcliError("the two systems have no score in common", "evaluate both on the same versions of the images")
    shared = [name for name in first.body["groups"] if name in second.body["groups"]]
    groups = {name: group_rows(pairs, sampler, name, sample) for name in shared}
    found = {
        "systems": {side: _about([pair[k] for pair in pairs]) for k, side in enumerate("ab")},
        "settings": settings(first.body, second.body),
        "level": LEVEL,
        "resamples": resamples,
        "pairs": len(pairs),
        "over": sample.over,
        "samples": sample.count,
        "overlap": sample.overlap,
        "test_images": sample.test_images,
        "unit": sample.unit,
        "units": sample.units,
        "rows": rows,
        "groups": groups,
        "images": [image_tests(*pair) for pair in pairs],
        "notes": notes,
    }
    return verdicts.explained(found)


def order(
    systems: dict[str, list[Path]], reference: str, metric: str, version: str, *, resamples: int = 2000, seed: int = 0
) -> list[dict[str, Any]]:
    """Every system against one of them in one score, p adjusted by Holm over them; the reference first, without a test.

    A row: name, mean, std_pooled, std_runs, runs, and against the reference what TESTED lists: p over patients, of
    which `differing` differ at all (p is no less than `floor`); p_seeds over `samples` seeds, folds or splits, as
    `over` says; both also adjusted; `verdict` and its `reason` (see verdicts.py). `note` says what to beware of, the
    reason among it, and of a system that cannot be tested against the reference, for want of a common seed, test set
    or score, why.
    Raises UsageError for an unknown reference, version or metric.
    """
    for word, known, what in ((reference, systems, "system"), (version, VERSIONS, "version of the test images")):
        if word not in known:
            raise UsageError(f"no {what} is named {word!r}", nearest(word, known))
    runs = {name: read(paths) for name, paths in systems.items()}
    sampler = Sampler(_checked((metric,), runs[reference][0]), resamples, seed, version)
    rows = [_against(runs[reference], runs[name], sampler) for name in systems if name != reference]
    tested = [row for row in rows if row["difference"] is not None]
    judge(tested, holm([row["p"] for row in tested]), holm([row["p_seeds"] for row in tested]))
    names = [reference, *(name for name in systems if name != reference)]
    rows = [dict.fromkeys(TESTED) | {"note": "the reference"}, *rows]
    return [
        {"name": name, **_summary(runs[name], metric, version), **row, "note": _noted(row, runs[name], version)}
        for name, row in zip(names, rows, strict=True)
    ]


def _against(reference: list[Scored], runs: list[Scored], sampler: "Sampler") -> Row:
    """One system's test against the reference; why there is none, in `note`."""
    none = dict.fromkeys(TESTED)
    try:
        pairs, notes = paired(reference, runs)
    except FedcliError as error:
        return none | {"note": error.sentence}
    rows = headline(pairs, sampler, sample_of(pairs))
    if not rows:
        return none | {"note": "the two have no such score in common"}
    return {key: rows[0].get(key) for key in TESTED} | {"note": "; ".join(notes)}


def _noted(row: Row, runs: list[Scored], version: str) -> str:
    return "; ".join(filter(None, [row["reason"], row["note"], one_class(runs, version)]))


def check_names(metrics: Sequence[str]) -> None:
    """Refuse a metric that no interval can be made of. Raises UsageError."""
    _check(metrics, [*METRICS, "auc_binary"])


def _check(metrics: Sequence[str], known: Sequence[str]) -> None:
    for metric in metrics:
        if metric not in known:
            raise UsageError(f"no interval can be made of {metric!r}", nearest(metric, known))


def _checked(metrics: Sequence[str], run: Scored) -> tuple[str, ...]:
    known = [*METRICS, *(["auc_binary"] if len(run.body["classes"]) == 2 else [])]
    _check(metrics, known)
    return tuple(dict.fromkeys(metrics))


def _summary(runs: list[Scored], metric: str, version: str) -> dict[str, Any]:
    rounds = [over_rounds(run, metric, version) for run in runs]
    if not all(rounds):
        return {"mean": None, "std_pooled": None, "std_runs": None, "runs": len(runs)}
    return over_seeds(rounds)


def _about(runs: list[Scored]) -> dict[str, Any]:
    body = runs[0].body
    about = {key: body[key] for key in ("method", "label", "rule")}
    told = "it is told the true group of each test image" if body.get("views") else ""
    warning = "; ".join(filter(None, [body.get("warning"), told]))
    return about | {"seeds": [run.seed for run in runs], "warning": warning, "one_class": one_class(runs, "average")}
