"""Photographs from files, and any image brought to the pool's size.

Pillow, OpenCV and albumentations do it.
"""

import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
from numpy import ndarray

from ....errors import FedcliError
from ...pool import Row
from ...prepare_options import PrepareOptions
from ..source import Unreadable, check_regular, unreadable

WHITE = 65535  # of 16 bits
DARK = 4096  # of 16 bits; an image of 12 bits or fewer in 16 stays below
ORIENTATION = 0x0112  # of EXIF
BLOCKS = 4  # of memory that Pillow keeps
# bytes of a PNG's colour profile or text, unpacked; Pillow's own bound, 1 MiB, refuses profiles of
# printers
PROFILE = 2**26
# pixels of a side that JPEG files may be decoded to; 0: all
_least: ContextVar[int] = ContextVar("least", default=0)
PHOTOGRAPHS = ".jpg", ".jpeg", ".png"
GREY = "1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "F"  # Pillow's modes without colours
BITS = {"1": 1, "I": 32, "F": 32}  # of Pillow's modes with others than 8
EYE = np.array([0.299, 0.587, 0.114])  # weights of colours as the eye sees them (BT.601)


@cache
def import_cv2() -> ModuleType:
    """The cv2 module, confined to one thread.

    Raises FedcliError with the fix for a machine it cannot be loaded on.
    imagecorruptions brings opencv-python and albumentations its headless build; both own the folder
    cv2, and the one installed last may want libGL, which bare containers lack.
    """
    try:
        import cv2

        # one process per core already; an OpenCV whose other package was removed lacks it
        cv2.setNumThreads(1)
    except (ImportError, AttributeError) as error:
        raise FedcliError(
            f"OpenCV cannot be loaded: {error}",
            "apt-get install libgl1 libglib2.0-0, or: pip uninstall -y opencv-python && "
            "pip install --force-reinstall --no-deps opencv-python-headless",
        ) from None
    return cv2


def import_albumentations() -> ModuleType:
    """The albumentations module, with the OpenCV that it needs.

    It does not ask the network for a newer version.
    """
    import_cv2()
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    import albumentations

    return albumentations


def within(
    raw: Path,
    name: str,
    source: Path | str = "",
    *,
    links: bool = False,
) -> Path:
    """raw/name for a name that a table gives.

    Raises FedcliError for one that leads out of raw, also through a link.
    source: the table or flag that names it, if any. links: whoever reads it sees to where links
    lead.
    """
    path = Path(name)
    is_inside = "\0" not in name and not path.is_absolute() and ".." not in path.parts
    if not is_inside or (not links and leads_out(raw, path)):
        quoted = f"{source}: {name!r}" if source else repr(name)
        hint = "name files relative to it, without '..' and links"
        raise FedcliError(f"{quoted} leads out of {raw}", hint)
    return raw / path


def leads_out(raw: Path, path: Path | str) -> bool:
    try:
        return not (raw / path).resolve().is_relative_to(raw.resolve())
    except (OSError, RuntimeError):  # a link to itself leads nowhere; whoever reads it says so
        return False


@contextmanager
def shrunk_decoding(choices: PrepareOptions) -> Iterator[None]:
    """Within it, where that is chosen, JPEG files are decoded at 1/2, 1/4 or 1/8 of their sides.

    No side is then below twice the pool's size, so that areas are still averaged: of HAM10000's
    photographs, no grey level moved by more than 9 of 255, and by 0.3 in the mean.
    """
    token = _least.set(2 * choices.size if choices.scaled_decoding else 0)
    try:
        yield
    finally:
        _least.reset(token)


def read_rgb(path: Path) -> ndarray:
    """uint8 [H, W, 3]. Raises Unreadable."""
    return _opened(path, lambda image: _rgb(_upright(image)))


def photograph(raw: Path, row: Row, choices: PrepareOptions) -> ndarray:
    """uint8 [H, W, 3] of a row that is a file of its own. Raises Unreadable."""
    return read_rgb(raw / row.source)


def radiograph(raw: Path, row: Row, choices: PrepareOptions) -> ndarray:
    """uint8 [H, W, 1] of a row that is a file of its own. Raises Unreadable."""
    return match_channels(read_grey_or_rgb(raw / row.source, 255.0), 1)


def photographs_in(folder: Path) -> list[Path]:
    """The photographs in the folders of a folder, sorted.

    A name that begins with a dot is a system's own file.
    """
    files = sorted(folder.glob("[!.]*/[!.]*"))
    return [path for path in files if path.suffix.lower() in PHOTOGRAPHS]


def _rgb(image: Any) -> ndarray:
    """uint8 [H, W, 3] of an opened picture."""
    if image.mode != "RGB":
        return np.asarray(image.convert("RGB"))  # which would copy one that is RGB
    if image.format == "JPEG" and not _least.get():
        pixels = _jpeg(image)
        if pixels is not None:
            return pixels
    return np.asarray(image)


