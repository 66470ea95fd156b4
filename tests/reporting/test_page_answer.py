"""The first screen of the page, its images, and heads of two lines."""

import base64
import io
import re
from dataclasses import replace

import h5py
import numpy as np
import pytest
from conftest import make_chain
from made_plans import planned, train
from PIL import Image

from fedcli.comparison import verdict
from fedcli.federation.client import Training
from fedcli.reporting import comparison, page
from fedcli.reporting.columns import all_numbers
from fedcli.reporting.page import images, lead, markup, provenance
from fedcli.reporting.rows import compared, rows
from fedcli.reporting.table import Column
from fedcli.scores.evaluate import evaluate
from fedcli.scores.table import Score, Where


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """FedAvg and FedProx, which have hardly learned, on data with a corrupted client."""
    work = tmp_path_factory.mktemp("answer")
    data = make_chain(work, corrupted=True)
    paths = []
    for method in ("fedavg", "fedprox"):
        training = Training(batch_size=10, lr=1e-6)
        run = train(data, planned(method, {}, training, 1), work=work, out=None)
        paths.append(evaluate(run))
    return compared(rows(paths))


def test_generated_images_are_said_to_be_in_the_first_line(lines):
    assert lead.generated(lines) == ""
    made_up = replace(lines[0].scored[0], scores=replace(lines[0].scores, sample=True))
    assert lead.generated([replace(lines[0], scored=[made_up])]).startswith(
        "Generated images: a made-up sample"
    )
    phantom = replace(lines[0].scored[0], scores=replace(lines[0].scores, dataset="phantom"))
    sentence = lead.generated([replace(lines[0], scored=[phantom])])
    assert sentence.startswith("Generated images with a planted disparity")
    first_words = re.search(
        r"<header>\s*<p[^>]*>([^<]*)", page.Document("A", "B", [], [], generated=sentence).html
    ).group(1)
    assert first_words == sentence


def test_the_answer_names_each_version_with_a_direction_a_size_and_an_interval():
    row = {
        "mean": 0.8,
        "std_pooled": None,
        "std_runs": None,
        "runs": 1,
        "note": "",
        "samples": 1,
        "over": "seeds",
    }
    base = verdict.Against(name="FedAvg", is_reference=True, **row)
    low = verdict.Against(
        name="A",
        difference=-0.024,
        low=-0.039,
        high=-0.01,
        verdict=verdict.MODELS_ONLY,
        reason="1 seed is too few",
        **row,
    )
    same = verdict.Against(
        name="B",
        difference=0.002,
        low=-0.01,
        high=0.013,
        p_holm=0.8,
        verdict=verdict.INCONCLUSIVE,
        **row,
    )
    noisy = replace(low, difference=0.032, low=0.018, high=0.046)
    auc = {name: Where(name, metric="auc_ovo_macro") for name in ("clean", "corrupted", "average")}
    tests = {auc["clean"]: [base, low, same], auc["corrupted"]: [base, noisy, same]}
    words = {"corrupted": "noisy", "average": "both"}
    *texts, not_equal, certainty = comparison.answers(tests, words)
    assert not_equal == verdict.NOT_EQUAL
    assert texts == [
        "A: AUC 2.4 points lower than FedAvg on clean images (1.0 to 3.9), 3.2 higher on noisy ones (1.8 to 4.6).",
        "B: no significant difference from FedAvg in AUC on clean or noisy images.",
    ]
    assert certainty.startswith("In brackets: 95 % intervals over test patients.")
    assert certainty.endswith(" With 1 training of each, other trainings may differ.")
    mixed = {auc["clean"]: [base, same], auc["corrupted"]: [base, replace(noisy, name="B")]}
    assert comparison.answers(mixed, words)[0] == (
        "B: AUC 3.2 points higher than FedAvg on noisy images (1.8 to 4.6), no significant difference on clean "
        "ones (-1.0 to +1.3)."
    )
    seeds = [replace(row, samples=3) for row in (base, low, same)]
    varying, *_, certainty = comparison.answers({auc["average"]: seeds}, words)
    assert varying.endswith("on clean and noisy images (1.0 to 3.9; not over seeds).")
    assert certainty.endswith(", and over seeds.")


