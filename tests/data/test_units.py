"""Nouns of what a dataset's ids stand for, in its sentences."""

import re

import pytest
from conftest import make_chain
from hospitals import write_hospitals

import fedcli
from fedcli.data import units


@pytest.mark.parametrize(
    ("column", "noun"),
    [
        (None, "patient"),
        ("patient_id", "patient"),
        ("ID", "patient"),
        ("lesion_id", "lesion"),
        ("LesionID", "lesion"),
        ("lesions", "lesion"),
        ("StudyInstanceUID", "study"),
        ("study_id", "study"),
        ("exam", "study"),
        ("eye", "eye"),
        ("eyeid", "eye"),
        ("study_patient", "patient"),
        ("greyeyes", "patient"),
        ("bytes of the file", "patient"),
    ],
)
def test_a_column_is_named_after_what_it_counts(column, noun):
    assert units.noun(column) == noun


def test_a_text_on_patients_becomes_one_on_others():
    text = "5 patients or lesions of one patient or lesion; patients, no inpatients"
    assert units.worded(text, "study") == "5 studies of one study; studies, no inpatients"
    assert units.worded("a patient", "patient") == "a patient"


@pytest.mark.parametrize(
    ("column", "noun"), [("lesion_id", "lesion"), ("study", "study"), ("eye", "eye")]
)
def test_every_sentence_says_what_the_ids_are(tmp_path, capsys, caplog, column, noun):
    raw = write_hospitals(tmp_path / "raw", count=60)
    table = raw / "labels.csv"
    table.write_text(table.read_text().replace("patient", column, 1))
    how = {"site": "hospital", "patient": column, "size": 8, "split": "image", "test": 0.4}
    data = fedcli.prepare("images", raw=raw, work=tmp_path, jobs=1, **how)
    part = fedcli.partition(data, by=["hospital"], val=0.3, work=tmp_path)
    common = {"rounds": 1, "batch_size": 64, "model": "cnn", "work": tmp_path}
    runs = [fedcli.train(method, part, **common) for method in ("fedavg", "fedprox")]
    scores = [fedcli.evaluate(run, by=["hospital"], work=tmp_path) for run in runs]
    report = fedcli.report(scores)
    compared = fedcli.compare(runs, resamples=100, work=tmp_path)
    texts = [repr(report), repr(compared), repr(scores[0]), report.to("markdown"), caplog.text]
    texts += capsys.readouterr()
    plural = units.plural(noun)
    for text in texts:
        said = re.findall(r"\d[\d,]* (?:test |validation )?patients?\b|p over patients", text)
        assert said == []
    assert f"test {plural} also have training images" in repr(compared)
    assert f"p {plural}: 100 resamples of the" in " ".join(repr(compared).split())


def test_scores_of_patients_are_as_they_were(tmp_path):
    run = fedcli.train("fedavg", make_chain(tmp_path), rounds=1, work=tmp_path)
    assert "unit" not in fedcli.evaluate(run).manifest.body
