"""Contents of files, and the memory that workers of prepare keep from one image to the next."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raw_folders import completed

from fedcli.data import manifest, sources
from fedcli.data.pool import Row
from fedcli.data.preparation import prepare
from fedcli.data.preparation.request import command
from fedcli.data.prepare_options import PrepareOptions
from fedcli.data.sources.formats import photographs
from fedcli.data.sources.formats.photographs import fit_image, read_rgb, shrunk_decoding
from fedcli.data.sources.source import Listing, Unreadable


def test_the_memory_of_an_image_is_that_of_the_one_before(tmp_path):
    Image.new("RGB", (300, 200), (1, 2, 3)).save(tmp_path / "a.png")
    read_rgb(tmp_path / "a.png")
    before = Image.core.get_stats()["reused_blocks"]
    path = tmp_path / "a.png"
    assert (read_rgb(path) == (1, 2, 3)).all()
    assert Image.core.get_stats()["reused_blocks"] > before


def test_every_file_has_its_own_contents_however_many_a_thread_is_handed(tmp_path):
    for i in range(prepare.TURN + 2):
        (tmp_path / f"{i}.png").write_bytes(np.full(1000 + i, i, np.uint8).tobytes())
    rows = [Row(str(i), 0, f"{i}.png") for i in reversed(range(prepare.TURN + 2))]
    skipped = [("none.png", "absent")]
    listing = Listing(rows, skipped=skipped)
    contents = prepare.contents_of(tmp_path, listing)
    expected = sorted([*(row.source for row in rows), "none.png"])
    assert list(contents) == expected
    assert contents["none.png"] == prepare.ABSENT
    sizes = {
        name: int(content.split()[0]) for name, content in contents.items() if name != "none.png"
    }
    expected = {f"{i}.png": 1000 + i for i in range(prepare.TURN + 2)}
    assert sizes == expected
    result = len(set(contents.values()))
    assert result == len(contents)


def _without_simplejpeg(path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(photographs, "_simplejpeg", lambda: None)
        return read_rgb(path)


JPEGS = {
    "usual": {},
    "best": {"quality": 100},
    "worst": {"quality": 1},
    "progressive": {"progressive": True},
    "whole chroma": {"subsampling": 0},
    "half chroma": {"subsampling": 1},
    "restarts": {"restart_marker_blocks": 3},
    "rgb": {"keep_rgb": True},
}


@pytest.mark.parametrize("size", [(1, 1), (9, 7), (160, 121)])
@pytest.mark.parametrize("options", JPEGS.values(), ids=JPEGS)
def test_simplejpeg_decodes_to_the_bits_of_pillow(options, size, tmp_path, monkeypatch):
    """So what prepare writes does not depend on which of the two decodes."""
    coarse = np.random.default_rng(0).integers(0, 256, (16, 20, 3), np.uint8)
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(
        tmp_path / "a.jpg", **options
    )
    decoded = []
    monkeypatch.setattr(
        photographs,
        "_jpeg",
        lambda image, own=photographs._jpeg: decoded.append(own(image)) or decoded[-1],
    )
    pixels = read_rgb(tmp_path / "a.jpg")
    assert decoded[0] is pixels
    assert pixels.any()
    path = tmp_path / "a.jpg"
    np.testing.assert_array_equal(pixels, _without_simplejpeg(path, monkeypatch))


@pytest.mark.parametrize("error", [ImportError, ValueError])
def test_a_simplejpeg_that_cannot_be_loaded_is_done_without(error, tmp_path, monkeypatch):
    """One that was built for another numpy raises ValueError."""
    (tmp_path / "simplejpeg.py").write_text(f"raise {error.__name__}")
    Image.new("RGB", (3, 2), (9, 9, 9)).save(tmp_path / "a.jpg")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "simplejpeg", raising=False)
    monkeypatch.setattr(
        photographs, "_simplejpeg", photographs._simplejpeg.__wrapped__
    )  # not what this process knows of it
    expected = [[[9, 9, 9]] * 3] * 2
    path = tmp_path / "a.jpg"
    assert read_rgb(path).tolist() == expected


def test_an_image_for_which_memory_is_too_short_is_not_taken_for_a_broken_one(
    tmp_path, monkeypatch
):
    """Else it would be left out, and what prepare writes would depend on the memory of the machine."""

    def short(image):
        raise MemoryError

    Image.new("RGB", (3, 2)).save(tmp_path / "a.jpg")
    monkeypatch.setattr(photographs, "_jpeg", short)
    with pytest.raises(MemoryError):
        read_rgb(tmp_path / "a.jpg")


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_a_broken_jpeg_is_what_pillow_makes_of_it(keep, tmp_path, monkeypatch, capfd):
    Image.radial_gradient("L").convert("RGB").save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data[: int(keep * len(data))])
    with pytest.raises(Unreadable, match="truncated"):
        read_rgb(tmp_path / "a.jpg")
    middle = len(data) * 2 // 3
    (tmp_path / "a.jpg").write_bytes(
        data[:middle] + data[middle + 50 :]
    )  # which Pillow reads, and grey after it
    expected = _without_simplejpeg(tmp_path / "a.jpg", monkeypatch)
    path = tmp_path / "a.jpg"
    np.testing.assert_array_equal(read_rgb(path), expected)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("size", "side"), [(10, 30), (20, 60), (30, 60), (31, 120), (60, 120), (61, 240), (200, 240)]
)
def test_scaled_decoding_keeps_twice_the_size(tmp_path, size, side):
    for suffix in ("jpg", "png"):
        Image.radial_gradient("L").resize((320, 240)).convert("RGB").save(tmp_path / f"a.{suffix}")
    with shrunk_decoding(completed(size, "image", scaled_decoding=True)):
        expected = (side, side * 4 // 3, 3)
        path = tmp_path / "a.jpg"
        assert read_rgb(path).shape == expected
        result = read_rgb(tmp_path / "a.png").shape
        assert result == (240, 320, 3)
    with shrunk_decoding(completed(size, "image")):
        result = read_rgb(tmp_path / "a.jpg").shape
        assert result == (240, 320, 3)
    result = read_rgb(tmp_path / "a.jpg").shape
    assert result == (240, 320, 3)


@pytest.mark.skipif(not os.environ.get("FEDCLI_REAL_DATA"), reason="no real photographs here")
def test_scaled_decoding_moves_few_grey_levels_of_real_photographs():
    """At a quarter of the number of pixels; the help and docs say by how much."""
    moved = []
    for path in sorted(Path(os.environ["FEDCLI_REAL_DATA"], "ham10000").rglob("*.jpg"))[::400]:
        whole = fit_image(read_rgb(path), 32, "stretch", False)
        with shrunk_decoding(completed(32, "image", scaled_decoding=True)):
            moved.append(
                np.abs(fit_image(read_rgb(path), 32, "stretch", False).astype(int) - whole)
            )
    assert len(moved) > 20
    assert 0 < np.mean(moved) < 0.5
    assert np.max(moved) <= 12


def test_scaled_decoding_is_part_of_what_names_a_dataset(tmp_path):
    folder = tmp_path / "raw"
    raw = sources.make_sample("isic2018", folder)
    usual, scaled = (
        prepare.prepare(
            PrepareOptions("isic2018", raw=raw, size=8, scaled_decoding=on, work=tmp_path)
        )
        for on in (False, True)
    )
    assert usual != scaled
    assert "scaled_decoding" not in manifest.read(usual).options
    assert manifest.read(scaled).options["scaled_decoding"] is True
    assert "stretch:scaled-decoding" in command(manifest.read(scaled).options)
