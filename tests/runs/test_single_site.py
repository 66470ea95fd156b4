"""Clients that train alone: nothing is sent, nothing is averaged, and nobody's number is another's."""

import itertools
import json
import re
from dataclasses import dataclass, replace
from typing import Annotated

import conftest
import h5py
import numpy as np
import pytest
import torch
from conftest import ROSTER, interrupt_in_round, make_chain, play, toy_net, toy_shard, toy_shards
from made_plans import planned, results, train
from nested_scores import body_of
from numpy.testing import assert_allclose
from score_json import group_scores

from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.server import Federation
from fedcli.federation.state import read_tensors
from fedcli.methods import METHODS, resolve
from fedcli.methods.contract import Local
from fedcli.methods.fedavg import Mean
from fedcli.metrics import score
from fedcli.models.layout import Layout
from fedcli.reporting.rows import notes, rows
from fedcli.reporting.tables import render
from fedcli.runs.finished import open_run, predict
from fedcli.runs.rules import acting, check
from fedcli.runs.train import Interrupted
from fedcli.scores.evaluate import evaluate
from fedcli.scores.evaluation_options import EvaluateOptions

TRAINING = Training(optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8)


def play_sites(
    spec="fedavg",
    *,
    rounds=3,
    shards=None,
    roster=ROSTER,
    participation=1.0,
    training=TRAINING,
    after_round=None,
):
    """The toy federation of conftest.play, every client by itself."""
    method = resolve(spec)
    make = conftest.toy_clip if method.local.freezes else toy_net
    net = make(extend=method.local.extend)
    layout = Layout(net, method.local.personal_tensors(net))
    clients = InProcess(method, net, layout, shards or toy_shards(), training)
    federation = Federation(clients, rounds, 1, participation, single_site=True)
    state = federation.first()
    for _ in range(rounds):
        played = federation.play(state, roster)
        state = played.state
        if after_round:
            after_round(played)
    return state


def plan(method="fedavg", rounds=3, **rest):
    return planned(method, {}, TRAINING, rounds, single_site=True, **rest)


def divided(work, *, among=4, **rest):
    """A partition whose test images are divided evenly among its first clients, out of order."""
    data = make_chain(work, **rest)
    path = work / "partitions" / "made" / "partition.json"
    with h5py.File(path.parent / "rows.h5", "a") as file:
        mixed = np.random.default_rng(3).permutation(np.arange(80, 120)).reshape(among, -1)
        for k in range(4):
            del file[f"test/{k}"]
            file[f"test/{k}"] = np.sort(mixed[k]) if k < among else mixed[0, :0]
    for manifest_path in dict.fromkeys((path, data)):
        old = manifest.read(manifest_path)
        manifest_path.unlink()
        above = {name: manifest.sha256(manifest_path.parent / name) for name in old.parents}
        manifest.seal(manifest_path.parent, replace(old, parents=above))
    return data


def scored(run):
    path = evaluate(run)
    return path, body_of(path)


def test_a_client_goes_on_from_its_own_model_round_by_round():
    state = play_sites(rounds=2)
    net = toy_net()
    layout = Layout(net)
    start = theta = layout.read()
    for t in (1, 2):
        task = ClientTask("south", 1, t, 2, 1, theta, {}, {})
        theta = run_client(resolve("fedavg"), net, layout, toy_shard("south"), task, TRAINING).theta
    assert torch.equal(state.clients["south"]["model"], theta)
    assert torch.equal(state.theta, start)
    assert not torch.equal(theta, start)


@pytest.mark.parametrize("spec", ["fedavg", "fedbn", "fedprox"])
def test_a_federation_of_one_client_is_that_client_alone(spec):
    together = play(spec, roster=["east"])
    apart = play_sites(spec, roster=["east"]).clients["east"]
    assert torch.equal(apart.pop("model"), together.theta)
    memory = together.clients.get("east", {})
    assert apart.keys() == memory.keys()
    for name in memory:
        assert torch.equal(apart[name], memory[name])


def test_no_client_hears_of_another():
    others = toy_shards(north=toy_shard("elsewhere", 33), west=toy_shard("nowhere", 9))
    state = play_sites()
    state_of_others = play_sites(shards=others)
    for client, same in {"south": True, "east": True, "north": False, "west": False}.items():
        result = torch.equal(
            state.clients[client]["model"], state_of_others.clients[client]["model"]
        )
        assert result == same


