"""The part of an audit that the classes alone explain: hospitals, membership and gradients, against numbers by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tables_of_numbers import rows
from torch import nn

from fedcli.reporting.page import leakage
from fedcli.scores.audit import audited, inversion
from fedcli.scores.audit.audited import LOCAL_BATCH, SKETCHED
from fedcli.scores.audit.hospital import by_class, probe, within_classes
from fedcli.scores.audit.membership import (
    ALONE,
    EQUAL_MIX,
    allowed,
    attack,
    auc_at_equal_mix,
    roc,
)
from fedcli.scores.audit.membership import by_class as class_means

PATIENTS = 60  # of each of two hospitals
HOSPITAL = np.repeat([0, 1], PATIENTS)
UNITS = np.arange(2 * PATIENTS)
ILL = np.concatenate([np.arange(PATIENTS) < 45, np.arange(PATIENTS) < 15]) * 1  # 75 % and 25 %


def ones(count):
    return np.ones((1, count), np.int16)


def answers(mark=0.0):
    """Answers that depend on the class alone, or on a mark of the hospital's scanner as well."""
    size = (2 * PATIENTS, 2)
    noise = np.random.default_rng(0).normal(size=size)
    return np.eye(2)[ILL] * 4 + noise + mark * HOSPITAL[:, None] * [1, -1]


def row(table):
    """The row of the probe on these answers."""
    counts = np.eye(2, dtype=int)[ILL]
    probed = audited.Probed(table, counts, HOSPITAL, UNITS)
    return next(audited._probed("answers", probed, probed, 0))


def test_hospitals_that_differ_only_in_their_case_mix_reveal_no_more_than_that():
    mixed = row(answers())
    assert mixed["by_class"]["value"] == 0.75  # 45 of 60 ill at one, 45 of 60 well at the other
    assert mixed["accuracy"]["low"] > mixed["chance"] == 0.5  # better than by chance, by class
    same_class = mixed["within"]
    assert same_class["count"] == 120
    assert same_class["classes"] == 2
    assert same_class["chance"] == 0.5
    assert same_class["accuracy"]["low"] < 0.5
    assert "do not reveal significantly more than the case mix" in leakage._hospital(mixed)


def test_hospitals_with_a_mark_of_their_scanners_reveal_more_than_the_case_mix():
    marked = row(answers(mark=5.0))
    assert marked["by_class"]["value"] == 0.75
    assert marked["within"]["accuracy"]["value"] > 0.95
    sentence = leakage._hospital(marked)
    assert "where chance is 50.0 %: they reveal more than the case mix" in sentence


def test_classes_that_no_two_hospitals_share_leave_the_question_open():
    of_one = within_classes(answers(), HOSPITAL, HOSPITAL, UNITS, seed=0)
    assert of_one is None
    interval = {"value": 0.8, "low": 0.7, "high": 0.9}
    unknown = {"of": "answers", "accuracy": interval, "by_class": interval, "within": None}
    assert leakage._hospital(unknown) == (
        "From answers the hospital is recognised in 80.0 (70.0 to 90.0) %, by class alone in 80.0 (70.0 to 90.0) %; "
        "too few are of one class to show whether they reveal more than the case mix"
    )


def test_a_class_counts_at_hospitals_with_five_patients_of_it():
    classes = np.repeat([0, 0, 0, 1, 1], [10, 10, 8, 10, 9])
    hospital = np.repeat([0, 1, 2, 0, 1], [10, 10, 8, 10, 9])
    units = np.concatenate([np.arange(20), [20, 21, 22, 23] * 2, np.arange(24, 43)])
    table = np.random.default_rng(1).normal(size=(47, 2))
    same_class = within_classes(table, classes, hospital, units, seed=0)
    assert same_class["count"] == 39  # without the third hospital's eight images of four patients
    assert same_class["classes"] == 2
    assert same_class["chance"] == 0.5
    units[24] = 60  # now of five patients
    same_class = within_classes(table, classes, hospital, units, seed=0)
    assert same_class["count"] == 47
    expected = pytest.approx((28 / 3 + 19 / 2) / 47)
    assert same_class["chance"] == expected


def test_a_batch_is_named_by_its_classes():
    counts = np.array(rows("6 2; 7 1; 6 2; 1 7; 2 6; 1 7"))
    attack = by_class(counts, np.array([0, 0, 0, 1, 1, 1]), np.arange(6), seed=0)
    assert attack["value"] == 1.0


