"""Digits: four domains in four formats, and FedHEAL's clients."""

import bz2
import gzip
import os
import shutil
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
from raw_folders import completed, prepare, refused
from scipy.io import savemat

from fedcli.data import manifest, sources
from fedcli.data.partition import make_partition, resolve
from fedcli.data.partition.sites import domain_clients
from fedcli.data.pool import read_pool
from fedcli.data.sources import digits
from fedcli.errors import FedcliError

DATASET = "digits"
OFFICIAL = completed(32, "official")


def idx(array: np.ndarray) -> bytes:
    """The idx format by its description: two zeros, 8 for bytes, the number of sides, the sides, the bytes."""
    return (
        bytes([0, 0, 8, array.ndim])
        + b"".join(side.to_bytes(4, "big") for side in array.shape)
        + array.tobytes()
    )


def only(raw: Path, *domains: str) -> Path:
    """Take the files of the other domains away."""
    files = {"mnist": ["MNIST"], "usps": ["usps.bz2", "usps.t.bz2"], "syn": ["syn"]}
    files["svhn"] = ["train_32x32.mat", "test_32x32.mat"]
    for name in (
        name for domain, names in files.items() if domain not in domains for name in names
    ):
        shutil.rmtree(raw / name) if (raw / name).is_dir() else (raw / name).unlink()
    return raw


def usps_in_hdf5(raw: Path) -> h5py.File:
    """An empty file in the place of the two text files."""
    (raw / "usps.bz2").unlink()
    (raw / "usps.t.bz2").unlink()
    return h5py.File(raw / "usps.h5", "w")


def test_the_card_names_the_domains_of_the_code():
    card = sources.card("digits")
    assert card["attributes"] == {"domain": digits.DOMAINS}
    assert card["sites"] == "domain"
    result = (card["size"], card["augment"], card["clients"])
    assert result == (32, "crop", 20)


def test_every_domain_has_its_train_and_test_part(sample):
    listing = digits.rows(sample, OFFICIAL)
    expected = {"domain": ["mnist", "usps", "svhn", "syn"]}
    assert listing.attributes == expected
    assert listing.patient is None
    counts = Counter((row.groups["domain"], row.test, row.label) for row in listing.rows)
    expected = {
        (d, t, n): 1 if t else 4 for d in range(4) for t in (False, True) for n in range(10)
    }
    assert counts == expected
    result = [row.id for row in listing.rows[:1] + listing.rows[-1:]]
    assert result == [
        "mnist/train/00000",
        "syn/test/9/9_00009.jpg",
    ]
    assert "MNIST/raw/train-labels-idx1-ubyte.gz" in listing.tables
    assert "syn/train" not in listing.tables


def test_decoded_images_have_their_own_size_and_channels(sample):
    listing = digits.rows(sample, OFFICIAL)
    shapes = {
        digits.DOMAINS[r.groups["domain"]]: digits.decode(sample, r, OFFICIAL).shape
        for r in listing.rows
    }
    expected = {
        "mnist": (28, 28, 1),
        "usps": (16, 16, 1),
        "svhn": (32, 32, 3),
        "syn": (24, 24, 3),
    }
    assert shapes == expected


def test_in_the_pool_all_are_32_pixels_wide_and_grey_is_three_equal_channels(sample, tmp_path):
    path = prepare("digits", raw=sample, work=tmp_path, jobs=2)
    body = manifest.read(path).body
    pool = read_pool(path.parent / "pool.h5")
    assert body["sites"] == "domain"
    expected = {
        "train": 160,
        "test": 40,
        "by": "official",
    }
    assert body["split"] == expected
    pixels = pool.pixels()
    grey = pool.groups["domain"] < 2
    assert pixels.shape == (200, 32, 32, 3)
    assert (pixels[grey][..., :1] == pixels[grey]).all()
    assert (pixels[~grey][..., :1] != pixels[~grey]).any()


def test_an_idx_file_is_read_as_its_makers_describe_it(tmp_path):
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "plain").write_bytes(idx(images))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(images)))
    path = tmp_path / "plain"
    assert (digits.read_idx(path) == images).all()
    path = tmp_path / "packed.gz"
    assert (digits.read_idx(path) == images).all()


