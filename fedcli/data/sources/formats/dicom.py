"""CT slices from DICOM files: stored values -> Hounsfield units -> eight bits of one window, or of three as channels.

FedISM's images came from a Kaggle notebook (guiferviz, prepare-dataset-resizing-and-saving-as-png) that
clips to the file's window and then stretches every slice between its own smallest and largest value. Here
the window's bounds are always 0 and 255, so a tissue has the same grey in every slice; a slice with
both air and bone, which is nearly all of them, comes out alike either way.

Of a file with several frames the middle one counts, number n // 2 from 0: a row of a table is one image. Where files
keep slope, intercept and window for each frame, that frame's are used. What else a file may say of its display (lookup
tables, a sigmoid window, padding, palettes, values in high bits) is followed where no window is asked for.

RLE, JPEG and JPEG 2000 are read by pydicom and Pillow. Lossless JPEG and JPEG-LS need a decoder more, which
`pip install "fedcli[dicom]"` brings; without it such a file stops prepare, for leaving it out would make the
images depend on what is installed.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import FedcliError, UsageError, nearest
from ..source import Choices, Unreadable, unreadable
from . import dicom_display, dicom_header
from .dicom_display import first as _first

if TYPE_CHECKING:
    from pydicom import Dataset

WINDOWS = {
    "brain": (40.0, 80.0),
    "subdural": (80.0, 200.0),
    "bone": (600.0, 2800.0),
}  # centre, width in HU
WRAPPED_FROM = {
    12: 3096,
    16: 32768,
}  # bits stored -> smallest stored value that stands for a negative one
COLOURS = (
    "RGB",
    "YBR_FULL",
    "YBR_FULL_422",
    "YBR_RCT",
    "YBR_ICT",
)  # pydicom turns the others into RGB
PALETTE = "PALETTE COLOR"
GROUPS = "PixelValueTransformationSequence", "FrameVOILUTSequence"
PIXELS = "PixelData", "FloatPixelData", "DoubleFloatPixelData"

Window = tuple[float, float] | None  # centre and width in HU, None for the file's own


@dataclass(frozen=True)
class Scale:
    """The scale from stored values to Hounsfield units.

    Scanners exist that store signed values and call them unsigned: air, which must lie near -1000 HU,
    then wraps around to large values although the intercept is near 0. Those are turned back.
    """

    slope: float
    intercept: float
    bits: int
    signed: bool

    def hounsfield(self, stored: np.ndarray) -> np.ndarray:
        """float32, of the same shape."""
        if stored.dtype.kind == "f":
            return stored.astype(np.float32) * np.float32(self.slope) + np.float32(self.intercept)
        stored = stored.astype(np.int32 if stored.itemsize <= 2 else np.int64)
        if not self.signed and self.intercept > -100 and self.bits in WRAPPED_FROM:
            stored[stored >= WRAPPED_FROM[self.bits]] -= 1 << self.bits
        return stored.astype(np.float32) * np.float32(self.slope) + np.float32(self.intercept)


def parse_window(text: str) -> tuple[Window, ...]:
    """One window, or the three of an image's channels with commas between them. Raises UsageError.

    A window is "brain", "subdural", "bone", "C/W" (centre and width in HU), or "file", which gives None.
    """
    windows = tuple(_parse_one(part.strip()) for part in text.split(","))
    if len(windows) not in (1, 3):
        raise UsageError(
            f"{text!r} are {len(windows)} windows",
            "give one, or three as channels: brain,subdural,bone",
        )
    return windows


def windows_of(choices: Choices) -> tuple[Window, ...]:
    return parse_window(choices.window or "file")


def _parse_one(text: str) -> Window:
    if text == "file":
        return None
    if text in WINDOWS:
        return WINDOWS[text]
    try:
        centre, width = map(float, text.split("/"))
    except ValueError:
        hint = f"{nearest(text, ['file', *WINDOWS])}, or centre/width in HU such as 40/80"
        raise UsageError(f"unknown window {text!r}", hint) from None
    if not (np.isfinite(centre) and 0 < width < np.inf):
        raise UsageError(
            f"window {text!r} has no width above 0", "give centre/width in HU such as 40/80"
        )
    return centre, width


def read_slice(path: Path, windows: tuple[Window, ...] = (None,)) -> np.ndarray:
    """uint8 [H, W, one channel per window]; a file without a window of its own has the brain's. Raises Unreadable."""
    with _told(path):
        return _grey(_read(path), windows)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except (Unreadable, FedcliError):
        raise
    except Exception as error:  # pydicom: a dozen unrelated types for damaged or compressed files
        raise unreadable(error, path) from error


