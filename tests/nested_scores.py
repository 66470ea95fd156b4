"""Scores of tests, in their nested form: written as evaluate writes them, and read as people do."""

import numpy as np

from fedcli.data import manifest
from fedcli.scores.from_nested import from_nested
from fedcli.scores.nested import nested
from fedcli.scores.scores import Scores


def staged(folder, body, *, write=lambda folder: None, options=None, parents=()):
    """A scores.json with the table beside it; write: what else lies there."""

    def build(temporary):
        write(temporary)
        return from_nested(ABOUT | body).write(temporary)

    return manifest.stage(
        "scores", folder=folder, made_by=["evaluate"], options=options or {}, parents=list(parents), build=build
    )


ABOUT = {
    "method": "m", "label": "M", "rule": "paper", "settings": {}, "options": {}, "dataset": "d", "data": {},
    "rounds": 2, "roster_size": 3,
}  # fmt: skip


def over(*values):
    """One metric over the kept rounds, in the nested form."""
    known = None if None in values else values
    std = float(np.std(known)) if known and len(known) > 1 else None
    return {"last": values[-1], "mean_last5": known and float(np.mean(known)), "std_last5": std, "per_round": [*values]}


def scores_of(body):
    """Scores from their nested form."""
    return from_nested(ABOUT | body)


def body_of(path):
    """All numbers of a scores.json as one nested object."""
    return nested(Scores.read(path))
