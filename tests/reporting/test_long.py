import pandas
import pytest
import session
from conftest import make_chain
from made_plans import planned, train

from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.reporting.pipelines import FIELDS, tidy
from fedcli.reporting.rows import rows
from fedcli.reporting.tables import render
from fedcli.scores.evaluate import evaluate
from fedcli.scores.numbers import is_lower, name, numbers
from fedcli.scores.scores import RunScores


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    work = tmp_path_factory.mktemp("long")
    run = train(
        make_chain(work, corrupted=True),
        planned("fedavg", {}, Training(batch_size=10), 2, seed=3),
        work=work,
    )
    return evaluate(run)


def test_every_number_of_a_run_is_a_line_that_says_what_it_is_of(scored):
    lines = [dict(zip(FIELDS, line, strict=True)) for line in tidy([scored])]
    scores = RunScores.read(scored)

    def value(statistic="mean_last5", measure="score", **where):
        cell = {
            "client": "",
            "group": "",
            "model": "",
            "measure": measure,
            "statistic": statistic,
        } | where
        (line,) = [line for line in lines if cell.items() <= line.items()]
        return line["value"]

    parity = scores.part().lies("sex", "corrupted", "demographic_parity_difference_ovr_macro", "")
    where = {
        "version": "corrupted",
        "attribute": "sex",
        "metric": "demographic_parity_difference_ovr_macro",
    }
    assert value(**where) == parity.mean
    assert value("last", **where) == parity.last
    gap = scores.part().lies("sex", "clean", "accuracy", "gap").last
    outcome = value("last", "gap", version="clean", attribute="sex", metric="accuracy")
    assert outcome == gap
    spread = scores.groups["sex"]["clean"]["accuracy"]["f"].std
    assert (
        value("std_last5", version="clean", attribute="sex", group="f", metric="accuracy") == spread
    )
    last_f1 = scores.part(client="west").overall["corrupted"]["f1_macro"].last
    assert (
        value("last", version="corrupted", attribute="", client="west", metric="f1_macro")
        == last_f1
    )
    result = {(line["method"], line["seed"], line["run"]) for line in lines}
    assert result == {("fedavg", 3, scored.parts[-4])}


def test_every_number_has_a_column_name_of_its_own(scored):
    names = [name(where) for where, _ in numbers(RunScores.read(scored))]
    assert len(set(names)) == len(names) > 100
    assert "clean demographic_parity_difference_ovr_macro by sex" in names
    assert "clean gap accuracy by sex" in names


def test_any_number_is_a_column_of_every_format_by_its_name(scored):
    metrics = ["demographic_parity_difference", "clean gap accuracy by sex", "accuracy of sex f"]
    (row,) = rows([scored], metrics=metrics)
    parity = "demographic_parity_difference_ovr_macro by sex"
    expected = [f"clean {parity}", f"corrupted {parity}", "clean gap accuracy by sex"]
    result = [name for name in row.cells if " by " in name]
    assert result == expected
    assert {"clean accuracy of sex f", "corrupted accuracy of sex f"} <= row.cells.keys()
    assert is_lower(row.heads[f"clean {parity}"])
    assert expected[0] in row.doubtful
    for format in ("csv", "json"):
        text = render([row], format)
        assert parity in text, format
        assert "gap accuracy by sex" in text, format
    for format in ("markdown", "latex"):
        text = render([row], format)
        assert "by sex: demographic parity difference, mean over classes" in text, format
        assert "by sex: accuracy" in text, format
    with pytest.raises(UsageError, match="no metric 'demografic_parity_difference'") as error:
        rows([scored], metrics=["demografic_parity_difference"])
    assert "demographic_parity_difference" in error.value.hint


def test_an_unknown_metric_is_answered_with_a_short_list_once_each(scored):
    with pytest.raises(UsageError, match="no metric 'zzz'") as error:
        rows([scored], metrics=["zzz"])
    listed = error.value.hint.removeprefix("known: ").split(", ")
    assert {"accuracy", "demographic_parity_difference"} <= set(listed)
    assert len(listed) == len(set(listed)) < 30
    assert not [name for name in listed if " " in name]  # not those of every group and client


def test_a_report_exports_a_long_csv(scored, tmp_path):
    printed = session.run(f"fedcli report {scored} --export {tmp_path / 'long.csv'}")
    assert f"wrote {tmp_path / 'long.csv'}" in printed
    table = pandas.read_csv(tmp_path / "long.csv")
    assert list(table.columns) == list(FIELDS)
    assert len(table) == len(tidy([scored]))
    mean = table.query(
        "version == 'clean' and metric == 'accuracy' and measure == 'score' and statistic == 'mean_last5'"
    )
    mean = mean[mean[["attribute", "group", "client", "model"]].isna().all(axis=1)]
    assert mean["value"].item() == RunScores.read(scored).versions["clean"]["accuracy"].mean
