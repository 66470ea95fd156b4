"""CT slices from DICOM files: stored values -> Hounsfield units -> eight bits of a window.

There may also be three windows, as channels. FedISM's images came from a Kaggle notebook
(guiferviz, prepare-dataset-resizing-and-saving-as-png) that clips to the file's window and then
stretches every slice between its own smallest and largest value. Here the window's bounds are
always 0 and 255, so a tissue has the same grey in every slice; a slice with both air and bone,
which is nearly all of them, comes out alike either way.

Of a file with several frames the middle one counts, number n // 2 from 0: a row of a table is one
image. Where files keep slope, intercept and window for each frame, that frame's are used. What else
a file may say of its display (lookup tables, a sigmoid window, padding, palettes, values in high
bits) is followed where no window is asked for.

RLE, JPEG and JPEG 2000 are read by pydicom and Pillow. Lossless JPEG and JPEG-LS need a decoder
more, which `pip install "fedcli[dicom]"` brings; without it such a file stops prepare, for leaving
it out would make the images depend on what is installed.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ....errors import FedcliError, UsageError, nearest
from ...prepare_options import PrepareOptions
from ..source import Unreadable, unreadable
from . import dicom_display, dicom_header
from .dicom_display import LARGEST, number

if TYPE_CHECKING:
    from pydicom import Dataset

WINDOWS = {
    "brain": (40.0, 80.0),
    "subdural": (80.0, 200.0),
    "bone": (600.0, 2800.0),
}  # HU
# bits stored -> smallest stored value that stands for a negative one
WRAPPED_FROM = {12: 3096, 16: 32768}
# pydicom turns the others into RGB
COLOURS = "RGB", "YBR_FULL", "YBR_FULL_422", "YBR_RCT", "YBR_ICT"
PALETTE = "PALETTE COLOR"
GROUPS = "PixelValueTransformationSequence", "FrameVOILUTSequence"
PIXELS = "PixelData", "FloatPixelData", "DoubleFloatPixelData"
HEADER = [
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "Modality",
    "Rows",
    "Columns",
    "BitsStored",
]
LONGEST_MODALITY = 16  # letters and digits

Window = tuple[float, float] | None  # centre and width in HU, None for the file's own
Windows = tuple[Window, ...]


@dataclass(frozen=True)
class Scale:
    """The scale from stored values to Hounsfield units.

    Scanners exist that store signed values and call them unsigned: air, which must lie near -1000
    HU, then wraps around to large values although the intercept is near 0. Those are turned back.
    """

    slope: float
    intercept: float
    bits: int
    signed: bool

    def hounsfield(self, stored: ndarray) -> ndarray:
        """float32, of the same shape."""
        if stored.dtype.kind == "f":
            return self.scaled(stored)
        stored = stored.astype(np.int32 if stored.itemsize <= 2 else np.int64)
        if not self.signed and self.intercept > -100 and self.bits in WRAPPED_FROM:
            is_negative = stored >= WRAPPED_FROM[self.bits]
            stored[is_negative] -= 1 << self.bits
        return self.scaled(stored)

    def scaled(self, stored: ndarray) -> ndarray:
        """float32, of the same shape: slope and intercept alone."""
        slope = np.float32(self.slope)
        intercept = np.float32(self.intercept)
        return stored.astype(np.float32) * slope + intercept


def parse_window(text: str) -> Windows:
    """One window, or the three of an image's channels with commas between them.

    A window is "brain", "subdural", "bone", "C/W" (centre and width in HU), or "file", which gives
    None. Raises UsageError.
    """
    parts = text.split(",")
    windows = tuple(_parse_one(part.strip()) for part in parts)
    if len(windows) not in (1, 3):
        hint = "give one, or three as channels: brain,subdural,bone"
        raise UsageError(f"{text!r} are {len(windows)} windows", hint)
    return windows


def windows_of(choices: PrepareOptions) -> Windows:
    return parse_window(choices.window or "file")


def _parse_one(text: str) -> Window:
    if text == "file":
        return None
    if text in WINDOWS:
        return WINDOWS[text]
    try:
        centre, width = map(float, text.split("/"))
    except ValueError:
        names = nearest(text, ["file", *WINDOWS])
        hint = f"{names}, or centre/width in HU such as 40/80"
        raise UsageError(f"unknown window {text!r}", hint) from None
    if not (np.isfinite(centre) and 0 < width < np.inf):
        hint = "give centre/width in HU such as 40/80"
        raise UsageError(f"window {text!r} has no width above 0", hint)
    return centre, width


def read_slice(path: Path, windows: Windows = (None,)) -> ndarray:
    """uint8 [H, W, one channel per window]. Raises Unreadable.

    A file without a window of its own has the brain's.
    """
    with _readable(path):
        return _grey(_read(path), windows)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raises Unreadable for what goes wrong within."""
    try:
        yield
    except (Unreadable, FedcliError):
        raise
    except Exception as error:  # pydicom: a dozen unrelated types for damaged or compressed files
        raise unreadable(error, path) from error


