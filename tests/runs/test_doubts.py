"""Warnings of options that do nothing, or too much."""

import pytest

from fedcli.methods import resolve
from fedcli.runs.assembly import corrected_twice
from fedcli.stages.options import TrainOptions


@pytest.mark.parametrize(
    ("method", "options", "culprit"),
    [
        ("fedlc", {"sampling": "class"}, "FedLC"),
        ("bsm", {"sampling": "group-class:sex"}, "BSM-FL"),
        ("fedavg", {"sampling": "class", "prior": "logit-adjust"}, "--prior logit-adjust"),
        ("fedavg", {"sampling": "class", "prior": "none"}, ""),
        ("fedlc", {"sampling": "group"}, ""),
        ("fedlc", {}, ""),
    ],
)
def test_classes_that_are_drawn_equally_often_need_no_correction(method, options, culprit):
    options = {"sampling": "shuffle"} | options
    sentence = corrected_twice(TrainOptions(method, **options), resolve(method))
    assert bool(sentence) == bool(culprit)
    assert f"and {culprit} corrects" in sentence or not culprit