def test_nothing_is_sent_and_nothing_is_averaged():
    rounds_played = []
    state = play_sites("fedbn", after_round=rounds_played.append)
    for p in rounds_played:
        assert (p.bytes_down, p.bytes_up, p.columns) == (0, 0, {})
        assert p.weights.isnan().all()
    assert state.shared == state.server == {}
    assert set(state.clients["north"]) == {"model", "own"}


def test_an_absent_client_keeps_its_model_and_one_never_drawn_has_none():
    rounds_played = []
    play_sites(rounds=4, participation=0.25, after_round=rounds_played.append)
    for before, after in itertools.pairwise(rounds_played):
        for client, memory in before.state.clients.items():
            moved = not torch.equal(memory["model"], after.state.clients[client]["model"])
            assert moved == (client in after.clients)
    expected = set(rounds_played[0].clients)
    assert set(rounds_played[0].state.clients) == expected


@pytest.mark.parametrize("name", [*METHODS, "fedprox+fedheal", "fedprox+afl"])
def test_every_method_trains_alone_or_is_refused_by_name(name):
    method = resolve(name)
    model = "clip-tiny" if method.local.model else "cnn"
    if method.local.works_without_server and method.aggregator.works_without_server:
        check(plan(name, model=model))
        state = play_sites(name, rounds=2)
        for client in ROSTER:
            assert state.clients[client]["model"].isfinite().all()
        return
    with pytest.raises(UsageError, match=re.escape(f"{name} needs what clients send")) as error:
        check(plan(name, model=model))
    base = "fedprox" if name.startswith("fedprox+") else "fedavg"
    assert error.value.hint.startswith(f"fedcli train {base} --single-site")


@dataclass(frozen=True)
class Halved(Mean):
    share: Annotated[float, "of the way"] = 0.5


def test_an_option_of_the_server_is_refused_and_not_recorded(monkeypatch):
    method = replace(METHODS["fedprox"], name="halved", aggregator=Halved())
    monkeypatch.setitem(METHODS, "halved", method)
    halved_plan = replace(plan("halved"), set={"share": "0.25"})
    assert "share" in method.settings
    expected = method.settings.keys() - {"share"}
    assert acting(halved_plan, method).keys() == expected
    with pytest.raises(UsageError, match="share is an option of the server"):
        check(halved_plan)
    check(replace(halved_plan, set=acting(halved_plan, method)))  # as a resume gives them
    check(replace(halved_plan, single_site=False))


@pytest.mark.parametrize("name", METHODS)
def test_no_method_that_shares_through_the_server_trains_alone(name):
    local = METHODS[name].local
    assert not local.works_without_server or type(local).post_aggregate is Local.post_aggregate


@pytest.mark.parametrize("method", ["fedavg", "fedbn"])
def test_a_stopped_run_ends_at_the_same_bytes(tmp_path, monkeypatch, method):
    data = make_chain(tmp_path)
    method_plan = plan(method, rounds=6, participation=0.5, seed=4)
    whole = train(data, method_plan, work=tmp_path, out=tmp_path / "runs" / "whole")
    monkeypatch.setattr(Federation, "play", interrupt_in_round(4))
    with pytest.raises(Interrupted):
        train(data, method_plan, work=tmp_path, out=tmp_path / "runs" / "cut")
    monkeypatch.undo()
    cut = train(data, method_plan, work=tmp_path, out=tmp_path / "runs" / "cut", resume=True)
    assert results(cut.parent) == results(whole.parent)


def test_a_run_says_what_it_is(tmp_path):
    run = train(make_chain(tmp_path), plan(), work=tmp_path, out=None)
    record = manifest.verify(run, "run")
    assert record.body["label"] == "FedAvg, single-site"
    assert record.options["single_site"] is True
    assert "--single-site" in record.made_by
    assert run.parent.name.startswith("fedavg-single-site-")
    result = (record.body["numbers_sent"], record.body["bytes_down"], record.body["bytes_up"])
    assert result == (
        0,
        0,
        0,
    )
    lines = [json.loads(line) for line in (run.parent / "rounds.jsonl").read_text().splitlines()]
    assert lines[0]["weights"] == [None] * 4
    assert lines[0]["reports"] == {}


