"""fedcli compare."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from .. import console
from ..common_options import RUNS
from ..errors import UsageError
from ..options import Flag
from ..stages.evaluation_options import EvaluateOptions
from ..system import terminal
from .shell import common as o
from .shell.shown import show_json


def compare(
    runs: Annotated[
        Sequence[str],
        "runs or scores, or folders of runs, of two systems: a method in one setting, with one seed or several; "
        "default: all runs under --work",
        RUNS,
    ] = (),
    metric: Annotated[
        Sequence[str], "a score to compare, such as accuracy; may be repeated; default: two of them", Flag("NAME")
    ] = (),
    by: o.By = (),
    resamples: Annotated[int, "bootstrap resamples of the test patients, >= 100"] = 2000,
    interval: Annotated[
        Literal["percentile", "bca"],
        "95 % intervals of bootstrap resamples of the test patients: percentile, or bca, which takes longer",
    ] = "percentile",
    seed: o.Seed = 0,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
) -> None:
    """Compare the scores of two methods with tests.

    Their settings are compared first, then their scores, and then it is said what follows from the difference.

    Runs that differ in nothing but the seed are one system. The first run's system is A; differences are B - A. A run
    that has no scores yet is evaluated first.

    Example: fedcli compare fedcli-work/runs/fedavg-* fedcli-work/runs/fedheal-*
    """
    from ..compare.tested import check_names
    from ..compare.tested import compare as stage
    from ..reporting import comparison, writers
    from ..reporting.collect import Asked, runs_in, scores_of_all

    check_names(metric)
    paths = [path for run in runs or [str(work)] for path in runs_in(Path(run))]
    made_by = EvaluateOptions.from_flags({"by": by, "interval": interval}).made_by()
    asked = Asked(list(by), None, made_by, interval=interval)
    a, b = _two(scores_of_all(paths, asked))
    compared = stage(a, b, metrics=metric, resamples=resamples, seed=seed, interval=interval)
    if json:
        show_json(comparison.body(compared))
        return
    if differing := [[row["what"], row["a"], row["b"]] for row in compared.settings]:
        terminal.table(["setting", "A", "B"], differing)
        print()
    writers.show(comparison.table(compared))
    print("", *comparison.sentences(compared), *comparison.image_tests(compared), sep="\n")
    for note in comparison.notes(compared):
        console.warn(note)
    console.say(comparison.legend(compared))


def _two(scores: list[Path]) -> tuple[list[Path], list[Path]]:
    """The scores of the two systems. Raises UsageError where the runs are fewer or more."""
    from ..compare.systems import grouped, read

    systems = grouped(read(scores), lambda run: run.identity)
    if len(systems) == 1:
        raise UsageError(
            "these runs differ in nothing but the seed: they are one system", "give runs of another as well"
        )
    if len(systems) > 2:
        labels = ", ".join(runs[0].scores.label for runs in systems)
        raise UsageError(
            f"these runs are {len(systems)} systems, not two: {labels}",
            "give runs of two; fedcli report shows any number",
        )
    a, b = ([run.path for run in runs] for runs in systems)
    return a, b
