"""Scores over sites that hide small cells: every number is that of all images together, or is called hidden."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import random_federations as federations
from made_plans import train
from random_federations import Federation, Hospital
from report_tables import texts
from site_federation import chain_with_tests, plan

from fedcli.comparison.tested import compare
from fedcli.errors import FedcliError
from fedcli.reporting import comparison as texts_of_comparison
from fedcli.reporting import pipelines, single_runs
from fedcli.reporting.cards import cards
from fedcli.reporting.rows import rows
from fedcli.scores.evaluation_options import ReportOptions
from fedcli.scores.nested import nested
from fedcli.sites import answers
from fedcli.sites.description import SiteError
from fedcli.sites.tallies import hidden_cells, to_arrays
from fedcli.stages.report import Report

CLASSES = ["keratosis", "melanoma", "nevus"]
FALSE = "no image of", "no test image", "fewer than 30", "is unknown for"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The run.json of a run, whose words scores begin with."""
    work = tmp_path_factory.mktemp("run")
    return train(chain_with_tests(work), plan(rounds=1), work=work, out=work / "run")


@pytest.mark.parametrize("seed", range(10))
def test_every_number_is_that_of_all_images_together_or_hidden(seed, run, tmp_path):
    federation = federations.drawn(np.random.default_rng(seed))
    scores = federations.scored(federation, run, tmp_path / "scores")
    if scores:
        assert not federations.faults(federation, scores, tmp_path / "scores")
    else:
        assert not federations.covered(federation)


@pytest.mark.parametrize("first_seed", range(0, 120, 30))
def test_no_small_cell_follows_from_the_sums_that_sites_say(first_seed):
    for seed in range(first_seed, first_seed + 30):
        assert not federations.revealed(federations.drawn(np.random.default_rng(seed)))


def test_cells_are_hidden_until_no_sum_gives_a_small_one_away():
    images = np.array([[5, 40, 0], [30, 20, 0], [12, 60, 0]])
    secret = hidden_cells(images, 10, np.zeros(3, bool))
    expected = [[True, True, False], [False, False, False], [True, True, False]]
    assert secret.tolist() == expected
    assert not hidden_cells(images, 5, np.zeros(3, bool)).any()
    bands = np.array([[3, 11, 40, 0], [12, 13, 50, 0]])  # the two bands that lack a cell are enough
    result = hidden_cells(bands, 10, np.zeros(2, bool)).any(0).tolist()
    assert result == [True, True, False, False]


def hospital(cells, unknown=0, smallest=10, seed=0):
    """A site with these images by class and sex. unknown: women with a nevus whose sex is not known."""
    y = []
    sex = []
    for c, (women, men) in enumerate(cells):
        y += [c] * (women + men)
        sex += [0] * women + [1] * men
    y = np.array(y)
    sex = np.array(sex)
    women_with_nevus = np.flatnonzero((y == 2) & (sex == 0))
    sex[women_with_nevus[:unknown]] = -1
    rng = np.random.default_rng([seed, len(y)])
    logits = []
    for _ in federations.ROUNDS:
        noise = rng.normal(0, 1, (len(y), 3))
        logits.append(noise + np.eye(3)[y])
    age = np.arange(len(y)) % 2
    return Hospital(y, {"sex": sex, "age": age}, logits, smallest)


def two_hospitals(seed=0):
    """A hides its women with keratosis; B shows all of its own, and no group is hidden by age."""
    attributes = {"sex": ["female", "male"], "age": ["young", "old"]}
    hospital_a = hospital([(5, 40), (20, 40), (30, 40)], seed=seed)
    hospital_b = hospital([(16, 30), (20, 30), (14, 30)], seed=seed)
    return Federation(CLASSES, attributes, {"skin-a": hospital_a, "skin-b": hospital_b})


def test_a_hidden_group_is_called_hidden_wherever_it_is_printed(run, tmp_path):
    scores = federations.scored(two_hospitals(), run, tmp_path / "scores")
    words = "25 of 105 images are hidden by the sites' policies (cells under 10)"
    assert scores.grouped["sex"].hidden["female"] == words
    assert scores.grouped["age"].hidden == {}
    assert "covers" not in scores.warning
    path = tmp_path / "scores" / "scores.json"
    report = Report([path], ReportOptions())
    (row,) = rows([path])
    card = cards(row)[0]
    outputs = [report.to("markdown"), report.to("html"), report.to("json"), *_texts(card)]
    for text in outputs:
        for false in FALSE:
            assert false not in text
    assert words in outputs[0]
    assert words.replace("'", "&#39;") in outputs[1]
    assert any(words in text for text in _texts(card, "failures"))
    for text in outputs:
        assert "worst group by sex" not in text
    (by_sex,) = [table for table in _section(card, "groups").tables if "by sex" in table.title]
    result = texts(by_sex)
    assert result == [
        ["female", "hidden", "-"],
        ["male", "hidden", "-"],
    ]
    by_sex_nested = nested(scores)["groups"]["sex"]["clean"]["last_round"]
    assert by_sex_nested["groups"]["female"]["hidden"]
    assert by_sex_nested["groups"]["female"]["count"] == 105
    assert by_sex_nested["between"]["accuracy"]["gap"] is None
    assert by_sex_nested["unknown"] == 0
    assert nested(scores)["groups"]["age"]["clean"]["last_round"]["between"]["accuracy"]["gap"]


