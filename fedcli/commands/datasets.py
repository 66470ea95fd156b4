"""fedcli datasets."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from .. import console, extensions
from ..common_options import NAME
from ..errors import UsageError
from ..options import Flag
from ..system import terminal
from .shell.common import AcceptLicence, Json, refuse_together
from .shell.shown import show_json, show_tree

Name = Annotated[str | None, "one dataset; default: the list", NAME]
SampleFolder = Annotated[
    Path | None,
    "write a synthetic sample: a few made-up files in its layout",
    Flag("DIR", access="writes"),
]
DownloadFolder = Annotated[
    Path | None,
    "put its files there, if they are free to download",
    Flag("DIR", access="writes"),
]
Files = Annotated[
    Sequence[str],
    "with --download: only this file; may be repeated",
    Flag("PATH", access="reads"),
]
TITLES = {  # key of a card -> its title for a person
    "download": "download (--download DIR)",
    "by_hand": "download",
    "splits": "splits (--split)",
    "options": "options (--set OPTION=VALUE)",
}


def datasets(
    name: Name = None,
    make_sample: SampleFolder = None,
    download: DownloadFolder = None,
    file: Files = (),
    accept_licence: AcceptLicence = False,
    json: Json = False,
) -> None:
    """List the datasets, or show or download one.

    For one dataset: the files it needs, attributes, licence and where to get it.

    --download shows the size, asks you to accept the licence, continues an interrupted download,
    and checks every file by its published hash, or by the hash of the first download if none is
    published.

    Example: fedcli prepare isic2018 --raw $(fedcli datasets isic2018 --make-sample sample)
    """
    from ..data import sources

    if name:
        name = sources.named(name)
    refuse_together(make_sample=make_sample, download=download)
    if (file or accept_licence) and not download:
        raise UsageError("--file and --accept-licence are about a download", "add --download DIR")
    if name:
        if download:
            _download(
                name,
                download,
                file,
                accepted=accept_licence,
                as_json=json,
            )
        elif make_sample:
            _make_sample(name, make_sample)
        elif json:
            show_json(sources.card(name))
        else:
            show_tree(_readable(sources.card(name)))
    elif download:
        hint = "fedcli datasets medmnist --download DIR"
        raise UsageError("--download needs a dataset", hint)
    elif make_sample:
        hint = "fedcli datasets isic2018 --make-sample DIR"
        raise UsageError("--make-sample needs a dataset", hint)
    else:
        _list(json)


def _download(
    name: str,
    folder: Path,
    files: Sequence[str],
    *,
    accepted: bool,
    as_json: bool,
) -> None:
    from ..data.preparation import download
    from ..data.sources import card
    from ..data.sources.cards import of_card

    files_to_fetch = download.wanted(of_card(name, card(name)), folder, files)
    download.download([files_to_fetch], accepted=accepted)
    if as_json:
        show_json({"folder": str(folder), "files": download.received(folder)})
    else:
        console.result(str(folder))


def _make_sample(name: str, folder: Path) -> None:
    from ..data import sources

    sample = str(sources.make_sample(name, folder))
    sites = sources.card(name)["sites"]
    division = f"--by {sites}" if sites else "--clients 2 (it is small)"
    line = f"fedcli prepare {name} --raw {shlex.quote(sample)}"
    console.say(f"next: {line}; then fedcli partition {division}")
    console.result(sample)


def _list(as_json: bool) -> None:
    """Print all datasets, of installed packages too."""
    from ..data.sources import REGISTERED, SOURCES, card

    of_packages = extensions.installed("datasets")
    extensions.allow(of_packages)
    cards = {name: card(name) for name in dict.fromkeys([*SOURCES, *REGISTERED, *of_packages])}
    if as_json:
        show_json(cards)
        return
    rows = []
    for name, entry in cards.items():
        attributes = ", ".join(entry["attributes"])
        if not attributes:
            attributes = "any" if _takes_columns(entry) else "-"
        rows.append([name, entry["title"], str(len(entry["classes"]) or "any"), attributes])
    terminal.table(["dataset", "title", "classes", "attributes"], rows)


def _takes_columns(entry: dict[str, Any]) -> bool:
    """Tell whether a dataset's attributes are columns that a person names."""
    return "group" in entry.get("options", {})


def _readable(entry: dict[str, Any]) -> dict[str, Any]:
    """A card for a person: a line for each file, split and option, and the flags that set them."""
    from ..data.sources import cards

    facts: dict[str, Any] = {}
    for key, value in entry.items():
        if key in ("download_of", "redirects"):
            continue
        text = value
        if key == "files":
            text = {file["path"]: _file_line(file) for file in value}
        elif key == "download":
            files = cards.of_card("", entry).files
            text = {file["path"]: _download_line(file) for file in files}
        elif key == "by_hand":
            text = "by hand"
            if value["bytes"]:
                text += f", about {value['bytes'] / 1e9:,.0f} GB"
        elif key == "options":
            text = {name: _option_line(option) for name, option in value.items()}
        elif key == "classes" or (key == "attributes" and _takes_columns(entry)):
            text = value or "any"
        facts[TITLES.get(key, key)] = text
    return facts


def _file_line(file: dict[str, Any]) -> str:
    text = file.get("what", "")
    return f"columns {', '.join(file['columns'])} - {text}" if "columns" in file else text


def _option_line(option: dict[str, Any]) -> str:
    default = option["default"]
    return option["about"] if default == "" else f"{option['about']} [default: {default}]"


def _download_line(file: dict[str, Any]) -> str:
    """The size of a file, its hash, and where it comes from."""
    from ..data.sources import cards

    size = f"{cards.size(file) / 1e6:,.1f} MB"
    if "bytes" not in file:
        size = f"about {size}"
    checked = "no hash"
    for kind, key in (("MD5", "md5"), ("SHA-256", "sha256")):  # the last is the better one
        if file.get(key):
            checked = f"{kind} {file[key]}"
    if file.get("hash_from"):
        checked += f" ({file['hash_from']})"
    unpacked = f", unpacked to {file['unpack']}/" if "unpack" in file else ""
    return f"{size}, {checked}, from {file['url']}{unpacked}"
