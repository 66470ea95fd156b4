"""A user's own grid."""

import json
import os
from pathlib import Path

import pytest
from conftest import make_chain
from hospitals import prepared, write_hospitals
from typer.testing import CliRunner

import fedcli
from fedcli.commands.app import app
from fedcli.data import manifest, shared_patients
from fedcli.errors import FedcliError, UsageError
from fedcli.figures.kinds import find
from fedcli.figures.series import read
from fedcli.metrics.task import ONE
from fedcli.reproduction import sweep
from fedcli.reproduction.tables import beside
from fedcli.stages import call, plot
from fedcli.stages.options import PartitionOptions, TrainOptions


def test_a_grid_is_trained_and_the_test_set_chooses_nothing(tmp_path, no_page):
    source = make_chain(tmp_path, corrupted=True)
    words = [
        "train",
        "qffl",
        str(source),
        "--over",
        "q=0.5,2",
        "--over",
        "lr=1e-3",
        "--work",
        str(tmp_path),
        "--json",
    ]
    ended = CliRunner().invoke(app, [*words, "--rounds", "1"])
    assert ended.exit_code == 0, ended.output
    assert "2 runs to train: " in ended.stderr
    written = json.loads(ended.stdout)
    result = [row["name"] for row in written["rows"]]
    assert result == ["q=0.5, lr=0.001", "q=2, lr=0.001"]
    for column in written["columns"]:
        assert not column["marked"]
    assert written["notes"][0] == sweep.UNCHOSEN
    assert len(written["pictures"]) == 3  # clean, corrupted and average
    assert written["rows"][1]["command"] == "fedcli train qffl --lr 0.001 --rounds 1 --set q=2"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def validated(work):
    """A partition whose clients have validation images."""
    raw = write_hospitals(work / "raw", count=60)
    dataset = prepared(raw, work)
    return fedcli.partition(dataset, by=["hospital"], val=0.3, work=work)


VALIDATION = "validation balanced_accuracy, best round"
ON_TESTS = [f"clean {metric}" for metric in ONE.usual]
VALUES = {"lr": [1e-9, 1e-2]}  # the first learns nothing


@pytest.fixture
def swept(validated, work, no_page, no_forecast):
    """A sweep over these values; runs of before are there already."""

    def sweep_with(methods="fedavg", **how):
        how = {"over": VALUES, "rounds": 1, "jobs": 1, "work": work} | how
        return fedcli.sweep(methods, validated, **how)

    return sweep_with


def test_with_validation_images_only_the_chosen_value_has_test_scores(swept):
    result = swept()
    frame = result.to_frame().set_index("row")
    chosen = frame[VALIDATION].idxmax()
    (other,) = {*frame.index} - {chosen}
    assert result.results.chosen == [chosen]
    assert frame.loc[chosen, ON_TESTS].notna().all()
    assert frame.loc[other, ON_TESTS].isna().all()
    assert frame[VALIDATION].notna().all()
    expected = [end.path for end in result.outcomes if end.cell.row == chosen]
    assert result.scores == expected
    assert not result.results.statistics  # one row has nothing to be tested against


def test_validation_comes_first_and_the_choice_is_named(swept):
    result = swept()
    (chosen,) = result.results.chosen
    assert [table.title for table in result.tables()] == [
        "On validation, best round",
        "On test images, the chosen alone",
    ]
    assert result.words()[0].startswith(f"Chosen on the clients' validation images: {chosen} (")
    assert "the same as" not in result.words()[0]
    assert sweep.CHOSEN in result.words()
    text = (result.path / "table.md").read_text()
    assert text.index("## On validation") < text.index("## On test images")


def test_values_that_share_the_best_score_are_named_behind_the_choice(swept):
    result = swept()
    (chosen,) = result.results.chosen
    best, other = sorted(result.results.rows, key=lambda row: row.name != chosen)
    tied = other.model_copy(update={"cells": other.cells | {VALIDATION: best.cells[VALIDATION]}})
    results = result.results.model_copy(update={"rows": [tied, best]})
    (sentence,) = beside.choice(results)
    assert sentence.endswith(f" %, the same as {other.name}).")


