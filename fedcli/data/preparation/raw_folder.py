"""The raw folder of a dataset where none is named: by an environment variable, in the folder at hand, or made up.

A synthetic sample holds SYNTHETIC_SAMPLE.txt, by which prepare knows it; everything made from it says `sample: true`.
"""

import os
from pathlib import Path

from ... import console
from ...errors import UsageError
from ...io.locks import remove_abandoned, renaming
from .. import sources

SAMPLE_SIZE = 32  # pixels; the made-up pictures have no finer detail
VARIABLE = "FEDCLI_RAW"  # names a folder that holds a folder for each dataset


def _parents() -> list[Path]:
    """The folders that may hold that of a dataset, the first choice first."""
    folder = os.environ.get(VARIABLE)
    return [*([Path(folder)] if folder else []), Path("raw"), Path()]


def search(name: str) -> Path | None:
    """The first folder that bears a dataset's name, or another way to write it, such as HAM10000; said in a line."""
    name = sources.plain(name)
    for place in _parents():
        exact = place / name
        for folder in (
            [exact] if exact.is_dir() else sorted(place.iterdir()) if place.is_dir() else []
        ):
            if folder.is_dir() and (folder == exact or sources.means(folder.name) == name):
                console.say(f"raw folder of {name}: {folder}")
                return folder
    return None


def folder_of(
    name: str, given: Path | None, work: Path, *, sample: bool, no_sample: bool
) -> Path | None:
    """The raw folder to prepare; None for a dataset that reads no files.

    Without one, a synthetic sample under the work folder, after a warning that `sample` leaves out. Raises
    UsageError where there is none and no sample is wanted.
    """
    if sample and (given or no_sample):
        raise UsageError(
            f"--sample and --{'raw' if given else 'no-sample'} exclude each other",
            "give one of them",
        )
    source, card = sources.source(name), sources.card(name)
    if given or not source.files:
        return given
    if sample:
        return usual_sample(name, work)
    if folder := search(name):
        return folder
    if no_sample or os.environ.get(VARIABLE) or not card["classes"] or source.sample is None:
        hint = f"give --raw DIR; the files come from {card['where']}"
        raise UsageError(f"{name} needs the folder of its files: {_places(name)}", hint)
    console.warn(
        f"no files of {name}: {_places(name)}. Going on with a SYNTHETIC sample in its layout: no number made from it "
        f"says anything about patients; pictures are {min(SAMPLE_SIZE, card['size'])} pixels wide. The real data: "
        f"{card['title']}; licence: {card['licence']}; from {card['where']}; `fedcli datasets {name}` "
        "shows the layout; give their folder with --raw DIR"
    )
    return usual_sample(name, work)


def usual_sample(name: str, work: Path) -> Path:
    """A synthetic sample of as many images as the default clients need, made once under the work folder."""
    code = sources.find(name).code  # two files, or two versions of one, may use the same name
    version = f"-{code.sha256[:12]}" if code and code.sha256 else ""
    folder = work / "samples" / f"{sources.plain(name)}{version}-usual"
    sample_in(name, folder, usual=True)
    return folder


def sample_in(name: str, folder: Path, *, usual: bool = False) -> bool:
    """Write a dataset's synthetic sample to a folder; False where it is there already."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with renaming(folder):  # two processes may want it at once
        if absent := not folder.exists():
            sources.make_sample(name, folder, usual=usual)
    remove_abandoned(folder)
    return absent


def of_sample(name: str, folder: Path | None) -> tuple[int | None, Path | None]:
    """The side at which a synthetic sample is prepared, whose pictures are small, and the table of patients' attributes
    that it brings; None for what is no sample, or brings none."""
    if folder is None or not sources.is_sample(folder):
        return None, None
    table = folder / sources.SAMPLE_ATTRIBUTES
    return min(SAMPLE_SIZE, sources.card(name)["size"]), table if table.is_file() else None


def _places(name: str) -> str:
    places = [str(place / sources.plain(name)) for place in _parents()]
    if not os.environ.get(VARIABLE):
        places.insert(0, f"${VARIABLE}/{name} ({VARIABLE} is not set)")
    others = [other for other, own in sources.ALIASES.items() if own == name]
    also = f" (a folder called {' or '.join(others)} would do too)" if others else ""
    return f"looked in {console.listed(places)}{also}"
