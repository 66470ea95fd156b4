"""MedMNIST: whichever .npz lies in the folder."""

import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from raw_folders import completed, prepare, refused

import fedcli
from fedcli.data import manifest
from fedcli.data.pool import read_pool
from fedcli.data.prepare_options import PrepareOptions
from fedcli.data.sources import medmnist
from fedcli.data.sources.source import Unreadable
from fedcli.errors import UsageError

DATASET = "medmnist"


def choose(split: str = "official", **own) -> PrepareOptions:
    return completed(28, split, own={"file": "", "val": "train", "slices": ""} | own)


def arrays(classes: int = 4, channels: int = 1, side: int = 28) -> dict[str, np.ndarray]:
    """Two images per class and part; the image of label n in part p is filled with 10 n + p."""
    by_name = {}
    for p, part in enumerate(("train", "val", "test")):
        labels = np.arange(2 * classes, dtype=np.uint8) % classes
        shape = (len(labels), side, side, channels) if channels > 1 else (len(labels), side, side)
        fill = (10 * labels + p).reshape(-1, *[1] * (len(shape) - 1))
        by_name |= {
            f"{part}_images": np.broadcast_to(fill, shape).astype(np.uint8),
            f"{part}_labels": labels[:, None],
        }
    return by_name


def write(folder: Path, name: str = "octmnist.npz", save=np.savez_compressed, **changes) -> Path:
    save(
        folder / name,
        **{key: value for key, value in (arrays() | changes).items() if value is not None},
    )
    return folder


def test_the_sample_has_pathmnists_classes_and_colours(sample):
    listing = medmnist.rows(sample, choose())
    assert listing.channels == 3
    assert listing.classes[-1] == "colorectal adenocarcinoma epithelium"
    result = Counter(row.test for row in listing.rows)
    expected = {False: 9 * 6, True: 9 * 2}
    assert result == expected
    assert listing.tables == ["pathmnist.npz"]
    assert listing.patient is None
    assert listing.attributes == {}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 28), (3, 64)])
def test_every_image_is_found_in_whatever_order(tmp_path, save, channels, side):
    write(tmp_path, save=save, **arrays(channels=channels, side=side))
    listing = medmnist.rows(tmp_path, choose())
    for row in listing.rows[::-1]:
        image = medmnist.decode(tmp_path, row, choose())
        part = ["train", "val", "test"].index(row.id.split("-")[0])
        assert image.shape == (side, side, channels)
        expected = {10 * row.label + part}
        assert set(image.ravel()) == expected


def test_the_images_of_validation_train_or_are_dropped(tmp_path):
    write(tmp_path)
    train = medmnist.rows(tmp_path, choose())
    drop = medmnist.rows(tmp_path, choose(val="drop"))
    result = Counter(row.id.split("-")[0] for row in train.rows)
    assert result == {"train": 8, "val": 8, "test": 8}
    result = Counter(row.id.split("-")[0] for row in drop.rows)
    assert result == {"train": 8, "test": 8}
    result = {row.id.split("-")[0] for row in train.rows if row.test}
    assert result == {"test"}


def test_other_splits_mix_the_parts(tmp_path):
    write(tmp_path)
    mixed = medmnist.rows(tmp_path, choose("image")).rows
    result = sum(row.test for row in mixed)
    assert result == 8
    result = {row.id.split("-")[0] for row in mixed if row.test}
    assert result != {"test"}
    folds = [
        medmnist.rows(tmp_path, completed(28, "folds", own=choose().own, fold=k)).rows
        for k in range(1, 6)
    ]
    result = sum(row.test for rows in folds for row in rows)
    assert result == 24


def test_the_pool_holds_the_files_pixels_and_the_manifest_its_classes(tmp_path):
    write(tmp_path)
    work = tmp_path / "work"
    path = prepare("medmnist", raw=tmp_path, work=work, jobs=2)
    body = manifest.read(path).body
    pool = read_pool(path.parent / "pool.h5")
    assert body["channels"] == 1
    assert body["classes"] == medmnist.CLASSES["octmnist"]
    expected = {"train": 16, "test": 8, "by": "official"}
    assert body["split"] == expected
    assert pool.shape == (24, 28, 28, 1)
    assert (pool.pixels()[:, 0, 0, 0] == 10 * pool.y + np.repeat([0, 1, 2], 8)).all()


def test_a_file_written_anew_is_read_anew(tmp_path):
    write(tmp_path)
    row = medmnist.rows(tmp_path, choose()).rows[0]
    result = medmnist.decode(tmp_path, row, choose())[0, 0, 0]
    assert result == 0
    train_images = arrays()["train_images"] + 7
    write(tmp_path, save=np.savez, train_images=train_images)
    result = medmnist.decode(tmp_path, row, choose())[0, 0, 0]
    assert result == 7


