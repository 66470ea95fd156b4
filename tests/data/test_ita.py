"""Skin type from the individual typology angle, against CIELab worked out by hand."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tables_of_numbers import rows

from fedcli.data.sources.skin import skin_type

SKIN = 200, 160, 140
RULES = "continuous", "released"


def lab(rgb: tuple[int, int, int]) -> tuple[float, float]:
    """L and b of an sRGB colour under D65: CIE 15 and IEC 61966-2-1, step by step."""
    unit = np.array(rgb) / 255
    linear = np.where(unit > 0.04045, ((unit + 0.055) / 1.055) ** 2.4, unit / 12.92)
    y = linear @ [0.212671, 0.715160, 0.072169]
    z = linear @ [0.019334, 0.119193, 0.950227] / 1.08883
    fy, fz = (np.cbrt(v) if v > (6 / 29) ** 3 else v * (29 / 6) ** 2 / 3 + 4 / 29 for v in (y, z))
    return 116 * fy - 16, 200 * (fy - fz)


def uniform(rgb: tuple[int, int, int], height: int = 300, width: int = 400) -> np.ndarray:
    return np.full((height, width, 3), rgb, np.uint8)


@pytest.mark.parametrize(
    ("rgb", "skin"),
    [
        ((240, 205, 180), 1),
        (SKIN, 2),
        ((190, 150, 125), 3),
        ((160, 125, 100), 5),
        ((150, 110, 80), 6),
        ((80, 64, 56), 6),
    ],
)
def test_a_uniform_image_has_the_angle_of_its_colour(rgb, skin):
    light, yellow = lab(rgb)
    angle = np.degrees(np.arctan((light - 50) / yellow))
    image = skin_type.centre_square(uniform(rgb))
    colours = skin_type.patch_colours(skin_type.without_hair(image))
    expected = pytest.approx(np.tile([light, yellow], (8, 1)), abs=2e-3)
    assert colours[:, [0, 2]] == expected
    expected = pytest.approx(np.full(8, angle), abs=0.02)
    assert skin_type.angles(colours, "continuous") == expected
    by_hand = 1 + sum(angle <= cut for cut in (55, 41, 28, 19, 10))
    assert (
        skin_type.skin_type(uniform(rgb), "continuous")
        == skin_type.skin_type(uniform(rgb), "released")
        == by_hand
        == skin
    )


def test_the_cut_points_belong_to_the_darker_type():
    angles = [90, 55.001, 55, 41.001, 41, 28.001, 28, 19.001, 19, 10.001, 10, -90]
    expected = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    result = [skin_type.type_of(angle) for angle in angles]
    assert result == expected


def test_the_patches_lie_where_bevan_puts_them():
    rgb = (0, 0, 0)
    image = uniform(rgb, 256, 256)
    spans = [  # bottom, top, left, right, four corners: rows, then columns
        *((230, 250, 115, 135), (5, 25, 115, 135), (115, 135, 5, 25), (115, 135, 230, 250)),
        *((216, 236, 216, 236), (216, 236, 20, 40), (20, 40, 20, 40), (20, 40, 216, 236)),
    ]
    for k, (top, bottom, left_edge, right_edge) in enumerate(spans):
        image[top:bottom, left_edge:right_edge] = 30 * (k + 1)
    result = (image > 0).any(-1).sum()
    assert result == 8 * 400
    expected = pytest.approx([lab((v, v, v))[0] for v in range(30, 241, 30)], abs=2e-3)
    result = skin_type.patch_colours(image)[:, 0]
    assert result == expected


def test_the_lightest_patch_decides():
    rgb = (80, 64, 56)
    image = uniform(rgb, 256, 256)
    image[20:40, 216:236] = SKIN
    assert skin_type.skin_type(image, "continuous") == 2


@pytest.mark.parametrize("shape", [(100, 300), (300, 100), (101, 300)])
def test_only_the_middle_square_counts(shape):
    height, width = shape
    side = min(shape)
    image = uniform((0, 0, 0), *shape)
    top = (height - side) // 2
    left_edge = (width - side) // 2
    image[top : top + side, left_edge : left_edge + side] = SKIN
    assert (skin_type.centre_square(image) == SKIN).all()
    assert skin_type.centre_square(image).shape == (256, 256, 3)


def test_a_hair_is_painted_over_and_a_lesion_stays():
    image = uniform(SKIN, 256, 256)
    image[:, 122:125] = 30  # a hair through the top and bottom patches
    image[98:158, 70:130] = (90, 60, 50)  # sixty pixels wide, far more than a hair
    clean = skin_type.without_hair(image)
    outside = np.ones((256, 256), bool)
    outside[80:176, 52:148] = False
    result = np.abs(clean[outside].astype(int) - SKIN).max()
    assert result <= 2
    result = np.abs(clean[110:146, 80:118].astype(int) - (90, 60, 50)).max()
    assert result <= 1
    assert image[10, 123, 0] == 30  # the given image is not written into


def test_faint_lines_are_left_alone():
    rgb = (200, 200, 200)
    image = uniform(rgb, 256, 256)
    image[:, 122:125] = 190  # exactly as much darker as is allowed
    assert np.array_equal(skin_type.without_hair(image), image)


def test_both_rules_agree_on_skin_and_part_where_it_looks_blue():
    colours = np.array(rows("70 9 15; 30 5 8; 70 3 -5; 30 3 -5"), float)  # L, a, b
    both = np.degrees(np.arctan([20 / 15, -20 / 8]))
    blue = np.degrees(np.arctan(4))
    expected = pytest.approx([*both, 180 - blue, blue - 180])
    assert skin_type.angles(colours, "continuous") == expected
    expected = pytest.approx([*both, -blue, blue])
    assert skin_type.angles(colours, "released") == expected


@pytest.mark.parametrize("rule", RULES)
def test_grey_divides_nothing_by_zero(rule):
    colours = np.array(rows("70 0 0; 30 0 0; 50 0 0"), float)
    expected = [90, -90, 0]
    assert skin_type.angles(colours, rule).tolist() == expected
    for value in (0, 128, 255):
        rgb = (value,) * 3
        image = uniform(rgb)
        result = skin_type.skin_type(image, rule)
        expected = 6 if value == 0 else 1
        assert result == expected


def test_bright_skin_with_a_bluish_cast_is_light_except_by_the_released_rule():
    rgb = SKIN[::-1]
    image = uniform(rgb)
    result = skin_type.skin_type(image, "continuous")
    assert result == 1
    rgb = SKIN[::-1]
    image = uniform(rgb)
    result = skin_type.skin_type(image, "released")
    assert result == 6


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_real_skin_is_ranked_as_another_estimate_ranks_it():
    from pandas import read_csv

    folder = Path(os.environ["FEDCLI_REAL_DATA"]) / "ham10000"
    table = read_csv(folder / "ita_estimate_derived.csv")[::50]
    images = (
        np.asarray(Image.open(folder / "images" / f"{id}.jpg").convert("RGB"))
        for id in table.image_id
    )
    colours = [
        skin_type.patch_colours(skin_type.without_hair(skin_type.centre_square(image)))
        for image in images
    ]
    for rule in RULES:
        table[rule] = [skin_type.angles(patches, rule).max() for patches in colours]
    rank = table[["ita_est", *RULES]].corr("spearman").ita_est
    assert rank.continuous > 0.85
    assert abs(rank.released) < 0.3
