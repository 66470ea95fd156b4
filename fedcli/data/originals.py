"""Image files as they come, before prepare resizes them: their kind, colours, size and bit depth.

prepare keeps those of a sample of the training images in a file beside the pool, and predict compares new files with
them. No manifest lists that file, as it decides no number: a pool without it gets it where prepare is called again.
"""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .. import shapes
from ..io.files import read_text, write_text
from .pool import Row
from .sources.formats import dicom, nifti, photographs
from .sources.source import Unreadable

FILE, SAMPLE = "originals.json", 200
AGAIN = "remove it, and call fedcli prepare again"
PICTURE, DICOM, VOLUME = "PNG or JPEG", "DICOM", "NIfTI"
SMALLER = 2  # times, than the smallest of the training images


@dataclass(frozen=True)
class Original:
    """One file.

    Attributes:
        kind: PICTURE, VOLUME, or DICOM with its modality, such as "DICOM CT".
        coloured: by its header.
        side: its shorter side in pixels; 0 of a volume.
        bits: for each colour; 0 where the header does not say.
    """

    kind: str
    coloured: bool
    side: int
    bits: int = 0


@dataclass(frozen=True)
class Originals:
    """The training images' files: their kinds, grey or coloured or both, the shortest of their shorter sides, and bits
    for each colour."""

    kinds: list[str]
    coloured: list[bool]
    side: int
    bits: list[int] = field(default_factory=list)

    @property
    def said(self) -> str:
        """In words."""
        colours = " and ".join("colour" if each else "grey" for each in self.coloured)
        side = f", shorter side {self.side} pixels or more" * bool(self.side)
        bits = f", {' and '.join(map(str, self.bits))} bits for each colour" * bool(self.bits)
        return f"original files: {' and '.join(self.kinds)}, {colours}{side}{bits}"

    def differences(self, new: Original) -> list[str]:
        """In words, for the column of predict."""
        said = []
        some_dicom = any(kind.startswith(DICOM) for kind in self.kinds)
        if new.kind not in self.kinds and not (new.kind == DICOM and some_dicom):
            said.append(
                f"a {new.kind} file, where the training images are {' and '.join(self.kinds)} files"
            )
        if new.coloured not in self.coloured:
            ours, theirs = ("coloured", "grey") if new.coloured else ("grey", "coloured")
            said.append(f"{ours}, where every training image is {theirs}")
        if 0 < new.side * SMALLER < self.side:
            said.append(
                f"its shorter side has {new.side} pixels, of the training images {self.side} or more"
            )
        return said


def original(path: Path) -> Original:
    """By a file's header alone. Raises Unreadable."""
    if nifti.is_nifti(path.name):
        return Original(VOLUME, False, 0)
    if photographs.is_dicom(path):
        modality, coloured, side, bits = dicom.header(path)
        return Original(f"{DICOM} {modality}".rstrip(), coloured, side, bits)
    return Original(PICTURE, *photographs.header(path))


def keep(folder: Path, raw: Path, rows: Iterable[Row]) -> None:
    """Write facts of a sample of a dataset's training images beside its pool, once; of packed files none."""
    if (folder / FILE).exists():
        return
    train = [row for row in rows if not row.test]
    known = []
    for row in train[:: -(-len(train) // SAMPLE)]:
        with suppress(Unreadable, OSError):
            known.append(original(raw / row.source))
    if known:
        kinds, coloured = (
            sorted({each.kind for each in known}),
            sorted({each.coloured for each in known}),
        )
        bits = sorted({each.bits for each in known} - {0})
        written = Originals(kinds, coloured, min(each.side for each in known), bits)
        with suppress(
            OSError
        ):  # a finished dataset of somebody else, on a disk that may not be written to
            write_text(folder / FILE, json.dumps(asdict(written), indent=1) + "\n")


def read(folder: Path) -> Originals | None:
    """Those beside a pool, None where there are none. Raises FedcliError."""
    if not (path := folder / FILE).is_file():
        return None
    try:
        known = json.loads(read_text(path, AGAIN))
    except (ValueError, RecursionError):
        known = None
    shapes.check(
        known, {"kinds": [str], "coloured": [bool], "side": int, "bits?": [int]}, path, AGAIN
    )
    kinds = [re.sub(r"[^\w -]", "", kind)[:40] for kind in known["kinds"]]
    return Originals(kinds, known["coloured"], known["side"], known.get("bits", []))
