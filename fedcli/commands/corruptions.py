"""fedcli corruptions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from .. import extensions
from ..common_options import NAME
from ..system import terminal
from .shell.common import Json
from .shell.shown import show_json

if TYPE_CHECKING:
    from ..data.corruption.kinds import CorruptionKind

One = Annotated[str | None, "a modality, whose kinds are shown, or one kind", NAME]
MORE = (
    "`fedcli corruptions NAME` shows a modality or one kind, `fedcli plot corruptions --kind NAME` "
    "draws them."
)


def corruptions(name: One = None, json: Json = False) -> None:
    """List the kinds of `fedcli corrupt`, by modality.

    The name of a modality shows its kinds. The name of a kind shows its five severities, what it
    does to colour and grey images, and the source of its definition.

    Examples: fedcli corruptions dermoscopy; fedcli corruptions hair
    """
    from ..data.corruption.kinds import KINDS, MODALITIES, named, of_modality

    if name in MODALITIES:
        chosen = [KINDS[kind] for kind in of_modality(name)]
        _show(chosen, _rows(chosen), json)
    elif name:
        kind = named(name)
        if json:
            show_json({kind.name: _facts(kind)})
        else:
            terminal.table(["", kind.name], _lines(kind))
    else:
        everything = [*KINDS.values(), *_of_packages()]
        _show(everything, _by_modality(everything), json)


def _of_packages() -> "list[CorruptionKind]":
    from ..data.corruption.kinds import KINDS, named

    names = extensions.installed("corruptions")
    with extensions.allowed(names):
        return [named(name) for name in names if name not in KINDS]


def _show(
    kinds: "Sequence[CorruptionKind]",
    rows: list[list[str]],
    as_json: bool,
) -> None:
    if as_json:
        show_json({kind.name: _facts(kind) for kind in kinds})
        return
    terminal.table(["corruption", "what it does"], rows)
    print(MORE)


def _by_modality(kinds: "Sequence[CorruptionKind]") -> list[list[str]]:
    """Rows of the general kinds, then of each modality; kinds of a table of another's intensities
    in one row.
    """
    from ..data.corruption.kinds import MODALITIES

    rows = []
    for modality, words in MODALITIES.items():
        members = [kind for kind in kinds if modality in kind.modalities]
        if members:
            rows.append([modality.upper(), words])
        rows += _rows([kind for kind in members if "@" not in kind.name])
        others = [kind.name.partition("@")[0] for kind in members if "@" in kind.name]
        if others:
            listed = ", ".join(others)
            rows.append([f"...@{modality}", f"with MedMNIST-C's intensities: {listed}"])
    return rows


def _rows(kinds: "Sequence[CorruptionKind]") -> list[list[str]]:
    rows = []
    for kind in kinds:
        about = kind.about
        if kind.smallest > 1:
            about += f"; images of {kind.smallest} pixels or more"
        if kind.aliases:
            about += f"; also called {' or '.join(kind.aliases)}"
        rows.append([kind.name, about])
    return rows


def _facts(kind: "CorruptionKind") -> dict[str, Any]:
    from ..data.corruption.kinds.kind import ORIGINALS

    return {
        "about": kind.about,
        "modalities": list(kind.modalities),
        "unit": kind.unit,
        "amounts": list(kind.amounts),
        "colour": kind.colour,
        "grey": kind.grey,
        "originals": ORIGINALS,
        "smallest": kind.smallest,
        "aliases": list(kind.aliases),
        "source": kind.source,
    }


def _lines(kind: "CorruptionKind") -> list[list[str]]:
    facts = _facts(kind)
    lines = [["what it does", kind.about]]
    for severity, amount in enumerate(kind.amounts, 1):
        lines.append([f"severity {severity}", f"{amount} ({kind.unit})"])
    lines.append(["typical of", ", ".join(kind.modalities)])
    lines.append(["colour images", kind.colour])
    lines.append(["grey images", kind.grey])
    lines.append(["16 bits", facts["originals"]])
    lines.append(["smallest side", f"{kind.smallest} pixels"])
    if kind.aliases:
        lines.append(["also called", ", ".join(kind.aliases)])
    lines.append(["definition", kind.source])
    return lines
