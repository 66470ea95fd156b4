"""Information that a finished run gives away: attacks against calculations by hand, their limits, and the whole command."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import make_chain
from made_plans import planned, results, train
from tables_of_numbers import rows as number_rows
from torch import nn
from typed_lines import fedcli, path_of

from fedcli.errors import FedcliError, UsageError
from fedcli.federation.training import Training
from fedcli.figures.kinds import reconstructions
from fedcli.runs import finished
from fedcli.runs.assembly import assemble
from fedcli.runs.rules import check
from fedcli.scores.audit import audited, inversion
from fedcli.scores.audit import finished as audits
from fedcli.scores.audit.hospital import probe
from fedcli.scores.audit.membership import allowed, attack, lira, roc
from fedcli.scores.evaluation_options import AuditOptions

TRAINING = Training(optimizer="sgd", lr=0.05, batch_size=8)
ASKED = AuditOptions(batch=2, iterations=3)


def ones(count):
    return np.ones((1, count), np.int16)


def test_rates_of_an_attack_by_hand():
    member = np.array([1, 1, 0, 1, 0, 1, 0, 0], bool)
    score = np.array([9.0, 8.0, 7.0, 7.0, 5.0, 4.0, 3.0, 2.0])
    rates = roc(score, member, ones(8), threshold=7.0)
    expected = pytest.approx((4 + 4 + 3.5 + 2) / 16)
    assert rates["auc"] == expected  # of 16 pairs; a tie is half
    expected = pytest.approx(3 / 4 - 1 / 4)
    assert rates["advantage"] == expected
    assert "tpr 0.01" not in rates  # four held-out images say nothing of one in a hundred
    member = np.arange(300) < 100
    score = np.r_[np.arange(100) + 0.5, np.arange(200) - 120.0]
    result = roc(score, member, ones(300), None)["tpr 0.01"]
    assert result == 23 / 100  # two of 200 are above 77.5: 79 and 78


def test_a_weight_of_two_is_an_image_twice():
    rng = np.random.default_rng(0)
    score = rng.integers(0, 9, 250) * 1.0
    member = rng.random(250) < 0.5
    twice = rng.integers(0, 3, 250)
    weighted = roc(score, member, twice[None].astype(np.int16), 4.0)
    repeated = roc(score.repeat(twice), member.repeat(twice), ones(twice.sum()), 4.0)
    assert weighted.keys() == repeated.keys() > {"tpr 0.01"}
    for name in weighted:
        assert weighted[name] == pytest.approx(repeated[name])


def test_a_model_that_knows_nothing_is_at_chance_and_one_that_remembers_all_gives_all_away():
    rng = np.random.default_rng(1)
    member = np.arange(400) < 200
    units = (np.arange(400) // 2).astype(str)
    nothing = attack(rng.normal(size=400), member, np.zeros(400, int), units, 0.0, seed=0)
    assert nothing["auc"]["low"] < 0.5 < nothing["auc"]["high"]
    assert nothing["advantage"]["low"] < 0
    everything = attack(
        np.where(member, -0.1, -3.0), member, np.zeros(400, int), units, -0.1, seed=0
    )
    by_class = everything.pop("auc by class")
    assert by_class == {"value": 0.5, "low": 0.5, "high": 0.5}  # all are of one class
    for number in everything.values():
        assert number == {"value": 1.0, "low": 1.0, "high": 1.0}


def test_what_differential_privacy_allows_by_hand():
    expected = pytest.approx({"auc": 0.5, "tpr 0.01": 0.01, "tpr 0.001": 0.001, "advantage": 0})
    assert allowed(0, 0) == expected
    three = allowed(math.log(3), 0)
    expected = pytest.approx({"auc": 0.75, "tpr 0.01": 0.03, "tpr 0.001": 0.003, "advantage": 0.5})
    assert three == expected
    expected = pytest.approx(dict.fromkeys(three, 1.0))
    assert allowed(1e4, 1e-5) == expected
    result = allowed(0, 0.2)["advantage"]
    assert result == pytest.approx(0.2)


def test_lira_by_hand():
    shadows = np.array(number_rows("1.0 0.0; 3.0 4.0; 6.0 9.0; 8.0 9.0"))  # [S, N]
    trained = np.array(number_rows("0 0; 0 0; 1 0; 1 1"), bool)
    phi = np.array([4.0, 9.0])
    scores_by_attack = lira(phi, shadows, trained)
    enough, z = scores_by_attack["LiRA, offline"]
    mean = 13 / 3
    variance = (2 + (169 + 1 + 196) / 9) / (1 + 2)  # of the second image; of both
    assert enough.all()
    expected = pytest.approx(
        [(4 - 2) / math.sqrt(variance * 3 / 2), (9 - mean) / math.sqrt(variance * 4 / 3)]
    )
    assert z == expected
    enough, ratio = scores_by_attack["LiRA, online"]
    assert enough.tolist() == [True, False]  # one model trained on the second image
    inside = 2 * 3 / 2
    outside = variance * 3 / 2
    expected = pytest.approx(
        -(3**2) / inside / 2 + 2**2 / outside / 2 - math.log(inside / outside) / 2
    )
    assert ratio[0] == expected


def test_hospitals_that_differ_are_told_apart_and_equal_ones_are_not():
    rng = np.random.default_rng(2)
    hospital = np.arange(120) % 3
    units = np.arange(120) // 6
    equal = probe(rng.normal(size=(120, 4)), hospital, units, seed=0)
    assert equal["low"] < 1 / 3 < equal["high"]
    assert (
        probe(np.eye(3)[hospital] + rng.normal(size=(120, 3)) / 9, hospital, units, seed=0)["value"]
        == 1
    )
    result = probe(np.eye(3)[hospital], hospital, hospital, seed=0)
    assert result is None  # a patient each


def test_the_input_of_a_linear_layer_follows_from_its_gradient():
    torch.manual_seed(0)
    layer = nn.Linear(12, 3)
    x = torch.rand(1, 3, 2, 2)
    y = torch.tensor([1])

    def gradient(x):
        loss = nn.functional.cross_entropy(layer(x.flatten(1)), y)
        return torch.cat(
            [
                g.reshape(-1)
                for g in torch.autograd.grad(loss, layer.parameters(), create_graph=True)
            ]
        )

    weights = gradient(x)[:36].view(3, 12)
    bias = gradient(x)[36:]
    assert torch.allclose(weights[0] / bias[0], x.flatten(), atol=1e-5)  # why it is possible
    before = inversion.ALPHA
    inversion.ALPHA = 0.0
    try:
        target = gradient(inversion.transforms.normalised(x)).detach()
        inverted, distance = inversion.invert(gradient, target, x.shape, iterations=400)
    finally:
        inversion.ALPHA = before
    assert distance < 1e-3
    result = inversion.psnr(x.numpy(), inverted.numpy())
    assert result > 25


def test_psnr_by_hand_and_the_best_match_of_a_batch():
    black = np.zeros((1, 2, 2))
    grey = np.full((1, 2, 2), 0.1)
    assert inversion.psnr(black, grey) == pytest.approx(20)
    assert inversion.psnr(grey, grey) == inversion.MOST
    assert np.array_equal(
        inversion.matched(np.stack([black, grey]), np.stack([grey, black])), [black, grey]
    )


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def run(chain):
    plan = planned("fedavg", {}, TRAINING, 1, model="cnn-gn")
    return train(chain, plan, work=chain.parent.parent)


def test_the_initial_network_is_the_one_that_training_began_with(run, chain):
    plan = planned("fedavg", {}, TRAINING, 1, model="cnn-gn")
    begun = assemble(chain, plan, check(plan)).net.state_dict()
    again = finished.starting_network(finished.open_run(run)).state_dict()
    assert begun.keys() == again.keys()
    for name in begun:
        assert torch.equal(begun[name], again[name])


def test_an_audit_by_its_command_is_on_the_page_and_the_same_bytes_again(run, tmp_path):
    result = fedcli("audit", run, "--batch", 2, "--iterations", 3)
    path = path_of(result)
    path_of(fedcli("audit", run, "--batch", 2, "--iterations", 3, "--out", tmp_path / "again"))
    folder = run.parent / "audit"
    results_by_file = results(folder / path.split("/")[-2])
    other = results(tmp_path / "again")
    assert results_by_file["reconstructions.h5"] == other["reconstructions.h5"]
    expected = json.loads(other["audit.json"])["body"]
    result = json.loads(results_by_file["audit.json"])["body"]
    assert result == expected
    err = fedcli("audit", run, "--batch", 2, "--iterations", 3)[2]
    assert (
        "The model may be no better than chance (33.3 %) on held-out images: balanced accuracy "
        in err
    )
    assert "Membership by its loss: training images " in err
    assert "Gradient of the final model: " in err
    code, out, _ = fedcli("audit", run, "--batch", 2, "--iterations", 3, "--json")
    body = json.loads(out)
    assert code == 0
    result = {row["attribute"] for row in body["membership"]}
    assert result == {"", "client", "sex"}
    rows = body["membership"]
    for row in rows:
        assert row["small"] == (min(row["members"], row["held_out"]) < 30)
        assert not row["allowed"]
    result = [results_by_file["model"] for results_by_file in body["inversion"]["models"]]
    assert result == [
        "initial",
        "final",
    ]
    frame = reconstructions.frame(run.parent)
    expected = ["original", "initial", "final"] * 2
    assert frame["shown"].tolist() == expected
    page = tmp_path / "page.html"
    result = fedcli("report", run, "--format", "html", "--out", page)[0]
    assert result == 0
    text = page.read_text(encoding="utf-8")
    assert "What the models give away" in text
    assert "Membership by its loss: " in text
    assert "Reconstructed from gradients" in text
    audit = folder / path.split("/")[-2] / "audit.json"
    edited = audit.read_text(encoding="utf-8").replace('"allowed": null', '"allowed": {"auc": 1}')
    audit.write_text(edited, encoding="utf-8")
    result = fedcli("report", run, "--format", "html", "--out", page)[0]
    assert result == 0
    audit.write_text(
        audit.read_text(encoding="utf-8").replace('"members": 80', '"members": "<b>"'),
        encoding="utf-8",
    )
    with pytest.raises(FedcliError, match="members is '<b>', not a whole number"):
        audits.newest(run)
    audit.unlink()


def test_an_audit_says_that_training_diverged_and_nothing_of_a_model_that_learned(run):
    opened = finished.open_run(run)
    images = audited._images(opened, False)
    logits = np.eye(3)[images.y]
    right = replace(images, logits=logits)
    assert audited._caution(opened, images).startswith(
        "The model may be no better than chance (33.3 %)"
    )
    assert audited._caution(opened, right) == ""
    logits = np.full((len(images.y), 3), np.inf)
    infinite = replace(images, logits=logits)
    with pytest.raises(FedcliError, match="got logits that are not finite"):
        audited._caution(opened, infinite)
    record = run.parent / "rounds.jsonl"
    whole = record.read_text(encoding="utf-8")
    try:
        record.write_text(
            json.dumps(json.loads(whole) | {"loss": [0.5, None, 0.5, 0.5]}) + "\n", encoding="utf-8"
        )
        assert audited._caution(opened, right) == audited.DIVERGED
        no_part = {"loss": [0.5, None, 0.5, 0.5], "weights": [0.5, 0.0, 0.25, 0.25]}
        record.write_text(json.dumps(json.loads(whole) | no_part) + "\n", encoding="utf-8")
        assert audited._caution(opened, right) == ""  # it did not train
    finally:
        record.write_text(whole, encoding="utf-8")


def test_noise_of_training_bounds_the_attack_and_is_in_the_gradient(chain, tmp_path):
    private = Training(optimizer="sgd", lr=0.05, batch_size=8, dp_sgd=2.0, dp_clip=1.0)
    plan = planned("fedavg", {}, private, 1, model="cnn-gn")
    path = train(chain, plan, work=tmp_path)
    opened = finished.open_run(path)
    body = json.loads(audited.audit(path, [], ASKED).read_text(encoding="utf-8"))["body"]
    epsilon = body["privacy"]["clients"]
    for row in body["membership"]:
        spent = epsilon.get(row["group"], body["privacy"]["epsilon"])
        assert row["allowed"] == {"epsilon": spent, **allowed(spent, 1e-5)}
    shard = (
        opened.data.train["client-00"]
        if "client-00" in opened.data.train
        else next(iter(opened.data.train.values()))
    )
    finished.load_model(opened, 1)
    g = []
    for seed in (0, 0, 1):
        g.append(inversion.sent(opened, opened.net.eval(), shard, torch.tensor([0]), seed))
    assert torch.equal(g[0], g[1])
    result = (g[0] - g[2]).std()
    expected = pytest.approx(2 * math.sqrt(2), rel=0.05)
    assert result == expected


def test_shadow_runs_must_have_left_images_out(run, chain, tmp_path):
    others = [
        train(chain, planned("fedavg", {}, TRAINING, 1, model="cnn-gn", seed=seed), work=tmp_path)
        for seed in (1, 2)
    ]
    with pytest.raises(FedcliError, match="no training image was left out by two"):
        audited.audit(run, others, ASKED)
    plan = planned("fedavg", {}, TRAINING, 1)
    other = train(chain, plan, work=tmp_path)
    with pytest.raises(FedcliError, match="differs from the run in model: cnn, not cnn-gn"):
        audited.audit(run, [other], ASKED)


def test_clients_that_train_alone_send_nothing(chain, tmp_path):
    plan = planned("fedavg", {}, TRAINING, 1, single_site=True)
    path = train(chain, plan, work=tmp_path)
    body = json.loads(audited.audit(path, [], ASKED).read_text(encoding="utf-8"))["body"]
    assert body["inversion"] is None
    assert body["hospital"] == []
    assert len(body["membership"]) == 7
    with pytest.raises(UsageError, match="trained alone"):
        audited.audit(path, [path], ASKED)
    with pytest.raises(UsageError, match="no client 'nobody'"):
        audited.audit(path, [], replace(ASKED, client="nobody"))
