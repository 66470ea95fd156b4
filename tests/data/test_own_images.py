"""Your own images: every way in which a table and a folder can disagree."""

import re
import sys
import unicodedata

import pytest
from own_images_folder import folder, labels, listed, of_columns, save
from raw_folders import refused
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.errors import FedcliError, UsageError


def test_a_csv_names_images_classes_groups_sites_and_patients(tmp_path):
    head = "file,diagnosis,sex,age,hospital,patient_id\n"
    lines = [
        "a.jpg,mel,F,39,north,p1",
        "b,nv,M,40,south,p1",
        "sub/c.png,nv,,,north,",
        "sub/d.png,mel,unknown,81,east,p2",
    ]
    text = head + "\n".join(lines)
    raw = folder(tmp_path, text, "a.jpg", "b.png", "sub/c.png", "sub/d.png")
    result = listed(
        raw,
        image_column="file",
        label_column="diagnosis",
        group="sex,age",
        site="hospital",
        patient="patient_id",
    )
    assert result.classes == ["mel", "nv"]
    assert result.channels == 1
    assert result.sites == "hospital"
    expected = {
        "sex": ["female", "male"],
        "age": ["0-39", "40-59", "60+"],
        "hospital": ["east", "north", "south"],
    }
    assert result.attributes == expected
    expected = [
        ("a.jpg", 0, "p1", 0, 0, 1),
        ("b.png", 1, "p1", 1, 1, 2),
        ("sub/c.png", 1, "", -1, -1, 1),
        ("sub/d.png", 0, "p2", -1, 2, 0),
    ]
    outcome = [(row.id, row.label, row.patient, *row.groups.values()) for row in result.rows]
    assert outcome == expected


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_spreadsheets_csv_is_read_as_it_comes(tmp_path, separator):
    lines = ["\ufeffimage, label ", " a.jpg ,x ", "b.jpg , y", "", '"c, d.jpg",x']
    text = "\r\n".join(
        line if line.startswith('"') else line.replace(",", separator) for line in lines
    )
    text = text.replace('d.jpg",', f'd.jpg"{separator}')
    raw = folder(tmp_path, text, "a.jpg", "b.jpg", "c, d.jpg")
    expected = {"a.jpg": "x", "b.jpg": "y", "c, d.jpg": "x"}
    assert labels(listed(raw)) == expected


@pytest.mark.skipif(sys.getfilesystemencoding() != "utf-8", reason="no such name of a file here")
def test_accents_may_be_spelt_in_either_way(tmp_path):
    text = unicodedata.normalize("NFC", "image,label\nné.jpg,süd\nb.jpg,x\n")
    raw = folder(
        tmp_path,
        text,
        unicodedata.normalize("NFD", "né.jpg"),
        "b.jpg",
    )
    result = list(labels(listed(raw)).values())
    assert result == ["x", "süd"]


def test_absent_files_and_missing_labels_are_skipped_with_the_reason(tmp_path, capsys):
    text = "image,label\na.jpg,x\nb.jpg,y\ngone.jpg,x\nc.jpg,\nd.jpg,NA\n,x\n"
    raw = folder(tmp_path, text, "a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg")
    result = listed(raw)
    assert labels(result) == {"a.jpg": "x", "b.jpg": "y"}
    expected = [
        ("", "listed in labels.csv, not in the folder"),
        ("c.jpg", "has no label in labels.csv"),
        ("d.jpg", "has no label in labels.csv"),
        ("gone.jpg", "listed in labels.csv, not in the folder"),
    ]
    assert result.skipped == expected
    assert "1 of 5 images in" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../a.jpg", "/etc/a.jpg", "x/../../a.jpg", "..\\a.jpg"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    path = tmp_path / "elsewhere" / "a.jpg"
    save(tmp_path / "a.jpg"), save(path)
    raw = tmp_path / "raw"
    text = f"image,label\nb.jpg,x\n{name},y\n"
    folder(raw, text, "b.jpg")
    with pytest.raises(FedcliError) as error:
        listed(raw)
    if "\0" in name:
        assert "labels.csv holds zero bytes" in error.value.sentence
    else:
        assert "leads out of" in error.value.sentence
        assert "'..'" in error.value.hint