def test_no_patient_is_in_two_folds_of_the_probe():
    """Each patient's images have features of their own, and the hospitals are alike."""
    random = np.random.default_rng(3)
    units = np.repeat(np.arange(40), 6)
    features = random.normal(size=(40, 30))[units] + random.normal(size=(240, 30)) / 100
    hospital = units % 2
    accuracy = probe(features, hospital, units, seed=0)
    assert accuracy["value"] < 0.7  # 1.0 with images of a patient in two folds
    classes = np.zeros(240, int)
    result = within_classes(features, classes, hospital, units, 0)["accuracy"]["value"]
    assert result == (accuracy["value"])


def test_held_out_images_of_a_class_weigh_as_much_as_its_members():
    member = np.array([1, 1, 0, 1, 0, 0, 0], bool)
    classes = np.array([0, 0, 0, 1, 1, 1, 2])
    score = np.array([3.0, 1.0, 2.0, 9.0, 8.0, 9.0, 0.0])
    # class 0: one held-out image of weight 2; class 1: two of weight 1/2; nobody is a member of class 2
    right = 1 * 2 + 0 + (2 + 0.5 + 0.25)
    expected = pytest.approx([right / (3 * 3)])
    result = auc_at_equal_mix(score, member, classes, ones(7))
    assert result == expected
    without_last = np.array(rows("2 1 1 1 1 0 5"))  # the first twice: 3 and 1 of class 0 and 1
    right = 2 * 3 + 0 + (3 + 1)
    expected = pytest.approx([right / 16])
    assert auc_at_equal_mix(score, member, classes, without_last) == expected
    assert np.isnan(auc_at_equal_mix(score, member, np.arange(7), ones(7))).all()


def test_at_an_equal_mix_of_classes_the_auc_is_the_plain_one():
    random = np.random.default_rng(6)
    member = np.arange(60) % 3 > 0
    classes = np.arange(60) // 3 % 2
    score = random.integers(0, 9, 60) * 1.0
    plain = roc(score, member, ones(60), None)["auc"]
    result = auc_at_equal_mix(score, member, classes, ones(60))
    assert result == pytest.approx(plain)


def test_an_attack_by_class_alone_has_the_mean_of_the_held_out_images():
    classes = np.array([0, 0, 0, 1, 1, 2])
    member = np.array([1, 0, 0, 1, 0, 1], bool)
    score = np.array([9.0, 1.0, 3.0, 9.0, 5.0, 7.0])
    means = class_means(score, member, classes)
    expected = [2, 2, 2, 5, 5, 7]
    assert means.tolist() == expected  # of class 2 no image is held out
    numbers = attack(score, member, classes, np.arange(6), None, seed=0)
    # three members by three held out: 7 above 2, 2 and 5; 5 above 2 and 2, with 5; 2 with 2 and 2
    expected = pytest.approx((3 + 2.5 + 1) / 9)
    assert numbers[ALONE]["value"] == expected


def test_membership_by_the_mix_of_classes_is_not_membership_within_classes():
    """Losses that depend on the class alone, and training images that are of other classes."""
    random = np.random.default_rng(4)
    member = np.arange(400) < 200
    classes = (random.random(400) < np.where(member, 0.8, 0.2)) * 1
    numbers = attack(classes + random.normal(size=400), member, classes, UNITS_400, None, seed=0)
    assert numbers["auc"]["low"] > 0.5
    assert numbers[ALONE]["low"] > 0.7
    assert numbers[EQUAL_MIX]["low"] < 0.5 < numbers[EQUAL_MIX]["high"]
    sentence = leakage._membership(numbers)
    assert sentence.startswith("training images differ from held-out ones, AUC ")
    assert sentence.endswith("not significantly more than the mix of classes reveals")
    learned = attack(member + random.normal(size=400), member, classes, UNITS_400, None, seed=0)
    assert leakage._membership(learned).endswith(", more than the mix of classes reveals")


UNITS_400 = np.arange(400)


def test_rebuilt_images_are_compared_with_the_mean_image_of_their_class_too():
    inverted = {"blind": [10.0, 12.0, 9.0], "blind_by_class": [15.0, 11.0, 9.0]}
    result = leakage._inversion([14.0, 13.0, 9.0], inverted)
    assert result == (
        "1 of 3 rebuilt images nearer to their originals than the mean image and the mean image of their class"
    )
    older = leakage._inversion([14.0, 13.0, 9.0], {"blind": [10.0, 12.0, 9.0]})
    assert older == "2 of 3 rebuilt images nearer to their originals than the mean image"


