"""Table 1, settings and lineage of a page, from counts and options made by hand."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from pandas import DataFrame
from report_tables import texts
from scored_runs import fold, model, scored

from fedcli.data import image_counts, manifest
from fedcli.reporting import timing
from fedcli.reporting.page import provenance
from fedcli.reporting.rows import rows
from fedcli.reporting.table import ReportTable

SEX = {
    "east": {"train": {"f": 30, "m": 10}},
    "west": {"train": {"f": 5, "m": 15}},
    "all": {"test": {"f": 8, "m": 12}},
}
TOTALS = {
    "east": {"train": {provenance.TOTAL: 40}},
    "west": {"train": {provenance.TOTAL: 20}},
    "all": {"test": {provenance.TOTAL: 20}},
}
CLASSES = {
    "east": {"train": {"well": 25, "ill": 15}},
    "west": {"train": {"well": 10, "ill": 10}},
    "all": {"test": {"well": 20, "ill": 0}},
}


@pytest.fixture
def table_of(monkeypatch):
    """Table 1 of counts by client."""

    def table(**counts):
        monkeypatch.setattr(provenance, "_images_by_client", lambda run: counts)
        (table,) = provenance.table_one(Path("run.json"))
        return table

    return table


def test_table_1_has_counts_and_shares_of_each_column(table_of):
    table = table_of(**{provenance.TOTAL: TOTALS, image_counts.CLASS: CLASSES, "sex": SEX})
    assert [column.title for column in table.columns] == [
        "images",
        "east, train",
        "west, train",
        "all, test",
    ]
    expected = [
        ["all", "40", "20", "20"],
        ["class: well", "25 (62.5)", "10 (50.0)", "20 (100.0)"],
        ["class: ill", "15 (37.5)", "10 (50.0)", "0 (0.0)"],
        ["sex: f", "30 (75.0)", "5 (25.0)", "8 (40.0)"],
        ["sex: m", "10 (25.0)", "15 (75.0)", "12 (60.0)"],
    ]
    assert texts(table) == expected
    assert table.legend == provenance.TABLE_ONE


def test_images_of_several_labels_or_none_count_once(table_of):
    """Four images: two with the labels a and b, one with a, one with none."""
    several = {"east": {"train": {"a": 3, "b": 2}}}
    sex = {"east": {"train": {"f": 3, "m": 1}}}
    totals = {"east": {"train": {provenance.TOTAL: 4}}}
    table = table_of(**{provenance.TOTAL: totals, image_counts.CLASS: several, "sex": sex})
    expected = [
        ["all", "4"],
        ["class: a", "3 (75.0)"],
        ["class: b", "2 (50.0)"],
        ["sex: f", "3 (75.0)"],
        ["sex: m", "1 (25.0)"],
    ]
    assert texts(table) == expected


def test_the_total_of_a_partition_is_its_number_of_images(monkeypatch):
    counts = {image_counts.CLASS: {"east": {"train": {"a": 3, "b": 2}}}}
    monkeypatch.setattr(manifest, "parent", lambda path, *kinds: Path(kinds[0]))
    monkeypatch.setattr(image_counts, "of_manifest", lambda path: counts)
    monkeypatch.setattr(image_counts, "totals", lambda path: {"east": {"train": 4}})
    result = provenance._images_by_client(Path("run.json"))
    totals = {"east": {"train": {provenance.TOTAL: 4}}}
    assert result == {provenance.TOTAL: totals, **counts}


def test_a_hidden_count_is_marked_and_explained(table_of):
    hidden = {"east": {"train": {"well": 25, "ill": None}}}
    totals = {"east": {"train": {provenance.TOTAL: 30}}}
    table = table_of(**{provenance.TOTAL: totals, image_counts.CLASS: hidden})
    expected = [
        ["all", "30"],
        ["class: well", "25 (83.3)"],
        ["class: ill", provenance.HIDDEN],
    ]
    assert texts(table) == expected
    assert table.legend.endswith(provenance.HIDING)


def test_many_clients_have_one_column_and_a_hidden_count_hides_the_sum():
    clients = {f"c{k}": {"train": {"f": 2, "m": k}} for k in range(13)}
    clients["c5"]["train"]["m"] = None
    columns = provenance._columns(clients)
    assert columns == {("clients", "train"): {"f": 26, "m": None}}
    few = dict(list(clients.items())[:12])
    assert len(provenance._columns(few)) == 12


def test_a_column_without_images_has_a_dash():
    assert provenance._cell({"f": 0}, "f", 0).text == "-"
    assert provenance._cell({"f": 3, "m": 1}, "f", 12).text == "3 (25.0)"


def test_a_run_without_data_has_no_table_1(monkeypatch):
    monkeypatch.setattr(manifest, "parent", lambda path, *kinds: None)
    assert provenance.table_one(Path("run.json")) == []


def test_images_of_one_of_several_runs_say_which(monkeypatch):
    table = ReportTable.of("Table 1", ["images"], [["40"]])
    monkeypatch.setattr(provenance, "table_one", lambda run: [table])
    steps = DataFrame([["trained on", 30, "", True]])
    monkeypatch.setattr(provenance.flow, "frame", lambda row: steps)
    row = SimpleNamespace(
        run_files=[Path("run.json")], run_name="FedAvg (2 folds), fold 0", which_data="fold 0"
    )
    titles = [table.title for table in provenance.images(row)]
    assert titles == ["Table 1, fold 0", "Flow of images: FedAvg (2 folds), fold 0"]
    row.which_data = ""
    assert provenance.images(row)[0].title == "Table 1"


def test_runs_on_data_of_their_own_say_which_is_the_first(tmp_path):
    folds = [scored(tmp_path / f"f{k}", model(1, k), **fold(k)) for k in (0, 1)]
    (row,) = rows(folds, spread="pooled")
    assert row.which_data == "fold 0, seed 0"
    seeds = [scored(tmp_path / f"s{k}", model(1, k), seed=k) for k in (0, 1)]
    (row,) = rows(seeds, spread="pooled")
    assert row.which_data == ""


def test_images_at_sites_are_counted_as_the_sites_described_them(tmp_path, monkeypatch):
    described = {"images": {"train": 30, "val": 4}, "counts": {"class": {"train": {"ill": 12}}}}
    (tmp_path / "east.json").write_text(json.dumps(described), encoding="utf-8")
    sites = SimpleNamespace(options={"sites": ["east"]})
    parents = {"sites": tmp_path / "sites.json"}
    monkeypatch.setattr(manifest, "parent", lambda path, *kinds: parents.get(kinds[0]))
    monkeypatch.setattr(manifest, "read", lambda path: sites)
    expected = {
        provenance.TOTAL: {"east": {"train": {"": 30}, "val": {"": 4}}},
        "class": {"east": {"train": {"ill": 12}}},
    }
    assert provenance._images_by_client(Path("run.json")) == expected


def system(name, **options):
    scores = SimpleNamespace(
        rule="paper",
        settings={"rule": "paper", "mu": 0.1},
        bytes=SimpleNamespace(down=2_000_000, up=1_000_000),
        options={"lr": 0.1, "seed": 0, "momentum": 0.0, "nesterov": False} | options,
        rounds=5,
    )
    return SimpleNamespace(name=name, scores=scores, seeds=[0, 1], runs=2, paths=[Path(name)])


def test_each_method_has_its_rule_options_seeds_and_traffic():
    (table,) = provenance.settings([system("FedProx")], False).tables
    assert texts(table) == [["FedProx", "paper: the paper's formula", "mu=0.1", "0, 1", "2", "1"]]


def test_a_method_without_options_has_a_dash():
    row = system("FedAvg")
    row.scores.settings = {}
    row.scores.rule = "mean"
    assert provenance._method_line(row)[1:3] == ["mean", "-"]


def test_options_that_all_share_are_pairs_and_others_a_table():
    section = provenance.settings([system("FedAvg"), system("FedProx", lr=0.2)], False)
    pairs = dict(section.pairs)
    assert section.pairs_title == "Options of training that all share"
    _, table = section.tables
    assert table.title == "Options of training that differ"
    ((option, *values),) = texts(table)
    assert "--lr" in option
    assert values == ["0.1", "0.2"]
    assert not [name for name in pairs if "--lr" in name or "--seed" in name]


def values_of(word, *systems):
    options = provenance._options(systems)
    return [values for name, values in options.items() if word in name.lower()]


def test_an_option_that_is_off_in_every_run_is_not_listed():
    off = system("FedAvg", patience=0, prior="none", weights=None, personal=False)
    for word in ("momentum", "patience", "rare classes", "weights", "local training"):
        assert not values_of(word, off), word
    assert values_of("patience", off, system("FedProx", patience=3)) == [["0", "3"]]


def test_an_option_without_effect_is_listed_only_with_its_owner():
    clip = {"dp_clip": 0.5, "dp_noise": 0.0}
    assert not values_of("--dp", system("FedAvg", **clip))
    noisy = system("FedAvg", **clip | {"dp_noise": 20.0})
    assert sorted(values_of("--dp", noisy)) == [["0.5"], ["20.0"]]
    assert not values_of("nesterov", system("FedAvg", nesterov=True))
    with_momentum = system("FedAvg", nesterov=True, momentum=0.9)
    assert values_of("nesterov", with_momentum) == [["yes"]]


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "none"), (True, "yes"), (False, "no"), (1, "1"), (0, "0"), (0.5, "0.5")],
)
def test_values_of_options_are_words(value, words):
    assert provenance._option_in_words(value) == words


CLOCKS = timing.ClockTimes(1.5, 2000.4, 0.25, 3e9, 0.5, None, watt_hours=2.0)


def test_time_and_memory_are_in_the_units_of_their_heads(monkeypatch):
    clocks = {"FedAvg": CLOCKS, "FedProx": None}
    monkeypatch.setattr(timing, "of_runs", lambda paths: clocks[paths[0].name])
    (table,) = provenance._times([system("FedAvg"), system("FedProx")])
    heads = [column.name for column in table.columns]
    cells = [cell.text for cell in table.rows[0]]
    numbers = dict(zip(heads, cells))
    assert numbers["minutes"] == "1.50"
    assert numbers["images per second"] == "2,000"
    assert numbers["scoring (%)"] == "25.0"
    assert numbers["peak memory (GB)"] == "3.00"
    assert numbers["of memory speed (%)"] == "-"
    assert numbers["energy (Wh)"] == "2.00"
    assert "energy of the GPU (Wh)" not in heads
    result = [cell.text for cell in table.rows[1]]
    assert result == ["FedProx", *["-"] * 7]
    assert "that trained, mean over seeds. Images per second" in table.legend
    assert "Energy: of the machine's processors" in table.legend
    assert "Energy of the GPU" not in table.legend


def test_runs_without_clocks_have_no_table_of_time(monkeypatch):
    monkeypatch.setattr(timing, "of_runs", lambda paths: None)
    assert provenance._times([system("FedAvg")]) == []


def test_stages_are_in_the_order_in_which_they_were_made(monkeypatch):
    parents = {
        ("scores.json", "run"): Path("run.json"),
        ("run.json", "run"): Path("first.json"),
        ("run.json", "dataset"): Path("dataset.json"),
        ("run.json", "partition"): Path("partition.json"),
        ("scores.json", "dataset"): Path("other.json"),
    }
    monkeypatch.setattr(manifest, "parent", lambda path, *kinds: parents.get((path.name, kinds[0])))
    names = [path.name for path in provenance._stages(Path("scores.json"))]
    assert names == [
        "dataset.json",
        "partition.json",
        "other.json",
        "first.json",
        "run.json",
        "scores.json",
    ]


def test_lineage_names_each_stage_once_with_its_command(monkeypatch):
    stages = {
        "dataset": ["prepare", "own images"],
        "run": ["train", "fedavg"],
        "scores": ["evaluate"],
    }
    folders = {"dataset": "data", "run": "runs/a", "scores": "runs/a/scores/12"}
    paths = {Path(folders[kind], "x.json"): kind for kind in stages}
    monkeypatch.setattr(provenance, "_stages", lambda path: list(paths))
    monkeypatch.setattr(manifest, "sha256", lambda path: "0123456789abcdef")
    monkeypatch.setattr(
        manifest,
        "read",
        lambda path: SimpleNamespace(kind=paths[path], made_by=stages[paths[path]]),
    )
    (table,) = provenance.lineage([system("a"), system("b")]).tables
    expected = [
        ["dataset", "data", "fedcli prepare 'own images'", "0123456789ab"],
        ["run", "a", "fedcli train fedavg", "0123456789ab"],
        ["scores", "a/scores/12", "fedcli evaluate", "0123456789ab"],
    ]
    assert texts(table) == expected
