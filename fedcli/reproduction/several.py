"""Several methods and seeds trained on the same data, a cell for each."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from .. import console
from ..errors import UsageError, nearest
from ..methods import resolve
from ..stages.options import TrainOptions
from ..stages.train import resolved
from .expand import RecipeCell

OF_ONE = "name", "out", "force"  # options of train that are of one run


def settings_of(methods: Sequence[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Method -> those of the settings that it has.

    Raises UsageError for an option that none of them has, and for a method that is named twice.
    """
    keys_of = {name: _keys(name) for name in methods}
    if len({resolve(name).name for name in methods}) < len(methods):
        raise UsageError(f"one of {', '.join(methods)} is named twice", "name each method once")
    for key in settings:
        owners = [name for name in methods if _last_word(key) in keys_of[name]]
        if not owners:
            sentence = f"none of {', '.join(methods)} has an option {key!r}"
            all_keys = set().union(*keys_of.values())
            raise UsageError(sentence, nearest(key, all_keys))
        if len(owners) < len(methods):
            owners_text = ", ".join(owners)
            console.say(f"--set {key} is an option of {owners_text} alone")
    settings_by_method: dict[str, dict[str, Any]] = {}
    for name in methods:
        settings_by_method[name] = {}
        for key, value in settings.items():
            if _last_word(key) in keys_of[name]:
                settings_by_method[name][key] = value
    return settings_by_method


def _keys(method: str) -> set[str]:
    """The options of a method by which a user may name them: in full, or without the part before
    the dot."""
    keys = set(resolve(method).settings)
    return keys | {_last_word(key) for key in keys}


def _last_word(key: str) -> str:
    return key.rpartition(".")[2]


def each_its_own(methods: Sequence[str], options: TrainOptions) -> dict[str, TrainOptions]:
    """Method -> the options that it trains with. Raises UsageError for what is of one run."""
    ignored = options.changed(*OF_ONE)
    if ignored:
        raise UsageError(
            f"--{ignored[0].typed} is of one run, and these are several",
            "leave it out, or train one run",
        )
    settings = settings_of(methods, options.set)
    return {name: replace(options, method=name, set=settings[name], jobs=None) for name in methods}


def cells(
    plans: Mapping[str, TrainOptions],
    seeds: Sequence[int],
    data: Path,
) -> list[RecipeCell]:
    """A cell for each seed and method, which trains as `train METHOD` does by itself and is not
    scored.

    data: also what the sites of --sites were gathered into.
    Raises FedcliError, UsageError.
    """
    whole: dict[str, TrainOptions] = {}
    for method, plan in plans.items():
        # what the first has to say of the data is said once
        with console.muted() if whole else nullcontext():
            of_data = replace(plan, data=None, sites=[])
            whole[method] = replace(of_data, rounds=resolved(of_data, data).rounds)
    cells = []
    for seed, method in product(seeds, whole):
        label = resolve(method).label
        train = replace(whole[method], seed=seed)
        cells.append(RecipeCell(label, "data", "", seed, (), train, None))
    return cells
