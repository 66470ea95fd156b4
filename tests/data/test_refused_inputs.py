"""Files that nobody can train on end in a sentence that names the file, before anything is written."""

import gzip
import itertools
import struct
import zlib

import numpy as np
import pytest
from conftest import make_chain
from PIL import Image
from pydicom import Dataset
from raw_folders import write_slice
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.data.sources import digits
from fedcli.data.sources.formats import dicom
from fedcli.data.sources.formats.photographs import read_grey_or_rgb
from fedcli.data.sources.source import Unreadable
from fedcli.errors import FedcliError

LONG = "x" * 400


def refused(tmp_path, lines, *flags, head="image,label"):
    """The error of preparing images 0.png, 1.png, ... of which a table has these lines."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for k in range(len(lines)):
        Image.new("L", (9, 8), 20 * k).save(raw / f"{k}.png")
    (raw / "labels.csv").write_text("\n".join([head, *lines]) + "\n")
    line = [
        "prepare",
        "images",
        "--raw",
        str(raw),
        "--size",
        "8",
        "--work",
        str(tmp_path / "work"),
        *flags,
    ]
    done = CliRunner().invoke(app, line)
    message = " ".join(done.stderr.split())
    assert done.exit_code in (1, 2)
    assert "unexpected" not in message
    assert not list(tmp_path.rglob("dataset.json"))
    assert len(message.replace(str(tmp_path), "")) < 400
    return message


def test_a_name_that_leads_out_names_its_table(tmp_path):
    message = refused(tmp_path, ["../0.png,a", "1.png,b"])
    assert "labels.csv: '../0.png' leads out of" in message


def test_images_that_are_all_for_testing_are_refused(tmp_path):
    assert "all 2 images of images are test images" in refused(tmp_path, ["0.png,a", "1.png,b"])


@pytest.mark.parametrize("column", ["label", "site", "patient", "group"])
def test_a_name_of_400_letters_is_refused(tmp_path, column):
    cells = dict.fromkeys(("label", "site", "patient", "group"), "short") | {column: LONG}
    lines = [
        f"{k}.png,{','.join([*cells.values()] if k else ['b', 'c', 'd', 'e'])}" for k in range(6)
    ]
    flags = [word for name in ("site", "patient", "group") for word in (f"--{name}", name)]
    message = refused(tmp_path, lines, *flags, head="image,label,site,patient,group")
    name = "class" if column == "label" else column
    assert f"{name} 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' has 400 characters, more than 100" in message


@pytest.mark.parametrize("flag", ["--work", "--out"])
def test_a_line_break_in_the_path_of_a_result_is_refused(tmp_path, flag):
    done = CliRunner().invoke(app, ["prepare", "toy", flag, str(tmp_path / "a\nb")])
    assert done.exit_code == 2
    assert "has a line break" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("field", ["VOILUTSequence", "ModalityLUTSequence"])
@pytest.mark.parametrize("lacks", ["LUTData", "LUTDescriptor"])
def test_a_lookup_table_without_entries_is_a_reason_of_its_own(tmp_path, field, lacks):
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [2, 0, 8])
    item.add_new("LUTData", "US", [0, 255])
    delattr(item, lacks)
    stored = np.zeros((8, 8), np.uint16)
    path = write_slice(tmp_path / "a.dcm", stored, Modality="DX", **{field: [item]})
    with pytest.raises(Unreadable, match=r"^has a lookup table without its entries$"):
        dicom.read_picture(path)


def test_a_packed_file_that_unpacks_to_more_than_its_data_set_has_is_not_read_to_its_end(
    tmp_path, monkeypatch
):
    from scipy.io import savemat

    monkeypatch.setattr(digits, "LARGEST", 2**20)
    zeros = bytes(2**20 + 1)
    (tmp_path / "images.gz").write_bytes(gzip.compress(zeros))
    (tmp_path / "usps.bz2").write_bytes(digits.bz2.compress(zeros))
    savemat(
        tmp_path / "x.mat",
        {"X": np.zeros((32, 32, 3, 400), np.uint8), "y": np.zeros((400, 1))},
        do_compression=True,
    )
    readers = {
        "images.gz": digits.read_idx,
        "usps.bz2": digits.read_usps,
        "x.mat": digits.read_svhn,
    }
    for name, read in readers.items():
        with pytest.raises(FedcliError, match=rf"{name} holds more than 1 MiB"):
            read(tmp_path / name)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
def test_a_picture_is_turned_as_its_exif_data_say(tmp_path, suffix):
    values = np.repeat(
        np.repeat(np.array([[0, 80], [160, 240]], np.uint8), 8, 0), 12, 1
    )  # [16, 24]
    turned = {1: values, 3: values[::-1, ::-1], 6: np.rot90(values, -1), 2: values[:, ::-1]}
    for orientation, expected in turned.items():
        data = Image.Exif()
        data[0x0112] = orientation
        path = tmp_path / f"{orientation}.{suffix}"
        Image.fromarray(values).save(
            path, exif=data, **({"quality": 100} if suffix == "jpg" else {})
        )
        pixels = read_grey_or_rgb(path, None)[..., 0]
        assert pixels.shape == expected.shape
        result = np.abs(pixels.astype(int) - expected).max()
        assert result < 4


def test_a_picture_whose_exif_data_are_damaged_is_read_as_it_lies(tmp_path):
    data = Image.Exif()
    data[0x0112] = 6
    Image.new("L", (12, 8), 100).save(tmp_path / "a.jpg", exif=data)
    whole = (tmp_path / "a.jpg").read_bytes()
    start = whole.index(b"Exif") + 6
    for position, value in itertools.product(range(start, start + 20), (0, 255)):
        damaged = bytearray(whole)
        damaged[position] = value
        (tmp_path / "b.jpg").write_bytes(damaged)
        file = tmp_path / "b.jpg"
        result = sorted(read_grey_or_rgb(file, None).shape)
        assert result == [1, 8, 12]


def test_postscript_is_not_run(tmp_path):
    """Pillow would have Ghostscript run it, whatever the file's suffix."""
    path = tmp_path / "a.png"
    Image.new("L", (9, 8)).save(path, format="EPS")
    with pytest.raises(Unreadable, match="PostScript, which is a program and no image"):
        read_grey_or_rgb(path, None)


