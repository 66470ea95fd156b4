"""The datasets fedcli can prepare, each with a reader, a synthetic sample and a card.

A file, a package or a notebook registers others.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ... import extensions, shapes
from ...errors import FedcliError, UsageError, nearest
from ...io.locks import remove_abandoned, scratch
from ...leaves import is_installed
from ...provenance import Code, of_functions
from . import cards, phantom, toy
from .own_files import own_images
from .source import Source

__all__ = ["REGISTERED", "SOURCES", "Source", "plain", "register"]

OF_CORE = {
    "images": own_images.SOURCE,
    "phantom": phantom.SOURCE,
    "toy": toy.SOURCE,
}
LEAVES = {  # name -> module in this folder, and after a colon its reader where it is not SOURCE
    "bcn20000": "skin.bcn20000",
    "chestmnist": "medmnist:CHESTMNIST",
    "chexpert": "chest.chexpert",
    "cifar100": "cifar100",
    "digits": "digits",
    "fairfedmed-oct": "eyes.fairfedmed:OCT",
    "fairfedmed-slo": "eyes.fairfedmed:SLO",
    "fed-isic": "skin.fed_isic",
    "fedchexmimic": "chest.fedchexmimic",
    "hyper-kvasir": "hyper_kvasir",
    "isic-skin-tone": "skin.isic_skin_tone",
    "isic2018": "skin.isic2018",
    "isic2019": "skin.isic2019",
    "medmnist": "medmnist",
    "messidor2": "eyes.messidor2",
    "odir": "eyes.odir",
    "office-caltech": "office_caltech",
    "rsna-ich": "rsna_ich",
}


def _readers() -> dict[str, Source]:
    """Name -> reader of every dataset whose module was not deleted."""
    readers = dict(OF_CORE)
    for name, location in LEAVES.items():
        path, _, attribute = location.partition(":")
        module = f"{__name__}.{path}"
        if is_installed(module):
            readers[name] = getattr(import_module(module), attribute or "SOURCE")
    return dict(sorted(readers.items()))


SOURCES = _readers()

USUAL = {
    "attributes": {},
    "files": [],
    "where": "whoever wrote the reader",
    "licence": "none stated",
    "citation": "none stated",
    "size": 64,
    "channels": 3,
    "split": "unit",
    "splits": {
        "unit": "8:2 per class, a patient's images together if the dataset names patients",
        "image": "8:2 per class, image by image",
    },
    "augment": "none",
    "clients": 4,
    "sites": None,
}


@dataclass(frozen=True)
class NamedDataset:
    """A reader and its card.

    code: where they come from; None of fedcli's own, and of a session that cannot say.
    """

    name: str
    source: Source
    card: dict[str, Any]
    code: Code | None


REGISTERED: dict[str, NamedDataset] = {}  # by a notebook

SAMPLE_MARK = "SYNTHETIC_SAMPLE.txt"  # in the folder of a synthetic sample
SAMPLE_WORDS = (
    "Made-up files in the layout of {name}: "
    "no number made from them says anything about patients.\n"
)
# what a sample's patients are, as `prepare --attributes` reads it
SAMPLE_ATTRIBUTES = "attributes.csv"

ALIASES = {  # other names in use, written as folded() writes them
    "ham10000": "isic2018",
    "isic2018task3": "isic2018",
    "fedisic2019": "fed-isic",
    "rsna": "rsna-ich",
    "officecaltech10": "office-caltech",
    "isicskintones": "isic-skin-tone",
    "odir5k": "odir",
}


def register(name: str, source: Source, card: dict[str, Any]) -> None:
    """Put a dataset into the table. card: at least its title and classes.

    Raises ValueError, FedcliError.
    """
    extensions.check_name(name)
    table = extensions.table("datasets", REGISTERED)
    card = {**USUAL, **card}
    shapes.check(
        {"task": "", **card},
        cards.SHAPE,
        f"the card of {name}",
        cards.HINT,
    )
    origin = extensions.origin()
    if origin and name in table:
        raise ValueError(f"dataset {name!r} is registered twice")
    if not card["classes"]:
        raise ValueError(f"{name} has no classes")
    if not isinstance(source, Source):
        raise ValueError(f"{source!r} is no Source")
    if card["split"] not in card["splits"]:
        splits = ", ".join(card["splits"])
        raise ValueError(f"the split {card['split']!r} of {name} is none of {splits}")
    card.setdefault("task", "binary" if len(card["classes"]) == 2 else "multiclass")
    code = origin or of_functions(source.rows, source.decode)
    table[name] = NamedDataset(name, source, card, code)


def named(name: str) -> str:
    """The name of a dataset that may be written in other letters, such as HAM10000.

    Raises UsageError.
    """
    dataset = means(name)
    if dataset:
        return dataset
    find(name)
    return name


def find(name: str) -> NamedDataset:
    """A dataset by its name, or one from outside.

    One from outside is PATH.py, PATH.py:NAME or the name that was registered. Raises FedcliError
    for a file that cannot be run, UsageError for a name that nobody registered.
    """
    if name in SOURCES:
        return NamedDataset(name, SOURCES[name], cards.read(name), None)
    if extensions.is_file(name):
        return extensions.pick(name, "datasets")
    if name in REGISTERED:
        return REGISTERED[name]
    offered = extensions.offered("datasets", name)
    if offered:
        return offered[0]
    names = [*SOURCES, *REGISTERED, *extensions.packages("datasets")]
    name_hint = nearest(name.lower(), [*names, *ALIASES], names)
    raise UsageError(f"unknown dataset {name!r}", name_hint)


def plain(name: str) -> str:
    """The name of a dataset without the file that it comes from."""
    return find(name).name if extensions.is_file(name) else name


def means(name: str) -> str | None:
    """The dataset that a name in any letters stands for; None where it stands for none."""
    datasets = {folded(dataset): dataset for dataset in SOURCES} | ALIASES
    return datasets.get(folded(name))


def folded(name: str) -> str:
    """A name without case and punctuation."""
    return "".join(c for c in name.lower() if c.isalnum())


def source(name: str) -> Source:
    """The reader of a dataset. Raises UsageError for an unknown name."""
    return find(name).source


def card(name: str) -> dict[str, Any]:
    """A dataset's card: title, classes, attributes, files expected, licence, defaults."""
    return find(name).card