@pytest.mark.parametrize("name", ["out/a.jpg", "link.jpg"])
@pytest.mark.parametrize("table", [True, False])
def test_a_link_out_of_the_folder_is_left_out_and_listed(tmp_path, name, table):
    save(tmp_path / "elsewhere" / "a.jpg")
    text = f"image,label\nx/b.jpg,x\ny/c.jpg,y\n{name},y\n"
    raw = folder(tmp_path / "raw", text, "x/b.jpg", "y/c.jpg")
    if not table:
        (raw / "labels.csv").unlink()
    (raw / "out").symlink_to(tmp_path / "elsewhere")
    (raw / "link.jpg").symlink_to(tmp_path / "elsewhere" / "a.jpg")
    listing = listed(raw)
    assert labels(listing) == {"x/b.jpg": "x", "y/c.jpg": "y"}
    assert ("link.jpg", "is a link that leads out of the folder") in listing.skipped
    assert not table or (name, "listed in labels.csv, not in the folder") in listing.skipped


def test_a_repeated_row_is_counted_and_a_contradiction_is_refused(tmp_path, capsys):
    raw = folder(tmp_path, "image,label\na.jpg,x\n./a.jpg,x\nb.jpg,y\na.jpg,x\n", "a.jpg", "b.jpg")
    assert labels(listed(raw)) == {"a.jpg": "x", "b.jpg": "y"}
    assert "labels.csv: 2 rows repeat others and count once" in capsys.readouterr().err
    folder(tmp_path, "image,label\na.jpg,x\na,y\nb.jpg,y\n")
    with refused("a.jpg is listed twice, with label 'x' and 'y'"):
        listed(raw)
    folder(tmp_path, "image,label,sex\na.jpg,x,f\na.jpg,x,m\nb.jpg,y,m\n")
    with refused("a.jpg is listed twice, with sex 'f' and 'm'"):
        listed(raw, group="sex")


