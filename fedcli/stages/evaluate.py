"""The evaluate stage."""

from pathlib import Path

from .. import console, leaves
from ..errors import UsageError, nearest
from ..federation.engines import remote
from ..scores import own_metrics
from ..scores.choice import check_rule
from ..scores.deploy.adaptation import ADAPTATIONS
from ..scores.evaluate import evaluate as score_run
from ..scores.evaluation_options import EvaluateOptions
from ..scores.predictions import to_csv
from .call import called_with, source
from .results import Scores


def run(options: EvaluateOptions) -> Scores:
    """Score a run on the clean and the corrupted test set, per client and per group. Raises FedcliError, UsageError."""
    if options.export not in (None, "csv"):
        raise UsageError(f"--export {options.export!r} is unknown", "there is one: --export csv")
    here = [
        flag
        for flag in ("on", "adapt", "cross_site", "clinical", "choose", "metric", "track")
        if getattr(options, flag)
    ]
    if options.engine and here:
        flag = here[0].replace("_", "-")
        raise UsageError(
            f"--{flag} and --engine exclude each other",
            "sites score their own images with what they have",
        )
    if (options.positive or options.rule or options.cost is not None) and not options.clinical:
        raise UsageError("--positive, --rule and --cost choose operating points", "add --clinical")
    for name in options.adapt:
        if name not in ADAPTATIONS:
            raise UsageError(f"--adapt {name!r} is unknown", nearest(name, ADAPTATIONS))
    check_rule(options.choose)
    if options.track is not None:
        leaves.require("fedcli.reporting.tracking", "--track")
        from ..reporting import tracking

        tracking.check(options.track)
    if options.cross_site and options.on:
        raise UsageError("--cross-site is about the clients' own test images", "leave --on out")
    if options.engine:
        reached = remote(options.engine)
        if reached is None or reached[0].evaluate is None:
            raise UsageError(
                f"--engine {options.engine!r} reaches no sites",
                "write for example --engine socket:DIR",
            )
        return Scores(reached[0].evaluate(source(options.run, options.work, "run"), options))
    with own_metrics.asked_for(options.metric):
        path = score_run(source(options.run, options.work, "run"), options)
    if options.track is not None:
        place = tracking.evaluation(options.track, path, Path(options.work))
        console.say(f"tracked in {place}")
    for table in to_csv(path) if options.export else []:
        console.say(f"wrote {table}")
    return Scores(path)


evaluate = called_with("evaluate", EvaluateOptions, run)
