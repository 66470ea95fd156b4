"""Defaults of prepare, partition and inspect, and mistakes that they refuse before any work."""

import json
from pathlib import Path

import pytest
from raw_folders import write_csv, write_skin
from typer.testing import CliRunner

from fedcli.commands.app import app


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout.strip(), done.stderr


def refused(*words: object, code: int = 2) -> str:
    ended, out, err = run(*words)
    assert (ended, out) == (code, ""), err
    assert "hint:" in err, err
    assert "Traceback" not in err, err
    return err


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """Prepared twice: phantom, which has sites, and toy, which has none."""
    folder = tmp_path_factory.mktemp("work")
    for name in ("phantom", "toy"):
        assert run("prepare", name, "--size", 8, "--out", folder / name)[0] == 0
    return folder


# partition


def test_a_bare_partition_is_the_one_that_train_makes_by_the_datasets_sites(work, tmp_path):
    _, out, err = run("partition", work / "phantom", "--work", tmp_path)
    assert "partition: the sites in 'site'" in err
    written = json.loads(Path(out).read_text())
    assert written["options"]["by"] == ["site"]
    assert written["made_by"] == ["partition", "--by", "site"]
    trained = run("train", "fedavg", work / "phantom", "--rounds", 1, "--work", tmp_path)
    assert trained[0] == 0
    assert f"already made: {Path(out).parent}" in trained[2]


def test_a_bare_partition_without_sites_is_dirichlet_and_says_so(work, tmp_path):
    _, out, err = run("partition", work / "toy", "--work", tmp_path)
    assert "partition: 8 clients, Dirichlet(1)" in err
    assert json.loads(Path(out).read_text())["made_by"] == [
        "partition",
        "--dirichlet",
        "1.0",
        "--clients",
        "8",
    ]


@pytest.mark.parametrize("flags", [("--clients", 3), ("--dirichlet", 2), ("--balanced",)])
def test_a_number_of_clients_or_an_alpha_is_dirichlet_in_spite_of_sites(work, tmp_path, flags):
    _, out, err = run("partition", work / "phantom", *flags, "--work", tmp_path)
    assert json.loads(Path(out).read_text())["options"]["scheme"].startswith("dirichlet")
    assert "the sites in" not in err


def test_a_number_of_clients_beside_by_is_refused_unless_it_counts(work, tmp_path):
    err = refused("partition", work / "phantom", "--by", "site", "--clients", 4, "--work", tmp_path)
    assert "--by makes one client per value, so --clients has no effect" in err
    assert "leave it out, or add --portion or --shares" in err
    for options in (("--portion", 0.5), ("--shares", "1,0,0,0")):
        words = (
            "partition",
            work / "phantom",
            "--by",
            "site",
            "--clients",
            4,
            *options,
            "--work",
            tmp_path,
        )
        assert run(*words)[0] == 0


# prepare


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (("--corrupt", "gausian"), "unknown corruption 'gausian'", "'gaussian'"),
        (("--corrupt", "gaussian", "--on", "nord"), "no client 'nord'", "'north'"),
        (
            ("--corrupt", "gaussian", "--on", "north", "--clients", 3),
            "no client 'north'",
            "client-02",
        ),
        (("--severity", 5), "--severity is about a corruption", "--corrupt KIND"),
        (("--ratio", 0.2), "--ratio is about a corruption", "--corrupt KIND"),
        (("--on", "north"), "--on is about a corruption", "--corrupt KIND"),
    ],
)
def test_a_corruption_that_cannot_be_is_refused_before_anything_is_read(
    tmp_path, words, sentence, hint
):
    err = refused("prepare", "phantom", *words, "--work", tmp_path / "work")
    assert sentence in err
    assert hint in err
    assert not (tmp_path / "work").exists()


def test_a_corruption_of_a_site_or_of_a_numbered_client_is_made(tmp_path):
    for words in (("--on", "north"), ("--on", "client-01", "--clients", 2)):
        few = "--size", 8, "--sample-images", 240
        code, out, err = run(
            "prepare", "phantom", *few, "--corrupt", "gaussian", *words, "--work", tmp_path
        )
        assert code == 0, err
        assert json.loads(Path(out).read_text())["body"]["clients"] == [words[1]]