def test_files_and_json_hold_no_test_score_of_another_value(swept):
    result = swept()
    body = json.loads((result.path / "results.json").read_text())
    (chosen,) = body["chosen"]
    (other,) = (row for row in body["rows"] if row["name"] != chosen)
    means = {name: cell["mean"] for name, cell in other["cells"].items()}
    result = {name for name, mean in means.items() if mean is not None}
    assert result == {VALIDATION}
    assert [*body["pictures"]] == ["fedavg on images, over lr"]


def test_a_cell_that_ends_is_shown_with_its_validation_score(swept, caplog):
    caplog.set_level("INFO", "fedcli")
    swept(test=True)
    ends = [line for line in caplog.messages if line.startswith(("[1/2]", "[2/2]"))]
    result = sum(VALIDATION in line for line in ends)
    assert result == 2
    for line in caplog.messages:
        assert "clean" not in line


@pytest.mark.parametrize("flags", [[], ["--test"]])
def test_a_script_scores_test_images_only_where_all_of_them_are_shown(
    flags, validated, work, tmp_path
):
    folder = tmp_path / "scripts"
    words = ["train", "fedavg", str(validated.path), "--over", "lr=1e-9,1e-2", "--work", str(work)]
    assert CliRunner().invoke(app, [*words, *flags, f"--dry-run={folder}"]).exit_code == 0
    text = "".join(path.read_text() for path in folder.glob("*=*.sh"))
    assert text.count("fedcli train") == 2
    assert text.count("fedcli evaluate") == (2 if flags else 0)
    assert ("shows test scores of the chosen value alone" in text) != bool(flags)


def test_a_page_that_was_not_written_is_not_named(validated, tmp_path, monkeypatch):
    def failed(*_, **__):
        raise FedcliError("no room")

    monkeypatch.setattr("fedcli.reproduction.jobs.train.run", failed)
    words = ["train", "fedavg", str(validated.path), "--over", "lr=1e-9,1e-2", "--jobs", "1"]
    ended = CliRunner().invoke(app, [*words, "--work", str(tmp_path)])
    assert ended.exit_code == 1
    assert "results.json, table.md, table.tex" in ended.stderr
    assert "report.html" not in ended.stderr
    assert not [*tmp_path.glob("sweeps/*/report.html")]


def test_all_test_scores_are_shown_where_they_are_asked_for(swept):
    result = swept(test=True)
    assert result.to_frame()[ON_TESTS].notna().all(axis=None)
    assert [table.title for table in result.tables()] == ["On validation, best round", "Scores"]
    assert result.results.chosen is None
    assert result.results.notes[0] == sweep.ALL_TESTS
    assert len(result.scores) == 2


def test_each_of_several_methods_has_a_value_of_its_own_chosen(swept):
    result = swept(["fedavg", "fedprox"])
    assert [name.partition(",")[0] for name in result.results.chosen] == ["FedAvg", "FedProx"]
    assert [len(test.rows) for test in result.results.statistics] == [2, 2]


def test_methods_without_values_are_compared_on_test_images_as_ever(swept):
    result = swept(["fedavg", "fedprox"], over=None)
    assert result.to_frame()[ON_TESTS].notna().all(axis=None)
    for word in result.words():
        assert not word.startswith("Chosen")


def test_the_notes_of_a_table_say_how_many_patients_are_on_both_sides(
    tmp_path, no_page, no_forecast
):
    raw = write_hospitals(tmp_path / "raw", count=60)
    how = {"site": "hospital", "patient": "patient", "test": 0.4, "size": 8, "jobs": 1}
    dataset = fedcli.prepare("images", raw=raw, split="image", work=tmp_path, **how)
    source = fedcli.partition(dataset, by=["hospital"], work=tmp_path)
    over = {"lr": [1e-2]}
    result = fedcli.sweep(["fedavg"], source, over=over, rounds=1, work=tmp_path)
    body = manifest.read(source.path).body
    sentence = shared_patients.of_body(body)
    assert sentence.endswith(" test patients also have training images")
    assert result.results.notes[-1] == f"{sentence}."


