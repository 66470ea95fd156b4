"""Methods x seeds in one line: a run for each."""

import json
from pathlib import Path

import pytest
from conftest import make_chain
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.commands.shell.words import methods_and_data
from fedcli.errors import UsageError
from fedcli.reproduction.expand import RecipeCell
from fedcli.reproduction.jobs import devices
from fedcli.stages.options import TrainOptions


def run(*words: object) -> tuple[int, list[str], str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout.split(), done.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return make_chain(tmp_path_factory.mktemp("several"))


def test_each_method_and_seed_is_the_run_that_it_is_by_itself_and_none_is_trained_twice(
    source, tmp_path
):
    words = "train", "fedavg", "fedprox", source, "--rounds", 1, "--work", tmp_path
    code, alone, err = run(
        "train", "fedprox", source, "--rounds", 1, "--seed", 1, "--work", tmp_path
    )
    assert code == 0, err
    code, paths, err = run(*words, "--seeds", 2)
    assert code == 0, err
    recorded = [json.loads(Path(path).read_text())["options"] for path in paths]
    methods_and_seeds = [(options["method"], options["seed"]) for options in recorded]
    expected = [("fedavg", 0), ("fedprox", 0), ("fedavg", 1), ("fedprox", 1)]
    assert methods_and_seeds == expected
    assert paths[3] == alone[0]
    assert "3 runs to train" in err
    assert "[4/4] FedProx · seed 1: was done already" in err
    code, again, err = run(*words, "--seeds", "0,1", "--json")
    assert code == 0
    result = [trained["path"] for trained in json.loads(" ".join(again))]
    assert result == paths
    assert err.count("was done already") == 4


def test_one_that_fails_is_named_and_the_others_are_there(source, tmp_path):
    code, paths, err = run(
        "train",
        "fedavg",
        "fedminmax",
        source,
        "--rounds",
        1,
        "--set",
        "attribute=size",
        "--work",
        tmp_path,
    )
    assert code == 1
    assert len(paths) == 1
    assert "fedavg" in paths[0]
    assert "1 of 2 runs failed: FedMinMax · seed 0" in err
    assert "--set attribute is an option of fedminmax alone" in err


def test_how_long_they_would_take_is_said_and_nothing_is_written(source, tmp_path):
    code, out, err = run(
        "train", "fedavg", "fedprox", source, "--rounds", 1, "--dry-run", "--work", tmp_path
    )
    assert (code, out) == (0, [])
    assert "2 runs to train: " in err
    assert not [*tmp_path.iterdir()]


REFUSED_LINES = [
    (["fedavg", "fedheal", "--name", "x"], "--name is of one run, and these are several"),
    (["fedavg", "FedAvg"], "is named twice"),
    (["fedavg", "fedheal", "--set", "tua=1"], "none of fedavg, fedheal has an option 'tua'"),
    (["fedavg", "--seeds", "2", "--seed", "1"], "--seed and --seeds exclude each other"),
    (["fedavg", "fedhel"], "did you mean 'fedheal'?"),
    (
        ["fedavg", "--adapters", "lora", "--local-adapters", "nonsense"],
        "'nonsense' is no method, no manifest and no value of an option",
    ),
    (["fedavg", "a.json", "b/c"], "a.json and b/c are two manifests"),
    (["--seeds", "2"], "which methods?"),
]


@pytest.mark.parametrize(
    ("words", "message"),
    REFUSED_LINES,
)
def test_what_cannot_be_is_one_sentence(source, tmp_path, words, message):
    code, out, err = run("train", *words, *([] if "b/c" in words else [source]), "--work", tmp_path)
    assert (code, out) == (2, [])
    assert message in err


def test_a_path_is_data_and_a_word_is_a_method(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("here", "fedprox"):
        Path(name).mkdir()
    for words, methods, data in (
        ("fedavg", ["fedavg"], None),
        ("fedavg x/corruption.json", ["fedavg"], "x/corruption.json"),
        ("fedavg here", ["fedavg"], "here"),
        ("fedavg -", ["fedavg"], "-"),
        ("fedavg gone", ["fedavg"], "gone"),
        ("fedavg fedprox", ["fedavg", "fedprox"], None),
        ("fedavg ./fedprox", ["fedavg"], "./fedprox"),
        ("FedISM+ fedprox+afl ./mine.py:A here", ["FedISM+", "fedprox+afl", "./mine.py:A"], "here"),
    ):
        assert methods_and_data(words.split()) == (methods, data), words
    with pytest.raises(UsageError, match="are two manifests"):
        methods_and_data(["here", "fedavg", "x.json"])
    with pytest.raises(UsageError, match="'gone' is no method, no manifest"):
        methods_and_data(["here", "fedavg", "gone"])


def test_small_networks_have_a_core_each_and_a_large_one_has_them_all(monkeypatch):
    monkeypatch.setattr("fedcli.system.processes.cores", lambda: 3)

    def of(**options):
        return [
            RecipeCell(
                "a", "data", "", seed, (), TrainOptions("fedavg", seed=seed, **options), None
            )
            for seed in range(5)
        ]

    result = devices("cpu", None, of())
    assert result == ("cpu",) * 3
    cells = of()[:2]
    result = devices("cpu", None, cells)
    assert result == ("cpu",) * 2
    assert (
        devices("cpu", None, of(model="resnet18"))
        == devices("cpu", None, of(engine="pool:2"))
        == ("cpu",)
    )
    result = devices("cpu", 4, of(model="resnet18"))
    assert result == ("cpu",) * 4
    monkeypatch.setattr("fedcli.runs.resources.free", lambda device: 2**31)
    result = devices("cpu", None, of())
    assert result == ("cpu",) * 2
