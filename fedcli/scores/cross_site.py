"""Every client's own model on every client's own test part: what one hospital's model is worth at another."""

from pathlib import Path

from .. import console
from ..data import manifest
from ..errors import FedcliError, UsageError
from ..metrics import Groupings, groupings_at
from ..runs import finished as runs
from ..runs.finished import Run
from .parts import Score

GLOBAL = "global model"
CrossSite = dict[str, dict[str, Score]]  # whose model -> whose test part


def check(run: Path) -> None:
    """Refuse a run whose clients have no models or no test parts of their own. Raises FedcliError, UsageError."""
    whole = manifest.read(run, "run")
    alone = whole.options.get("single_site", False)
    if not (alone or whole.options.get("bn") == "local" or whole.body["model"]["personal_models"]):
        raise UsageError(
            f"--cross-site compares clients' own models, and {run} has the global one alone",
            "train with --personal or --single-site, or a method that keeps models at the clients",
        )
    data = manifest.parent(run, "corruption", "partition")
    if data is None or not any(client["test"] for client in manifest.read(data).body["roster"]):
        raise FedcliError(f"the clients of {run} have no test parts of their own", "partition --by an attribute")


def scores(run: Run, groupings: Groupings) -> CrossSite:
    """Scores of the last round's models on the clean test images."""
    shard = run.data.test["clean"]
    y, parts = shard.y.cpu().numpy(), {client: at for client, at in run.data.client_test.items() if len(at)}
    here = {client: groupings_at(groupings, at) for client, at in parts.items()}
    models = [None, *run.data.roster] if not runs.trains_alone(run) else run.data.roster
    made: CrossSite = {}
    for client in console.progress(models, label="cross-site", total=len(models)):
        table = runs.predict(run, run.rounds[-1], shard, client)
        made[client or GLOBAL] = {tested: Score.of(table[at], y[at], here[tested]) for tested, at in parts.items()}
    return made
