"""Generated head slices with a known disparity, so that a fairness measure has something to find anywhere.

A slice is a skull, grey and white matter, ventricles and, in three classes of four, a bleed: epidural (a lens
at the skull), intraparenchymal (a blob inside) or subdural (a crescent along the skull). CONTRAST makes the bleed
fainter for two of the three groups and all else is drawn alike, so a model must come out worse for them. That is
a planted fault to measure; it says nothing about people. In the formulas the skull's outer face is the unit
circle; densities are in Hounsfield units.
"""

from pathlib import Path

import numpy as np

from ...seeds import derive
from ..pool import Row
from .division import divided
from .formats.dicom import WINDOWS
from .formats.dicom_display import linear
from .source import Choices, Listing, Source
from .tables import AGE_BANDS

PATIENTS, SLICES = 600, 2
CLASSES = ["none", "epidural", "intraparenchymal", "subdural"]
SHARES = {  # attribute -> value -> share of patients, the same within every class
    "sex": {"female": 0.5, "male": 0.5},
    "race": {"white": 0.7, "black": 0.2, "asian": 0.1},
    "age": dict(zip(AGE_BANDS, (0.3, 0.3, 0.4), strict=True)),
    "site": {"north": 0.4, "east": 0.3, "south": 0.2, "west": 0.1},
}
CONTRAST = {
    "white": 1.0,
    "black": 0.4,
    "asian": 0.6,
}  # the disparity: what a bleed adds is multiplied by this
HEAD = {"female": 0.95, "male": 1.0}  # size of the head
VENTRICLES = dict(zip(AGE_BANDS, (0.75, 1.0, 1.4), strict=True))  # size of the ventricles
NOISE = {"north": 4.0, "east": 5.0, "south": 6.0, "west": 7.0}  # HU, a scanner's noise

BONE, SCALP, GREY, WHITE, FLUID, BLOOD = (
    900.0,
    25.0,
    39.0,
    30.0,
    8.0,
    34.0,
)  # HU; BLOOD is what a bleed adds


def rows(raw: Path | None, choices: Choices) -> Listing:
    """Patients in equal numbers per class, two slices of each."""
    labels = np.arange(PATIENTS) % len(CLASSES)
    groups = {name: _deal(name, labels, choices.seed) for name in SHARES}
    images = []
    for p in range(PATIENTS):
        codes = {name: int(values[p]) for name, values in groups.items()}
        ids = [f"phantom-{p:04d}-{s}" for s in range(SLICES)]
        images += [
            Row(id, int(labels[p]), None, groups=codes, patient=f"patient-{p:04d}") for id in ids
        ]
    attributes = {name: list(shares) for name, shares in SHARES.items()}
    return divided(Listing(images, attributes, "patient_id"), choices)


def _deal(attribute: str, labels: np.ndarray, seed: int) -> np.ndarray:
    """Deal an attribute's values out to the patients of each class by their shares: int [PATIENTS]."""
    rng = np.random.default_rng(derive("phantom", seed, attribute))
    bounds = np.cumsum(list(SHARES[attribute].values()))
    dealt = np.empty(len(labels), int)
    for label in range(len(CLASSES)):
        members = rng.permutation(np.flatnonzero(labels == label))
        dealt[members] = np.searchsorted(bounds, (np.arange(len(members)) + 0.5) / len(members))
    return dealt


def decode(raw: Path | None, row: Row, choices: Choices) -> np.ndarray:
    """Draw one slice from its id and attributes alone: uint8 [size, size, 1] in the brain window."""
    rng = np.random.default_rng(derive("phantom", choices.seed, row.id))
    who = {name: list(shares)[row.groups[name]] for name, shares in SHARES.items()}
    x, y, blur = _coordinates(choices.size, HEAD[who["sex"]], rng)
    r = np.hypot(x, y)  # [size, size]
    brain = _brain(x, y, VENTRICLES[who["age"]], blur, rng)
    bleed = _bleed(CLASSES[row.label], x, y, blur, rng)
    brain += bleed * BLOOD * rng.uniform(0.6, 1.2) * CONTRAST[who["race"]]
    skull = rng.uniform(0.88, 0.91)  # its inner face
    density = np.where(r < 1.06, SCALP, -1000.0)
    density += (BONE - density) * _within(r, 1, blur)
    density += (brain - density) * _within(r, skull, blur)
    density += rng.normal(0, NOISE[who["site"]], density.shape)
    return linear(density, *WINDOWS["brain"])[..., None]


