"""A message of everything that a transport has to carry, and what it means that two are the same."""

import numpy as np

MESSAGE = (
    {"ask": "train", "nested": {"a": [1, None, 0.1]}},
    {
        "theta": np.arange(3, dtype=np.float32),
        "loss": np.array(0.5),
        "columns/n": np.array(2),
        "none": np.zeros((0, 2)),
    },
)


def same(first, second):
    assert first[0] == second[0]
    assert first[1].keys() == second[1].keys()
    for name, array in first[1].items():
        result = (second[1][name].dtype, second[1][name].shape)
        assert result == (array.dtype, array.shape)
        assert second[1][name].tobytes() == array.tobytes()


def read_only(message):
    """As some engines hand out arrays."""
    scalars, arrays = message
    arrays = {name: array.copy() for name, array in arrays.items()}
    for array in arrays.values():
        array.setflags(write=False)
    return scalars, arrays