def _jpeg(image: Any) -> ndarray | None:
    """uint8 [H, W, 3] of a JPEG file in colours, by simplejpeg.

    None where anything is odd, which is left to Pillow. Both use libjpeg-turbo and give the same
    bits; Pillow takes 1.5 times as long, as it copies more.
    """
    simplejpeg = _simplejpeg()
    if simplejpeg is None:
        return None
    image.fp.seek(0)
    try:
        pixels = simplejpeg.decode_jpeg(image.fp.read(), strict=True)
    except ValueError:  # truncated, broken, or colours that it does not convert
        return None
    return pixels if pixels.shape == (image.height, image.width, 3) else None


@cache
def _simplejpeg() -> Any:
    """The module, or None on a machine it cannot be loaded on: the bits are the same without it."""
    try:
        import simplejpeg
    except Exception:  # ImportError; ValueError of one that was built for another numpy
        return None
    return simplejpeg


def header(file: Path | bytes) -> tuple[bool, int, int]:
    """Tell whether a file's header says that it has colours; also its shorter side and its bits.

    The side is in pixels, the bits are of each colour. Raises Unreadable.
    """
    return _opened(file, _facts)


def _facts(image: Any) -> tuple[bool, int, int]:
    bits = BITS.get(image.mode, 8)
    if ";16" in f"{image.mode}{image.tile}":
        bits = 16
    return image.mode not in GREY, min(image.size), bits


def read_grey_or_rgb(file: Path | bytes, white: float | None) -> ndarray:
    """uint8 [H, W, 1] of a grey file, or of the bytes of one, else [H, W, 3]. Raises Unreadable.

    white: what is 255 beyond eight bits; None for 1 in fractions up to 1 and 65535 in all else.
    Without it a file that stays below a sixteenth of that is unreadable.
    """
    return _opened(file, lambda image: _pixels(image, white))


def _upright(image: Any) -> Any:
    """The picture as every viewer shows it: turned or mirrored where its EXIF data say so."""
    if image.format == "TIFF":  # which Pillow turns itself
        return image
    if image.getexif().get(ORIENTATION, 1) == 1:
        return image
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def _pixels(image: Any, white: float | None) -> ndarray:
    if getattr(image, "n_frames", 1) > 1:
        raise Unreadable(f"holds {image.n_frames} pages, not one image")
    deep = ";16" in str(image.tile)  # which is gone once the picture is loaded
    image = _upright(image)
    if image.mode not in GREY:
        return _colours(image, deep)
    if image.mode in ("1", "L", "LA"):
        return np.asarray(image.convert("L"))[..., None]
    values = np.asarray(image, np.float32)
    if not np.isfinite(values).all():
        raise Unreadable("holds values that are not finite")
    darkest = values.min()
    if darkest < 0:
        sentence = f"holds values below 0, down to {darkest:g}"
        raise Unreadable(f"{sentence}, and black is 0: store it from 0 up")
    factor = 255 / (white or _white(image.mode, values))
    grey = values * np.float32(factor)  # Pillow's own way cuts off at 255
    rounded = np.rint(grey.clip(0, 255))
    return rounded.astype(np.uint8)[..., None]


def _colours(image: Any, deep: bool) -> ndarray:
    """uint8 [H, W, 3]; Pillow keeps the upper eight of 16 bits.

    Raises Unreadable where these hold nothing.
    """
    colours = _rgb(image)
    if deep and colours.max() < DARK >> 8:
        raise Unreadable(f"its 16-bit colours stay below {DARK} of {WHITE}: store them in 8 bits")
    return colours


def _white(mode: str, values: ndarray) -> float:
    """The value that is white where nobody says so.

    Raises Unreadable where that would leave the image nearly black.
    """
    brightest = float(values.max())
    if mode == "F" and brightest <= 1:
        if 0 < brightest < DARK / WHITE:
            hint = f"give --set white=N, the value that is white, such as {brightest:.3g}"
            raise Unreadable(f"its brightest value is {brightest:.3g} of 1: {hint}")
        return 1.0
    if brightest > WHITE:
        limit = f"the {WHITE} of 16 bits"
        sentence = f"its brightest value is {brightest:g}, above {limit}"
        raise Unreadable(f"{sentence}: store it in 16 bits")
    if 0 < brightest < DARK:
        hint = "give --set white=N, such as 4095 of 12 bits"
        raise Unreadable(f"its brightest value is {brightest:g} of {WHITE}: {hint}")
    return WHITE


def is_dicom(file: Path | bytes) -> bool:
    """Tell it by the letters behind the preamble of 128 bytes. Raises Unreadable."""
    if isinstance(file, bytes):
        return file[128:132] == b"DICM"
    check_regular(file)
    with file.open("rb") as opened:
        return opened.read(132)[128:] == b"DICM"


