"""The model that answers for each image, and its logits.

One model answers, the global one. Where clients trained alone there is none: each image is shown to the client whose
own test part it is in, or, where images are not divided so, all of them to every client.
"""

import numpy as np

from .. import console
from ..runs import finished as runs
from ..runs.finished import Run
from .rounds import Logits


def predictions(run: Run, view: str | None = None) -> Logits:
    """Logits on every test set in every kept round; view None takes the method's first."""
    turns = [(version, round) for version in run.data.test for round in run.rounds]
    logits: Logits = {version: [] for version in run.data.test}
    label = f"evaluate ({view})" if view else "evaluate"
    for version, round in console.progress(turns, label=label, total=len(turns)):
        logits[version].append(answers_of(run, round, version, view))
    return logits


def answers_of(run: Run, round: int | str, version: str, view: str | None = None) -> list[np.ndarray]:
    """Logits [N, C] of each model that answers, in one round."""
    shard = run.data.test[version]
    if not runs.trains_alone(run):
        return [runs.predict(run, round, shard, view=view)]
    return runs.alone_logits(
        run.data, shard, lambda client, part: runs.predict(run, round, part, client=client, view=view)
    )


def of_client(run: Run, answers: list[list[np.ndarray]], client: str) -> list[np.ndarray]:
    """One client's own answers, or those of the one model that answers for it, in each kept round."""
    row = run.data.roster.index(client)
    return [tables[row if len(tables) > 1 else 0] for tables in answers]


def who_answers(run: Run) -> str:
    """A note for a reader where there is no global model; "" where there is one."""
    if not runs.trains_alone(run):
        return ""
    if runs.has_own_tests(run.data):
        return "every test image is scored by the model of the client whose own test part it is in"
    return "scores are means over the clients, each one's own model on the whole test set"
