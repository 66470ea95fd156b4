import importlib.util
import multiprocessing
import re
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import make_chain
from raw_folders import write_pool
from scipy import ndimage

from fedcli.data import manifest
from fedcli.data.corruption import library
from fedcli.data.corruption.corrupt import corrupt_image, make_corruption
from fedcli.data.corruption.kinds import full_kind
from fedcli.data.corruption.kinds.photographs import POINTWISE, SPATIAL
from fedcli.data.corruption.mixture import Who
from fedcli.data.partition import make_partition, resolve
from fedcli.data.pool import Row, holdings, read_pool
from fedcli.errors import FedcliError, UsageError
from fedcli.seeds import derive

GREY_LEVEL = 120
KINDS = POINTWISE | SPATIAL


def photo(size=40, channels=3, seed=0):
    """Smooth colours with edges, away from black and white."""
    down, across = np.mgrid[:size, :size] / size
    waves = [
        np.sin(5 * down + 3 * c + seed) + np.cos(7 * across - c) + (across > 0.5)
        for c in range(channels)
    ]
    return (60 + 35 * (np.stack(waves, -1) + 1)).clip(0, 255).astype(np.uint8)  # [H, W, C]


def corrupted(image, id="one", *, kind="gaussian-noise", severity=3, seed=0):
    return corrupt_image(image, id, kind=kind, severity=severity, seed=seed)


def test_all_nineteen_kinds_of_the_package_are_there():
    listed = Path(importlib.util.find_spec("imagecorruptions").origin).read_text()
    names = re.search(r"corruption_tuple = \((.*?)\)", listed, re.S)[1].split(",")
    expected = sorted(name.strip().replace("_", "-") for name in names)
    assert sorted(KINDS) == expected


def test_the_package_is_loaded_without_what_its_libraries_no_longer_have(monkeypatch):
    for name in ("pkg_resources", "setuptools", f"{ndimage.__name__}.interpolation"):
        monkeypatch.setitem(sys.modules, name, None)
    loaded = library.functions.__wrapped__()
    assert loaded.frost
    assert sys.modules["pkg_resources"] is None


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_changes_an_image_reproducibly(kind, channels):
    if kind == "saturate" and channels == 1:
        pytest.skip("grey has no colour")
    image = photo(channels=channels)
    before = image.copy()
    changed_image = corrupted(image, kind=kind)
    assert changed_image.shape == image.shape
    assert changed_image.dtype == np.uint8
    assert np.array_equal(image, before)
    result = np.abs(changed_image.astype(int) - image).mean()
    assert result > 0.5
    assert np.array_equal(changed_image, corrupted(image, kind=kind))


DRAWING = [kind for kind in KINDS if kind.endswith("noise")] + [
    "motion-blur",
    "glass-blur",
    "snow",
    "frost",
    "fog",
]


@pytest.mark.parametrize("kind", [*DRAWING, "spatter", "elastic-transform"])
def test_another_id_or_seed_draws_other_numbers(kind):
    image = photo()
    changed_image = corrupted(image, kind=kind)
    assert not np.array_equal(changed_image, corrupted(image, "two", kind=kind))
    assert not np.array_equal(changed_image, corrupted(image, kind=kind, seed=1))


def test_gaussian_noise_has_the_published_strength():
    image = np.full((200, 200, 1), GREY_LEVEL, np.uint8)
    for severity, sigma in enumerate([0.08, 0.12, 0.18], 1):  # above 0.18 clipping makes it smaller
        change = corrupted(image, severity=severity).astype(float) - GREY_LEVEL
        expected = pytest.approx(255 * sigma, rel=0.02)
        assert change.std() == expected
        assert change.mean() == pytest.approx(-0.5, abs=1)


def test_gaussian_noise_is_the_packages_own_draw_cut_off_to_whole_numbers():
    image = photo(channels=1)
    noise = np.random.RandomState(
        divmod(derive("corrupt", 0, "one", "gaussian-noise", 3), 2**32)
    ).normal(size=(40, 40))
    expected = np.clip(image[..., 0] / 255 + 0.18 * noise, 0, 1) * 255
    result = corrupted(image)[..., 0]
    assert np.array_equal(result, np.floor(expected))