def test_what_a_sweep_goes_over_is_an_option_of_the_method_or_a_flag_of_train(tmp_path):
    source: Path = make_chain(tmp_path)
    result = sweep.recipe_of(["fedavg"], source, ["batch-size=8,16"]).rows[1].train
    assert result == {"batch_size": 16}
    for over, message in (
        ("qq=1", "neither qffl nor train"),
        ("q", "is not KEY=VALUE"),
        ("q=1,", "is not KEY=VALUE"),
    ):
        with pytest.raises(UsageError, match=message):
            sweep.recipe_of(["qffl"], source, [over])


def test_each_site_is_left_out_of_training_in_turn_and_tested_on(tmp_path, no_page):
    raw = write_hospitals(tmp_path / "raw", count=60)
    dataset = prepared(raw, tmp_path)
    source = fedcli.partition(dataset, by=["hospital"], work=tmp_path)
    words = [
        "train",
        "fedavg",
        str(source),
        "--over",
        "hold-out=all",
        "--work",
        str(tmp_path),
        "--json",
    ]
    ended = CliRunner().invoke(app, [*words, "--rounds", "1"])
    assert ended.exit_code == 0, ended.output
    printed = json.loads(ended.stdout)
    result = [row["name"] for row in printed["rows"]]
    assert result == [
        "hold-out=east",
        "hold-out=north",
        "hold-out=south",
    ]
    assert printed["notes"][0] == sweep.LEFT_OUT
    (table,) = tmp_path.glob("sweeps/*/held-out.md")
    lines = [line for line in table.read_text().splitlines() if line.startswith("| without")]
    assert len(lines) == 6
    for line in lines:
        assert line.split("|")[4].strip() == "20"
    folder = tmp_path / "scripts"
    assert CliRunner().invoke(app, [*words[:-1], f"--dry-run={folder}"]).exit_code == 0
    script = "".join(path.read_text() for path in folder.glob("*=*.sh"))
    assert script.count("--hold-out hospital=") == 3
    assert script.count("fedcli train") == 3


@pytest.mark.parametrize(
    ("over", "message"),
    [
        (["hold-out="], "without a value"),
        (["hold-out=all"] * 2, "twice"),
        (["hold-out=nort"], "never"),
    ],
)
def test_a_sweep_over_sites_names_them(tmp_path, over, message):
    with pytest.raises(UsageError, match=message):
        text, *_ = sweep.read_axes(over)
        sweep.leaving_out(text, make_chain(tmp_path), PartitionOptions(by=["sex"]))


def rejected_and_chosen(result):
    """The folders of the runs of a sweep over two values."""
    (chosen,) = result.results.chosen
    by_row = {end.cell.row: end.path.parents[2] for end in result.outcomes}
    run = by_row.pop(chosen)
    return by_row.popitem()[1], run


def newest_last(rejected, *others):
    """Make a rejected run the one that was used last."""
    for seconds, run in enumerate((*others, rejected)):
        for path in run.rglob("*.json*"):
            os.utime(path, (1e9 + seconds, 1e9 + seconds))


@pytest.fixture
def swept_alone(swept, tmp_path, validated):
    """The folders of a rejected run, which was used last, and of the chosen one; the work folder."""
    result = swept(work=tmp_path)
    rejected, chosen = rejected_and_chosen(result)
    newest_last(rejected, chosen)
    return rejected, chosen, tmp_path


@pytest.mark.parametrize("name", [None, "fedavg"])
def test_no_command_takes_a_rejected_value_as_the_newest_run(name, swept_alone, capsys):
    rejected, chosen, work = swept_alone
    assert call.source(name, work, "run").parent == chosen
    assert call.source(name, work, "run", "scores").is_relative_to(chosen)
    assert "left out 1 run that" in capsys.readouterr().err
    assert call.source(rejected.name, work, "run").parent == rejected
    assert call.source(rejected, work, "run").parent == rejected