def _grey(slice_: "Dataset", windows: Windows) -> ndarray:
    if slice_.get("PhotometricInterpretation") == PALETTE:
        raise Unreadable("holds places in a palette of colours, not one grey slice")
    follows_display = None in windows and not dicom_display.is_linear(_group_of(slice_))
    if follows_display or _is_shifted(slice_) or slice_.get("ModalityLUTSequence"):
        return _displayed(slice_, windows)
    stored = _plain(slice_)
    scale = scale_of(slice_)
    if stored is None:
        stored = _pixels(slice_)
    stored = stored.astype(stored.dtype.newbyteorder("="), copy=False)
    bounds = [window or own_window(slice_) for window in windows]
    is_inverted = _is_inverted(slice_)
    if stored.dtype.kind == "f" or stored.itemsize > 2:
        values = scale.hounsfield(stored)
        greys = [_windowed(values, window, is_inverted) for window in bounds]
    else:
        positions = stored.view(f"u{stored.itemsize}")
        kind = stored.dtype.str
        tables = [_table(kind, scale, window, is_inverted) for window in bounds]
        greys = [np.take(table, positions, mode="clip") for table in tables]
    return greys[0][..., None] if len(greys) == 1 else np.stack(greys, -1)


@lru_cache(maxsize=64)
def _table(
    kind: str,
    scale: Scale,
    window: tuple[float, float],
    is_inverted: bool,
) -> ndarray:
    """uint8 [2^bits]: the grey of every value that can be stored.

    It takes a tenth of computing each pixel's.
    """
    dtype = np.dtype(kind)
    width = 8 * dtype.itemsize
    unsigned = np.arange(1 << width, dtype=f"u{dtype.itemsize}")
    values = unsigned.view(dtype)
    if 0 < scale.bits < width:
        unused = width - scale.bits  # high bits, in which anything may stand
        values = (values << unused) >> unused
    return _windowed(scale.hounsfield(values), window, is_inverted)


def _windowed(
    hounsfield: ndarray,
    window: tuple[float, float],
    is_inverted: bool,
) -> ndarray:
    grey = dicom_display.linear(hounsfield, *window)
    return 255 - grey if is_inverted else grey


def read_picture(path: Path, windows: Windows = (None,)) -> ndarray:
    """Like read_slice of any kind of image, [H, W, 3] of a coloured one. Raises Unreadable.

    Other kinds have no Hounsfield units: window None takes the file's own, or the range of its
    values.
    """
    with _readable(path):
        slice_ = _read(path)
        if _has_colours(slice_):
            return _colours(slice_)
        if slice_.get("Modality") == "CT":
            return _grey(slice_, windows)
        return _displayed(slice_, windows)


def header(path: Path) -> tuple[str, bool, int, int]:
    """A slice's modality, colours or none, pixels of its shorter side, and bits for each colour.

    "" and 0 are unknown. Raises Unreadable.
    """
    with _readable(path):
        slice_ = _read(path, stop_before_pixels=True, specific_tags=HEADER)
        modality = str(slice_.get("Modality") or "")
        is_word = modality.isalnum() and modality.isascii()
        if not is_word or len(modality) > LONGEST_MODALITY:
            modality = ""
        height = int(slice_.get("Rows") or 0)
        width = int(slice_.get("Columns") or 0)
        bits = int(slice_.get("BitsStored") or 0)
        return modality, _has_colours(slice_), min(height, width), bits


