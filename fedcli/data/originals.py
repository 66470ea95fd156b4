"""Image files as they come, before prepare resizes them: their kind, colours, size and bit depth.

prepare keeps those of a sample of the training images in a file beside the pool, and predict
compares new files with them. No manifest lists that file, as it decides no number: a pool without
it gets it where prepare is called again.
"""

import json
import math
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

FILE = "originals.json"
SAMPLE = 200  # images
SHAPE = {"kinds": [str], "coloured": [bool], "side": int, "bits?": [int]}
AGAIN = "remove it, and call fedcli prepare again"
PICTURE = "PNG or JPEG"
DICOM = "DICOM"
VOLUME = "NIfTI"
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
    """The training images' files: their kinds, grey or coloured or both, the shortest of their
    shorter sides, and bits for each colour."""

    kinds: list[str]
    coloured: list[bool]
    side: int
    bits: list[int] = field(default_factory=list)

    @property
    def said(self) -> str:
        """The facts in words."""
        colours = " and ".join("colour" if coloured else "grey" for coloured in self.coloured)
        words = f"original files: {' and '.join(self.kinds)}, {colours}"
        if self.side:
            words += f", shorter side {self.side} pixels or more"
        if self.bits:
            bits = " and ".join(map(str, self.bits))
            words += f", {bits} bits for each colour"
        return words

    def differences(self, new: Original) -> list[str]:
        """The differences of a new file in words, for the column of predict."""
        words = []
        some_dicom = any(kind.startswith(DICOM) for kind in self.kinds)
        if new.kind not in self.kinds and not (new.kind == DICOM and some_dicom):
            kinds = " and ".join(self.kinds)
            words.append(f"a {new.kind} file, while the training images are {kinds} files")
        if new.coloured not in self.coloured:
            colour, other = ("coloured", "grey") if new.coloured else ("grey", "coloured")
            words.append(f"{colour}, while every training image is {other}")
        if 0 < new.side * SMALLER < self.side:
            training = f"of the training images {self.side} or more"
            words.append(f"its shorter side has {new.side} pixels, {training}")
        return words


def original(path: Path) -> Original:
    """The facts that a file's header alone gives. Raises Unreadable."""
    if nifti.is_nifti(path.name):
        return Original(VOLUME, False, 0)
    if photographs.is_dicom(path):
        modality, coloured, side, bits = dicom.header(path)
        return Original(f"{DICOM} {modality}".rstrip(), coloured, side, bits)
    return Original(PICTURE, *photographs.header(path))


def keep(folder: Path, raw: Path, rows: Iterable[Row]) -> None:
    """Write facts of a sample of a dataset's training images beside its pool, once; of packed files
    none."""
    path = folder / FILE
    if path.exists():
        return
    train = [row for row in rows if not row.test]
    step = math.ceil(len(train) / SAMPLE)
    sample = []
    for row in train[::step]:
        with suppress(Unreadable, OSError):
            sample.append(original(raw / row.source))
    if not sample:
        return
    facts = Originals(
        kinds=sorted({file.kind for file in sample}),
        coloured=sorted({file.coloured for file in sample}),
        side=min(file.side for file in sample),
        bits=sorted({file.bits for file in sample} - {0}),
    )
    text = json.dumps(asdict(facts), indent=1)
    # a finished dataset of somebody else, on a disk that may not be written to
    with suppress(OSError):
        write_text(path, f"{text}\n")


def read(folder: Path) -> Originals | None:
    """The facts beside a pool, None where there are none. Raises FedcliError."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        facts = json.loads(read_text(path, AGAIN))
    except (ValueError, RecursionError):
        facts = None
    shapes.check(facts, SHAPE, path, AGAIN)
    kinds = [re.sub(r"[^\w -]", "", kind)[:40] for kind in facts["kinds"]]
    return Originals(
        kinds,
        facts["coloured"],
        facts["side"],
        facts.get("bits", []),
    )
