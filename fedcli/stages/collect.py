"""The runs that report, compare and plot are given, and the scores of each."""

import os
from collections.abc import Callable
from pathlib import Path

from .. import console
from ..data import last_used, manifest
from ..errors import REFUSED, FedcliError, sentence
from ..scores.evaluation_options import EvaluateOptions
from ..scores.existing import check, existing
from ..scores.scores import Scores
from ..scores.shots import thresholds

Evaluated = tuple[Path, bool]  # a scores.json, and whether it was there before


def every_run(work: Path) -> list[Path]:
    """Every finished run under a work folder. Raises FedcliError where there is none."""
    newest = last_used.newest(work, "run")  # says what to do when there is none
    return _readable(last_used.every(work / "runs", "run")) or [manifest.find(newest)]


def runs_in(path: Path) -> list[Path]:
    """A run, or the runs in a folder of runs or under a work folder. Raises FedcliError."""
    if not path.is_dir() or any(
        (path / name).is_file() for name in ("run.json", "scores.json", "settings.json")
    ):
        return [path]
    runs = _readable(
        sorted([*last_used.every(path, "run"), *last_used.every(path / "runs", "run")])
    )
    if not runs:
        raise FedcliError(
            f"{path} holds no finished run", "give a run's folder, or a folder of runs"
        )
    return runs


def _readable(runs: list[Path]) -> list[Path]:
    """The runs but for those that are broken links, which are warned of."""
    kept = []
    for path in runs:
        try:
            kept.append(manifest.find(path))
        except FedcliError as error:
            console.warn(f"left out {path.parent}: {error.sentence}")
    return kept


def scores_under(work: Path, asked: EvaluateOptions) -> list[Path]:
    """The scores of every run under a work folder.

    A run that cannot be evaluated, or whose scores cannot be read, is left out with a warning.

    Raises FedcliError, of the last of them, where no run is left.
    """
    thresholds(asked.shots)  # one mistake, not one of every run
    return _collected(every_run(work), lambda path: _readable_scores(path, asked), skip=True)


def scores_of_all(paths: list[Path], asked: EvaluateOptions) -> list[Path]:
    """The scores of these runs, each once; all are checked before any is evaluated. Raises FedcliError, HashError."""
    paths = list(dict.fromkeys(paths))
    for path in paths:
        if _is_run(path) or path.name == "run.json":
            check(path, asked)
    return _collected(paths, lambda path: scores_of(path, asked), skip=False)


def scores_of(path: Path, asked: EvaluateOptions) -> Evaluated:
    """The scores of a run that answer this question, as they lie there or made now."""
    if _is_run(path):
        path = path / "run.json"
    path = manifest.find(path, *(() if path.is_file() else ("scores",)))
    if manifest.read(path, "run", "scores").kind == "scores":
        return path, False
    if made := existing(path, asked):
        return made, True
    from ..scores.evaluate import evaluate  # imports torch, which scores that lie there do not need

    return evaluate(path, asked), False


def _readable_scores(path: Path, asked: EvaluateOptions) -> Evaluated:
    """The same, read once, so that scores that cannot be read are those of one run. Raises FedcliError."""
    scores, made_before = scores_of(path, asked)
    Scores.of(manifest.read(scores).body, scores)
    return scores, made_before


def _is_run(folder: Path) -> bool:
    """Tell whether it holds a run.json, be it a link that leads nowhere, which is complained of when it is read."""
    return folder.is_dir() and os.path.lexists(folder / "run.json")


def _collected(paths: list[Path], scored: Callable[[Path], Evaluated], skip: bool) -> list[Path]:
    """The scores of all runs; those that were there before are counted rather than listed."""
    results: list[Evaluated] = []
    for number, path in enumerate(paths, 1):
        try:
            results.append(scored(path))
        except (FedcliError, OSError) as error:
            shown = (
                isinstance(error, FedcliError) or error.errno in REFUSED
            )  # others' runs may be read, not scored
            if not skip or not shown or (number == len(paths) and not results):
                raise
            console.warn(f"left out {path.parent}: {sentence(error)}")
    before = [path for path, made_before in results if made_before]
    if before:
        several = f"{len(before)} runs have been evaluated already"
        console.say(f"already made: {before[0].parent}" if len(before) == 1 else several)
    return [path for path, _ in results]
