"""Runs by name: that of their folder, of their method, or their label, in place of a path."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from .. import console
from ..comparison.systems import REFERENCE, grouped
from ..data import last_used, manifest, not_chosen
from ..data.manifest import Manifest
from ..errors import FedcliError, UsageError, nearest
from ..natural import folded
from ..options import Source
from .collect import comparable_runs, runs_in

OF_METHOD = (  # options in which the runs of two names may differ
    "method",
    "rule",
    "settings",
    "code",
)


class NamedRun(NamedTuple):
    """A finished run under the work folder."""

    path: Path
    manifest: Manifest

    @property
    def names(self) -> tuple[str, str]:
        """Its method and its label."""
        return self.manifest.body["method"], self.manifest.body["label"]

    @property
    def data(self) -> str:
        """The hash of the data that it was trained on; of a run that continues another, that one's
        too.
        """
        return " ".join(sorted(self.manifest.parents.values()))

    def options(self, *without: str) -> str:
        """Its options but for the seed and these."""
        left_out = ("seed", *without)
        options = self.manifest.options.items()
        return repr(sorted((name, value) for name, value in options if name not in left_out))


NO_NAMES = "", "-", ".", ".."
RESULTS = "*.json", "*/*.json", "*/*/*.json"  # of a run, a folder of runs and a work folder
Key = Callable[[NamedRun], str]
Groups = dict[str, list[NamedRun]]  # the newest first, by key
ALIKE: tuple[Key, ...] = (  # of runs that can be compared, the closest first
    lambda run: run.data + run.options(*OF_METHOD),
    lambda run: run.data,
)


def is_name(source: Source) -> bool:
    """Tell whether a text is no path: a word, and no file or folder of results here has it."""
    word = os.fspath(source)
    is_path = word in NO_NAMES or os.sep in word or word.endswith(".json")
    return not is_path and not _is_here(Path(word))


def _is_here(path: Path) -> bool:
    """Tell whether there is something at a path, of folders those alone with results in them."""
    if not path.is_dir():
        return os.path.lexists(path)
    names = {*manifest.NAMES, "settings.json"}
    files = chain.from_iterable(path.glob(pattern) for pattern in RESULTS)
    return any(file.name in names and not _is_hidden(file, path) for file in files)


def _is_hidden(file: Path, folder: Path) -> bool:
    """Tell whether a file of a folder is in a hidden one, such as an editor's."""
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def is_known(word: str, work: Path) -> bool:
    """Tell whether a word is the name of a run, or of the folder of one that has not finished."""
    if not is_name(word):
        return False
    with suppress(FedcliError):
        return bool(_named(word, _finished(work), work))
    return (work / "runs" / word / "settings.json").is_file()


def newest(source: Source, work: Path) -> Path:
    """The run.json that a name means: of several of that name the newest, which is said.

    Raises FedcliError.
    """
    runs = _chosen(os.fspath(source), _finished(work), work)
    path = runs[0].path
    several = f", the newest of {len(runs)} runs of {source}" if len(runs) > 1 else ""
    console.say(f"using {path}{several}")
    return path


def every(sources: Sequence[Source], work: Path) -> list[Path]:
    """The runs, or scores, that paths, folders and names mean.

    A name means the runs of one system, which differ in the seed alone: of all names the newest on
    the same data and with the same options but those of the method, which are said. Raises
    FedcliError.
    """
    names = dict.fromkeys(os.fspath(source) for source in sources if is_name(source))
    runs_by_name = _comparable(list(names), work)
    paths = []
    for source in sources:
        runs = runs_by_name.get(os.fspath(source))
        paths += runs_in(Path(source)) if runs is None else runs
    return paths


def newest_two(work: Path) -> list[Path]:
    """The newest system under a work folder behind the one that it is compared with: FedAvg, or
    else the one before it; on the same data, with as many rounds and with all their seeds.

    Both are named where others are left out. Raises FedcliError.
    """
    paths = sorted(comparable_runs(work), key=last_used.age, reverse=True)
    runs = [NamedRun(path, manifest.read(path, "run")) for path in paths]
    systems = grouped(runs, lambda run: run.options())
    of_reference = [system for system in systems if system[0].names[0] == REFERENCE]
    of_others = [system for system in systems if system not in of_reference]
    compared = [*of_reference[:1], *of_others[:1]]
    if len(compared) < 2:  # all of FedAvg, or none
        compared = list(reversed(systems[:2]))
    left_out = [system[0].path.parent.name for system in systems if system not in compared]
    if left_out:
        names = [system[0].names[1] for system in compared]
        console.say(
            f"comparing the newest: {names[-1]} with {names[0]}; left out: "
            f"{console.shortened(', '.join(left_out))}; name two to compare others"
        )
    return [run.path for system in compared for run in system]


