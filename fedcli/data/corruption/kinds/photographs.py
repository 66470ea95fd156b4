"""The 19 corruptions of photographs of the package imagecorruptions.

Source: Hendrycks & Dietterich, ICLR 2019, arXiv 1903.12261, in the package imagecorruptions: all 19
kinds with its severities.

What differs from imagecorruptions.corrupt():
    * the stream depends on (seed, image id, kind, severity) only, so order and number of processes
      change nothing;
    * a grey image stays grey, with one draw, by the functions' own two-dimensional path (corrupt()
      makes three channels with a draw each). Motion blur's grey path fails, so one of three equal
      channels is taken. Saturate is refused: grey has no colour to change;
    * pointwise kinds (noise, brightness, contrast, saturate) work at any size; the others need 32
      px as in corrupt().

Spatter divides by zero where no drop falls; the image then stays as it is. Fractions are cut off,
as in the package.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ....seeds import derive
from .. import library
from .kind import SEVERITIES, CorruptionKind, register

SMALLEST = 32  # px, for the spatial kinds
SOURCE = "Hendrycks and Dietterich, ICLR 2019, arXiv 1903.12261; package imagecorruptions"
POINTWISE = {  # kind -> what it does to an image
    "gaussian-noise": "normal noise added to each pixel",
    "shot-noise": "Poisson noise, as where few photons are counted",
    "impulse-noise": "single pixels turned black or white",
    "speckle-noise": "normal noise in proportion to the brightness, as in ultrasound",
    "brightness": "the whole image brighter",
    "contrast": "pixels moved towards the image's mean",
    "saturate": "colours paler or stronger; refused for grey images",
}
SPATIAL = {
    "defocus-blur": "blurred as by a lens out of focus",
    "glass-blur": "pixels swapped with near ones, as behind frosted glass",
    "motion-blur": "blurred along a random direction, as by a patient who moves",
    "zoom-blur": "mean of the image at several magnifications",
    "gaussian-blur": "blurred by a normal kernel",
    "snow": "snowflakes over the image",
    "frost": "ice crystals over the image",
    "fog": "random haze over the image",
    "spatter": "drops of water or mud over the image",
    "elastic-transform": "small regions stretched or shrunk",
    "pixelate": "made smaller and larger again, in coarse squares",
    "jpeg-compression": "stored as JPEG of low quality",
}
SHORT = {"shot-noise": ("poisson",), "impulse-noise": ("salt-and-pepper",)}
NOISY = "a draw for each channel"


@dataclass(frozen=True)
class FromPackage(CorruptionKind):
    """A kind of the package, which draws from NumPy's global stream and takes 8 bits alone."""

    def ready(self) -> None:
        library.functions()

    def apply(
        self,
        image: np.ndarray,
        id: str,
        severity: int,
        seed: int,
    ) -> np.ndarray:
        from PIL import Image

        channels = image.shape[2]
        library_change = getattr(library.functions(), self.name.replace("-", "_"))
        flat = image[..., 0] if channels == 1 else image
        needs_colours = channels == 1 and self.name == "motion-blur"
        source = np.stack([flat] * 3, -1) if needs_colours else flat
        seed_of_image = derive("corrupt", seed, id, self.name, severity)
        with _seeded(seed_of_image), np.errstate(invalid="ignore"):
            changed = np.asarray(library_change(Image.fromarray(source), severity))
        if needs_colours:
            changed = changed[..., 0]
        if self.name == "spatter":
            changed = np.where(np.isnan(changed), flat, changed)
        return changed.astype(np.uint8).reshape(image.shape)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """numpy's global stream, which the package draws from, seeded here and given back as it was."""
    before = np.random.get_state()
    np.random.seed(divmod(seed, 2**32))
    try:
        yield
    finally:
        np.random.set_state(before)


def _changed_by_package(image: np.ndarray, amount: int, stream: np.random.Generator) -> np.ndarray:
    """Never called: apply() is the package's own."""
    raise NotImplementedError


def _short_names() -> dict[str, tuple[str, ...]]:
    """Kind -> its short names: "motion" of motion-blur, and "gaussian" of the noise, which comes
    before the blur.
    """
    aliases: dict[str, tuple[str, ...]] = {}
    taken = set()
    for name in (*POINTWISE, *SPATIAL):
        beginning = name.rpartition("-")[0]
        aliases[name] = SHORT.get(name, ())
        if beginning and beginning not in taken:
            aliases[name] += (beginning,)
            taken.add(beginning)
    return aliases


_aliases = _short_names()
for _name, _about in (POINTWISE | SPATIAL).items():
    _colour = NOISY if _name.endswith("noise") else "the same change of each channel"
    register(
        FromPackage(
            _name,
            _about,
            _changed_by_package,
            SEVERITIES,
            "severity of the package",
            colour=_colour,
            grey="refused" if _name == "saturate" else "the same change",
            needs_colour=_name == "saturate",
            smallest=SMALLEST if _name in SPATIAL else 1,
            aliases=_aliases[_name],
            source=SOURCE,
        )
    )