def test_the_fold_of_a_split_file_is_told_with_its_own_numbers(tmp_path):
    write_skin(
        tmp_path, [[f"L{i}", f"i{i:02d}", "nv" if i % 2 else "mel", 30, "male"] for i in range(22)]
    )
    write_csv(tmp_path / "f.csv", ["image", "fold"], [[f"i{i:02d}", i // 2] for i in range(22)])
    words = (
        "prepare",
        "isic2018",
        "--raw",
        tmp_path,
        "--size",
        8,
        "--split-file",
        tmp_path / "f.csv",
    )
    code, _, err = run(*words, "--fold", 1, "--work", tmp_path / "work")
    assert code == 0
    assert "testing fold 1 of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 (f.csv's own numbers)" in err
    assert "also have training images" not in err


def test_a_split_file_that_shares_lesions_says_how_many(tmp_path):
    write_skin(
        tmp_path,
        [[f"L{i // 2}", f"i{i:02d}", "nv" if i < 10 else "mel", 30, "male"] for i in range(20)],
    )
    parts = [[f"i{i:02d}", "test" if i in (1, 3, 4, 5) else "train"] for i in range(20)]
    write_csv(tmp_path / "two.csv", ["image", "split"], parts)
    write_csv(
        tmp_path / "one.csv",
        ["image", "split"],
        [[id, "train" if id == "i01" else part] for id, part in parts],
    )
    for name, units in (
        ("two", "2 of 3 test lesions also have"),
        ("one", "1 of 2 test lesions also has"),
    ):
        words = (
            "prepare",
            "isic2018",
            "--raw",
            tmp_path,
            "--size",
            8,
            "--split-file",
            tmp_path / f"{name}.csv",
        )
        code, _, err = run(*words, "--work", tmp_path / "work")
        expected = f"{units} training images; --split lesion keeps them together"
        assert code == 0
        assert expected in err


# inspect


def test_strict_without_a_path_takes_the_newest_dataset_or_partition(tmp_path):
    run("prepare", "toy", "--sample-images", 200, "--clients", 2, "--work", tmp_path)
    partition = str(next(tmp_path.glob("partitions/*/partition.json")))
    _, corruption, _ = run("corrupt", "gaussian", partition, "--work", tmp_path)
    code, out, err = run("inspect", "--strict", "--work", tmp_path)
    assert code in (0, 1)
    assert f"using {partition}" in err
    assert "train and test share" in out
    err = refused("inspect", corruption, "--strict", "--work", tmp_path)
    assert "not for a corruption" in err
    assert f"give a dataset or partition, such as {partition}" in err


def test_strict_names_the_data_of_a_run_and_of_scores(work, tmp_path):
    _, run_path, _ = run("train", "fedavg", work / "toy", "--rounds", 1, "--work", tmp_path)
    _, scores, _ = run("evaluate", run_path, "--work", tmp_path)
    for path, words in ((run_path, "not for a run"), (scores, "not for scores")):
        err = refused("inspect", path, "--strict")
        assert words in err
        assert "partition.json" in err


# train


def test_a_second_stage_from_the_shell_finds_its_network_and_data_in_the_run_it_continues(
    work, tmp_path
):
    data = json.loads(
        Path(run("partition", work / "toy", "--iid", "--work", tmp_path)[1]).read_text()
    )
    _, first_run, _ = run("train", "fedavg", "--rounds", 1, "--work", tmp_path)
    code, second_run, err = run(
        "train", "crt", "--weights", Path(first_run).parent, "--rounds", 1, "--work", tmp_path
    )
    assert code == 0, err
    written = json.loads(Path(second_run).read_text())
    assert written["body"]["label"] == "FedAvg + cRT"
    assert len(written["body"]["roster"]) == len(data["body"]["roster"])


def test_an_empty_path_and_a_client_behind_single_site_are_explained(work, tmp_path):
    assert "the argument methods is empty" in refused("train", "fedavg", "", "--work", tmp_path)
    err = refused("train", "fedavg", "--single-site", "client-01", "--work", tmp_path)
    assert "no such manifest: client-01" in err
    assert "--single-site takes no client" in err


def test_a_second_seed_behind_seed_is_explained(work, tmp_path):
    err = refused("train", "fedavg", "--seed", 0, 7, "--work", tmp_path)
    assert "no such manifest: 7" in err
    assert "several seeds are written --seeds 3, or --seeds 0,7" in err


# report, compare and bench


def test_unknown_metrics_attributes_and_thresholds_are_refused_before_a_run_is_evaluated(
    work, tmp_path
):
    for seed in (0, 1):
        run("train", "fedavg", work / "phantom", "--rounds", 1, "--seed", seed, "--work", tmp_path)
    runs = sorted(tmp_path.glob("runs/*"))
    for flags, words in (
        (["--metric", "balanced_acuracy"], "did you mean 'balanced_accuracy'?"),
        (["--by", "height"], "has no attribute 'height'"),
        (["--shots", "many"], "is not two numbers"),
    ):
        for command in ("report", *(["compare"] if "--shots" not in flags else [])):
            assert words in refused(command, *runs, *flags)
            assert not list(tmp_path.glob("runs/*/scores"))


def test_report_separate_shows_every_run(work, tmp_path):
    for seed in (0, 1):
        run("train", "fedavg", work / "toy", "--rounds", 1, "--seed", seed, "--work", tmp_path)
    assert run("report", "--work", tmp_path)[1].count("\n FedAvg ") == 1
    assert run("report", "--separate", "--work", tmp_path)[1].count("\n FedAvg (seed=") == 2


def test_bench_refuses_an_unknown_device():
    assert "--device 'gpu' is unknown" in refused("bench", "--device", "gpu")


def test_bench_refuses_an_unknown_method_before_it_times_one():
    err = refused("bench", "--method", "fedavg", "--method", "nope")
    assert "unknown method 'nope'" in err
    assert "against a bare loop" not in err
