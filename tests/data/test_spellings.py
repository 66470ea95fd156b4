"""Numbers, ages, unknown values and names as people write them in tables."""

import numpy as np
import pytest
from own_images_folder import folder, listed, of_columns
from PIL import Image
from raw_folders import prepare, refused

from fedcli.data.pool import read_pool


def six(raw, head, *lines):
    """A folder of six images and a table whose further columns are given line by line."""
    names = [f"im{k:02d}.png" for k in range(6)]
    text = f"image,label{head and ',' + head}\n"
    text += "".join(
        f"{name},{'xy'[k % 2]},{line}\n"
        for k, (name, line) in enumerate(zip(names, lines, strict=True))
    )
    return folder(raw, text, *names)


def test_a_whole_number_has_one_spelling_in_labels_groups_and_patients(tmp_path, capsys):
    text = "image,label,code,id\na.png,0,1,7\nb.png,1,1.0,7.0\nc.png,0.0,2,8\nd.png,1.0,2.0,8.\ne.png,0,3,007\n"
    raw = folder(tmp_path, text, *(f"{letter}.png" for letter in "abcde"))
    listing = listed(raw, group="code", patient="id")
    assert listing.classes == ["0", "1"]
    assert listing.attributes == {"code": ["1", "2", "3"]}
    expected = ["7", "7", "8", "8", "007"]
    assert [row.patient for row in listing.rows] == expected
    output = capsys.readouterr().err
    for name in ("label", "code", "id"):
        assert f"{name}: " in output
        assert "are one value" in output


@pytest.mark.parametrize("name", ["age", "Patient Age", "age_approx", "AGE (years)"])
def test_a_column_of_ages_is_known_by_the_word(tmp_path, name):
    raw = six(tmp_path, name, "30", "45.0", "060Y", "", "-1", "12")
    listing = listed(raw, group=name)
    assert listing.attributes[name] == ["0-39", "40-59", "60+"]
    result = [row.groups[name] for row in listing.rows]
    expected = [0, 1, 2, -1, -1, 0]
    assert result == expected


def test_a_column_of_age_groups_is_taken_as_it_is(tmp_path):
    raw = six(tmp_path, "age_group", *"012012")
    result = listed(raw, group="age_group").attributes
    expected = {"age_group": ["0", "1", "2"]}
    assert result == expected


@pytest.mark.parametrize("age", ["411Y", "300", "1957", "121"])
def test_an_age_that_nobody_reaches_is_an_error_of_the_table(tmp_path, age):
    raw = six(tmp_path, "age", "30", "45", "60", age, "20", "70")
    with refused(f"has the age '{age}'", f"--unknown {age}"):
        listed(raw, group="age")
    result = listed(raw, group="age", unknown=age).rows[3].groups["age"]
    assert result == -1


def test_values_that_mean_unknown_can_be_named(tmp_path):
    raw = six(tmp_path, "skin,id", "-1,a", "1.0,a", "2,other", "-1.0,other", "9,b", "2,b")
    listing = listed(raw, group="skin", patient="id", unknown="-1, other ,9")
    assert listing.attributes == {"skin": ["1", "2"]}
    expected = [-1, 0, 1, -1, -1, 1]
    result = [row.groups["skin"] for row in listing.rows]
    assert result == expected
    expected = ["a", "a", "", "", "b", "b"]
    assert [row.patient for row in listing.rows] == expected


def test_a_column_whose_name_has_a_comma_can_be_a_group(tmp_path):
    raw = six(tmp_path, '"Age, years"', "30", "45", "60", "30", "20", "70")
    result = list(listed(raw, group='"Age, years"').attributes)
    assert result == ["Age, years"]
    work = tmp_path / "work"
    path = prepare("images", raw=raw, work=work, size=8, jobs=1, own={"group": '"Age, years"'})
    result = list(read_pool(path.parent / "pool.h5").groups)
    assert result == ["Age, years"]


def test_a_name_in_other_case_is_the_file(tmp_path):
    raw = folder(tmp_path, "image,label\nim00.jpg,x\nIM01.png,y\n", "im00.JPG", "im01.png")
    listing = listed(raw)
    result = {row.id: listing.classes[row.label] for row in listing.rows}
    assert result == {
        "im00.JPG": "x",
        "im01.png": "y",
    }


def test_separators_are_counted_outside_of_quotes_and_one_may_end_each_line(tmp_path):
    raw = folder(tmp_path, 'image,label,"a;b;c;d"\na.png,x,1,\nb.png,y,2,\n', "a.png", "b.png")
    result = listed(raw, group="a;b;c;d").attributes
    assert result == {"a;b;c;d": ["1", "2"]}


