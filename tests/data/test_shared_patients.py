"""Patients on both sides of a split: counted by hand, stored in the manifest, and said by every stage that follows."""

import numpy as np
import pytest
from hospitals import write_hospitals

import fedcli
from fedcli.data import manifest, shared_patients, sources
from fedcli.data.pool import holdings
from fedcli.reporting import comparison
from fedcli.reporting.rows import notes
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.stages import evaluate

SIZE = 8
COLUMNS = {"patient": "patient", "site": "hospital"}


@pytest.mark.parametrize(
    ("unit", "train", "val", "test", "sentence"),
    [
        ("patient_id", "aab", "", "c", ""),
        ("patient_id", "aab", "", "abc", "2 of 3 test patients also have training images"),
        ("LESION", "aab", "", "acc", "1 of 2 test lesions also has training images"),
        ("patient", "a", "b", "bc", "1 of 2 test patients also has training images"),
        ("patient", "ab", "abc", "", "2 of 3 validation patients also have training images"),
        (
            "patient",
            "ab",
            "a",
            "bc",
            "1 of 2 test patients and 1 of 1 validation patients also have training images",
        ),
    ],
)
def test_patients_on_both_sides_are_counted_and_said_in_one_sentence(
    unit, train, val, test, sentence
):
    counted = shared_patients.counted(unit, train, val, test)
    assert shared_patients.of_body(counted) == sentence
    assert (shared_patients.KEY in counted) == bool(sentence)


def test_images_of_nobody_in_particular_are_on_no_side():
    result = shared_patients.counted("patient", ["", "a"], [""], ["", "b"])
    assert result == {}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def raw(work):
    """45 patients with an ill and a healthy image each, of which image by image divides many."""
    return write_hospitals(work / "raw")


def prepared(raw, work, split):
    return fedcli.prepare(
        "images", raw=raw, size=SIZE, split=split, work=work, jobs=1, test=0.4, **COLUMNS
    )


@pytest.fixture(scope="module")
def by_image(raw, work):
    return prepared(raw, work, "image")


def of(data):
    return manifest.read(data.path).body.get(shared_patients.KEY)


def said(data):
    body = manifest.read(data.path).body
    return shared_patients.of_body(body)


def test_the_default_keeps_patients_together_and_says_nothing(raw, work, caplog):
    dataset = prepared(raw, work, None)
    assert of(dataset) is None
    assert "also have training images" not in caplog.text


def test_a_split_by_image_says_how_many_patients_it_shares_and_what_keeps_them_together(
    raw, work, caplog
):
    dataset = prepared(raw, work, "image")
    expected = {"unit": "patients", "test": {"shared": 20, "of": 28}}
    assert of(dataset) == expected
    sentence = "20 of 28 test patients also have training images"
    assert f"{sentence}; --split unit keeps them together" in caplog.text
    caplog.clear()
    prepared(raw, work, "image")  # the same again, which is there already
    assert sentence in caplog.text


def test_a_partition_has_the_count_and_that_of_validation_patients(by_image, work, caplog):
    partition = fedcli.partition(by_image, iid=True, clients=3, val=0.3, work=work)
    shared = of(partition)
    assert shared["test"] == {"shared": 20, "of": 28}
    assert shared["val"]["shared"] > 0
    assert said(partition) in caplog.text


def test_whole_patients_at_each_client_share_no_validation_patient(by_image, work):
    partition = fedcli.partition(by_image, iid=True, clients=3, val=0.3, keep_units=True, work=work)
    expected = {"unit": "patients", "test": {"shared": 20, "of": 28}}
    assert of(partition) == expected


def test_a_corruption_and_changed_labels_keep_the_count(by_image, work):
    partition = fedcli.partition(by_image, by=["hospital"], work=work)
    noisy = fedcli.corrupt(partition, "gaussian", on=["north"], work=work, jobs=1)
    wrong = fedcli.corrupt(partition, "labels", on=["north"], rate=0.5, work=work)
    assert of(noisy) == of(wrong) == of(partition)


