"""Several methods and seeds trained on the same data, a cell for each; and which of the words typed are methods."""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any

from .. import console, extensions
from ..errors import UsageError, nearest
from ..methods import METHODS, resolve
from ..stages.options import TrainOptions
from ..stages.train import resolved
from .expand import Cell

OF_ONE = "name", "out", "force"  # options of train that are of one run


def methods_and_data(words: Sequence[str]) -> tuple[list[str], str | None]:
    """The methods among words, and the data: a path or -. Raises UsageError for two of these."""
    extensions.allow(words)
    data = [word for place, word in enumerate(words) if not _is_method(word, first=not place)]
    if len(data) > 1:
        raise UsageError(
            f"{data[0]} and {data[1]} are two manifests", "train on one of them, then on the other"
        )
    return [word for word in words if word not in data], next(iter(data), None)


def _is_method(word: str, *, first: bool) -> bool:
    """Tell whether a word names a method, be it mistyped. A file that has a method's name is written ./NAME."""
    if any(extensions.is_file(half) for half in word.split("+")):
        return True
    if word in ("", "-") or os.sep in word or word.endswith(".json"):
        return False
    try:
        resolve(word)
    except UsageError:
        known = get_close_matches(word.lower(), METHODS, 1, 0.6) or "+" in word
        return not Path(word).exists() and (first or bool(known))
    return True


def settings_of(methods: Sequence[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Method -> those of the given options that it has.

    Raises UsageError for an option that none of them has, and for a method that is named twice.
    """
    known = {
        name: {key for full in resolve(name).settings for key in (full, full.rpartition(".")[2])}
        for name in methods
    }
    if len({resolve(name).name for name in methods}) < len(methods):
        raise UsageError(f"one of {', '.join(methods)} is named twice", "name each method once")
    for key in given:
        having = [name for name in methods if key.rpartition(".")[2] in known[name]]
        if not having:
            what = f"none of {', '.join(methods)} has an option {key!r}"
            raise UsageError(what, nearest(key, {key for keys in known.values() for key in keys}))
        if len(having) < len(methods):
            console.say(f"--set {key} is an option of {', '.join(having)} alone")
    return {
        name: {key: value for key, value in given.items() if key.rpartition(".")[2] in known[name]}
        for name in methods
    }


def each_its_own(methods: Sequence[str], asked: TrainOptions) -> dict[str, TrainOptions]:
    """Method -> the options that it trains with. Raises UsageError for what is of one run."""
    if ignored := asked.changed(*OF_ONE):
        raise UsageError(
            f"--{ignored[0].typed} is of one run, and these are several",
            "leave it out, or train one run",
        )
    settings = settings_of(methods, asked.set)
    return {name: replace(asked, method=name, set=settings[name], jobs=None) for name in methods}


def cells(plans: Mapping[str, TrainOptions], seeds: Sequence[int], data: Path) -> list[Cell]:
    """A cell for each seed and method, which trains as `train METHOD` does by itself and is not scored.

    Raises FedcliError, UsageError.
    """
    whole: dict[str, TrainOptions] = {}
    for method, plan in plans.items():
        with (
            console.muted() if whole else nullcontext()
        ):  # what it has to say of the data is said once
            whole[method] = replace(plan, rounds=resolved(plan, data).rounds)
    return [
        Cell(resolve(method).label, "data", "", seed, (), replace(plan, seed=seed), None)
        for seed, (method, plan) in product(seeds, whole.items())
    ]
