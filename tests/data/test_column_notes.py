"""Notes on words that may mean something else: unknown, dates of a spreadsheet, two people under one id."""

import random

import pytest
from own_images_folder import folder, listed, of_columns
from raw_folders import prepare

from fedcli.data.pool import Row
from fedcli.data.sources.own_files import column_notes
from fedcli.data.sources.own_files.own_columns import ordered


def said(capsys):
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "word",
    [
        "UNABLE TO OBTAIN",
        "PATIENT DECLINED TO ANSWER",
        "k. A.",
        "k.A.",
        "keine Angabe",
        "Not reported",
    ],
)
def test_a_word_for_unknown_is_offered_to_the_option_for_unknown(tmp_path, capsys, word):
    sex = ["f", "m", word, "f"]
    raw = of_columns(tmp_path, sex=sex)
    listed(raw, group="sex")
    err = said(capsys)
    assert f"sex: {word!r} counts as a group; if unknown: --unknown '{word}'" in err
    assert "--map" not in err
    result = listed(raw, group="sex", unknown=word).attributes["sex"]
    assert result == ["female", "male"]


def test_several_words_for_unknown_are_offered_together(tmp_path, capsys):
    race = ["black", "UNABLE TO OBTAIN", "white", "DECLINED"]
    raw = of_columns(tmp_path, race=race)
    listed(raw, group="race")
    assert "if unknown: --unknown 'DECLINED,UNABLE TO OBTAIN'" in said(capsys)


@pytest.mark.parametrize("word", ["Alaska native", "kaukasisch", "national", "other", "unkempt"])
def test_other_words_are_no_words_for_unknown(tmp_path, capsys, word):
    race = ["black", word, "white", "black"]
    raw = of_columns(tmp_path, race=race)
    listed(raw, group="race")
    assert "--unknown" not in said(capsys)


def test_dates_among_bands_are_warned_of(tmp_path, capsys):
    years = ["9-Mar", "Oct-19", "20-29", "30-39"]
    raw = of_columns(tmp_path, years=years)
    listed(raw, group="years")
    assert "warning: years: '9-Mar', 'Oct-19' next to '20-29': a spreadsheet may have" in said(
        capsys
    )


def test_dates_among_classes_are_warned_of(tmp_path, capsys):
    label = ["9-Mrz", "10-19", "10-19"]
    listed(of_columns(tmp_path, label=label))
    assert "label: '9-Mrz' next to '10-19'" in said(capsys)


@pytest.mark.parametrize(
    "values", [["2024-03-09", "2024-03-10"], ["May", "June"], ["3-9", "10-19"]]
)
def test_a_column_of_dates_or_of_bands_alone_is_no_matter(tmp_path, capsys, values):
    group = values * 2
    raw = of_columns(tmp_path, group=group)
    listed(raw, group="group")
    assert "spreadsheet" not in said(capsys)


TEXT = """image,label,who,sex,race,age
a.jpg,x,p1,f,black,30
b.jpg,y,p1,m,black,70
c.jpg,x,p2,f,,30
d.jpg,y,p2,f,white,30
e.jpg,x,p3,m,white,30
f.jpg,y,p3,f,white,30
"""


def test_patients_of_two_sexes_are_counted_and_the_first_is_named(tmp_path, capsys):
    raw = folder(tmp_path / "raw", TEXT, *(f"{name}.jpg" for name in "abcdef"))
    options = {"patient": "who", "group": "sex,race", "age": "age"}
    prepare("images", work=tmp_path, raw=raw, split="image", size=8, own=options)
    err = said(capsys)
    sentence = "sex: 2 patients have several values, such as the patient of a.jpg: female and male"
    assert sentence in err
    assert "race: " not in err.partition(sentence)[0]
    assert "age: 1 patient" not in err
    assert "race: 1 patient" not in err


def test_images_without_a_patient_are_no_patient_of_two_sexes(capsys):
    rows = [Row("a", 0, "a", groups={"sex": 0}), Row("b", 0, "b", groups={"sex": 1})]
    attributes = {"sex": ["female", "male"]}
    column_notes.note_people(rows, attributes)
    assert not said(capsys)


@pytest.mark.parametrize(
    "words",
    [
        ["3-9", "10-19", "20-29", "100+"],
        ["grade 2", "grade 10", "grade 11"],
        ["h1", "h2", "h10"],
        ["-1", "0", "0.5", "2", "10"],
        ["<5", "5-9", "10+"],
        ["07", "7", "8a", "08b"],
        ["benign", "malignant"],
        ["", "2", "a"],
    ],
)
def test_numbers_in_words_are_ordered_by_size(words):
    mixed = random.Random(0).sample(words, len(words))
    assert ordered(mixed) == words
