"""fedcli compare and audit: what is said of finished runs."""

import sys

from .. import console
from ..scores.evaluation_options import AuditOptions, CompareOptions
from .shell.common import BriefJson, FailIf, Json, refuse_broken
from .shell.shown import show_json, show_tables


def compare(
    options: CompareOptions,
    fail_if: FailIf = (),
    json: BriefJson = "",
) -> None:
    """Compare the scores of two methods with tests.

    First their settings are compared, then their scores; conclusions follow.

    Runs that differ only in the seed count as one system. The first run's system is A; differences
    are B - A. A run without scores is evaluated first.

    Examples: fedcli compare fedavg fedheal; fedcli compare fedcli-work/runs/fedavg-*
    fedcli-work/runs/fedheal-*
    """
    from ..reporting import comparison, pipelines, writers
    from ..stages.compare import run as stage

    limits = pipelines.limits(fail_if, compares=True)
    with console.warnings_kept() as warnings:
        result = stage(options).comparison
    broken = pipelines.broken_by(limits, result)
    notes = comparison.notes(result)
    if json:
        facts = {"warnings": [*warnings, *notes], "broken": broken}
        if json == "full":
            show_json(comparison.body(result) | facts)
        else:
            texts = {"sentences": comparison.sentences(result)}
            show_json({**pipelines.of_comparison(result), **texts, **facts})
    else:
        writers.say([comparison.heading(result)])
        writers.show(comparison.table(result))
        writers.say([*comparison.remarks(result), comparison.legend(result)])
        for note in notes:
            console.warn(note)
    refuse_broken(broken)


def audit(options: AuditOptions, json: Json = False) -> None:
    """Measure what a run's models give away about its patients.

    The last models are attacked: which images were trained on, by their loss and, with --shadow, by
    LiRA; which hospital an image comes from; and images from the gradient of one batch. The results
    are shown next to the bounds of the run's differential privacy. The page of `fedcli report` has
    a section on them.

    Example: fedcli audit RUN --batch 2 --iterations 2000
    """
    from ..reporting import writers
    from ..stages import audit as stage

    result = stage.run(options)
    if json:
        show_json({"path": str(result.path), **result.body})
        return
    show_tables(result.tables(), sys.stderr)
    writers.say((f"{sentence}." for sentence in result.sentences()), sys.stderr)
    console.result(str(result.path))
