"""The table of each group on a terminal: how many, how good, how far below the best, and who is worst."""

from dataclasses import replace

import pytest
from conftest import make_chain
from made_plans import planned

from fedcli.federation.client import Training
from fedcli.reporting.by_group import legend, tables
from fedcli.runs.train import train
from fedcli.scores.evaluate import evaluate
from fedcli.scores.scores import Scores


@pytest.fixture(scope="module")
def scores(tmp_path_factory) -> Scores:
    work = tmp_path_factory.mktemp("groups")
    run = train(make_chain(work, corrupted=True), planned("fedavg", {}, Training(batch_size=10), 1, seed=3), work=work)
    return Scores.read(evaluate(run, by=["sex"], out=None, device="cpu", made_by=["evaluate"]))


def test_each_group_has_its_count_score_interval_and_gap_on_clean_and_corrupted_images(scores):
    (table,) = tables(scores)
    heads = [column.name for column in table.columns]
    assert heads[:5] == ["sex", "n", "clean (%)", "clean interval", "clean gap"] and len(heads) == 8
    lines = [[cell.text for cell in row] for row in table.rows]
    for line, (value, group) in zip(lines, scores.members("sex").items(), strict=True):
        assert line[:2] == [f"{value}†", str(group.count)]  # fewer than 30 images
        for at, version in ((2, "clean"), (5, "corrupted")):
            column = scores.groups["sex"][version]["auc_ovo_macro"]
            score, best = column[value], max(each.last for each in column.values())
            bounds = f"{100 * score.low:.2f} to {100 * score.high:.2f}"
            assert line[at : at + 3] == [f"{100 * score.last:.2f}", bounds, f"{100 * (best - score.last):.2f}"]
    assert "†" in legend(scores)


def test_the_worst_group_is_named_on_each_version(scores):
    (table,) = tables(scores)
    for version, groups in scores.groups["sex"].items():
        each = {value: score.last for value, score in groups["auc_ovo_macro"].items()}
        worst = min(each, key=lambda value: each[value])
        assert f"{worst} on {version} images ({100 * each[worst]:.2f} %)" in table.legend


def test_groups_of_one_score_have_no_worst_among_them(scores):
    best = max(score.last for score in scores.groups["sex"]["clean"]["auc_ovo_macro"].values())
    level = {
        where: replace(score, values=[best]) if is_clean(where) else score for where, score in scores.table.items()
    }
    said = f"all have the same score on clean images ({100 * best:.2f} %)"
    mixed = replace(scores, table=level)
    (table,) = tables(mixed)
    assert table.legend.startswith("Worst group: ") and table.legend.endswith(f"{said}.")
    same = replace(scores, table={where: score for where, score in level.items() if where.version == "clean"})
    (table,) = tables(same)
    assert table.legend == f"No worst group: {said}."


def is_clean(where):
    return where.version == "clean" and where.metric == "auc_ovo_macro" and where.group
