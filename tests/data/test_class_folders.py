"""Folders per class as they are published: masks next to images, parts of a split, copies, images without a class."""

import pytest
from own_images_folder import labels, listed, save
from raw_folders import prepare, refused

from fedcli.data.pool import Row
from fedcli.data.sources.own_files.class_folders import deeper, is_of_masks


def saved(raw, *names):
    for name in names:
        save(raw / name)
    return raw


def classes_by_image(raw, split="unit"):
    return labels(listed(raw, split))


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("{}/1 (1).png", "{}/1 (1)_mask.png"),
        ("{}/1 (1).png", "{}/1 (1)_mask_1.png"),
        ("{}/ISIC_1.jpg", "{}/ISIC_1_segmentation.png"),
        ("{}/ISIC_1.jpg", "{}/ISIC_1_superpixels.png"),
        ("{}/1.png", "{}/1-seg.tif"),
        ("{}/1.png", "{}/1_label.png"),
        ("{}/images/1.png", "{}/masks/1.png"),
        ("{}/images/1.png", "{}/infection masks/1.png"),
        ("{}/images/1.png", "{}/GroundTruth/1.png"),
        ("{}/1.png", "{}/labels/1.png"),
        ("{}/1.png", "masks/{}/1.png"),
        ("{}/1.png", "labels/{}/1.png"),
    ],
)
def test_masks_are_no_images_of_a_class(tmp_path, capsys, image, mask):
    saved(tmp_path, *(name.format(label) for name in (image, mask) for label in ("ill", "well")))
    result = listed(tmp_path)
    expected = {image.format("ill"): "ill", image.format("well"): "well"}
    assert labels(result) == expected
    expected = {mask.format("ill"), mask.format("well")}
    assert {file for file, _ in result.skipped} == expected
    assert "no images of a class are left out; if that is wrong" in capsys.readouterr().err


def test_masks_within_folders_of_parts_are_left_out(tmp_path):
    images = "train/x/1.png", "train/y/2.png", "test/x/3.png", "test/y/4.png"
    saved(tmp_path, *images, *(name.replace(".png", "_mask.png") for name in images))
    result = list(classes_by_image(tmp_path, "folder"))
    assert result == sorted(images)


@pytest.mark.parametrize(
    ("image", "other_image"),
    [
        ("label 0/1.png", "label 1/1.png"),
        ("with_mask/1_mask.png", "without_mask/1.png"),
        ("benign/lesion_mask.png", "malignant/2.png"),
        ("benign/1_left.png", "benign/1.png"),
        ("unmasked/1.png", "masked/1.png"),
    ],
)
def test_a_name_that_only_resembles_a_mask_is_an_image(tmp_path, image, other_image):
    saved(tmp_path, image, other_image, "z/9.png")
    assert set(classes_by_image(tmp_path)) == {image, other_image, "z/9.png"}


@pytest.mark.parametrize(
    "folder", ["masks", "Mask", "Lung Masks", "labelsTr", "Part1_GroundTruth", "manual_seg", "ROI"]
)
def test_folders_of_masks_have_many_names(folder):
    assert is_of_masks(folder)


@pytest.mark.parametrize("folder", ["benign", "no_mask", "label 1", "images", "test", "roses", ""])
def test_other_folders_are_not_of_masks(folder):
    assert not is_of_masks(folder)


def test_images_and_masks_above_the_classes_are_refused_with_the_folder_to_give(tmp_path):
    saved(tmp_path, "images/x/1.png", "images/y/2.png", "masks/x/1.png", "masks/y/2.png")
    with refused("of the class 'images'", f"go one folder down: --raw {tmp_path}/images"):
        listed(tmp_path)


def test_one_folder_around_everything_is_refused_with_the_folder_to_give(tmp_path):
    saved(tmp_path, "wrapped/x/1.png", "wrapped/y/2.png")
    with refused("of the class 'wrapped'", f"go one folder down: --raw {tmp_path}/wrapped"):
        listed(tmp_path)


def test_a_folder_train_alone_is_refused_with_the_folder_to_give(tmp_path):
    saved(tmp_path, "train/x/1.png", "train/y/2.png")
    with refused("of the class 'train'", f"go one folder down: --raw {tmp_path}/train"):
        listed(tmp_path)


def test_masks_alone_are_refused(tmp_path):
    saved(tmp_path, "masks/x/1.png", "masks/y/2.png")
    with refused("only masks or images without a class, such as masks/x/1.png"):
        listed(tmp_path)


def test_a_set_that_holds_itself_again_is_refused_with_the_folder_to_give(tmp_path):
    parts = "train/x/1.png", "train/y/2.png", "test/x/3.png", "test/y/4.png"
    copies = [f"chest_xray/{name}" for name in parts]
    saved(tmp_path, *parts, *copies, "__MACOSX/chest_xray/train/x/1.png")
    with refused("test is a part of a split, not a class", f"give --raw {tmp_path}/chest_xray"):
        listed(tmp_path)
    raw = tmp_path / "chest_xray"
    assert len(classes_by_image(raw, "folder")) == 4


