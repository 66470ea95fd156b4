"""Where the raw folder of each dataset and each file of a recipe is: given, fetched, made up here, or not there."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from .. import console
from ..data import sources
from ..data.preparation import download
from ..data.sources import cards
from ..errors import FedcliError, UsageError, nearest
from .expand import Cell
from .flags import variable
from .recipe import Recipe


def needed(recipe: Recipe) -> list[str]:
    """The recipe's datasets that read files."""
    used = {data.dataset for data in recipe.chains.values()}
    return sorted(name for name in used if sources.source(name).files)


def folders(recipe: Recipe, given: list[str], scale: str, work: Path) -> dict[str, str]:
    """Dataset -> raw folder, from "--raw DIR" or "--raw NAME=DIR"; of those not given what was fetched, and at scale
    smoke a sample's.

    Raises UsageError for a name that the recipe does not use, or a bare DIR that could mean several datasets.
    """
    wanted = needed(recipe)
    chosen = {name: str(work / "samples" / name) for name in wanted}
    if scale != "smoke":
        known = [each for each in map(cards.fetching, wanted) if each.by_command]
        there = [download.wanted(each, _home(each, work)) for each in known]
        chosen = {each.known.name: str(each.folder) for each in there if not each.missing}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals and len(wanted) != 1:
            hint = f"write --raw NAME={text}; needed: {', '.join(wanted) or 'none'}"
            raise UsageError(f"--raw {text} does not say which dataset it holds", hint)
        if not equals:
            name, folder = wanted[0], text
        if name not in wanted:
            raise UsageError(f"the recipe reads no files of {name!r}", nearest(name, wanted))
        chosen[name] = folder
    return chosen


def files(
    recipe: Recipe, given: list[str], raw: dict[str, str], scale: str, work: Path
) -> dict[str, str]:
    """Name -> path, from "--file NAME=PATH", or as it was fetched for a scale that reads no samples.

    raw: dataset -> raw folder. Raises UsageError for a name that the recipe does not use or no file.
    """
    paths = {}
    for name, file in recipe.files.items():
        if file.card and scale != "smoke":
            fetched = _home(cards.fetching(file.card), work) / file.path
            if fetched.is_file() and raw.get(file.card) in (None, str(fetched.parent)):
                paths[name] = str(fetched)
    for text in given:
        name, equals, path = text.partition("=")
        if not equals:
            raise UsageError(
                f"--file {text} does not say which file it is", f"write --file NAME={text}"
            )
        if name not in recipe.files:
            raise UsageError(f"the recipe asks for no file {name!r}", nearest(name, recipe.files))
        if not Path(path).is_file():
            raise UsageError(
                f"--file {name}: no such file: {path}", f"{name} is {recipe.files[name].what}"
            )
        paths[name] = path
    return paths


def _home(known: cards.Fetching, work: Path) -> Path:
    """The folder that --fetch fills for a card."""
    return work / "downloads" / known.folder


def fetch(every: Iterable[Recipe], given: list[str], work: Path, *, accepted: bool) -> list[str]:
    """Get what recipes need and a command may fetch, but for given datasets; say first what a person has to get.

    given: "NAME=DIR" of --raw. Returns the names of what is by hand. Raises FedcliError, HashError, UsageError.
    """
    every = list(every)
    brought = {text.partition("=")[0] for text in given if "=" in text}
    datasets = {name for recipe in every for name in needed(recipe)} - brought
    asked = [
        file
        for recipe in every
        for file in recipe.files.values()
        if file.card and file.card not in brought
    ]
    known = [cards.fetching(name) for name in sorted(datasets | {file.card for file in asked})]
    hand = [each for each in known if not each.by_command]
    steps = {
        each.name: download.by_hand(each, f"give it by --raw {each.name}=DIR") for each in hand
    }
    paths = {
        each.name: sorted({file.path for file in asked if file.card == each.name}) for each in known
    }
    wanted = [
        download.wanted(each, _home(each, work), () if each.name in datasets else paths[each.name])
        for each in known
        if each.by_command
    ]
    if not wanted and hand:
        raise FedcliError(
            f"a command cannot download {console.listed(list(steps))}", "; ".join(steps.values())
        )
    for name, text in steps.items():
        console.warn(f"a command cannot download {name}: {text}")
    download.download(wanted, accepted=accepted)
    return list(steps)


