"""scores.json files with given numbers, for tests of reports."""

import numpy as np
from nested_scores import staged
from report_tables import table_cells

from fedcli.reporting.columns import SHOWN
from fedcli.reporting.rows import rows


def over(mean, std=None):
    return {"last": mean, "mean_last5": mean, "std_last5": std, "per_round": [mean]}


def rounds(*values):
    return {
        "last": values[-1],
        "mean_last5": np.mean(values),
        "std_last5": np.std(values),
        "per_round": list(values),
    }


def scores(folder, *, auc=0.9, std=0.01, corrupted=None, gap=0.1, among=None, small=None, **about):
    """A scores.json with these numbers; balanced accuracy is a tenth below the AUC."""
    both = {"clean": auc}
    if corrupted is not None:
        both |= {"corrupted": corrupted, "average": (auc + corrupted) / 2}
    groups = {"groups": {"male": {"small": bool(small), "reason": small or "", "count": 12}}}
    between = {"worst": over(None if gap is None else auc - gap), "gap": over(gap)}
    versions = {}
    for version, value in both.items():
        versions[version] = {SHOWN[0]: over(value - 0.1, std), SHOWN[1]: over(value, std)}
    data = {"dataset": a_stage("d"), "partition": a_stage("p"), "corruption": None}
    by_sex = {"last_round": groups, "over_rounds": {"auc_ovo_macro": between}}
    body = {
        "method": "fedavg",
        "label": "FedAvg",
        "rule": "paper",
        "settings": {},
        "options": {"lr": 0.1},
        "rounds": 6,
        "data": data,
        "dataset": "skin",
        "roster_size": 4,
        "versions": versions,
        "personal": {},
        "among_clients": {} if among is None else spread_of(among),
        "groups": {"sex": {"clean": by_sex}},
    }
    return staged(folder, body | about)


def spread_of(*rounds):
    return {"auc_ovo_macro": {"std": np.mean(rounds), "per_round": {"std": list(rounds)}}}


def a_stage(sha256, **options):
    return {"sha256": sha256, "options": options}


def column(paths, name):
    """A column's printed cells."""
    columns, lines = table_cells(rows(paths))
    return [line[columns.index(name)] for line in lines]


def a_seed(folder, seed, *values, **about):
    """Scores of a run with this seed and these rounds' clean AUC."""
    versions = {"clean": {SHOWN[0]: rounds(*values), SHOWN[1]: rounds(*values)}}
    return scores(folder, gap=None, versions=versions, options={"lr": 0.1, "seed": seed}, **about)