def test_a_grey_image_gets_one_draw_and_a_colour_image_three():
    grey = np.full((32, 32, 1), GREY_LEVEL, np.uint8)
    colour = np.full((32, 32, 3), GREY_LEVEL, np.uint8)
    assert corrupted(grey).shape == (32, 32, 1)
    noisy = corrupted(colour)
    assert not np.array_equal(noisy[..., 0], noisy[..., 1])


@pytest.mark.parametrize("kind", ["gaussian-noise", "motion-blur"])
def test_a_volumes_slices_are_corrupted_as_grey_images_with_a_draw_each(kind):
    volume = np.repeat(photo(channels=1), 5, 2)
    out = corrupted(volume, kind=kind)
    assert out.shape == volume.shape
    assert not np.array_equal(out[..., 0], out[..., 1])
    image = volume[..., [3]]
    expected = corrupted(image, "one/3", kind=kind)
    assert np.array_equal(out[..., [3]], expected)


def test_motion_blur_of_grey_equals_a_channel_of_the_same_image_in_colour():
    grey = photo(channels=1)
    image = np.repeat(grey, 3, axis=2)
    colour = corrupted(image, kind="motion-blur")
    expected = colour[..., :1]
    assert np.array_equal(corrupted(grey, kind="motion-blur"), expected)


def test_gaussian_blur_does_not_mix_channels():
    image = photo()
    image[..., 1] = 0
    assert not corrupted(image, kind="gaussian-blur")[..., 1].any()


def test_impulse_noise_is_black_and_white_dots_in_its_share_of_the_pixels():
    image = np.full((100, 100, 1), GREY_LEVEL, np.uint8)
    noisy = corrupted(image, kind="impulse-noise")
    result = set(np.unique(noisy))
    assert result == {0, GREY_LEVEL, 255}
    expected = pytest.approx(0.09, abs=0.015)
    assert np.mean(noisy != GREY_LEVEL) == expected


@pytest.mark.parametrize(
    "kind", ["gaussian-noise", "shot-noise", "impulse-noise", "gaussian-blur", "contrast"]
)
def test_a_higher_severity_changes_more(kind):
    image = photo()
    change = [
        np.abs(corrupted(image, kind=kind, severity=s).astype(int) - image).mean()
        for s in range(1, 6)
    ]
    assert change == sorted(change)
    assert change[0] < change[-1]


@pytest.mark.filterwarnings("error")
def test_spatter_without_a_drop_leaves_the_image_as_it_is():
    image = photo(32)
    spattered = [corrupted(image, f"{k}", kind="spatter", severity=1) for k in range(300)]
    assert 0 < sum(np.array_equal(picture, image) for picture in spattered) < 300
    result = min(picture.mean() for picture in spattered)
    assert result > image.mean() - 1


def test_numpys_global_stream_is_given_back_as_it_was():
    np.random.seed(1)
    expected = np.random.RandomState(1).random(3)
    corrupted(photo(), kind="snow")
    assert np.random.random(3).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", POINTWISE)
def test_pointwise_kinds_work_on_tiny_images(kind):
    result = corrupted(photo(8), kind=kind)
    assert not np.array_equal(result, photo(8))


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("gaussian", "gaussian-noise"),
        ("motion_blur", "motion-blur"),
        ("Shot-Noise", "shot-noise"),
        ("jpeg", "jpeg-compression"),
    ],
)
def test_a_kind_has_short_names(word, kind):
    assert full_kind(word) == kind


def test_an_unknown_kind_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="unknown corruption 'gausian'") as error:
        full_kind("gausian")
    assert error.value.hint == "did you mean 'gaussian'?"


# ---- the stage


