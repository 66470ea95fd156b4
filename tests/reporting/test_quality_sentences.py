"""Sentences and tables on image quality, from answers and quality made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedcli.data.quality import MEASURES, NAMES
from fedcli.errors import FedcliError
from fedcli.reporting.page import by_quality
from fedcli.scores.statistics.stratified import Explained

CONTRAST = MEASURES[NAMES.index("contrast")]
COUNT = 80


def sentence(explained, standardised=(0.06, 0.02, 0.1), left_out=0):
    gap = Explained("m", "f", (0.1, 0.05, 0.15), standardised, explained, left_out)
    return by_quality._sentence(gap, "sex", CONTRAST, "accuracy")


def test_the_part_of_a_gap_that_quality_explains_is_said_in_points():
    assert sentence((0.04, 0.01, 0.07)) == (
        "4.0 (1.0 to 7.0) of 10.0 points of the gap in accuracy by sex, m over f, are explained by contrast"
    )


@pytest.mark.parametrize("interval", [(0.04, -0.01, 0.07), (0.04, None, None), (0.04, 0.0, 0.07)])
def test_a_part_whose_interval_holds_nothing_may_be_chance(interval):
    assert sentence(interval).endswith("are explained by contrast, which may be chance")


def test_a_gap_that_is_wider_at_the_same_quality_is_said_to_be():
    wider = sentence((-0.02, -0.04, -0.01), standardised=(0.12, 0.08, 0.16))
    assert wider == (
        "At the same contrast the gap in accuracy by sex, m over f, is wider: 12.0 (8.0 to 16.0) points instead of "
        "10.0"
    )


def test_images_without_a_counterpart_are_counted():
    ending = "; 7 images have no counterpart of that quality in the other group"
    assert sentence((0.04, 0.01, 0.07), left_out=7).endswith(ending)


class Images(SimpleNamespace):
    def grouping(self, attribute):
        return self.codes, ["f", "m"]


@pytest.fixture
def scored(scored_by):
    """The scores by quarters of a contrast that no two images share."""
    return scored_by(np.arange(COUNT))


@pytest.fixture
def scored_by(monkeypatch):
    """The scores by quarters of these contrasts. Answers are wrong about the first images alone; men
    are the second half.
    """
    y = np.arange(COUNT) % 2
    answers = np.eye(2)[y]
    answers[: COUNT // 4] = answers[: COUNT // 4, ::-1]
    images = Images(
        id=np.arange(COUNT).astype(str),
        y=y,
        units=np.arange(COUNT),
        codes=(np.arange(COUNT) >= COUNT // 2) * 1,
        tables={"clean": [answers]},
        counted=False,
    )
    quality = np.zeros((COUNT, len(MEASURES)))
    monkeypatch.setattr(by_quality, "predicted", lambda path: images)
    monkeypatch.setattr(by_quality, "_values", lambda row, images: quality)
    scores = SimpleNamespace(groups=["sex"], usual=("accuracy", "auc_ovo_macro"), noun="patient")
    row = SimpleNamespace(name="FedAvg", paths=["one", "two"], scores=scores)

    def scored(contrast):
        quality[:, NAMES.index("contrast")] = contrast
        return by_quality._Scored(row, CONTRAST)

    return scored


def test_the_answers_of_all_runs_on_the_same_images_count(scored):
    assert len(scored.answers) == 2
    assert np.bincount(scored.quarters).tolist() == [20, 20, 20, 20]


def test_a_line_of_each_quarter_has_its_values_and_scores(scored):
    table = scored.fall("accuracy")
    assert table.title == "Accuracy by contrast"
    result = [column.name for column in table.columns[2:]]
    assert result == ["all", "sex f", "sex m"]
    lowest, *_, highest = table.rows
    assert lowest[0].text == "lowest quarter: 0 to 19"
    result = [cell.text for cell in lowest[1:4]]
    assert result == ["20", "0.0", "0.0"]
    assert highest[0].text == "highest quarter: 60 to 79"
    result = [cell.text for cell in highest[1:]]
    assert result == ["20", "100.0", "-", "100.0"]


def test_fewer_than_thirty_images_are_in_doubt(scored):
    cell = scored._cell(np.arange(COUNT) < 20, "accuracy")
    assert cell.doubtful
    assert not scored._cell(np.full(COUNT, True), "accuracy").doubtful
    assert scored._cell(np.full(COUNT, False), "accuracy").text == "-"


def test_one_class_alone_has_no_area(scored):
    one_class = scored.images.y == 0
    assert scored._cell(one_class, "auc_ovo_macro").text == "-"


def test_the_section_says_lowest_and_highest_quarter(scored, monkeypatch):
    monkeypatch.setattr(by_quality._Scored, "gaps", lambda scored, metric: [])
    section = by_quality.section([scored.row], "contrast", ["accuracy"])
    assert section.title == "Does the score fall with contrast?"
    assert section.text == [
        "Accuracy is 0.0† % in the lowest quarter of contrast and 100.0† % in the highest quarter"
    ]


def sentences(scored, monkeypatch):
    monkeypatch.setattr(by_quality._Scored, "gaps", lambda scored, metric: [])
    return by_quality.section([scored.row], "contrast", ["accuracy"]).text


def test_a_sentence_names_the_last_quarter_with_images(scored_by, monkeypatch):
    """48 of 80 images share the largest value, which is that of the second quarter, too."""
    scored = scored_by(np.minimum(np.arange(COUNT), 32))
    assert scored.fall("accuracy").rows[-1][0].text == "second: 20 to 32"
    assert sentences(scored, monkeypatch) == [
        "Accuracy is 0.0† % in the lowest quarter of contrast and 100.0 % in the second"
    ]


def test_a_measure_that_all_images_share_has_no_sentence(scored_by, monkeypatch):
    scored = scored_by(1)
    assert len(scored.fall("accuracy").rows) == 1
    assert sentences(scored, monkeypatch) == []


def test_a_score_that_needs_every_class_is_in_doubt_without_one(scored):
    """Forty images of the class 0 and ten of the class 1, but none of the class 2."""
    y = np.repeat([0, 1, 2], [40, 10, 30])
    scored.images.y = y
    scored.answers = [np.eye(3)[y]]
    members = y < 2
    assert scored._cell(members, "balanced_accuracy").doubtful
    assert not scored._cell(members, "accuracy").doubtful
    assert not scored._cell(np.full(COUNT, True), "balanced_accuracy").doubtful
    scored.missing = {2}  # of all images, too
    assert not scored._cell(members, "balanced_accuracy").doubtful


def test_gaps_have_a_table_and_several_systems_their_names(scored, monkeypatch):
    gap = Explained("m", "f", (0.1, 0.05, 0.15), (0.06, 0.02, 0.1), (0.04, 0.01, 0.07), 0)
    monkeypatch.setattr(by_quality._Scored, "gaps", lambda scored, metric: [("sex", gap)])
    section = by_quality.section([scored.row, scored.row], "contrast", ["accuracy"])
    *_, table = section.tables
    assert table.title == "Gap in accuracy and contrast: FedAvg"
    result = [cell.text for cell in table.rows[0]]
    assert result == [
        "sex",
        "m over f",
        "10.0 (5.0 to 15.0)",
        "6.0 (2.0 to 10.0)",
        "4.0 (1.0 to 7.0)",
    ]
    assert section.text[-1].endswith("are explained by contrast: FedAvg")


def test_a_metric_without_resamples_has_no_gap(scored):
    assert not list(scored.gaps("brier"))


def test_images_that_are_not_here_have_no_quality(monkeypatch):
    monkeypatch.setattr(by_quality, "dataset_of", lambda path, scores: None)
    row = SimpleNamespace(name="FedAvg", paths=["scores.json"], scores=None)
    with pytest.raises(FedcliError, match="the test images of FedAvg are not here"):
        by_quality._values(row, SimpleNamespace(counted=False))