def test_where_test_images_are_divided_each_is_scored_by_its_own_clients_model(tmp_path):
    run = train(divided(tmp_path, corrupted=True), plan("fedbn"), work=tmp_path, out=None)
    path, body = scored(run)
    opened = open_run(run)
    for version, shard in opened.data.test.items():
        expected = np.zeros((40, 3), np.float32)
        for client, images in opened.data.client_test.items():
            expected[images] = predict(opened, 3, shard, client)[images]
        with h5py.File(path.parent / "predictions.h5") as file:
            stored = file[f"logits/{version}/3"][()]
            patients = np.unique(file["unit"][()], return_inverse=True)[1]
        assert_allclose(stored, expected, atol=1e-5)
        scores = score(stored, shard.y.numpy())
        result = body["versions"][version]["auc_ovo_macro"]["last"]
        assert result == scores["auc_ovo_macro"]
        groups = group_scores(
            stored,
            shard.y.numpy(),
            shard.groups["sex"].numpy(),
            ["f", "m"],
            classes=list("abc"),
            units=patients,
        )
        assert body["groups"]["sex"][version]["last_round"] == groups
        west_images = opened.data.client_test["west"]
        if version == "corrupted":
            result = body["clients"]["west"]["accuracy"]["last"]
            assert result == score(stored[west_images], shard.y.numpy()[west_images])["accuracy"]
    assert body["clients"]["west"]["part"] == "own"
    assert body["among_clients"]["accuracy"]["std"] > 0
    assert "own test part" in body["warning"]


def test_a_client_without_test_images_is_scored_by_its_own_model_all_the_same(tmp_path):
    run = train(divided(tmp_path, among=2), plan(), work=tmp_path, out=None)
    _, body = scored(run)
    opened = open_run(run)
    shard = opened.data.test["clean"]
    west_scores = score(predict(opened, 3, shard, "west"), shard.y.numpy())
    assert body["clients"]["west"]["part"] == "whole"
    result = body["clients"]["west"]["auc_ovo_macro"]["last"]
    assert result == west_scores["auc_ovo_macro"]


def test_where_test_images_are_shared_scores_are_means_over_clients(tmp_path):
    run = train(make_chain(tmp_path), plan(rounds=2), work=tmp_path, out=None)
    path, body = scored(run)
    opened = open_run(run)
    shard = opened.data.test["clean"]
    y = shard.y.numpy()
    sex = shard.groups["sex"].numpy()
    for index, t in enumerate((1, 2)):
        tables = [predict(opened, t, shard, client) for client in ROSTER]
        mean = np.mean([score(table, y)["auc_ovo_macro"] for table in tables])
        result = body["versions"]["clean"]["auc_ovo_macro"]["per_round"][index]
        assert result == pytest.approx(mean)
        groups = [group_scores(table, y, sex, ["f", "m"]) for table in tables]
        over = body["groups"]["sex"]["clean"]["over_rounds"]
        auc = over["auc_ovo_macro"]
        gaps = [group["between"]["auc_ovo_macro"]["gap"] for group in groups]
        expected = pytest.approx(np.mean(gaps))
        assert auc["gap_in_each_round"]["per_round"][index] == expected
        worst = [group["between"]["auc_ovo_macro"]["worst"] for group in groups]
        expected = pytest.approx(np.mean([w["score"] for w in worst]))
        assert auc["worst_in_each_round"]["per_round"][index] == expected
    last = body["groups"]["sex"]["clean"]["last_round"]
    assert last["groups"]["f"]["count"] == 20
    assert last["groups"]["f"]["small"] is True
    aucs = {group: of_group["auc_ovo_macro"] for group, of_group in last["groups"].items()}
    lowest = min(aucs, key=aucs.get)
    between = last["between"]["auc_ovo_macro"]
    assert between["worst"] == {"group": lowest, "score": aucs[lowest]}
    expected = max(aucs.values()) - min(aucs.values())
    assert between["gap"] == expected
    shots = body["shots"]["versions"]["clean"]["balanced_accuracy"]["per_round"]
    expected = pytest.approx(body["versions"]["clean"]["balanced_accuracy"]["per_round"])
    assert shots == expected
    with h5py.File(path.parent / "predictions.h5") as file:
        assert {"clients", "group", "id", "y"} <= set(file)
        assert (file["clients/2/logits/clean/2"][()] == tables[2]).all()
    assert "means over the clients" in body["warning"]


