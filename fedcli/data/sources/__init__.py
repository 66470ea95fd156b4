"""The datasets fedcli can prepare: a reader and a synthetic sample each, and a card that tells a person about it."""

from pathlib import Path
from typing import Any

from ...errors import FedcliError, UsageError, nearest
from ...io.locks import remove_abandoned, scratch
from ...provenance import Code
from . import cards, cifar100, digits, hyper_kvasir, medmnist, office_caltech, phantom, rsna_ich, toy
from .chest import chexpert, fedchexmimic
from .eyes import fairfedmed, messidor2, odir
from .own_files import own_images
from .registered import REGISTERED, Own, names, own, plain, register
from .skin import bcn20000, fed_isic, isic2018, isic2019, isic_skin_tone
from .source import Source

__all__ = ["REGISTERED", "SOURCES", "Source", "names", "plain", "register"]

SOURCES: dict[str, Source] = {
    "bcn20000": bcn20000.SOURCE,
    "chestmnist": medmnist.CHESTMNIST,
    "chexpert": chexpert.SOURCE,
    "cifar100": cifar100.SOURCE,
    "digits": digits.SOURCE,
    "fairfedmed-oct": fairfedmed.OCT,
    "fairfedmed-slo": fairfedmed.SLO,
    "fed-isic": fed_isic.SOURCE,
    "fedchexmimic": fedchexmimic.SOURCE,
    "hyper-kvasir": hyper_kvasir.SOURCE,
    "images": own_images.SOURCE,
    "isic-skin-tone": isic_skin_tone.SOURCE,
    "isic2018": isic2018.SOURCE,
    "isic2019": isic2019.SOURCE,
    "medmnist": medmnist.SOURCE,
    "messidor2": messidor2.SOURCE,
    "odir": odir.SOURCE,
    "office-caltech": office_caltech.SOURCE,
    "phantom": phantom.SOURCE,
    "rsna-ich": rsna_ich.SOURCE,
    "toy": toy.SOURCE,
}

SAMPLE_MARK = "SYNTHETIC_SAMPLE.txt"  # in the folder of a synthetic sample
SAMPLE_WORDS = "Made-up files in the layout of {name}: no number made from them says anything about patients.\n"
SAMPLE_ATTRIBUTES = "attributes.csv"  # what a sample's patients are, as `prepare --attributes` reads it

ALIASES = {  # other names in use, written as folded() writes them
    "ham10000": "isic2018", "isic2018task3": "isic2018", "fedisic2019": "fed-isic", "rsna": "rsna-ich",
    "officecaltech10": "office-caltech", "isicskintones": "isic-skin-tone", "odir5k": "odir",
}  # fmt: skip


def named(name: str) -> str:
    """The name of a dataset that may be written in other letters, such as HAM10000. Raises UsageError."""
    if known := means(name):
        return known
    _outside(name)
    return name


def _outside(name: str) -> Own | None:
    """A dataset that is not one of fedcli's; None for one that is. Raises UsageError for an unknown name."""
    if name in SOURCES:
        return None
    if other := own(name):
        return other
    known = [*SOURCES, *names()]
    raise UsageError(f"unknown dataset {name!r}", nearest(name.lower(), [*known, *ALIASES], known))


def means(name: str) -> str | None:
    """The dataset that a name in any letters stands for; None where it stands for none."""
    return ({folded(known): known for known in SOURCES} | ALIASES).get(folded(name))


def folded(name: str) -> str:
    """A name without case and punctuation."""
    return "".join(c for c in name.lower() if c.isalnum())


def source(name: str) -> Source:
    """The reader of a dataset. Raises UsageError for an unknown name."""
    other = _outside(name)
    return other.source if other else SOURCES[name]


def card(name: str) -> dict[str, Any]:
    """A dataset's card: title, classes, attributes, files expected, licence, defaults."""
    other = _outside(name)
    return other.card if other else cards.read(name)


def shows_people(name: str) -> bool:
    """Tell whether a dataset's images may show patients; of one whose card is not at hand, too."""
    return name not in SOURCES or cards.read(name).get("people", True)


def code_of(name: str) -> Code | None:
    """The code of a dataset that is not one of fedcli's."""
    other = None if name in SOURCES else own(name)
    return other.code if other else None


def having(attribute: str) -> list[str]:
    """The datasets that have an attribute, as their cards say."""
    return [name for name in SOURCES if attribute in card(name)["attributes"]]


def is_sample(raw: Path | None) -> bool:
    """Tell whether a raw folder holds a synthetic sample."""
    return raw is not None and (raw / SAMPLE_MARK).is_file()


def make_sample(name: str, folder: Path, *, usual: bool = False) -> Path:
    """Write a dataset's synthetic sample into an empty or new folder and return that folder.

    usual: of as many images as the dataset's usual number of clients needs.
    Raises UsageError for an unknown dataset, FedcliError for one that reads no files and for a folder that is in use.
    """
    reader = source(name)
    make = (usual and reader.usual_sample) or reader.sample
    if make is None:
        why = "has no synthetic sample" if reader.files else "reads no files, so it has no synthetic sample"
        raise FedcliError(f"{name} {why}", f"fedcli prepare {name}{' --raw DIR' * reader.files}")
    if folder.is_dir():
        remove_abandoned(folder / "sample")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FedcliError(f"{folder} is not an empty folder", "name a new one; a sample overwrites nothing")
    there = folder.exists()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch(folder / "sample" if there else folder) as made:  # a folder that is there may be a mount, or at hand
        make(made)
        (made / SAMPLE_MARK).write_text(SAMPLE_WORDS.format(name=plain(name)), encoding="utf-8")
        for each in made.iterdir() if there else ():
            each.rename(folder / each.name)
        if not there:
            made.rename(folder)
    return folder