def test_a_name_that_two_files_have_must_be_written_in_full(tmp_path):
    raw = folder(tmp_path, "image,label\nx.jpg,a\n", "one/x.jpg", "two/x.jpg")
    with refused("'x.jpg' may be one/x.jpg and two/x.jpg"):
        listed(raw)
    folder(tmp_path, "image,label\none/x.jpg,a\ntwo/x,b\n")
    assert labels(listed(raw)) == {"one/x.jpg": "a", "two/x.jpg": "b"}


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("image,label\na.jpg,x\nb.jpg,x\n", {}, "of the class 'x'"),
        ("file,label\na.jpg,x\n", {}, "no column 'image', only file, label"),
        ("image,label\na.jpg,x\nb.jpg,y\n", {"group": "sex"}, "no column 'sex'"),
        ("image,label,label\na.jpg,x,y\n", {}, "two columns 'label'"),
        (
            "image,label,sex\na.jpg,x,\nb.jpg,y,unknown\n",
            {"group": "sex"},
            "the column 'sex' is empty",
        ),
        ("image,label,a/b\na.jpg,x,1\nb.jpg,y,2\n", {"group": "a/b"}, "slash or star in its name"),
        ("image,label,a*b\na.jpg,x,1\nb.jpg,y,2\n", {"group": "a*b"}, "slash or star in its name"),
        ("", {}, "is empty"),
        ("image,label\na.jpg,x\n", {"table": "other.csv"}, "no such table"),
        ("image,label\na.jpg,x\n", {"table": "../labels.csv"}, "leads out of"),
        ("image,label\na.jpg,x\n", {"channels": "2"}, "channels is '2'"),
        ("image,label\na.jpg,x\n", {"white": "0"}, "white is '0'"),
        ("image,label\na.jpg,x\n", {"white": "²"}, "white is '²'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(tmp_path, text, options, sentence):
    raw = folder(tmp_path, text, "a.jpg", "b.jpg")
    with pytest.raises(FedcliError, match=sentence) as error:
        listed(raw, **options)
    assert error.value.hint
    assert "\n" not in error.value.sentence


def test_a_group_has_at_most_50_values_and_numbers_are_ordered_by_size(tmp_path):
    label = [i % 12 for i in range(51)]
    raw = of_columns(tmp_path, label=label, ward=range(51))
    expected = [str(i) for i in range(12)]
    assert listed(raw).classes == expected
    with refused("'ward' has 51 values", "at most 50"):
        listed(raw, group="ward")


def test_ages_in_words_are_groups_as_they_are(tmp_path):
    raw = folder(tmp_path, "image,label,age\na.jpg,x,young\nb.jpg,y,old\n", "a.jpg", "b.jpg")
    result = listed(raw, group="age").attributes
    assert result == {"age": ["old", "young"]}
    folder(tmp_path, "image,label,Age\na.jpg,x,-1\nb.jpg,y,61.5\n")
    result = listed(raw, group="Age")
    result = [row.groups["Age"] for row in result.rows]
    assert result == [-1, 2]


def test_several_tables_need_a_choice_and_one_below_counts_from_its_folder(tmp_path):
    raw = folder(
        tmp_path,
        "image,label\n1.jpg,x\n2.jpg,y\n",
        "set/1.jpg",
        "set/2.jpg",
        "3.jpg",
        table="set/own.csv",
    )
    (
        folder(tmp_path, "image,label\n3.jpg,x\n", table="one.csv"),
        folder(tmp_path, "image,label\n", table="two.csv"),
    )
    with refused("has 2 CSV files: one.csv, two.csv", of=UsageError):
        listed(raw)
    result = listed(raw, table="set/own.csv")
    assert labels(result) == {"set/1.jpg": "x", "set/2.jpg": "y"}
    assert result.tables == ["set/own.csv"]


def test_a_folder_per_class_needs_no_table(tmp_path, capsys):
    for name in (
        "mel/a.jpg",
        "mel/deep/b.png",
        "nv/a.jpg",
        ".hidden/x.jpg",
        "__MACOSX/mel/a.jpg",
        "nv/._a.jpg",
    ):
        save(tmp_path / name)
    result = listed(tmp_path)
    expected = {"mel/a.jpg": "mel", "mel/deep/b.png": "mel", "nv/a.jpg": "nv"}
    assert labels(result) == expected
    assert result.tables == []
    for split, words in (("folder", "no folders train and test"), ("unit", None)):
        if words:
            with refused(words):
                listed(tmp_path, split)
    with refused("--patient needs a table", of=UsageError):
        listed(tmp_path, patient="p")
    save(tmp_path / "loose.jpg")
    with refused("loose.jpg is in no folder of a class"):
        listed(tmp_path)


def test_folders_train_and_test_above_the_classes_can_be_the_split(tmp_path, capsys):
    for name in ("train/x/1.jpg", "train/y/2.jpg", "val/x/3.jpg", "test/y/4.jpg"):
        save(tmp_path / name)
    result = listed(tmp_path, "folder")
    expected = {
        "test/y/4.jpg": "y",
        "train/x/1.jpg": "x",
        "train/y/2.jpg": "y",
        "val/x/3.jpg": "x",
    }
    assert labels(result) == expected
    assert [row.id for row in result.rows if row.test] == ["test/y/4.jpg"]
    listed(tmp_path)
    assert "--split folder keeps them" in capsys.readouterr().err


def test_one_folder_of_a_class_is_refused_with_what_was_not_read(tmp_path, capsys):
    path = tmp_path / "mel" / "a.jpg"
    save(path), (tmp_path / "nv").mkdir()
    for name in ("1.webp", "2.webp"):
        (tmp_path / "nv" / name).write_text("w")
    with pytest.raises(FedcliError, match="of the class 'mel'") as error:
        listed(tmp_path)
    hint = "it needs a folder for each of at least two classes; not read: nv/1.webp and 1 more"
    assert error.value.hint == hint
    save(tmp_path / "nv" / "b.jpg")
    listed(tmp_path)
    assert f"no CSV in {tmp_path}: the folders mel, nv are the classes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cell", "band"), [("45.5", 1), ('"45,5"', 1), ("060Y", 2), ("060y", 2), ("006M", 0)]
)
def test_an_age_may_have_a_decimal_comma_or_be_dicoms(tmp_path, cell, band):
    text = f"image,label,age\na.jpg,x,{cell}\nb.jpg,y,81\n"
    raw = folder(tmp_path, text, "a.jpg", "b.jpg")
    result = [row.groups["age"] for row in listed(raw, group="age").rows]
    assert result == [band, 2]


