"""Numbers of runs beside published ones."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from made_results import a_cell, made
from nested_scores import over, scores_of
from scored_runs import N, model, scored

from fedcli.comparison.systems import Scored, read
from fedcli.comparison.tested import Leads
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.reporting.writers import starred
from fedcli.reproduction import findings as of_rows
from fedcli.reproduction import record, results
from fedcli.reproduction.expand import RecipeCell
from fedcli.reproduction.findings import Findings, marks, score_tested
from fedcli.reproduction.jobs import Outcome
from fedcli.reproduction.recipe import Recipe, RecipeColumn, RecipeRow
from fedcli.reproduction.shape import Printed
from fedcli.reproduction.tables import beside
from fedcli.scores.table import Where


def a_client(count, *auc):
    return {"version": "clean", "part": "own", "count": count, "auc": over(*auc)}


SCORES = scores_of(
    {
        "versions": {"clean": {"count": 9, "accuracy": over(0.3, 0.5), "auc": over(None, None)}},
        "groups": {
            "age": {
                "clean": {
                    "last_round": {"groups": {"old": {}}},
                    "over_rounds": {"65/70": {"worst": over(0.25), "gap": over(0.1)}},
                }
            }
        },
        "bytes": {"up": 2_000_000.0},
        "clients": {
            "a/b": a_client(3, 0.2, 0.4),
            "c": a_client(5, 0.4, 0.8),
            "one class": a_client(1, None, None),
        },
        "best_on_validation": {
            "round": 1,
            "metric": "accuracy",
            "validation": 0.5,
            "versions": {"clean": {"accuracy": 0.45}},
            "groups": {},
        },
    }
)


SCORES_IN_UNITS = [
    ("versions/clean/accuracy", "percent", "last5", [30.0, 50.0]),
    ("versions/clean/accuracy", "none", "last", [0.5]),
    ("versions/clean/accuracy", "percent", "best", [45.0]),
    ("versions/clean/auc", "percent", "last5", []),
    ("groups/age/clean/over_rounds/65/70/worst", "percent", "last5", [25.0]),
    ("bytes/up", "MB", "last5", [2.0]),
    ("clients/*/auc", "percent", "last5", [30.0, 60.0]),
    ("clients/*/auc", "percent", "last", [60.0]),
    ("clients/*/count", "none", "last5", [3.0]),
    ("clients/*/auc", "percent", "best", []),
]


@pytest.mark.parametrize(
    ("score", "unit", "choice", "rounds"),
    SCORES_IN_UNITS,
)
def test_a_column_is_a_place_in_the_scores(score, unit, choice, rounds):
    fedavg = recipe(("FedAvg", "fedavg"), reference="FedAvg", at=choice)
    column = RecipeColumn(name="c", data="d", score=score, unit=unit)
    fedavg = with_columns(fedavg, column)
    result = findings(fedavg, {"FedAvg": SCORES}).columns("FedAvg")
    expected = {"c": {0: pytest.approx(rounds)}}
    assert result == expected


def as_text(table):
    return [[starred(cell) for cell in row] for row in table.unfolded().rows]


def only(result):
    (table,) = beside.main(result)
    return table


def test_the_spread_is_the_papers():
    runs = [[70.0, 72.0], [74.0, 76.0]]
    expected = pytest.approx(5**0.5)
    assert results.summary(runs, "pooled").std == expected  # ddof 0 over the four rounds
    expected = pytest.approx(8**0.5)
    assert results.summary(runs, "runs").std == expected  # ddof 1 of 71 and 75
    assert results.summary([[70.0]], "pooled").std is None


def test_a_mean_of_columns_is_taken_round_by_round_where_all_have_rounds():
    scores = {0: [70.0, 72.0], 1: [74.0, 76.0]}
    lower_scores = {0: [60.0, 62.0], 1: []}
    result = of_rows.mean_runs([scores, lower_scores])
    assert result == {0: [65.0, 67.0]}
    columns = [scores, {0: [61.0], 1: [65.0]}]
    result = of_rows.mean_runs(columns)
    expected = {0: [66.0], 1: [70.0]}
    assert result == expected
    columns = [{0: [60.0, 0.0]}, {0: [30.0, 50.0]}]
    result = of_rows.mean_runs(columns, harmonic=True)
    assert result == {0: [40.0, 0.0]}  # 2PR/(P+R)


@pytest.mark.parametrize(("lower", "lead"), [(False, [-4.0, -2.0]), (True, [2.0, 2.0])])
def test_a_difference_to_the_best_other_row_is_to_the_best_by_its_mean(lower, lead):
    column = RecipeColumn(
        name="lead",
        data="d",
        score="versions/clean/accuracy",
        unit="points",
        lower=lower,
        minus="*",
    )
    rows = {"a": {0: [70.0, 72.0]}, "b": {0: [74.0, 74.0]}, "c": {0: [68.0, 70.0]}, "none": {0: []}}
    table = with_columns(recipe(*((name, "fedavg") for name in rows), reference="a"), column)
    rounds = {name: {"lead": by_seed} for name, by_seed in rows.items()}
    result = of_rows.with_derived(table, rounds, "a")
    assert result == {"lead": {0: lead}}
    for name in ("a", "none"):
        result = of_rows.with_derived(table, {name: rounds[name]}, name)
        assert result == {"lead": {}}


def test_a_difference_to_another_row_is_taken_seed_by_seed_and_round_by_round():
    less = RecipeColumn(name="less", data="d", unit="points", minus="FedAvg")
    both = recipe(("FedAvg", "fedavg"), ("SALT", "salt"), reference="FedAvg")
    column = RecipeColumn(name="acc", data="d", score="versions/clean/accuracy")
    both = with_columns(both, column, less)
    mine = {0: [70.0, 74.0], 1: [71.0]}
    base = {0: [69.0, 70.0]}
    rounds = {"FedAvg": {"acc": base, "less": base}, "SALT": {"acc": mine, "less": mine}}
    expected = {"acc": mine, "less": {0: [1.0, 4.0]}}
    assert of_rows.with_derived(both, rounds, "SALT") == expected
    result = of_rows.with_derived(both, rounds, "FedAvg")
    assert result == {"acc": base, "less": {}}
    cells = {"FedAvg": a_cell(None), "SALT": a_cell(2.5, 1.5)}
    table = only(made(less, cells))
    result = as_text(table)
    expected = [["FedAvg", "-"], ["SALT", "+2.50 ±1.50"]]
    assert result == expected


def test_validation_chooses_among_the_values_of_one_row_and_not_between_methods():
    column = RecipeColumn(
        name="v", data="d", score="best_on_validation/validation", validation=True
    )
    result = made(
        column,
        {"q=1": a_cell(70.0, 1.0), "q=2": a_cell(60.0, 1.0), "beta=1": a_cell(65.0, 1.0)},
        seeds=(0, 1),
    )
    stems = "q-FedAvg", "q-FedAvg", "FairFed"
    rows = [
        row.model_copy(update={"stem": stem}) for row, stem in zip(result.rows, stems, strict=True)
    ]
    update = {"rows": [*rows, rows[2].model_copy(update={"name": "beta=2"})]}
    table = beside.on_validation(result.model_copy(update=update))
    result = [row[0].text for row in table.rows if row[1].best]
    assert result == ["q=1"]


def test_single_bytes_show_in_megabytes():
    column = RecipeColumn(name="up", data="d", score="bytes/up", unit="MB", lower=True)
    marks = {"up": record.Marked(best=["b"], doubtful=[], tested=False)}
    result = made(column, {"a": a_cell(44.754712), "b": a_cell(44.754708)}, marks=marks)
    expected = [["a", "44.754712"], ["b", "44.754708 *"]]
    assert as_text(only(result)) == expected


@pytest.mark.parametrize(
    ("means", "std", "marks"),
    [((37.90, 37.87), 13.5, []), ((60.0, 40.0), 1.5, ["a"]), ((60.0, 40.0), None, ["a"])],
)
def test_the_best_on_validation_is_marked_where_the_seeds_decide(means, std, marks):
    column = RecipeColumn(
        name="v", data="d", score="best_on_validation/validation", validation=True
    )
    cells = {name: a_cell(mean, std) for name, mean in zip("ab", means, strict=True)}
    table = beside.on_validation(made(column, cells, seeds=(0, 1)))
    result = [row[0].text for row in table.rows if row[1].best]
    assert result == marks
    assert "its lead exceeds the larger of the two deviations" in table.legend


def test_a_study_of_ones_own_has_no_table_of_ours():
    column = RecipeColumn(name="acc", data="d", score="versions/clean/accuracy")
    for published, title in ((None, "Scores"), (Printed(mean=61.0), "Ours, above the paper's")):
        result = only(made(column, {"a": a_cell(60.0, published=published)})).title
        assert result == title


def test_results_of_another_version_are_read_and_broken_ones_are_told(tmp_path):
    column = RecipeColumn(name="acc", data="d", score="versions/clean/accuracy")
    file = tmp_path / "results.json"
    published = Printed(mean=97.0)
    body = made(column, {"FedAvg": a_cell(60.0, published=published)}).body()
    for key in ("layout", "orders", "marks", "failed"):  # before these were written
        body.pop(key)
    file.write_text(json.dumps(body))
    result = record.Results.read(file).rows[0].cells["acc"].published.mean
    assert result == 97.0
    for text in ("[]", '{"columns": [{}]}', "{", '{"columns": 3}'):
        file.write_text(text)
        with pytest.raises(FedcliError, match=r"results.json cannot be read"):
            record.Results.read(file)


def outcome(row, seed=0):
    cell = RecipeCell(row, "d", "", seed, (), (), ())
    scores = Path(f"{row}-{seed}/scores.json")
    return Outcome(cell, scores)


def recipe(*rows, reference, **about):
    rows = tuple(RecipeRow(name=name, method=method, data=("d",)) for name, method in rows)
    return Recipe.model_construct(
        name="r", title="", reference=reference, chains={}, rows=rows, columns=(), **about
    )


def with_columns(recipe, *columns):
    return recipe.model_copy(update={"columns": columns})


def findings(recipe, scores):
    """Scores by row."""
    done = [outcome(name) for name in scores]
    runs = {
        ended.scores: Scored(ended.scores, {}, row_scores)
        for ended, row_scores in zip(done, scores.values(), strict=True)
    }
    return Findings(recipe, done, runs)


def test_a_place_that_no_row_has_is_refused_unless_a_row_is_left_out():
    both = recipe(("FedAvg", "fedavg"), ("Ditto", "ditto"), reference="FedAvg")
    column = RecipeColumn(name="own", data="d", score="personal/personal/clean/auc")
    personal = {"clean": {"auc": over(None)}, "groups": {}}
    body = {"versions": {}, "personal": {"personal": personal}}
    ditto = scores_of(body)
    scores = {"FedAvg": SCORES, "Ditto": ditto}
    of_both = findings(both, scores)
    assert of_both.has(column)
    assert not findings(both, {"FedAvg": SCORES}).has(column)
    with pytest.raises(UsageError, match=r"column 'own': scores.json has no 'clients/\*/acc'"):
        of_both.has(RecipeColumn(name="own", data="d", score="clients/*/acc"))


def test_only_a_version_of_the_test_images_has_a_test():
    places = (
        "clean/accuracy",
        "average/auc_binary",
        "*/accuracy",
        "clean/average/accuracy",
        "clean/calibration_error",
    )
    tested = [
        score_tested(RecipeColumn(name="c", data="d", score=f"versions/{path}")) for path in places
    ]
    expected = [
        Where("clean", metric="accuracy"),
        Where("average", metric="auc_binary"),
        None,
        None,
        None,
    ]
    assert tested == expected


def test_a_score_of_two_classes_is_marked_by_its_test(tmp_path):
    two = recipe(("FedAvg", "fedavg"), ("FedHEAL", "fedheal"), reference="FedAvg")
    y = np.arange(N) % 2
    skills = {"FedAvg": 0.2, "FedHEAL": 1.5}
    paths = {
        name: scored(tmp_path / name, model(skill, 0, 2, y), y=y) for name, skill in skills.items()
    }
    done = [Outcome(RecipeCell(name, "d", "", 0, (), (), ()), path) for name, path in paths.items()]
    runs = {run.path: run for run in read(list(paths.values()))}
    column = RecipeColumn(name="AUC", data="d", score="versions/clean/auc_binary")
    rows = made(column, {"FedAvg": a_cell(60.0), "FedHEAL": a_cell(80.0)}).rows
    marked = marks(Findings(with_columns(two, column), done, runs), rows)
    expected = {"AUC": record.Marked(best=["FedHEAL"], doubtful=[], tested=True)}
    assert marked == expected


def test_a_row_of_clients_own_models_is_in_no_test_and_says_so(monkeypatch):
    three = recipe(
        ("FedAvg", "fedavg"), ("FedProx", "fedprox"), ("Ditto", "ditto"), reference="FedAvg"
    )
    column = RecipeColumn(name="acc", data="d", score="versions/clean/accuracy")
    rows = *three.rows[:2], three.rows[2].model_copy(update={"scores_of": "mean_personal"})
    three = with_columns(three.model_copy(update={"rows": rows}), column)
    scores = dict.fromkeys((row.name for row in rows), SCORES)
    of_three = findings(three, scores)
    monkeypatch.setattr(
        manifest, "above", lambda path, *kinds: path if "run" in kinds else Path("p")
    )
    tested = []
    monkeypatch.setattr(of_rows, "order", lambda systems, *_: tested.append(list(systems)) or [])
    result = len(list(of_rows.tests(of_three)))
    assert result == 1
    assert tested == [["FedAvg", "FedProx"]]
    cells = {"FedAvg": a_cell(70.0), "FedProx": a_cell(60.0), "Ditto": a_cell(80.0)}
    result = made(column, cells)
    assert "Ditto shows clients' own models: it is in no test." in results.notes_of(three, result)
    pairs_tested = []
    monkeypatch.setattr(
        Leads,
        "test",
        lambda self, score, first, second, _: pairs_tested.append((first, second)) or True,
    )
    marked = marks(of_three, result.rows)["acc"]
    assert marked.best == ["Ditto"]
    assert not marked.tested
    assert not pairs_tested


def test_a_row_whose_models_may_be_at_chance_says_so_and_on_which_data(tmp_path):
    sure = {"high": 0.9, "unit": "image", "units": 60}
    weak, skilled = (
        {"clean": {"balanced_accuracy": {"value": v, "low": low} | sure}}
        for v, low in ((0.38, 0.3), (0.8, 0.7))
    )
    paths = [
        scored(tmp_path / name, model(1.0, 1), intervals=bounds)
        for name, bounds in (("ISIC", weak), ("RSNA", skilled))
    ]
    runs = {run.path: run for run in read(paths)}
    done = []
    for path in paths:
        data = path.parts[len(tmp_path.parts)]
        cell = RecipeCell("FedAvg", path.parent.name, data, 0, (), (), ())
        done.append(Outcome(cell, path))
    table = recipe(("FedAvg", "fedavg"), reference="FedAvg")
    ((title, caution),) = results.chance_of(Findings(table, done, runs), "FedAvg").items()
    assert title == "ISIC"
    assert caution.startswith(
        "may be no better than chance (33.3 %) on clean images: balanced accuracy 38.0 %"
    )
    update = {"rows": (table.rows[0].model_copy(update={"scores_of": "personal"}),)}
    table = table.model_copy(update=update)
    result = results.chance_of(Findings(table, done, runs), "FedAvg")
    assert result == {}


def test_rows_are_tested_against_the_reference_on_their_own_data(monkeypatch):
    data_of_rows = {
        "FedAvg, 0.1": "p1",
        "FedISM, 0.1": "p1",
        "FedAvg, 0.2": "p2",
        "FedISM, 0.2": "p2",
        "FedISM, 0.3": "p3",
        "FedGA, 0.3": "p3",
    }
    monkeypatch.setattr(
        manifest,
        "above",
        lambda path, *kinds: path if "run" in kinds else Path(data_of_rows[path.parts[0][:-2]]),
    )
    rows_and_seeds = [*itertools.product(data_of_rows, (0, 1))]
    rows_and_seeds.remove(("FedISM, 0.1", 0))
    outcomes = [outcome(row, seed) for row, seed in rows_and_seeds]
    note = of_rows.same_data(outcomes)
    pairs = [list(rows) for rows in note]
    expected = [
        ["FedAvg, 0.1", "FedISM, 0.1"],
        ["FedAvg, 0.2", "FedISM, 0.2"],
        ["FedISM, 0.3", "FedGA, 0.3"],
    ]
    assert pairs == expected
    table = recipe(
        *((row, row.partition(",")[0].lower()) for row in data_of_rows), reference="FedAvg, 0.2"
    )
    result = [of_rows._reference(Findings(table, [], {}), rows) for rows in pairs]
    assert result == [
        "FedAvg, 0.1",
        "FedAvg, 0.2",
        "FedISM, 0.3",
    ]
