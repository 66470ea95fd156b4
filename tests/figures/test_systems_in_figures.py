"""Images of a system as figures see them, and which figures of which systems a report draws."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pandas import DataFrame
from scored_runs import fold_of, heal, model, scored

from fedcli.comparison.systems import BEST, LAST, LAST5
from fedcli.errors import UsageError
from fedcli.figures import report
from fedcli.figures import system as system_module
from fedcli.figures.drawing import ALL, OF_ALL
from fedcli.figures.figure import Figure, NothingToDraw, numbers
from fedcli.figures.kinds import FIGURES, find, forest, overall_and_worst, severities
from fedcli.figures.system import SMALL, AnsweredImages, largest_alone, shared_images
from fedcli.reporting.rows import compared, rows
from fedcli.scores.table import Score

GROUP_OF = np.array([0, 1, 1, 2, 2, 2, -1])


def images(groups=("a", "b", "c"), group_of=GROUP_OF, y=None):
    count = len(group_of)
    y = np.arange(count) % 2 if y is None else np.array(y)
    chances = np.linspace(0, 1, 2 * count).reshape(count, 2)
    ids = np.array([f"i{number}" for number in range(count)])
    groupings = {"sex": (group_of, list(groups))}
    units = np.arange(count)
    return AnsweredImages(["ill", "well"], ids, chances, y, units, True, groupings)


def test_members_are_all_images_and_then_each_group_that_has_any():
    groups = ("a", "b", "c", "none")
    members = images(groups=groups).members("sex")
    expected = [
        (ALL, OF_ALL),
        ("a", 0),
        ("b", 1),
        ("c", 2),
    ]
    result = [(name, position) for name, position, _ in members]
    assert result == expected
    expected = [
        [0, 1, 2, 3, 4, 5, 6],
        [0],
        [1, 2],
        [3, 4, 5],
    ]
    result = [rows.tolist() for _, _, rows in members]
    assert result == expected


def test_without_an_attribute_there_are_all_images_alone():
    result = [name for name, _, _ in images().members("")]
    assert result == [ALL]


def test_of_many_groups_the_seven_largest_are_shown_in_their_order():
    sizes = [1, 2, 3, 2, 2, 2, 2, 5, 2]
    group_of = np.repeat(np.arange(9), sizes)
    names = [f"g{number}" for number in range(9)]
    members = images(names, group_of).members("sex")[1:]
    expected = ["g1", "g2", "g3", "g4", "g5", "g6", "g7"]
    result = [name for name, _, _ in members]
    assert result == expected
    result = [position for _, position, _ in members]
    assert result == list(range(7))


@pytest.mark.parametrize(("count", "words"), [(7, ""), (8, " Shown are the 7 largest groups.")])
def test_a_caption_says_where_small_groups_are_left_out(count, words):
    group_of = np.arange(-1, count)  # one image is of an unknown group
    names = [f"g{number}" for number in range(count)]
    assert largest_alone(images(names, group_of), "sex") == words
    assert largest_alone(images(names, group_of), "") == ""


def test_a_part_is_of_the_images_of_a_group_for_one_class():
    parts = {name: (score, label) for name, _, score, label, _ in images().parts("sex", "well")}
    score, label = parts["b"]
    assert label.tolist() == [1, 0]
    expected = pytest.approx(images().chances[[1, 2], 1])
    assert score == expected


def test_groups_and_clients_that_are_too_small_for_a_curve_are_named(systems, monkeypatch):
    def small(members):
        return lambda scores, *_: members

    monkeypatch.setattr(system_module, "small_groups", small({"f": "9 images, fewer than 30"}))
    monkeypatch.setattr(system_module, "small_clients", small({"north": "2 images of a"}))
    fedavg, _ = systems
    assert fedavg.small_members("sex") == ["f"]
    assert fedavg.small_members("client") == ["north"]
    table = FIGURES["roc"].frame(fedavg, by="sex")
    assert table.attrs["small"] == ["f"]
    assert SMALL in table.attrs["caption"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("systems")


@pytest.fixture(scope="module")
def systems(folder):
    """FedAvg and FedHEAL, of two seeds each."""
    fedavg = [scored(folder / f"a{seed}", model(1, seed), seed=seed) for seed in (0, 1)]
    fedheal = [heal(folder / f"b{seed}", model(2, seed), seed=seed) for seed in (0, 1)]
    name = [*fedavg, *fedheal]
    return compared(rows(name, spread="pooled"))


def test_the_images_of_a_system_are_those_of_its_first_run(systems):
    fedavg, fedheal = systems
    assert fedavg.run_name == "FedAvg (2 seeds), seed 0"
    assert fedheal.run_name == "FedHEAL (2 seeds), seed 0"
    assert list(fedavg.versions) == ["clean"]
    assert fedavg.groupings == ["sex"]
    assert fedavg.images("clean", "sex").by_patient


@pytest.mark.parametrize(
    ("version", "attribute", "sentence"),
    [
        ("corrupted", "", "FedHEAL (2 seeds), seed 0 has no corrupted test images"),
        ("clean", "race", "FedHEAL (2 seeds), seed 0 has no scores by 'race'"),
    ],
)
def test_images_that_a_system_does_not_have_are_refused(systems, version, attribute, sentence):
    with pytest.raises(UsageError) as refusal:
        systems[1].images(version, attribute)
    assert refusal.value.sentence == sentence


def test_a_heading_has_the_attribute_the_version_and_the_run(systems):
    fedavg, fedheal = systems
    assert fedavg.heading("ROC curves", "sex", "clean") == (
        "ROC curves by sex, clean test images: FedAvg (2 seeds), seed 0"
    )
    assert fedheal.heading("ROC curves", "", "clean") == (
        "ROC curves, clean test images: FedHEAL (2 seeds), seed 0"
    )


def test_without_predictions_the_system_says_so(folder):
    logits = model(1, 0)
    path = scored(folder / "without", logits)
    (system,) = compared(rows([path]))
    (path.parent / "predictions.h5").unlink()
    assert system.versions == {}
    with pytest.raises(NothingToDraw) as refusal:
        system.images("clean", "")
    assert refusal.value.sentence == ("FedAvg: its scores have no predictions of single images")


def test_the_classes_that_are_drawn_have_images(systems):
    fedavg, _ = systems
    shown = fedavg.shown_classes(fedavg.images("clean", ""))
    assert shown == ["a", "b", "c"]
    only_ill = images(y=[0] * 7)
    assert fedavg.shown_classes(only_ill) == []  # the second class of two has no image


def test_scores_of_a_forest_are_those_of_the_tables_in_percent(systems):
    frame = forest.frame(systems, metric="accuracy")
    result = frame["system"].tolist()[:2]
    assert result == ["FedAvg (2 seeds)", "FedHEAL (2 seeds)"]
    assert set(frame["group"]) == {ALL, "f", "m"}
    assert frame["value"].between(0, 100).all()
    assert (frame["low"] < frame["value"]).all()
    assert frame.attrs["title"] == "Accuracy by sex"
    with pytest.raises(NothingToDraw) as refusal:
        forest.frame(systems, metric="hamming_accuracy")
    assert "on any images" in refusal.value.sentence


ROUNDS = [
    (LAST5, "Mean of the last rounds, with its 95 % interval over the test patients"),
    (LAST, "Score of the last round."),  # these runs have no intervals of it
    (BEST, "Score of the round that validation images chose."),
]


@pytest.mark.parametrize(("at", "words"), ROUNDS)
def test_the_caption_of_a_forest_names_its_rounds_and_intervals_that_are_there(systems, at, words):
    frame = forest.frame([replace(system, at=at) for system in systems], metric="accuracy")
    assert frame.attrs["caption"].startswith(words)
    assert ("interval" in frame.attrs["caption"]) == frame["low"].notna().any()


def test_a_forest_of_folds_of_unequal_size_has_no_number_of_images(tmp_path):
    folds = [fold_of(tmp_path / f"f{k}", k, count) for k, count in enumerate((60, 54))]
    systems = compared(rows(folds, spread="pooled"))
    frame = forest.frame(systems, metric="accuracy")
    assert frame["n"].isna().all()
    assert numbers(frame)[0]["n"] is None
    assert "n = " not in frame.attrs["caption"]
    assert shared_images(systems) == 0


def test_a_plane_names_the_worst_group_and_says_whether_it_is_too_small(systems, monkeypatch):
    frame = overall_and_worst.frame(systems, metric="balanced_accuracy")
    assert frame["group"].tolist() == ["m", "f"]
    assert frame["small"].tolist() == [False, False]
    for number, is_small in (("worst group", True), ("gap", False)):
        monkeypatch.setattr(overall_and_worst, "small_decides", lambda *_, number=number: {number})
        frame = overall_and_worst.frame(systems, metric="balanced_accuracy")
        assert frame["small"].tolist() == [is_small, is_small]
        assert ("few images: sex m, sex f." in frame.attrs["caption"]) == is_small


def test_a_plane_of_one_method_or_without_groups_is_refused(systems):
    with pytest.raises(NothingToDraw) as refusal:
        overall_and_worst.frame(systems[:1])
    assert refusal.value.sentence == "there is no other method to compare FedAvg (2 seeds) with"
    assert refusal.value.hint == "give two methods or more"
    with pytest.raises(NothingToDraw) as refusal:
        overall_and_worst.frame(systems, metric="hamming_accuracy")
    assert refusal.value.hint == "give runs evaluated with --by"


def test_many_systems_have_no_groups_in_a_forest(systems, monkeypatch):
    monkeypatch.setattr(forest, "MOST_SYSTEMS", 1)
    frame = forest.frame(systems, metric="accuracy")
    assert set(frame["group"]) == {ALL}
    assert frame.attrs["title"] == "Accuracy"
    caption = "The dashed line is at FedAvg (2 seeds). Groups are shown for up to 1 systems."
    assert caption in frame.attrs["caption"]


@pytest.mark.parametrize(("by", "sweep"), [("", "severity"), ("sex", "severity and sex")])
def test_severities_that_were_not_scored_are_asked_for(systems, by, sweep):
    with pytest.raises(NothingToDraw) as refusal:
        severities.frame(systems[1], by=by)
    assert refusal.value.sentence == f"FedHEAL (2 seeds), seed 0 has no scores by {sweep}"
    assert refusal.value.hint.startswith("fedcli evaluate RUN --corrupt KIND")
    assert refusal.value.hint.endswith(by and f"--by {by}")


def stand_in(**severity_of):
    """A system with scores of groups under a corruption, in its last round."""

    def score(value):
        return Score([value], [1], 30, low=value - 0.1, high=value + 0.1)

    overall = {"clean": {"accuracy": score(0.9)}, "fog 2": {"accuracy": score(0.5)}, "fog 5": {}}
    groups = {version: {"accuracy": {"f": score(0.4)}} for version in overall}
    part = SimpleNamespace(overall=overall, groups={"sex": groups})
    scores = SimpleNamespace(usual=("balanced_accuracy", "accuracy"), images=60)
    scores.severities = {"fog": {"5": None, "2": None}}
    scores.groups = {"sex": groups}
    small = replace(score(0.4), small="9 images, fewer than 30")
    scores.members = lambda by, metrics=(): {"f": small} if by else {}
    scores.part = lambda: part
    scores.noun = "patient"
    return SimpleNamespace(scores=scores, run_name="FedAvg", paths=[Path("scores.json")])


def test_severities_are_in_rising_order_after_the_clean_images():
    frame = severities.frame(stand_in(), by="sex")
    expected = [
        ["all images", 0],
        ["f", 0],
        ["all images", 2],
        ["f", 2],
        ["all images", 5],
        ["f", 5],
    ]
    result = frame[["group", "severity"]].to_numpy().tolist()
    assert result == expected
    expected = pytest.approx([90, 40, 50, 40, -1, 40])
    result = frame["value"].fillna(-1).tolist()
    assert result == expected
    assert frame.attrs["title"] == "accuracy by severity and sex: FedAvg"
    assert frame.attrs["caption"].endswith(f"{SMALL} n = 60 images.")
    assert frame.attrs["sizes"] == {"f": 30}
    assert frame.attrs["small"] == ["f"]
    of_all, of_group, *_ = frame["low"]
    assert of_all == pytest.approx(80)
    assert of_group == pytest.approx(30)
    assert " of each group; the curve of all images has none." in frame.attrs["caption"]


def test_severities_of_more_groups_than_are_shown_say_so(monkeypatch):
    monkeypatch.setattr(severities, "MOST_LINES", 1)
    system = stand_in()
    system.scores.members = lambda by, metrics=(): {"f": Score(), "m": Score()}
    caption = severities.frame(system, by="sex").attrs["caption"]
    assert "Shown are the first 1 of 2 groups." in caption
    assert "Shown are" not in severities.frame(stand_in(), by="sex").attrs["caption"]


def test_scores_by_severity_beside_those_of_the_system_are_drawn(capsys):
    system = stand_in()
    with_severities = system.scores
    without_severities = vars(with_severities) | {"severities": {}}
    system.scores = SimpleNamespace(**without_severities)
    without_groups = SimpleNamespace(**vars(with_severities))
    without_groups.groups = {}
    others = [(Path("a.json"), without_groups), (Path("b.json"), with_severities)]
    frame = severities.frame(system, by="sex", beside=lambda path: others)
    assert frame.equals(severities.frame(stand_in(), by="sex"))
    assert "using b.json" in capsys.readouterr().err
    with pytest.raises(NothingToDraw):
        severities.frame(system, by="sex", beside=lambda path: others[:1])
    with pytest.raises(NothingToDraw):  # as in a report, which shows the scores that it is given
        severities.frame(system, by="sex")


def test_without_an_attribute_severities_are_of_all_images_alone():
    frame = severities.frame(stand_in())
    assert set(frame["group"]) == {"all images"}
    assert frame["severity"].tolist() == [0, 2, 5]
    assert " Bands: 95 % intervals over the test patients (images, if" in frame.attrs["caption"]
    assert "†" not in frame.attrs["caption"]


def test_names_of_files_have_a_number_where_labels_are_the_same():
    def named(*labels):
        systems = [SimpleNamespace(scores=SimpleNamespace(name=label)) for label in labels]
        return report._short(systems)

    assert named("FedAvg") == [""]
    assert named("FedAvg", "FedHEAL") == ["fedavg", "fedheal"]
    assert named("FedAvg", "FedHEAL", "FedAvg") == ["fedavg-1", "fedheal", "fedavg-2"]


SLUGS = [
    ("ROC curves", "roc-curves"),
    ("q-FFL (q=0.5)", "q-ffl-q=0.5"),
    ("  ", "system"),
    ("x" * 80, "x" * 60),
    ("a/b\\c", "a-b-c"),
]


@pytest.mark.parametrize(("name", "slug"), SLUGS)
def test_a_name_of_a_file_has_plain_signs(name, slug):
    assert report._slug(name) == slug


def planned_names(systems, *draw):
    return [plan.name for plan in report._planned(systems, draw)]


def test_the_usual_figures_of_systems_come_before_those_of_each_run(systems):
    names = planned_names(systems)
    usual = [figure.name for figure in FIGURES.values() if figure.usual]
    assert names[0] in usual
    assert "forest" in names
    of_runs = [name for name in names if name.endswith(("-fedavg", "-fedheal"))]
    result = names[-len(of_runs) :]
    assert result == of_runs
    of_a_system = [figure for figure in FIGURES.values() if figure.of == "system"]
    usual = [figure for figure in of_a_system if figure.usual]
    expected = 2 * len(usual)
    assert len(of_runs) == expected


def test_all_figures_are_drawn_by_each_attribute_metric_and_version(systems):
    names = planned_names(systems, "all")
    assert "forest-balanced-accuracy-clean" not in names  # one picture has both versions
    assert "forest-balanced-accuracy" in names
    assert "roc-sex-clean-fedheal" in names


def test_figures_are_selected_by_a_text_in_their_names(systems):
    planned = list(report._planned(systems, ["roc"]))
    selected = report._selected(planned, ["roc-sex"])
    result = [plan.name for plan in selected]
    assert result == ["roc-sex-clean-fedavg", "roc-sex-clean-fedheal"]
    with pytest.raises(UsageError) as refusal:
        report._selected(planned, ["rok", "forrest"])
    assert refusal.value.sentence == "no figure has 'rok' or 'forrest' in its name"
    assert refusal.value.hint.startswith("all, or ")


def test_figures_of_a_sample_say_so():
    scores = SimpleNamespace(sample=True)
    sample = SimpleNamespace(scores=scores)
    scores = SimpleNamespace(sample=False)
    real = SimpleNamespace(scores=scores)
    frame = DataFrame()
    frame.attrs["title"] = "A title"
    result = report.of_sample(frame, [real]).attrs["title"]
    assert result == "A title"
    assert "SYNTHETIC" in report.of_sample(frame, [real, sample]).attrs["title"]


def test_an_equal_figure_is_drawn_once():
    frames = [DataFrame({"x": [1]}), DataFrame({"x": [2]})]
    frame = DataFrame({"x": [2]})
    assert report._position(frame, frames) == 1
    frame = DataFrame({"x": [3]})
    assert report._position(frame, frames) is None


def test_numbers_of_a_frame_are_plain_and_have_gaps_for_what_is_not_finite():
    frame = DataFrame({"x": [1.0, np.nan, np.inf], 2: ["a", None, "c"]})
    expected = [
        {"x": 1.0, "2": "a"},
        {"x": None, "2": None},
        {"x": None, "2": "c"},
    ]
    assert numbers(frame) == expected


def test_the_options_of_a_figure_are_the_keywords_of_its_frame():
    def frame(subject, extra=1, *, by="", version="clean"):
        return DataFrame()

    figure = Figure("made", "?", "system", frame, lambda table: None)
    assert list(figure.parameters) == ["by", "version"]
    assert figure.parameters["version"].default == "clean"


def test_a_figure_is_found_by_its_name():
    assert find("forest") is FIGURES["forest"]
    with pytest.raises(UsageError) as refusal:
        find("forrest")
    assert "forest" in refusal.value.hint
