"""A method that is told the group of a test image is scored beside it without."""

import csv
import io
import json
from dataclasses import dataclass, replace

import h5py
import numpy as np
import pytest
import torch
from conftest import make_chain
from made_plans import planned, train
from nested_scores import body_of
from report_tables import table_cells
from score_json import group_scores
from tables_of_numbers import rows as number_rows
from torch import nn

from fedcli.data import manifest
from fedcli.federation.client import Training
from fedcli.methods import METHODS
from fedcli.methods.contract import Local
from fedcli.methods.mixins import GroupViews
from fedcli.methods.registry import Method
from fedcli.metrics import score
from fedcli.reporting.rows import rows
from fedcli.reporting.tables import VIEWS, render
from fedcli.runs.finished import logits, open_run, predict
from fedcli.scores import views
from fedcli.scores.evaluate import evaluate
from fedcli.scores.evaluation_options import EvaluateOptions

TRAINING = Training(optimizer="sgd", lr=0.1, batch_size=8)
BLIND = ["uniform", "mostly-f"]


class HeadByGroup(nn.Module):
    """A linear classifier with logits of each group's own on top."""

    def __init__(self, net):
        super().__init__()
        self.linear = net.head
        self.groups = net.groups
        self.own = nn.Parameter(torch.tensor(number_rows("2.0 0.0 -1.0; -2.0 1.0 0.0")))  # [G, C]

    def forward(self, x):
        shares = self.groups.shares
        return self.linear(x) + (self.own.mean(0) if shares is None else shares @ self.own)


