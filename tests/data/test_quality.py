"""Measures of image quality, their histograms, and the distances between sites."""

import io

import numpy as np
import pytest
from PIL import Image
from tables_of_numbers import rows

from fedcli.data import quality, quality_by_site
from fedcli.data.quality import BINS, MEASURES, NAMES


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def measured(image: np.ndarray) -> dict[str, float]:
    return dict(zip(NAMES, quality.measure(image[None])[0], strict=True))


def test_a_small_image_by_hand():
    """One bright pixel of 36 on black 3 x 3: masks answer with 4 and -4 times it."""
    image = np.zeros((3, 3, 1), np.uint8)
    image[1, 1] = 36
    measures = measured(image)
    expected = pytest.approx(np.sqrt(np.pi / 2) / 6 * 4 * 36)
    assert measures["noise"] == expected
    assert measures["brightness"] == pytest.approx(4)
    expected = pytest.approx(np.sqrt(36**2 / 9 - 16))
    assert measures["contrast"] == expected
    expected = pytest.approx(-(np.log2(1 / 9) / 9 + 8 / 9 * np.log2(8 / 9)))
    assert measures["entropy"] == expected
    assert measures["sharpness"] == 0
    assert measures["blockiness"] == 1
    expected = pytest.approx(20 * np.log10(4 / measures["noise"]))
    assert measures["snr"] == expected


def test_noise_is_found_on_ramps_in_grey_and_in_colour_and_a_flat_image_has_none(rng):
    ramp = np.broadcast_to(np.linspace(60, 180, 64)[:, None, None], (64, 64, 3))
    for sigma in (4, 16):
        noisy = np.clip(np.rint(ramp + sigma * rng.standard_normal((64, 64, 1))), 0, 255).astype(
            np.uint8
        )
        assert measured(noisy)["noise"] == pytest.approx(sigma, rel=0.06)
        image = noisy[..., :1]
        expected = pytest.approx(measured(image)["noise"], rel=1e-4)
        assert measured(noisy)["noise"] == expected
        alike = np.concatenate([noisy, noisy[..., :1]], 2)  # a volume of four slices
        expected = pytest.approx(measured(noisy)["noise"], rel=1e-4)
        assert measured(alike)["noise"] == expected
    image = np.full((16, 16, 1), 100, np.uint8)
    flat = measured(image)
    result = (flat["noise"], flat["entropy"], flat["contrast"], flat["blockiness"])
    assert result == (0, 0, 0, 1)
    expected = pytest.approx(20 * np.log10(100 * 12**0.5))
    assert flat["snr"] == expected