def shared_out(
    recipes: Sequence[Recipe], raw: Sequence[str], file: Sequence[str]
) -> list[tuple[list[str], list[str]]]:
    """For each of several recipes those of "--raw NAME=DIR" and "--file NAME=PATH" that are for it.

    Raises UsageError for a name that none of them uses, and a bare DIR.
    """
    out = []
    for flag, given, known in (
        ("raw", raw, [needed(each) for each in recipes]),
        ("file", file, [[*each.files] for each in recipes]),
    ):
        every = sorted({name for names in known for name in names})
        for text in given:
            if text.partition("=")[0] not in every:
                hint = f"write --{flag} NAME=PATH; these recipes read {', '.join(every) or 'none'}"
                raise UsageError(f"--{flag} {text} names nothing that these recipes read", hint)
        out.append([[text for text in given if text.partition("=")[0] in names] for names in known])
    return list(zip(*out, strict=True))


def check_folders(used: set[str], given: dict[str, str], made_up: set[str]) -> None:
    """Refuse a folder that is not there, and real files of a used dataset beside a synthetic sample of another.

    made_up: datasets whose sample is still to be written for this recipe. Raises FedcliError, UsageError.
    """
    for name, folder in given.items():
        if name not in made_up and not Path(folder).is_dir():
            where = f"`fedcli datasets {name}` says where its files come from"
            raise FedcliError(f"no such folder: {folder}", f"give the folder of {name}; {where}")
    names = used & given.keys()
    synthetic = {name for name in names if name in made_up or sources.is_sample(Path(given[name]))}
    if synthetic and (real := sorted(names - synthetic)):
        both = f"{', '.join(real)} would be real data and {', '.join(sorted(synthetic))} a SYNTHETIC sample"
        hint = f"give --raw {min(synthetic)}=DIR as well, choose cells with --only, or leave every --raw out"
        raise UsageError(f"one table cannot hold both: {both}", hint)


def possible(
    recipe: Recipe, cells: list[Cell], given: dict[str, str]
) -> tuple[list[Cell], list[str]]:
    """The cells whose data and files are there, and a sentence for each part that is not.

    Raises UsageError if none is.
    """
    used = {recipe.chains[cell.data].dataset for cell in cells}
    missing = [name for name in needed(recipe) if name in used and name not in given]
    if used and used == set(missing):
        flags = (
            " ".join(f"--raw {name}=DIR" for name in missing)
            if len(needed(recipe)) > 1
            else "--raw DIR"
        )
        hint = f"add {flags}, or --fetch, which downloads them or says where to get them; --scale smoke needs none"
        raise UsageError(f"{recipe.name} needs the files of {' and '.join(missing)}", hint)
    cells = [cell for cell in cells if recipe.chains[cell.data].dataset not in missing]
    rows = {
        name: [cell.row for cell in cells if variable(name, "file") in cell.asks]
        for name in recipe.files
    }
    asking = {name: ", ".join(dict.fromkeys(asked)) for name, asked in rows.items() if asked}
    if cells and all(cell.asks for cell in cells):
        wanted = "; ".join(f"{name}: {recipe.files[name].what}" for name in asking)
        flags = " ".join(f"--file {name}=PATH" for name in asking)
        hint = f"add {flags}, or --fetch; --scale small and smoke need none"
        raise UsageError(f"{recipe.name} needs files ({wanted})", hint)
    said = [f"{name} is left out: no --raw {name}=DIR was given." for name in missing]
    for name, of in asking.items():
        said.append(
            f"{of} left out: no --file {name}=PATH was given, which is {recipe.files[name].what}."
        )
    return [cell for cell in cells if not cell.asks], said
