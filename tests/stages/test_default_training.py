"""The learning rate and the correction for rare classes where nobody gives them."""

import json
import shutil
from dataclasses import replace

import pytest
from conftest import interrupt_in_round

import fedcli
from fedcli.data import manifest, shared_patients
from fedcli.errors import FedcliError
from fedcli.federation.server import Federation
from fedcli.runs.train import Interrupted
from fedcli.stages import train
from fedcli.stages.options import TrainOptions
from fedcli.stages.train import resolved


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    """toy in two clients, and the same with a rarest class of a tenth and of a twentieth of the commonest's images."""
    work = tmp_path_factory.mktemp("work")
    path = fedcli.partition(
        fedcli.prepare("toy", size=8, sample_images=300, work=work), iid=True, clients=2, work=work
    ).path
    paths = {"balanced": path}
    for name, rarest in (("tenth", 10), ("rare", 5)):
        folder = path.parent.with_name(name)
        shutil.copytree(path.parent, folder)
        body = json.loads(path.read_text())
        for client, count in zip(body["body"]["roster"], (rarest, 0), strict=True):
            client["class_counts"] = [50] * 9 + [count]  # 100 of the commonest
        (folder / path.name).write_text(json.dumps(body))
        paths[name] = folder / path.name
    return paths


def prior(clients, name, method="fedavg", **options):
    return resolved(TrainOptions(method, **options), clients[name]).prior


def test_rare_classes_are_corrected_for_and_it_is_said(clients, caplog):
    caplog.set_level("INFO", "fedcli")
    assert prior(clients, "rare") == "logit-adjust"
    assert (
        "9 has 5 training images and 0 100: the loss is corrected by --prior logit-adjust"
        in caplog.text
    )


FROZEN = {"freeze_backbone": True}
CORRECTIONS = [
    ({}, "logit-adjust"),
    (FROZEN, "logit-adjust-all"),
    ({**FROZEN, "prior": "logit-adjust"}, "logit-adjust"),
    ({**FROZEN, "single_site": True}, "logit-adjust"),
    ({**FROZEN, "sampling": "class"}, "none"),
]


@pytest.mark.parametrize(("options", "expected"), CORRECTIONS)
def test_a_frozen_network_is_corrected_for_the_counts_of_all_clients(
    clients, options, expected, caplog
):
    caplog.set_level("INFO", "fedcli")
    assert prior(clients, "rare", **options) == expected
    is_said = f"corrected by --prior {expected};" in caplog.text
    assert is_said == (expected != "none" and "prior" not in options)


@pytest.mark.parametrize("name", ["balanced", "tenth"])
def test_others_are_not(clients, name, caplog):
    caplog.set_level("INFO", "fedcli")
    assert prior(clients, name) == "none"
    assert "--prior" not in caplog.text


CORRECTED = [
    ("fedavg", {"prior": "none"}),
    ("fedavg", {"class_weights": "balanced"}),
    ("fedavg", {"loss": "focal:2"}),
    ("fedavg", {"sampling": "class"}),
    ("fedavg", {"dp_sgd": 1.0, "model": "cnn-gn"}),
    ("bsm", {}),
    ("ldam", {}),
]


@pytest.mark.parametrize(("method", "options"), CORRECTED)
def test_what_corrects_already_or_keeps_counts_private_is_left_alone(clients, method, options):
    assert prior(clients, "rare", method, **options) == "none"


def test_a_prior_that_is_given_is_kept(clients):
    for name in ("rare", "balanced"):
        assert prior(clients, name, prior="bsm") == "bsm"


def test_an_unfinished_run_goes_on_with_the_prior_that_it_was_begun_with(
    clients, tmp_path, monkeypatch
):
    options = TrainOptions("fedavg", rounds=2, work=tmp_path, out=tmp_path / "run", **FROZEN)
    begun = replace(options, data=clients["rare"], prior="logit-adjust")
    with monkeypatch.context() as patch:
        patch.setattr(Federation, "play", interrupt_in_round(2))
        with pytest.raises(Interrupted):
            train.run(begun)
    going_on = TrainOptions(None, resume=True, work=tmp_path, out=tmp_path / "run")
    run = train.run(going_on)
    assert manifest.read(run.path).options["prior"] == "logit-adjust"


def test_sites_that_keep_their_counts_are_not_corrected_for(clients, monkeypatch):
    read = manifest.read

    def without(path, *kinds, **how):
        content = read(path, *kinds, **how)
        for client in content.body["roster"]:
            client.pop("class_counts", None)
        return content

    monkeypatch.setattr(manifest, "read", without)
    assert prior(clients, "rare") == "none"
    assert prior(clients, "rare", freeze_backbone=True) == "none"


PRETRAINED = {"weights": "imagenet", "model": "resnet18"}
RATES = [
    ({}, 1e-3),
    (PRETRAINED, 3e-4),
    ({**PRETRAINED, "lr": 0.02}, 0.02),
    ({"freeze_backbone": True}, 3e-3),
    ({**PRETRAINED, "freeze_backbone": True}, 3e-3),
    ({"freeze_backbone": True, "lr": 0.02}, 0.02),
    ({"freeze_backbone": True, "optimizer": "sgd"}, 1e-3),
    ({"optimizer": "sgd"}, 1e-3),
    ({**PRETRAINED, "optimizer": "sgd"}, 1e-3),
]


@pytest.mark.parametrize(("options", "lr"), RATES)
def test_the_learning_rate_follows_the_optimizer_and_the_starting_weights(options, lr):
    assert resolved(TrainOptions("fedavg", **options)).lr == lr


def test_counts_and_patients_of_an_edited_partition_are_refused_in_a_sentence(clients, tmp_path):
    path = clients["balanced"]
    whole = json.loads(path.read_text())
    edited = tmp_path / path.name
    whole["body"]["roster"][0]["class_counts"].pop()
    edited.write_text(json.dumps(whole))
    with pytest.raises(FedcliError, match="class_counts of client-00 are not of each class"):
        resolved(TrainOptions("fedavg"), edited)
    whole["body"]["shared_patients"] = {"test": {"shared": 1, "of": 2}}
    edited.write_text(json.dumps(whole))
    with pytest.raises(FedcliError, match="unit is missing"):
        shared_patients.warn(edited)
