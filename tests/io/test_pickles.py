"""Pickles of other programs, by their operations."""

import pickle
from pathlib import Path

import pytest

from fedcli.errors import FedcliError
from fedcli.io.pickles import UNTRUSTED, check_operations, damaged

FILE = Path("clients.npy")


def test_a_pickle_of_plain_values_is_no_danger():
    check_operations(FILE, pickle.dumps({"north": [1, 2, 3]}), "a pickle")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        # LONG_BINPUT of a place that four billion values would have to fill
        (b"N" + pickle.LONG_BINPUT + b"\xff\xff\xff\xff.", "counts 4294967295 values in 7 bytes"),
        (pickle.EXT1 + b"\x01.", "with the operation EXT1"),
    ],
)
def test_an_operation_that_reaches_further_is_refused(data, reason):
    with pytest.raises(FedcliError, match=reason) as refused:
        check_operations(FILE, data, "a table")
    assert refused.value.sentence.startswith("clients.npy holds a table ")
    assert refused.value.hint == UNTRUSTED


def test_a_damaged_pickle_is_said_in_one_line_whatever_it_raised():
    error = damaged(FILE, ValueError("odd byte\nin a long story"))
    assert error.sentence == "clients.npy is truncated or damaged: odd byte"
    assert damaged(FILE, EOFError()).sentence == "clients.npy is truncated or damaged: EOFError"