@cache
def _set_up_pillow() -> None:
    """Have Pillow keep an image's memory for the next one and read long colour profiles.

    Once per process. Its blocks have 16 MB at most.
    """
    from PIL import Image, PngImagePlugin

    Image.core.set_blocks_max(BLOCKS)
    PngImagePlugin.MAX_TEXT_CHUNK = PROFILE


def _opened(source: Path | bytes, read: Callable[[Any], Any]) -> Any:
    from PIL import Image, UnidentifiedImageError

    _set_up_pillow()
    path = Path("picture") if isinstance(source, bytes) else source
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large or odd but readable; what matters raises
            with _stream(source) as file, Image.open(file) as image:
                if image.format == "EPS":  # a program, which Pillow has Ghostscript run
                    raise Unreadable("holds PostScript, which is a program and no image")
                least = _least.get()
                if least and image.format == "JPEG":
                    image.draft(None, (least, least))
                return read(image)
    # Pillow has refused a header of too many pixels: what is short is memory
    except (Unreadable, MemoryError):
        raise
    except UnidentifiedImageError:
        if is_dicom(source):
            sentence = "a DICOM file, but images of this dataset are read as photographs"
            raise Unreadable(f"{sentence}, PNG or JPEG") from None
        raise Unreadable("in no image format that is known here, or damaged") from None
    except Image.DecompressionBombError:
        largest = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise Unreadable(f"its header says that it has more than {largest:,} pixels") from None
    except OSError as error:
        if str(error).startswith("image file is truncated"):
            raise Unreadable(str(error)) from error
        raise unreadable(error, path) from error
    except Exception as error:  # broken files raise SyntaxError, ValueError, struct.error and more
        raise unreadable(error, path) from error


def _stream(source: Path | bytes) -> IO[bytes]:
    """A file or bytes, open; Pillow 13 maps a file that it opens itself by its name.

    It then scrambles a TIFF that it has to turn.
    """
    if isinstance(source, bytes):
        return io.BytesIO(source)
    check_regular(source)
    return source.open("rb")


def match_channels(image: ndarray, channels: int) -> ndarray:
    """uint8 [H, W, 1 or 3] -> [H, W, channels]: grey repeated, or colours weighted."""
    if image.shape[2] == channels:
        return image
    if channels == 3:
        return image.repeat(3, 2)
    grey = np.rint(image @ EYE)
    return grey.astype(np.uint8)[..., None]


def fit_image(
    image: ndarray,
    size: int,
    fit: str,
    clahe: bool,
) -> ndarray:
    """uint8 [H, W, C] -> [size, size, C].

    Areas are averaged when shrinking, cubics fitted when enlarging.
    """
    height, width, channels = image.shape
    shrink = height * width > size * size
    if fit == "pad":
        shrink = max(height, width) > size
    if fit == "stretch" and not clahe and channels <= 4:  # the pipeline's one step, 0.1 ms faster
        cv2 = import_cv2()
        interpolation = cv2.INTER_AREA if shrink else cv2.INTER_CUBIC
        resized = cv2.resize(image, (size, size), interpolation=interpolation)
        return resized.reshape(size, size, channels)
    return pipeline(size, fit, clahe, shrink)(image=image)["image"]


@cache
def pipeline(size: int, fit: str, clahe: bool, shrink: bool) -> Any:
    """albumentations' steps, built once per process."""
    cv2 = import_cv2()
    albumentations = import_albumentations()
    interpolation = cv2.INTER_AREA if shrink else cv2.INTER_CUBIC
    steps = []
    if clahe:
        contrast = albumentations.CLAHE(clip_limit=(2, 2), tile_grid_size=(8, 8), p=1)
        steps.append(contrast)
    if fit == "pad":
        black = {"border_mode": cv2.BORDER_CONSTANT, "fill": 0}
        steps.append(albumentations.LongestMaxSize(size, interpolation=interpolation, p=1))
        steps.append(albumentations.PadIfNeeded(size, size, **black, p=1))
    else:
        steps.append(albumentations.Resize(size, size, interpolation=interpolation, p=1))
    return albumentations.Compose(steps)


def files_of(
    raw: Path,
    folders: Sequence[str],
    suffixes: tuple[str, ...],
    key: Callable[[Path], str],
) -> dict[str, str]:
    """key(file) -> path relative to raw, of images in the folders that are there.

    The first folder and name win.
    suffixes: of images; none takes every file for one.
    """
    paths: dict[str, str] = {}
    for folder in folders:
        if not (raw / folder).is_dir():
            continue
        names = sorted(entry.name for entry in os.scandir(raw / folder))
        for name in names:
            path = Path(folder, name)
            if not suffixes or path.suffix.lower() in suffixes:
                paths.setdefault(key(path), path.as_posix())
    return paths