@pytest.mark.parametrize("chain", [make_chain, divided])
def test_clients_that_trained_alone_answer_for_corrupted_images_too(tmp_path, chain):
    run = train(chain(tmp_path), plan(rounds=1), work=tmp_path, out=None)
    options = EvaluateOptions(by=["sex"], corrupt=["gaussian"], severity=["2"])
    severities = body_of(evaluate(run, options))["severities"]["gaussian-noise"]
    assert 0 < severities["2"]["scores"]["accuracy"]["last"] < 1
    assert severities["2"]["scores"]["count"] == 40
    result = severities["2"]["groups"]["sex"]["last_round"]["between"]["accuracy"]["gap"]
    assert result >= 0


@pytest.mark.parametrize("chain", [make_chain, divided])
def test_no_number_is_of_the_untrained_start(tmp_path, chain):
    run = train(chain(tmp_path), plan(rounds=2), work=tmp_path, out=None)
    opened = open_run(run)
    start = predict(opened, 2, opened.data.test["clean"])
    expected = torch.from_numpy(predict(opened, 1, opened.data.test["clean"]))
    assert torch.equal(torch.from_numpy(start), expected)
    path, body = scored(run)
    untrained = score(start, opened.data.test["clean"].y.numpy())["auc_ovo_macro"]
    assert body["versions"]["clean"]["auc_ovo_macro"]["last"] != untrained
    assert body["personal"] == body["among_clients_global"] == {}
    for client in body["clients"].values():
        assert "global_model" not in client
    table = rows([path])
    assert table[0].name == "FedAvg, single-site"
    for column in table[0].cells:
        assert "global" not in column
    assert any(body["warning"] in note for note in notes(table))
    assert body["warning"] in render(table, "markdown")


@pytest.mark.parametrize("chain", [make_chain, divided])
def test_a_curve_ends_at_the_scores(tmp_path, chain):
    run = train(chain(tmp_path), plan("fedbn", eval_every=2), work=tmp_path)
    lines = [json.loads(line) for line in (run.parent / "rounds.jsonl").read_text().splitlines()]
    result = ["test" in line for line in lines]
    assert result == [False, True, True]
    _, body = scored(run)
    for metric, value in lines[-1]["test"]["clean"].items():
        expected = pytest.approx(body["versions"]["clean"][metric]["last"])
        assert value == expected


def test_a_client_that_never_took_part_is_named(tmp_path):
    run = train(
        make_chain(tmp_path), plan("fedbn", rounds=2, participation=0.25), work=tmp_path, out=None
    )
    tensors = read_tensors(run.parent / "models" / "00002.h5")
    body = manifest.read(run).body
    start = open_run(run).layout
    participants = {
        json.loads(line)["clients"][0]
        for line in (run.parent / "rounds.jsonl").read_text().splitlines()
    }
    for row, client in enumerate(ROSTER):
        assert (client in body["warning"]) == (client not in participants)
        same = torch.equal(tensors[f"clients/{row}/own"], start.own_start) and bool(
            start.own_start.any()
        )
        assert same == (client not in participants)


def test_a_run_of_clients_alone_is_no_start_for_another(tmp_path):
    run = train(make_chain(tmp_path), plan(), work=tmp_path, out=None)
    for method in ("fedavg", "crt"):
        with pytest.raises(FedcliError, match="no global model"):
            train(
                make_chain(tmp_path),
                planned(method, {}, TRAINING, 2, weights=str(run)),
                work=tmp_path,
                out=None,
            )


def test_a_second_stage_needs_one_model_of_all(tmp_path, capsys):
    with pytest.raises(SystemExit):
        app(
            [
                "train",
                "fedavg",
                str(make_chain(tmp_path)),
                "--single-site",
                "--then",
                "crt",
                "--work",
                str(tmp_path),
            ]
        )
    assert "--then crt needs one model of all clients" in capsys.readouterr().err
