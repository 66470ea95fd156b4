"""Where the raw folder of each dataset and each file of a recipe is: given, fetched, made up here,
or not there."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from .. import console
from ..data import sources
from ..data.preparation import download
from ..data.sources import cards
from ..errors import FedcliError, UsageError, nearest
from .expand import RecipeCell
from .flags import variable
from .recipe import Recipe


def needed(recipe: Recipe) -> list[str]:
    """The recipe's datasets that read files."""
    used = {data.dataset for data in recipe.chains.values()}
    return sorted(name for name in used if sources.source(name).files)


def folders(
    recipe: Recipe,
    texts: Sequence[str],
    scale: str,
    work: Path,
) -> dict[str, str]:
    """Dataset -> raw folder.

    texts: "DIR" or "NAME=DIR", of --raw. A dataset that they do not name has what was fetched, and
    at scale smoke the folder of a sample. Raises UsageError for a name that the recipe does not
    use, or a bare DIR that could mean several datasets.
    """
    names = needed(recipe)
    if scale == "smoke":
        chosen = {name: str(work / "samples" / name) for name in names}
    else:
        chosen = _fetched(names, work)
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals:
            if len(names) != 1:
                names_text = ", ".join(names) or "none"
                hint = f"write --raw NAME={text}; needed: {names_text}"
                raise UsageError(f"--raw {text} does not say which dataset it holds", hint)
            name = names[0]
            folder = text
        if name not in names:
            raise UsageError(f"the recipe reads no files of {name!r}", nearest(name, names))
        chosen[name] = folder
    return chosen


def _fetched(names: Iterable[str], work: Path) -> dict[str, str]:
    """Dataset -> the folder that --fetch has filled, of those that are complete."""
    folders = {}
    for name in names:
        card = cards.fetching(name)
        if not card.by_command:
            continue
        fetched = download.wanted(card, _home(card, work))
        if not fetched.missing:
            folders[card.name] = str(fetched.folder)
    return folders


def files(
    recipe: Recipe,
    texts: Sequence[str],
    raw: dict[str, str],
    scale: str,
    work: Path,
) -> dict[str, str]:
    """Name -> path, from "--file NAME=PATH", or as it was fetched for a scale that reads no
    samples.

    raw: dataset -> raw folder. Raises UsageError for a name that the recipe does not use or no
    file.
    """
    paths = {}
    for name, file in recipe.files.items():
        if file.card and scale != "smoke":
            home = _home(cards.fetching(file.card), work)
            fetched = home / file.path
            is_ours = raw.get(file.card) in (None, str(fetched.parent))
            if is_ours and fetched.is_file():
                paths[name] = str(fetched)
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            hint = f"write --file NAME={text}"
            raise UsageError(f"--file {text} does not say which file it is", hint)
        if name not in recipe.files:
            raise UsageError(f"the recipe asks for no file {name!r}", nearest(name, recipe.files))
        if not Path(path).is_file():
            hint = f"{name} is {recipe.files[name].what}"
            raise UsageError(f"--file {name}: no such file: {path}", hint)
        paths[name] = path
    return paths


def _home(card: cards.Fetching, work: Path) -> Path:
    """The folder that --fetch fills for a card."""
    return work / "downloads" / card.folder


def fetch(
    recipes: Iterable[Recipe], raw: Sequence[str], work: Path, *, accepted: bool
) -> list[str]:
    """Get what recipes need and a command may fetch, but for given datasets; say first what a
    person has to get.

    raw: "NAME=DIR" of --raw. Returns the names of what is by hand. Raises FedcliError, HashError,
    UsageError.
    """
    brought = {text.partition("=")[0] for text in raw if "=" in text}
    datasets: set[str] = set()
    paths: dict[str, set[str]] = {}  # card -> its files that recipes ask for
    for recipe in recipes:
        datasets.update(needed(recipe))
        for file in recipe.files.values():
            if file.card and file.card not in brought:
                paths.setdefault(file.card, set()).add(file.path)
    datasets -= brought
    steps = {}
    downloads = []
    for name in sorted(datasets | paths.keys()):
        card = cards.fetching(name)
        if not card.by_command:
            where_given = f"give it by --raw {card.name}=DIR"
            steps[card.name] = download.by_hand(card, where_given)
            continue
        # of a dataset the whole, of another card the files that recipes ask for
        parts = [] if card.name in datasets else sorted(paths[card.name])
        downloads.append(download.wanted(card, _home(card, work), parts))
    if steps and not downloads:
        names = console.listed(list(steps))
        raise FedcliError(f"no command can download {names}", "; ".join(steps.values()))
    for name, text in steps.items():
        console.warn(f"no command can download {name}: {text}")
    download.download(downloads, accepted=accepted)
    return list(steps)


