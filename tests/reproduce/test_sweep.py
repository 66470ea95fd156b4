"""A user's own grid."""

import json
from pathlib import Path

import pytest
from conftest import make_chain
from hospitals import prepared, write_hospitals
from typer.testing import CliRunner

import fedcli
from fedcli.commands.app import app
from fedcli.data import manifest, shared_patients
from fedcli.errors import FedcliError, UsageError
from fedcli.metrics.task import ONE
from fedcli.reproduction import sweep
from fedcli.stages.options import PartitionOptions


def test_a_grid_is_trained_and_the_test_set_chooses_nothing(tmp_path, no_page):
    source = make_chain(tmp_path, corrupted=True)
    words = [
        "sweep",
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
    ended = CliRunner().invoke(app, [*words, "--", "--rounds", "1"])
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
        how = {"over": VALUES, "rounds": 1, "jobs": 1} | how
        return fedcli.sweep(methods, validated, work=work, **how)

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
    assert sweep.CHOSEN in result.words()
    text = (result.path / "table.md").read_text()
    assert text.index("## On validation") < text.index("## On test images")


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
    words = ["sweep", "fedavg", str(validated.path), "--over", "lr=1e-9,1e-2", "--work", str(work)]
    printed = CliRunner().invoke(app, [*words, *flags, "--dry-run"]).stdout
    result = CliRunner().invoke(app, [*words, *flags, f"--dry-run={folder}"]).exit_code
    assert result == 0
    one_each = "".join(path.read_text() for path in folder.glob("*=*.sh"))
    for text in (printed, one_each):
        assert text.count("fedcli train") == 2
        assert text.count("fedcli evaluate") == (2 if flags else 0)
        assert ("shows test scores of the chosen value alone" in text) != bool(flags)


def test_a_page_that_was_not_written_is_not_named(validated, tmp_path, monkeypatch):
    def failed(*_, **__):
        raise FedcliError("no room")

    monkeypatch.setattr("fedcli.reproduction.jobs.train.run", failed)
    words = ["sweep", "fedavg", str(validated.path), "--over", "lr=1e-9,1e-2", "--jobs", "1"]
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
        "sweep",
        "fedavg",
        str(source),
        "--over",
        "hold-out=all",
        "--work",
        str(tmp_path),
        "--json",
    ]
    ended = CliRunner().invoke(app, [*words, "--", "--rounds", "1"])
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
    script = CliRunner().invoke(app, [*words[:-1], "--dry-run"]).stdout
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
        options = PartitionOptions(by=["sex"])
        sweep.leaving_out(text, make_chain(tmp_path), options)
