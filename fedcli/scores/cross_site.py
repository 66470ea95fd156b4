"""Every client's own model on every client's own test part: what one hospital's model is worth at another."""

from pathlib import Path

from .. import console
from ..data import manifest
from ..errors import FedcliError, UsageError
from ..runs import finished as runs
from ..runs.finished import Run
from .facts import Images, facts
from .table import TRAINED_AT, Table, Where

GLOBAL = "global model"


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
        raise FedcliError(
            f"the clients of {run} have no test parts of their own", "partition --by an attribute"
        )


def lines(run: Run, images: Images) -> Table:
    """Scores of the last round's models on the clean test images."""
    shard, last = run.data.test["clean"], run.rounds[-1]
    parts = {client: at for client, at in run.data.client_test.items() if len(at)}
    models = [None, *run.data.roster] if not runs.trains_alone(run) else run.data.roster
    table: Table = {}
    for model in console.progress(models, label="cross-site", total=len(models)):
        logits = runs.predict(run, last, shard, model)
        for tested, at in parts.items():
            where = Where("clean", client=tested, model=TRAINED_AT + (model or GLOBAL))
            table |= facts(where, images.at(at), [(last, [logits[at]])])
    return table
