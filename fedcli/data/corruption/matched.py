"""Gaussian noise that makes the images of some clients as noisy as those of another: `fedcli corrupt --match SITE`.

The noise of an image is Immerkaer's estimate (data/quality.py). Its median over a sample of the clients' training and
validation images, with noise of standard deviation sigma added to each channel and then rounded and cut to 0..255, is
brought to the median over SITE's images by bisection over sigma, in steps of a hundredth of a grey level, which are the
severity of this kind. Images keep their own draw for every sigma, so the estimate rises with it. Noise can only be
added: clients that are noisier than SITE already are refused.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import console
from ...errors import FedcliError, UsageError
from ...seeds import derive
from .. import manifest, quality_by_site
from ..quality import NAMES, measure
from . import mixture

KIND, STEPS = "matched-noise", 100  # severities of this kind to a grey level
MOST = 128 * STEPS
SAMPLE = 128  # images
NOISE = NAMES.index("noise")


def add(image: np.ndarray, id: str, severity: int, seed: int) -> np.ndarray:
    """An image with noise, uint8 [H, W, C]; its draw follows from its id and the seed."""
    drawn = np.random.default_rng(derive("matched noise", seed, id)).standard_normal(
        image.shape, np.float32
    )
    return np.clip(np.rint(image + severity / STEPS * drawn), 0, 255).astype(np.uint8)


def found(source: Path, clients: Sequence[str], site: str, seed: int) -> tuple[int, dict[str, Any]]:
    """The severity at which clients are as noisy as a site, and what a manifest says of it. Raises FedcliError."""
    mixture.clients_of(manifest.read(source).body, [site])
    if site in clients:
        raise UsageError(f"{site} would be matched to itself", "name other clients by --on")
    images, ids = _sample(source, clients)

    def noise(severity: int) -> float:
        noisy = [add(image, id, severity, seed) for image, id in zip(images, ids, strict=True)]
        return float(np.median(measure(np.stack(noisy))[:, NOISE]))

    console.say(f"finding the noise that makes {', '.join(clients)} as noisy as {site}")
    target = float(np.median(measure(_sample(source, [site])[0])[:, NOISE]))
    before, low, high = noise(0), 0, MOST
    if before >= target:
        what = f"the noise of {', '.join(clients)} is {before:.3g} grey levels already, that of {site} {target:.3g}"
        raise FedcliError(what, f"noise can only be added: --match {clients[0]} --on {site}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if noise(middle) < target else (low, middle)
    reached = {severity: noise(severity) for severity in (low, high)}
    best = min(reached, key=lambda severity: abs(reached[severity] - target))
    about = {
        "site": site,
        "sigma": best / STEPS,
        "noise": target,
        "before": before,
        "after": reached[best],
    }
    return best, about | {"images": len(images)}


def _sample(source: Path, clients: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Images as they are trained on, evenly over those of the clients, and their ids."""
    pool, held = quality_by_site.held(source)
    rows = np.concatenate([held[client] for client in clients])
    files = [
        place
        for client in clients
        for place in quality_by_site.places(source, pool, client, held[client])
    ]
    if not files:
        raise FedcliError(f"{', '.join(clients)} have no training images", "name other clients")
    at = np.unique(np.linspace(0, len(files) - 1, SAMPLE).astype(int))
    return quality_by_site.pixels([files[k] for k in at]), pool.id[rows[at]].tolist()
