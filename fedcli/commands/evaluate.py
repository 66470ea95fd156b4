"""fedcli evaluate."""

import sys
from dataclasses import asdict

from ..stages.evaluation_options import EvaluateOptions
from . import options as o
from .declare import command
from .shown import show_groups, show_rows, show_tables


@command(EvaluateOptions)
def evaluate(options: EvaluateOptions, json: o.Json = False, quiet: o.Quiet = False, debug: o.Debug = False) -> None:
    """Score a run on the clean and the corrupted test set, per client and per group.

    Examples: fedcli evaluate --by sex --by 'sex*age'; fedcli evaluate --shots 700,70; fedcli evaluate --export csv;
    fedcli evaluate --corrupt gaussian --severity 1..5; fedcli evaluate --clinical;
    fedcli evaluate --on fedcli-work/datasets/*/dataset.json
    """
    from ..reporting import choice, clinical, cross_site, severities
    from ..reporting.columns import SHOWN
    from ..reporting.rows import rows
    from ..stages import evaluate as stage

    scores = stage.run(options)
    if not quiet:
        own = list(scores.manifest.options.get("metrics", {}))
        lines = rows([scores.path], metrics=[*SHOWN, *own])
        show_rows(lines, sys.stderr)
        show_groups(scores.path, sys.stderr, own)
        known = [("", lines[0].scores)]
        points = clinical.tables(known) if options.clinical else ()  # not those of another evaluation of the run
        parts = choice.tables(lines), severities.tables(known), cross_site.tables(known), points
        show_tables([table for part in parts for table in part], sys.stderr)
    if json:
        o.show_json({"path": str(scores.path), "manifest": {**asdict(scores.manifest), "body": scores.body}})
    else:
        o.show(scores.path, json)