def test_other_attributes_than_those_asked_for_hide_nothing(run, tmp_path):
    scores = federations.scored(
        two_hospitals(), run, tmp_path / "scores", attributes_scored=["age"]
    )
    assert list(scores.groups) == ["age"]
    assert not scores.grouped["age"].hidden


def test_the_gap_of_two_tables_is_one_number(run, tmp_path):
    scores = federations.scored(two_hospitals(), run, tmp_path / "scores")
    (row,) = rows([tmp_path / "scores" / "scores.json"])
    metric = scores.usual[1]
    (by_age,) = [table for table in single_runs.by_group(row.scored[0]) if "by age" in table.title]
    gap = pipelines.of_row(row)["groups"]["age"]["clean"]["gap"]
    assert "mean of rounds 1 and 2" in by_age.title
    result = [cell.text for cell in by_age.rows[-1]]
    assert result == ["gap", "", f"{100 * gap:.1f}"]
    outcome = pipelines.of_row(row)["groups"]["sex"]["clean"]["gap"]
    assert outcome is None
    for line in by_age.rows[:-1]:
        mean = scores.groups["age"]["clean"][metric][line[0].text].mean
        assert line[2].text.startswith(f"{100 * mean:.1f}")


def _section(card, name):
    return next(section for section in card.sections if section.name == name)


def _texts(card, name=""):
    sections = [_section(card, name)] if name else card.sections
    return [text for section in sections for text in (*section.notes, *section.text)]


def test_compare_tests_no_gap_of_some_groups_alone(run, tmp_path):
    paths = []
    for seed in range(2):
        federations.scored(two_hospitals(seed), run, tmp_path / str(seed))
        paths.append(tmp_path / str(seed) / "scores.json")
    compared = compare(paths[:1], paths[1:], resamples=100)
    by_sex = compared.groups["sex"]
    by_age = compared.groups["age"]
    assert not by_sex.gaps
    assert not by_sex.each
    assert by_age.gaps
    assert by_age.each
    for why in by_sex.small.values():
        assert "hidden by the sites' policies" in why
    assert set(by_sex.small) == {"female", "male"}
    assert by_sex.unknown == 0


def test_a_class_that_one_site_hides_is_in_no_score(run, tmp_path):
    federation = two_hospitals()
    cells = [(3, 4), (20, 40), (30, 90)]
    hospitals = federation.hospitals | {"skin-a": hospital(cells)}
    federation = Federation(CLASSES, federation.attributes, hospitals)
    scores = federations.scored(federation, run, tmp_path / "scores")
    assert scores.warning == (
        "no score covers keratosis and melanoma, whose test images skin-a hides (classes under 10 images, and others "
        "that would reveal them): 164 of 327 test images are scored"
    )
    assert scores.images == 164
    assert scores.versions["clean"]["auc_ovo_macro"].last is None


def test_sites_that_hide_other_classes_are_named_as_either(run, tmp_path):
    federation = two_hospitals()
    hospitals = {"skin-a": hospital([(3, 4), (20, 40), (30, 90)])}
    hospitals["skin-b"] = hospital([(2, 3), (20, 30), (60, 60)])
    federation = Federation(CLASSES, federation.attributes, hospitals)
    scores = federations.scored(federation, run, tmp_path / "scores")
    assert "whose test images skin-a or skin-b hides (classes under 10" in scores.warning


def test_an_answer_that_hides_what_is_no_group_or_lacks_images_without_a_word_is_refused():
    federation = two_hospitals()
    skin_a = federation.hospitals["skin-a"]
    tallies, hidden_groups = federations.shown_by(federation, skin_a)
    whole = {"left_out": 0, "hidden": hidden_groups, "smallest_cell": 10}
    arrays = to_arrays({"clean": tallies})
    facts = federations.known(federation, "skin-a")
    assert answers.counts((whole, arrays), facts).hidden_groups == {"sex/0", "sex/1"}
    cases = (
        ({"hidden": ["sex/7"]}, "which are no groups"),
        ({"hidden": "sex/0"}, "which are no groups"),
        ({"smallest_cell": 0}, "its smallest cell is"),
        ({"hidden": []}, "test images of sex female, where it described 55"),
    )
    for change, sentence in cases:
        with pytest.raises(SiteError, match=sentence):
            answers.counts((whole | change, arrays), facts)


