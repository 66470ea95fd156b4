"""Sentences of the first screen: data, question, worst groups and intervals, from rows with numbers made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedcli.errors import UsageError
from fedcli.reporting.page import lead
from fedcli.reporting.rows import base_of
from fedcli.scores.table import Score, Where

NOISE = {"kind": "gaussian-noise", "severity": 2, "clients": ["east"]}


class FakeRow(SimpleNamespace):
    """A system of one run whose numbers are looked up by metric and group."""

    def percent(self, where):
        return self.numbers.get(where.group or where.measure or where.version, np.nan)

    def bounds(self, where):
        return self.intervals.get(where.version, (np.nan, np.nan))


def system(label="FedAvg", **changes):
    scores = {
        "dataset": "scans",
        "sample": False,
        "roster_size": 3,
        "rounds": 5,
        "corruption": None,
        "options": {},
        "data": {},
        "groups": {"sex": {"clean": {}}},
        "usual": ("accuracy", "auc_ovo_macro"),
        "versions": {"clean": {}, "corrupted": {}},
        "method": label.lower(),
        "unscored": None,
        "label": label,
    }
    row = {
        "label": label,
        "name": label,
        "runs": 1,
        "drawn": "seeds",
        "at": "last5",
        "attributes": ["sex"],
        "numbers": {},
        "intervals": {},
    }
    for name, value in changes.items():
        part = scores if name in scores and name != "label" else row
        part[name] = value
    members = {"f": Score(count=40), "m": Score(count=50)}
    row["scores"] = SimpleNamespace(**scores, members=lambda attribute: members)
    return FakeRow(**row, each=[])


def test_a_page_is_named_after_its_methods_and_data():
    rows = [system("FedAvg"), system("FedProx"), system("FedAvg")]
    assert lead.heading(rows) == "FedAvg and FedProx on scans"
    other = system("FedAvg", dataset="slides")
    assert lead.heading([system(), other]) == "FedAvg on scans, slides"


def test_six_methods_are_counted():
    rows = [system(f"method {k}") for k in range(6)]
    assert lead.heading(rows) == "6 methods on scans"
    assert lead.heading(rows[:5]).startswith("method 0, method 1, method 2, method 3 and method 4")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(1, 1, "1 client"), (3, 3, "3 clients"), (1, 4, "1 to 4 clients")],
)
def test_a_span_of_numbers_has_the_fitting_noun(low, high, words):
    assert lead._span("client", [low, high]) == words


def test_one_system_is_said_with_its_clients_rounds_and_seeds(monkeypatch):
    monkeypatch.setattr(lead, "card_of", lambda scores: {"title": "CT scans", "classes": ["ill"]})
    assert lead.sentence([system()]) == (
        "CT scans. FedAvg trained by 3 clients for 5 rounds with 1 seed, on images as they are."
    )


def test_two_systems_are_counted_and_each_has_the_seeds(monkeypatch):
    monkeypatch.setattr(lead, "card_of", lambda scores: {"title": "Files: of any kind"})
    rows = [system(runs=3), system("FedProx", runs=3, rounds=1)]
    assert lead.sentence(rows) == (
        "Files. 2 methods trained by 3 clients for 1 to 5 rounds with 3 seeds each, on images as they are."
    )
    rows[1].runs = 2
    assert "seeds" not in lead.sentence(rows)
    folds = system(runs=5, drawn="folds")
    assert "for 5 rounds with 5 folds, on" in lead.sentence([folds])
    seeds = system("FedProx", runs=5)
    assert "for 5 rounds, on" in lead.sentence([folds, seeds])


def test_a_corruption_is_said_with_its_clients():
    rows = [system(corruption=NOISE), system("FedProx", corruption=NOISE)]
    assert lead._corrupted(rows) == (
        "with gaussian noise of severity 2 on 1 client (east) and on a copy of the test set"
    )
    many = NOISE | {"clients": ["a", "b", "c", "d"]}
    assert " on 4 clients and on " in lead._corrupted([system(corruption=many)])


def test_corruptions_that_differ_by_client_are_all_said():
    parts = [NOISE, {"kind": "gaussian-blur", "severity": 5, "clients": ["west"]}]
    mixed = {"kind": "mixed", "severity": 5, "clients": ["east", "west"], "each": parts}
    assert lead._corrupted([system(corruption=mixed)]) == (
        "with gaussian noise of severity 2 or gaussian blur of severity 5 on 2 clients (east, west) "
        "and on a copy of the test set"
    )


def test_an_attack_is_said_and_its_images_are_not_called_unchanged():
    attack = {"kind": "backdoor", "strength": 0.5, "clients": ["east"]}
    data = {"partition": SimpleNamespace(options={"attack": attack})}
    by_east = "with an attack by east (backdoor 0.5)"
    assert lead._corrupted([system(data=data)]) == by_east
    flip = system(data=data, options={"augment": "flip"})
    assert lead._corrupted([flip]) == f"on images augmented by flip, {by_east}"
    noisy = system(data=data, corruption=NOISE)
    assert lead._corrupted([noisy]).endswith(f" on a copy of the test set, {by_east}")
    other = lead._corrupted([system(data=data), system()])
    assert other == "on data that are not the same for all (see the notes)"


def test_systems_of_other_corruptions_are_not_called_the_same():
    rows = [system(corruption=NOISE), system(corruption=NOISE | {"severity": 3})]
    different = "on data that are not the same for all (see the notes)"
    assert lead._corrupted(rows) == different
    result = lead._corrupted([system(), rows[0]])
    assert result == different


def test_an_augmentation_is_named_where_all_share_it():
    flip = system(options={"augment": "flip"})
    assert lead._corrupted([flip]) == "on images without corruption, augmented by flip"
    some = "on images without corruption, augmented for some of the methods"
    assert lead._corrupted([flip, system()]) == some
    other = system(options={"augment": "affine"})
    assert lead._corrupted([flip, other]) == "on images without corruption, augmented"
    result = lead._corrupted([system(options={"augment": "none"})])
    assert result == "on images as they are"


def test_the_question_names_the_others_and_the_attributes():
    assert lead.question([system(attributes=[])]) == "How good is FedAvg?"
    single = "How good is FedAvg, and is it as good for every group by sex?"
    assert lead.question([system()]) == single
    rows = [system(), system("FedProx"), system("FedBN")]
    several = "Is FedProx or FedBN better than FedAvg, and for every group by sex?"
    assert lead.question(rows) == several
    rows += [system("Ditto"), system("FedHEAL")]
    assert lead.question(rows).startswith("Is any of the others better than FedAvg")


def test_few_names_are_listed_and_many_counted():
    assert lead._named([]) == ""
    assert lead._named(["a", "b"]) == "2: a, b"
    assert lead._named(list("abcdefgh")) == "8"


@pytest.fixture
def reliable(monkeypatch):
    monkeypatch.setattr(lead, "small_groups", lambda scores, attribute: {})


def test_the_worst_group_is_said_with_its_gap(reliable):
    row = system(numbers={"f": 70.04, "m": 80.0, "gap": 9.96})
    assert list(lead._groups([row])) == [
        "By sex, f has the lowest AUC on clean images: 70.0 %; the gap to the best group is 10.0 points."
    ]


def test_the_gap_is_that_of_the_scores_as_they_are_printed(reliable):
    column = {"f": Score(count=40), "m": Score(count=50)}
    row = system(
        numbers={"f": 58.149, "m": 59.751, "gap": 1.602},
        groups={"sex": {"clean": {"auc_ovo_macro": column}}},
    )
    (sentence,) = lead._groups([row])
    assert sentence.endswith("58.1 %; the gap to the best group is 1.7 points.")


def test_the_worst_groups_of_two_systems_have_their_names(reliable):
    fedavg = system(numbers={"f": 70.0, "m": 80.0, "gap": 10.0})
    fedprox = system("FedProx", numbers={"f": 75.0, "m": 72.5, "gap": 2.5})
    (sentence,) = lead._groups([fedavg, fedprox])
    assert sentence.startswith("By sex, f or m has the lowest AUC on clean images: ")
    scores, gaps = sentence.split(": ")[1].split("; ")
    assert scores == "70.0 % (FedAvg), 72.5 % (FedProx)"
    assert gaps == "the gap to the best group is 10.0 and 2.5 points."


def test_a_system_whose_groups_tie_names_no_worst_group(reliable):
    tied = system(numbers={"f": 70.0, "m": 70.0, "gap": 0.0})
    (sentence,) = lead._groups([tied])
    assert sentence.startswith("By sex, no group scores lower than another in AUC")
    printed_apart = system(numbers={"f": 63.74999999999999, "m": 63.75000000000001, "gap": 0.1})
    (sentence,) = lead._groups([printed_apart])
    assert sentence.startswith("By sex, no group scores lower than another in AUC")
    other = system("FedProx", numbers={"f": 75.0, "m": 72.5, "gap": 2.5})
    (sentence,) = lead._groups([tied, other])
    assert sentence.startswith("By sex, m has the lowest AUC")


def test_of_many_systems_the_worst_groups_are_said_as_a_span(reliable):
    rows = []
    for k in range(5):
        numbers = {"f": 70.0 + k, "m": 80.0, "gap": 10.0 - k}
        rows.append(system(f"method {k}", numbers=numbers))
    (sentence,) = lead._groups(rows)
    assert sentence.endswith("70.0 to 74.0 %, up to 10.0 points below the best group.")


def test_a_worst_group_of_few_images_is_called_unreliable(monkeypatch):
    monkeypatch.setattr(lead, "small_groups", lambda scores, attribute: {"f": "few"})
    row = system(numbers={"f": 70.0, "m": 80.0, "gap": 10.0})
    row.each = [row.scores]
    (sentence,) = lead._groups([row])
    assert "f (not a reliable score) has the lowest AUC" in sentence


def test_a_worst_group_is_called_unreliable_where_it_is_small_in_every_system(monkeypatch):
    rows = []
    for label in ("FedAvg", "FedProx"):
        row = system(label, numbers={"f": 70.0, "m": 80.0, "gap": 10.0})
        row.each = [row.scores]
        rows.append(row)
    small = {"FedAvg": ["f"], "FedProx": []}
    monkeypatch.setattr(lead, "small_groups", lambda scores, _: small[scores.label])
    monkeypatch.setattr(lead, "small_decides", lambda *_: [])
    (sentence,) = lead._groups(rows)
    assert "not a reliable" not in sentence
    small["FedProx"] = ["f"]
    (sentence,) = lead._groups(rows)
    assert "f (not a reliable score) has the lowest AUC" in sentence


def test_a_group_alone_and_a_hidden_one_are_no_worst_group():
    result = lead._worst(system(numbers={"f": 70.0}), "sex")
    assert result is None
    row = system(numbers={"f": 70.0, "m": 80.0})
    assert lead._worst(row, "sex") == (["f"], 70.0)
    tied = system(numbers={"f": 70.0, "m": 70.0})
    assert lead._worst(tied, "sex") == ([], 70.0)
    hidden = {"f": SimpleNamespace(hidden=True)}
    row.scores.members = lambda attribute: hidden
    assert lead._worst(row, "sex") is None


def test_the_scores_of_one_system_have_their_intervals(monkeypatch):
    monkeypatch.setattr(lead, "versions", lambda scores: {"corrupted": "noisy"})
    row = system(
        numbers={"clean": 81.26, "corrupted": 70.0},
        intervals={"clean": (75.0, 88.04)},
    )
    auc, accuracy, *_ = lead._scores_of(row)
    assert auc == (
        "FedAvg scores 81.3 % (95 % interval 75.0 to 88.0) on clean images and 70.0 % on noisy images in AUC, one-vs-one."
    )
    assert accuracy.endswith(" in accuracy.")


def test_a_score_without_an_interval_has_no_cell():
    row = system(numbers={"clean": 81.26}, intervals={"clean": (75.0, 88.04)})
    result = lead._interval(row, Where("clean", metric="auc_ovo_macro"))
    assert result == "81.3 (75.0 – 88.0)"
    result = lead._interval(row, Where("corrupted", metric="auc_ovo_macro"))
    assert result is None


def test_the_reference_is_found_by_method_label_and_name():
    rows = [system("FedAvg"), system("FedProx", name="FedProx (3 seeds)", method="fedprox")]
    assert base_of(rows, "") == "FedAvg"
    for reference in ("fedprox", "FedProx", "FedProx (3 seeds)"):
        assert base_of(rows, reference) == rows[1].name
    with pytest.raises(UsageError, match="no row of the report is named 'FedProxy'"):
        base_of(rows, "FedProxy")


def test_a_made_up_sample_is_said_once(monkeypatch):
    monkeypatch.setattr(lead, "card_of", lambda scores: {})
    rows = [system(sample=True), system("FedProx", sample=True), system("FedBN")]
    assert lead.generated(rows) == lead.MADE_UP.format("scans")
    assert lead.generated(rows[2:]) == ""


def test_facts_that_systems_do_not_share_are_left_out(monkeypatch):
    facts = {"Test images": "40", "Classes": "2: ill, well", "Model": ""}
    other = facts | {"Test images": "50"}
    rows = {"a": facts, "b": other}
    monkeypatch.setattr(lead, "_facts", lambda row: rows[row])
    assert lead.facts(["a", "b"]) == [("Classes", "2: ill, well")]
    assert lead.facts(["a"]) == [("Test images", "40"), ("Classes", "2: ill, well")]


def scores_on(count, patients):
    """Scores of a test set of so many images and patients."""
    score = Score([0.5], [1], count, interval="percentile by patient or lesion", units=patients)
    return SimpleNamespace(
        images=count,
        noun="patient",
        unscored=None,
        versions={"clean": {"accuracy": score}},
        classes=["ill", "well"],
        clients={},
        roster_size=3,
        model={},
        several_labels=False,
        answers=lambda: 2,
        chance_in_words=lambda: "chance",
    )


def test_the_size_of_the_test_set_is_left_out_where_folds_differ():
    row = system()
    row.scores = scores_on(40, 20)
    row.each = [row.scores, scores_on(40, 20)]
    assert dict(lead.facts([row]))["Test images"] == "40 of 20 patients"
    row.each[1] = scores_on(41, 20)
    assert "Test images" not in dict(lead.facts([row]))


def test_the_legend_of_intervals_has_no_number_where_test_sets_differ(monkeypatch):
    monkeypatch.setattr(lead, "versions", lambda scores: {})

    def legend(*each):
        row = system(numbers={"clean": 80.0}, intervals={"clean": (75.0, 85.0)})
        row.each = each
        (table,) = lead.intervals([row], ["accuracy"])
        assert table.title == "Scores with 95 % intervals by patient"
        return table.legend

    same = "resamples of the 20 patients of the test set. It"
    assert same in legend(scores_on(40, 20), scores_on(41, 20))
    assert "resamples of the patients of each test set. It" in legend(
        scores_on(40, 20), scores_on(40, 21)
    )


def test_the_unit_of_an_interval_is_that_of_the_score():
    assert lead._is_by_patient(Score(interval="bca by patient or lesion"))
    assert not lead._is_by_patient(Score(interval="percentile by image"))