def test_a_few_ages_that_are_no_numbers_count_as_unknown_and_are_told(tmp_path, capsys):
    ages = ["abc", "30", "50", "70", "²Y", "", "60+", "41"]
    raw = of_columns(tmp_path, age=ages)
    result = listed(raw, group="age")
    expected = [-1, 0, 1, 2, -1, -1, -1, 1]
    assert [row.groups["age"] for row in result.rows] == expected
    printed = capsys.readouterr().err
    assert "age: 3 cells are no number and count as unknown, such as '60+'" in printed


def test_spellings_of_sex_are_merged_only_where_all_are_known(tmp_path, capsys):
    values = ["m", "Male", "M", "f", "female", "w", ""]
    raw = of_columns(tmp_path, Gender=values)
    result = listed(raw, group="Gender")
    assert result.attributes == {"Gender": ["female", "male"]}
    outcome = [row.groups["Gender"] for row in result.rows]
    expected = [1, 1, 1, 0, 0, 0, -1]
    assert outcome == expected
    assert "differ only" not in capsys.readouterr().err
    raw = of_columns(tmp_path, Gender=[*values[:-1], "diverse"])
    result = listed(raw, group="Gender")
    expected = {"Gender": ["M", "Male", "diverse", "f", "female", "m", "w"]}
    assert result.attributes == expected
    assert (
        "Gender: 'M' and 'm' differ only by case or spaces, and count as two values"
        in capsys.readouterr().err
    )


def test_classes_and_sites_that_differ_only_by_case_or_spaces_are_told(tmp_path, capsys):
    text = "image,label,site\na.jpg,nv,St Mary\nb.jpg,NV,St  mary\nc.jpg,mel,North\n"
    raw = folder(tmp_path, text, "a.jpg", "b.jpg", "c.jpg")
    result = listed(raw, site="site")
    assert result.classes == ["NV", "mel", "nv"]
    printed = capsys.readouterr().err
    assert "label: 'NV' and 'nv' differ only" in printed
    assert "site: 'St  mary' and 'St Mary' differ only" in printed
    assert "North" not in printed


def test_images_without_a_patient_are_counted(tmp_path, capsys):
    raw = folder(
        tmp_path, "image,label,p\na.jpg,x,1\nb.jpg,y,\nc.jpg,x,unknown\n", "a.jpg", "b.jpg", "c.jpg"
    )
    listed(raw, patient="p")
    assert (
        "2 of 3 images name no patient; each of them is split on its own" in capsys.readouterr().err
    )
    listed(raw, "image", patient="p")
    assert "stands alone" not in capsys.readouterr().err


def test_the_nearest_column_is_offered_whatever_its_case(tmp_path):
    raw = folder(tmp_path, "Datei,label\na.jpg,x\nb.jpg,y\n", "a.jpg", "b.jpg")
    for name in ("datei", "DATEI", "dateie"):
        with pytest.raises(FedcliError, match=f"no column '{name}'") as error:
            listed(raw, image_column=name)
        assert error.value.hint.startswith(f"did you mean 'Datei' for {name!r}? ")


def test_all_columns_that_a_table_lacks_are_named_at_once(tmp_path):
    raw = folder(tmp_path, "file,label,geschlecht\na.jpg,x,m\nb.jpg,y,f\n", "a.jpg", "b.jpg")
    with pytest.raises(FedcliError) as error:
        listed(raw, group="Geschlecht,age", site="age", patient="id")
    assert error.value.sentence.endswith(
        "has no columns 'image', 'Geschlecht', 'age', 'id', only file, label, geschlecht"
    )
    assert "--image-column; did you mean 'geschlecht' for 'Geschlecht'? " in error.value.hint


