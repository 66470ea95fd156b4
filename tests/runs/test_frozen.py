"""Frozen backbones, other starts, and what a run keeps of its clients."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import make_chain, toy_net, toy_shard, toy_shards
from made_plans import TRAINING, planned, train
from numpy.testing import assert_allclose
from torch.testing import assert_close

from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import ClientTask, run_client
from fedcli.federation.state import read_tensors
from fedcli.methods import METHODS, resolve
from fedcli.methods.mixins import ContinuesRun, StartsFromRun
from fedcli.models.layout import Layout
from fedcli.runs import assembly
from fedcli.runs.finished import load_mean_personal, load_model, logits, open_run, predict
from fedcli.runs.rules import check
from fedcli.runs.scoring import curve
from fedcli.scores.evaluate import evaluate


def frozen_net():
    return toy_net(dropout=0.0, extend=lambda net: net.backbone.requires_grad_(False))


def begun(tmp_path, method="fedavg", **rest):
    plan = planned(method, {}, TRAINING, 3, **rest)
    return train(make_chain(tmp_path), plan, work=tmp_path, out=None)


def test_nothing_of_a_frozen_part_is_in_theta_its_statistics_neither():
    layout = Layout(frozen_net())
    assert list(layout.shapes) == ["head.weight", "head.bias"]


def test_a_frozen_backbone_neither_moves_nor_leaves_eval_mode():
    net = frozen_net()
    layout = Layout(net)
    before = {k: v.clone() for k, v in net.backbone.state_dict().items()}
    modes = []
    net.backbone.register_forward_pre_hook(
        lambda module, _: modes.append([m.training for m in module.modules()])
    )
    task = ClientTask("north", 0, 1, 1, 0, layout.read(), {}, {})
    run_client(resolve("fedavg"), net, layout, toy_shard("north"), task, TRAINING)
    assert modes
    for modes_of_pass in modes:
        assert not any(modes_of_pass)
    for k, v in net.backbone.state_dict().items():
        assert torch.equal(v, before[k])


def test_cached_features_train_as_the_images_do(shards):
    def trained(cached: bool):
        net = frozen_net()
        data = assembly.with_features(net, shards) if cached else shards
        layout = Layout(net)
        task = ClientTask("north", 0, 1, 1, 0, layout.read(), {}, {})
        return run_client(resolve("fedavg"), net, layout, data.train["north"], task, TRAINING).theta

    assert not torch.equal(trained(True), Layout(frozen_net()).read())
    assert_close(trained(True), trained(False), atol=1e-6, rtol=1e-5)


def test_augmented_images_are_not_cached(shards):
    net = frozen_net()
    data = replace(shards, train=toy_shards(north=toy_shard("north", kind="flip")))
    assert assembly.with_features(net, data) is data


def test_a_frozen_run_sends_its_head_alone_and_scores_with_its_whole_network(tmp_path):
    run = begun(tmp_path, freeze_backbone=True, model="cnn")
    body = manifest.read(run).body
    assert body["numbers_sent"] == 64 * 3 + 3
    assert body["model"]["frozen"]
    opened = open_run(run)
    logits = predict(opened, 3, opened.data.test["clean"])
    load_model(opened, 3)
    with torch.no_grad():
        batch = next(opened.data.test["clean"].in_order())
        features_ = opened.net.backbone(batch.x)
        head = read_tensors(run.parent / "models" / "00003.h5")
        expected = features_ @ head["model/head.weight"].T + head["model/head.bias"]
    assert_allclose(logits, expected.numpy(), atol=1e-5)
    frozen = read_tensors(run.parent / "models" / "frozen.h5")
    for k in body["model"]["frozen"]:
        assert torch.equal(opened.net.state_dict()[k], frozen[f"model/{k}"])


def test_a_run_starts_from_another_ones_last_model(tmp_path):
    start = begun(tmp_path)
    run = begun(tmp_path, weights=str(start.parent))
    body = manifest.verify(run, "run").body
    assert body["start"]["method"] == "fedavg"
    assert body["label"] == "FedAvg"
    assert len(manifest.read(run).parents) == 2
    assert manifest.parent(run, "partition") == manifest.parent(start, "partition")
    assert body["warning"] == ""
    begun_again = read_tensors(start.parent / "models" / "00003.h5")
    plan = planned("fedavg", {}, replace(TRAINING, lr=1e-12), 1, weights=str(start))
    last = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
    for name, tensor in read_tensors(last.parent / "models" / "00001.h5").items():
        if name.endswith(("weight", "bias")):  # the classifier too
            assert_close(tensor, begun_again[name])
    (start.parent / "models" / "00003.h5").write_bytes(b"")
    with pytest.raises(FedcliError, match="sha256"):
        begun(tmp_path, weights=str(start), seed=5)


def test_a_frozen_run_is_no_start(tmp_path):
    frozen = begun(tmp_path, freeze_backbone=True)
    with pytest.raises(FedcliError, match="froze its backbone"):
        begun(tmp_path, weights=str(frozen))


def test_personal_models_are_those_that_training_leaves(tmp_path):
    plain = begun(tmp_path / "plain")
    plan = planned("fedavg", {}, replace(TRAINING, personal=True), 3)
    run = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
    models = read_tensors(run.parent / "models" / "00003.h5")
    assert manifest.read(run).body["model"]["personal_models"]
    expected = read_tensors(plain.parent / "models" / "00003.h5")["model/head.bias"]
    assert torch.equal(models["model/head.bias"], expected)
    layout = open_run(run).layout
    mean = sum(models[f"clients/{row}/model"] for row in range(4)) / 4  # clients of one size
    assert_close(mean[layout.spans["head.bias"]], models["model/head.bias"])


def test_a_cosine_schedule_falls_from_the_first_round_to_near_nothing():
    rates = [replace(TRAINING, schedule="cosine").at(t, 4).lr for t in range(1, 5)]
    expected = 0.05 * (1 + np.cos(np.pi * np.arange(4) / 4)) / 2
    assert_allclose(rates, expected)
    assert TRAINING.at(3, 4) == TRAINING


def test_balanced_sampling_draws_present_classes_alike():
    shard = toy_shard("north", 900, absent=1)
    few_of_class_0 = (shard.y == 0).nonzero()[:5, 0]
    all_of_class_2 = (shard.y == 2).nonzero()[:, 0]
    rare = torch.cat([few_of_class_0, all_of_class_2])
    shard = replace(shard, rows=shard.rows[rare], y=shard.y[rare])
    batches = list(shard.epoch(50, shuffle=3, augment=0, strata=shard.y))
    y = torch.cat([b.y for b in batches])
    assert len(y) == len(shard)
    assert set(y.tolist()) == {0, 2}
    result = abs((y == 0).float().mean().item() - 0.5)
    assert result < 0.07
    again = torch.cat([b.at for b in shard.epoch(50, shuffle=3, augment=0, strata=shard.y)])
    assert torch.equal(again, torch.cat([b.at for b in batches]))
    rows = torch.cat([batch.at for batch in batches])
    labels = torch.cat([batch.y for batch in batches])
    assert len(rows[labels == 0].unique()) == 5


def test_a_teacher_or_a_prior_that_a_method_cannot_use_is_refused():
    with pytest.raises(UsageError, match="learns from no teacher"):
        check(planned("fedavg", {}, TRAINING, 1, teacher="somewhere.pth"))
    with pytest.raises(UsageError, match="--prior='bms' is not one of") as error:
        check(planned("fedavg", {}, replace(TRAINING, prior="bms"), 1))
    assert "bsm" in error.value.hint


def test_server_scalars_are_in_the_record(tmp_path):
    run = begun(tmp_path, "fedmrl")
    line = json.loads((run.parent / "rounds.jsonl").read_text().splitlines()[-1])
    assert {"epsilon", "reward"} <= line["server"].keys()


def test_a_second_stage_needs_a_run_of_the_same_clients(tmp_path):
    start = begun(tmp_path)
    crt = begun(tmp_path, "crt", weights=str(start))
    assert manifest.read(crt).body["label"] == "FedAvg + cRT"
    other = make_chain(tmp_path / "other")
    body = json.loads(other.read_text())
    body["body"]["scheme"] = "another"
    other.write_text(json.dumps(body))
    with pytest.raises(FedcliError, match="other clients"):
        train(
            other,
            planned("crt", {}, TRAINING, 3, weights=str(start)),
            work=tmp_path / "other",
            out=None,
        )
    with pytest.raises(FedcliError, match="no such run: nowhere"):
        begun(tmp_path, "crt", weights="nowhere")
    corrupted = make_chain(tmp_path, corrupted=True)
    plan = planned("crt", {}, TRAINING, 3, weights=str(start))
    assert train(corrupted, plan, work=tmp_path, out=None).is_file()


FROM_A_RUN = [m.name for m in METHODS.values() if isinstance(m.aggregator, StartsFromRun)]


@pytest.mark.parametrize("name", FROM_A_RUN)
@pytest.mark.parametrize("weights", [None, "weights.pt"])
def test_a_method_that_continues_a_run_is_refused_without_one(name, weights, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.pt").touch()
    plan = planned(name, {}, TRAINING, 1, weights=weights)
    with pytest.raises(UsageError, match=f"{name} continues a finished run") as error:
        assembly.open_parent(plan, resolve(name))
    assert f"fedcli train {name} --weights RUN" in error.value.hint
    is_second_stage = isinstance(METHODS[name].aggregator, ContinuesRun)
    assert ("--then" in error.value.hint) == is_second_stage


def test_unlearning_needs_a_run_of_the_same_clients(tmp_path):
    start = begun(tmp_path)
    again = manifest.read(begun(tmp_path, "fcu", weights=str(start)))
    assert again.body["start"]["method"] == "fedavg"
    other = make_chain(tmp_path / "other")
    body = json.loads(other.read_text())
    body["body"]["scheme"] = "another"
    other.write_text(json.dumps(body))
    plan = planned("fcu", {}, TRAINING, 2, weights=str(start))
    with pytest.raises(FedcliError, match="other clients"):
        train(other, plan, work=tmp_path / "other", out=None)


def test_a_second_stage_is_no_add_on():
    with pytest.raises(UsageError, match="continues a finished run") as error:
        resolve("bsm+crt")
    assert error.value.hint == "fedcli train bsm --then crt"


def test_a_classifier_of_another_kind_starts_anew_and_says_so(tmp_path):
    ldam = begun(tmp_path, "ldam")
    assert "starts anew" in manifest.read(begun(tmp_path, weights=str(ldam))).body["warning"]


def test_a_frozen_random_backbone_is_told(tmp_path):
    assert "random weights" in manifest.read(begun(tmp_path, freeze_backbone=True)).body["warning"]


def test_batch_norms_that_are_not_there_are_named(tmp_path):
    local = replace(TRAINING, bn="local")
    for model, is_warned in (("clip-tiny", True), ("cnn", False)):
        plan = planned("fedavg", {}, local, 1, model=model)
        run = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
        assert (
            "no batch norm, so --bn local does nothing" in manifest.read(run).body["warning"]
        ) is is_warned


def test_a_curve_scores_what_evaluate_scores(tmp_path):
    """FedBN's norms in the curve are the clients' mean, not those of the client that trained last."""
    plan = planned("fedbn", {}, TRAINING, 2, eval_every=1)
    run = train(make_chain(tmp_path), plan, work=tmp_path)
    line = json.loads((run.parent / "rounds.jsonl").read_text().splitlines()[-1])
    opened = open_run(run)
    shard = opened.data.test["clean"]
    expected = curve(predict(opened, 2, shard), shard.y.numpy())
    assert line["test"]["clean"] == expected


def test_a_mean_of_personal_models_has_the_mean_of_what_clients_keep(tmp_path):
    personal = replace(TRAINING, personal=True)
    plan = planned("fedbn", {}, personal, 2)
    run = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
    opened = open_run(run)
    shard = opened.data.test["clean"]
    before = predict(opened, 2, shard)
    predict(opened, 2, shard, "west")
    assert load_mean_personal(opened, 2)
    result = logits(opened.net, shard, opened.method.local)
    assert_allclose(result, before, atol=1e-5)  # one round's mean is the global model


def test_a_clean_run_from_a_corrupted_one_is_told_as_clean(tmp_path):
    plan = planned("fedavg", {}, TRAINING, 2)
    corrupted = train(make_chain(tmp_path, corrupted=True), plan, work=tmp_path, out=None)
    run = begun(tmp_path, "crt", weights=str(corrupted))
    scores = manifest.read(evaluate(run)).body
    assert scores["data"]["corruption"] is None
    assert scores["data"]["partition"]


def test_a_second_stage_keeps_the_caution_of_the_first(tmp_path):
    fed_mas = begun(tmp_path, "fed-mas")
    assert "teacher" in manifest.read(begun(tmp_path, "crt", weights=str(fed_mas))).body["warning"]


def test_the_recorded_command_is_one(tmp_path):
    made_by = manifest.read(begun(tmp_path, "fedbn", freeze_backbone=True)).made_by
    assert "--freeze-backbone" in made_by
    assert "--freeze" not in made_by