def _grey(slice_: "Dataset", windows: tuple[Window, ...]) -> np.ndarray:
    if slice_.get("PhotometricInterpretation") == PALETTE:
        raise Unreadable("holds places in a palette of colours, not one grey slice")
    own = None in windows and not dicom_display.is_linear(_group_of(slice_))
    if own or _is_shifted(slice_) or slice_.get("ModalityLUTSequence"):
        return _displayed(slice_, windows)
    stored, scale = _plain(slice_), scale_of(slice_)
    stored = _pixels(slice_) if stored is None else stored
    stored = stored.astype(stored.dtype.newbyteorder("="), copy=False)
    known = tuple(window or own_window(slice_) for window in windows)
    if stored.dtype.kind == "f" or stored.itemsize > 2:
        return _windowed(scale.hounsfield(stored), known, _is_inverted(slice_))
    bits = np.dtype(f"u{stored.itemsize}")
    channels = [_table(stored.dtype.str, scale, window, _is_inverted(slice_)) for window in known]
    greys = [np.take(table, stored.view(bits), mode="clip") for table in channels]
    return greys[0][..., None] if len(greys) == 1 else np.stack(greys, -1)


@lru_cache(maxsize=64)
def _table(kind: str, scale: Scale, window: tuple[float, float], inverted: bool) -> np.ndarray:
    """uint8 [2^bits]: the grey of every value that can be stored, which takes a tenth of computing each pixel's."""
    dtype = np.dtype(kind)
    width = 8 * dtype.itemsize
    values = np.arange(1 << width, dtype=f"u{dtype.itemsize}").view(dtype)
    unused = (
        width - scale.bits if 0 < scale.bits < width else 0
    )  # high bits, in which anything may stand
    values = (values << unused) >> unused
    return _windowed(scale.hounsfield(values), (window,), inverted)[..., 0]


def _windowed(
    hounsfield: np.ndarray, windows: tuple[tuple[float, float], ...], inverted: bool
) -> np.ndarray:
    grey = np.stack([dicom_display.linear(hounsfield, *window) for window in windows], -1)
    return 255 - grey if inverted else grey


def read_picture(path: Path, windows: tuple[Window, ...] = (None,)) -> np.ndarray:
    """Like read_slice of any kind of image, [H, W, 3] of a coloured one. Raises Unreadable.

    Other kinds have no Hounsfield units: window None takes the file's own, or the range of its values.
    """
    with _told(path):
        slice_ = _read(path)
        if _has_colours(slice_):
            return _colours(slice_)
        return (_grey if slice_.get("Modality") == "CT" else _displayed)(slice_, windows)


def header(path: Path) -> tuple[str, bool, int, int]:
    """A slice's modality ("" where unknown), colours or none, pixels of its shorter side, and bits stored for each
    colour, 0 where unknown. Raises Unreadable."""
    with _told(path):
        wanted = [
            "SamplesPerPixel",
            "PhotometricInterpretation",
            "Modality",
            "Rows",
            "Columns",
            "BitsStored",
        ]
        slice_ = _read(path, stop_before_pixels=True, specific_tags=wanted)
        modality = str(slice_.get("Modality") or "")
        known = (
            modality if modality.isalnum() and modality.isascii() and len(modality) <= 16 else ""
        )
        side = min(int(slice_.get("Rows") or 0), int(slice_.get("Columns") or 0))
        return known, _has_colours(slice_), side, int(slice_.get("BitsStored") or 0)


def _has_colours(slice_: "Dataset") -> bool:
    return (
        slice_.get("SamplesPerPixel", 1) > 1 or slice_.get("PhotometricInterpretation") == PALETTE
    )