def test_the_card_is_printed_for_a_person():
    output = CliRunner().invoke(app, ["datasets", "images"]).stdout
    assert "  <table>.csv: columns image, label - a row per image" in output
    assert "classes: any\nattributes: any\n" in output
    assert "with or without .dcm" in output
    assert "splits (--split):\n  unit: 8:2" in output
    assert "options (--set OPTION=VALUE):\n" in output
    assert "  channels: auto, 1 or 3" in output
    assert "[default: image]" in output
    assert "{" not in output
    other = CliRunner().invoke(app, ["datasets", "medmnist"]).stdout
    assert "classes: any\nattributes: none\n" in other  # its files tell nothing of a patient


def test_a_column_may_be_called_at(tmp_path):
    folder(tmp_path, "image,at\n0.png,nv\n1.png,mel\n2.png,nv\n", "0.png", "1.png", "2.png")
    result = listed(tmp_path, **{"label-column": "at"}).classes
    assert result == ["mel", "nv"]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["Effusion", "Effusion|Edema", "Edema"], "'Effusion|Edema' looks like several labels"),
        (["a; b", "a", "b"], "'a; b' looks like several labels"),
        (["['a']", "['b']", "['a']"], "looks like several labels"),
        (["left", "right", "left,right"], "'left,right' looks like several labels"),
        (["0.25", "0.5", "1"], "the label 0.25 is a measured number, not a class"),
        (
            [str(61 + 3 * i) for i in range(12)],
            "12 numbers label 12 images, so they are no classes",
        ),
    ],
)
def test_labels_that_look_like_lists_or_measurements_are_refused(tmp_path, cells, words):
    with pytest.raises(FedcliError, match=re.escape(words)) as error:
        listed(of_columns(tmp_path, label=cells))
    assert error.value.hint
    result = len(str(error.value) + error.value.hint)
    assert result < 400


def test_many_whole_numbers_as_classes_are_warned_of(tmp_path, caplog):
    label = [20 + i % 22 for i in range(66)]
    raw = of_columns(tmp_path, label=label)
    result = len(listed(raw).classes)
    assert result == 22
    assert "22 whole numbers label the images" in caplog.text


def test_grades_and_names_with_a_comma_are_classes(tmp_path):
    cells = ["0", "1.0", "2", "carcinoma, NOS"]
    raw = of_columns(tmp_path, label=cells)
    result = listed(raw).classes
    assert result == ["0", "1", "2", "carcinoma, NOS"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_table_in_an_encoding_with_zero_bytes_is_read_where_it_is_named(tmp_path, encoding):
    label = ["ä", "b", "ä"]
    raw = of_columns(tmp_path, label=label)
    text = (raw / "labels.csv").read_text(encoding="utf-8")
    (raw / "labels.csv").write_text(text, encoding=encoding)
    result = listed(raw, encoding=encoding).classes
    assert result == ["b", "ä"]
    with refused("labels.csv holds zero bytes", "--table encoding=cp1252 or utf-16"):
        listed(raw)
    (raw / "labels.csv").write_text(text.replace("b", "\0"), encoding=encoding)
    with refused("labels.csv holds zero bytes"):
        listed(raw, encoding=encoding)


def test_lines_may_end_as_on_old_macs(tmp_path):
    raw = of_columns(tmp_path, label=["a", "b"])
    text = (raw / "labels.csv").read_text(encoding="utf-8")
    (raw / "labels.csv").write_text(text.replace("\n", "\r"), encoding="utf-8", newline="")
    assert labels(listed(raw)) == {"0.png": "a", "1.png": "b"}


def test_names_whose_accents_are_encoded_in_two_ways_are_told(tmp_path, capsys):
    values = ["é", unicodedata.normalize("NFD", "é"), "b"]
    raw = of_columns(tmp_path, label=values)
    assert len(listed(raw).classes) == 3
    assert "differ only by how accents are encoded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("c.jpg,x,f", "c.jpg: listed in labels.csv, not in the folder"),
        ("a.jpg,,f", "a.jpg: has no label in labels.csv"),
    ],
)
def test_a_table_of_no_image_is_refused_before_its_groups_are_looked_at(tmp_path, row, reason):
    text = f"image,label,sex\n{row}\n"
    raw = folder(tmp_path, text, "a.jpg", "b.jpg")
    words = ["prepare", "images", "--raw", str(raw), "--group", "sex", "--work", str(raw / "work")]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 1
    assert "holds no image of images" in ended.stderr
    assert reason in ended.stderr
