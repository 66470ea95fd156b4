"""Answers of a site on a model and its own test images: tallies of all, and of each group, without small cells.

The images of a class with fewer than `smallest` of them are left out of all tallies, and those of a class in a group
out of that attribute's tallies; see description.hidden() for what is left out beside them.
"""

import numpy as np

from ..data.shard import Shard
from ..federation.engines.wire import Arrays
from .description import hidden
from .tallies import Tally

ALL = "all"
Tallies = dict[str, Tally]  # ALL, or "attribute/place of the value" -> the tally


def tallied(logits: np.ndarray, shard: Shard, attributes: dict[str, list[str]], smallest: int) -> tuple[Tallies, int]:
    """Tallies of logits [N, C] on a shard, and how many images are in none of them."""
    y = shard.y.cpu().numpy()
    shown = ~_in_hidden_cell(y, smallest)  # [N]
    made = {ALL: Tally.of(logits[shown], y[shown])}
    for name, values in attributes.items():
        groups = shard.groups[name].cpu().numpy()
        known = shown.copy()
        for c in np.unique(y):
            known[y == c] &= ~_in_hidden_cell(groups[y == c], smallest)
        for g in range(len(values)):
            at = known & (groups == g)
            made[f"{name}/{g}"] = Tally.of(logits[at], y[at])
    return made, int((~shown).sum())


def _in_hidden_cell(values: np.ndarray, smallest: int) -> np.ndarray:
    """Marks of images with a value, class or group [N], that too few others have: bool [N]."""
    cells = {str(value): int((values == value).sum()) for value in np.unique(values)}
    return np.isin(values, [int(value) for value, count in hidden(cells, smallest).items() if count is None])


def to_arrays(versions: dict[str, Tallies]) -> Arrays:
    """As they are sent: "clean/sex/0/table" and so on."""
    return {
        f"{version}/{key}/{name}": array
        for version, tallies in versions.items()
        for key, tally in tallies.items()
        for name, array in tally.arrays().items()
    }


def keys(attributes: dict[str, list[str]]) -> list[str]:
    """Of the tallies of these attributes."""
    return [ALL, *(f"{name}/{g}" for name, values in attributes.items() for g in range(len(values)))]