def test_strong_compression_is_blocky_and_a_blurred_image_less_sharp(rng):
    picture = np.clip(np.cumsum(rng.normal(0, 6, (64, 64)), 1) + 120, 0, 255).astype(np.uint8)
    Image.fromarray(picture).save(jpeg := io.BytesIO(), format="JPEG", quality=8)
    blocky = np.asarray(Image.open(jpeg))
    blurred = ((picture[:-1].astype(int) + picture[1:]) // 2).astype(np.uint8)
    plain = measured(picture[..., None])
    assert measured(blocky[..., None])["blockiness"] > 1.5 > 1.3 > plain["blockiness"] > 0.8
    image = blurred[..., None]
    result = measured(image)["sharpness"]
    assert result < plain["sharpness"]


def test_every_image_is_in_one_bin_of_each_measure_and_bins_are_the_measures_own(rng):
    values = quality.measure(rng.integers(0, 256, (20, 9, 9, 3), dtype=np.uint8))
    result = quality.histograms(values).sum(1).tolist()
    assert result == [20] * len(MEASURES)
    for measure in MEASURES:
        result = measure.values(np.array([0, BINS]))
        assert result == pytest.approx([measure.low, measure.high])
        result = measure.places(measure.values(np.array([5.5])))
        assert result == pytest.approx([5.5])


def test_cells_hold_enough_images_or_none_and_lose_no_image(rng):
    counts = np.bincount(rng.normal(30, 6, 300).astype(int), minlength=BINS)
    cells = quality.cells(counts, 10)
    assert min(images for *_, images in cells) >= 10
    result = sum(images for *_, images in cells)
    assert result == 300
    assert cells[0][0] == 0
    result = cells[-1][1]
    assert result == BINS - 1
    assert quality.sound(cells, 300)
    result = np.abs(np.cumsum(quality.spread(cells) - counts)).max()
    assert result < 20  # images out of place
    result = quality.spread(quality.cells(counts, 1)).tolist()
    assert result == counts.tolist()
    assert quality.cells(counts, 301) == []
    for odd in (
        rows("0 3 300; 3 63 0"),
        [[0, 64, 300]],
        [[0, 63, 299]],
        rows("0 9 -1; 10 63 301"),
        [[300]],
    ):
        assert not quality.sound(odd, 300)


def shifted(bin_index: int, images: int) -> np.ndarray:
    """Histograms of images that lie evenly in two neighbouring bins."""
    counts = np.zeros((len(MEASURES), BINS))
    counts[:, bin_index : bin_index + 2] = images / 2
    return counts


def test_distances_by_hand_and_who_stands_out_in_words():
    """Two bins with all images: a deviation of sqrt(1/4 + 1/12) bins; a shift of 2 bins is 2 / 0.577 of them."""
    facts = quality_by_site.facts(
        {"a": shifted(10, 40), "b": shifted(10, 60), "c": shifted(12, 100)}
    )
    expected = pytest.approx(2 / (1 / 3) ** 0.5)
    result = facts["c"]["measures"]["noise"]["distance"]
    assert result == expected
    expected = pytest.approx((100 / 160) * 2 / (1 / 3) ** 0.5)
    result = facts["a"]["measures"]["noise"]["distance"]
    assert result == expected
    brightness = facts["c"]["measures"]["brightness"]
    expected = pytest.approx((13 * 4, 11 * 4))
    assert (brightness["median"], brightness["others"]) == expected
    (only,) = quality_by_site.findings(
        {"a": shifted(10, 40), "b": shifted(10, 60), "c": shifted(12, 100)}
    )
    assert only.startswith("c stands out in noise: ")
    noisy = {name: shifted(10, 40) for name in "abc"}
    noisy["c"][[NAMES.index("noise"), NAMES.index("sharpness")]] = (
        shifted(14, 40)[0],
        shifted(20, 40)[0],
    )
    (only,) = quality_by_site.findings(noisy)
    assert only.startswith("c stands out in sharpness: ")
    assert only.endswith("which alone raises sharpness")
    alike = {"a": shifted(10, 40), "b": shifted(10, 60)}
    assert quality_by_site.findings(alike) == [
        "no site stands out: every distance is below 0.8 standard deviations"
    ]
    assert (
        quality_by_site.facts({"a": shifted(10, 40)})["a"]["measures"]["noise"]["distance"] is None
    )


def test_the_sharpness_of_a_white_dot_by_hand():
    """The Laplacian of a dot of 36 is -144 in its place and 36 beside it in four of nine places: 20 36^2 / 9."""
    dot = np.zeros((5, 5, 1), np.uint8)
    dot[2, 2] = 36
    expected = pytest.approx(20 * 36**2 / 9)
    assert measured(dot)["sharpness"] == expected


def test_each_image_counts_alike_in_the_deviation_within_sites():
    """Ten images in bin 10, one in 20 and one in 24: variances 1/12 and 4 + 1/12, pooled (10 / 12 + 8 + 2 / 12) / 12."""
    one_bin, two_bins = np.zeros((2, len(NAMES), BINS))
    one_bin[:, 10] = 10
    two_bins[:, [20, 24]] = 1
    facts = quality_by_site.facts({"north": one_bin, "south": two_bins})
    for site in facts.values():
        distances = [measure["distance"] for measure in site["measures"].values()]
        expected = pytest.approx([12 / 0.75**0.5] * len(NAMES))
        assert distances == expected
