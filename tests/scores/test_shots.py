import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import make_chain
from made_plans import planned, train
from nested_scores import body_of
from report_tables import table_cells
from score_json import shot_scores

import fedcli
from fedcli.data import manifest
from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.metrics import recalls, score
from fedcli.reporting.rows import notes, rows
from fedcli.reporting.tables import render
from fedcli.scores import shots
from fedcli.scores.evaluate import evaluate
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.scores.parts import SHOT_GROUPS as GROUPS
from fedcli.scores.shots import described, group_means, group_of, suggestion, thresholds

PAPER = json.loads((Path(__file__).parents[1] / "vectors" / "fed_mas_table1.json").read_text())
FOLD = [group_of(0.8 * count) for count in PAPER["class_counts"]]  # four of five folds train
WHOLE = [group_of(count) for count in PAPER["class_counts"]]


def sizes(groups):
    return [groups.count(name) for name in GROUPS]


def test_the_papers_groups_are_those_of_a_training_fold():
    assert sizes(FOLD) == [7, 9, 7]
    assert sizes(WHOLE) == [8, 8, 7]


@pytest.mark.parametrize("row", PAPER["rows"], ids=lambda row: f"{row[0]} {row[1]}")
def test_a_row_of_the_papers_table_is_the_means_of_its_groups(row):
    recall_by_group = dict(zip(GROUPS, row[2:5], strict=True))
    recall = np.array([recall_by_group[group] for group in FOLD])
    means = group_means(recall, FOLD)
    expected = pytest.approx(row[2:5])
    assert [means[name] for name in GROUPS] == expected
    expected = pytest.approx(row[5:], abs=0.05)
    assert [means["all"], means["balanced_accuracy"]] == expected
    recall = np.array([recall_by_group[group] for group in WHOLE])
    assert abs(group_means(recall, WHOLE)["balanced_accuracy"] - row[6]) > 0.5


def test_the_thresholds_themselves_are_medium():
    result = [group_of(count, 700, 70) for count in (0, 69, 70, 700, 701)]
    assert result == [
        "tail",
        "tail",
        "medium",
        "medium",
        "head",
    ]


def test_a_class_without_a_test_image_is_left_out_and_an_empty_group_too():
    recall = np.array([0.5, np.nan, 0.9, np.nan])
    groups = ["head", "head", "tail", "medium"]
    means = group_means(recall, groups)
    expected = {"head": 0.5, "medium": None, "tail": 0.9, "all": 0.7, "balanced_accuracy": 0.7}
    assert means == expected
    recall = np.full(2, np.nan)
    nothing = group_means(recall, ["head", "tail"])
    assert set(nothing.values()) == {None}


def test_every_class_counts_once_in_its_group_whatever_its_images():
    y = np.array([0] * 8 + [1, 1, 2, 2])
    logits = np.eye(4)[[0] * 6 + [1, 2, 1, 0, 2, 2]]  # [12, 4]; class 3 has no image
    expected = pytest.approx([0.75, 0.5, 1.0, np.nan], nan_ok=True)
    assert recalls(logits, y) == expected
    groups = ["head", "head", "tail", "tail"]
    recall = recalls(logits, y)
    means = group_means(recall, groups)
    result = (means["head"], means["tail"], means["all"])
    assert result == (0.625, 1.0, 0.8125)
    expected = score(logits, y)["balanced_accuracy"]
    assert means["balanced_accuracy"] == expected


def test_average_is_taken_in_each_round_and_groups_are_named_with_their_counts():
    y = np.array([0, 1, 0, 1])
    right = np.eye(3)[y]
    wrong = np.eye(3)[1 - y]
    logits = {"clean": [[right], [right]], "corrupted": [[wrong], [right]]}
    counts = np.array([90, 50, 3])
    classes = ["a", "b", "c"]
    means = shot_scores(logits, y, classes, counts, (80, 50))
    expected = {"head": {"a": 90}, "medium": {"b": 50}, "tail": {"c": 3}}
    assert means["classes"] == expected
    result = (means["upper"], means["lower"], means["skipped"])
    assert result == (80, 50, ["c"])
    expected = {
        "last": 1.0,
        "mean_last5": 0.75,
        "std_last5": 0.25,
        "per_round": [0.5, 1.0],
    }
    assert means["versions"]["average"]["head"] == expected
    assert means["versions"]["clean"]["tail"]["mean_last5"] is None
    counts = np.array([90, 50, 3])
    classes = ["a", "b", "c"]
    result = described(shots.shots(y, classes, counts, (80, 50)))
    assert result == (
        "head (more than 80 training images): a; medium (50 to 80 training images): b; "
        "tail (fewer than 50 training images): c; without a test image: c"
    )


@pytest.mark.parametrize("text", ["", "700", "700,70,7", "many,few", "-1,-2", "70.5,7", "²,1"])
def test_thresholds_that_are_not_two_counts_are_refused(text):
    with pytest.raises(UsageError, match="not two numbers of images") as caught:
        thresholds(text)
    assert "--shots 700,70" in caught.value.hint


