"""The display that a DICOM file asks for: windows, lookup tables, padding (PS3.3, C.11.1, C.11.2, C.7.5.1)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..source import Unreadable

if TYPE_CHECKING:
    from pydicom import Dataset

LARGEST = 1e9  # of a window, slope or intercept; no device measures such values, and float32 holds their products
NARROWEST = 1e-30  # width of a window; 255 divided by it is a float32
NARROWEST_LINEAR = 1.0  # PS3.3, C.11.2.1.2; the other functions ask for a width above 0 alone
Field = Callable[[str], Any]  # name of a field -> its value, None where it is absent


def own(
    values: np.ndarray,
    field: Field,
    padding: np.ndarray | None,
    otherwise: tuple[float, float] | None,
) -> np.ndarray:
    """uint8 [H, W] by the file's own table or window; else by another window, or the range of its values.

    values: float32 [H, W]. padding: bool [H, W], what is no image and counts for no range.
    """
    if tables := field("VOILUTSequence"):
        shown, bits = looked_up(values, tables[0])
        return np.rint(shown * (255 / (2**bits - 1))).clip(0, 255).astype(np.uint8)
    if (known := window(field)) is not None:
        return linear(values, *known) if is_linear(field) else sigmoid(values, *known)
    if otherwise is None:
        image = values if padding is None or padding.all() else values[~padding]
        otherwise = value_range(image)
    return linear(values, *otherwise)


def value_range(image: np.ndarray) -> tuple[float, float]:
    """(centre, width) of all values of an image; width 1 where they are equal."""
    low, high = float(image.min()), float(image.max())
    width = high - low
    if width < NARROWEST:
        width = 1.0
    return (low + high) / 2, width


def is_linear(field: Field) -> bool:
    """Tell whether a window, or what stands for an absent one, is all that shows the values."""
    return not field("VOILUTSequence") and str(field("VOILUTFunction") or "LINEAR").startswith(
        "LINEAR"
    )


def window(field: Field) -> tuple[float, float] | None:
    """(centre, width) of the first window that the file gives; None where its function allows no such width."""
    centre = first(field("WindowCenter"), np.nan)
    width = first(field("WindowWidth"), np.nan)
    function = field("VOILUTFunction") or "LINEAR"
    narrowest = NARROWEST_LINEAR if function == "LINEAR" else NARROWEST
    if abs(centre) < LARGEST and narrowest <= width < LARGEST:
        return centre, width
    return None


def linear(values: np.ndarray, centre: float, width: float) -> np.ndarray:
    """uint8, of the same shape: centre - width / 2 and all below is 0, centre + width / 2 and above 255."""
    grey = (values - (centre - width / 2)) * (255 / width)
    return np.rint(grey.clip(0, 255)).astype(np.uint8)


def sigmoid(values: np.ndarray, centre: float, width: float) -> np.ndarray:
    """uint8, of the same shape."""
    away = (-4 * (values - centre) / width).clip(-80, 80)
    return np.rint(255 / (1 + np.exp(away))).astype(np.uint8)  # PS3.3, C.11.2.1.3.1


def looked_up(values: np.ndarray, table: "Dataset") -> tuple[np.ndarray, int]:
    """Entries of a lookup table, of the same shape, and their bits; values beyond its ends have the entries there."""
    if len(table.get("LUTDescriptor") or ()) != 3 or not table.get("LUTData"):
        raise Unreadable("has a lookup table without its entries")
    count, lowest, bits = (int(number) for number in table.LUTDescriptor)
    data, count = table.LUTData, count or 2**16
    if isinstance(data, bytes):
        data = np.frombuffer(data, np.uint8 if len(data) < 2 * count else "<u2")
    entries = np.asarray(data)[:count].astype(np.int64)
    if len(entries) < count or not 1 <= bits <= 16:
        raise Unreadable(
            f"has a lookup table of {len(entries)} entries of {bits} bits, expected {count}"
        )
    return entries[(np.rint(values).astype(np.int64) - lowest).clip(0, count - 1)], bits


def padding(stored: np.ndarray, slice_: "Dataset") -> np.ndarray | None:
    """bool [H, W]: where the stored values stand for no image; None in a file without such values."""
    value, limit = slice_.get("PixelPaddingValue"), slice_.get("PixelPaddingRangeLimit")
    if value is None:
        return None
    low, high = sorted((int(value), int(value if limit is None else limit)))
    return (stored >= low) & (stored <= high)


def first(value: object, otherwise: float) -> float:
    """The number in a field that may be missing, empty or hold several."""
    values = np.atleast_1d(np.array(value if value not in (None, "") else [], dtype=float))
    return float(values[0]) if len(values) else otherwise
