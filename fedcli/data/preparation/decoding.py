"""Work of the processes of prepare: decode images, fit them to the pool's size, write them to their places."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...provenance import OwnCodeError
from ...system.memory import keep_freed
from ..pool import BlankPool, Row
from ..sources.formats.photographs import fit_image, match_channels, scaled_decoding
from ..sources.source import Choices, Source, Unreadable

MOST_KEPT = 2**27  # bytes of images that a process has let go of


@dataclass(frozen=True)
class Reader:
    """Work of a process: decode some rows that follow one another, fit them, write them to their places."""

    source: Source
    raw: Path | None
    choices: Choices
    pool: BlankPool

    def __call__(self, placed: list[tuple[int, Row]]) -> list[str]:
        """The reason why each row cannot be read, "" where all went well."""
        keep_freed(MOST_KEPT)
        images = np.empty((len(placed), *self.pool.shape[1:]), np.uint8)
        reasons = [self._read(row, image) for (_, row), image in zip(placed, images, strict=True)]
        self.pool.put(placed[0][0], images)
        return reasons

    def _read(self, row: Row, out: np.ndarray) -> str:
        try:
            with scaled_decoding(self.choices):
                image = self.source.decode(self.raw, row, self.choices)
        except Unreadable as error:
            out[...] = 0
            return str(error)
        image = match_channels(self._checked(image, row, out.shape[2]), out.shape[2])
        out[...] = fit_image(image, self.choices.size, self.choices.fit, self.choices.clahe)
        return ""

    def _checked(self, image: Any, row: Row, channels: int) -> np.ndarray:
        """An image that decode() returned. Raises OwnCodeError where it is none that can be written."""
        known = isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.size > 0
        if known and image.shape[2] in ({1, 3, channels} if channels in (1, 3) else {channels}):
            return image
        array = isinstance(image, np.ndarray)
        what = f"{image.dtype} {list(image.shape)}" if array else f"a {type(image).__name__}"
        decode = getattr(self.source.decode, "__code__", None)
        file, name = (Path(decode.co_filename).name, decode.co_name) if decode else ("the reader", "decode")
        wanted = "1 or 3" if channels in (1, 3) else str(channels)
        raise OwnCodeError(
            f"{file}: {name} returned {what} for the image {row.id[:80]!r}",
            f"return uint8 [H, W, {wanted}], from 0 to 255, with at least one pixel",
        )
