"""Tasks and reports as messages: what every engine carries. methods/test_every_method.py trains with them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from wire_messages import read_only

from fedcli.federation.client import ClientReport, ClientTask
from fedcli.federation.engines.wire import MessageError, pack, to_arrays, unpack

TASK = ClientTask(
    "north",
    0,
    1,
    3,
    7,
    torch.zeros(4),
    {"a": torch.tensor(2.0), "b/c": torch.arange(3)},
    {"mine": torch.ones(1)},
)
REPORT = ClientReport(
    "north",
    0,
    9,
    2,
    torch.tensor(0.5),
    torch.ones(4),
    {"e": torch.tensor(1)},
    {"mine": torch.ones(1)},
)


def test_memory_is_left_out_and_scalars_stay_scalars():
    scalars, arrays = pack(TASK)
    expected = {
        "client": "north",
        "row": 0,
        "round": 1,
        "rounds": 3,
        "seed": 7,
        "part": "whole",
    }
    assert scalars == expected
    assert set(arrays) == {"theta", "shared/a", "shared/b/c"}
    assert arrays["shared/a"].shape == ()
    again = unpack(ClientTask, (scalars, arrays))
    assert again.memory == {}
    assert again.shared["b/c"].dtype == torch.int64
    assert again.shared["a"].ndim == 0


def test_what_arrives_may_be_written_to():
    report = unpack(ClientReport, read_only(pack(REPORT)))
    report.theta.add_(1)
    assert report.theta.tolist() == [2] * 4
    assert REPORT.theta.tolist() == [1] * 4


def test_an_array_is_in_the_order_of_its_shape():
    assert to_arrays({"x": torch.arange(6).view(2, 3).t()})["x"].flags["C_CONTIGUOUS"]


@pytest.mark.parametrize("change", [{"round": "1"}, {"row": True}, {"client": 3}])
def test_a_scalar_of_another_type_is_refused(change):
    scalars, arrays = pack(TASK)
    with pytest.raises(MessageError, match=f"the {next(iter(change))} of a task"):
        unpack(ClientTask, ({**scalars, **change}, arrays))


def test_what_is_missing_is_refused():
    scalars, arrays = pack(replace(REPORT, columns={}))
    with pytest.raises(MessageError, match="without its array 'theta'"):
        unpack(ClientReport, (scalars, {"loss": np.zeros(())}))
    with pytest.raises(
        MessageError, match="the n of a report is a whole number; one arrived without"
    ):
        unpack(ClientReport, ({k: v for k, v in scalars.items() if k != "n"}, arrays))
