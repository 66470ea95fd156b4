"""A user's own grid."""

import json
from pathlib import Path

import pytest
from conftest import make_chain
from hospitals import prepared, write_hospitals
from typer.testing import CliRunner

import fedcli
from fedcli.commands.app import app
from fedcli.errors import UsageError
from fedcli.reproduce import sweep
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
    assert [row["name"] for row in written["rows"]] == ["q=0.5, lr=0.001", "q=2, lr=0.001"]
    assert not any(column["marked"] for column in written["columns"])
    assert written["notes"][0] == sweep.UNCHOSEN
    assert len(written["pictures"]) == 3  # clean, corrupted and average
    assert written["rows"][1]["command"] == "fedcli train qffl --lr 0.001 --rounds 1 --set q=2"


def validated(tmp_path):
    dataset = prepared(write_hospitals(tmp_path / "raw", count=60), tmp_path)
    return fedcli.partition(dataset, by=["hospital"], val=0.3, work=tmp_path)


VALIDATION = "validation balanced_accuracy, best round"
ON_TESTS = ["clean balanced_accuracy", "clean auc_ovo"]


def swept(tmp_path, **how):
    """Two values, of which the first learns nothing."""
    return fedcli.sweep(
        "fedavg", validated(tmp_path), over={"lr": [1e-9, 1e-2]}, rounds=2, work=tmp_path, **how
    )


def test_with_validation_images_only_the_chosen_value_has_test_scores(tmp_path, no_page):
    made = swept(tmp_path)
    frame = made.to_frame().set_index("row")
    chosen = frame[VALIDATION].idxmax()
    other = next(name for name in frame.index if name != chosen)
    assert made.results.chosen == [chosen]
    assert frame.loc[chosen, ON_TESTS].notna().all()
    assert frame.loc[other, ON_TESTS].isna().all()
    assert frame[VALIDATION].notna().all()
    assert [path.parent.parent.parent.name for path in made.scores] == [
        made.outcomes[[*frame.index].index(chosen)].path.parent.parent.parent.name
    ]
    assert [table.title for table in made.tables()] == [
        "On validation, best round",
        "On test images, the chosen alone",
    ]
    assert made.words()[0].startswith(f"Chosen on the clients' validation images: {chosen} (")
    assert sweep.CHOSEN in made.words()
    assert not made.results.statistics  # one row has nothing to be tested against
    text = (made.path / "table.md").read_text()
    assert text.index("## On validation") < text.index("## On test images")
    assert text.count(f"| {other} |") == 2  # its validation score and its command


def test_a_cell_that_ends_is_told_with_its_validation_score(tmp_path, no_page, caplog):
    caplog.set_level("INFO", "fedcli")
    swept(tmp_path, test=True)
    assert caplog.text.count(f"{VALIDATION} ") == 2
    assert "clean" not in caplog.text


def test_all_test_scores_are_shown_where_they_are_asked_for_below_those_of_validation(
    tmp_path, no_page
):
    made = swept(tmp_path, test=True)
    assert made.to_frame()[ON_TESTS].notna().all(axis=None)
    assert [table.title for table in made.tables()] == ["On validation, best round", "Scores"]
    assert made.results.chosen is None and made.results.notes[0] == sweep.ALL_TESTS
    assert len(made.scores) == 2 and made.results.statistics


def test_each_of_several_methods_has_a_value_of_its_own_chosen(tmp_path, no_page):
    source = validated(tmp_path)
    over = {"lr": [1e-9, 1e-2]}
    made = fedcli.sweep(["fedavg", "fedprox"], source, over=over, rounds=1, work=tmp_path)
    assert [name.partition(",")[0] for name in made.results.chosen] == ["FedAvg", "FedProx"]
    assert [test.metric for test in made.results.statistics] == ["balanced_accuracy", "auc_ovo"]


def test_methods_without_values_are_compared_on_test_images_as_ever(tmp_path, no_page):
    source = validated(tmp_path)
    made = fedcli.sweep(["fedavg", "fedprox"], source, rounds=1, work=tmp_path)
    assert made.to_frame()[ON_TESTS].notna().all(axis=None)
    assert not any(word.startswith("Chosen") for word in made.words())


def test_what_a_sweep_goes_over_is_an_option_of_the_method_or_a_flag_of_train(tmp_path):
    source: Path = make_chain(tmp_path)
    assert sweep.recipe_of(["fedavg"], source, ["batch-size=8,16"]).rows[1].train == {
        "batch_size": 16
    }
    for over, said in (
        ("qq=1", "neither qffl nor train"),
        ("q", "is not KEY=VALUE"),
        ("q=1,", "is not KEY=VALUE"),
    ):
        with pytest.raises(UsageError, match=said):
            sweep.recipe_of(["qffl"], source, [over])


def test_each_site_is_left_out_of_training_in_turn_and_tested_on(tmp_path, no_page):
    dataset = prepared(write_hospitals(tmp_path / "raw", count=60), tmp_path)
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
    made = json.loads(ended.stdout)
    assert [row["name"] for row in made["rows"]] == [
        "hold-out=east",
        "hold-out=north",
        "hold-out=south",
    ]
    assert made["notes"][0] == sweep.LEFT_OUT
    (table,) = tmp_path.glob("sweeps/*/held-out.md")
    lines = [line for line in table.read_text().splitlines() if line.startswith("| without")]
    assert len(lines) == 6 and all(
        line.split("|")[4].strip() == "20" for line in lines
    )  # images of each site
    script = CliRunner().invoke(app, [*words[:-1], "--dry-run"]).stdout
    assert script.count("--hold-out hospital=") == 3 and script.count("fedcli train") == 3


@pytest.mark.parametrize(
    ("over", "said"),
    [
        (["hold-out="], "without a value"),
        (["hold-out=all"] * 2, "twice"),
        (["hold-out=nort"], "never"),
    ],
)
def test_a_sweep_over_sites_names_them(tmp_path, over, said):
    with pytest.raises(UsageError, match=said):
        text, *_ = sweep.asked(over)
        sweep.leaving_out(text, make_chain(tmp_path), PartitionOptions(by=["sex"]))