def test_usps_maps_minus_one_to_black_and_one_to_white_and_counts_digits_from_1(tmp_path):
    values = np.linspace(-1, 1, 256)
    numbers = " ".join(f"{k}:{v:.6f}" for k, v in enumerate(values, 1))
    text = f"1 {numbers}\n10 {numbers}"
    (tmp_path / "usps.bz2").write_bytes(bz2.compress(text.encode()))
    path = tmp_path / "usps.bz2"
    images, labels = digits.read_usps(path)
    assert labels.tolist() == [0, 9]
    assert images.shape == (2, 16, 16, 1)
    result = images[1].ravel().tolist()
    assert result == list(range(256))


def test_usps_in_hdf5_is_the_same_as_in_text(raw):
    text = {row.id: row for row in digits.rows(raw, OFFICIAL).rows if row.groups["domain"] == 1}
    pixels = {id: digits.decode(raw, row, OFFICIAL) for id, row in text.items()}
    with usps_in_hdf5(raw) as file:
        for part in ("train", "test"):
            ids = [id for id in text if id.split("/")[1] == part]
            file[f"{part}/data"] = np.stack([pixels[id].ravel() / np.float32(255) for id in ids])
            file[f"{part}/target"] = [text[id].label for id in ids]
    rows = [row for row in digits.rows(raw, OFFICIAL).rows if row.groups["domain"] == 1]
    result = [(row.id, row.label) for row in rows]
    expected = [(id, row.label) for id, row in text.items()]
    assert result == expected
    for row in rows:
        assert (digits.decode(raw, row, OFFICIAL) == pixels[row.id]).all()


def test_svhn_writes_10_for_the_digit_0_and_puts_the_images_last(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 3), np.uint8)
    savemat(tmp_path / "train_32x32.mat", {"X": x, "y": np.array([[10], [1], [9]], np.uint8)})
    path = tmp_path / "train_32x32.mat"
    images, labels = digits.read_svhn(path)
    assert labels.tolist() == [0, 1, 9]
    assert (images[2] == x[..., 2]).all()


def test_two_domains_are_enough_and_the_absent_ones_are_named(raw, capsys):
    listing = digits.rows(only(raw, "usps", "syn"), OFFICIAL)
    assert listing.attributes == {"domain": ["usps", "syn"]}
    result = Counter(row.groups["domain"] for row in listing.rows)
    assert result == {0: 50, 1: 50}
    assert "no mnist and no svhn: the domains are usps, syn" in capsys.readouterr().err.replace(
        "\n", " "
    )


@pytest.mark.parametrize(("domains", "names"), [([], "none"), (["svhn"], "only svhn")])
def test_fewer_than_two_domains_are_an_error(raw, domains, names):
    with refused(f"has {names} of mnist, usps, svhn, syn", "it takes two"):
        digits.rows(only(raw, *domains), OFFICIAL)


