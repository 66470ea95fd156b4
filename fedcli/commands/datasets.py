"""fedcli datasets."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..errors import UsageError
from . import options as o


def datasets(
    name: Annotated[str | None, typer.Argument(help="one dataset; default: the list")] = None,
    make_twin: Annotated[
        Path | None, typer.Option(metavar="DIR", help="write a tiny made-up copy of its files, in their exact layout")
    ] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """List the datasets fedcli can prepare, or show one: files expected, attributes, licence, where to get it.

    Example: fedcli prepare isic2018 --raw $(fedcli datasets isic2018 --make-twin twin)
    """
    from ..data.sources import SOURCES, card
    from ..data.twins import twin

    if make_twin:
        if not name:
            raise UsageError("--make-twin needs a dataset", "fedcli datasets isic2018 --make-twin DIR")
        print(twin(name, make_twin))
        return
    if name:
        found = card(name)
        o.show_json(found) if json else o.show_tree(found)
        return
    cards = {known: card(known) for known in SOURCES}
    if json:
        o.show_json(cards)
        return
    rows = [
        [known, c["title"], str(len(c["classes"]) or "any"), ", ".join(c["attributes"]) or "-"]
        for known, c in cards.items()
    ]
    console.table(["dataset", "title", "classes", "attributes"], rows, file=sys.stdout)
