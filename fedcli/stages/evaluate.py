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
    """Score a run on the clean and the corrupted test set, per client and per group.

    Raises FedcliError, UsageError.
    """
    _check(options)
    if options.engine:
        return _by_sites(options, options.engine)
    with own_metrics.asked_for(options.metric):
        path = score_run(source(options.run, options.work, "run"), options)
    if options.track is not None:
        from ..reporting import tracking

        tracked_in = tracking.evaluation(options.track, path, Path(options.work))
        console.say(f"tracked in {tracked_in}")
    if options.export:
        for table in to_csv(path):
            console.say(f"wrote {table}")
    return Scores(path)


evaluate = called_with("evaluate", EvaluateOptions, run)


def _check(options: EvaluateOptions) -> None:
    """Raise UsageError for options that cannot be, alone or together."""
    if options.export not in (None, "csv"):
        raise UsageError(f"--export {options.export!r} is unknown", "there is one: --export csv")
    if options.engine:
        for name in options.given("at_hand"):
            sentence = f"--{name.replace('_', '-')} and --engine exclude each other"
            raise UsageError(sentence, "sites score their own images with what they have")
    chooses_points = options.positive or options.rule or options.cost is not None
    if chooses_points and not options.clinical:
        sentence = "--positive, --rule and --cost choose operating points"
        raise UsageError(sentence, "add --clinical")
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


def _by_sites(options: EvaluateOptions, engine: str) -> Scores:
    """The scores of answers that sites have counted. Raises FedcliError, UsageError."""
    sites = remote(engine)
    if sites is None or sites[0].evaluate is None:
        hint = "write for example --engine socket:DIR"
        raise UsageError(f"--engine {engine!r} reaches no sites", hint)
    return Scores(sites[0].evaluate(source(options.run, options.work, "run"), options))
