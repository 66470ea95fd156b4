"""fedcli audit."""

import sys

from .. import console
from ..stages.evaluation_options import AuditOptions
from .shell.common import Json
from .shell.shown import show_json, show_tables


def audit(options: AuditOptions, json: Json = False) -> None:
    """Measure what the models of a run give away about its patients.

    Three attacks are made on the last models: which images were trained on, by their loss and, with --shadow, by LiRA;
    which hospital an image is of; and images from the gradient of one batch. Beside them stands what the run's
    differential privacy allows. The page of `fedcli report` has a section on it.

    Example: fedcli audit RUN --batch 2 --iterations 2000
    """
    from ..stages import audit as stage

    made = stage.run(options)
    if json:
        show_json({"path": str(made.path), **made.body})
        return
    show_tables(made.tables(), sys.stderr)
    console.result(str(made.path))