@pytest.mark.parametrize("names", [[], ["fedavg"], ["the work folder"], ["its runs"]])
def test_no_report_or_figure_shows_a_rejected_value_unasked(names, swept_alone):
    rejected, chosen, work = swept_alone
    paths = {"the work folder": work, "its runs": work / "runs"}
    runs = [paths.get(name, name) for name in names]
    report = fedcli.report(runs, work=work)
    assert [path.parents[2] for path in report.scores] == [chosen]
    if runs in ([], ["fedavg"]):
        (drawn,) = plot.runs_of(runs, work, every=False)
        assert chosen in (drawn, drawn.parent)
    both = fedcli.report([rejected, chosen], work=work)
    assert len(both.scores) == 2


def test_the_figure_of_a_sweep_takes_all_values_and_can_leave_the_rejected_out(swept_alone):
    rejected, chosen, work = swept_alone
    paths = plot.paths_of(find("sweep"), [], work)
    assert {path.parent for path in paths} == {rejected, chosen}
    records = [read(path) for path in paths]
    assert [record.folder for record in plot._chosen(records)] == [chosen]
    frame = fedcli.plot("sweep", work=work, over="lr").frame
    assert sorted(frame["value"]) == VALUES["lr"]


def test_a_sweep_that_has_not_ended_has_chosen_no_run(swept_alone):
    _, chosen, work = swept_alone
    for table in work.glob("sweeps/*/results.json"):
        table.unlink()
    with pytest.raises(FedcliError, match="has not chosen 2 runs, such as") as raised:
        call.source(None, work, "run")
    assert "sweep again" in raised.value.hint
    assert call.source(chosen, work, "run").parent == chosen


def test_where_all_test_scores_were_asked_for_any_run_is_taken(swept, tmp_path):
    rejected, chosen = rejected_and_chosen(swept(work=tmp_path))
    swept(work=tmp_path, test=True)
    newest_last(rejected, chosen)
    assert call.source(None, tmp_path, "run").parent == rejected


def cells_over(source, *over):
    common = TrainOptions(None, rounds=2)
    work = source.parent
    planned = sweep.planned(["fedavg"], source, over, (0,), common, work, sweep._undivided)
    return [cell.train for cell in planned.cells]


VALUES_WITH_PARTS = [  # --over -> fields of each training
    ("dp=client:1,client:50", [{"dp_noise": 1}, {"dp_noise": 50}]),
    ("dp=client:1,clip=0.5,client:2", [{"dp_clip": 0.5}, {"dp_noise": 2, "dp_clip": 1}]),
    (
        "optimizer=sgd:momentum=0.5,nesterov,adam:backbone=0.1",
        [{"momentum": 0.5, "nesterov": True}, {"optimizer": "adam", "backbone": 0.1}],
    ),
    ("rounds=4:patience=1,5", [{"rounds": 4, "patience": 1}, {"rounds": 5, "patience": 0}]),
    (
        "loss=focal:2:smoothing=0.1,cross-entropy",
        [{"label_smoothing": 0.1}, {"label_smoothing": 0}],
    ),
]


@pytest.mark.parametrize(("over", "expected"), VALUES_WITH_PARTS)
def test_parts_of_a_varied_value_are_trained_with(tmp_path, over, expected):
    trainings = cells_over(make_chain(tmp_path), over)
    assert len(trainings) == len(expected)
    for training, fields in zip(trainings, expected, strict=True):
        for name, value in fields.items():
            assert getattr(training, name) == value


def test_a_part_without_its_value_is_refused(tmp_path):
    source = make_chain(tmp_path)
    with pytest.raises(UsageError, match="unknown part 'sgd'"):
        cells_over(source, "optimizer=sgd,nesterov")


def test_seeds_are_no_values_to_go_over(tmp_path):
    source = make_chain(tmp_path)
    with pytest.raises(UsageError, match="has an option 'seed'") as refusal:
        cells_over(source, "seed=0,1")
    assert refusal.value.hint == "write --seeds 0,1"


def test_a_part_of_two_options_is_answered_with_the_names_of_both(tmp_path):
    source = make_chain(tmp_path)
    with pytest.raises(UsageError, match="has an option 'clip'") as refusal:
        cells_over(source, "clip=1,5")
    assert refusal.value.hint == "write clip-norm of --optimizer or dp-clip of --dp"
