"""Artefacts of dermoscopy: dark corners, hair, bubbles in the gel, a ruler, ink and a colour cast.

Sources: dark corners with the radii of MedMNIST-C's black corner (Di Salvo et al., arXiv
2406.17536; its code has 0.90 before 0.95, here severities are in order), with a soft edge. The
others are artefacts that Bissoto, Valle and Avila, "Debiasing skin lesion datasets and models? Not
so fast", CVPR Workshops 2020, arXiv 2004.11457, label in ISIC images; hair as curves, as Attia et
al., "Digital hair segmentation using hybrid convolutional and recurrent neural networks", 2018, and
earlier simulators draw it. Their look and amounts are fedcli's.
"""

import numpy as np

from .kind import Array, Stream, register_family
from .painting import (
    Stroke,
    blurred,
    covered,
    curve,
    grid,
    painted,
    side_of,
    smooth_field,
    with_bubbles,
)

HAIR = np.array([[0.10, 0.07, 0.06], [0.20, 0.13, 0.09], [0.33, 0.22, 0.14]])  # brown to fair
INK = np.array([0.28, 0.16, 0.52])  # gentian violet
TAPER = 6  # parts of a hair, each thinner than the one before


def dark_corner(image: Array, amount: float, stream: Stream) -> Array:
    """Black outside the round field of view, whose radius is an amount of half the side."""
    y, x = grid(image.shape)
    distance = np.hypot(y, x) - amount / 2
    softness = max(0.012, 1 / side_of(image.shape))
    light = np.clip(0.5 - distance / softness / 2, 0, 1)
    return image * light[..., None]


def hair(image: Array, amount: int, stream: Stream) -> Array:
    """Tapered curves of one colour, most of them along one direction, with a soft shadow."""
    tone = HAIR[stream.integers(len(HAIR))]
    main_angle = stream.uniform(0, np.pi)
    hairs: list[Stroke] = []
    for _ in range(amount):
        hairs += _one_hair(main_angle, stream)
    shares = painted(image.shape, hairs)
    shadow = blurred(shares, 0.008 * side_of(image.shape))
    image = image * (1 - 0.3 * np.clip(shadow, 0, 1))[..., None]
    colour = tone if image.shape[2] == 3 else tone.mean()
    return covered(image, 0.92 * shares, colour)


def _one_hair(main_angle: float, stream: Stream) -> list[Stroke]:
    centre = stream.uniform(-0.6, 0.6, 2)
    angle = main_angle + stream.normal(0, 0.45)
    along = np.array([np.sin(angle), np.cos(angle)])
    across = np.array([along[1], -along[0]])
    length = stream.uniform(0.5, 1.3)
    bend = stream.normal(0, 0.16) * length
    width = stream.uniform(0.005, 0.011)
    start = centre - along * length / 2
    end = centre + along * length / 2
    points = curve(start, centre + across * bend, end, 4 * TAPER + 1)
    parts = []
    for k in range(TAPER):
        piece = points[4 * k : 4 * k + 5]
        parts.append((piece, width * (1 - 0.6 * k / TAPER)))
    return parts


def gel_bubbles(image: Array, amount: int, stream: Stream) -> Array:
    """Bubbles of air in the immersion fluid, most of them small."""
    centres = stream.uniform(-0.66, 0.66, (64, 2))
    radii = np.clip(stream.exponential(0.022, 64) + 0.012, 0, 0.1)
    return with_bubbles(image, centres[:amount], radii[:amount], _light(stream))


def _light(stream: Stream) -> Array:
    angle = stream.uniform(0, 2 * np.pi)
    return np.array([np.sin(angle), np.cos(angle)])


def ruler(image: Array, amount: float, stream: Stream) -> Array:
    """A millimetre scale along an edge; an amount is its length, of the shorter side."""
    turn = stream.integers(4) * np.pi / 2 + stream.normal(0, 0.06)
    inwards = np.array([-np.cos(turn), np.sin(turn)])
    along = np.array([np.sin(turn), np.cos(turn)])
    edge = -0.46 * inwards
    spacing = 0.05
    marks: list[Stroke] = []
    for k in range(-10, 11):
        if abs(k) * spacing <= amount / 2:
            tick = edge + k * spacing * along
            length = 0.09 if k % 5 == 0 else 0.045
            marks.append((np.stack([tick, tick + length * inwards]), 0.007))
    line = np.stack([edge - along * amount / 2, edge + along * amount / 2])
    marks.append((line, 0.006))
    return covered(image, 0.88 * painted(image.shape, marks), 0.08)


def ink_mark(image: Array, amount: float, stream: Stream) -> Array:
    """A surgical pen's violet line around the lesion; an amount is its share of a full turn."""
    start = stream.uniform(0, 2 * np.pi)
    radii = stream.uniform(0.36, 0.44, 2)
    angles = np.linspace(start, start + 2 * np.pi * amount, 60)
    wobble = 1 + 0.05 * np.sin(3 * angles + start)
    points = np.stack([radii[0] * np.sin(angles), radii[1] * np.cos(angles)], 1)
    line = painted(image.shape, [(points * wobble[:, None], 0.05)])
    grain = smooth_field(image.shape, stream, 20)
    soft_line = blurred(line, 0.012 * side_of(image.shape))
    ragged = np.clip(4 * (soft_line - 0.3 - 0.45 * (grain - 0.5)), 0, 1)
    opacity = ragged * (0.55 + 0.4 * grain)
    ink = INK if image.shape[2] == 3 else INK.mean()
    return image * (1 - opacity[..., None] * (1 - ink))


def colour_cast(image: Array, amount: float, stream: Stream) -> Array:
    """Each channel times a factor, as of light of another colour temperature."""
    direction = stream.standard_normal(3)
    direction -= direction.mean()
    direction /= np.abs(direction).max()
    return image * np.exp(amount * direction)


register_family(__file__, dark_corner, hair, gel_bubbles, ruler, ink_mark, colour_cast)