def _colours(slice_: "Dataset") -> np.ndarray:
    kind = slice_.get("PhotometricInterpretation")
    if kind == PALETTE:
        from pydicom.pixels import apply_color_lut

        colours = apply_color_lut(_pixels(slice_), slice_)[..., :3]
        return colours if colours.itemsize == 1 else (colours >> 8).astype(np.uint8)
    if kind not in COLOURS or slice_.BitsAllocated != 8:
        raise Unreadable(f"holds {slice_.BitsAllocated}-bit colours as {kind}, not 8-bit RGB")
    colours = _frame(slice_)
    if colours.ndim != 3:
        raise Unreadable(f"holds an array of shape {colours.shape}, not one image")
    return colours


def _displayed(slice_: "Dataset", windows: tuple[Window, ...]) -> np.ndarray:
    """uint8 [H, W, one channel per window] by all that a file may say of its display."""
    stored, scale, is_ct = _aligned(slice_), scale_of(slice_), slice_.get("Modality") == "CT"
    if tables := slice_.get("ModalityLUTSequence"):
        values = dicom_display.looked_up(stored, tables[0])[0].astype(np.float32)
    elif is_ct:
        values = scale.hounsfield(stored)
    else:
        values = stored.astype(np.float32) * np.float32(scale.slope) + np.float32(scale.intercept)
    padding = None if is_ct else dicom_display.padding(stored, slice_)
    own = dicom_display.own(values, _group_of(slice_), padding, WINDOWS["brain"] if is_ct else None)
    greys = [own if window is None else dicom_display.linear(values, *window) for window in windows]
    grey = np.stack([255 - grey if _is_inverted(slice_) else grey for grey in greys], -1)
    if padding is not None:
        grey[padding] = 0
    return grey


def _is_inverted(slice_: "Dataset") -> bool:
    return slice_.get("PhotometricInterpretation") == "MONOCHROME1"


def _read(path: Path, **options) -> "Dataset":
    import pydicom

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd but harmless values; what matters raises
        try:
            dicom_header.check_inflated(path)
            file = pydicom.dcmread(path, **options)
        except pydicom.errors.InvalidDicomError:
            raise Unreadable("is no DICOM file: it does not begin as one") from None
        if not options and not any(name in file for name in PIXELS):
            raise Unreadable("holds no pixel data")
        if (frame := _bytes(file, frames=1)) > dicom_header.MOST:
            raise Unreadable(
                f"claims an image of {file.get('Rows')} x {file.get('Columns')} pixels, {frame:,} bytes"
            )
        return file


def _pixels(slice_: "Dataset") -> np.ndarray:
    """The stored values [H, W] of the only or the middle frame."""
    stored = _frame(slice_)
    if stored.ndim != 2:
        raise Unreadable(f"holds an array of shape {stored.shape}, not one grey slice")
    if stored.dtype.kind == "f" and not (abs(stored) < dicom_display.LARGEST**2).all():
        raise Unreadable("holds values that are not finite, or beyond all measured ones")
    return stored


def _plain(slice_: "Dataset") -> np.ndarray | None:
    """The 16-bit words [H, W] of a grey, uncompressed frame as they lie in the file, None of any other kind.

    It saves pydicom's own way, which takes longer than all else that is done to a slice; the unused bits of a word
    are still in it.
    """
    from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian

    little = slice_.file_meta.get("TransferSyntaxUID") in (
        ExplicitVRLittleEndian,
        ImplicitVRLittleEndian,
    )
    data, shape = slice_.get("PixelData"), (slice_.get("Rows"), slice_.get("Columns"))
    grey = (slice_.get("SamplesPerPixel"), slice_.get("BitsAllocated")) == (1, 16)
    if not (little and grey and _middle(slice_) is None and all(shape) and isinstance(data, bytes)):
        return None
    if len(data) != 2 * shape[0] * shape[1]:
        return None
    return np.frombuffer(data, "<i2" if slice_.get("PixelRepresentation") == 1 else "<u2").reshape(
        shape
    )


