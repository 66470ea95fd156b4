import csv
import io
import json

import h5py
import numpy as np
import pytest
from conftest import make_chain
from made_plans import planned, train
from nested_scores import staged
from score_json import group_scores
from tables_of_numbers import rows as number_rows
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.errors import FedcliError
from fedcli.federation.client import Training
from fedcli.metrics import probabilities, score
from fedcli.scores.predictions import to_csv

ATTRIBUTES = {"sex": ["female", "male"], "site": ["north", "south", "west"]}


def scored(folder, logits, y, groups, *, units=None, group="logits/clean"):
    """A scores.json with predictions of two rounds beside it, the last one's these."""

    def write(temporary):
        with h5py.File(temporary / "predictions.h5", "w") as file:
            file[f"{group}/9"] = np.zeros_like(logits)
            file[f"{group}/10"] = logits
            file["y"] = y
            file["id"] = np.char.encode([f"é{i}" for i in range(len(y))], "utf-8")
            if units:
                file["unit"] = np.char.encode(units, "utf-8")
            for name, column in groups.items():
                file[f"group/{name}"] = np.array(column)

    body = {"kept_rounds": [9, 10], "attributes": ATTRIBUTES, "versions": {}}
    return staged(folder, body, write=write)


def random_answers(n=300, classes=2):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)).astype(np.float32)
    logits[np.arange(n), y] += 1
    groups = {name: rng.integers(-1, len(values), n) for name, values in ATTRIBUTES.items()}
    return logits, y, groups


def test_one_row_per_image_with_its_chances_and_its_groups(tmp_path):
    logits = np.log(np.array(number_rows("0.25 0.75; 0.5 0.5; 0.125 0.875")))
    sex = [1, -1, 0]
    site = [2, 0, -1]
    groups = {"sex": sex, "site": site}
    units = ["p", "p", "q"]
    folder = tmp_path / "scores"
    scores = scored(folder, logits, [1, 0, 1], groups, units=units)
    path, other = to_csv(scores)
    assert path == tmp_path / "scores" / "predictions.csv"
    head, *lines = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    expected = ["id", "unit", "label", "prob_0", "prob_1", "sex", "site"]
    assert head == expected
    result = [line[:3] + line[5:] for line in lines]
    expected = [
        ["é0", "p", "1", "male", "west"],
        ["é1", "p", "0", "", "north"],
        ["é2", "q", "1", "female", ""],
    ]
    assert result == expected
    head, *binary = csv.reader(io.StringIO(other.read_text(encoding="utf-8")))
    expected = ["id", "unit", "y_true", "y_pred", "y_score", "sex", "site"]
    assert head == expected
    result = [line[2:4] for line in binary]
    expected = [
        ["1", "1"],
        ["0", "0"],
        ["1", "1"],
    ]
    assert result == expected  # of equal chances the first class
    expected = [line[4] for line in lines]
    assert [line[4] for line in binary] == expected
    result = [[*map(float, line[3:5])] for line in lines]
    assert result == probabilities(logits).tolist()  # every digit


def test_where_every_client_answers_for_itself_there_is_no_one_table(tmp_path):
    logits, y, groups = random_answers()
    folder = tmp_path / "scores"
    path = scored(folder, logits, y, groups, group="clients/0/logits/clean")
    with pytest.raises(FedcliError, match="no one answer for an image"):
        to_csv(path)


def fairmedfm(path, capsys, *words):
    """Output of `fairmedfm score`, and its table of groups."""
    cli = pytest.importorskip("fairmedfm.cli")
    table = path.with_name("groups.csv")
    capsys.readouterr()
    cli.main(["score", str(path), "--sensitive", *ATTRIBUTES, "--output", str(table), *words])
    rows = csv.DictReader(io.StringIO(table.read_text()))
    return json.loads(capsys.readouterr().out), {
        (row["attribute"], row["group"]): row for row in rows
    }