def test_mean_images_of_all_and_of_each_class():
    pixels = torch.tensor([0.0, 0.5, 1.0])[:, None, None, None].expand(3, 1, 2, 2)
    x = audited.transforms.normalised(pixels)
    whole = [(x, [0, 1, 1])]
    split = [(x[:2], [0, 1]), (x[2:], [1])]
    for batches in (whole, split):
        shards = [SimpleNamespace(x=images, y=torch.tensor(y)) for images, y in batches]
        test = SimpleNamespace(in_order=lambda shards=shards: shards)
        means = audited._mean_images(test)
        assert sorted(means) == ["0", "1", "all"]
        assert means["all"] == pytest.approx(0.5, abs=1e-6)
        assert means["0"] == pytest.approx(0, abs=1e-6)
        assert means["1"] == pytest.approx(0.75, abs=1e-6)


def test_several_labels_of_an_image_count_as_one_class():
    result = audited.classes_of(np.array([2, 0, 2])).tolist()
    assert result == [1, 0, 1]
    result = audited.classes_of(np.array(rows("0 1; 1 1; 0 1"))).tolist()
    assert result == [0, 1, 0]


def test_batches_of_one_class_are_whole():
    classes = np.repeat([0, 1], [LOCAL_BATCH + 2, 2 * LOCAL_BATCH - 1])
    order = np.random.default_rng(0).permutation(len(classes))
    batches = audited._batches(order, classes)
    result = [set(classes[batch]) for batch in batches]
    assert result == [{0}, {1}]
    for batch in batches:
        assert len(set(batch)) == LOCAL_BATCH
    assert SKETCHED > LOCAL_BATCH


def older_audit():
    interval = {"value": 0.3, "low": 0.2, "high": 0.4}
    row = {"of": "answers", "count": 9, "hospitals": 4, "accuracy": interval, "chance": 0.25}
    return {"membership": [], "hospital": [row], "inversion": None, "shared_tests": False}


def test_an_older_audit_is_printed_without_a_verdict_on_the_case_mix():
    (table,) = leakage.tables(older_audit())
    result = [cell.text for cell in table.rows[0]]
    expected = [*("answers", "4", "9", "30.0 (20.0 to 40.0)", "-", "25.0", "-", "-")]
    assert result == expected
    (sentence,) = leakage.sentences(older_audit())
    assert sentence.endswith("case mix: audit the run again")
    assert "chance" not in sentence


def test_the_table_of_the_probe_has_the_class_alone_and_the_numbers_within_a_class():
    interval = {"value": 0.3, "low": 0.2, "high": 0.4}
    same_class = {"count": 8, "classes": 2, "accuracy": interval, "chance": 1 / 3}
    audit = older_audit()
    audit["hospital"][0] |= {"by_class": interval, "within": same_class}
    (table,) = leakage.tables(audit)
    cells = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert cells["by class alone"].text == cells["within a class"].text == "30.0 (20.0 to 40.0)"
    assert cells["chance"].text == "25.0"
    assert cells["chance within a class"].text == "33.3"


# the formulas of the attacks, by hand


def test_the_distance_of_two_gradients_is_one_minus_their_cosine():
    one_gradient = torch.tensor([3.0, 4.0])
    other_gradient = torch.tensor([10.0, 0.0])
    expected = pytest.approx(1 - 0.6)
    assert inversion._distance(one_gradient, other_gradient).item() == expected
    result = inversion._distance(one_gradient, 7 * one_gradient).item()
    assert result == pytest.approx(0, abs=1e-6)


def test_the_variation_of_an_image_is_the_mean_step_along_both_sides():
    image = torch.tensor([[[[0.0, 1.0], [3.0, 7.0]]]])
    expected = (1 + 4) / 2 + (3 + 6) / 2
    assert inversion._variation(image).item() == expected


def sent_gradient(monkeypatch, privacy, each_loss):
    """The gradient that is sent of a network of one weight vector [2] whose losses have these gradients [B, 2]."""
    net = nn.Module()
    net.weight = nn.Parameter(torch.zeros(4000))
    gradients = torch.zeros(len(each_loss), 4000)
    gradients[:, :2] = torch.tensor(each_loss)
    body = {"privacy": privacy} if privacy else {}
    layout = SimpleNamespace(weights={"weight"})
    manifest = SimpleNamespace(body=body)
    run = SimpleNamespace(manifest=manifest, layout=layout)
    shard = SimpleNamespace(batch=lambda at: SimpleNamespace(x=None))
    monkeypatch.setattr(inversion, "_losses", lambda *_: gradients @ net.weight)
    return inversion.sent(run, net, shard, torch.arange(len(each_loss)), 0)