def _comparable(names: Sequence[str], work: Path) -> dict[str, list[Path]]:
    """The runs of each name that can be compared with those of the others. Raises FedcliError."""
    finished = _finished(work) if names else []
    runs_by_name = {name: _chosen(name, finished, work) for name in names}
    for key in ALIKE if names else ():
        groups_by_name = {name: _groups(runs, key) for name, runs in runs_by_name.items()}
        groups_of_names = list(groups_by_name.values())
        shared = set.intersection(*map(set, groups_of_names))
        if shared:
            # of a key's newest runs the oldest counts
            newest = max(shared, key=lambda shared_key: _age(shared_key, groups_of_names))
            return {
                name: _system(name, groups[newest], len(runs_by_name[name]))
                for name, groups in groups_by_name.items()
            }
    if any(len(runs) > 1 for runs in runs_by_name.values()):
        sentence = f"no runs of {' and '.join(names)} are of the same data"
        raise FedcliError(sentence, "train them on one partition, or give the folders of runs")
    return {name: [runs[0].path] for name, runs in runs_by_name.items()}


def _groups(runs: list[NamedRun], key: Key) -> Groups:
    """The runs of equal keys together, by key."""
    return {key(group[0]): group for group in grouped(runs, key)}


def _age(key: str, groups_of_names: list[Groups]) -> tuple[int, int, str]:
    """The age of the oldest of the newest runs that each name has of this key."""
    return min(last_used.age(groups[key][0].path) for groups in groups_of_names)


def _system(name: str, runs: list[NamedRun], count: int) -> list[Path]:
    """The newest run with those that differ from it in the seed alone, one for each seed.

    count: of all runs of the name.
    """
    options = runs[0].options()
    system = [run for run in reversed(runs) if run.options() == options]
    path_by_seed = {run.manifest.options.get("seed"): run.path for run in system}
    seeds = sorted(path_by_seed, key=str)
    word = "seed" if len(seeds) == 1 else "seeds"
    sentence = f"{name}: {runs[0].path.parent}, {word} {', '.join(map(str, seeds))}"
    others = count - len(seeds)
    if others > 0:
        sentence += f"; {console.counted(others, 'other run', 'other runs')} left out"
    console.say(sentence)
    return [path_by_seed[seed] for seed in seeds]


def _chosen(word: str, finished: list[NamedRun], work: Path) -> list[NamedRun]:
    """The finished runs of a name, in their order, but for those that a sweep did not choose,
    unless it is the folder of one.

    Raises FedcliError.
    """
    runs = _named(word, finished, work)
    if runs[0].path.parent.name == word:
        return runs
    paths = not_chosen.without([run.path for run in runs], work)
    return [run for run in runs if run.path in paths]


def _finished(work: Path) -> list[NamedRun]:
    """The finished runs under a work folder, the newest first; one that cannot be read is left out
    with a warning.
    """
    paths = sorted(
        last_used.every(work / "runs", "run"),
        key=last_used.age,
        reverse=True,
    )
    runs = []
    for path in filter(Path.is_file, paths):
        try:
            runs.append(NamedRun(path, manifest.read(path, "run")))
        except FedcliError as error:
            console.warn(f"left out {path.parent}: {error.sentence}")
    return runs


def _named(word: str, runs: list[NamedRun], work: Path) -> list[NamedRun]:
    """The runs of a name, in their order. Raises FedcliError."""
    folded_word = folded(word)
    in_folder = [run for run in runs if run.path.parent.name == word]
    of_name = [run for run in runs if folded_word in map(folded, run.names)]
    runs_of_word = in_folder or of_name or _of_method(word, runs)
    if runs_of_word:
        return runs_of_word
    for settings in last_used.unfinished(work / "runs"):
        if settings.parent.name == word:
            manifest.find(settings.parent, "run")  # says how to go on
    if Path(word).is_dir():
        raise FedcliError(
            f"the folder {word} holds no result, and no run under {work} has this name",
            "give a run's folder, or a folder of runs",
        )
    hint = "train one with `fedcli train METHOD`"
    if runs:
        methods = {run.names[0] for run in runs}
        labels = {run.names[1] for run in runs}
        folders = {run.path.parent.name for run in runs}
        hint = nearest(word, methods | labels | folders, folders)
    raise FedcliError(f"no such manifest: {word}, and no run under {work} has this name", hint)


def _of_method(word: str, runs: list[NamedRun]) -> list[NamedRun]:
    """The runs of a method, which may have other names."""
    from ..methods import resolve  # imports torch, which names that runs have do not need

    with suppress(UsageError):
        method = resolve(word).name
        return [run for run in runs if run.names[0] == method]
    return []
