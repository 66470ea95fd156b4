"""Generated head slices with a known disparity, so that a fairness measure can find one anywhere.

A slice is a skull, grey and white matter, ventricles and, in three classes of four, a bleed:
epidural (a lens at the skull), intraparenchymal (a blob inside) or subdural (a crescent along the
skull). CONTRAST makes the bleed fainter for two of the three groups and all else is drawn alike, so
a model must come out worse for them. That is a planted fault to measure; it says nothing about
people. In the formulas the skull's outer face is the unit circle; densities are in Hounsfield
units.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from numpy.random import Generator

from ...seeds import derive
from ..pool import Row
from ..prepare_options import PrepareOptions
from .division import divided
from .formats.dicom import WINDOWS
from .formats.dicom_display import linear
from .source import Listing, Source
from .tables import AGE_BANDS

PATIENTS = 600
SLICES = 2
CLASSES = ["none", "epidural", "intraparenchymal", "subdural"]
SHARES = {  # attribute -> value -> share of patients, the same within every class
    "sex": {"female": 0.5, "male": 0.5},
    "race": {"white": 0.7, "black": 0.2, "asian": 0.1},
    "age": dict(zip(AGE_BANDS, (0.3, 0.3, 0.4), strict=True)),
    "site": {"north": 0.4, "east": 0.3, "south": 0.2, "west": 0.1},
}
CONTRAST = {"white": 1.0, "black": 0.4, "asian": 0.6}  # the disparity: factors of what a bleed adds
HEAD = {"female": 0.95, "male": 1.0}  # size of the head
VENTRICLES = dict(zip(AGE_BANDS, (0.75, 1.0, 1.4), strict=True))  # size of the ventricles
NOISE = {"north": 4.0, "east": 5.0, "south": 6.0, "west": 7.0}  # HU, a scanner's noise

# HU
AIR = -1000.0
BONE = 900.0
SCALP = 25.0
GREY = 39.0
WHITE = 30.0
FLUID = 8.0
BLOOD = 34.0  # what a bleed adds

AT_SKULL = {  # bounds of reach and of depth, and the power of the shape
    "epidural": ((0.4, 0.6), (0.16, 0.26), 2),
    "subdural": ((0.9, 1.3), (0.09, 0.15), 4),
}


class Plane(NamedTuple):
    """Coordinates of all pixels, [size, size]; the skull is the unit circle."""

    x: ndarray
    y: ndarray
    radius: ndarray
    blur: float  # width of a pixel, and of an edge


def rows(raw: Path | None, choices: PrepareOptions) -> Listing:
    """Patients in equal numbers per class, two slices of each."""
    labels = np.arange(PATIENTS) % len(CLASSES)
    groups = {name: _deal(name, labels, choices.seed) for name in SHARES}
    images = []
    for p in range(PATIENTS):
        codes = {name: int(values[p]) for name, values in groups.items()}
        for s in range(SLICES):
            label = int(labels[p])
            patient = f"patient-{p:04d}"
            row = Row(
                f"phantom-{p:04d}-{s}",
                label,
                None,
                False,
                codes,
                patient,
            )
            images.append(row)
    attributes = {name: list(shares) for name, shares in SHARES.items()}
    return divided(Listing(images, attributes, "patient_id"), choices)


def _deal(attribute: str, labels: ndarray, seed: int) -> ndarray:
    """An attribute's values by their shares within each class: int [PATIENTS]."""
    rng = np.random.default_rng(derive("phantom", seed, attribute))
    bounds = np.cumsum(list(SHARES[attribute].values()))
    codes = np.empty(len(labels), int)
    for label in range(len(CLASSES)):
        members = rng.permutation(np.flatnonzero(labels == label))
        middles = np.arange(len(members)) + 0.5
        positions = middles / len(members)
        codes[members] = np.searchsorted(bounds, positions)
    return codes


def decode(raw: Path | None, row: Row, choices: PrepareOptions) -> ndarray:
    """uint8 [size, size, 1] in the brain window: a slice, from its id and attributes alone."""
    rng = np.random.default_rng(derive("phantom", choices.seed, row.id))
    person = {}
    for name, shares in SHARES.items():
        values = list(shares)
        person[name] = values[row.groups[name]]
    plane = _plane(choices.size, HEAD[person["sex"]], rng)
    brain = _brain(plane, VENTRICLES[person["age"]], rng)
    bleed = _bleed(CLASSES[row.label], plane, rng)
    contrast = CONTRAST[person["race"]]
    brain += bleed * BLOOD * rng.uniform(0.6, 1.2) * contrast
    inner_face = rng.uniform(0.88, 0.91)  # of the skull
    density = np.where(plane.radius < 1.06, SCALP, AIR)
    _cover(density, BONE, _within(plane.radius, 1, plane.blur))
    _cover(density, brain, _within(plane.radius, inner_face, plane.blur))
    density += rng.normal(0, NOISE[person["site"]], density.shape)
    return linear(density, *WINDOWS["brain"])[..., None]


