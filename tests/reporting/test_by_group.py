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
    assert table.columns[:5] == ["sex", "n", "clean (%)", "clean interval", "clean gap"] and len(table.columns) == 8
    for line, (value, group) in zip(table.rows, scores.groups["sex"]["clean"].last_round.groups.items(), strict=True):
        assert line[:2] == [f"{value}†", str(group.count)]  # fewer than 30 images
        for at, version in ((2, "clean"), (5, "corrupted")):
            known = scores.groups["sex"][version]
            score = known.last_round.groups[value].metrics["auc_ovo_macro"]
            interval = known.intervals["auc_ovo_macro"][value]
            best = max(each.metrics["auc_ovo_macro"] for each in known.last_round.groups.values())
            bounds = f"{100 * interval.low:.2f} to {100 * interval.high:.2f}"
            assert line[at : at + 3] == [f"{100 * score:.2f}", bounds, f"{100 * (best - score):.2f}"]
    assert "†" in legend([table])


def test_the_worst_group_is_named_on_each_version(scores):
    (table,) = tables(scores)
    for version, groups in scores.groups["sex"].items():
        each = {value: group.metrics["auc_ovo_macro"] for value, group in groups.last_round.groups.items()}
        worst = min(each, key=lambda value: each[value])
        assert f"{worst} on {version} images ({100 * each[worst]:.2f} %)" in table.worst


def test_groups_of_one_score_have_no_worst_among_them(scores):
    groups = scores.groups["sex"]["clean"]
    between = groups.last_round.between["auc_ovo_macro"]
    level = replace(between, worst=replace(between.best, group="female"), gap=0.0)
    last = replace(groups.last_round, between=groups.last_round.between | {"auc_ovo_macro": level})
    alike = replace(groups, last_round=last)
    said = f"all have the same score on clean images ({100 * between.best.score:.2f} %)"
    same = replace(scores, groups={"sex": {"clean": alike}})
    (table,) = tables(same)
    assert table.worst == f"No worst group: {said}."
    mixed = replace(scores, groups={"sex": scores.groups["sex"] | {"clean": alike}})
    (table,) = tables(mixed)
    assert table.worst.startswith("Worst group: ") and table.worst.endswith(f"{said}.")
