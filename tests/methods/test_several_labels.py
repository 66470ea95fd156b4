"""Several labels per image: every method trains and resumes, or is refused by a sentence that names those that do."""

from functools import cached_property

import numpy as np
import pytest
import torch
from conftest import ROSTER, toy_shard
from made_plans import planned
from tables_of_numbers import rows

from fedcli.bench import checks
from fedcli.bench.checks import Subject
from fedcli.errors import UsageError
from fedcli.federation.training import Training
from fedcli.labels import MULTI_LABEL, UNKNOWN
from fedcli.methods import METHODS, resolve
from fedcli.methods.losses import binary_cross_entropy, class_weights, plain_loss
from fedcli.runs.rules import check_labels

SEVERAL = {"task": MULTI_LABEL, "dataset": "chest"}


def several(client, count):
    """A toy shard whose images have any of three labels; one is not known."""
    shard = toy_shard(client, count)
    y = torch.from_numpy(np.random.default_rng(count).integers(0, 2, (count, 3), np.uint8))
    y[0, 1] = UNKNOWN
    object.__setattr__(shard, "y", y)
    return shard


class OfSeveral(Subject):
    @cached_property
    def shards(self):
        return {client: several(client, 9 + 4 * k) for k, client in enumerate(ROSTER)}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_trains_on_several_labels_and_resumes_or_says_why_not(name):
    method = resolve(name)
    plan = planned(name, {}, Training(), 2, model="cnn")
    if method.local.needs_one_label or method.aggregator.needs_one_label:
        with pytest.raises(
            UsageError, match=f"{name} needs one label per image .*images of chest have several"
        ) as error:
            check_labels(plan, method, SEVERAL)
        assert len(error.value.sentence) < 200
        assert "fedavg, " in error.value.hint
        assert f" {name}," not in error.value.hint
        return
    check_labels(plan, method, SEVERAL)
    subject = OfSeveral(name)
    checks.is_finite(subject)
    checks.resumes(subject)


def test_a_pair_is_refused_for_either_half_and_one_label_is_never_refused():
    for spec in ("ldam+fedheal", "fedavg+creff"):
        plan = planned(spec, {}, Training(), 2)
        method = resolve(spec)
        check_labels(plan, method, {"dataset": "skin", "classes": ["a", "b", "c"]})
        with pytest.raises(UsageError, match="needs one label per image"):
            check_labels(plan, method, SEVERAL)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (planned("fedavg", {}, Training(prior="bsm"), 2), "--prior bsm is for one label"),
        (
            planned("fedavg", {}, Training(class_weights="effective:0.9"), 2),
            "--class-weights effective:0.9 is for one label",
        ),
        (planned("fedavg", {}, Training(sampling="class"), 2), "--sampling class is for one label"),
        (
            planned("lora", {}, Training(), 2, model="clip-tiny"),
            "on a CLIP network it chooses one of the class texts",
        ),
    ],
)
def test_options_that_mean_one_class_are_refused(plan, sentence):
    with pytest.raises(UsageError, match=sentence):
        check_labels(plan, resolve(plan.method), SEVERAL)


def test_the_loss_is_the_mean_over_known_labels():
    logits = torch.tensor(rows("0.5 -1.0 2.0; 1.0 0.0 3.0"))
    y = torch.tensor([[1, 0, 1], [0, UNKNOWN, 0]])
    y = y.to(torch.uint8)
    p = torch.sigmoid(logits)
    loss = -(p[0, 0].log() + (1 - p[0, 1]).log() + p[0, 2].log()) / 3
    other_loss = -((1 - p[1, 0]).log() + (1 - p[1, 2]).log()) / 2
    expected = pytest.approx([loss.item(), other_loss.item()], rel=1e-5)
    assert binary_cross_entropy(logits, y) == expected
    expected = pytest.approx((loss + other_loss).item(), rel=1e-5)
    assert plain_loss(logits, y).item() == expected
    focal = (
        (1 - p[0, 0]) ** 2 * p[0, 0].log()
        + p[0, 1] ** 2 * (1 - p[0, 1]).log()
        + (1 - p[0, 2]) ** 2 * p[0, 2].log()
    )
    expected = pytest.approx(-focal.item() / 3, rel=1e-5)
    result = binary_cross_entropy(logits, y, gamma=2.0)[0].item()
    assert result == expected
    smooth = binary_cross_entropy(logits[:, :1], y[:, :1], smoothing=0.2)[0].item()
    expected = pytest.approx(-(0.9 * p[0, 0].log() + 0.1 * (1 - p[0, 0]).log()).item(), rel=1e-5)
    assert smooth == expected


def test_balanced_weights_make_rare_labels_count_as_much_as_their_absence():
    counts = torch.tensor([1, 4, 0, 5])
    negatives = torch.tensor([4, 1, 5, 0])
    weights = class_weights("balanced", counts, negatives)
    assert weights.tolist() == [4.0, 0.25, 1.0, 1.0]
    shard = several("north", 30)
    expected = [(shard.y[:, k] == 1).sum() for k in range(3)]
    assert shard.class_counts.tolist() == expected


def test_a_client_whose_images_have_no_label_trains():
    shards = {client: several(client, 12) for client in ROSTER}
    object.__setattr__(shards["north"], "y", torch.zeros(12, 3, dtype=torch.uint8))
    subject = OfSeveral("fedheal")
    assert subject.train(until=1, shards=shards).theta.isfinite().all()
