"""Patients on both sides of a hospital's split: in its description as far as its policy allows, and said by every stage."""

import json
from collections import Counter

import pytest
from hospitals import HOSPITALS, write_hospitals
from site_federation import plan, reached, sites_of, train_at

import fedcli
from fedcli.data import manifest, shared_patients
from fedcli.data.pool import holdings
from fedcli.reporting.rows import notes
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.sites.command import site as site_command
from fedcli.sites.description import SiteError, check_numbers, describe
from fedcli.sites.policy import Policy
from fedcli.sites.roster import gathered
from fedcli.stages.evaluate import run as evaluate_stage

KEY = shared_patients.KEY


def of(shared, of_all):
    return {"unit": "patients", "test": {"shared": shared, "of": of_all}}


SUMS = {
    "no site shares a patient": ({"a": of(0, 9), "b": None}, ""),
    "one": (
        {"a": of(0, 9), "b": of(1, 5)},
        "1 of 14 test patients (b: 1 of 5) also has training images at the same site",
    ),
    "all numbers are shown": (
        {"a": of(12, 40), "b": of(15, 20)},
        "27 of 60 test patients (a: 12 of 40, b: 15 of 20) also have training images at the same site",
    ),
    "one hides its number": (
        {"a": of(None, 40), "b": of(15, 20)},
        "some of 60 test patients (a: some of 40, b: 15 of 20) also have training images at the same site; "
        '"some" is a number that is hidden by the sites\' policies',
    ),
    "one does not know its patients": (
        {"a": None, "b": of(15, 20)},
        "15 test patients (b: 15 of 20) also have training images at the same site",
    ),
    "one counts lesions": (
        {"a": of(12, 40), "b": of(15, 20) | {"unit": "lesions"}},
        "27 of 60 test lesions or patients (a: 12 of 40, b: 15 of 20) also have training images at the same site",
    ),
    "many sites": (
        {name: of(10, 20) for name in "abcdef"},
        "60 of 120 test patients (a: 10 of 20, b: 10 of 20, c: 10 of 20, d: 10 of 20, 2 more sites) also have "
        "training images at the same site",
    ),
    "validation images too": (
        {"a": of(12, 40) | {"val": {"shared": 11, "of": 30}}, "b": of(0, 20)},
        "12 of 60 test patients (a: 12 of 40) and 11 of 30 validation patients (a: 11 of 30) also have training "
        "images at the same site",
    ),
}


@pytest.mark.parametrize("case", SUMS)
def test_the_sites_together_are_said_in_one_sentence(case):
    entries, sentence = SUMS[case]
    assert shared_patients.of_body(shared_patients.of_sites(entries)) == sentence


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def data(work):
    """A partition by hospital of images that were divided image by image."""
    dataset = fedcli.prepare(
        "images",
        raw=write_hospitals(work / "raw", count=180),
        size=8,
        split="image",
        group=["sex"],
        site="hospital",
        patient="patient",
        work=work,
        jobs=1,
        test=0.4,
    )
    return fedcli.partition(dataset, by=["hospital"], work=work).path


def counted(data, client):
    """Shared and all test patients of a client, counted anew."""
    pool, rows, _ = holdings(data)
    train = Counter(pool.patient[rows[client]["train"]].tolist())
    test = Counter(pool.patient[rows[client]["test"]].tolist())
    return sum(patient in train for patient in test), len(test)


@pytest.mark.parametrize("smallest", [1, 3, 10])
def test_a_description_has_the_count_as_far_as_the_policy_allows(data, smallest):
    for client in HOSPITALS:
        shared, of_all = counted(data, client)
        described = describe(data, client, client, smallest)[KEY]["test"]
        is_small = shared < smallest or 0 < of_all - shared < smallest
        assert described["shared"] == (None if is_small else shared)
        assert described["of"] == (None if of_all < smallest else of_all)
        sentence = shared_patients.sentence(describe(data, client, client, smallest)[KEY])
        assert ("hidden by its policy" in sentence) == is_small


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"test": {"shared": 9, "of": 8}}, "its numbers of patients of 'test'"),
        ({"test": {"shared": 1, "of": 8000}}, "its numbers of patients of 'test'"),
        ({"val": {"shared": -1, "of": 0}}, "its numbers of patients of 'val'"),
        ({"unit": "tests passed, and none of the"}, "none of patients, lesions"),
    ],
)
def test_counts_that_cannot_be_are_refused(data, change, sentence):
    content = describe(data, "north", "north", 1)
    content[KEY] = content[KEY] | change
    with pytest.raises(SiteError, match=sentence):
        check_numbers(content)


@pytest.mark.parametrize("action", ["describe", "check"])
def test_a_hospital_reads_it_before_anything_is_sent(data, work, tmp_path, action, caplog, capsys):
    policy = tmp_path / "policy.toml"
    policy.write_text("smallest_cell = 1\n")
    site_command(action, data=data, client="north", policy=policy, work=work)
    shared, of_all = counted(data, "north")
    assert f"{shared} of {of_all} test patients also have training images" in caplog.text
    if action == "check":
        output = " ".join(capsys.readouterr().out.split())
        assert "how many patients of test images also have training images" in output


@pytest.mark.parametrize("smallest", [1, 8])
def test_every_stage_of_a_coordinator_without_images_says_it(
    data, tmp_path, monkeypatch, caplog, smallest
):
    sites = sites_of(data, tmp_path / "sites", HOSPITALS, policy=Policy(smallest_cell=smallest))
    folder = tmp_path / "described"
    folder.mkdir()
    for client, site in sites.items():
        (folder / f"{client}.json").write_text(json.dumps(site.description))
    federation = gathered([folder], tmp_path)
    counts = [counted(data, client) for client in HOSPITALS]
    shared, of_all = (sum(column) for column in zip(*counts, strict=True))
    beginning = f"{shared} of {of_all} test patients (" if smallest == 1 else "some"
    sentence = shared_patients.of_body(manifest.read(federation).body)
    assert sentence.startswith(beginning)
    for client, (of_client, tested) in zip(HOSPITALS, counts, strict=True):
        is_hidden = of_client < smallest or 0 < tested - of_client < smallest
        assert f"{client}: {'some' if is_hidden else of_client} of {tested}" in sentence
    shared_patients.warn(federation)  # as train does
    assert sentence in caplog.text
    run = train_at(sites, federation, plan(), tmp_path, out=tmp_path / "run")
    reached(monkeypatch, sites)
    scores = evaluate_stage(EvaluateOptions(run, work=tmp_path, engine="here:x"))
    report = fedcli.report([scores.path])
    assert sentence in " ".join(report.to("markdown").split())
    assert sentence in notes(report.rows)
    report.cards(tmp_path)
    card = (tmp_path / "model-card.md").read_text()
    assert sentence in card.partition("## Known failures")[2]
