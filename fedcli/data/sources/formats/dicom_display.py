"""The display that a DICOM file asks for: windows, lookup tables, padding.

Source: PS3.3, C.11.1, C.11.2, C.7.5.1.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ..source import Unreadable

if TYPE_CHECKING:
    from pydicom import Dataset

# of a window, slope or intercept; no device measures such values, and float32 holds their products
LARGEST = 1e9
NARROWEST = 1e-30  # width of a window; 255 divided by it is a float32
NARROWEST_LINEAR = 1.0  # PS3.3, C.11.2.1.2; the other functions ask for a width above 0 alone
Field = Callable[[str], Any]  # name of a field -> its value, None where it is absent


def own(
    values: ndarray,
    field: Field,
    padding: ndarray | None,
    otherwise: tuple[float, float] | None,
) -> ndarray:
    """uint8 [H, W] by the file's own table or window.

    Where it has neither, by another window, or the range of its values.
    values: float32 [H, W]. padding: bool [H, W], what is no image and counts for no range.
    """
    tables = field("VOILUTSequence")
    if tables:
        entries, bits = looked_up(values, tables[0])
        white = 2**bits - 1
        greys = np.rint(entries * (255 / white))
        return greys.clip(0, 255).astype(np.uint8)
    bounds = window(field)
    if bounds and not is_linear(field):
        return sigmoid(values, *bounds)
    bounds = bounds or otherwise
    if bounds is None:
        if padding is not None and not padding.all():
            bounds = value_range(values[~padding])
        else:
            bounds = value_range(values)
    return linear(values, *bounds)


def value_range(image: ndarray) -> tuple[float, float]:
    """(centre, width) of all values of an image; width 1 where they are equal."""
    low = float(image.min())
    high = float(image.max())
    width = high - low
    if width < NARROWEST:
        width = 1.0
    return (low + high) / 2, width


def is_linear(field: Field) -> bool:
    """Tell whether a window, or what stands for an absent one, is all that shows the values."""
    function = str(field("VOILUTFunction") or "LINEAR")
    return not field("VOILUTSequence") and function.startswith("LINEAR")


def window(field: Field) -> tuple[float, float] | None:
    """(centre, width) of the first window that the file gives.

    None where its function allows no such width.
    """
    centre = number(field("WindowCenter"), np.nan)
    width = number(field("WindowWidth"), np.nan)
    function = field("VOILUTFunction") or "LINEAR"
    narrowest = NARROWEST_LINEAR if function == "LINEAR" else NARROWEST
    if abs(centre) < LARGEST and narrowest <= width < LARGEST:
        return centre, width
    return None


def linear(values: ndarray, centre: float, width: float) -> ndarray:
    """uint8, of the same shape: 0 up to centre - width / 2, 255 from centre + width / 2 on."""
    low = centre - width / 2
    grey = (values - low) * (255 / width)
    return np.rint(grey.clip(0, 255)).astype(np.uint8)


def sigmoid(values: ndarray, centre: float, width: float) -> ndarray:
    """uint8, of the same shape."""
    from_centre = values - centre
    exponent = (-4 * from_centre / width).clip(-80, 80)
    grey = 255 / (1 + np.exp(exponent))  # PS3.3, C.11.2.1.3.1
    return np.rint(grey).astype(np.uint8)


def looked_up(values: ndarray, table: "Dataset") -> tuple[ndarray, int]:
    """Entries of a lookup table, of the same shape, and their bits.

    Values beyond its ends have the entries there.
    """
    descriptor = table.get("LUTDescriptor") or ()
    data = table.get("LUTData")
    if len(descriptor) != 3 or not data:
        raise Unreadable("has a lookup table without its entries")
    count, lowest, bits = map(int, descriptor)
    if count == 0:
        count = 2**16
    if isinstance(data, bytes):
        bytes_of_words = 2 * count
        data = np.frombuffer(data, np.uint8 if len(data) < bytes_of_words else "<u2")
    entries = np.asarray(data)[:count].astype(np.int64)
    if len(entries) < count or not 1 <= bits <= 16:
        size = f"{len(entries)} entries of {bits} bits"
        raise Unreadable(f"has a lookup table of {size}, expected {count}")
    positions = np.rint(values).astype(np.int64) - lowest
    return entries[positions.clip(0, count - 1)], bits


def padding(stored: ndarray, slice_: "Dataset") -> ndarray | None:
    """bool [H, W]: where the stored values stand for no image.

    None in a file without such values.
    """
    value = slice_.get("PixelPaddingValue")
    if value is None:
        return None
    limit = slice_.get("PixelPaddingRangeLimit")
    if limit is None:
        limit = value
    low, high = sorted((int(value), int(limit)))
    return (stored >= low) & (stored <= high)


def number(value: object, otherwise: float) -> float:
    """The number in a field that may be missing, empty or hold several."""
    if value in (None, ""):
        return otherwise
    values = np.atleast_1d(np.array(value, dtype=float))
    return float(values[0]) if len(values) else otherwise