def test_the_fairmedfm_package_finds_our_aucs_and_odds_in_it(tmp_path, capsys):
    logits, y, groups = random_answers()
    folder = tmp_path / "scores"
    scores = scored(folder, logits, y, groups)
    path, _ = to_csv(scores)
    summary, theirs = fairmedfm(path, capsys)
    for name, values in ATTRIBUTES.items():
        has_group = groups[name] >= 0  # it leaves out images of an unknown group
        ours = group_scores(logits[has_group], y[has_group], groups[name][has_group], values)
        between = ours["between"]["auc_binary"]
        expected = pytest.approx(ours["overall"]["auc_binary"], abs=1e-12)
        assert summary[name]["overall-auc"] == expected
        expected = pytest.approx(between["worst"]["score"], abs=1e-12)
        assert summary[name]["worst-auc"] == expected
        assert summary[name]["auc-gap"] == pytest.approx(between["gap"], abs=1e-12)
        rows = {}
        for value in values:
            row = theirs[name, value]
            rows[value] = {key: float(row[key]) for key in ("auc", "acc", "tpr", "tnr")}
        for value in values:
            part = ours["groups"][value]
            result = (rows[value]["auc"], rows[value]["acc"])
            assert result == pytest.approx((part["auc_binary"], part["accuracy"]))
        ranges = np.ptp([(row["tpr"], row["tnr"]) for row in rows.values()], axis=0)
        assert ours["equalized_odds_difference"] == pytest.approx(max(ranges))
        if len(values) == 2:  # each group's others are the one other group
            signed = [rows[values[0]][rate] - rows[values[1]][rate] for rate in ("tpr", "tnr")]
            expected = pytest.approx(abs(signed[0] - signed[1]) / 2)
            assert ours["average_odds_difference"] == expected


@pytest.mark.long
def test_the_fmm_fairness_eval_package_finds_our_differences_in_it(tmp_path):
    cli = pytest.importorskip("fmm_fairness.cli")
    logits, y, groups = random_answers()
    folder = tmp_path / "scores"
    scores = scored(folder, logits, y, groups)
    _, path = to_csv(scores)
    words = [
        "--protected-attrs",
        "sex,site",
        "--site-attribute",
        "site",
        "--output",
        str(tmp_path / "pack"),
    ]
    result = cli.main(["evaluate", str(path), *words])
    assert result == 0
    theirs = json.loads((tmp_path / "pack" / "fairness-evidence.json").read_text())[
        "per_attribute_metrics"
    ]
    for name, values in ATTRIBUTES.items():
        ours = group_scores(logits, y, groups[name], values)["demographic_parity_difference"]
        assert theirs[name]["demographic_parity_gap"]["gap"] == pytest.approx(ours)
        rates = []
        for g in range(len(values)):
            rates.append((logits.argmax(1) == 1)[(y == 1) & (groups[name] == g)].mean())
        expected = pytest.approx(np.ptp(rates))
        assert theirs[name]["equal_opportunity_gap"]["gap"] == expected


def test_of_several_classes_it_scores_one_against_all_others(tmp_path, capsys):
    logits, y, groups = random_answers(classes=3)
    folder = tmp_path / "scores"
    scores = scored(folder, logits, y, groups)
    (path,) = to_csv(scores)
    has_group = groups["sex"] >= 0
    aucs = []
    for c in range(3):
        summary, _ = fairmedfm(path, capsys, "--pos-label", str(c), "--score-column", str(c))
        aucs.append(summary["sex"]["overall-auc"])
    expected = pytest.approx(score(logits[has_group], y[has_group])["auc_ovr_macro"], abs=1e-12)
    assert np.mean(aucs) == expected


def fedcli(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_evaluate_writes_the_table_beside_scores_new_or_old(tmp_path, monkeypatch):
    training = Training(batch_size=10)
    plan = planned("fedavg", {}, training, rounds=1)
    data = make_chain(tmp_path, corrupted=True)
    run = train(data, plan, work=tmp_path, out=None)
    scores = fedcli("evaluate", run).stdout
    before = {path: path.read_bytes() for path in run.parent.glob("scores/*/*")}
    monkeypatch.setattr(
        "fedcli.scores.evaluate.open_run", lambda *_: pytest.fail("opened the network again")
    )
    done = fedcli("evaluate", run, "--export", "csv")
    assert done.stdout == scores
    assert "predictions-corrupted.csv" in done.stderr
    after = {path: path.read_bytes() for path in run.parent.glob("scores/*/*")}
    result = {path.name for path in after.keys() - before.keys()}
    assert result == {
        "predictions.csv",
        "predictions-corrupted.csv",
    }
    assert before.items() <= after.items()
    refused = fedcli("evaluate", run, "--export", "xml")
    assert refused.exit_code == 2
    assert "there is one: --export csv" in refused.stderr
