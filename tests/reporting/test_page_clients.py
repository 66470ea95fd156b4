"""Parts of the page on groups, labels and clients, from rows made by hand."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from report_tables import texts

from fedcli.comparison.systems import BEST
from fedcli.data import image_counts, manifest
from fedcli.reporting.page import subgroups
from fedcli.reporting.table import DAGGER, Cell, ReportTable, percent
from fedcli.scores.parts import Client
from fedcli.scores.scores import Part
from fedcli.scores.table import Score, Where

ROSTER = [
    {"client": "east", "train": 30, "val": 0, "test": 4, "class_counts": [20, 10]},
    {"client": "west", "train": 12, "val": 0, "test": 6, "class_counts": [6, 6]},
]


def system(name="FedAvg", **numbers):
    """A system whose numbers are looked up by group, measure or metric."""

    def cell(where, doubtful=False):
        number = numbers.get(where.group or where.measure or where.metric)
        return percent(number, doubtful=doubtful)

    def percent_of(where):
        return 100 * numbers[where.group or where.measure]

    scores = SimpleNamespace(
        clients={}, corruption=None, personal_models=False, groups={}, unscored=None
    )
    return SimpleNamespace(
        name=name,
        cell=cell,
        percent=percent_of,
        comparable="",
        scores=scores,
        at="last",
        runs=1,
        which_data="",
        each=[scores],
    )


WHERES = {"f": Where("clean", group="f"), "gap": Where("clean", measure="gap")}


def by_system(*rows, doubtful=frozenset()):
    unsure = [doubtful for _ in rows]
    heads = {"f": "f [12]"}
    return subgroups._by_system("AUC", rows, WHERES, heads, "legend", unsure)


def test_a_table_of_systems_has_a_column_of_each_number_that_is_there():
    (table,) = by_system(system(f=0.7), system("FedProx", f=0.8))
    assert [column.name for column in table.columns] == ["method", "f [12]"]
    assert texts(table) == [["FedAvg", "70.00"], ["FedProx", "80.00"]]
    result = [row[1].best for row in table.rows]
    assert result == [False, True]


def test_low_gaps_are_the_best():
    (table,) = by_system(system(f=0.6, gap=0.1), system("FedProx", f=0.7, gap=0.2))
    result = [row[2].best for row in table.rows]
    assert result == [True, False]


def test_a_gap_that_is_smaller_as_no_group_gained_is_no_best():
    (table,) = by_system(system(f=0.7, gap=0.2), system("FedProx", f=0.6, gap=0.1))
    result = [row[2].best for row in table.rows]
    assert result == [False, False]


@pytest.mark.parametrize(
    ("group", "gap", "is_gain"),
    [(0.08, 0.01, True), (0.31, 0.01, False)],
)
def test_the_gap_of_an_error_that_falls_in_a_group_is_a_gain(group, gap, is_gain):
    where = Where("clean", metric="calibration_error_top_label", group="f")
    names = {"f": where, "gap": where._replace(group="", measure="gap")}
    rows = [system(f=0.3, gap=0.1), system("FedProx", f=group, gap=gap)]
    (table,) = subgroups._by_system("Error", rows, names, {}, "", [set(), set()])
    result = [row[2].best for row in table.rows]
    assert result == [False, is_gain]


def test_a_number_that_a_small_group_decides_is_no_best():
    rows = system(f=0.7), system("FedProx", f=0.8)
    (table,) = by_system(*rows, doubtful={"f"})
    result = [row[1].plain for row in table.rows]
    assert result == [f"70.00{DAGGER}", f"80.00{DAGGER}"]
    for row in table.rows:
        assert not row[1].best


def test_systems_without_a_number_have_no_table():
    assert by_system(system(), system("FedProx")) == []


def of_groups(**counts):
    """A system of one run whose groups have so many test images."""
    row = system()
    members = {group: Score(count=count) for group, count in counts.items()}
    row.scores.members = lambda attribute: members
    row.scores.grouped = {"sex": SimpleNamespace(unknown=0)}
    row.scores.images = sum(counts.values())
    return row


def small_ones(scores, attribute, *_):
    """Groups of fewer than 10 images."""
    members = scores.members(attribute)
    return {group: "few" for group, score in members.items() if score.count < 10}


def test_heads_of_groups_have_sizes_and_marks(monkeypatch):
    monkeypatch.setattr(subgroups, "small_groups", small_ones)
    heads = subgroups._group_heads([of_groups(f=1200, m=9)], "sex")
    assert heads == {"f": "f [1,200]", "m": f"m [9] {DAGGER}"}
    heads = subgroups._group_heads([of_groups(f=1200, m=9)] * 2, "sex")
    assert heads == {"f": "f [1,200]", "m": f"m [9] {DAGGER}"}


def test_no_head_of_a_group_has_a_size_where_test_sets_differ(monkeypatch):
    monkeypatch.setattr(subgroups, "small_groups", small_ones)
    rows = [of_groups(f=30, m=9), of_groups(f=120, m=120)]
    assert subgroups._group_heads(rows, "sex") == {"f": "f", "m": "m"}
    folds = of_groups(f=30, m=9)
    folds.each += of_groups(f=31, m=8).each
    assert subgroups._group_heads([folds], "sex") == {"f": "f", "m": f"m {DAGGER}"}


def test_a_group_that_is_small_in_one_fold_is_in_doubt(monkeypatch):
    monkeypatch.setattr(subgroups, "small_groups", small_ones)
    monkeypatch.setattr(subgroups, "has_small_group", lambda *_: False)
    monkeypatch.setattr(subgroups, "small_decides", lambda *_: set())
    folds = of_groups(f=30, m=30)
    folds.each += of_groups(f=31, m=8).each
    assert subgroups._unsure(folds, "sex", "clean", "accuracy") == {"m"}


def test_the_legend_of_groups_names_images_without_one(monkeypatch):
    monkeypatch.setattr(subgroups, "unreliable", lambda scores, attribute: "")
    monkeypatch.setattr(subgroups, "hidden_note", lambda scores, attribute: "")
    row = of_groups(f=17, m=20)
    row.scores.grouped = {"sex": SimpleNamespace(unknown=3)}
    row.scores.images = 40
    legend = subgroups._groups_legend([row], "sex")
    begin = f"{subgroups.GROUPS} {subgroups.SIZES.format(images='test images')}"
    assert legend.startswith(begin)
    assert "3" in legend.removeprefix(begin)
    assert "Bold" not in legend
    assert "Bold marks the best, without a test; never a gap" in subgroups._groups_legend(
        [row, row], "sex"
    )


def test_the_legend_of_groups_gives_no_number_where_test_sets_differ(monkeypatch):
    monkeypatch.setattr(subgroups, "unreliable", lambda scores, attribute: "")
    monkeypatch.setattr(subgroups, "hidden_note", lambda scores, attribute: "")
    rows = [of_groups(f=30, m=30), of_groups(f=120, m=120)]
    assert "[n]" not in subgroups._groups_legend(rows, "sex")
    rows[1].scores.grouped = {"sex": SimpleNamespace(unknown=3)}
    legend = subgroups._groups_legend(rows, "sex")
    assert legend.endswith("Images whose sex is unknown are in no group, but in the other scores.")


def test_the_images_of_a_label_are_left_out_where_test_sets_differ():
    def labelled(count):
        part = SimpleNamespace(overall={"clean": {"auc": Score(count=count)}})
        return SimpleNamespace(labels={"clean": {"ill": part}})

    assert subgroups._images_with("ill", [labelled(30), labelled(30)]) == 30
    assert subgroups._images_with("ill", [labelled(30), labelled(31)]) is None


def test_numbers_of_a_label_between_groups_are_in_doubt_where_one_group_is_small():
    def labelled(name, small):
        lines = {}
        for group, value in {"f": 0.7, "m": 0.8}.items():
            where = Where("clean", attribute="sex", group=group, label="ill", metric="auc")
            lines[where] = Score([value], [1], small=small if group == "m" else "")
        row = system(name, gap=0.1, auc=0.75)
        row.scores.labels = {"clean": {"ill": Part.of(Where(label="ill"), lines)}}
        row.scores.classes = ["ill"]
        row.known = [{}]
        return row

    rows = [labelled("FedAvg", ""), labelled("FedProx", "22 patients, fewer than 30")]
    gap = Where("clean", attribute="sex", metric="auc", measure="gap")
    rows[0].scores.labels["clean"]["ill"].overall["clean"] = {"auc": Score(count=30)}
    rows[1].scores.labels["clean"]["ill"].overall["clean"] = {"auc": Score(count=30)}
    table = subgroups._label_table("Labels", rows, [gap], "Legend.")
    assert [cell.plain for cell in table.rows[0]] == ["ill", "30", "10.00", f"10.00{DAGGER}"]
    assert table.legend == f"Legend.{subgroups.UNSURE_LABEL}"
    reliable = subgroups._label_table("Labels", rows[:1], [gap], "Legend.")
    assert reliable.legend == "Legend."


def test_clients_of_a_partition_have_their_parts_and_classes():
    rows = [system()]
    rows[0].scores.corruption = {"clients": ["west"]}
    body = {"roster": ROSTER, "classes": ["well", "ill"]}
    (table,), folded = subgroups._roster("Images of each client", body, rows)
    heads = [column.name for column in table.columns]
    assert heads == ["client", "images", "train", "test", "well", "ill"]
    expected = [
        ["east", "clean", "30", "4", "20", "10"],
        ["west", "corrupted", "12", "6", "6", "6"],
    ]
    assert texts(table) == expected
    assert folded == []


def test_many_classes_have_no_columns():
    classes = [f"class {k}" for k in range(25)]
    body = {"roster": ROSTER, "classes": classes}
    (table,), _ = subgroups._roster("Images", body, [system()])
    assert [column.name for column in table.columns] == ["client", "images", "train", "test"]


def test_partitions_are_named_where_there_are_several(monkeypatch):
    body = {"roster": ROSTER, "classes": ["well", "ill"]}
    monkeypatch.setattr(manifest, "read", lambda path: SimpleNamespace(body=body))
    rows = []
    for folder in ("iid", "skewed", "iid"):
        row = system()
        path = Path(folder, "partition.json")
        row.stage = lambda kind, path=path: path
        rows.append(row)
    titles = []
    for (table,), _ in subgroups._rosters(rows):
        titles.append(table.title)
    assert titles == ["Images of each client (iid)", "Images of each client (skewed)"]
    ((table,), _) = next(subgroups._rosters(rows[:1]))
    assert table.title == "Images of each client"
    rows[0].which_data = "fold 0, seed 0"
    ((table,), _) = next(subgroups._rosters(rows[:1]))
    assert table.title == "Images of each client, fold 0, seed 0"


def test_attributes_of_more_clients_than_table_1_has_are_tables(monkeypatch):
    roster = [{"client": f"c{k}"} for k in range(13)]
    body = {"roster": roster}
    monkeypatch.setattr(manifest, "read", lambda path: SimpleNamespace(body=body))
    counts = {client["client"]: {"train": {"f": 1, "m": 2}} for client in roster}
    by_name = {image_counts.CLASS: counts, "sex": counts}
    monkeypatch.setattr(image_counts, "of_manifest", lambda path: by_name)
    (tables,) = subgroups._attributes("Images", Path("partition.json"))
    (table,), folded = tables
    assert table.title == "Images: sex"
    assert len(table.rows) == 13
    assert folded == []
    body["roster"] = roster[:12]
    assert not list(subgroups._attributes("Images", Path("partition.json")))


@pytest.fixture
def client_table(monkeypatch):
    """The table of a metric of clients, from a column of each system."""

    def table(*columns, metric="accuracy", legend="Legend.", attribute=""):
        cells = iter(columns)
        monkeypatch.setattr(subgroups, "_column", lambda row, metric, attribute: next(cells))
        rows = [system(f"method {k}") for k in range(len(columns))]
        return list(subgroups._client_tables(rows, "Accuracy", legend, metric, attribute))

    return table


def test_clients_have_the_best_system_marked(client_table):
    first_method = {"east": percent(0.7), "west": percent(0.9)}
    second_method = {"east": percent(0.8)}
    (((table,), folded),) = client_table(first_method, second_method)
    assert texts(table) == [["east", "70.00", "80.00"], ["west", "90.00", "-"]]
    assert table.rows[0][2].best
    assert table.legend == f"Legend.{subgroups.BEST_OF}"
    assert folded == []


def test_scores_between_groups_of_a_client_have_no_best(client_table):
    first_method = {"east": percent(0.7)}
    second_method = {"east": percent(0.8)}
    (((table,), _),) = client_table(first_method, second_method, attribute="sex")
    for cell in table.rows[0]:
        assert not cell.best
    assert table.legend == "Legend."


def test_clients_without_a_number_make_no_table(client_table):
    assert client_table({"east": Cell()}) == []
    assert client_table({}) == []


def test_of_many_clients_the_lowest_scores_are_open(client_table):
    column = {f"c{k}": percent(k / 100) for k in range(30)}
    (((table,), (every,)),) = client_table(column)
    assert table.title == "Accuracy: the 10 of 30 clients with the lowest score"
    result = [row[0].text for row in table.rows]
    expected = [f"c{k}" for k in range(10)]
    assert result == expected
    assert every.title == "Accuracy: all 30 clients"


def test_of_a_score_that_is_better_when_low_the_highest_are_open(client_table):
    column = {f"c{k}": percent(k / 100) for k in range(30)}
    (((table,), _),) = client_table(column, column, metric="calibration_error")
    assert table.title.endswith("clients with the highest mean over the methods")
    assert table.rows[0][0].text == "c29"


def test_clients_without_models_or_images_of_their_own_share_the_scores():
    row = system()
    row.stage = lambda kind: None
    row.scores.clients = {"east": Client("clean", "whole")}
    section = subgroups.of_clients([row], ["accuracy"])
    assert section.text == [subgroups.SHARED]
    assert section.tables == []
    row.at = BEST
    assert subgroups.of_clients([row], ["accuracy"]).text == []


def test_a_client_with_images_of_its_own_has_scores_of_its_own():
    row = system()
    row.scores.clients = {"east": Client("clean", "own")}
    assert subgroups._has_own(row)
    row.scores.clients = {"east": Client("clean", "whole"), "west": Client("corrupted", "whole")}
    assert not subgroups._has_own(row)  # one kind, as the table of scores has it
    row.scores.clients["west"] = Client("corrupted", "whole", "blur 5")
    assert subgroups._has_own(row)
    row.scores.clients = {}
    assert not subgroups._has_own(row)
    row.scores.personal_models = True
    assert subgroups._has_own(row)


def test_tables_of_clients_that_are_corrupted_differently_say_so(monkeypatch):
    legends = []
    monkeypatch.setattr(
        subgroups, "_client_tables", lambda rows, title, legend, *_: legends.append(legend) or []
    )
    row = system()
    row.scores.usual = ("accuracy", "auc")
    row.scores.clients = {"east": Client("clean", "whole"), "west": Client("corrupted", "whole")}
    list(subgroups._scores_of_clients([row], ["accuracy"]))
    row.scores.clients["east"] = Client("corrupted", "whole", "blur 5")
    list(subgroups._scores_of_clients([row], ["accuracy"]))
    assert legends == [subgroups.OWN, f"{subgroups.OWN}{subgroups.DIFFERING}"]


def test_a_long_table_keeps_the_order_of_equal_clients():
    lines = [[f"c{k}", "1"] for k in range(21)]
    table = ReportTable.of("Score", ["client", "method"], lines)
    (worst,), _ = subgroups._folded(table, [0.0] * 21, "with the lowest score")
    result = [row[0].text for row in worst.rows]
    expected = [f"c{k}" for k in range(10)]
    assert result == expected