@dataclass(frozen=True)
class ByGroup(GroupViews, Local):
    """Training is blind; test images are shown with their sex, with none, and with a fixed mixture."""

    views = ("true-group", *BLIND)

    def extend(self, net):
        net.head = HeadByGroup(net)

    def on_round_start(self, net, client):
        net.groups.shares = None

    def set_groups(self, net, shard, rows, view):
        sex = shard.groups["sex"][rows]
        shares_known = torch.eye(2)[sex.clamp_min(0)]  # [B, G]
        shares_by_view = {
            "true-group": torch.where(sex[:, None] < 0, 0.5, shares_known),
            "mostly-f": torch.tensor([[0.9, 0.1]]),
        }
        net.groups.shares = (
            shares_by_view[view].expand(len(rows), 2) if view in shares_by_view else None
        )


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A run of that method, its scores, and those of FedAvg beside it."""
    work = tmp_path_factory.mktemp("views")
    aggregator = METHODS["fedavg"].aggregator
    method = Method("by-group", "By group", "toy", ByGroup(), aggregator, __name__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "by-group", method)
        data = make_chain(work, corrupted=True)
        scores_by_method = {}
        for name in ("by-group", "fedavg"):
            plan = planned(name, {}, TRAINING, 2)
            run = train(data, plan, work=work, out=None)
            scores_by_method[name] = run, evaluate(run)
        yield scores_by_method


@pytest.fixture
def run(scored):
    return open_run(scored["by-group"][0])


def test_every_view_is_scored_on_every_version_and_attribute(scored, run):
    path = scored["by-group"][1]
    body = body_of(path)
    assert body["view"] == "true-group"
    assert list(body["views"]) == sorted(BLIND)
    for view, result in {"true-group": body, **body["views"]}.items():
        assert set(result["versions"]) == {"clean", "corrupted", "average"}
        for version, shard in run.data.test.items():
            y = shard.y.numpy()
            sex = shard.groups["sex"].numpy()
            table = predict(run, 2, shard, view=view)
            assert (
                result["versions"][version]["auc_ovo_macro"]["last"]
                == score(table, y)["auc_ovo_macro"]
            )
            classes = ["a", "b", "c"]
            groups = group_scores(
                table, y, sex, ["f", "m"], classes=classes, units=run.data.test_patients
            )
            assert result["groups"]["sex"][version]["last_round"] == groups


def test_predictions_of_every_view_lie_side_by_side(scored, run):
    with h5py.File(scored["by-group"][1].parent / "predictions.h5") as file:
        expected = sorted(
            f"{version}{view}"
            for version in ("clean", "corrupted")
            for view in ("", "@uniform", "@mostly-f")
        )
        assert sorted(file["logits"]) == expected
        tables = []
        for view in run.method.local.views:
            tables.append(predict(run, 1, run.data.test["clean"], view=view))
        for table_name, table in zip(
            ("clean", "clean@uniform", "clean@mostly-f"), tables, strict=True
        ):
            assert (file[f"logits/{table_name}/1"][()] == table).all()
        result = len({table.tobytes() for table in tables})
        assert result == 3


def test_no_view_but_the_first_can_see_a_group(run):
    shard = run.data.test["clean"]
    sex = 1 - shard.groups["sex"]
    turned = replace(shard, groups={"sex": sex})
    predict(run, 2, shard)
    for view in run.method.local.views:
        same = (
            logits(run.net, shard, run.method.local, view)
            == logits(run.net, turned, run.method.local, view)
        ).all()
        assert same == (view in BLIND)


def test_a_view_that_looks_at_groups_all_the_same_finds_them_unknown(run):
    groups_by_view = {}

    class Peeking(ByGroup):
        def set_groups(self, net, shard, rows, view):
            groups_by_view.setdefault(view, set()).update(shard.groups["sex"][rows].tolist())
            super().set_groups(net, shard, rows, view)

    for view in Peeking.views:
        classes = run.data.test["clean"]
        logits(run.net, classes, Peeking(), view)
    expected = {"true-group": {0, 1}, "uniform": {-1}, "mostly-f": {-1}}
    assert groups_by_view == expected


def test_images_of_an_unknown_group_are_scored_and_are_no_group(run, monkeypatch, tmp_path):
    unknown = torch.arange(40) % 4 == 0
    test = {}
    for v, s in run.data.test.items():
        sex = s.groups["sex"].masked_fill(unknown, -1)
        test[v] = replace(s, groups={"sex": sex})
    data = replace(run.data, test=test)
    partly = replace(run, data=data)
    monkeypatch.setattr("fedcli.scores.evaluate.open_run", lambda *_: partly)
    out = tmp_path / "scores"
    path = evaluate(run.path, EvaluateOptions(out=out))
    body = body_of(path)
    for result in (body, *body["views"].values()):
        assert result["versions"]["clean"]["count"] == 40
        last = result["groups"]["sex"]["clean"]["last_round"]
        assert last["unknown"] == 10
        outcome = sum(part["count"] for part in last["groups"].values())
        assert outcome == 30
    with h5py.File(path.parent / "predictions.h5") as file:
        as_known = predict(run, 2, run.data.test["clean"])
        stored = file["logits/clean/2"][()]
        assert np.isfinite(stored).all()
        assert ((stored == as_known).all(1) == ~unknown.numpy()).all()
        assert (
            file["logits/clean@uniform/2"][()]
            == predict(run, 2, run.data.test["clean"], view="uniform")
        ).all()


def test_the_report_has_a_row_per_view_below_the_method(scored):
    path, plain = (scored[name][1] for name in ("by-group", "fedavg"))
    table = rows([path, plain], minutes=True, traffic=True)
    _columns, lines = table_cells(table)
    result = [line[0] for line in lines]
    assert result == [
        "FedAvg",
        "By group (true group at test)",
        "By group (group-blind: mostly f)",
        "By group (group-blind: uniform)",
    ]
    body = body_of(path)
    for row, view in zip(table[2:4], ("mostly-f", "uniform"), strict=True):
        quality = body["views"][view]
        corrupted = quality["versions"]["corrupted"]["auc_ovo_macro"]["mean_last5"]
        assert row.cells["corrupted auc_ovo_macro"].mean == corrupted
        gap = quality["groups"]["sex"]["clean"]["over_rounds"]["auc_ovo_macro"]["gap"]["mean_last5"]
        assert row.cells["sex gap auc_ovo_macro"].mean == gap
    result = [line[-2:] == ["-", "-"] for line in lines]
    assert result == [False, False, True, True]
    assert VIEWS in render(table, "markdown")
    assert VIEWS not in render(rows([plain]), "markdown")
    names = [line[0] for line in csv.reader(io.StringIO(render(table, "csv")))]
    assert (
        names[1:]
        == [row["name"] for row in json.loads(render(table, "json"))["rows"]]
        == [x[0] for x in lines]
    )


def test_what_tells_runs_apart_stands_behind_the_view_once_in_the_notes(scored, tmp_path):
    old = manifest.read(scored["by-group"][1])

    def another(name, **options):
        (tmp_path / name).mkdir()
        body = old.body | {"options": old.body["options"] | options}
        (tmp_path / name / "scores.csv").write_bytes(
            (scored["by-group"][1].parent / "scores.csv").read_bytes()
        )
        folder = tmp_path / name
        return manifest.seal(folder, replace(old, body=body, parents={}))

    table = rows([another("a", seed=1), another("b", seed=2)])
    result = [row.name for row in table][1]
    assert result == "By group (group-blind: mostly f, seed=1)"
    long = {"weights": "somewhere-far-away-in-a-folder"}
    text = render(rows([another("c", **long), another("d", weights="x")]), "markdown")
    assert "By group (true group at test) [1]" in text
    assert text.count("[1] weights=somewhere") == 1


def test_groups_that_tie_for_the_lowest_score_are_all_named():
    values = {"a": 0.3, "b": 0.1 + 0.2, "c": 0.5, "d": None}
    assert views.worst_of(values, "accuracy") == ["a", "b"]
    assert views.worst_of(values, "calibration_error") == ["c"]
    assert views.worst_of({"a": None}, "accuracy") == []
    assert not views.is_tied(values)
    assert views.is_tied({"a": 0.3, "b": 0.1 + 0.2})


def test_a_method_with_one_view_has_no_others(scored):
    path = scored["fedavg"][1]
    body = body_of(path)
    assert body["views"] == {}
    assert body["view"] == ""