def _has_colours(slice_: "Dataset") -> bool:
    samples = slice_.get("SamplesPerPixel", 1)
    return samples > 1 or slice_.get("PhotometricInterpretation") == PALETTE


def _colours(slice_: "Dataset") -> ndarray:
    kind = slice_.get("PhotometricInterpretation")
    if kind == PALETTE:
        from pydicom.pixels import apply_color_lut

        colours = apply_color_lut(_pixels(slice_), slice_)[..., :3]
        if colours.itemsize == 1:
            return colours
        return (colours >> 8).astype(np.uint8)
    bits = slice_.BitsAllocated
    if kind not in COLOURS or bits != 8:
        raise Unreadable(f"holds {bits}-bit colours as {kind}, not 8-bit RGB")
    colours = _frame(slice_)
    if colours.ndim != 3:
        raise Unreadable(f"holds an array of shape {colours.shape}, not one image")
    return colours


def _displayed(slice_: "Dataset", windows: Windows) -> ndarray:
    """uint8 [H, W, one channel per window] by all that a file may say of its display."""
    stored = _aligned(slice_)
    scale = scale_of(slice_)
    is_ct = slice_.get("Modality") == "CT"
    tables = slice_.get("ModalityLUTSequence")
    if tables:
        mapped = dicom_display.looked_up(stored, tables[0])[0]
        values = mapped.astype(np.float32)
    elif is_ct:
        values = scale.hounsfield(stored)
    else:
        values = scale.scaled(stored)
    padding = None if is_ct else dicom_display.padding(stored, slice_)
    otherwise = WINDOWS["brain"] if is_ct else None
    display = dicom_display.own(values, _group_of(slice_), padding, otherwise)
    greys = []
    for window in windows:
        grey = display if window is None else dicom_display.linear(values, *window)
        greys.append(255 - grey if _is_inverted(slice_) else grey)
    channels = np.stack(greys, -1)
    if padding is not None:
        channels[padding] = 0
    return channels


def _is_inverted(slice_: "Dataset") -> bool:
    return slice_.get("PhotometricInterpretation") == "MONOCHROME1"


def _read(path: Path, **options: Any) -> "Dataset":
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
        size = _bytes(file, frames=1)
        if size > dicom_header.MOST:
            sides = f"{file.get('Rows')} x {file.get('Columns')}"
            raise Unreadable(f"claims an image of {sides} pixels, {size:,} bytes")
        return file


def _pixels(slice_: "Dataset") -> ndarray:
    """The stored values [H, W] of the only or the middle frame."""
    stored = _frame(slice_)
    if stored.ndim != 2:
        raise Unreadable(f"holds an array of shape {stored.shape}, not one grey slice")
    if stored.dtype.kind == "f" and not (abs(stored) < LARGEST**2).all():
        raise Unreadable("holds values that are not finite, or beyond all measured ones")
    return stored


def _plain(slice_: "Dataset") -> ndarray | None:
    """The 16-bit words [H, W] of a grey, uncompressed frame as they lie in the file.

    None of any other kind. It saves pydicom's own way, which takes longer than all else that is
    done to a slice; the unused bits of a word are still in it.
    """
    from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian

    little_endian = ExplicitVRLittleEndian, ImplicitVRLittleEndian
    if slice_.file_meta.get("TransferSyntaxUID") not in little_endian:
        return None
    if slice_.get("SamplesPerPixel") != 1 or slice_.get("BitsAllocated") != 16:
        return None
    height = slice_.get("Rows")
    width = slice_.get("Columns")
    if _middle(slice_) is not None or not height or not width:
        return None
    data = slice_.get("PixelData")
    if not isinstance(data, bytes) or len(data) != 2 * height * width:
        return None
    kind = "<i2" if slice_.get("PixelRepresentation") == 1 else "<u2"
    return np.frombuffer(data, kind).reshape(height, width)


