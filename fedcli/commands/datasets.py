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


def datasets(
    name: Annotated[str | None, "one dataset; default: the list", NAME] = None,
    make_sample: Annotated[
        Path | None,
        "write a synthetic sample: a few made-up files in its layout",
        Flag("DIR", access="writes"),
    ] = None,
    download: Annotated[
        Path | None,
        "put its files there, where they are free to download",
        Flag("DIR", access="writes"),
    ] = None,
    file: Annotated[
        Sequence[str],
        "with --download: only this file; may be repeated",
        Flag("PATH", access="reads"),
    ] = (),
    accept_licence: AcceptLicence = False,
    json: Json = False,
) -> None:
    """List the datasets, or show or download one.

    Of one dataset: the files it needs, attributes, licence and where to get it.

    --download says how much it is, asks for the licence to be accepted, goes on where it broke off, and checks every
    file by its published hash, or by that of the first download where nobody publishes one.

    Example: fedcli prepare isic2018 --raw $(fedcli datasets isic2018 --make-sample sample)
    """
    from ..data import sources
    from ..data.sources import SOURCES, card
    from ..data.sources.cards import of_card

    name = name and sources.named(name)
    refuse_together(make_sample=make_sample, download=download)
    if (file or accept_licence) and not download:
        raise UsageError("--file and --accept-licence are about a download", "add --download DIR")
    for flag, given, example in (
        ("download", download, "medmnist"),
        ("make-sample", make_sample, "isic2018"),
    ):
        if given and not name:
            raise UsageError(f"--{flag} needs a dataset", f"fedcli datasets {example} --{flag} DIR")
    if name and download:
        from ..data.preparation import download as fetch

        fetch.download(
            [fetch.wanted(of_card(name, card(name)), download, file)], accepted=accept_licence
        )
        if json:
            show_json({"folder": str(download), "files": fetch.received(download)})
        else:
            console.result(str(download))
        return
    if name and make_sample:
        made, sites = sources.make_sample(name, make_sample), card(name)["sites"]
        division = f"--by {sites}" if sites else "--clients 2 (it is small)"
        console.say(
            f"next: fedcli prepare {name} --raw {shlex.quote(str(made))}; then fedcli partition {division}"
        )
        console.result(str(made))
        return
    if name:
        entry = card(name)
        show_json(entry) if json else show_tree(_readable(entry))
        return
    offered = extensions.installed("datasets")
    extensions.allow(offered)
    cards = {
        known: card(known) for known in dict.fromkeys([*SOURCES, *sources.REGISTERED, *offered])
    }
    if json:
        show_json(cards)
        return
    rows = []
    for known, c in cards.items():
        attributes = ", ".join(c["attributes"]) or ("any" if _takes_columns(c) else "-")
        rows.append([known, c["title"], str(len(c["classes"]) or "any"), attributes])
    terminal.table(["dataset", "title", "classes", "attributes"], rows)


def _takes_columns(entry: dict[str, Any]) -> bool:
    """Tell whether a dataset's attributes are columns that a person names."""
    return "group" in entry.get("options", {})


def _readable(entry: dict[str, Any]) -> dict[str, Any]:
    """A card for a person: a line for each file, split and option, and the flags that set them."""
    from ..data.sources import cards

    shown: dict[str, Any] = {}
    files = {file["path"]: _download_line(file) for file in cards.of_card("", entry).files}
    for key, value in entry.items():
        if key in ("download_of", "redirects"):
            continue
        if key == "files":
            columns = (
                f"columns {', '.join(file['columns'])} - " if "columns" in file else ""
                for file in value
            )
            shown[key] = {
                file["path"]: head + file.get("what", "")
                for head, file in zip(columns, value, strict=True)
            }
        elif key == "download":
            shown["download (--download DIR)"] = files
        elif key == "by_hand":
            about = f", about {value['bytes'] / 1e9:,.0f} GB" if value["bytes"] else ""
            shown["download"] = f"by hand{about}"
        elif key == "splits":
            shown["splits (--split)"] = value
        elif key == "options":
            defaults = {
                name: f" [default: {of['default']}]" * (of["default"] != "")
                for name, of in value.items()
            }
            lines = {name: of["about"] + defaults[name] for name, of in value.items()}
            shown["options (--set OPTION=VALUE)"] = lines
        elif key == "classes" or (key == "attributes" and _takes_columns(entry)):
            shown[key] = value or "any"
        else:
            shown[key] = value
    return shown


def _download_line(file: dict[str, Any]) -> str:
    from ..data.sources import cards

    about = "" if "bytes" in file else "about "
    unpacked = f", unpacked to {file['unpack']}/" if "unpack" in file else ""
    hashes = (("SHA-256", file.get("sha256")), ("MD5", file.get("md5")))
    checked = next((f"{kind} {digest}" for kind, digest in hashes if digest), "no hash")
    said = f" ({known})" if (known := file.get("hash_from")) else ""
    return f"{about}{cards.size(file) / 1e6:,.1f} MB, {checked}{said}, from {file['url']}{unpacked}"