def partition(folder, *, size=4, channels=1, scheme="iid", val=0.25, **options):
    """A partition of 60 training images; 20 more are the test set."""
    rows = [Row(f"i{k}", k % 3, k, test=k % 4 == 3) for k in range(80)]

    def build(target):
        images = (photo(size, channels, seed=k) for k in range(80))
        path = target / "pool.h5"
        write_pool(path, rows, images, [])
        return {
            "name": "toy",
            "title": "toy",
            "task": "multiclass",
            "classes": ["a", "b", "c"],
            "attributes": {},
            "size": [size, size],
            "channels": channels,
            "count": 80,
            "split": {},
            "unit": None,
            "skipped": [],
            "augment": "none",
            "clients": 5,
            "sites": None,
        }

    data = manifest.stage(
        "dataset", folder=folder / "data", made_by=[], options={}, parents=[], build=build
    )
    to = manifest.Destination(folder, made_by=["partition"])
    return make_partition(data, resolve(scheme, {"clients": 5, **options}), to, val=val)


def corruption(folder, kind="gaussian", partition_path=None, out=None, **options):
    who = Who(**{name: options.pop(name) for name in ("ratio", "on") if name in options})
    destination = manifest.Destination(folder, out, ["corrupt", kind])
    source = partition_path or partition(folder)
    path = make_corruption(source, kind, destination, who, **options)
    return path, manifest.verify(path, "corruption").body


def changed(path):
    with h5py.File(path.parent / "changed.h5") as file:
        return {name: file[name][()] for name in ("train/rows", "train/x", "test/rows", "test/x")}


def test_the_last_clients_and_the_whole_test_set_are_corrupted(tmp_path):
    path, body = corruption(tmp_path, ratio=0.4)
    assert body["clients"] == ["client-03", "client-04"]
    with h5py.File(manifest.parent(path, "partition").parent / "rows.h5") as file:
        expected = np.concatenate(
            [file[f"{part}/{k}"][()] for part in ("train", "val") for k in (3, 4)]
        )
    arrays = changed(path)
    assert arrays["train/rows"].tolist() == sorted(expected)
    assert len(expected) == 24
    expected = list(range(3, 80, 4))
    assert arrays["test/rows"].tolist() == expected
    pool = read_pool(manifest.parent(path, "dataset").parent / "pool.h5")
    for part in ("train", "test"):
        for row, image in zip(arrays[f"{part}/rows"], arrays[f"{part}/x"], strict=True):
            clean = pool.pixels(np.array([row]))[0]
            assert np.array_equal(image, corrupted(clean, f"i{row}"))
            assert not np.array_equal(image, clean)


def test_the_body_carries_what_training_needs(tmp_path):
    partition_path = partition(tmp_path, size=32)
    path, body = corruption(
        tmp_path, "motion-blur", partition_path=partition_path, severity=2, ratio=0.2
    )
    result = {
        name: body[name]
        for name in ("kind", "severity", "ratio", "dataset", "size", "channels", "augment")
    }
    expected = {
        "kind": "motion-blur",
        "severity": 2,
        "ratio": 0.2,
        "dataset": "toy",
        "size": [32, 32],
        "channels": 1,
        "augment": "none",
    }
    assert result == expected
    expected = manifest.read(manifest.parent(path, "partition")).body["roster"]
    assert body["roster"] == expected


@pytest.mark.parametrize(
    ("ratio", "number"),
    [(0, 0), (0.01, 1), (0.1, 1), (0.29, 1), (0.3, 2), (0.5, 3), (0.7, 4), (1, 5)],
)  # of 5 clients: half up, and at least one above zero
def test_a_ratio_is_rounded_half_up_to_clients(tmp_path, ratio, number):
    path, body = corruption(tmp_path, ratio=ratio)
    expected = [f"client-{k:02d}" for k in range(5 - number, 5)]
    assert body["clients"] == expected
    assert body["ratio"] == number / 5
    expected = (12 * number, 4, 4, 1)
    assert changed(path)["train/x"].shape == expected
    result = changed(path)["test/x"].shape
    assert result == (20, 4, 4, 1)