def test_a_patient_at_a_held_out_hospital_and_at_another_one_is_counted(tmp_path):
    raw = write_hospitals(tmp_path / "raw")
    table = raw / "labels.csv"
    table.write_text(table.read_text().replace("0-1\n", "0-0\n"))  # east's first patient is north's
    dataset = prepared(raw, tmp_path, None)
    partition = fedcli.partition(dataset, by=["hospital"], hold_out="north", work=tmp_path)
    assert said(partition) == "1 of 15 test patients also has training images"


def test_merged_datasets_keep_the_patients_that_one_of_them_shares(by_image, work):
    raw = write_hospitals(work / "other", seed=1)
    other = prepared(raw, work, None)
    merge = [f"one={by_image.path}", f"two={other.path}"]
    merged = fedcli.partition(merge=merge, work=work)
    assert of(merged)["test"]["shared"] == 20
    assert of(merged)["test"]["of"] > 28
    dataset = manifest.above(merged.path, "dataset")
    result = manifest.read(dataset).body[shared_patients.KEY]
    assert result == of(merged)


@pytest.fixture(scope="module")
def scored(by_image, work):
    partition = fedcli.partition(by_image, by=["hospital"], work=work)
    run = fedcli.train("fedavg", partition, rounds=1, batch_size=64, model="cnn", work=work)
    return run, evaluate.run(EvaluateOptions(run.path, work=work))


SENTENCE = "20 of 28 test patients also have training images"


def test_training_says_it(by_image, work, caplog):
    partition = fedcli.partition(by_image, by=["hospital"], work=work)
    caplog.clear()
    fedcli.train("fedavg", partition, rounds=1, batch_size=64, model="cnn", work=work)
    assert SENTENCE in caplog.text


def test_a_report_and_the_notes_of_a_page_say_it(scored, caplog):
    _, scores = scored
    report = fedcli.report([scores.path])
    assert SENTENCE in " ".join(report.to("markdown").split())
    assert SENTENCE in caplog.text
    assert SENTENCE in notes(report.rows)  # "Before you compare"


def test_a_model_card_says_it_among_the_known_failures(scored, tmp_path):
    _, scores = scored
    fedcli.report([scores.path]).cards(tmp_path)
    card = (tmp_path / "model-card.md").read_text()
    assert SENTENCE in card.partition("## Known failures")[2]


def test_other_images_of_the_same_dataset_are_compared_with_those_of_the_training(by_image, work):
    partition = fedcli.partition(by_image, by=["hospital"], hold_out="north", work=work)
    run = fedcli.train("fedavg", partition, rounds=1, batch_size=64, model="cnn", work=work)
    its_own = evaluate.run(EvaluateOptions(run.path, work=work))
    options = EvaluateOptions(run.path, on=by_image.path, work=work)
    others = evaluate.run(options)
    assert shared_patients.KEY not in its_own.body
    pool, _rows, test = holdings(by_image.path)
    trained = [parts["train"] for parts in holdings(partition.path).rows.values()]
    both = {*pool.patient[test]} & {*pool.patient[np.concatenate(trained)]}
    expected = {"shared": len(both), "of": len({*pool.patient[test]})}
    assert others.body[shared_patients.KEY] == {"unit": "patients", "test": expected}


def test_a_dataset_of_somebody_elses_keeps_its_patients_together_by_default():
    assert sources.USUAL["split"] == "unit"
    assert {*sources.USUAL["splits"]} == {"unit", "image"}


def test_a_comparison_says_it_once(scored, work):
    run, _ = scored
    partition = manifest.parent(run.path, "partition")
    other = fedcli.train("fedprox", partition, rounds=1, batch_size=64, model="cnn", work=work)
    compared = fedcli.compare([run, other], resamples=100, work=work)
    assert compared.words().count(SENTENCE) == 1
    assert SENTENCE in comparison.body(compared.comparison)["notes"]


def test_an_audit_says_it(scored):
    run, _ = scored
    audited = fedcli.audit(run, iterations=1)
    assert audited.body[shared_patients.KEY]["test"] == {"shared": 20, "of": 28}
    assert SENTENCE in audited.sentences()


def test_a_dataset_card_says_it_of_its_composition(scored, tmp_path):
    _, scores = scored
    fedcli.report([scores.path]).cards(tmp_path)
    card = (tmp_path / "dataset-card.md").read_text()
    assert SENTENCE in card.partition("## Composition")[2].partition("## ")[0]
