"""Skin type from the individual typology angle (ITA) of the skin around a lesion.

Source: Bevan, Atapour-Abarghouei, Detecting Melanoma Fairly, arXiv 2202.02832, with the released
preprocessing; cut points of Kinyanjui et al., MICCAI 2020 (arXiv 1910.13268). A centred square of
256 pixels, hair painted over, CIELab, eight patches near the border, the lightest of the eight
angles. Two things differ: the square is not written as a JPEG in between, and the angle.

Bevan's angle is atan((L - 50) / b), which is meant for skin, where b (yellow) is above 0.
Dermoscopes with a bluish cast give bright skin with b below 0; there the quotient changes its sign
and the lightest skin becomes the darkest type. 18 % of HAM10000's images have no patch with b above
0, and 1,771 of the 2,031 that the quotient calls dark (at most 28 degrees) are of these. Dark
corners with b below 0 turn very light in the same way, and the lightest patch counts. The rule
"continuous" takes the angle of the point (b, L - 50), which is the same number for b above 0 and
goes on past 90 degrees without a jump; "released" is Bevan's quotient. Where b is 0 both take the
limit from above, so that nothing is divided by zero: 90 degrees for L above 50, -90 below, and 0
where L is 50.
"""

import numpy as np
from numpy import ndarray

from ..formats.photographs import import_cv2

SIDE = 256  # pixels
PATCH = 20  # pixels
# top row and left column of each patch: four sides, four corners
TOPS = [230, 5, 115, 115, 216, 216, 20, 20]
LEFTS = [115, 115, 5, 230, 216, 20, 20, 216]
CUTS = [55.0, 41.0, 28.0, 19.0, 10.0]  # degrees; above the first: type 1, at or below the last: 6
HAIR = 17  # width in pixels of the cross that finds hair
DARKER = 10  # grey levels of hair below its surroundings


def skin_type(image: ndarray, rule: str) -> int:
    """1 (very light) to 6 (dark) of an image, uint8 [H, W, 3]."""
    colours = patch_colours(without_hair(centre_square(image)))
    return type_of(angles(colours, rule).max())


def centre_square(image: ndarray) -> ndarray:
    """The largest square in the middle, uint8 [SIDE, SIDE, 3]."""
    from PIL import Image

    height, width = image.shape[:2]
    side = min(height, width)
    top = (height - side) // 2
    left_side = (width - side) // 2
    pixels = image[top : top + side, left_side : left_side + side]
    square = Image.fromarray(pixels)
    return np.asarray(square.resize((SIDE, SIDE), Image.Resampling.LANCZOS))


def without_hair(image: ndarray) -> ndarray:
    """Dark thin lines painted over from their surroundings; uint8 [SIDE, SIDE, 3]."""
    cv2 = import_cv2()
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    cross = cv2.getStructuringElement(cv2.MORPH_CROSS, (HAIR, HAIR))
    hair = cv2.morphologyEx(grey, cv2.MORPH_BLACKHAT, cross) > DARKER
    return cv2.inpaint(image, hair.astype(np.uint8), 1, cv2.INPAINT_TELEA)


def patch_colours(image: ndarray) -> ndarray:
    """Mean CIELab of each patch, float64 [8, 3]."""
    from skimage.color import rgb2lab

    patches = []
    for row, column in zip(TOPS, LEFTS, strict=True):
        patch = image[row : row + PATCH, column : column + PATCH]
        patches.append(patch)
    return rgb2lab(np.stack(patches)).mean((1, 2))  # of [8, PATCH, PATCH, 3]


def angles(colours: ndarray, rule: str) -> ndarray:
    """ITA in degrees of each colour, float64 [8]."""
    light = colours[:, 0] - 50
    yellow = colours[:, 2]
    if rule == "released":
        light = np.where(yellow < 0, -light, light)
        yellow = np.abs(yellow)
    return np.degrees(np.arctan2(light, yellow))


def type_of(angle: float) -> int:
    kind = 1
    for cut in CUTS:
        if angle <= cut:
            kind += 1
    return kind
