"""Images of some clients brought to the noise, sharpness, contrast or brightness of those of
another: `fedcli corrupt --match SITE --quality MEASURE`.

The median of a measure (data/quality.py) over a sample of the clients' training and validation
images is brought to the median over SITE's images by bisection over the strength of a change, whose
whole numbers are the severities of its kind:

    noise        Gaussian noise of standard deviation sigma for each channel (Immerkaer's estimate)
    sharpness    a Gaussian blur of standard deviation sigma in pixels
    contrast     distances to the image's mean grey level, times a factor
    brightness   grey levels times a factor

Results are rounded and cut to 0..255. Images keep their own draw for every sigma, so the measure
rises or falls with the strength. Noise can only be added and sharpness only be lost: clients that
are beyond SITE already are refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ... import console
from ...errors import FedcliError, UsageError, nearest
from ...seeds import derive
from .. import image_places, manifest
from ..manifest import Body
from ..quality import MEASURES, NAMES, measure
from . import mixture

KIND = "matched-noise"
NOISE = "noise"
SAMPLE = 128  # images


@dataclass(frozen=True)
class Way:
    """One measure, and the change that brings images to a value of it.

    Attributes:
        change: (image float32 [H, W, C], strength, standard normal noise of its shape) -> image.
        strength: the name of what is found. steps: severities to a unit of it.
        unchanged: the strength that changes nothing. most: the highest.
        sign: 1 where the measure rises with the strength, -1 where it falls.
        one_way: why a client may not be beyond the site already; "" where it may.
    """

    kind: str
    measure: str
    change: Callable[[np.ndarray, float, np.ndarray], np.ndarray]
    strength: str
    steps: int
    unchanged: float
    most: float
    sign: int = 1
    one_way: str = ""

    def add(
        self,
        image: np.ndarray,
        id: str,
        severity: int,
        seed: int,
    ) -> np.ndarray:
        """The image changed so much, uint8 [H, W, C]; its draw follows from its id and the seed."""
        stream = np.random.default_rng(derive("matched noise", seed, id))
        noise = stream.standard_normal(image.shape, np.float32)
        changed = np.rint(self.change(image, severity / self.steps, noise))
        return np.clip(changed, 0, 255).astype(np.uint8)


def _noisy(image: np.ndarray, sigma: float, noise: np.ndarray) -> np.ndarray:
    return image + sigma * noise


def _blurred(image: np.ndarray, sigma: float, noise: np.ndarray) -> np.ndarray:
    from scipy import ndimage

    return ndimage.gaussian_filter(image.astype(np.float32), (sigma, sigma, 0))


def _contrasted(image: np.ndarray, factor: float, noise: np.ndarray) -> np.ndarray:
    mean = image.mean()
    return mean + factor * (image - mean)


def _brightened(image: np.ndarray, factor: float, noise: np.ndarray) -> np.ndarray:
    return factor * image.astype(np.float32)


WAYS = {
    NOISE: Way(KIND, NOISE, _noisy, "sigma", 100, 0, 128, one_way="noise can only be added"),
    "sharpness": Way(
        "matched-blur",
        "sharpness",
        _blurred,
        "sigma",
        100,
        0,
        32,
        sign=-1,
        one_way="sharpness can only be lost",
    ),
    "contrast": Way("matched-contrast", "contrast", _contrasted, "factor", 1000, 1, 16),
    "brightness": Way("matched-brightness", "brightness", _brightened, "factor", 1000, 1, 16),
}
KINDS = {way.kind: way for way in WAYS.values()}
UNITS = {entry.name: entry.unit for entry in MEASURES}


def way_of(name: str) -> Way:
    """The way of a measure. Raises UsageError."""
    if name not in WAYS:
        raise UsageError(f"images cannot be matched in {name!r}", nearest(name, WAYS))
    return WAYS[name]


def matched(
    source: Path,
    clients: Sequence[str],
    site: str,
    seed: int,
    name: str = NOISE,
) -> tuple[mixture.How, Body]:
    """The kind and severity that bring clients to a site's value of a measure, and what a manifest
    says of it.

    Raises FedcliError, UsageError.
    """
    way = way_of(name)
    mixture.clients_of(manifest.read(source).body, [site])
    if site in clients:
        raise UsageError(f"{site} would be matched to itself", "name other clients by --on")
    images, ids = _sample(source, clients)

    def reached(severity: int) -> float:
        changed = [way.add(image, id, severity, seed) for image, id in zip(images, ids)]
        return _median(np.stack(changed), name)

    names = ", ".join(clients)
    console.say(f"finding the change that brings {names} to the {name} of {site}")
    images_of_site, _ = _sample(source, [site])
    target = _median(images_of_site, name)
    before = reached(round(way.unchanged * way.steps))
    if way.one_way and way.sign * (before - target) >= 0:
        levels = f"{before:.3g} {UNITS[name]} already, that of {site} {target:.3g}"
        hint = f"{way.one_way}: --match {clients[0]} --on {site}"
        raise FedcliError(f"the {name} of {names} is {levels}", hint)
    low = 0
    high = round(way.most * way.steps)
    while high - low > 1:
        middle = (low + high) // 2
        if way.sign * (reached(middle) - target) < 0:
            low = middle
        else:
            high = middle
    after = {severity: reached(severity) for severity in (low, high)}
    best = min(after, key=lambda severity: abs(after[severity] - target))
    facts = {"site": site, way.strength: best / way.steps, name: target, "before": before}
    facts["after"] = after[best]
    facts["images"] = len(images)
    return (way.kind, best), facts


def _median(images: np.ndarray, name: str) -> float:
    return float(np.median(measure(images)[:, NAMES.index(name)]))


def _sample(source: Path, clients: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Images as they are trained on, evenly over those of the clients, and their ids."""
    pool, rows_by_client = image_places.held(source)
    rows = np.concatenate([rows_by_client[client] for client in clients])
    files: list[image_places.Place] = []
    for client in clients:
        files += image_places.places(source, pool, client, rows_by_client[client])
    if not files:
        raise FedcliError(f"{', '.join(clients)} have no training images", "name other clients")
    indices = np.unique(np.linspace(0, len(files) - 1, SAMPLE).astype(int))
    images = image_places.pixels([files[k] for k in indices])
    return images, pool.id[rows[indices]].tolist()
