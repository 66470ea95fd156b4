"""Gaussian noise that makes the images of some clients as noisy as those of another: `fedcli
corrupt --match SITE`.

The noise of an image is Immerkaer's estimate (data/quality.py). Its median over a sample of the
clients' training and validation images, with noise of standard deviation sigma added to each
channel and then rounded and cut to 0..255, is brought to the median over SITE's images by bisection
over sigma, in steps of a hundredth of a grey level, which are the severity of this kind. Images
keep their own draw for every sigma, so the estimate rises with it. Noise can only be
added: clients that are noisier than SITE already are refused.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ... import console
from ...errors import FedcliError, UsageError
from ...seeds import derive
from .. import image_places, manifest
from ..manifest import Body
from ..quality import NAMES, measure
from . import mixture

KIND = "matched-noise"
STEPS = 100  # severities of this kind to a grey level
MOST = 128 * STEPS
SAMPLE = 128  # images
NOISE = NAMES.index("noise")


def add(image: np.ndarray, id: str, severity: int, seed: int) -> np.ndarray:
    """An image with noise, uint8 [H, W, C]; its draw follows from its id and the seed."""
    stream = np.random.default_rng(derive("matched noise", seed, id))
    noise = stream.standard_normal(image.shape, np.float32)
    noisy = np.rint(image + severity / STEPS * noise)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def matched(
    source: Path,
    clients: Sequence[str],
    site: str,
    seed: int,
) -> tuple[int, Body]:
    """The severity at which clients are as noisy as a site, and what a manifest says of it.

    Raises FedcliError.
    """
    mixture.clients_of(manifest.read(source).body, [site])
    if site in clients:
        raise UsageError(f"{site} would be matched to itself", "name other clients by --on")
    images, ids = _sample(source, clients)

    def noise(severity: int) -> float:
        noisy = [add(image, id, severity, seed) for image, id in zip(images, ids, strict=True)]
        return _median_noise(np.stack(noisy))

    names = ", ".join(clients)
    console.say(f"finding the noise that makes {names} as noisy as {site}")
    images_of_site, _ = _sample(source, [site])
    target = _median_noise(images_of_site)
    before = noise(0)
    if before >= target:
        levels = f"{before:.3g} grey levels already, that of {site} {target:.3g}"
        hint = f"noise can only be added: --match {clients[0]} --on {site}"
        raise FedcliError(f"the noise of {names} is {levels}", hint)
    low = 0
    high = MOST
    while high - low > 1:
        middle = (low + high) // 2
        if noise(middle) < target:
            low = middle
        else:
            high = middle
    reached = {severity: noise(severity) for severity in (low, high)}
    best = min(reached, key=lambda severity: abs(reached[severity] - target))
    facts = {
        "site": site,
        "sigma": best / STEPS,
        "noise": target,
        "before": before,
    }
    facts["after"] = reached[best]
    facts["images"] = len(images)
    return best, facts


def _median_noise(images: np.ndarray) -> float:
    return float(np.median(measure(images)[:, NOISE]))


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