def test_of_many_systems_each_score_has_a_sentence():
    row = {"mean": 0.8, "std_pooled": None, "std_runs": None, "runs": 3, "note": "", "samples": 3}
    row |= {"over": "seeds", "unit": "patient"}
    base = verdict.Against(name="FedAvg", is_reference=True, **row)
    same = {"difference": 0.001, "low": -0.01, "high": 0.01, "verdict": verdict.INCONCLUSIVE}
    others = [
        verdict.Against(name=f"method {number}", p_holm=0.8 if number else None, **same, **row)
        for number in range(11)
    ]
    higher = {"difference": 0.032, "low": 0.018, "high": 0.046, "verdict": verdict.HIGHER}
    lower = {"difference": -0.024, "low": -0.039, "high": -0.01, "verdict": verdict.MODELS_ONLY}
    up = verdict.Against(name="A", **higher, **row)
    down = verdict.Against(name="B", **lower, **row)
    tests = {Where("clean", metric="auc_ovo_macro"): [base, *others, up, down]}
    assert comparison.answers(tests, {})[:-2] == [
        "AUC on clean images, in points against FedAvg. Higher: A 3.2 (1.8 to 4.6); lower: B 2.4 "
        "(1.0 to 3.9; not over seeds); no significant difference: 10 of 13; not tested: 1 of 13."
    ]


def test_an_interval_without_zero_of_a_difference_that_is_not_significant_has_its_reason():
    row = {"mean": 0.8, "std_pooled": None, "std_runs": None, "runs": 1, "note": "", "samples": 1}
    row |= {"over": "seeds"}
    base = verdict.Against(name="FedAvg", is_reference=True, **row)
    lower = {"difference": -0.024, "low": -0.039, "high": -0.01, "verdict": verdict.MODELS_ONLY}
    clean = verdict.Against(name="A", **lower, **row)
    reason = "only 4 patients differ, so p cannot be below 0.125"
    noisy = replace(clean, verdict=verdict.INCONCLUSIVE, reason=reason, p_holm=0.2)
    scores = [Where(name, metric="auc_ovo_macro") for name in ("clean", "corrupted")]
    tests = dict(zip(scores, ([base, clean], [base, noisy]), strict=True))
    sentence = comparison.answers(tests, {"corrupted": "noisy"})[0]
    assert sentence.endswith(f"on noisy ones (-3.9 to -1.0; {reason}).")
    noisy = replace(noisy, low=-0.039, high=0.01)
    tests[scores[1]] = [base, noisy]
    sentence = comparison.answers(tests, {"corrupted": "noisy"})[0]
    assert sentence.endswith("on noisy ones (-3.9 to +1.0).")


@pytest.mark.parametrize(
    ("sign", "direction", "mean"),
    [(1, "higher", 0.8), (-1, "lower", 0.8), (1, "higher", 0.8002), (-1, "lower", 0.7998)],
)
def test_a_difference_that_rounds_to_nothing_keeps_its_direction(sign, direction, mean):
    row = {"std_pooled": None, "std_runs": None, "runs": 1, "note": "", "samples": 1}
    row["over"] = "seeds"
    base = verdict.Against(name="FedAvg", mean=0.8, is_reference=True, **row)
    low, high = sorted([sign * 0.0001, sign * 0.0004])
    row |= {"difference": sign * 0.0002, "low": low, "high": high, "verdict": verdict.MODELS_ONLY}
    small = verdict.Against(name="A", mean=mean, **row)
    sentence = comparison.answers({Where("clean", metric="auc_ovo_macro"): [base, small]}, {})[0]
    expected = f"less than 0.1 points {direction} than FedAvg on clean images (0.0 to 0.0)."
    assert sentence == f"A: AUC {expected}"


def test_the_images_are_the_first_of_each_class_as_they_are_and_changed():
    result = images.chosen(np.array([2, 2, 0, 1, 1, 0, 2])).tolist()
    assert result == [2, 5, 3, 4, 0, 1]
    clean = np.arange(2 * 50 * 50, dtype=np.uint8).reshape(2, 50, 50, 1)
    picture = images._pasted(clean, below=True)
    assert picture.shape == (2 * 104, 104)
    assert picture[2, 2] == clean[0, 0, 0]
    assert picture[106, 2] == clean[1, 0, 0]
    assert (images._pasted(clean)[:, 104:] == picture[104:]).all()
    opened = Image.open(io.BytesIO(base64.b64decode(images.png(picture).partition(",")[2])))
    assert (np.array(opened) == picture).all()


def test_an_empty_test_set_has_no_pictures(tmp_path):
    path = make_chain(tmp_path, corrupted=True)
    with h5py.File(path.parent / "changed.h5", "a") as file:
        x = file["test/x"][:0]
        del file["test"]
        file["test/rows"] = np.array([], np.int64)
        file["test/x"] = x
    assert list(images._strip(path)) == []


def test_the_question_and_the_answer_name_groups_and_sizes(lines):
    assert lead.question(lines) == "Is FedProx better than FedAvg, and for every group by sex?"
    assert (
        lead.question(lines[:1]) == "How good is FedAvg, and is it as good for every group by sex?"
    )
    findings = lead.section(lines[:1], [], [], answered=False).findings
    assert findings[0].startswith("FedAvg scores ")
    assert " % (95 % interval " in findings[0]
    assert findings[0].endswith("in AUC, one-vs-one.")
    sizes = f"By sex, {lead._worst(lines[0], 'sex')[0][0]}"
    assert findings[-1].startswith(sizes)
    assert findings[-1].endswith(" points.")
    assert "the lowest AUC on clean images: " in findings[-1]