def test_files_may_lie_where_others_unpack_them(raw):
    whole = digits.rows(raw, OFFICIAL)
    (raw / "MNIST" / "raw").rename(raw / "mnist")
    for file in list((raw / "mnist").iterdir()):
        (raw / "mnist" / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    (raw / "synthetic_digits").mkdir()
    (raw / "syn" / "train").rename(raw / "synthetic_digits" / "imgs_train")
    (raw / "syn" / "val").rename(raw / "synthetic_digits" / "imgs_valid")
    (raw / "svhn").mkdir()
    for file in raw.glob("*.mat"):
        file.rename(raw / "svhn" / file.name)
    moved = digits.rows(raw, OFFICIAL)
    result = [(r.id, r.label, r.test) for r in moved.rows]
    expected = [(r.id, r.label, r.test) for r in whole.rows]
    assert result == expected
    assert moved.rows[0].source == "mnist/train-images-idx3-ubyte#train-0"


def test_images_may_be_split_anew(sample):
    rows = digits.rows(sample, completed(32, "image")).rows
    result = sum(row.test for row in rows)
    assert result == 40
    result = {row.id.split("/")[1] for row in rows if row.test}
    assert result == {
        "train",
        "test",
    }


def test_half_a_domain_is_an_error(raw):
    (raw / "test_32x32.mat").unlink()
    with pytest.raises(FedcliError, match=r"has train_32x32.mat, but no test_32x32.mat") as error:
        digits.rows(raw, OFFICIAL)
    assert error.value.hint == "get the rest of svhn"


def test_images_without_their_labels_are_an_error(raw):
    (raw / "MNIST" / "raw" / "t10k-labels-idx1-ubyte.gz").unlink()
    with refused(r"has no t10k-labels-idx1-ubyte.gz"):
        digits.rows(raw, OFFICIAL)


MNIST = "MNIST/raw/train-images-idx3-ubyte.gz"
LABELS = "MNIST/raw/train-labels-idx1-ubyte.gz"


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        (MNIST, b"no gzip", "is not a readable gzip file"),
        (MNIST, gzip.compress(b"\0\0\x0d\3 floats"), "is no idx file of bytes"),
        (
            MNIST,
            gzip.compress(idx(np.zeros((40, 28, 28), np.uint8))[:-1]),
            "has 31359 bytes for 40 x 28 x 28",
        ),
        (MNIST, gzip.compress(idx(np.zeros((9, 28, 28), np.uint8))), "has 9 images and 40 labels"),
        (MNIST, gzip.compress(idx(np.zeros((40, 28, 28), np.uint8))[:9]), "ends within its header"),
        (MNIST, gzip.compress(b"\0\0\x08\3"), "ends within its header"),
        (
            MNIST,
            gzip.compress(idx(np.zeros((40, 28), np.uint8))),
            "has 2 sides, expected 3 of images or 1 of labels",
        ),
        (
            MNIST,
            gzip.compress(b"\0\0\x08" + bytes([200]) + bytes(800)),
            "has 200 sides, expected 3",
        ),
        (MNIST, gzip.compress(idx(np.zeros(40, np.uint8))), "holds an array of 40 x 1, no images"),
        (
            LABELS,
            gzip.compress(idx(np.zeros((40, 1, 1), np.uint8))),
            r"the labels are uint8 \[40, 1, 1\], not one",
        ),
        (
            MNIST,
            gzip.compress(idx(np.zeros((40, 0, 28), np.uint8))),
            "holds an array of 40 x 0 x 28 x 1, no images",
        ),
        (
            MNIST,
            gzip.compress(idx(np.zeros((0, 28, 28), np.uint8))),
            "holds an array of 0 x 28 x 28 x 1, no images",
        ),
        (LABELS, gzip.compress(idx(np.array(3, np.uint8))), "has 0 sides, expected 3"),
        (LABELS, gzip.compress(idx(np.zeros((40, 1), np.uint8))), "has 2 sides, expected 3"),
        (LABELS, gzip.compress(idx(np.full(40, 11, np.uint8))), "has the digit 11"),
        ("usps.bz2", b"no bzip2", "is not USPS in libsvm's format"),
        ("usps.bz2", bz2.compress(b"1 300:1\n"), "is not USPS in libsvm's format"),
        ("usps.bz2", bz2.compress(b"1 1:2\n"), "does not hold 256 pixels per image in the range"),
        ("usps.bz2", bz2.compress(b"12 1:1\n"), "has the digit 11"),
        ("usps.bz2", bz2.compress(b"1.5 1:1\n"), "has the digit 0.5"),
        ("usps.bz2", bz2.compress(b"nan 1:1\n"), "has the digit nan"),
        ("usps.bz2", bz2.compress(b""), "usps.bz2 (holds no images|is not USPS)"),
        ("usps.bz2", bz2.compress(b"1 99999999999999999999:1\n"), "is not USPS in libsvm's format"),
        ("train_32x32.mat", b"no matlab" * 50, "is not a readable Matlab file"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_a_damaged_file_is_named_with_what_is_wrong(raw, file, content, sentence):
    (raw / file).write_bytes(content)
    with pytest.raises(FedcliError, match=sentence) as error:
        digits.rows(raw, OFFICIAL)
    assert error.value.hint
    assert Path(file).name in error.value.sentence


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "no variable 'y'"),
        ({"X": np.zeros((2, 32, 32, 3)), "y": [1, 2]}, r"X is float64 \[2, 32, 32, 3\]"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1, 11]}, "has the digit 11"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1, -1]}, "has the digit -1"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1, 1.5]}, "has the digit 1.5"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1, np.nan]}, "has the digit nan"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": ["1", "2"]}, "y is <U1, expected numbers"),
        (
            {"X": np.zeros((0, 32, 3, 2), np.uint8), "y": [1, 2]},
            "holds an array of 2 x 0 x 32 x 3, no images",
        ),
    ],
)
def test_another_matlab_file_is_refused(raw, variables, sentence):
    savemat(raw / "train_32x32.mat", variables)
    with refused(sentence):
        digits.rows(raw, OFFICIAL)


def test_an_hdf5_file_without_usps_groups_is_refused(raw):
    with usps_in_hdf5(raw) as file:
        file["train/data"] = np.zeros((1, 256), np.float32)
    with refused("has no dataset 'train/target'"):
        digits.rows(raw, OFFICIAL)


