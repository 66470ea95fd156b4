"""The evaluate stage."""

from .. import console, extensions
from ..errors import UsageError
from ..evaluation import own_metrics
from ..evaluation.evaluate import evaluate as score_run
from ..evaluation.export import to_csv
from . import at_sites
from .call import called_with, path_of, source
from .evaluation_options import EvaluateOptions
from .results import Scores


def run(options: EvaluateOptions) -> Scores:
    """Score a run on the clean and the corrupted test set, per client and per group. Raises FedcliError, UsageError."""
    if options.export not in (None, "csv"):
        raise UsageError(f"--export {options.export!r} is unknown", "there is one: --export csv")
    if options.engine:
        return Scores(at_sites.evaluate(source(options.run, options.work, "run"), options, path_of(options.out)))
    with extensions.given(options.code), own_metrics.asked_for(options.metric):
        path = score_run(
            source(options.run, options.work, "run"), by=list(options.by), shots=options.shots,
            out=path_of(options.out), device=options.device, made_by=options.made_by(), corrupt=options.corrupt,
            severity=options.severity,
        )  # fmt: skip
    for table in to_csv(path) if options.export else []:
        console.say(f"wrote {table}")
    return Scores(path)


evaluate = called_with("evaluate", EvaluateOptions, run)