def test_thresholds_in_the_wrong_order_are_turned_round_in_the_hint():
    assert thresholds(None) == thresholds(" 700, 70") == (700, 70)
    with pytest.raises(UsageError, match="head begins at 70") as caught:
        thresholds("70,700")
    assert caught.value.hint.endswith("--shots 700,70")


SKIN = {"nv": 5364, "mel": 891, "bkl": 879, "bcc": 412, "akiec": 262, "vasc": 114, "df": 92}


EMPTY_GROUPS = [
    (
        (700, 70),
        "no class has fewer than 70 training images: --shots 700,200 would make vasc, df the tail",
    ),
    (
        (9000, 200),
        "no class has more than 9000 training images: --shots 600,200 would make nv, mel, bkl the head",
    ),
    ((90, 90), "no class has 90 to 90 or fewer than 90 training images: --shots "),
]


@pytest.mark.parametrize(("limits", "sentence"), EMPTY_GROUPS)
def test_empty_groups_are_told_with_thresholds_that_would_fill_them(limits, sentence):
    counts = np.array(list(SKIN.values()))
    result = described(shots.shots(np.arange(7), list(SKIN), counts, limits))
    assert sentence in result
    upper, lower = map(int, re.search(r"--shots (\d+),(\d+)", result).groups())
    outcome = {group_of(count, upper, lower) for count in counts}
    assert outcome == set(GROUPS)


def test_suggested_thresholds_part_the_classes_into_thirds_where_their_counts_allow_it():
    rng = np.random.default_rng(4)
    for _ in range(200):
        counts = rng.integers(0, 10 ** rng.integers(1, 5), rng.integers(1, 24)).tolist()
        suggested = suggestion(counts, 700, 70)
        assert (suggested is None) == (len(set(counts)) < 3)
        if suggested:
            outcome = {group_of(count, *suggested) for count in counts}
            assert outcome == set(GROUPS)
    result = suggestion(list(range(1, 10)), 700, 70)
    assert result == (6, 4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two rounds on 80 training images: 27, 27 and 26 of each class."""
    work = tmp_path_factory.mktemp("shots")
    training = Training(batch_size=10, lr=0.01)
    plan = planned("fedavg", {}, training, rounds=2)
    data = make_chain(work, corrupted=True)
    return train(data, plan, work=work, out=None)


def test_a_run_is_always_scored_by_shots_and_shows_them_when_asked(run):
    plain = evaluate(run)
    expected = {"a": 27, "b": 27, "c": 26}
    result = manifest.read(plain).body["shots"]["classes"]["tail"]
    assert result == expected
    assert "shots" not in manifest.read(plain).options
    for column in table_cells(rows([plain]))[0]:
        assert "recall" not in column

    evaluated = Path(fedcli.evaluate(run, shots="26,26"))
    record = manifest.verify(evaluated)
    body = body_of(evaluated)
    assert record.options["shots"] == [26, 26]
    assert record.made_by == [
        "evaluate",
        "--shots",
        "26,26",
    ]
    with h5py.File(evaluated.parent / "predictions.h5") as file:
        y = file["y"][()]
        last = file["logits/corrupted/2"][()]
    recall = [(last[y == c].argmax(1) == c).mean() for c in range(3)]
    corrupted = body["shots"]["versions"]["corrupted"]
    expected = pytest.approx((recall[0] + recall[1]) / 2)
    assert corrupted["head"]["last"] == expected
    expected = pytest.approx(recall[2])
    assert corrupted["medium"]["last"] == expected
    for version, scores in body["shots"]["versions"].items():
        assert scores["balanced_accuracy"] == body["versions"][version]["balanced_accuracy"]
    columns, lines = table_cells(rows([evaluated]))
    cells = dict(zip(columns, lines[0], strict=True))
    result = [column for column in columns if "recall" in column]
    assert result == [
        "clean head recall (%)",
        "clean medium recall (%)",
    ]
    mean = body["shots"]["versions"]["clean"]["head"]["mean_last5"]
    assert cells["clean head recall (%)"].startswith(f"{100 * mean:.2f} ±")


def test_the_report_names_the_groups_and_warns_where_they_differ(run):
    one_path, other_path = (
        evaluate(run, EvaluateOptions(shots=text)) for text in ("26,26", "30,27")
    )
    result = notes(rows([one_path]))[-1]
    assert result == (
        "made: head (more than 26 training images): a, b; medium (26 to 26 training images): c; "
        "no class has fewer than 26 training images"  # two sizes cannot make three groups
    )
    assert "do not share the same shot groups" in notes(rows([one_path, other_path]))[0]
    assert "Head, medium and tail classes" in render(rows([other_path]), "markdown")


def test_one_number_may_be_both_thresholds():
    counts = [1, 10, 20]
    result = suggestion(counts, 700, 70)
    assert result == (10, 10)
    result = [group_of(count, 10, 10) for count in (1, 10, 20)]
    assert result == ["tail", "medium", "head"]
