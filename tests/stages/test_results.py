"""Tables and facts that a stage's result shows of its manifest, by manifests written here."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedcli.errors import FedcliError
from fedcli.scores.evaluation_options import CompareOptions
from fedcli.stages import compare, results, shown
from fedcli.stages.results import Corruption, Dataset, Partition, Result, Run

DATASET = {
    "name": "skin",
    "count": 120,
    "size": [32, 32],
    "classes": ["mel", "nv"],
    "attributes": {"sex": ["female", "male"], "age": ["0-39", "40+"]},
}
ROSTER = [
    {"client": "north", "train": 40, "val": 4, "test": 10},
    {"client": "south", "train": 20, "val": 0, "test": 5},
]
TRAINED = {
    "label": "FedProx",
    "dataset": "skin",
    "roster": ["north", "south"],
    "rounds": 7,
    "model": {"name": "cnn"},
}


def holding(kind: type[Result], body, options=None):
    """A result of this kind whose manifest has this body."""
    manifest = SimpleNamespace(body=body, options=options or {})
    stand_in = type(kind.__name__, (kind,), {"manifest": manifest})
    return stand_in(Path("folder/x.json"))


def only_table(result):
    (table,) = result.tables()
    heads = [column.name for column in table.columns]
    lines = [[cell.plain for cell in line] for line in table.rows]
    return heads, lines


def test_a_dataset_is_a_line_of_what_it_holds():
    heads, lines = only_table(holding(Dataset, DATASET))
    assert heads == ["dataset", "images", "size", "classes", "attributes"]
    assert lines == [["skin", "120", "32 px", "mel, nv", "sex, age"]]


def test_a_partition_is_a_line_for_each_client():
    heads, lines = only_table(holding(Partition, {"dataset": "skin", "roster": ROSTER}))
    assert heads == ["client", "train images", "val images", "test images"]
    assert lines == [["north", "40", "4", "10"], ["south", "20", "0", "5"]]


def test_a_corruption_names_the_kind_beside_the_clients_that_have_it():
    body = {"dataset": "skin", "roster": ROSTER, "clients": ["south"], "kind": "fog"}
    heads, lines = only_table(holding(Corruption, body))
    assert heads[-1] == "corrupted"
    assert [line[-1] for line in lines] == ["", "fog"]


def test_a_run_is_a_line_of_what_was_trained():
    heads, lines = only_table(holding(Run, TRAINED, {"seed": 3}))
    assert heads == ["method", "dataset", "clients", "rounds", "seed", "network"]
    assert lines == [["FedProx", "skin", "2", "7", "3", "cnn"]]


def test_a_result_is_a_path_for_whoever_wants_one():
    result = Partition(Path("folder/partition.json"))
    assert os.fspath(result) == "folder/partition.json"
    assert f"{result}" == "folder/partition.json"
    assert Path(result).name == "partition.json"
    assert result.words() == ["Partition: folder/partition.json"]


def test_no_result_lies_where_there_is_no_manifest(tmp_path):
    with pytest.raises(FedcliError):
        Dataset.at(tmp_path)


def test_a_round_has_a_row_for_each_client_that_took_part():
    line = {
        "round": 4,
        "clients": ["south"],
        "weights": [1.0],
        "loss": [0.25],
        "reports": {"steps": [9]},
    }
    facts = list(results._of_clients(line, ["north", "south"]))
    expected = {"round": 4, "client": "south", "weight": 1.0, "loss": 0.25, "steps": 9}
    assert facts == [expected]


def test_a_round_that_names_no_clients_is_of_the_whole_roster():
    line = {"round": 1, "weights": [0.6, 0.4], "loss": [1.0, 2.0], "reports": {}}
    facts = list(results._of_clients(line, ["north", "south"]))
    assert [fact["client"] for fact in facts] == ["north", "south"]
    assert [fact["weight"] for fact in facts] == [0.6, 0.4]


def test_a_frame_is_in_percent_only_where_it_is_asked_for():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"runs": [3], "mean": [0.5], "std": [0.25]})
    shares = shown.in_unit(table.copy(), ["mean", "std"], percent=False)
    assert shares.attrs["unit"] == "share"
    assert shares["mean"].tolist() == [0.5]
    percent = shown.in_unit(table.copy(), ["mean", "std"], percent=True)
    assert percent.attrs["unit"] == "%"
    assert percent["mean"].tolist() == [50.0]
    assert percent["std"].tolist() == [25.0]
    assert percent["runs"].tolist() == [3]


def test_a_result_without_tables_is_its_words():
    class Silent(shown.Shown):
        def words(self):
            return ["nothing to count", "and nothing to show"]

    assert repr(Silent()) == "nothing to count\nand nothing to show"


def a_run(identity, name):
    return SimpleNamespace(identity=identity, scores=SimpleNamespace(name=name), path=Path(name))


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ([a_run("a", "FedAvg")], "this is one run, which has no other to be compared with"),
        (
            [a_run("a", "FedAvg"), a_run("a", "FedAvg")],
            "these runs differ in nothing but the seed: they are one system",
        ),
        (
            [a_run("a", "FedAvg"), a_run("b", "FedProx"), a_run("c", "MOON")],
            "these runs are 3 systems, not two: FedAvg, FedProx, MOON",
        ),
    ],
)
def test_one_system_or_three_are_not_compared(monkeypatch, runs, sentence):
    monkeypatch.setattr(compare, "read", lambda scores: runs)
    with pytest.raises(FedcliError) as refusal:
        compare._two([run.path for run in runs])
    assert refusal.value.sentence == sentence


def test_two_systems_are_compared_with_all_their_seeds(monkeypatch):
    runs = [a_run("a", "a0"), a_run("b", "b0"), a_run("a", "a1")]
    monkeypatch.setattr(compare, "read", lambda scores: runs)
    a, b = compare._two([run.path for run in runs])
    assert a == [Path("a0"), Path("a1")]
    assert b == [Path("b0")]


def test_a_metric_that_there_is_not_is_refused_before_a_run_is_read(tmp_path):
    with pytest.raises(FedcliError, match="accuracyy"):
        compare.run(CompareOptions(metric=["accuracyy"], work=tmp_path))