def _plane(size: int, head: float, rng: Generator) -> Plane:
    """The pixels of a head that is a little shifted, tilted and stretched."""
    pixel_middles = np.arange(size) + 0.5
    side = pixel_middles / size * 2 - 1
    columns = side - rng.normal(0, 0.03)
    lines = side - rng.normal(0, 0.03)
    across, down = np.meshgrid(columns, lines)
    tilt = rng.normal(0, 0.08)
    width = 0.74 * head * rng.normal(1, 0.025)
    length = 0.9 * head * rng.normal(1, 0.025)
    turned_x = across * np.cos(tilt) + down * np.sin(tilt)
    x = turned_x / width
    turned_y = down * np.cos(tilt) - across * np.sin(tilt)
    y = turned_y / length
    radius = np.hypot(x, y)
    blur = 2 / size / width
    return Plane(x, y, radius, blur)


def _within(
    distance: ndarray,
    limit: float | ndarray,
    blur: float,
) -> ndarray:
    """1 where distance < limit, 0 outside, with an edge as wide as blur."""
    inside = limit - distance
    return np.clip(0.5 + inside / blur, 0, 1)


def _cover(
    density: ndarray,
    other: float | ndarray,
    share: ndarray,
) -> None:
    """Put another density in its place, as far as share says."""
    density += (other - density) * share


def _brain(plane: Plane, ventricles: float, rng: Generator) -> ndarray:
    """Density [size, size] of a brain without a bleed."""
    x, y, radius, blur = plane
    size = len(x)
    folds = _texture(size, 14, rng) * 0.05
    grey = _within(-radius, -0.72 + folds, 0.12)
    brain = WHITE + (GREY - WHITE) * grey + _texture(size, 7, rng) * 1.5
    falx = 6 * _within(np.abs(x), 0.012, blur)
    cleft = _within(-np.abs(y), -0.42, blur)
    brain += falx * cleft
    rim = _within(-radius, -0.76, 0.1)
    grooves = rim * np.clip(_texture(size, 22, rng) - 0.3, 0, 1)
    brain -= 14 * grooves * ventricles
    for side in (-1, 1):
        u = x - side * rng.normal(0.14, 0.015)
        v = y - rng.normal(-0.08, 0.03)
        u = u - side * 0.9 * v**2  # horns bend outwards
        width = 0.075 * ventricles
        length = 0.3 * ventricles**0.5
        body = np.hypot(u / width, v / length)
        _cover(brain, FLUID, _within(body, 1, blur * 4))
    return brain


def _texture(size: int, waves: int, rng: Generator) -> ndarray:
    """Smooth noise [size, size] of about unit spread with this many bumps along a side."""
    coarse = rng.normal(size=(waves + 2, waves + 2))
    pixel_middles = np.arange(size) + 0.5
    positions = pixel_middles / size * waves
    low = positions.astype(int)
    share = positions % 1
    share = share * share * (3 - 2 * share)
    rest = 1 - share
    upper_part = coarse[low] * rest[:, None]
    lower_part = coarse[low + 1] * share[:, None]
    lines = upper_part + lower_part  # [size, waves + 2]
    left_part = lines[:, low] * rest
    right_part = lines[:, low + 1] * share
    return 1.4 * (left_part + right_part)


def _bleed(kind: str, plane: Plane, rng: Generator) -> ndarray:
    """Share of each pixel that is blood, [size, size]; all zero for "none"."""
    side = rng.choice([0, np.pi])  # left or right, as an angle
    side += rng.uniform(-0.7, 0.7)
    if kind in AT_SKULL:
        reaches, depths, power = AT_SKULL[kind]
        reach = rng.uniform(*reaches)
        return _at_skull(plane, side, reach, rng.uniform(*depths), power)
    if kind == "intraparenchymal":
        return _blob(plane, side, rng)
    return np.zeros_like(plane.x)


def _at_skull(
    plane: Plane,
    side: float,
    reach: float,
    depth: float,
    power: int,
) -> ndarray:
    """A bleed along the skull, reach radians to either side.

    A low power makes it a lens, a high one a crescent.
    """
    angle = np.arctan2(plane.y, plane.x) - side
    turned = (angle + np.pi) % (2 * np.pi)
    away = np.abs(turned - np.pi)
    along = away / reach  # 0 in the middle, 1 at the ends
    shape = np.clip(1 - along**power, 0, 1)
    thickness = depth * shape
    depth_inside = 0.9 - plane.radius
    blur = plane.blur * 2
    return _within(depth_inside, thickness, blur) * (along < 1)


def _blob(plane: Plane, side: float, rng: Generator) -> ndarray:
    """A bleed inside the brain with a ragged edge."""
    distance = rng.uniform(0.3, 0.6)
    u = plane.x - distance * np.cos(side)
    v = plane.y - distance * np.sin(side)
    turn = np.arctan2(v, u)
    edge = np.ones_like(u)
    for waves, height in ((2, 0.25), (3, 0.12), (5, 0.08)):
        phase = rng.uniform(0, 2 * np.pi)
        wave = np.cos(waves * turn + phase)
        edge += height * wave
    size = rng.uniform(0.11, 0.2)
    blur = plane.blur * 2
    return _within(np.hypot(u, v), size * edge, blur)


SOURCE = Source(rows, decode)