def with_groups(row, **groups):
    """The row with these AUCs of groups by sex; of a pair the second says why a group is small."""
    run = row.scored[0]
    where = Where("clean", attribute="sex", metric="auc_ovo_macro")
    table = {line: score for line, score in run.scores.table.items() if line.attribute != "sex"}
    for group, auc in groups.items():
        value, small = auc if isinstance(auc, tuple) else (auc, "")
        table[where._replace(group=group)] = Score([value], [1], 40, (), small)
    scores = replace(run.scores, table=table)
    return replace(row, scored=[replace(run, scores=scores)], known=[all_numbers(scores, row.at)])


LOW, GAP = "the lowest AUC on clean images", "80.0 %; the gap to the best group is 10.0 points"


SENTENCES = [
    ({"f": 0.8, "m": 0.9}, f"f has {LOW}: {GAP}."),
    (
        {"f": 0.8, "m": 0.8},
        "no group scores lower than another in AUC on clean images: "
        "80.0 %; the gap to the best group is 0.0 points.",
    ),
    (
        {"f": (0.8, "2 patients"), "m": 0.8},
        "no group scores lower than another in AUC on clean images: "
        "80.0 %; the gap to the best group is 0.0 points (not a reliable gap).",
    ),
    ({"f": 0.8, "m": (0.9, "no image of a")}, f"f has {LOW}: {GAP} (not a reliable gap)."),
    ({"f": (0.8, "2 patients"), "m": 0.9}, f"f (not a reliable score) has {LOW}: {GAP}."),
    (
        {"f": 0.8, "m": 0.9, "x": None},
        f"f has {LOW} among the groups that have one: {GAP}.",
    ),
]


@pytest.mark.parametrize(("groups", "sentence"), SENTENCES)
def test_the_answer_says_nothing_of_a_group_that_its_images_do_not_show(lines, groups, sentence):
    (answer,) = lead._groups([with_groups(lines[0], **groups)])
    assert answer == f"By sex, {sentence}"


def test_the_surest_errors_of_each_group_stand_clean_beside_corrupted_with_what_models_say(lines):
    errors, *_ = images.section(lines).panels
    assert errors.title == "Most confident errors by sex"
    assert errors.layout == "cases"
    panel = errors.figures[0]
    head, *statements = panel.said
    assert head[1] == "clean"
    assert [label for label, _, _ in statements] == ["FedAvg", "FedProx"]
    assert panel.caption.partition(", is ")[2] not in statements[0][1]  # it is wrong
    picture = Image.open(io.BytesIO(base64.b64decode(panel.image.partition(",")[2])))
    assert picture.width == 2 * picture.height
    assert "several runs" not in errors.legend


def test_errors_of_one_of_several_runs_say_which(lines):
    several = replace(lines[0], scored=[*lines[0].scored] * 2)
    errors, *_ = images.section([several]).panels
    assert errors.legend.endswith(images.FIRST_RUN.format(which="seed 0"))


def test_the_legend_of_errors_names_the_groups_that_are_shown(lines, monkeypatch):
    errors, *_ = images.section(lines).panels
    assert errors.legend.startswith("The test images of each group that")
    monkeypatch.setattr(images, "has_more_groups", lambda *_: True)
    errors, *_ = images.section(lines).panels
    assert errors.legend.startswith("The test images of the 7 largest groups that")


def test_heads_that_share_what_stands_over_them_have_two_lines():
    columns = [
        Column("method"),
        Column("clean", "%", "AUC"),
        Column("noisy", "%", "AUC"),
        Column("n"),
    ]
    above, below = markup.heads(columns)
    result = [(head.text, head.columns, head.rows, head.at) for head in above]
    expected = [
        ("method", 1, 2, 0),
        ("AUC, %", 2, 1, None),
        ("n", 1, 2, 3),
    ]
    assert result == expected
    result = [(head.text, head.at) for head in below]
    assert result == [("clean", 1), ("noisy", 2)]
    outcome = len(markup.heads(columns[:1]))
    assert outcome == 1


def test_what_every_client_holds_one_value_of_makes_no_table():
    parts = {("a", "train"): {"x": 3}, ("b", "train"): {"y": 4}, ("all", "test"): {"x": 1, "y": 1}}
    assert provenance._is_client(parts)
    assert provenance._is_client(parts | {("b", "train"): {"x": 0, "y": 4}})
    assert not provenance._is_client(parts | {("b", "train"): {"x": 1, "y": 3}})
    assert not provenance._is_client(parts | {("b", "train"): {"x": 1}})
