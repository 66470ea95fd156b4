"""Runs by name: that of their folder, of their method, or their label, in place of a path."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .. import console
from ..comparison.systems import grouped
from ..data import last_used, manifest
from ..data.manifest import Manifest
from ..errors import FedcliError, UsageError, nearest
from ..options import Source
from .collect import runs_in

OF_METHOD = (
    "method",
    "rule",
    "settings",
    "code",
)  # options in which the runs of two names may differ


class Known(NamedTuple):
    """A finished run under the work folder."""

    path: Path
    made: Manifest

    @property
    def names(self) -> tuple[str, str]:
        """Its method and its label."""
        return self.made.body["method"], self.made.body["label"]

    @property
    def age(self) -> tuple[int, int, str]:
        return last_used.age(self.path)

    @property
    def seed(self) -> object:
        return self.made.options.get("seed")

    @property
    def data(self) -> str:
        """The hash of the data that it was trained on; of a run that continues another, that one's too."""
        return " ".join(sorted(self.made.parents.values()))

    def options(self, *without: str) -> str:
        """Its options but for the seed and these."""
        return repr(
            sorted((k, v) for k, v in self.made.options.items() if k not in ("seed", *without))
        )


ALIKE: tuple[Callable[[Known], str], ...] = (
    lambda run: run.data + run.options(*OF_METHOD),
    lambda run: run.data,
)


def is_name(given: Source) -> bool:
    """Tell whether a text is no path: a word, and nothing of that name is here."""
    word = os.fspath(given)
    return not (
        word in ("", "-") or os.sep in word or word.endswith(".json") or os.path.lexists(word)
    )


def is_known(word: str, work: Path) -> bool:
    """Tell whether a word is the name of a run."""
    with suppress(FedcliError):
        return bool(is_name(word) and _called(word, work))
    return False


def newest(given: Source, work: Path) -> Path:
    """The run.json that a name means: of several of that name the newest, which is said. Raises FedcliError."""
    runs = _called(os.fspath(given), work)
    several = f", the newest of {len(runs)} runs of {given}" if len(runs) > 1 else ""
    console.say(f"using {runs[0].path}{several}")
    return runs[0].path


def every(given: Sequence[Source], work: Path) -> list[Path]:
    """The runs, or scores, that paths, folders and names mean.

    A name means the runs of one system, which differ in the seed alone: of all names the newest on the same data and
    with the same options but those of the method, which are said. Raises FedcliError.
    """
    names = list(dict.fromkeys(os.fspath(each) for each in given if is_name(each)))
    chosen = dict(zip(names, _alike(names, work), strict=True))
    return [
        path
        for each in given
        for path in (chosen[os.fspath(each)] if os.fspath(each) in chosen else runs_in(Path(each)))
    ]


def _alike(names: Sequence[str], work: Path) -> list[list[Path]]:
    called = [_called(name, work) for name in names]
    for alike in ALIKE:
        of = [{alike(runs[0]): runs for runs in grouped(each, alike)} for each in called]
        if shared := [key for key in of[0] if all(key in each for each in of)] if of else []:
            key = max(shared, key=lambda key: min(each[key][0].age for each in of))
            return [
                _system(name, each[key], len(runs))
                for name, each, runs in zip(names, of, called, strict=True)
            ]
    if any(len(runs) > 1 for runs in called):
        what = f"no runs of {' and '.join(names)} are of the same data"
        raise FedcliError(what, "train them on one partition, or give the folders of runs")
    return [[runs[0].path] for runs in called]


def _system(name: str, runs: list[Known], known: int) -> list[Path]:
    """The newest run with those that differ from it in the seed alone, one for each seed."""
    system = {run.seed: run for run in reversed(runs) if run.options() == runs[0].options()}
    seeds = sorted(system, key=str)
    word = "seed" if len(seeds) == 1 else "seeds"
    left_out = (
        f"; {console.counted(known - len(seeds), 'other run', 'other runs')} left out"
        if known > len(seeds)
        else ""
    )
    console.say(f"{name}: {runs[0].path.parent}, {word} {', '.join(map(str, seeds))}{left_out}")
    return [system[seed].path for seed in seeds]


def _called(word: str, work: Path) -> list[Known]:
    """The finished runs of a name, the newest first. Raises FedcliError."""
    paths = sorted(last_used.every(work / "runs", "run"), key=last_used.age, reverse=True)
    runs = [Known(path, manifest.read(path, "run")) for path in paths if path.is_file()]
    if own := [run for run in runs if run.path.parent.name == word]:
        return own
    if named := [run for run in runs if _folded(word) in map(_folded, run.names)]:
        return named
    from ..methods import resolve  # imports torch, which names that runs have do not need

    with suppress(UsageError):
        method = resolve(word).name  # it may have other names
        if named := [run for run in runs if run.names[0] == method]:
            return named
    every = {name for run in runs for name in (*run.names, run.path.parent.name)}
    hint = (
        nearest(word, every, {run.names[0] for run in runs})
        if runs
        else "train one with `fedcli train METHOD`"
    )
    raise FedcliError(f"no such manifest: {word}, and no run under {work} is called so", hint)


def _folded(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum() or c == "+")
