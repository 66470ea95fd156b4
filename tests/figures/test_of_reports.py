"""Figures of runs: their numbers beside scikit-learn's, and equal bytes for equal scores."""

from dataclasses import replace

import numpy as np
import pytest
import session
from conftest import make_chain
from made_plans import planned, train
from numpy.testing import assert_allclose
from scored_runs import heal, model, scored
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_curve

from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.figures import drawing, inline, report
from fedcli.figures.kinds import FIGURES, answers, confusion, errors, forest, overall_and_worst
from fedcli.figures.report import FORMATS, write_all
from fedcli.reporting.rows import compared, rows
from fedcli.reporting.table import Section
from fedcli.scores.clinical.binary import BENEFITS, benefit
from fedcli.scores.evaluate import evaluate
from fedcli.scores.statistics import bootstrap
from fedcli.seeds import derive

N = 80
LABEL = np.arange(N) % 4 // 3
SCORE = np.round(np.random.default_rng(2).random(N) * 0.6 + 0.3 * LABEL, 2).clip(
    0, 1
)  # some are equal
ONCE = np.ones((N, 1), np.int64)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained run that was evaluated."""
    work = tmp_path_factory.mktemp("graphics")
    training = Training(batch_size=10, lr=0.01)
    plan = planned("fedavg", {}, training, 1)
    path = train(make_chain(work), plan, work=work, out=None)
    return evaluate(path)


def test_curves_are_those_of_scikit_learn():
    alarms, hits, _ = roc_curve(LABEL, SCORE, drop_intermediate=False)
    x, y = answers.roc(SCORE, LABEL, ONCE)
    expected = pytest.approx([hits[alarms <= threshold + 1e-9].max() for threshold in x])
    assert y[:, 0] == expected
    precision, recall, _ = precision_recall_curve(LABEL, SCORE)
    x, y = answers.precision(SCORE, LABEL, ONCE)
    highest = []
    for reached in x[1:]:  # at the highest threshold that reaches it
        reaching = recall[:-1] >= reached - 1e-9
        highest.append(precision[:-1][reaching][-1])
    result = y[1:, 0]
    assert result == pytest.approx(highest)


def test_net_benefit_and_reliability_are_their_formulas():
    _, y = benefit(SCORE, LABEL, ONCE)
    for p, value in zip(BENEFITS, y[:, 0], strict=True):
        hits = np.sum((SCORE >= p) & (LABEL == 1))
        alarms = np.sum((SCORE >= p) & (LABEL == 0))
        odds = p / (1 - p)
        expected = pytest.approx(hits / N - alarms / N * odds)
        assert value == expected
    x, y = answers.reliability(SCORE, LABEL, ONCE)
    inside = (SCORE > 0.3) & (SCORE <= 0.4)
    expected = pytest.approx((SCORE[inside].mean(), LABEL[inside].mean()))
    result = (x[3, 0], y[3, 0])
    assert result == expected


@pytest.mark.parametrize("curve", [answers.roc, answers.precision, answers.reliability, benefit])
def test_a_weighted_resample_is_the_resample_itself(curve):
    resample = np.random.default_rng(0).integers(N, size=N)
    weights = np.bincount(resample, minlength=N)[:, None]
    weighted = curve(SCORE, LABEL, weights)[1]
    repeated = curve(SCORE[resample], LABEL[resample], ONCE)[1]
    assert_allclose(weighted, repeated)


def test_a_band_holds_the_middle_of_its_resamples():
    units = np.arange(N) // 2
    band = answers.band(answers.roc, SCORE, LABEL, units)
    draws = bootstrap.draw(units, answers.RESAMPLES, derive("bands", 0))
    resampled = answers.roc(SCORE, LABEL, draws.T)[1]
    expected = pytest.approx(np.quantile(resampled, 0.025, axis=1))
    assert band["low"].tolist() == expected
    expected = pytest.approx(np.quantile(resampled, 0.975, axis=1))
    assert band["high"].tolist() == expected
    label = np.zeros(N, int)
    alone = answers.band(answers.roc, SCORE, label, units)
    assert alone["y"].isna().all()
    assert alone["low"].isna().all()


def test_the_front_leaves_out_what_another_system_beats():
    points = dict(enumerate([(1, 3), (2, 2), (2, 1), (0, 3), (3, 0)]))
    result = overall_and_worst.front(points)
    assert result == [
        0,
        1,
        4,
    ]
    points = {3: (1, 1), 5: (1, 1)}
    result = overall_and_worst.front(points)
    assert result == [3, 5]


def test_the_worst_cases_are_the_surest_errors(run):
    (system,) = compared(rows([run]))
    images = system.versions["clean"]
    guess = images.chances.argmax(1)
    wrong = np.flatnonzero(guess != images.y)
    cases = errors.worst(images, np.arange(len(images.y)))
    assert set(cases) <= set(wrong.tolist())
    expected = min(len(wrong), errors.CASES)
    assert len(cases) == expected
    result = images.chances.max(1)[cases].min()
    is_other_error = guess != images.y
    is_other_error[cases] = False
    assert result >= images.chances.max(1)[is_other_error].max(initial=0)
    table = confusion_matrix(images.y, guess, labels=range(3))
    confusions = confusion.frame(system, by="sex")
    result = confusions["images"].to_list()[: table.size]
    assert result == table.ravel().tolist()


def test_the_command_draws_every_figure_and_says_what_each_shows(run, tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr(report, "write", lambda picture, *files: paths.extend(files))
    session.run(f"fedcli report {run} --figures {tmp_path}/b")
    result = {path.name for path in paths}
    assert result == {
        "forest.svg",
        "errors.svg",
        "flow.svg",
    }  # no severities were scored
    paths.clear()
    session.run(f"fedcli report {run} --work {tmp_path} --figures all --format svg,pdf")
    names = ("confusion-sex", "decision-sex", "precision-recall-sex", "reliability-sex", "roc-sex")
    stems = {*(f"{name}-clean" for name in names), "errors-sex", "flow"}
    stems |= {"forest-balanced-accuracy", "forest-auc"}
    expected = {f"{stem}.{kind}" for stem in stems for kind in ("svg", "pdf")}
    assert {path.name for path in paths} == expected
    captions = (tmp_path / "figures" / "captions.md").read_text()
    assert "500 bootstrap resamples of the patients" in captions
    assert "n = 40 images." in captions


def test_equal_scores_give_equal_files_with_their_caption(run, tmp_path, monkeypatch):
    systems = compared(rows([run]))
    (name, picture), *_ = report.of_systems(systems, ["roc"])
    panels = picture.panels[:1]
    named_picture = name, replace(picture, panels=panels)
    monkeypatch.setattr(report, "of_systems", lambda *_: [named_picture])
    for folder in ("a", "b"):
        write_all([], tmp_path / folder, FORMATS)
    file_names = sorted(path.name for path in (tmp_path / "a").iterdir())
    expected = ["captions.md", *(f"roc-sex-clean.{kind}" for kind in ("pdf", "png", "svg"))]
    assert file_names == expected
    assert all(
        (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        for name in file_names
    )
    assert "pointwise 95 % percentile" in (tmp_path / "a" / "roc-sex-clean.svg").read_text()
    assert b"pointwise" in (tmp_path / "a" / "roc-sex-clean.png").read_bytes()


@pytest.fixture
def two(tmp_path):
    """Two systems with scores of groups."""
    folder = tmp_path / "a"
    logits = model(1, 0)
    name = [scored(folder, logits), heal(tmp_path / "b", model(2, 0))]
    return compared(rows(name))


def test_two_systems_stand_in_one_plane(two):
    pictures = report.of_systems(two, ["overall"])
    result = [name for name, _ in pictures]
    assert result == [
        "overall-and-worst-balanced-accuracy",
        "overall-and-worst-auc",
    ]
    picture = pictures[0][1]
    assert list(picture.legend) == ["1 FedAvg", "2 FedHEAL"]
    canvas = drawing.drawn(picture)
    markers = [handle.get_marker() for handle in canvas.legends[0].legend_handles]
    points = [line.get_marker() for line in canvas.axes[0].lines if line.get_marker() != "None"]
    assert markers == points == ["o", "s"]
    result = [handle.get_linestyle() for handle in canvas.legends[0].legend_handles]
    assert result == [
        "None",
        "None",
    ]


def test_each_point_has_the_intervals_of_all_images_and_of_the_worst_group(two):
    table = overall_and_worst.frame(two)
    whole = forest.frame(two)
    for line in table.itertuples():
        scores = whole[(whole["system"] == line.system) & (whole["version"] == "clean")]
        everyone = scores[scores["attribute"] == ""].iloc[0]
        groups = scores[scores["attribute"] == line.attribute]
        lowest = groups.loc[groups["value"].idxmin()]
        expected = tuple(everyone[["value", "low", "high"]])
        assert (line.overall, line.overall_low, line.overall_high) == expected
        result = tuple(lowest[["low", "high"]])
        assert (line.worst_low, line.worst_high) == result
        assert line.overall_low < line.overall < line.overall_high
        assert line.worst <= lowest["value"] + 1e-9


def test_methods_stand_side_by_side_for_each_group_with_the_mean_of_the_tables(two):
    table = forest.frame(two)
    assert table.attrs["title"].endswith(" by sex")
    line = table.query("system == 'FedHEAL' and group == 'f' and version == 'clean'").iloc[0]
    score = two[1].scores.groups["sex"]["clean"]["auc_ovo_macro"]["f"]
    expected = pytest.approx(100 * score.mean)
    assert line["value"] == expected
    assert line["low"] < line["value"] < line["high"]
    canvas = drawing.drawn(forest.draw(table))
    assert next(text.get_text() for text in canvas.axes[0].get_yticklabels()).startswith(
        "all images (n = "
    )
    labels = [axes.get_xlabel() for axes in canvas.axes]
    words = " ".join([table.attrs["title"], *labels])
    assert "auc_ovo" not in words


def test_names_of_files_hold_neither_seeds_nor_settings_and_are_short(two):
    names = [name for name, _ in report.of_systems(two, ["all"])]
    assert {"forest-auc", "roc-sex-clean-fedavg", "roc-sex-clean-fedheal"} < {*names}
    assert max(map(len, names)) < 40
    both = [
        replace(system, short=f"FedAvg ({k} seeds)", scored=two[0].scored)
        for k, system in enumerate(two)
    ]
    assert report._short(both) == ["fedavg-1", "fedavg-2"]


def test_a_legend_of_the_page_shows_points_lines_and_lines_with_points(two):
    picture = FIGURES["overall-and-worst"].picture(two)
    looks = drawing.point, drawing.look, drawing.marked
    keys = []
    for look in looks:
        legend = {"a": look(0), "b": look(1)}
        changed = replace(picture, legend=legend)
        keys.append(inline.of_picture(changed).keys[1])
    points, lines, both = keys
    assert (points.pattern, points.mark) == (
        "",
        "M8.5,9.5 17.5,9.5 17.5,0.5 8.5,0.5 8.5,9.5Z",
    )  # a square
    assert (lines.pattern, lines.mark) == ("6 3", "")
    assert (both.pattern, both.mark) == (
        "6 3",
        points.mark,
    )


def test_of_many_systems_the_front_is_named(two):
    count = drawing.MOST_SYSTEMS + 2
    many = [replace(two[k % 2], place=k, short=f"system {k}", differs="") for k in range(count)]
    table = overall_and_worst.frame(many)
    best = set(table[table["front"]]["place"])
    assert 0 < len(best) < count
    picture = overall_and_worst.draw(table)
    shown = sorted({0, *best})
    expected = [f"{k} system {index}" for k, index in enumerate(shown, 1)]
    assert list(picture.legend) == expected
    assert "Grey: " in picture.caption
    assert "n = " in picture.caption


def test_figures_can_be_chosen_by_their_names(run, tmp_path):
    systems = compared(rows([run]))
    write_all(systems, tmp_path, ["svg"], ["roc", "flow"])
    result = {path.name for path in tmp_path.iterdir()}
    assert result == {
        "captions.md",
        "flow.svg",
        "roc-sex-clean.svg",
    }
    with pytest.raises(UsageError, match="no figure has 'rocks' in its name") as error:
        systems = compared(rows([run]))
        write_all(systems, tmp_path, ["svg"], ["rocks"])
    assert "roc-sex-clean" in error.value.hint


def test_figures_cards_and_evidence_are_written_anew_into_their_folders(run, tmp_path):
    into = f"--figures {tmp_path}/f --draw flow --card {tmp_path}/c --evidence {tmp_path}/e"
    for _ in range(2):
        assert f"wrote {tmp_path}/e/evidence.html" in session.run(
            f"fedcli report {run} {into} --format json"
        )


def test_what_cannot_be_compared_is_said_once_for_the_figures_and_the_page(run, tmp_path):
    """The run has few images, and so small groups."""
    out = f"--format html --out {tmp_path}/page.html"
    output = session.run(f"fedcli report {run} {out}")
    assert output.count("groups of few") == 1
    result = session.run(f"fedcli report {run} {out} --figures {tmp_path}/f --draw flow").count(
        "groups of few"
    )
    assert result == 1


def test_the_page_folds_the_figures(run):
    systems = compared(rows([run]))
    pictures = report.of_systems(systems, ["flow"])
    folded_figures = [inline.of_picture(picture) for _, picture in pictures]
    assert [folded.title for folded in folded_figures] == ["Flow of images: FedAvg"]
    section = Section("curves", "Curves", folded_panels=folded_figures)
    assert section.there
    assert "<svg " in folded_figures[0].figures[0].svg


def test_formats_of_figures_need_a_folder(run):
    assert "add --figures" in session.run(f"fedcli report {run} --format svg")
    assert "is unknown" in session.run(f"fedcli report {run} --format svgg")
    assert "two formats of one table" in session.run(f"fedcli report {run} --format csv,json")


def test_captions_say_what_a_mark_in_a_name_stands_for(two, tmp_path):
    marked = [
        two[0],
        replace(two[1], mark="[2]", differs="tau=0.3, averaging=of the clients that trained"),
    ]
    write_all(marked, tmp_path, ["svg"], ["overall-and-worst-auc"])
    assert "FedHEAL [2]" in (tmp_path / "overall-and-worst-auc.svg").read_text()
    assert (
        (tmp_path / "captions.md")
        .read_text()
        .endswith("\n\n[2] tau=0.3, averaging=of the clients that trained\n")
    )