def test_a_part_among_classes_is_refused(tmp_path):
    saved(tmp_path, "benign/1.png", "malignant/2.png", "test/3.png")
    with refused("has the folders test and also benign, malignant"):
        listed(tmp_path)


def test_a_part_below_a_part_is_refused(tmp_path):
    saved(tmp_path, "train/train/1.png", "train/y/2.png", "test/y/3.png")
    with refused("a folder train, which is no class"):
        listed(tmp_path)


def test_parts_in_one_class_alone_are_refused(tmp_path):
    saved(tmp_path, "x/1.png", "y/2.png", "set/train/x/1.png", "set/test/y/2.png")
    with refused("set has the folders test, train, so it is no class", "go one folder down"):
        listed(tmp_path)


def test_parts_in_every_class_are_mentioned(tmp_path, capsys):
    saved(tmp_path, "x/train/1.png", "x/test/2.png", "y/train/3.png", "y/test/4.png")
    result = set(classes_by_image(tmp_path).values())
    assert result == {"x", "y"}
    assert "the folders test, train in the classes are ignored" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["pred", "test/unlabeled"])
def test_images_without_a_class_are_left_out(tmp_path, capsys, folder):
    images = "train/x/1.png", "train/y/2.png", "test/x/3.png", "test/y/4.png"
    saved(tmp_path, *images, f"{folder}/5.png", f"{folder}/6.png")
    result = listed(tmp_path, "folder")
    assert list(labels(result)) == sorted(images)
    assert result.classes == ["x", "y"]
    assert "no images of a class are left out; if that is wrong" in capsys.readouterr().err


def test_a_folder_pred_next_to_classes_is_left_out(tmp_path):
    saved(tmp_path, "yes/1.png", "no/2.png", "pred/3.png")
    assert listed(tmp_path).classes == ["no", "yes"]


def test_a_class_that_one_part_lacks_is_warned_of(tmp_path, capsys):
    saved(
        tmp_path, "train/ade_left/1.png", "train/large/2.png", "test/ade/3.png", "test/large/4.png"
    )
    listed(tmp_path, "folder")
    err = " ".join(capsys.readouterr().err.split())
    assert "1 class without a folder for training: ade;" in err
    assert "1 class without a folder for test: ade_left;" in err


def test_a_class_that_the_folders_for_training_lack_is_not_called_too_small(tmp_path, capsys):
    raw = saved(tmp_path / "raw", "train/x/1.png", "train/y/2.png", "test/x/3.png", "test/z/4.png")
    prepare("images", work=tmp_path, raw=raw, split="folder", size=8)
    err = " ".join(capsys.readouterr().err.split())
    assert "no training image of z" in err
    assert "too few images to divide" not in err


def test_the_same_folders_in_every_class_are_warned_of(tmp_path, capsys):
    saved(tmp_path, "40X/benign/1.png", "40X/ill/2.png", "100X/benign/3.png", "100X/ill/4.png")
    assert listed(tmp_path).classes == ["40X", "100X"]
    assert "each class has the same folders benign, ill" in capsys.readouterr().err


def test_numbered_folders_of_patients_are_no_matter(tmp_path, capsys):
    saved(tmp_path, "x/1/a.png", "x/2/b.png", "y/1/c.png", "y/2/d.png")
    listed(tmp_path)
    assert "same folders" not in capsys.readouterr().err


def test_an_image_in_a_folder_of_a_part_is_in_no_class(tmp_path):
    saved(tmp_path, "train/x/1.png", "train/y/2.png", "test/x/3.png", "train/loose.png")
    with refused("train/loose.png is in no folder of a class"):
        listed(tmp_path)


def test_the_folder_to_give_is_named_where_it_holds_several(tmp_path):
    several = [Row("1", 0, "all/x/1.png"), Row("2", 0, "all/y/2.png")]
    assert deeper(tmp_path, several) == f"go one folder down: --raw {tmp_path}/all; else "
    rows = several[:1]
    assert deeper(tmp_path, rows) == ""
    rows = [*several, Row("3", 0, "more/z/3.png")]
    result = deeper(tmp_path, rows)
    assert result == ""


@pytest.mark.parametrize(("count", "end"), [(8, "c6, c7 are"), (9, "c6, c7 and 1 more are")])
def test_eight_classes_are_named_and_not_more(tmp_path, capsys, count, end):
    saved(tmp_path, *[f"c{k}/{k}.png" for k in range(count)], "c0/again.png")
    listed(tmp_path)
    printed = " ".join(capsys.readouterr().err.split())
    assert f"{end} the classes" in printed
