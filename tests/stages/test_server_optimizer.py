"""--server-optimizer is short for an add-on: the same plan, and so the same bytes."""

import pytest

from fedcli.errors import UsageError
from fedcli.stages.options import TrainOptions
from fedcli.stages.train import SERVER_OPTIMIZERS, resolved


@pytest.mark.parametrize(("name", "addon"), SERVER_OPTIMIZERS.items())
def test_the_plan_is_that_of_the_add_on(name, addon):
    lr = {"lr": 0.5}
    result = resolved(TrainOptions("MOON", server_optimizer=name, set=lr))
    expected = resolved(TrainOptions(f"MOON+{addon}", set=lr))
    assert result == expected


def test_of_fedavg_it_is_the_method_itself():
    assert resolved(TrainOptions("fedavg", server_optimizer="yogi")) == resolved(
        TrainOptions("fedyogi")
    )
    assert resolved(TrainOptions("moon")).method == "moon"


@pytest.mark.parametrize("method", ["fedheal", "moon+fedheal", "fedadam", "crt"])
def test_another_server_rule_is_refused(method):
    with pytest.raises(UsageError, match="has its own server rule, so --server-optimizer"):
        resolved(TrainOptions(method, server_optimizer="adam"))