def _coordinates(
    size: int, head: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """x, y [size, size] in which the skull is the unit circle, and a pixel's width in them."""
    side = (np.arange(size) + 0.5) / size * 2 - 1
    across, down = np.meshgrid(side - rng.normal(0, 0.03), side - rng.normal(0, 0.03))
    tilt = rng.normal(0, 0.08)
    width, length = 0.74 * head * rng.normal(1, 0.025), 0.9 * head * rng.normal(1, 0.025)
    x = (across * np.cos(tilt) + down * np.sin(tilt)) / width
    y = (down * np.cos(tilt) - across * np.sin(tilt)) / length
    return x, y, 2 / size / width


def _within(distance: np.ndarray, limit: float | np.ndarray, blur: float) -> np.ndarray:
    """1 where distance < limit, 0 outside, with an edge as wide as blur."""
    return np.clip(0.5 + (limit - distance) / blur, 0, 1)


def _brain(
    x: np.ndarray, y: np.ndarray, ventricles: float, blur: float, rng: np.random.Generator
) -> np.ndarray:
    """Density [size, size] of a brain without a bleed."""
    r, size = np.hypot(x, y), len(x)
    folds = _texture(size, 14, rng) * 0.05
    brain = WHITE + (GREY - WHITE) * _within(-r, -0.72 + folds, 0.12) + _texture(size, 7, rng) * 1.5
    brain += 6 * _within(np.abs(x), 0.012, blur) * _within(-np.abs(y), -0.42, blur)  # the falx
    grooves = _within(-r, -0.76, 0.1) * np.clip(_texture(size, 22, rng) - 0.3, 0, 1)
    brain -= 14 * grooves * ventricles
    for side in (-1, 1):
        cx, cy = side * rng.normal(0.14, 0.015), rng.normal(-0.08, 0.03)
        u, v = (x - cx) - side * 0.9 * (y - cy) ** 2, y - cy  # horns bend outwards
        body = np.hypot(u / (0.075 * ventricles), v / (0.3 * ventricles**0.5))
        brain += (FLUID - brain) * _within(body, 1, blur * 4)
    return brain


def _texture(size: int, waves: int, rng: np.random.Generator) -> np.ndarray:
    """Smooth noise [size, size] of about unit spread with this many bumps along a side."""
    coarse = rng.normal(size=(waves + 2, waves + 2))
    at = (np.arange(size) + 0.5) / size * waves
    low, share = at.astype(int), at % 1
    share = share * share * (3 - 2 * share)
    rise = (
        coarse[low] * (1 - share)[:, None] + coarse[low + 1] * share[:, None]
    )  # [size, waves + 2]
    return 1.4 * (rise[:, low] * (1 - share) + rise[:, low + 1] * share)


def _bleed(
    kind: str, x: np.ndarray, y: np.ndarray, blur: float, rng: np.random.Generator
) -> np.ndarray:
    """Share of each pixel that is blood, [size, size]; all zero for "none"."""
    side = rng.choice([0, np.pi]) + rng.uniform(-0.7, 0.7)  # left or right, as an angle
    if kind == "epidural":
        return _at_skull(x, y, blur, side, rng.uniform(0.4, 0.6), rng.uniform(0.16, 0.26), 2)
    if kind == "subdural":
        return _at_skull(x, y, blur, side, rng.uniform(0.9, 1.3), rng.uniform(0.09, 0.15), 4)
    if kind == "intraparenchymal":
        return _blob(x, y, blur, side, rng)
    return np.zeros_like(x)


def _at_skull(
    x: np.ndarray, y: np.ndarray, blur: float, side: float, reach: float, depth: float, power: int
) -> np.ndarray:
    """A bleed along the skull, reach radians to either side; a low power makes it a lens, a high one a crescent."""
    along = (
        np.abs((np.arctan2(y, x) - side + np.pi) % (2 * np.pi) - np.pi) / reach
    )  # 0 in the middle, 1 at the ends
    thick = depth * np.clip(1 - along**power, 0, 1)
    return _within(0.9 - np.hypot(x, y), thick, blur * 2) * (along < 1)


def _blob(
    x: np.ndarray, y: np.ndarray, blur: float, side: float, rng: np.random.Generator
) -> np.ndarray:
    """A bleed inside the brain with a ragged edge."""
    distance = rng.uniform(0.3, 0.6)
    u, v = x - distance * np.cos(side), y - distance * np.sin(side)
    turn, edge = np.arctan2(v, u), np.ones_like(x)
    for waves, height in ((2, 0.25), (3, 0.12), (5, 0.08)):
        edge += height * np.cos(waves * turn + rng.uniform(0, 2 * np.pi))
    return _within(np.hypot(u, v), rng.uniform(0.11, 0.2) * edge, blur * 2)


SOURCE = Source(rows, decode)
