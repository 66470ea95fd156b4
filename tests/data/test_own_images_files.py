"""Your own images: which files are read, and how."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from own_images_folder import OWN, folder, labels, listed, save
from PIL import Image
from raw_folders import completed, prepare, refused, write_slice
from tables_of_numbers import rows as number_rows
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.data.pool import Row, read_pool
from fedcli.data.sources.formats import photographs
from fedcli.data.sources.own_files import own_images
from fedcli.data.sources.source import Unreadable
from fedcli.errors import UsageError


def test_an_empty_folder_is_refused(tmp_path):
    with refused("holds no image"):
        listed(tmp_path)


def test_a_dicom_among_photographs_is_named_as_one(tmp_path):
    (tmp_path / "a.png").write_bytes(bytes(128) + b"DICM")
    with pytest.raises(
        Unreadable, match="a DICOM file, but images of this dataset are read as photographs"
    ):
        photographs.read_rgb(tmp_path / "a.png")


def test_images_are_grey_only_if_all_files_are(tmp_path):
    raw = folder(tmp_path / "raw", "image,label\na.jpg,x\nb.png,y\nc.tif,x\n", "a.jpg")
    colour = (200, 0, 0)
    save(raw / "b.png", colour, "RGB"), save(raw / "c.tif", 90)
    assert listed(raw).channels == 3
    assert listed(raw, channels="1").channels == 1
    path = prepare("images", raw=raw, work=tmp_path, size=8, jobs=1)
    pool = read_pool(path.parent / "pool.h5")
    result = pool.pixels()[1:, 4, 4].tolist()
    expected = number_rows("200 0 0; 90 90 90")
    assert result == expected
    grey = read_pool(
        prepare("images", raw=raw, work=tmp_path, size=8, jobs=1, own={"channels": "1"}).parent
        / "pool.h5"
    )
    result = grey.pixels()[1:, 4, 4].tolist()
    assert result == [[60], [90]]  # 0.299 x 200


def test_grey_beyond_eight_bits_goes_from_zero_to_white(tmp_path):
    raw = folder(tmp_path, "image,label\na.png,x\nb.tif,y\n")
    Image.fromarray(np.full((8, 8), 2048, np.uint16)).save(raw / "a.png")
    Image.fromarray(np.full((8, 8), 65535, np.uint16)).save(raw / "b.tif")
    choices = completed(8, "unit", window="file", own=OWN | {"white": "4096"})
    row, brightest_row = own_images.rows(raw, choices).rows
    result = own_images.decode(raw, row, choices).max()
    assert result == 128
    result = own_images.decode(raw, brightest_row, choices).max()
    assert result == 255


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("a.tif", np.arange(64, dtype=np.int32) * 2000, "above the 65535 of 16 bits"),
        ("a.tif", np.arange(64, dtype=np.float32) * 100 - 1000, "below 0, down to -1000"),
        ("a.tif", np.full(64, np.nan, np.float32), "not finite"),
        ("a.tif", np.full(64, 0.0025, np.float32), "0.0025 of 1: give --set white=N.* 0.0025"),
        ("a.tif", np.full(64, 0.05, np.float32), "its brightest value is 0.05 of 1"),
        ("a.png", np.arange(192, dtype=np.uint16) * 20, "its 16-bit colours stay below 4096"),
    ],
)
def test_values_that_would_be_lost_in_silence_make_a_file_unreadable(tmp_path, name, values, why):
    cv2.imwrite(str(tmp_path / name), values.reshape(8, 8, -1))
    with pytest.raises(Unreadable, match=why):
        own_images.decode(
            tmp_path, Row(name, 0, name), completed(8, "unit", window="file", own=OWN)
        )


def test_fractions_of_a_small_range_are_shown_by_what_is_white(tmp_path):
    cv2.imwrite(str(tmp_path / "a.tif"), np.linspace(0, 0.0025, 64, dtype=np.float32).reshape(8, 8))
    choices = completed(8, "unit", window="file", own=OWN | {"white": "0.0025"})
    image = own_images.decode(tmp_path, Row("a", 0, "a.tif"), choices)
    expected = np.rint(np.linspace(0, 255, 64)).tolist()
    assert image.ravel().tolist() == expected


@pytest.mark.parametrize("text", ["0", "-1", "65536", "nan", "inf", "bright", ""])
def test_what_is_white_is_a_number_above_zero(text):
    choices = completed(8, "unit", window="file", own=OWN | {"white": text})
    with pytest.raises(UsageError, match=f"white is '{text}'"):
        own_images.white(choices)


def test_a_picture_with_a_long_colour_profile_is_read(tmp_path):
    profile = bytes(3 * 2**20)
    Image.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(tmp_path / "a.png", icc_profile=profile)
    choices = completed(8, "unit", window="file", own=OWN)
    result = own_images.decode(tmp_path, Row("a", 0, "a.png"), choices).max()
    assert result == 90


def test_large_pictures_and_odd_ones_are_read_without_the_librarys_warnings(
    tmp_path, monkeypatch, recwarn
):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    save(tmp_path / "a.png")  # 72 pixels
    choices = completed(8, "unit", window="file", own=OWN)
    result = own_images.decode(tmp_path, Row("a", 0, "a.png"), choices).max()
    assert result == 90
    assert not recwarn.list


def test_dicom_files_are_read_by_their_kind(tmp_path):
    raw = folder(tmp_path, "image,label\nct.dcm,x\nxray,y\nultrasound.dcm,x\nbroken.dcm,y\n")
    ramp = np.arange(64, dtype=np.int16).reshape(8, 8)
    path = raw / "ct.dcm"
    write_slice(path, ramp, Modality="CT", WindowCenter=[40, 300], WindowWidth=[80, 1500])
    xray = dict(
        Modality="DX", WindowCenter=None, WindowWidth=None, PhotometricInterpretation="MONOCHROME1"
    )
    stored = (ramp * 65).astype(np.uint16)
    path = raw / "xray.dcm"
    write_slice(path, stored, BitsStored=12, **xray)
    colours = dict(
        SamplesPerPixel=3,
        PhotometricInterpretation="RGB",
        PlanarConfiguration=0,
        BitsAllocated=8,
        BitsStored=8,
    )
    stored = np.zeros((8, 8), np.uint16)
    path = raw / "ultrasound.dcm"
    write_slice(path, stored, **colours, PixelData=bytes(range(192)))
    (raw / "broken.dcm").write_text("no")
    assert listed(raw).channels == 3
    work = tmp_path / "work"
    path = prepare("images", raw=raw, work=work, size=8, jobs=1).parent / "pool.h5"
    pool = read_pool(path)
    pixels = dict(zip(pool.id, pool.pixels(), strict=True))
    assert set(pixels) == {"ct.dcm", "xray.dcm", "ultrasound.dcm"}
    expected = round(63 / 80 * 255)
    result = pixels["ct.dcm"][7, 7, 0]
    assert result == expected
    result = pixels["xray.dcm"][0, 0, 0]
    assert result == 255
    result = pixels["xray.dcm"][7, 7, 0]
    assert result == 0
    result = pixels["ultrasound.dcm"][7, 7].tolist()
    assert result == [189, 190, 191]


def test_the_hospitals_are_the_default_partition(tmp_path):
    raw = tmp_path / "raw"
    rows = [
        (f"{i:02d}.png", "xy"[i % 2], ("north", "south")[i // 10 % 2], f"p{i // 2}")
        for i in range(40)
    ]
    text = "image,label,hospital,patient\n" + "".join(",".join(row) + "\n" for row in rows)
    folder(raw, text, *(row[0] for row in rows))
    options = {"site": "hospital", "patient": "patient"}
    body = manifest.read(
        path := prepare("images", raw=raw, work=tmp_path, size=8, jobs=1, own=options)
    ).body
    assert body["sites"] == "hospital"
    assert body["unit"] == "patient"
    assert body["classes"] == ["x", "y"]
    assert body["channels"] == 1
    expected = {"train": 32, "test": 8, "by": "unit"}
    assert body["split"] == expected
    pool = read_pool(path.parent / "pool.h5")
    assert not set(pool.patient[pool.split == 0]) & set(pool.patient[pool.split == 1])
    recorded = json.loads(path.read_text())
    assert recorded["options"]["own"]["site"] == "hospital"
    assert "patient=patient" in recorded["made_by"]
    assert str(tmp_path) not in path.read_text()


def test_the_command_names_columns_by_flags_which_other_datasets_refuse(tmp_path):
    lines = [f"{i}.png,{'xy'[i % 2]},{'fm'[i % 2]},{30 + i},{'ns'[i // 5]},p{i}" for i in range(10)]
    raw = tmp_path / "raw"
    folder(
        raw, "file,dx,sex,age,hospital,who\n" + "\n".join(lines), *(f"{i}.png" for i in range(10))
    )
    folder(raw, "image\n", table="other.csv")
    flags = "--table labels.csv --image-column file --label-column dx --group sex --group age --site hospital --patient who"
    words = ["--size", "8", "--jobs", "1", "--work", str(tmp_path / "work"), "--raw", str(raw)]
    done = CliRunner().invoke(app, ["prepare", "images", *flags.split(), *words])
    assert done.exit_code == 0, done.stderr
    body = json.loads(Path(done.stdout.strip()).read_text())["body"]
    assert list(body["attributes"]) == ["age", "hospital", "sex"]
    assert body["sites"] == "hospital"
    again = CliRunner().invoke(
        app, ["prepare", "images", *flags.split(), "--set", "site=hospital", *words]
    )
    assert again.exit_code == 2
    assert "--site and --set site exclude each other" in again.stderr
    other = CliRunner().invoke(app, ["prepare", "isic2018", "--image-column", "file", *words])
    assert other.exit_code == 2
    assert "isic2018 has no option 'image-column'" in other.stderr


def test_the_patients_of_dicom_files_stay_on_one_side_and_their_ids_unwritten(tmp_path, capsys):
    lines = "".join(f"{k:02d}.dcm,{'xy'[k % 2]}\n" for k in range(24))
    text = "image,label\n" + lines
    raw = folder(tmp_path, text)
    for k in range(24):
        stored = np.full((4, 4), k, np.int16)
        write_slice(raw / f"{k:02d}.dcm", stored, PatientID=f"NAME-{k // 4}")
    work = tmp_path / "out"
    path = prepare("images", raw=raw, work=work, size=8)
    pool = read_pool(path.parent / "pool.h5")
    body = manifest.read(path).body
    assert body["unit"] == "PatientID"
    assert len(set(pool.patient)) == 6
    assert not set(pool.patient[pool.split == 0]) & set(pool.patient[pool.split == 1])
    assert (pool.split == 1).any()
    for file in path.parent.iterdir():
        assert b"NAME-" not in file.read_bytes()
    assert "no patients are known" not in capsys.readouterr().err


def test_dicom_files_of_one_patient_cannot_be_split(tmp_path, capsys):
    raw = folder(tmp_path, "image,label\na.dcm,x\nb.dcm,y\nc.dcm,y\n")
    for name in "abc":
        stored = np.zeros((4, 4), np.int16)
        path = raw / f"{name}.dcm"
        write_slice(path, stored, PatientID="P1")
    with refused("all 3 images .* show one patient", "--split image"):
        listed(raw)
    assert listed(raw, "image").patient == "PatientID"
    assert "nothing about other patients" in capsys.readouterr().err


def test_dicom_needs_no_suffix_and_its_index_is_no_image(tmp_path):
    ramp = np.arange(64, dtype=np.int16).reshape(8, 8)
    raw = tmp_path / "table"
    raw.mkdir()
    for name in ("IM000001", "1.2.840.7", "1.2.840.8", "DICOMDIR"):
        path = raw / name
        write_slice(path, ramp, Modality="CT")
    (raw / "README").write_text("words")
    folder(raw, "image,label\nIM000001,x\n1.2.840.7,y\n1.2.840.8,x\nDICOMDIR,y\nREADME,x\n")
    result = listed(raw)
    expected = {"1.2.840.7": "y", "1.2.840.8": "x", "IM000001": "x"}
    assert labels(result) == expected
    assert result.channels == 1
    expected = [
        ("DICOMDIR", "holds no image"),
        ("README", "listed in labels.csv, is no DICOM file and has no suffix of an image"),
    ]
    assert result.skipped == expected
    choices = completed(8, "unit", window="brain", own=OWN)
    expected = round(63 / 80 * 255)
    assert own_images.decode(raw, result.rows[-1], choices)[7, 7, 0] == expected
    disc = tmp_path / "disc"
    for name in ("x/IM1", "y/IM2", "DICOMDIR"):
        (disc / name).parent.mkdir(parents=True, exist_ok=True)
        write_slice(disc / name, ramp)
    result = listed(disc)
    assert labels(result) == {"x/IM1": "x", "y/IM2": "y"}
    assert result.skipped == [("DICOMDIR", "holds no image")]


def test_a_bare_file_behind_a_link_out_of_the_folder_is_not_opened(tmp_path):
    stored = np.zeros((8, 8), np.int16)
    write_slice(tmp_path / "IM1", stored)
    raw = folder(tmp_path / "raw", "image,label\na.jpg,x\nb.jpg,y\n", "a.jpg", "b.jpg")
    (raw / "IM1").symlink_to(tmp_path / "IM1")
    result = set(labels(listed(raw)))
    assert result == {"a.jpg", "b.jpg"}


def test_a_listed_file_of_a_kind_that_is_not_read_says_so(tmp_path):
    raw = folder(tmp_path, "image,label\na.jpg,x\nb.jpg,y\nc.webp,x\nd,y\ne,x\n", "a.jpg", "b.jpg")
    (raw / "c.webp").write_text("w"), (raw / "d.gif").write_text("g")
    expected = [
        ("c.webp", "listed in labels.csv, but .webp files are not read"),
        ("d", "listed in labels.csv, but .gif files are not read"),
        ("e", "listed in labels.csv, not in the folder"),
    ]
    assert listed(raw).skipped == expected
    folder(
        raw,
        "image,label\n1.jpg,x\n2.jpg,y\ndeep/3.gif,x\n",
        "set/1.jpg",
        "set/2.jpg",
        table="set/own.csv",
    )
    (raw / "set" / "deep").mkdir(), (raw / "set" / "deep" / "3.gif").write_text("g")
    result = listed(raw, table="set/own.csv").skipped
    assert result == [("deep/3.gif", "listed in set/own.csv, but .gif files are not read")]


def test_a_photograph_that_is_cut_short_is_skipped_in_plain_words(tmp_path):
    lines = ["image,label", "a.jpg,x", *(f"{k}.jpg,{'xy'[k % 2]}" for k in range(6))]
    raw = folder(tmp_path, "\n".join(lines), *(f"{k}.jpg" for k in range(6)))
    Image.effect_noise((64, 64), 50).save(raw / "a.jpg")
    (raw / "a.jpg").write_bytes((raw / "a.jpg").read_bytes()[:-200])
    work = tmp_path / "work"
    path = prepare("images", raw=raw, work=work, size=8, jobs=1)
    (skipped,) = manifest.read(path).body["skipped"]
    assert skipped["file"] == "a.jpg"
    assert skipped["why"].startswith("image file is truncated")
