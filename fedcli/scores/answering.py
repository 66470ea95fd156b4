"""The models that answer for each image and for each client, and their logits.

One model answers, the global one. Where clients trained alone there is none: each image is shown to the client whose
own test part it is in, or, where images are not divided so, all of them to every client.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import console
from ..runs import finished as runs
from ..runs.finished import Run
from .parts import MODELS
from .predictions import Logits
from .scores import GLOBAL


def predictions(run: Run, view: str | None = None) -> Logits:
    """Logits on every test set in every kept round; view None takes the method's first."""
    turns = [(version, round) for version in run.data.test for round in run.rounds]
    logits: Logits = {version: [] for version in run.data.test}
    label = f"evaluate ({view})" if view else "evaluate"
    for version, round in console.progress(turns, label=label, total=len(turns)):
        logits[version].append(answers_of(run, round, version, view))
    return logits


def answers_of(
    run: Run, round: int | str, version: str, view: str | None = None
) -> list[np.ndarray]:
    """Logits [N, C] of each model that answers, in one round."""
    shard = run.data.test[version]
    if not runs.trains_alone(run):
        return [runs.predict(run, round, shard, view=view)]
    return runs.alone_logits(
        run.data,
        shard,
        lambda client, part: runs.predict(run, round, part, client=client, view=view),
    )


@dataclass(frozen=True)
class Panel:
    """A client's test images, and the models that answer for it.

    Attributes:
        version: of the test images. places: of its own test part; None for the whole test set.
        models: its name in the table, "" for the model that is reported -> whether the client's own model is asked,
            else its answers are among those of the run.
        alone: whether no other client has these models and images.
    """

    client: str
    version: str
    places: np.ndarray | None
    models: dict[str, bool]
    alone: bool

    def answers(self, run: Run, logits: Logits) -> Iterator[tuple[str, list[np.ndarray]]]:
        """Model -> logits [n, C] of each kept round. logits: the run's answers to the same test images."""
        at = slice(None) if self.places is None else self.places
        for model, asked in self.models.items():
            if asked:
                shard = run.data.test[self.version]
                tables = [runs.predict(run, round, shard, self.client) for round in run.rounds]
            else:
                row = run.data.roster.index(self.client)
                tables = [models[row if len(models) > 1 else 0] for models in logits[self.version]]
            yield model, [table[at] for table in tables]


def panel(run: Run, client: str) -> Panel:
    """Those of a client: its own model where it has one, and the global one beside it."""
    part, alone = run.data.client_test[client], runs.trains_alone(run)
    if alone:  # others answer in the run's one table where test images are divided and this client has none
        models = {"": not len(part) and runs.has_own_tests(run.data)}
    else:
        models = {"": True, GLOBAL: False} if runs.has_personal_models(run) else {"": False}
    version = MODELS[client in run.data.corrupted]
    return Panel(
        client, version, part if len(part) else None, models, alone or bool(len(part)) or models[""]
    )


def who_answers(run: Run) -> str:
    """A note for a reader where there is no global model; "" where there is one."""
    if not runs.trains_alone(run):
        return ""
    if runs.has_own_tests(run.data):
        return "every test image is scored by the model of the client whose own test part it is in"
    return "scores are means over the clients, each one's own model on the whole test set"
