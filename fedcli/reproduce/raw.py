"""Where the raw folder of each dataset of a recipe is: given, made up here, or not there."""

import shutil
from pathlib import Path

from .. import console
from ..data import sources
from ..data.manifest import scratch
from ..data.twins import TWINS, twin
from ..errors import UsageError, nearest
from .plan import Cell
from .recipe import Recipe


def folders(recipe: Recipe, given: list[str], scale: str, work: Path) -> dict[str, str]:
    """Dataset -> raw folder, from "--raw DIR" or "--raw NAME=DIR"; at scale smoke a twin's for those not given.

    Raises UsageError for a name that the recipe does not use, or a bare DIR that could mean several datasets.
    """
    wanted = needed(recipe)
    found = {name: str(work / "twins" / name) for name in wanted if scale == "smoke" and name in TWINS}
    for one in given:
        name, equals, folder = one.partition("=")
        if not equals:
            if len(wanted) != 1:
                raise UsageError(
                    f"--raw {one} does not say which dataset it holds",
                    f"write --raw NAME={one}; needed: {', '.join(wanted) or 'none'}",
                )
            name, folder = wanted[0], one
        if name not in wanted:
            raise UsageError(f"the recipe reads no files of {name!r}", nearest(name, wanted))
        found[name] = folder
    return found


def needed(recipe: Recipe) -> list[str]:
    """The recipe's datasets that read files."""
    used = {chain.dataset for chain in recipe.chains.values()}
    return sorted(name for name in used if sources.source(name).files)


def absent(recipe: Recipe, cells: list[Cell], given: dict[str, str]) -> dict[str, str]:
    """Dataset -> a sentence, for those that read files and were given no folder. Raises UsageError if no cell remains."""
    used = {recipe.chains[cell.data].dataset for cell in cells}
    missing = [name for name in needed(recipe) if name in used and name not in given]
    if used and used == set(missing):
        flags = " ".join(f"--raw {name}=DIR" for name in missing) if len(needed(recipe)) > 1 else "--raw DIR"
        raise UsageError(
            f"{recipe.name} needs the files of {' and '.join(missing)}",
            f"add {flags}; `fedcli datasets {missing[0]}` says where to get them; --scale smoke needs none",
        )
    return {name: f"{name} is left out: no --raw {name}=DIR was given." for name in missing}


def make_twin(name: str, folder: Path) -> None:
    """Write a dataset's twin if it is not there; a killed process leaves none half made."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch(folder) as temporary:
        made = twin(name, temporary / "twin")
        if not folder.exists():
            shutil.move(made, folder)
    console.say(f"no --raw for {name}: its twin of made-up images is in {folder}")