def test_the_sent_gradient_of_a_private_run_is_cut_and_its_noise_is_in_units_of_the_clip(
    monkeypatch,
):
    losses = [[30.0, 40.0], [0.0, 1.0]]
    plain = sent_gradient(monkeypatch, None, losses)
    result = plain[:3].tolist()
    assert result == [15.0, 20.5, 0.0]
    quiet = {"clip": 5.0, "noise": 0.0}
    of_images = sent_gradient(monkeypatch, {**quiet, "of": "image"}, losses)
    expected = [3.0, 4.0 + 1.0, 0.0]
    assert of_images[:3].tolist() == expected  # the second is shorter than the clip
    whole = sent_gradient(monkeypatch, quiet, losses)
    expected = pytest.approx([5 * 15 / math.hypot(15, 20.5), 5 * 20.5 / math.hypot(15, 20.5)])
    assert whole[:2].tolist() == expected
    each_loss = [[0.3, 0.4]]
    short = sent_gradient(monkeypatch, quiet, each_loss)
    expected = pytest.approx([3.0, 4.0])
    assert short[:2].tolist() == expected  # as long as the clip
    for unit in ("image", "client"):
        privacy = {"clip": 5.0, "noise": 2.0, "of": unit}
        noisy = sent_gradient(monkeypatch, privacy, losses)
        result = noisy[2:].std().item()
        assert result == pytest.approx(10, rel=0.05)


def test_the_confidence_in_a_label_is_the_logit_of_its_probability():
    logits = np.log(np.array(rows("0.5 0.3 0.2; 0.1 0.8 0.1"), np.float32))
    confidence = audited._confidence(logits, np.array([0, 1]))
    expected = pytest.approx([math.log(0.5 / 0.5), math.log(0.8 / 0.2)], abs=1e-6)
    assert confidence == expected
    expected = pytest.approx([math.log(0.2 / 0.8), math.log(0.1 / 0.9)], abs=1e-6)
    result = audited._confidence(logits, np.array([2, 0]))
    assert result == expected


def test_the_advantage_is_at_the_mean_score_of_the_training_images():
    score = np.array([-1.0, -3.0, -2.5, -9.0, -9.0])
    member = np.array([1, 1, 0, 0, 0], bool)
    once = np.ones(5, bool)
    classes = np.zeros(5, int)
    units = np.arange(5)
    images = SimpleNamespace(
        once=once,
        client=np.zeros(5, int),
        member=member,
        classes=classes,
        units=units,
        groups={},
    )
    data = SimpleNamespace(roster=["a"], attributes={})
    manifest = SimpleNamespace(body={})
    run = SimpleNamespace(data=data, manifest=manifest)
    scores = {audited.LOSS: (np.ones(5, bool), score)}
    everyone, client = audited._membership(run, images, scores, 0)
    assert everyone["numbers"] == client["numbers"]
    # the mean of members is -2, above which lies one of two members; that of all is -4.9
    result = everyone["numbers"]["advantage"]["value"]
    assert result == 0.5 - 0.0


def test_the_second_line_of_the_bound_on_true_positives():
    """1 - FPR <= e^epsilon (1 - TPR) + delta."""
    eight = allowed(8, 0)
    expected = pytest.approx(1 - 0.99 / math.exp(8))
    assert eight["tpr 0.01"] == expected
    expected = pytest.approx(1 - 0.999 / math.exp(8))
    assert eight["tpr 0.001"] == expected
    with_delta = allowed(8, 0.05)
    expected = pytest.approx(1 - (1 - 0.05 - 0.01) / math.exp(8))
    assert with_delta["tpr 0.01"] == expected


def test_true_positives_are_at_the_lowest_threshold_with_so_few_false_ones():
    """Two of 200 held-out images are above 5.5 and one above 7.5; the next threshold has three."""
    held_out = np.concatenate([[9.0, 6.0, 2.0], np.full(197, -9.0)])
    members = np.array([8.0, 7.0, 5.0, 4.0, 1.0])
    score = np.concatenate([members, held_out])
    member = np.arange(205) < 5
    rates = roc(score, member, ones(205), None)
    assert rates["tpr 0.01"] == [4 / 5]
    assert "tpr 0.001" not in rates  # 200 held-out images say nothing of one in a thousand


def test_without_a_batch_of_one_class_there_is_no_probe_within_classes():
    nothing = np.zeros(0, np.int64)
    table = np.zeros((0, 2))
    result = within_classes(table, nothing, nothing, nothing, 0)
    assert result is None