@pytest.mark.parametrize(
    ("name", "class_0", "count"),
    [
        ("organamnist_224.npz", "bladder", 11),
        ("bloodmnist.npz", "basophil", 8),
        ("mine.npz", "class-0", 4),
    ],
)
def test_classes_are_named_after_the_file(tmp_path, name, class_0, count):
    write(tmp_path, name)
    classes = medmnist.rows(tmp_path, choose()).classes
    assert classes[0] == class_0
    assert len(classes) == count == len(set(classes))


@pytest.mark.parametrize(
    ("flag", "count"),
    [
        *(
            ("pathmnist", 9),
            ("dermamnist", 7),
            ("octmnist", 4),
            ("pneumoniamnist", 2),
            ("retinamnist", 5),
        ),
        *(("breastmnist", 2), ("bloodmnist", 8), ("tissuemnist", 8)),
        *(("organamnist", 11), ("organcmnist", 11), ("organsmnist", 11)),
    ],
)
def test_every_known_set_has_as_many_names_as_classes(flag, count):
    result = len(set(medmnist.CLASSES[flag]))
    assert result == count
    expected = {*medmnist.CLASSES[flag]}
    assert set(medmnist.CLASSES[flag]) == expected


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        (
            "pathmnist",
            "adipose, background, debris, lymphocytes, mucus, smooth muscle, normal colon mucosa, "
            "cancer-associated stroma, colorectal adenocarcinoma epithelium",
        ),
        (
            "dermamnist",
            "actinic keratoses and intraepithelial carcinoma, basal cell carcinoma, benign keratosis-like lesions, "
            "dermatofibroma, melanoma, melanocytic nevi, vascular lesions",
        ),
        (
            "bloodmnist",
            "basophil, eosinophil, erythroblast, immature granulocytes, lymphocyte, monocyte, neutrophil, platelet",
        ),
        ("octmnist", "choroidal neovascularization, diabetic macular edema, drusen, normal"),
        ("pneumoniamnist", "normal, pneumonia"),
        ("breastmnist", "malignant, normal or benign"),
        (
            "organsmnist",
            "bladder, femur-left, femur-right, heart, kidney-left, kidney-right, liver, lung-left, lung-right, "
            "pancreas, spleen",
        ),
    ],
)
def test_classes_stand_in_the_order_of_medmnists_labels(flag, names):
    assert ", ".join(medmnist.CLASSES[flag]) == names


def test_what_macos_puts_beside_an_archive_is_no_archive(tmp_path):
    write(tmp_path)
    (tmp_path / "._octmnist.npz").write_text("of macOS")
    result = medmnist.rows(tmp_path, choose()).tables
    assert result == ["octmnist.npz"]


def test_of_several_files_one_must_be_named(tmp_path):
    with refused("has no .npz file"):
        medmnist.rows(tmp_path, choose())
    write(write(tmp_path, "a.npz"), "b.npz")
    with pytest.raises(UsageError, match=r"has 2 .npz files: a.npz, b.npz") as error:
        medmnist.rows(tmp_path, choose())
    assert error.value.hint == "choose one: --set file=a.npz"
    result = medmnist.rows(tmp_path, choose(file="b.npz")).tables
    assert result == ["b.npz"]
    with refused("no such file"):
        medmnist.rows(tmp_path, choose(file="c.npz"))
    (tmp_path / "inner").mkdir()
    with refused("leads out of"):
        medmnist.rows(tmp_path / "inner", choose(file="../a.npz"))


EIGHT = np.zeros((8, 28, 28), np.uint8)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"train_labels": np.zeros((8, 14), np.uint8)},
            "another number of labels per image in some",
        ),
        (
            {"train_images": np.zeros((8, 28, 28, 28), np.uint8)},
            "images of different shapes in its parts",
        ),
        (
            {"train_images": np.zeros((8, 9, 9, 9, 3), np.uint8)},
            r"uint8 \[8, 9, 9, 9, 3\], expected",
        ),
        ({"train_images": EIGHT.astype(float)}, "train_images is float64"),
        ({"train_images": EIGHT[:5]}, "has 5 train images and 8 labels"),
        ({"test_images": np.zeros((8, 64, 64), np.uint8)}, "different shapes"),
        ({"test_images": None}, "has no array test_images"),
        ({"val_labels": np.array([None] * 8)}, "holds Python objects"),
        ({"val_labels": np.full((8, 1), 0.5)}, "not classes from 0"),
        ({"val_labels": np.full((8, 1), -1)}, "not classes from 0"),
        (
            {"val_labels": np.full((8, 1), 32768)},
            "val_labels has the label 32768, the highest possible is 32767",
        ),
        ({"val_labels": np.full((8, 1), 2**63, np.uint64)}, "has the label 9223372036854775808"),
        ({"val_labels": np.full((8, 1), 4)}, "has the label 4, but only 4 classes"),
        (
            {"train_images": np.asfortranarray(EIGHT + np.arange(28, dtype=np.uint8))},
            "stored column by column",
        ),
    ],
)
def test_what_is_no_set_of_images_with_one_label_is_refused_in_one_sentence(
    tmp_path, changes, sentence
):
    write(tmp_path, **changes)
    with refused(sentence):
        medmnist.rows(tmp_path, choose())