@pytest.mark.parametrize(
    ("data", "target", "sentence"),
    [
        (np.zeros((0, 256)), np.zeros(0, int), "holds no images"),
        (h5py.Empty("f"), np.zeros(0, int), "expected numbers with 2 axes"),
        (np.zeros((1, 256), "S1"), [1], "expected numbers with 2 axes"),
        (np.zeros((1, 256)), [b"one"], r"train/target is .*, expected numbers with 1 axis"),
        (
            np.zeros((1, 256)),
            [[1]],
            r"train/target is int64 \[1, 1\], expected numbers with 1 axis",
        ),
        (np.zeros((1, 256)), [0.5], "has the digit 0.5"),
        (None, [1], "has no dataset 'train/data'"),
    ],
)
def test_an_hdf5_file_of_other_arrays_is_refused(raw, data, target, sentence):
    with usps_in_hdf5(raw) as file:
        file["train/target"] = target
        if data is None:
            file.create_group("train/data")
        else:
            file["train/data"] = data
    with pytest.raises(FedcliError, match=sentence) as error:
        digits.rows(raw, OFFICIAL)
    assert error.value.hint
    assert "usps.h5" in error.value.sentence


def test_what_macos_puts_beside_an_image_is_no_image(raw):
    whole = digits.rows(raw, OFFICIAL)
    (raw / "syn" / "train" / "3" / "._3_00000.jpg").write_text("of macOS")
    (raw / "syn" / "train" / ".AppleDouble").mkdir()
    (raw / "syn" / "train" / ".AppleDouble" / "3.jpg").write_text("of macOS")
    assert digits.rows(raw, OFFICIAL) == whole


def test_a_folder_that_is_no_digit_or_empty_is_refused(raw):
    (raw / "syn" / "train" / "3").rename(raw / "syn" / "train" / "three")
    with refused("three is no digit"):
        digits.rows(raw, OFFICIAL)
    shutil.rmtree(raw / "syn" / "train")
    (raw / "syn" / "train").mkdir()
    with refused("has no images"):
        digits.rows(raw, OFFICIAL)


def test_fedheals_clients_draw_600_72_732_and_100_images_of_the_whole_domains():
    sizes = [60000, 7291, 73257, 10000]
    domains = np.repeat(np.arange(4), sizes)
    parts = domain_clients(
        domains, np.arange(len(domains)) % 10, 20, 0.01, np.random.default_rng(0), 4
    )
    expected = [600] * 5 + [72] * 5 + [732] * 5 + [100] * 5
    assert [len(part) for part in parts] == expected
    result = [set(domains[part]) for part in parts[::5]]
    expected = [{0}, {1}, {2}, {3}]
    assert result == expected


def test_the_samples_domains_become_clients(sample, tmp_path):
    dataset = prepare("digits", raw=sample, work=tmp_path, size=8, jobs=1)
    scheme = resolve("domains", {"by": ["domain"], "clients": 8, "portion": 0.5})
    path = make_partition(dataset, scheme, manifest.Destination(tmp_path))
    roster = manifest.read(path).body["roster"]
    result = [c["client"] for c in roster[::2]]
    assert result == ["mnist-0", "usps-0", "svhn-0", "syn-0"]
    result = {(c["train"], c["test"]) for c in roster}
    assert result == {(20, 10)}


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_the_real_mnist_and_usps_are_two_domains_with_fedheals_clients():
    raw = Path(os.environ["FEDCLI_REAL_DATA"])
    listing = digits.rows(raw, OFFICIAL)
    assert listing.attributes == {"domain": ["mnist", "usps"]}
    table = np.array([(row.groups["domain"], row.test, row.label) for row in listing.rows])
    counts = {
        (d, t): np.bincount(table[(table[:, 0] == d) & (table[:, 1] == t), 2]).tolist()
        for d in (0, 1)
        for t in (0, 1)
    }
    expected = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert counts[0, 0] == expected
    expected = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert counts[0, 1] == expected
    expected = [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert counts[1, 0] == expected
    expected = [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    assert counts[1, 1] == expected
    train = table[table[:, 1] == 0]
    domains = train[:, 0]
    parts = domain_clients(domains, train[:, 2], 10, 0.01, np.random.default_rng(0), 2)
    expected = [600] * 5 + [72] * 5
    assert [len(part) for part in parts] == expected
    usps = next(row for row in listing.rows if row.groups["domain"] == 1)
    image = digits.decode(raw, usps, OFFICIAL)
    assert image.shape == (16, 16, 1)
    assert image.min() == 0
    assert image.max() == 255
