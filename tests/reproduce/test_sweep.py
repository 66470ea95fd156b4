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