@pytest.mark.parametrize(
    ("name", "kind", "shape"),
    [("train_labels", "|u1", (2**28 + 1, 1)), ("train_images", "|u1", (8, 2**15, 2**15))],
)
def test_an_array_that_claims_much_is_not_unpacked(tmp_path, monkeypatch, name, kind, shape):
    write(tmp_path)
    opened = medmnist._open

    def claims(path, array):
        pixels, dtype = opened(path, array)
        return (replace(pixels, shape=shape), np.dtype(kind)) if array == name else (pixels, dtype)

    monkeypatch.setattr(medmnist, "_open", claims)
    with refused(f"{name} claims"):
        medmnist.rows(tmp_path, choose())


def test_a_long_header_is_not_read(tmp_path):
    path = write(tmp_path) / "octmnist.npz"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["train_labels.npy"] = b"\x93NUMPY\x02\x00\xff\xff\xff\xff"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with refused(r"train_labels cannot be read: its header claims 4,294,967,295 bytes"):
        medmnist.rows(tmp_path, choose())


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_headers_of_later_versions_are_read(tmp_path, version):
    path = write(tmp_path) / "octmnist.npz"
    expected = [row.label for row in medmnist.rows(tmp_path, choose()).rows]
    with np.load(path) as archive:
        arrays = dict(archive)
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, version=version)
    result = [row.label for row in medmnist.rows(tmp_path, choose()).rows]
    assert result == expected


def test_a_damaged_archive_says_so(tmp_path):
    path = write(tmp_path) / "octmnist.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with refused("octmnist.npz is not a readable .npz file"):
        medmnist.rows(tmp_path, choose())
    start = whole.index(b"test_images.npy") + 40
    path.write_bytes(whole[:start] + bytes(60) + whole[start + 60 :])
    with refused("test_images cannot be read"):
        medmnist.rows(tmp_path, choose())


def test_an_image_behind_a_damaged_place_is_unreadable_and_those_before_are_read(tmp_path):
    noise = np.random.default_rng(0).integers(0, 16, (100, 28, 28), np.uint8)
    train_labels = np.zeros(100, np.uint8)
    path = write(tmp_path, train_images=noise, train_labels=train_labels) / "octmnist.npz"
    whole = path.read_bytes()
    middle = whole.index(b"train_images.npy") + 20_000
    path.write_bytes(whole[:middle] + b"\xff" * 9_000 + whole[middle + 9_000 :])
    rows = medmnist.rows(tmp_path, choose()).rows
    assert (medmnist.decode(tmp_path, rows[9], choose())[..., 0] == noise[9]).all()
    with pytest.raises(Unreadable, match="Error"):
        medmnist.decode(tmp_path, rows[99], choose())


def volumes(depth=7, side=6):
    """Slice d of the volume of label n is filled with 10 n + d."""
    numbers = {}
    for part in ("train", "val", "test"):
        labels = np.arange(6, dtype=np.uint8) % 2
        fill = 10 * labels[:, None] + np.arange(depth, dtype=np.uint8)  # [N, D]
        images = np.broadcast_to(fill[..., None, None], (6, depth, side, side))
        numbers |= {f"{part}_images": images, f"{part}_labels": labels[:, None]}
    return numbers


@pytest.mark.parametrize(
    ("slices", "indices"), [("", range(7)), ("1", [3]), ("2", [1, 5]), ("7", range(7))]
)
def test_the_slices_of_a_volume_are_channels(tmp_path, slices, indices):
    write(tmp_path, "nodulemnist3d.npz", **volumes())
    listing = medmnist.rows(tmp_path, choose(slices=slices))
    assert listing.channels == len(indices)
    assert listing.classes == ["benign", "malignant"]
    image = medmnist.decode(tmp_path, listing.rows[-1], choose(slices=slices))
    assert image.shape == (6, 6, len(indices))
    expected = [10 + d for d in indices]
    assert image[0, 0].tolist() == expected
    assert (image == image[0, 0]).all()


def test_volumes_are_prepared_and_train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "nodulemnist3d.npz", **volumes())
    dataset = fedcli.prepare("medmnist", raw=tmp_path, size=8, jobs=1, set={"slices": 5})
    run = fedcli.train(
        "fedavg", fedcli.partition(dataset, iid=True, clients=2), rounds=1, batch_size=4
    )
    result = manifest.read(run.path).body["model"]["channels"]
    assert result == 5


@pytest.mark.parametrize(
    ("images", "slices", "sentence"),
    [
        ("volumes", "8", "the volumes of .* have 7"),
        ("volumes", "x", "slices is 'x'"),
        ("octmnist", "2", "without slices"),
    ],
)
def test_slices_that_are_not_there_are_refused(tmp_path, images, slices, sentence):
    write(tmp_path, **(volumes() if images == "volumes" else {}))
    with refused(sentence, of=UsageError):
        medmnist.rows(tmp_path, choose(slices=slices))
