"""Every corruption: what all of them hold, and that its pictures stay as they are."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from site_federation import chain_with_tests

from fedcli.bench import corruption_checks
from fedcli.bench.corruption_checks import picture
from fedcli.data.corruption.kinds import KINDS, MODALITIES, medmnist_c, named, of_modality
from fedcli.data.corruption.kinds.kind import declarations
from fedcli.data.corruption.kinds.photographs import POINTWISE, SPATIAL
from fedcli.errors import UsageError
from fedcli.figures.kinds.corruptions import frame as sheet_of

PHOTOGRAPHS = POINTWISE | SPATIAL
OTHERS = [name for name in KINDS if name not in PHOTOGRAPHS]
GOLDEN = Path(__file__).parent.parent / "golden" / "corruptions.png"
SIDE = 48  # pixels of an image
BLOCK = 4  # pixels whose mean is a pixel of its golden image
TILE = SIDE // BLOCK
COLUMNS = 20
NEAR = 2  # grey levels


@pytest.mark.parametrize("name", OTHERS)
def test_a_kind_holds_what_every_kind_must(name):
    assert not [verdict for verdict in corruption_checks.verdicts(name) if verdict.why]


def golden(name):
    """A picture at severity 3, in colour, a quarter as large: uint8 [TILE, TILE, 3]."""
    image = named(name).apply(picture(3, side=SIDE), "golden", 3, 0)
    means = image.reshape(TILE, BLOCK, TILE, BLOCK, 3).mean((1, 3))
    return np.rint(means).astype(np.uint8)


def sheet():
    rows = []
    names = list(KINDS)
    for start in range(0, len(names), COLUMNS):
        row = [golden(name) for name in names[start : start + COLUMNS]]
        row += [np.zeros_like(row[0])] * (COLUMNS - len(row))
        rows.append(np.concatenate(row, 1))
    return np.concatenate(rows)


@pytest.mark.parametrize("name", KINDS)
def test_the_golden_image_of_a_kind(name):
    """To within rounding, as other versions of SciPy and Pillow may round otherwise."""
    row, column = divmod(list(KINDS).index(name), COLUMNS)
    expected = np.asarray(Image.open(GOLDEN))
    tile = expected[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
    apart = np.abs(golden(name).astype(int) - tile)
    assert np.mean(apart > NEAR) < 0.02


@pytest.mark.parametrize("name", OTHERS)
def test_16_bits_are_changed_as_8_bits_are(name):
    image = picture(3, side=SIDE)
    fine = named(name).apply(image.astype(np.uint16) * 257, "a", 4, 0)
    coarse = named(name).apply(image, "a", 4, 0)
    assert fine.dtype == np.uint16
    apart = np.abs(fine / 257 - coarse)
    assert np.mean(apart > 1) < 0.01


@pytest.mark.parametrize("name", ["hair", "ruler", "gel-bubbles", "bubbles", "specular-light"])
def test_a_higher_severity_has_the_same_pattern_and_more(name):
    clean = picture(3).astype(int)
    changes = []
    for severity in (2, 4):
        changed = named(name).apply(picture(3), "a", severity, 0)
        changes.append(np.abs(changed - clean).max(-1) > 30)
    assert changes[0].any()
    assert np.mean(changes[1][changes[0]]) > 0.9


def test_every_modality_has_kinds_and_every_kind_a_source():
    assert all(map(of_modality, MODALITIES))
    for kind in KINDS.values():
        assert kind.source, kind.name
        assert len(kind.amounts) == 5, kind.name


def test_the_intensities_of_medmnist_c_are_kinds_of_their_modality():
    kinds = of_modality("dermoscopy")
    amounts = declarations(medmnist_c.__file__)["amounts"]["dermoscopy"]
    assert {f"{name}@dermoscopy" for name in amounts} < set(kinds)
    assert {"hair", "dark-corner"} < set(kinds)
    assert named("gaussian-noise@ct").amounts == [0.04, 0.08, 0.12, 0.16, 0.20]
    assert named("gaussian-noise@x-ray").amounts[-1] == 0.26


def test_low_dose_is_nothing_but_noise_where_photons_are_many():
    from fedcli.data.corruption.kinds import computed_tomography as tomography

    image = picture(1) / 255
    many = tomography.low_dose(image, 1e12, np.random.default_rng(0))
    assert np.abs(many - image).max() < 1e-3


def test_a_slice_is_the_filtered_back_projection_of_its_projections():
    from fedcli.data.corruption.kinds import computed_tomography as tomography

    y, x = np.mgrid[:64, :64] / 64 - 0.5
    phantom = np.exp(-0.5 * (np.hypot(y, x) / 0.12) ** 2)
    views = np.arange(90) * np.pi / 90
    rebuilt = tomography.projected_back(
        tomography.projections(phantom, views), views, phantom.shape
    )
    assert np.abs(rebuilt - phantom).max() < 0.05


def test_a_modality_is_no_single_kind():
    with pytest.raises(UsageError, match="dermoscopy is a modality") as error:
        named("dermoscopy")
    assert error.value.hint == "`fedcli corruptions dermoscopy` lists its kinds"


def test_the_sheet_of_a_modality_and_one_kind_of_a_modality(tmp_path):
    partition = chain_with_tests(tmp_path)
    frame = sheet_of(partition, kind="x-ray")
    kinds = frame["kind"].unique()
    assert {"collimator", "gaussian-noise@x-ray"} <= set(kinds)
    assert len(frame) == len(frame.attrs["cases"]) == 6 * len(kinds)
    assert (frame[frame["severity"] == 0]["distance"] == 0).all()
    with pytest.raises(UsageError, match="no training image"):
        sheet_of(partition, kind="collimator", image="nobody")