def test_a_header_of_too_many_pixels_is_a_reason_without_a_librarys_words(tmp_path):
    path = tmp_path / "a.png"
    Image.new("L", (9, 8)).save(path)
    header = struct.pack(">4sII", b"IHDR", 65535, 65535) + path.read_bytes()[24:29]
    crc = struct.pack(">I", zlib.crc32(header))
    path.write_bytes(path.read_bytes()[:12] + header + crc + path.read_bytes()[33:])
    with pytest.raises(Unreadable, match=r"^its header says that it has more than 178,956,970 pix"):
        read_grey_or_rgb(path, None)


def test_classes_of_which_one_alone_can_be_read_are_refused(tmp_path):
    (tmp_path / "raw").mkdir()
    lines = []
    for k in range(8):
        lines.append(f"{k}.png,{'ab'[k % 2]}")
        path = tmp_path / "raw" / f"{k}.png"
        Image.new("L", (9, 8), 20 * k).save(path)
        if k % 2:
            path.write_bytes(b"")
    table = tmp_path / "raw" / "labels.csv"
    table.write_text("\n".join(["image,label", *lines]), encoding="utf-8")
    words = ["prepare", "images", "--raw", str(table.parent), "--work", str(tmp_path / "work")]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 1
    assert not list(tmp_path.rglob("dataset.json"))
    assert "all 4 images that can be read are of one class" in ended.stderr
    assert "the last one that cannot, 7.png" in ended.stderr


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("sep=,", "remove that line: the separator is detected without it"),
        ('"sep=;"', "remove that line: the separator is detected without it"),
        ("# exported, on Monday, by us", "remove the lines at its start that begin with #"),
        ("# by us", "remove the lines at its start that begin with #"),
    ],
)
def test_a_note_above_the_names_of_columns_is_explained(tmp_path, first, words):
    message = refused(tmp_path, ["image,label", "1.png,a", "2.png,b"], head=first)
    assert words in message


SECRET = "root:x:0:0:hunter2:/root:/bin/sh"
OTHER = {  # no tables: lines of one cell, and of different numbers of cells
    "one cell": f"{SECRET}\n{SECRET}\n",
    "other cells": f"{SECRET}\n{SECRET},{SECRET}\n{SECRET}\n",
}


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER)
@pytest.mark.parametrize(
    "words",
    [
        ["prepare", "toy", "--attributes", "FILE"],
        ["prepare", "toy", "--split-file", "FILE"],
        ["prepare", "images", "--raw", "."],
        ["partition", "DATA", "--clients-file", "FILE"],
        ["partition", "DATA", "--clients-file", "FILE", "--order-file", "FILE"],
        ["partition", "DATA", "--merge", "DATA", "--merge", "b=DATA", "--classes-table", "FILE"],
        ["inspect", "FILE"],
        ["run", "FILE"],
        ["train", "fedavg", "--augment", "FILE"],
        ["train", "fedavg", "--sites", "FILE"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("suffix", ["csv", "json", "toml", "txt"])
def test_no_line_of_a_file_that_is_no_table_is_shown(words, text, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = make_chain(tmp_path).parent
    (tmp_path / f"labels.{suffix}").write_text(text)
    Image.new("L", (9, 8)).save(tmp_path / "a.png")
    places = {"FILE": f"labels.{suffix}", "DATA": str(manifest.above(data, "dataset"))}
    line = [places.get(word, word.replace("DATA", places["DATA"])) for word in words]
    done = CliRunner().invoke(app, [*line, "--work", str(tmp_path)] if words[0] != "run" else line)
    assert done.exit_code in (1, 2), done.stderr
    assert "hunter2" not in done.stderr + done.stdout