def shows_people(name: str) -> bool:
    """Tell whether a dataset's images may show patients.

    Those of one whose card is not at hand may.
    """
    return name not in SOURCES or cards.read(name).get("people", True)


def having(attribute: str) -> list[str]:
    """The datasets that have an attribute, as their cards say."""
    return [name for name in SOURCES if attribute in card(name)["attributes"]]


def is_sample(raw: Path | None) -> bool:
    """Tell whether a raw folder holds a synthetic sample."""
    return raw is not None and (raw / SAMPLE_MARK).is_file()


def make_sample(name: str, folder: Path, *, usual: bool = False) -> Path:
    """Write a dataset's synthetic sample into an empty or new folder and return that folder.

    usual: of as many images as the dataset's usual number of clients needs.
    Raises UsageError for an unknown dataset, FedcliError for one that reads no files and for a
    folder that is in use.
    """
    reader = source(name)
    make = reader.sample
    if usual and reader.usual_sample:
        make = reader.usual_sample
    if make is None:
        raise _without_sample(name, reader)
    if folder.is_dir():
        remove_abandoned(folder / "sample")
    exists = folder.exists()
    is_empty = folder.is_dir() and not any(folder.iterdir())
    if exists and not is_empty:
        hint = "name a new one; a sample overwrites nothing"
        raise FedcliError(f"{folder} is not an empty folder", hint)
    target = folder / "sample" if exists else folder  # a folder that exists may be a mount
    with scratch(target) as written:
        make(written)
        words = SAMPLE_WORDS.format(name=plain(name))
        (written / SAMPLE_MARK).write_text(words, encoding="utf-8")
        if exists:
            for path in written.iterdir():
                path.rename(folder / path.name)
        else:
            written.rename(folder)
    return folder


def _without_sample(name: str, reader: Source) -> FedcliError:
    command = f"fedcli prepare {name}"
    if reader.files:
        return FedcliError(f"{name} has no synthetic sample", f"{command} --raw DIR")
    return FedcliError(f"{name} reads no files, so it has no synthetic sample", command)
