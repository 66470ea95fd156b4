"""The raw folder of a dataset where none is named: by an environment variable, in the folder at
hand, or made up.

A synthetic sample holds SYNTHETIC_SAMPLE.txt, by which prepare knows it; everything made from it
says `sample: true`.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ... import console
from ...errors import UsageError
from ...io.locks import remove_abandoned, renaming
from .. import sources
from ..prepare_options import PrepareOptions

SAMPLE_SIZE = 32  # pixels; the made-up pictures have no finer detail
VARIABLE = "FEDCLI_RAW"  # names a folder that holds a folder for each dataset


def _parents() -> list[Path]:
    """The folders that may hold that of a dataset, the first choice first."""
    parents = [Path("raw"), Path()]
    folder = os.environ.get(VARIABLE)
    if folder:
        parents.insert(0, Path(folder))
    return parents


def search(name: str) -> Path | None:
    """The first folder that bears a dataset's name, or another way to write it, such as HAM10000;
    said in a line."""
    name = sources.plain(name)
    for parent in _parents():
        folder = _folder_in(parent, name)
        if folder:
            console.say(f"raw folder of {name}: {folder}")
            return folder
    return None


def _folder_in(parent: Path, name: str) -> Path | None:
    exact = parent / name
    if exact.is_dir():
        return exact
    if not parent.is_dir():
        return None
    for folder in sorted(parent.iterdir()):
        if folder.is_dir() and sources.means(folder.name) == name:
            return folder
    return None


def with_raw_folder(options: PrepareOptions) -> PrepareOptions:
    """The options with the raw folder to prepare; without one for a dataset that reads no files.

    Where no folder is named or found, it is a synthetic sample under the work folder, after a
    warning that `sample` leaves out. A sample brings its own size, since its pictures are small,
    and a table of its patients' attributes. Raises UsageError where there is none and no sample is
    wanted.
    """
    if options.sample and options.raw:
        raise UsageError("--sample and --raw exclude each other", "give one of them")
    name = options.name
    if options.raw or not sources.source(name).files:
        return options
    folder = _folder_of(options)
    options = replace(options, raw=folder)
    if not sources.is_sample(folder):
        return options
    table = folder / sources.SAMPLE_ATTRIBUTES
    if options.attributes is None and table.is_file():
        options = replace(options, attributes=table)
    return replace(options, size=options.size or min(SAMPLE_SIZE, sources.card(name)["size"]))


def _folder_of(options: PrepareOptions) -> Path:
    """The folder that bears the dataset's name, or one with a synthetic sample."""
    name = options.name
    work = Path(options.work)
    if options.sample:
        return usual_sample(name, work)
    folder = search(name)
    if folder:
        return folder
    card = sources.card(name)
    has_sample = card["classes"] and sources.source(name).sample is not None
    if options.sample is False or os.environ.get(VARIABLE) or not has_sample:
        hint = f"give --raw DIR; the files come from {card['where']}"
        raise UsageError(f"{name} needs the folder of its files: {_places(name)}", hint)
    console.warn(f"no files of {name}: {_places(name)}. {_about_sample(name, card)}")
    return usual_sample(name, work)


def _about_sample(name: str, card: dict[str, Any]) -> str:
    side = min(SAMPLE_SIZE, card["size"])
    real_data = f"{card['title']}; licence: {card['licence']}; from {card['where']}"
    return (
        "Going on with a SYNTHETIC sample in its layout: no number made from it says anything "
        f"about patients; pictures are {side} pixels wide. The real data: {real_data}; "
        f"`fedcli datasets {name}` shows the layout; give their folder with --raw DIR"
    )


def usual_sample(name: str, work: Path) -> Path:
    """A synthetic sample of as many images as the default clients need, made once under the work
    folder."""
    code = sources.find(name).code  # two files, or two versions of one, may use the same name
    version = f"-{code.sha256[:12]}" if code and code.sha256 else ""
    folder = work / "samples" / f"{sources.plain(name)}{version}-usual"
    sample_in(name, folder, usual=True)
    return folder


def sample_in(name: str, folder: Path, *, usual: bool = False) -> bool:
    """Write a dataset's synthetic sample to a folder; False where it is there already."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with renaming(folder):  # two processes may want it at once
        is_absent = not folder.exists()
        if is_absent:
            sources.make_sample(name, folder, usual=usual)
    remove_abandoned(folder)
    return is_absent


def _places(name: str) -> str:
    folder_name = sources.plain(name)
    places = [str(parent / folder_name) for parent in _parents()]
    if not os.environ.get(VARIABLE):
        places.insert(0, f"${VARIABLE}/{name} ({VARIABLE} is not set)")
    looked = f"looked in {console.listed(places)}"
    others = [other for other, alias_of in sources.ALIASES.items() if alias_of == name]
    if others:
        names = " or ".join(others)
        looked += f" (a folder called {names} would do too)"
    return looked
