"""The runs that report, compare and plot are given, and the scores of each."""

import json
import os
from contextlib import suppress
from pathlib import Path

from .. import console
from ..comparison.systems import settled
from ..data import last_used, manifest, not_chosen
from ..errors import REFUSED, FedcliError, sentence
from ..scores.evaluation_options import EvaluateOptions
from ..scores.existing import check, existing
from ..scores.scores import RunScores
from ..scores.shots import thresholds

DATA = "corruption", "partition", "dataset", "sites"


def every_run(work: Path, *, rejected: bool = False) -> list[Path]:
    """Every finished run under a work folder; with `rejected` also those that a sweep did not
    choose.

    Raises FedcliError where there is none.
    """
    runs = _readable(last_used.every(work / "runs", "run"))
    if not runs:
        return [manifest.find(last_used.newest(work, "run"))]  # says what to do without any
    return runs if rejected else not_chosen.without(runs, work)


def comparable_runs(work: Path) -> list[Path]:
    """The newest run under a work folder and all with the same data and rounds, whatever their
    seeds and folds; the others are named.

    Raises FedcliError where there is no run.
    """
    data: dict[Path, str] = {}
    for path in every_run(work):
        try:
            data[path] = _data_and_rounds(path)
        except FedcliError as error:
            unreadable = error
            console.warn(f"left out {path.parent}: {error.sentence}")
    if not data:
        raise unreadable
    newest = data[max(data, key=last_used.age)]
    others = [path.parent.name for path, of_run in data.items() if of_run != newest]
    if others:
        names = console.shortened(", ".join(others))
        every = f"{work / 'runs'} as an argument means all runs"
        console.say(
            f"left out, as they have other data or rounds than the newest run: {names}; {every}"
        )
    return [path for path, of_run in data.items() if of_run == newest]


def _data_and_rounds(path: Path) -> str:
    """A text that is equal for runs of as many rounds on data that differ in draws alone."""
    run = manifest.read(path, "run")
    facts = [run.body["rounds"], run.body["dataset"]]
    try:
        stage = manifest.parent(path, *DATA)
        while stage is not None:
            facts.append(settled(manifest.read(stage).options))
            stage = manifest.parent(stage, *DATA)
    except FedcliError:  # data that are no longer here
        facts.append(sorted(run.parents.values()))
    return json.dumps(facts, default=str)


def runs_in(path: Path) -> list[Path]:
    """A run, or the runs in a folder of runs or under a work folder. Raises FedcliError."""
    for name in ("run.json", "scores.json", "settings.json"):
        if (path / name).is_file():
            return [path]
    if not path.is_dir():
        return [path]
    paths = [*last_used.every(path, "run"), *last_used.every(path / "runs", "run")]
    runs = _readable(sorted(paths))
    for work in (path, path.absolute().parent):
        runs = not_chosen.without(runs, work)
    if not runs:
        hint = "give a run's folder, or a folder of runs"
        raise FedcliError(f"{path} holds no finished run", hint)
    return runs


def _readable(runs: list[Path]) -> list[Path]:
    """The runs but for those that are broken links, which are warned of."""
    readable = []
    for path in runs:
        try:
            readable.append(manifest.find(path))
        except FedcliError as error:
            console.warn(f"left out {path.parent}: {error.sentence}")
    return readable


def scores_under(work: Path, options: EvaluateOptions) -> list[Path]:
    """The scores of the newest run under a work folder and of all that can be compared with it.

    A run that cannot be evaluated, or whose scores cannot be read, is left out with a warning.

    Raises FedcliError, of the last of them, where no run is left.
    """
    thresholds(options.shots)  # one mistake, not one of every run
    return _collected(comparable_runs(work), options, skip=True)


def scores_of_all(paths: list[Path], options: EvaluateOptions) -> list[Path]:
    """The scores of these runs, each once; all are checked before any is evaluated.

    Raises FedcliError, HashError.
    """
    path_by_run: dict[Path, Path] = {}
    for path in paths:
        path_by_run.setdefault(_manifest_of(path).resolve(), path)
    runs = list(path_by_run.values())
    for path in runs:
        if _is_run(path) or path.name == "run.json":
            check(path, options)
    return _collected(runs, options, skip=False)


def scores_of(path: Path, options: EvaluateOptions, place: str = "") -> tuple[Path, bool]:
    """The scores.json of a run that these options ask for, and whether it was there before.

    place: of the run among several, which is shown with its name.
    """
    path = _manifest_of(path)
    if manifest.read(path, "run", "scores").kind == "scores":
        return path, False
    scores = existing(path, options)
    if scores:
        return scores, True
    if place:
        run = manifest.read(path)
        console.say(f"scoring {run.body['label']}, seed {run.options.get('seed')} ({place})")
    from ..scores.evaluate import evaluate  # imports torch, which existing scores do not need

    return evaluate(path, options), False


def _manifest_of(path: Path) -> Path:
    """The manifest of a run or of scores. Raises FedcliError."""
    if _is_run(path):
        path = path / "run.json"
    kinds = () if path.is_file() else ("scores",)
    return manifest.find(path, *kinds)


def _is_run(folder: Path) -> bool:
    """Tell whether it holds a run.json, be it a link that leads nowhere, which is complained of
    when it is read.
    """
    return folder.is_dir() and os.path.lexists(folder / "run.json")


def _scored_together(runs: list[Path], options: EvaluateOptions) -> list[Path]:
    """The runs that had no scores yet, scored here side by side."""
    lacking: dict[Path, Path] = {}  # a run, and its manifest
    for path in runs:
        with suppress(FedcliError, OSError):  # which is met again, and then told
            run = _manifest_of(path)
            if manifest.read(run).kind == "run" and existing(run, options) is None:
                lacking[path] = run
    if len(lacking) > 1:
        from . import scored_together  # imports torch, which existing scores do not need

        scored_together.score(list(lacking.values()), options)
    return list(lacking)


def _collected(
    runs: list[Path],
    options: EvaluateOptions,
    *,
    skip: bool,
) -> list[Path]:
    """The scores of all runs; those that were there before are counted rather than listed.

    skip: leave out a run that cannot be evaluated, or whose scores cannot be read, unless no other
        is left.
    """
    scored_now = _scored_together(runs, options)
    every: list[Path] = []
    existing_before = []
    for number, path in enumerate(runs, 1):
        place = f"{number} of {len(runs)}" if len(runs) > 1 else ""
        try:
            scores, is_existing = scores_of(path, options, place)
            if skip:
                RunScores.of(manifest.read(scores).body, scores)
        except (FedcliError, OSError) as error:
            # others' runs may be read, not scored
            is_skipped = isinstance(error, FedcliError) or error.errno in REFUSED
            is_last = path == runs[-1]
            if not skip or not is_skipped or (is_last and not every):
                raise
            console.warn(f"left out {path.parent}: {sentence(error)}")
            continue
        every.append(scores)
        if is_existing and path not in scored_now:
            existing_before.append(scores)
    if len(existing_before) == 1:
        console.say(f"already made: {existing_before[0].parent}")
    elif existing_before:
        console.say(f"{len(existing_before)} runs have been evaluated already")
    return every
