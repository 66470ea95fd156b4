"""Answers of a site that cannot be true: the site is named, it is left out where others are enough, and it bends nothing."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from made_plans import train
from site_federation import OPEN, chain_with_tests, lines_of, plan, reached, sites_of, train_at

from fedcli.errors import FedcliError
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.sites.answers import MODELS, MOST_COLUMNS, SPARE, most_bytes, odd_ones
from fedcli.sites.description import SiteError, describe, hidden
from fedcli.sites.roster import gathered
from fedcli.stages.evaluate import run as evaluate_stage


def scalars(**changed):
    return lambda answer: ({**answer[0], **changed}, answer[1])


def array(name, make):
    return lambda answer: (answer[0], {**answer[1], name: make(answer[1].get(name))})


def first_is(value):
    """The array with another first number."""

    def changed(numbers):
        numbers = numbers.copy()
        numbers.flat[0] = value
        return numbers

    return changed


LONG = np.array([2**63 - 1, 2**63 - 1, 22])  # as int64 their sum is 20

MANY = {f"columns/{number}": np.zeros(1) for number in range(MOST_COLUMNS + 1)}


LIES = {  # method, what becomes of an answer, what is said of it
    "a million million images": (
        "fedavg",
        scalars(n=10**12),
        "it answered of 1000000000000 training images, and desc",
    ),
    "a number of 400 digits": (
        "fedavg",
        scalars(n=10**400),
        "it answered of 10000.* training images",
    ),
    "steps": ("fedavg", scalars(steps=10**400), "local steps, where 20 images take 3"),
    "a huge number": (
        "fedavg",
        array("theta", first_is(3e38)),
        r"its model has numbers beyond 1e\+15",
    ),
    "a long update": (
        "fedavg",
        array("theta", lambda a: a + 1e9),
        "its update has a length of .*, the model",
    ),
    "a long column": (
        "scaffold",
        array("columns/control_change", lambda a: a * 2**40),
        "its control_change has",
    ),
    "a variance below 0": (
        "fedavg",
        array("theta", lambda a: -a - 1),
        "the variance .*running_var' of its mod",
    ),
    "a model of another shape": (
        "fedavg",
        array("theta", lambda a: a[1:]),
        r"a model of shape \[\d+\], not \[\d+\]$",
    ),
    "a model of another type": (
        "fedavg",
        array("theta", lambda a: a.astype("float64")),
        "a model of type float64, not float32",
    ),
    "an array that nobody asked for": (
        "fedavg",
        array("x", lambda _: np.zeros(2)),
        "an array 'x', which nobody asked for",
    ),
    "more columns than a method has": (
        "fedavg",
        lambda answer: (answer[0], {**answer[1], **MANY}),
        "it answered with 1001 columns, and no method has over 1000",
    ),
    "an endless loss": (
        "fedavg",
        array("loss", lambda a: np.array(np.inf, np.float32)),
        "answered without its loss",
    ),
    "losses": (
        "fedavg",
        array("loss", lambda a: np.zeros(3, np.float32)),
        "answered without its loss",
    ),
    "a column more": (
        "fedavg",
        array("columns/x", lambda _: np.zeros(2)),
        "sent the column 'x' in another",
    ),
    "a longer column": (
        "scaffold",
        array("columns/control_change", lambda a: a[1:]),
        "'control_change' in another",
    ),
    "another type": (
        "qffl",
        array("columns/loss_before", lambda a: a.astype("float64")),
        "'loss_before' in another",
    ),
    "a column of NaN": (
        "qffl",
        array("columns/loss_before", lambda a: a * np.nan),
        "'loss_before' is not finite",
    ),
    "more of a class": (
        "fediic",
        array("columns/class_images", lambda a: a * 3),
        "'class_images' counts more than",
    ),
    "a sum run over": (
        "fediic",
        array("columns/class_images", lambda a: LONG),
        "'class_images' counts more than",
    ),
    "a class below 0": (
        "fediic",
        array("columns/class_images", lambda a: a - 9),
        "'class_images' counts more than",
    ),
    "another class": (
        "fediic",
        array("columns/class_images", lambda a: a + np.array([1, -1, 0])),
        "other numbers of images",
    ),
    "validation": (
        "fedmrl",
        array("columns/validation_images", lambda a: a + 1),
        "'validation_images' is not within",
    ),
}


def lying(change, round=1, client="south"):
    def changed(who, question, answer):
        if who == client and question.get("round") == round:
            return change(answer)
        return answer

    return changed


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named_and_the_run_goes_on_without_its_site_or_with_honest_ones(
    data, tmp_path, lie
):
    method, change, sentence = LIES[lie]
    sites = sites_of(data, tmp_path / "sites", policy=OPEN)
    lie = {"change": lying(change)}
    with pytest.raises(SiteError, match=f"^site south.*{sentence}") as error:
        train_at(sites, data, plan(method), tmp_path, out=tmp_path / "ended", **lie)
    assert len(error.value.sentence) < 400
    assert error.value.hint
    out = tmp_path / "left"
    run = train_at(sites, data, plan(method), tmp_path, out=out, min_clients=1, **lie)
    first_line, second_line = lines_of(run)
    assert list(first_line["absent"]) == ["south"]
    assert "absent" not in second_line


def test_a_run_that_a_lie_has_ended_comes_with_honest_sites_to_its_usual_bytes(data, tmp_path):
    usual = train(data, plan(), work=tmp_path, out=tmp_path / "usual")
    sites = sites_of(data, tmp_path / "sites")
    lie = array("theta", first_is(3e38))
    with pytest.raises(SiteError, match="site south: its model has numbers beyond"):
        train_at(sites, data, plan(), tmp_path, out=tmp_path / "run", change=lying(lie, 2))
    run = train_at(sites, data, plan(), tmp_path, out=tmp_path / "run", resume=True)
    for name in ("rounds.jsonl", "run.json", "models/00002.h5"):
        expected = (usual.parent / name).read_bytes()
        assert (run.parent / name).read_bytes() == expected


def test_an_update_far_longer_than_the_others_is_warned_of_once_and_named_where_a_model_breaks_later(
    data, tmp_path, caplog
):

    def change(client, question, answer):
        if client == "south" and question.get("round") in (1, 2):
            return array("theta", lambda a: a + 1)(answer)
        if client == "north" and question.get("round") == 3:
            return array("theta", first_is(np.nan))(answer)
        return answer

    with pytest.raises(SiteError, match="site north: its model is not finite") as error:
        train_at(sites_of(data, tmp_path / "sites"), data, plan(rounds=3), tmp_path, change=change)
    assert "before, the update of site south in round 1 is" in error.value.hint
    messages = [record.getMessage() for record in caplog.records]
    warned = [message for message in messages if "times as long as the others'" in message]
    assert len(warned) == 1
    assert "site south in round 1" in warned[0]


def test_a_site_that_describes_itself_wrongly_is_left_out_until_it_does_not(data, tmp_path):
    questions = []

    def change(client, question, answer):
        if client == "south":
            questions.append(question["ask"])
            if question["ask"] == "begin" and questions.count("begin") <= 2:
                scalars, _ = answer
                description = {**scalars["description"], "classes": ["\x1b[31m\n" * 99]}
                return {**scalars, "description": description}, {}
        return answer

    sites = sites_of(data, tmp_path / "sites")
    run = train_at(sites, data, plan(), tmp_path, change=change, min_clients=3)
    first_line, second_line = lines_of(run)
    assert first_line["absent"]["south"].startswith("has the classes")
    assert "absent" not in second_line
    assert questions == ["begin", "begin", "begin", "train"]


def test_the_words_of_a_site_are_put_on_one_line_and_cut(data, tmp_path):
    words = "first\nerror: forged \x1b[31mred\x07 \u202e" + "long " * 999
    lie = lying(scalars(error=words, hint=words))
    sites = sites_of(data, tmp_path)
    with pytest.raises(SiteError) as error:
        train_at(sites, data, plan(), tmp_path, change=lie)
    for text, longest in ((error.value.sentence, 380), (error.value.hint, 200)):
        assert text.isprintable()
        assert len(text) <= longest
        assert "first error: forged [31mred long long" in text
    assert error.value.sentence.startswith("site south: first")


def test_a_site_that_was_silent_at_the_start_has_to_begin_before_its_answers_count(data, tmp_path):
    """It knows the run from a coordinator that was killed."""
    sites = sites_of(data, tmp_path / "sites")
    train_at(sites, data, plan(), tmp_path, out=tmp_path / "before")
    questions = []

    def change(client, question, answer):
        questions.extend([question["ask"]] if client == "south" else [])
        return "it gave no sign of life" if (client, len(questions)) == ("south", 1) else answer

    train_at(sites, data, plan(), tmp_path, out=tmp_path / "run", change=change, min_clients=3)
    assert questions == ["begin", "begin", "train", "train"]


DESCRIPTIONS = [
    (
        {"images": {"train": 10**400, "val": 0, "test": 0}},
        "damaged: images.train is 1000.*, a number too large",
    ),
    (
        {"images": {"train": 10**300, "val": 0, "test": 0}},
        "it describes 10{39} images of the part 'train'",
    ),
    ({"counts": {"blood": {"train": {"0": 10**300}}}}, "it describes 10{39} images by 'blood'"),
    ({"size": [8, 10**300]}, "it describes 10{39} pixels"),
    ({"channels": 10**300}, "it describes 10{39} channels"),
    ({"images": {"train": -1, "val": 0, "test": 0}}, "it describes -1 images"),
    (
        {"images": {"train": 21, "val": 0, "test": 0}},
        "by 'class' do not add up to 21 of 'train'",
    ),
    ({"counts": {"class": {"train": {"a": -20, "b": 40}}}}, "by 'class' do not add up to 20"),
    ({"counts": {}}, "by 'class' do not add up to 20"),
]


@pytest.mark.parametrize(("change", "sentence"), DESCRIPTIONS)
def test_a_description_whose_numbers_cannot_be_is_refused(data, tmp_path, change, sentence):
    described = describe(data, "north", "north", smallest=1)
    (tmp_path / "north.json").write_text(json.dumps(described | change))
    with pytest.raises(FedcliError, match=sentence):
        gathered([tmp_path / "north.json"], tmp_path)


def every(make):
    return lambda answer: (answer[0], {name: make(numbers) for name, numbers in answer[1].items()})


COUNTED = {
    "three times": (every(lambda a: a * 3), "counts of 'all' that cannot be"),
    "a thousand million times": (every(lambda a: a * 10**9), "counts of 'all' that cannot be"),
    "beyond what 64 bits hold": (every(lambda a: a * 2**40), "counts of 'all' that cannot be"),
    "nothing": (
        every(lambda a: a * 0),
        r"it counts \[0, 0, 0\] test images by class and leaves out 0",
    ),
    "left out": (
        scalars(left_out=10**30),
        "leaves out '1000000000000000000000000000000' images, which is no number of",
    ),
    "left out beside": (
        scalars(left_out=3),
        "test images by class and leaves out 3, where it described",
    ),
    "another class": (every(lambda a: a[::-1].copy() if len(a) == 3 else a), "cannot be"),
    "other chances": (
        array("clean/all/top", lambda a: a[:, [0, 1, 1]]),
        "counts of 'all' that cannot be",
    ),
    "more right": (
        array("clean/all/top", lambda a: a[:, [0, 0, 2]]),
        "counts of 'all' that cannot be",
    ),
    "a group of all": (
        lambda answer: (answer[0], {n: answer[1][n.replace("sex/0", "all")] for n in answer[1]}),
        "its counts by 'sex' exceed the counts of all images",
    ),
    "another version": (
        lambda answer: (answer[0], {f"x{n}": a for n, a in answer[1].items()}),
        "without counts",
    ),
}


@pytest.mark.parametrize("lie", COUNTED)
def test_counts_that_are_not_of_the_described_images_are_scored_by_nobody(
    tmp_path, monkeypatch, lie
):
    change, sentence = COUNTED[lie]
    data = chain_with_tests(tmp_path)
    sites = sites_of(data, tmp_path / "sites", policy=OPEN)
    run = train_at(sites, data, plan(rounds=1), tmp_path, out=tmp_path / "run")
    transport = reached(monkeypatch, sites)

    def lie(client, question, answer):
        is_score = client == "north" and question["ask"] == "score"
        return change(answer) if is_score else answer

    transport.change = lie
    with pytest.raises(SiteError, match=f"^site north.*{sentence}"):
        evaluate_stage(EvaluateOptions(run, work=tmp_path, engine="here:x"))


def test_classes_that_a_description_hides_are_the_ones_that_an_evaluation_leaves_out():
    """The first of equal counts is hidden, whatever its name."""
    result = hidden({"b": 4, "a": 4, "c": 2}, 3)
    assert result == {"b": None, "a": 4, "c": None}


def test_columns_are_compared_without_a_look_at_every_pair():
    """A number of columns that took hours where each was looked for in a list."""
    columns = {str(number): torch.zeros(1) for number in range(10**5)}
    honest = SimpleNamespace(columns=columns, steps=1)
    liar = SimpleNamespace(columns={**columns, "5": torch.zeros(2)}, steps=1)
    wrong = odd_ones({"a": honest, "b": honest, "c": liar}, {})
    assert list(wrong) == ["c"]
    assert "'5' in another form" in wrong["c"].sentence


def test_an_answer_is_bounded_by_what_was_asked():
    theta = np.zeros(10, np.float32)
    outcome = most_bytes(({"ask": "begin"}, {"start/x": theta}))
    assert outcome == 0
    result = most_bytes(({"ask": "train"}, {"theta": theta}))
    assert result == SPARE + MODELS * 40
    outcome = most_bytes(({"ask": "score"}, {"theta": theta}))
    assert outcome is None


def test_a_memory_that_one_site_alone_claims_blocks_no_later_round(data, tmp_path, capsys):
    """Its sites are asked in round 2 as those of a method that keeps nothing."""
    sites = sites_of(data, tmp_path / "sites", policy=OPEN)
    claim = lying(scalars(kept=True))
    run = train_at(sites, data, plan(), tmp_path, out=tmp_path / "run", change=claim)
    assert run.is_file()
    err = capsys.readouterr().err
    assert err.count("site south reports that it keeps data of its client, and no other") == 1
