"""`fedcli new`: every file that it writes works as it stands, and so does its test."""

import os
import sys
from pathlib import Path

import forked
import pytest

from fedcli.commands.app import app
from fedcli.commands.new import TRY


def run(*words):
    with pytest.raises(SystemExit) as ended:
        app(list(map(str, words)), prog_name="fedcli")
    return ended.value.code


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    for kind in TRY:
        assert run("new", kind, f"my-{kind}", "--out", folder, "--quiet") == 0
    return folder


def test_the_tests_that_it_writes_pass(templates):
    line = [
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(templates),
        str(templates),
    ]
    ended = forked.run(lambda: sys.exit(pytest.main(line)), templates)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " passed" in ended.stdout, ended.stdout + ended.stderr


def test_a_metric_is_a_cost_where_its_name_says_so(tmp_path):
    for name, words in (("my-cost", "Lower is better"), ("my-score", "Higher is better")):
        assert run("new", "metric", name, "--out", tmp_path, "--quiet") == 0
        assert words in (tmp_path / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")


def test_it_overwrites_nothing(templates, capsys):
    before = {path: path.read_bytes() for path in templates.glob("*.py")}
    assert run("new", "method", "my-method", "--out", templates) == 1
    assert "my_method.py is there already" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in templates.glob("*.py")}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["metod", "mine"], "kind='metod' is not one of method, dataset"),
        (["method", "../mine"], "'../mine' is no name for it"),
        (["method", "Mine"], "'Mine' is no name for it"),
        (["method", "lambda"], "'lambda' is a word of Python itself"),
        (["metric", "numpy"], "'numpy' is a name that the file itself imports"),
        (["method", "aggregator"], "'aggregator' is a name that the file itself imports"),
        (["metric", "accuracy"], "fedcli has a metric 'accuracy' already"),
    ],
)
def test_it_refuses_what_it_cannot_write(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("new", *words) == 2
    assert sentence in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_what_it_writes_runs_from_images_to_scores(templates, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mine = {kind: templates / f"my_{kind}.py" for kind in TRY}
    assert run("prepare", mine["dataset"], "--sample", "--size", 8, "--quiet") == 0
    assert run("partition", "--scheme", mine["partition"], "--clients", 2, "--quiet") == 0
    line = ["train", f"moon+{mine['method']}", "--model", mine["model"], "--rounds", 1, "--quiet"]
    assert run(*line) == 0
    assert capsys.readouterr().out.strip().endswith("run.json")
    assert run("evaluate", "--quiet") == 2  # the file that builds the network is not named
    assert (
        "this was made with my_model.py:build, which the command does not name"
        in capsys.readouterr().err
    )
    assert run("evaluate", "--quiet", "--code", mine["model"]) == 0
    assert run("report") == 0
    capsys.readouterr()
    assert not [
        path
        for path in Path("fedcli-work").rglob("*.json")
        if str(templates) in path.read_text(encoding="utf-8")
    ]
