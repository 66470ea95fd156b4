"""Mean ranks of methods over datasets, as a report has them."""

import json

import pytest
import session
from made_scores import scores

from fedcli.reporting import comparison
from fedcli.reporting.rows import rows

AUC = {"FedAvg": [0.8, 0.7, 0.6], "FedHEAL": [0.9, 0.8, 0.65], "MOON": [0.7, 0.6, 0.5]}


def made(folder, datasets=("skin", "eyes", "chest"), methods=AUC, **about):
    paths = []
    for label in methods:
        names = {"method": label.lower(), "label": label}
        for dataset, auc in zip(datasets, AUC[label]):
            path = folder / f"runs/{label}-{dataset}/scores/made"
            paths.append(scores(path, auc=auc, dataset=dataset, **names))
    return paths


def test_each_method_is_ranked_on_each_dataset(tmp_path):
    tests = comparison.rank_tests(rows(made(tmp_path)))
    assert [test.metric for test in tests] == ["balanced_accuracy", "auc_ovo_macro"]
    assert tests[1].ranks == {"FedHEAL": 1, "FedAvg": 2, "MOON": 3}
    assert tests[1].datasets == 3
    assert tests[1].p == pytest.approx(1 / 36)
    assert tests[1].differ == [("FedHEAL", "MOON")]


def test_one_dataset_two_methods_or_a_gap_have_no_ranks(tmp_path):
    paths = made(tmp_path)
    for chosen in (paths[::3], paths[:6], paths[:-1], []):
        result = comparison.rank_tables(comparison.rank_tests(rows(chosen) if chosen else []))
        assert result == []


def test_a_method_of_two_rows_on_a_dataset_is_left_out_and_two_settings_are_two_methods(tmp_path):
    paths = made(tmp_path)
    again = scores(
        tmp_path / "again",
        auc=0.1,
        method="moon",
        label="MOON",
        dataset="skin",
        options={"lr": 0.2},
    )
    result = comparison.rank_tests(rows([*paths, again]))
    assert result == []
    others = []
    moon = {"auc": 0.1, "method": "moon", "label": "MOON", "settings": {"mu": 5}}
    for dataset in ("skin", "eyes", "chest"):
        others.append(scores(tmp_path / f"other-{dataset}", dataset=dataset, **moon))
    (_, test) = comparison.rank_tests(rows([*paths, *others]))
    assert list(test.ranks) == ["FedHEAL", "FedAvg", "MOON ()", "MOON (mu=5)"]


def test_the_command_shows_them_in_a_table_and_in_json(tmp_path):
    paths = " ".join(map(str, made(tmp_path)))
    printed = session.run(f"fedcli report {paths}")
    assert "Methods ranked over 3 datasets" in printed
    assert "FedHEAL is better than MOON" in " ".join(printed.split())
    body = json.loads(session.run(f"fedcli report {paths} --format json"))
    assert body["ranks"][1]["ranks"]["FedHEAL"] == 1
    assert body["ranks"][1]["degrees"] == [2, 4]
    assert "Methods ranked over 3 datasets" in session.run(
        f"fedcli report {paths} --format markdown"
    )
