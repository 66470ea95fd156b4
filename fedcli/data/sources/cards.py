"""The cards that come with fedcli: what a person should know of a dataset, a JSON file each.

`published_files.json` holds cards of files that are no datasets, which the authors of papers
publish. Keys of a card that say how to come by its files:

    download     files that a command fetches: path, url, bytes (or about_bytes, where no source
                 says them exactly), sha256 or md5 (the makers publish 8 digits of some), hash_from
                 (who says so where not the makers), unpack (the folder that an archive becomes),
                 unpacked_bytes, beside (files that belong with it)
    download_of  another card whose files these are too; both lie in one folder
    redirects    hosts to which its addresses may lead on
    by_hand      where no command may fetch: bytes to download and disk_bytes, about, both null
                 where nobody says
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fedcli

from ... import shapes
from ...errors import FedcliError

OF_FILES = {
    "title": str,
    "licence": str,
    "citation": str,
    "where": str,
    "download?": [{"path": str, "url": str}],
    "by_hand?": {"bytes": (int, None), "disk_bytes": (int, None)},
}
SHAPE = {
    "title": str,
    "classes": [str],
    "task": str,
    "attributes": {str: [str]},
    "size": int,
    "channels": int,
    "split": str,
    "splits": {str: str},
    "augment": str,
    "clients": int,
    "sites": (str, None),
    "people?": bool,
    "files": [{"path": str}],
    "options?": {str: {"default": (str, int, float, bool, None), "about": str}},
    **OF_FILES,
}
HINT = "see fedcli datasets toy --json"
_PACKAGE = Path(fedcli.__file__).parent
_FOLDERS = _PACKAGE / "data_manifests", _PACKAGE.parent / "data_manifests"  # installed, a checkout
PUBLISHED = "published_files"


def read(name: str, shape: dict[Any, Any] = SHAPE) -> dict[str, Any]:
    """A dataset's card: title, classes, attributes, files expected, licence, defaults.

    Raises FedcliError.
    """
    for folder in _FOLDERS:
        path = folder / f"{name}.json"
        if path.is_file():
            return shapes.read_json(path, shape, HINT)
    raise FedcliError(f"the card {name}.json is missing from {_FOLDERS[0]}", "install fedcli again")


def is_generated(name: str) -> bool:
    """Tell whether a dataset's card says that its images are generated.

    Data of one's own have no card.
    """
    with suppress(FedcliError):
        return bool(read(name).get("generated"))
    return False


@cache
def published() -> dict[str, dict[str, Any]]:
    """Name -> card of files that authors publish beside their papers."""
    return read(PUBLISHED, {str: OF_FILES})


def defaults(card: dict[str, Any]) -> dict[str, str]:
    """The dataset's own options with their usual values."""
    options = card.get("options", {})
    return {name: options[name]["default"] for name in sorted(options)}


def size(file: dict[str, Any]) -> int:
    """Bytes of a file to download, about where no source says them exactly."""
    return file.get("bytes") or file["about_bytes"]


def on_disk(file: dict[str, Any]) -> int:
    """Bytes of a file as it is kept, unpacked where it is an archive.

    Pictures are as large in an archive as outside.
    """
    return file.get("unpacked_bytes") or size(file)


@dataclass(frozen=True)
class Fetching:
    """The way to the files of a dataset, or of a paper's authors."""

    name: str  # the card's
    title: str
    folder: str  # the card in whose folder they lie, another one's where two share their images
    licence: str
    citation: str
    where: str
    # those that a command fetches, as the card declares them; it may be none
    files: tuple[dict[str, Any], ...]
    download_bytes: int | None  # of all files, about; None where nobody says
    disk_bytes: int | None
    rest: str = ""  # what a command that fetches the others leaves to a person
    redirects: tuple[str, ...] = ()
    # whether there is anything to fetch; not for what fedcli draws, nor for the user's own images
    needed: bool = True

    @property
    def by_command(self) -> bool:
        """Tell whether `datasets --download` and `reproduce --fetch` get them.

        If not, a person does, from `where`.
        """
        return bool(self.files)


def fetching(name: str) -> Fetching:
    """The way to the files of a dataset that comes with fedcli, or of a card of published files.

    Raises FedcliError.
    """
    return of_card(name, published().get(name) or read(name))


def of_card(name: str, card: dict[str, Any]) -> Fetching:
    """The way to the files of a card at hand."""
    folder = name
    files = tuple(card.get("download", ()))
    redirects = tuple(card.get("redirects", ()))
    if "download_of" in card:
        other = fetching(card["download_of"])
        folder = other.folder
        files = other.files + files
        redirects += other.redirects
    by_hand = card.get("by_hand", {})
    download_bytes = by_hand.get("bytes")
    disk_bytes = by_hand.get("disk_bytes")
    if files:
        download_bytes = sum(size(file) for file in files)
        disk_bytes = sum(on_disk(file) for file in files)
    return Fetching(
        name=name,
        title=card["title"],
        folder=folder,
        licence=card["licence"],
        citation=card["citation"],
        where=card["where"],
        files=files,
        download_bytes=download_bytes,
        disk_bytes=disk_bytes,
        rest=card.get("download_rest", ""),
        redirects=redirects,
        needed=bool(files) or "by_hand" in card,
    )
