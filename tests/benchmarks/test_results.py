"""The CSV files of the benchmark's scores, from a results.json."""

import csv
import json

import pytest
import results

from fedcli.errors import FedcliError


def cell(*per_run):
    return {
        "mean": sum(per_run) / len(per_run),
        "std": None,
        "runs": len(per_run),
        "per_run": per_run,
    }


def row(name, *per_run):
    scores = {f"domains, seed {seed}": f"runs/{name}-{seed}" for seed in range(2)}
    cells = {"mean of domains": cell(*per_run)}
    about = {"label": name, "rule": None, "command": "", "holes": {}, "warnings": []}
    return {"name": name, "cells": cells, "scores": scores, **about}


def against(name, **numbers):
    about = {"mean": 0.9, "std_pooled": None, "std_runs": None, "runs": 2, "note": ""}
    return {"name": name, **about, **numbers}


def write(work, rows):
    tests = [
        against("FedAvg", is_reference=True),
        against(
            "SALT", difference=0.012, low=-0.001, high=0.025, p_holm=0.2, verdict="inconclusive"
        ),
    ]
    about = {"data": "domains", "version": "clean", "metric": "accuracy", "reference": "FedAvg"}
    body = {
        "recipe": "office-probe",
        "title": "Office",
        "paper": "none",
        "scale": "paper",
        "at": "last5",
        "spread": "runs",
        "reference": "FedAvg",
        "seeds": [0, 1],
        "columns": [
            {"name": "mean of domains", "data": "domains", "score": "versions/clean/accuracy"}
        ],
        "rows": rows,
        "statistics": [{**about, "rows": tests}],
    }
    folder = work / "reproduce" / "office-probe-paper"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(body))


def read(path):
    with path.open() as file:
        return list(csv.reader(file))


def test_every_number_of_a_run_and_every_test_has_a_line(tmp_path):
    write(tmp_path, [row("FedAvg", 90.0, 92.0), row("SALT", 91.0, 93.00006)])
    results.main(tmp_path, tmp_path / "out")
    head, *lines = read(tmp_path / "out" / "office-probe.csv")
    assert tuple(head) == results.SCORES
    assert lines == [
        ["office", "probe", "FedAvg", "0", "mean of domains", "90.0"],
        ["office", "probe", "FedAvg", "1", "mean of domains", "92.0"],
        ["office", "probe", "SALT", "0", "mean of domains", "91.0"],
        ["office", "probe", "SALT", "1", "mean of domains", "93.0001"],
    ]
    head, line = read(tmp_path / "out" / "office-probe-differences.csv")
    expected = ["office", "probe", "SALT", "clean", "accuracy", "2", "1.2", "-0.1", "2.5", "0.2"]
    assert dict(zip(head, line)) == dict(zip(head, [*expected, "", "inconclusive"]))


def test_a_column_that_lacks_a_run_is_an_error_as_its_seed_is_not_known(tmp_path):
    write(tmp_path, [row("FedAvg", 90.0)])
    with pytest.raises(FedcliError, match="FedAvg has 1 of 2 runs in mean of domains"):
        results.main(tmp_path, tmp_path / "out")


def test_a_work_folder_without_the_benchmark_has_no_files(tmp_path):
    results.main(tmp_path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