def shared_out(
    recipes: Sequence[Recipe], raw: Sequence[str], file: Sequence[str]
) -> list[tuple[list[str], list[str]]]:
    """For each of several recipes the texts of "--raw NAME=DIR" and "--file NAME=PATH" that are for
    it.

    Raises UsageError for a name that none of them uses, and a bare DIR.
    """
    raw_by_recipe = _dealt("raw", raw, [needed(recipe) for recipe in recipes])
    file_lists = [list(recipe.files) for recipe in recipes]
    file_by_recipe = _dealt(
        "file",
        file,
        file_lists,
    )
    return list(zip(raw_by_recipe, file_by_recipe, strict=True))


def _dealt(
    flag: str,
    texts: Sequence[str],
    names_by_recipe: list[list[str]],
) -> list[list[str]]:
    """For each recipe the texts NAME=PATH that begin with one of its names."""
    every_name = sorted(set().union(*names_by_recipe))
    for text in texts:
        if _name(text) not in every_name:
            reads = ", ".join(every_name) or "none"
            hint = f"write --{flag} NAME=PATH; these recipes read {reads}"
            raise UsageError(f"--{flag} {text} names nothing that these recipes read", hint)
    dealt = []
    for names in names_by_recipe:
        dealt.append([text for text in texts if _name(text) in names])
    return dealt


def _name(text: str) -> str:
    return text.partition("=")[0]


def check_folders(
    used: set[str],
    folders: dict[str, str],
    made_up: set[str],
) -> None:
    """Refuse a folder that is not there, and real files of a used dataset beside a synthetic sample
    of another.

    made_up: datasets whose sample is still to be written for this recipe. Raises FedcliError,
    UsageError.
    """
    for name, folder in folders.items():
        if name not in made_up and not Path(folder).is_dir():
            where = f"`fedcli datasets {name}` says where its files come from"
            what_to_do = f"give the folder of {name}; {where}"
            raise FedcliError(f"no such folder: {folder}", what_to_do)
    names = sorted(used & folders.keys())
    samples = [name for name in names if name in made_up or sources.is_sample(Path(folders[name]))]
    real = [name for name in names if name not in samples]
    if samples and real:
        real_text = ", ".join(real)
        samples_text = ", ".join(samples)
        both = f"{real_text} would be real data and {samples_text} a SYNTHETIC sample"
        hint = (
            f"give --raw {samples[0]}=DIR as well, choose cells with --only, or leave every --raw "
            "out"
        )
        raise UsageError(f"one table cannot hold both: {both}", hint)


def possible(
    recipe: Recipe, cells: list[RecipeCell], folders: dict[str, str]
) -> tuple[list[RecipeCell], list[str]]:
    """The cells whose data and files are there, and a sentence for each part that is not.

    Raises UsageError if none is.
    """
    used = {recipe.chains[cell.data].dataset for cell in cells}
    missing = [name for name in needed(recipe) if name in used and name not in folders]
    if used and used == set(missing):
        _refuse_without_data(recipe, missing)
    with_data = [cell for cell in cells if recipe.chains[cell.data].dataset not in missing]
    rows_by_file = _rows_by_file(recipe, with_data)
    with_files = [cell for cell in with_data if not cell.asks]
    if with_data and not with_files:
        texts = "; ".join(f"{name}: {recipe.files[name].what}" for name in rows_by_file)
        flags = " ".join(f"--file {name}=PATH" for name in rows_by_file)
        hint = f"add {flags}, or --fetch; --scale small and smoke need none"
        raise UsageError(f"{recipe.name} needs files ({texts})", hint)
    sentences = [f"{name} is left out: no --raw {name}=DIR was given." for name in missing]
    for name, rows in rows_by_file.items():
        meaning = recipe.files[name].what
        text = f"no --file {name}=PATH was given, which is {meaning}."
        sentences.append(f"{', '.join(rows)} left out: {text}")
    return with_files, sentences


def _refuse_without_data(recipe: Recipe, missing: list[str]) -> None:
    flags = "--raw DIR"
    if len(needed(recipe)) > 1:
        flags = " ".join(f"--raw {name}=DIR" for name in missing)
    hint = (
        f"add {flags}, or --fetch, which downloads them or says where to get them; --scale smoke "
        "needs none"
    )
    names_text = " and ".join(missing)
    raise UsageError(f"{recipe.name} needs the files of {names_text}", hint)


def _rows_by_file(recipe: Recipe, cells: list[RecipeCell]) -> dict[str, list[str]]:
    """File of the recipe -> the rows that ask for it, each once; without files that none asks
    for."""
    rows_by_file = {}
    for name in recipe.files:
        word = variable(name, "file")
        rows = [cell.row for cell in cells if word in cell.asks]
        if rows:
            rows_by_file[name] = list(dict.fromkeys(rows))
    return rows_by_file
