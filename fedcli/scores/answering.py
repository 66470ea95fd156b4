"""The models that answer for each image and for each client, and their logits.

One model answers, the global one. Where clients trained alone there is none: each image is shown to
the client whose own test part it is in, or, where images are not divided so, all of them to every
client. `--cross-site` asks every client's own model about every client's own test part: what one
hospital's model is worth at another.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import console
from ..data import manifest
from ..errors import FedcliError, UsageError
from ..runs import finished as runs
from ..runs.finished import FinishedRun
from .facts import ScoredImages, facts
from .parts import MODELS
from .predictions import Logits
from .scores import GLOBAL
from .table import TRAINED_AT, Table, Where

Array = np.ndarray
GLOBAL_MODEL = "global model"  # of a cross-site test


def predictions(run: FinishedRun, view: str | None = None) -> Logits:
    """Logits on every test set in every kept round; view None takes the method's first."""
    logits: Logits = {version: [] for version in run.data.test}
    turns = [(version, number) for version in run.data.test for number in run.rounds]
    label = f"evaluate ({view})" if view else "evaluate"
    for version, number in console.progress(turns, label=label, total=len(turns)):
        answers = answers_of(run, number, version, view)
        logits[version].append(answers)
    return logits


def answers_of(
    run: FinishedRun,
    kept_round: int | str,
    version: str,
    view: str | None = None,
) -> list[Array]:
    """Logits [N, C] of each model that answers, in one round."""
    shard = run.data.test[version]
    if not runs.trains_alone(run):
        return [runs.predict(run, kept_round, shard, view=view)]
    return runs.alone_logits(
        run.data,
        shard,
        lambda client, part: runs.predict(run, kept_round, part, client=client, view=view),
    )


@dataclass(frozen=True)
class ModelPanel:
    """A client's test images, and the models that answer for it.

    Attributes:
        version: of the test images. places: of its own test part; None for the whole test set.
        models: its name in the table, "" for the model that is reported -> whether the client's own
            model is asked, else its answers are among those of the run.
        alone: whether no other client has these models and images.
    """

    client: str
    version: str
    places: Array | None
    models: dict[str, bool]
    alone: bool

    def answers(
        self,
        run: FinishedRun,
        logits: Logits,
    ) -> Iterator[tuple[str, list[Array]]]:
        """Model -> logits [n, C] of each kept round.

        logits: the run's answers to the same test images.
        """
        images = slice(None) if self.places is None else self.places
        for model, has_own in self.models.items():
            if has_own:
                tables = self._own_answers(run)
            else:
                tables = self._answers_of_run(run, logits)
            yield model, [table[images] for table in tables]

    def _own_answers(self, run: FinishedRun) -> list[Array]:
        shard = run.data.test[self.version]
        return [runs.predict(run, number, shard, self.client) for number in run.rounds]

    def _answers_of_run(self, run: FinishedRun, logits: Logits) -> list[Array]:
        """The answers of this client's model among those of all clients, or of the one model."""
        row = run.data.roster.index(self.client)
        tables = []
        for models in logits[self.version]:
            tables.append(models[row] if len(models) > 1 else models[0])
        return tables


def panel(run: FinishedRun, client: str) -> ModelPanel:
    """The panel of a client: its own model where it has one, and the global one beside it."""
    part = run.data.client_test[client]
    has_part = len(part) > 0
    trains_alone = runs.trains_alone(run)
    models = {"": False}
    if trains_alone:
        # others answer in the run's table where test images are divided and this client has none
        models[""] = not has_part and runs.has_own_tests(run.data)
    elif runs.has_personal_models(run):
        models = {"": True, GLOBAL: False}
    version = MODELS[1] if client in run.data.corrupted else MODELS[0]
    alone = trains_alone or has_part or models[""]
    return ModelPanel(
        client,
        version,
        part if has_part else None,
        models,
        alone,
    )


def who_answers(run: FinishedRun) -> str:
    """A note for a reader where there is no global model; "" where there is one."""
    if not runs.trains_alone(run):
        return ""
    if runs.has_own_tests(run.data):
        return "every test image is scored by the model of the client whose own test part it is in"
    return "scores are means over the clients, each one's own model on the whole test set"


def check_cross_site(run: Path) -> None:
    """Refuse a run whose clients have no models or no test parts of their own.

    Raises FedcliError, UsageError.
    """
    trained = manifest.read(run, "run")
    has_own_models = (
        trained.options.get("single_site", False)
        or trained.options.get("bn") == "local"
        or trained.body["model"]["personal_models"]
    )
    if not has_own_models:
        raise UsageError(
            f"--cross-site compares clients' own models, and {run} has the global one alone",
            "train with --personal or --single-site, or a method that keeps models at the clients",
        )
    data = manifest.parent(run, "corruption", "partition")
    roster = manifest.read(data).body["roster"] if data else []
    if not any(client["test"] for client in roster):
        fault = f"the clients of {run} have no test parts of their own"
        raise FedcliError(fault, "partition --by an attribute")


def cross_site(run: FinishedRun, images: ScoredImages) -> Table:
    """Scores of the last round's models, of every client and the global one, on every test part."""
    shard = run.data.test["clean"]
    last = run.rounds[-1]
    models: list[str | None] = list(run.data.roster)
    if not runs.trains_alone(run):
        models.insert(0, None)
    table: Table = {}
    for model in console.progress(models, label="cross-site", total=len(models)):
        logits = runs.predict(run, last, shard, model)
        for client, part in run.data.client_test.items():
            if len(part):
                where = Where(
                    "clean",
                    client=client,
                    model=TRAINED_AT + (model or GLOBAL_MODEL),
                )
                table |= facts(where, images.at(part), [(last, [logits[part]])])
    return table