def test_named_clients_are_corrupted_instead_of_a_ratio(tmp_path):
    partition_path = partition(tmp_path)
    path, body = corruption(tmp_path, partition_path=partition_path, on=["client-03", "client-00"])
    assert body["clients"] == ["client-00", "client-03"]
    assert body["ratio"] == 0.4
    result = corruption(tmp_path, partition_path=partition_path, on=["client-03", "client-04"])[0]
    expected = corruption(tmp_path, partition_path=partition_path, ratio=0.4)[0]
    assert result == expected
    assert path != corruption(tmp_path, partition_path=partition_path, ratio=0.4)[0]


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="one process only"
)
@pytest.mark.parametrize("kind", ["gaussian", "impulse", "motion-blur"])
def test_the_number_of_processes_changes_no_byte(tmp_path, kind):
    partition_path = partition(tmp_path, size=32)
    paths = [
        corruption(
            tmp_path,
            kind,
            partition_path=partition_path,
            ratio=0.6,
            jobs=jobs,
            out=tmp_path / f"{jobs}",
        )[0]
        for jobs in (1, 2)
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    result = (tmp_path / "1" / "changed.h5").read_bytes()
    expected = (tmp_path / "2" / "changed.h5").read_bytes()
    assert result == expected


def test_an_image_is_corrupted_alike_whoever_is_chosen_with_it(tmp_path):
    partition_path = partition(tmp_path)
    few, all_ = (
        changed(corruption(tmp_path, partition_path=partition_path, ratio=ratio)[0])
        for ratio in (0.2, 1)
    )
    positions = np.searchsorted(all_["train/rows"], few["train/rows"])
    assert np.array_equal(few["train/x"], all_["train/x"][positions])


def test_the_fedism_scheme_says_who_is_corrupted(tmp_path):
    partition_path = partition(
        tmp_path, scheme="fedism", clients=5, corrupted=2, alpha=9.0, val=0.0
    )
    result = corruption(tmp_path, partition_path=partition_path, ratio=0.4)[1]["clients"]
    assert result == [
        "client-03",
        "client-04",
    ]
    for options in ({"ratio": 0.2}, {"ratio": 0}, {"on": ["client-00", "client-01"]}):
        with pytest.raises(FedcliError, match="last 2 clients corrupted") as error:
            corruption(tmp_path, partition_path=partition_path, **options)
        assert "--ratio 0.4" in error.value.hint


@pytest.mark.parametrize(
    ("kind", "options", "sentence", "hint"),
    [
        ("gaussain", {}, "unknown corruption 'gaussain'", "did you mean 'gaussian'?"),
        ("gaussian", {"severity": 0}, "severity is 0", "FedISM"),
        ("gaussian", {"severity": 6}, "severity is 6", "FedISM"),
        ("gaussian", {"on": ["client-05", "client-9"]}, "no client 'client-05'", "did you mean"),
        ("saturate", {}, "these images are grey", "contrast"),
        (
            "motion-blur",
            {},
            "motion-blur needs images of at least 32 px; these are 4x4",
            "gaussian-noise",
        ),
    ],
)
def test_what_cannot_be_corrupted_is_refused(tmp_path, kind, options, sentence, hint):
    with pytest.raises(FedcliError) as error:
        corruption(tmp_path, kind, **options)
    assert sentence in error.value.sentence
    assert hint in error.value.hint


def test_every_spatial_kind_is_refused_below_32_px(tmp_path):
    partition_path = partition(tmp_path, size=31)
    for kind in SPATIAL:
        with pytest.raises(FedcliError, match="at least 32 px"):
            corruption(tmp_path, kind, partition_path=partition_path)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    library.functions.cache_clear()
    monkeypatch.setitem(sys.modules, "imagecorruptions", None)
    with pytest.raises(FedcliError, match="needs the Python module imagecorruptions") as error:
        corruption(tmp_path)
    assert error.value.hint == "pip install imagecorruptions"


@pytest.mark.parametrize("how", ["absent", "beyond"])
def test_rows_that_no_pool_has_end_in_a_sentence(tmp_path, how):
    path = make_chain(tmp_path)
    with h5py.File(path.parent / "rows.h5", "a") as file:
        rows = file["train/0"][()]
        del file["train/0"]
        if how == "beyond":
            file["train/0"] = rows + 30000
    with pytest.raises(FedcliError, match="train/0"):
        holdings(path)