def test_scores_of_no_class_are_refused(run, tmp_path):
    federation = two_hospitals()
    hospitals = {name: hospital([(3, 4), (5, 4), (6, 3)]) for name in federation.hospitals}
    federation = Federation(CLASSES, federation.attributes, hospitals)
    with pytest.raises(FedcliError, match="no class has enough test images at every site"):
        federations.scored(federation, run, tmp_path / "scores", refused=True)


def of_one_class():
    """Both show their nevi alone; B hides melanomas that A shows."""
    attributes = {"sex": ["female", "male", "diverse"], "age": ["young", "old"]}
    hospitals = {
        "skin-a": hospital([(3, 4), (20, 40), (30, 90)]),
        "skin-b": hospital([(5, 2), (3, 5), (20, 70)]),
    }
    return Federation(CLASSES, attributes, hospitals)


def test_the_recall_of_one_class_is_called_nothing_else(run, tmp_path):
    scores = federations.scored(of_one_class(), run, tmp_path / "scores")
    path = tmp_path / "scores" / "scores.json"
    report = Report([path], ReportOptions())
    (row,) = rows([path])
    words = (
        "210 of 292 test images are scored, those of nevus; 82 are not, as sites hide images of their "
        "classes (cells under 10); of one class alone there is accuracy and no other score"
    )
    assert scores.unscored.sentence == words
    shown = {score.last for where, score in scores.table.items() if where.metric != "accuracy"}
    assert shown == {None}
    assert words in " ".join(report.to("markdown").split())
    assert words.replace("'", "&#39;") in report.to("html")
    assert (("Test images", words)) in cards(row)[0].facts
    brief = pipelines.of_row(row)
    assert brief["unscored"]["sentence"] == words
    assert brief["scores"]["balanced_accuracy"]["clean"]["mean"] is None
    assert brief["chance"] == {}
    (broken,) = pipelines.broken(pipelines.limits(["balanced accuracy < 50"]), [row])
    assert "cannot be checked, as there is no such number" in broken
    for text in (report.to("markdown"), report.to("html")):
        assert "balanced accuracy, %" not in text.lower()
        assert "no image defines" not in text


def test_comparing_one_class_says_why_there_is_no_score(run, tmp_path):
    paths = []
    for name in ("a", "b"):
        federations.scored(of_one_class(), run, tmp_path / name)
        paths.append(tmp_path / name / "scores.json")
    with pytest.raises(FedcliError, match="210 of 292 test images are scored") as raised:
        compare(paths[:1], paths[1:], resamples=100)
    assert raised.value.hint == "compare them with --metric accuracy"
    compared = compare(paths[:1], paths[1:], resamples=100, metrics=["accuracy"])
    assert [row.metric for row in compared.rows] == ["accuracy"]
    assert "of the 210 scored images" in texts_of_comparison.legend(compared)


def test_no_score_that_is_not_there_is_called_unreliable(run, tmp_path):
    federation = two_hospitals()
    attributes = {"sex": ["female", "male", "diverse"], "age": ["young", "old"]}  # diverse: nobody
    federation = Federation(CLASSES, attributes, federation.hospitals)
    paths = []
    for name in ("a", "b"):
        federations.scored(federation, run, tmp_path / name)
        paths.append(tmp_path / name / "scores.json")
    compared = compare(
        paths[:1], paths[1:], resamples=100
    )  # a group without images has no resamples
    notes = texts_of_comparison.notes(compared)
    of_women = [note for note in notes if note.startswith("sex female")]
    assert of_women == [
        "sex female: 25 of 105 images are hidden by the sites' policies (cells under 10), so it is not "
        "compared"
    ]


def test_one_data_set_under_two_policies_is_called_that(run, tmp_path):
    federation = two_hospitals()
    federations.scored(federation, run, tmp_path / "open")
    stricter_b = replace(federation.hospitals["skin-b"], smallest=45)
    hospitals = federation.hospitals | {"skin-b": stricter_b}
    stricter = Federation(CLASSES, federation.attributes, hospitals)
    federations.scored(stricter, run, tmp_path / "strict")
    paths = [tmp_path / name / "scores.json" for name in ("open", "strict")]
    with pytest.raises(FedcliError, match="had different policies when they scored") as raised:
        compare(paths[:1], paths[1:], resamples=100)
    assert "all 315 test images" in raised.value.sentence
    assert "of 315 test images are scored" in raised.value.sentence
    assert "one policy of each site" in raised.value.hint