def _frame(slice_: "Dataset") -> np.ndarray:
    from pydicom.pixels import get_decoder, pixel_array

    syntax = slice_.file_meta.TransferSyntaxUID
    if syntax.is_encapsulated and not get_decoder(syntax).is_available:
        hint = 'pip install "fedcli[dicom]", or: pip install python-gdcm'
        name = Path(slice_.filename).name
        raise FedcliError(
            f"{name} is compressed as {syntax.name}, for which no decoder is installed", hint
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (
                pixel_array(slice_, index=_middle(slice_))
                if _middle(slice_)
                else slice_.pixel_array
            )
    except Exception as error:  # pydicom: as above
        if not syntax.is_encapsulated and (there := len(slice_.get("PixelData", b""))) < (
            wanted := _bytes(slice_)
        ):
            raise Unreadable(f"pixel data cut short ({there} of {wanted} bytes)") from error
        raise


def _bytes(slice_: "Dataset", frames: int | None = None) -> int:
    """Bytes that the pixels of all frames take in a file without compression; 0 where its header does not say."""
    sides = [
        slice_.get(name) or 0 for name in ("Rows", "Columns", "SamplesPerPixel", "BitsAllocated")
    ]
    if slice_.get("PhotometricInterpretation") == "YBR_FULL_422":  # two pixels share their colours
        return 0
    return math.prod(sides) * (frames or int(slice_.get("NumberOfFrames") or 1)) // 8


def _middle(slice_: "Dataset") -> int | None:
    """Number of the middle frame from 0, None of a file that has but one."""
    frames = int(slice_.get("NumberOfFrames") or 1)
    return frames // 2 if frames > 1 else None


def _aligned(slice_: "Dataset") -> np.ndarray:
    """The stored values [H, W], from the lowest bit up even where the file keeps them in higher bits."""
    if not _is_shifted(slice_):
        return _pixels(slice_)
    words, high, bits = _plain(slice_), int(slice_.HighBit), int(slice_.BitsStored)
    if words is None or not 0 < bits <= high + 1 <= 16:
        raise Unreadable(
            f"keeps {bits} bits from bit {high} down, in a kind of file where these are not read"
        )
    return (words << (15 - high)) >> (16 - bits)


def _is_shifted(slice_: "Dataset") -> bool:
    """Tell whether values lie in other bits than the lowest; those of compressed files never do."""
    high, bits = slice_.get("HighBit"), slice_.get("BitsStored")
    return (
        None not in (high, bits)
        and high + 1 != bits
        and not slice_.file_meta.TransferSyntaxUID.is_encapsulated
    )


def scale_of(slice_: "Dataset") -> Scale:
    group = _group_of(slice_)
    slope, intercept = _first(group("RescaleSlope"), 1.0), _first(group("RescaleIntercept"), 0.0)
    if not (0 < abs(slope) < dicom_display.LARGEST and abs(intercept) < dicom_display.LARGEST):
        raise Unreadable(
            f"its values cannot be scaled by RescaleSlope {slope:g} and RescaleIntercept {intercept:g}"
        )
    signed = slice_.get("PixelRepresentation", 0) == 1
    return Scale(slope, intercept, int(slice_.get("BitsStored", 0)), signed)


def own_window(slice_: "Dataset") -> tuple[float, float]:
    """(centre, width): the first that the file gives, the brain's where it gives none or one without width."""
    return dicom_display.window(_group_of(slice_)) or WINDOWS["brain"]


def _group_of(slice_: "Dataset") -> dicom_display.Field:
    """A reader of a field that enhanced files keep in a sequence, for each frame (of which the middle one counts) or
    for all."""
    frames, shared = (
        slice_.get("PerFrameFunctionalGroupsSequence"),
        slice_.get("SharedFunctionalGroupsSequence"),
    )
    middle = _middle(slice_) or 0
    groups = [*(frames or [])[middle : middle + 1], *(shared or [])]
    items = [item for group in groups for name in GROUPS for item in group.get(name) or []]

    def field(name: str) -> Any:
        return next((item.get(name) for item in items if name in item), slice_.get(name))

    return field
