"""The header of an array in NumPy's format, of all its versions, read with a bound."""

import io
from typing import IO

import numpy as np
from numpy.lib import format as npy

LONGEST = 2**16  # bytes of a header; the later versions allow 4 GB, and NumPy reads them all


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, stored column by column, type of its numbers).

    The stream then stands at its numbers.
    Raises ValueError for a header that is broken or too long.
    """
    version = npy.read_magic(stream)
    if version == (1, 0):
        return npy.read_array_header_1_0(stream)
    if version not in ((2, 0), (3, 0)):  # the two differ in letters beyond ASCII alone
        raise ValueError(f"its header is of version {version}")
    length = stream.read(4)
    count = int.from_bytes(length, "little")
    if count > LONGEST:
        raise ValueError(f"its header claims {count:,} bytes")
    header = length + stream.read(count)
    return npy.read_array_header_2_0(io.BytesIO(header))
