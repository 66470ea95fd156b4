"""fedcli compare."""

from .. import console
from ..stages.evaluation_options import CompareOptions
from .shell.common import Json
from .shell.shown import show_json


def compare(options: CompareOptions, json: Json = False) -> None:
    """Say in what two systems differ, in settings and then in scores, and what can be said of the difference.

    Runs that differ in nothing but the seed are one system. The first run's system is A; differences are B - A. A run
    that has no scores yet is evaluated first.

    Examples: fedcli compare fedavg fedheal; fedcli compare fedcli-work/runs/fedavg-* fedcli-work/runs/fedheal-*
    """
    from ..reporting import comparison, writers
    from ..stages.compare import run as stage

    compared = stage(options).comparison
    if json:
        show_json(comparison.body(compared))
        return
    writers.say([comparison.heading(compared)])
    writers.show(comparison.table(compared))
    writers.say([*comparison.remarks(compared), comparison.legend(compared)])
    for note in comparison.notes(compared):
        console.warn(note)