def _frame(slice_: "Dataset") -> ndarray:
    from pydicom.pixels import get_decoder, pixel_array

    syntax = slice_.file_meta.TransferSyntaxUID
    if syntax.is_encapsulated and not get_decoder(syntax).is_available:
        name = Path(slice_.filename).name
        sentence = f"{name} is compressed as {syntax.name}, for which no decoder is installed"
        raise FedcliError(sentence, 'pip install "fedcli[dicom]", or: pip install python-gdcm')
    middle = _middle(slice_)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if middle:
                return pixel_array(slice_, index=middle)
            return slice_.pixel_array
    except Exception as error:  # pydicom: as above
        if syntax.is_encapsulated:
            raise
        size = len(slice_.get("PixelData", b""))
        expected = _bytes(slice_)
        if size < expected:
            raise Unreadable(f"pixel data cut short ({size} of {expected} bytes)") from error
        raise


def _bytes(slice_: "Dataset", frames: int | None = None) -> int:
    """Bytes that the pixels of all frames take in a file without compression.

    0 where its header does not say.
    """
    if slice_.get("PhotometricInterpretation") == "YBR_FULL_422":  # two pixels share their colours
        return 0
    bits = frames or _frame_count(slice_)
    for name in ("Rows", "Columns", "SamplesPerPixel", "BitsAllocated"):
        bits *= slice_.get(name) or 0
    return bits // 8


def _frame_count(slice_: "Dataset") -> int:
    return int(slice_.get("NumberOfFrames") or 1)


def _middle(slice_: "Dataset") -> int | None:
    """Number of the middle frame from 0, None of a file that has but one."""
    frames = _frame_count(slice_)
    return frames // 2 if frames > 1 else None


def _aligned(slice_: "Dataset") -> ndarray:
    """The stored values [H, W], from the lowest bit up even where the file keeps higher bits."""
    if not _is_shifted(slice_):
        return _pixels(slice_)
    words = _plain(slice_)
    high = int(slice_.HighBit)
    bits = int(slice_.BitsStored)
    if words is None or not 0 < bits <= high + 1 <= 16:
        sentence = f"keeps {bits} bits from bit {high} down"
        raise Unreadable(f"{sentence}, in a kind of file where these are not read")
    return (words << (15 - high)) >> (16 - bits)


def _is_shifted(slice_: "Dataset") -> bool:
    """Tell whether values lie in other bits than the lowest; those of compressed files never do."""
    high = slice_.get("HighBit")
    bits = slice_.get("BitsStored")
    if high is None or bits is None or high + 1 == bits:
        return False
    return not slice_.file_meta.TransferSyntaxUID.is_encapsulated


def scale_of(slice_: "Dataset") -> Scale:
    group = _group_of(slice_)
    slope = number(group("RescaleSlope"), 1.0)
    intercept = number(group("RescaleIntercept"), 0.0)
    if not (0 < abs(slope) < LARGEST and abs(intercept) < LARGEST):
        fields = f"RescaleSlope {slope:g} and RescaleIntercept {intercept:g}"
        raise Unreadable(f"its values cannot be scaled by {fields}")
    signed = slice_.get("PixelRepresentation", 0) == 1
    return Scale(slope, intercept, int(slice_.get("BitsStored", 0)), signed)


def own_window(slice_: "Dataset") -> tuple[float, float]:
    """(centre, width): the first that the file gives.

    The brain's where it gives none or one without width.
    """
    return dicom_display.window(_group_of(slice_)) or WINDOWS["brain"]


def _group_of(slice_: "Dataset") -> dicom_display.Field:
    """A reader of a field that enhanced files keep in a sequence.

    There is one for each frame (of which the middle one counts) or one for all.
    """
    middle = _middle(slice_) or 0
    frames = slice_.get("PerFrameFunctionalGroupsSequence") or []
    shared = slice_.get("SharedFunctionalGroupsSequence") or []
    items: list[Any] = []
    for group in [*frames[middle : middle + 1], *shared]:
        for name in GROUPS:
            items += group.get(name) or []

    def field(name: str) -> Any:
        for item in items:
            if name in item:
                return item.get(name)
        return slice_.get(name)

    return field
