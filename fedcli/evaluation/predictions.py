"""Which model answers for which image: the logits behind every score, and their file.

    logits/<version>/<round>           float32 [N, C], as the method's first view shows the images
    logits/<version>@<view>/<round>    the same as another view shows them, which sees no image's group
    clients/<row>/logits/...           in place of both where every client of the roster answers for itself
    y, id, group/<attribute>           [N]

One model answers, the global one. Where clients trained alone there is none: each image is shown to the client whose
own test part it is in, or, where images are not divided so, all of them to every client.
"""

from pathlib import Path

import h5py
import numpy as np

from .. import console
from ..federation import run as runs
from ..federation.run import Run
from .rounds import Logits


def predictions(run: Run, view: str | None = None) -> Logits:
    """Logits on every test set in every kept round; view None takes the method's first."""
    turns = [(version, round) for version in run.data.test for round in run.rounds]
    logits: Logits = {version: [] for version in run.data.test}
    label = f"evaluate ({view})" if view else "evaluate"
    for version, round in console.progress(turns, label=label, total=len(turns)):
        logits[version].append(_answers(run, round, version, view))
    return logits


def _answers(run: Run, round: int, version: str, view: str | None) -> list[np.ndarray]:
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
    """What a reader must know where there is no global model; "" where there is one."""
    if not runs.trains_alone(run):
        return ""
    if runs.has_own_tests(run.data):
        return "every test image is scored by the model of the client whose own test part it is in"
    return "scores are means over the clients, each one's own model on the whole test set"


def write(path: Path, run: Run, views: dict[str, Logits]) -> None:
    """Write predictions.h5. views: "" for the first, else by name."""
    test = run.data.test["clean"]
    with h5py.File(path, "w") as file:
        for view, logits in views.items():
            for version, answers in logits.items():
                for round, tables in zip(run.rounds, answers, strict=True):
                    for row, table in enumerate(tables):
                        place = f"clients/{row}/" if len(tables) > 1 else ""
                        file[f"{place}logits/{version}{view and '@' + view}/{round}"] = table.astype(np.float32)
        file["y"] = test.y.cpu().numpy().astype(np.int16)
        file["id"] = np.char.encode(test.ids, "utf-8")
        for name in run.data.attributes:
            file[f"group/{name}"] = test.groups[name].cpu().numpy().astype(np.int16)