def test_a_table_without_rows_says_so(tmp_path):
    with refused("has a header and no rows"):
        listed(folder(tmp_path, "image,label\n", "a.png"))


def test_a_name_of_one_image_is_no_class(tmp_path):
    with refused("each of the 12 images has a class of its own"):
        label = [f"study-{k}" for k in range(12)]
        listed(of_columns(tmp_path, label=label))


def test_one_class_left_because_files_are_not_read_names_such_a_file(tmp_path):
    raw = folder(tmp_path, "image,label\na.png,x\nb.webp,y\n", "a.png", "b.webp")
    (raw / "b.webp").write_text("")
    with refused("every image", "b.webp: listed in labels.csv, but .webp files are not read"):
        listed(raw)


def test_links_to_folders_are_named_and_a_link_to_itself_is_one_bad_file(tmp_path, capsys):
    raw = six(tmp_path / "raw", "", *[""] * 6)
    (raw / "labels.csv").write_text((raw / "labels.csv").read_text().replace(",\n", "\n"))
    (tmp_path / "other").mkdir()
    (raw / "linked").symlink_to(tmp_path / "other")
    (raw / "im05.png").unlink()
    (raw / "im05.png").symlink_to("im05.png")
    work = tmp_path / "work"
    path = prepare("images", raw=raw, work=work, size=8, jobs=1)
    result = len(read_pool(path.parent / "pool.h5").y)
    assert result == 5
    output = capsys.readouterr().err
    assert "links to folders are not followed: linked" in output
    assert "1: no such file, im05.png" in output


def test_a_name_that_is_not_utf8_is_an_error_that_says_which(tmp_path):
    raw = tmp_path / "raw"
    for k in range(4):
        folder(raw / "ab"[k % 2], "", f"{k}.png", table="notes.txt")
    (raw / "a" / "0.png").rename(raw / "a" / b"\xff.png".decode(errors="surrogateescape"))
    with refused(r"udcff.png' is not UTF-8"):
        work = tmp_path / "work"
        prepare("images", raw=raw, work=work, size=8, jobs=1)


@pytest.mark.parametrize(
    ("values", "kind", "brightest"),
    [
        (np.linspace(0, 1, 64, dtype=np.float32), "tif", 255),
        (np.linspace(0, 65535, 64).astype(np.uint16), "png", 255),
        (np.linspace(0, 4095, 64).astype(np.uint16), "png", None),
        (np.linspace(0, 255, 64, dtype=np.float32), "tif", None),
        (np.full(64, np.nan, np.float32), "tif", None),
        (np.zeros(64, np.uint16), "png", 0),
    ],
)
def test_deep_grey_images_are_bright_or_left_out_with_the_reason(tmp_path, values, kind, brightest):
    text = f"image,label\nseen.{kind},x\na.png,x\nb.png,y\n"
    raw = folder(tmp_path / "raw", text, "a.png", "b.png")
    Image.fromarray(values.reshape(8, 8)).save(raw / f"seen.{kind}")
    work = tmp_path / "work"
    path = prepare("images", raw=raw, work=work, size=8, jobs=1).parent / "pool.h5"
    pool = read_pool(path)
    pixels = pool.pixels()[pool.id == f"seen.{kind}"]
    result = None if not len(pixels) else int(pixels.max())
    assert result == brightest


def test_files_of_one_size_that_swap_places_make_another_dataset(tmp_path):
    raw = folder(tmp_path / "raw", "image,label\na.bmp,x\nb.bmp,y\nd.bmp,x\ne.bmp,y\n")
    for name, grey in (("a.bmp", 10), ("b.bmp", 200), ("d.bmp", 0), ("e.bmp", 0)):
        Image.new("L", (300, 900), grey).save(raw / name)
    work = tmp_path / "work"
    path = prepare("images", raw=raw, work=work, size=8, jobs=1)
    work = tmp_path / "work"
    result = prepare("images", raw=raw, work=work, size=8, jobs=1)
    assert result == path
    (
        (raw / "a.bmp").rename(raw / "c"),
        (raw / "b.bmp").rename(raw / "a.bmp"),
        (raw / "c").rename(raw / "b.bmp"),
    )
    work = tmp_path / "work"
    path_after = prepare("images", raw=raw, work=work, size=8, jobs=1)
    assert path_after != path
    result = read_pool(path_after.parent / "pool.h5").pixels()[0].max()
    assert result == 200
