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


def same(message, other):
    assert message[0] == other[0]
    assert message[1].keys() == other[1].keys()
    for name, array in message[1].items():
        result = (other[1][name].dtype, other[1][name].shape)
        assert result == (array.dtype, array.shape)
        assert other[1][name].tobytes() == array.tobytes()


def read_only(message):
    """Arrays as some engines return them."""
    scalars, arrays = message
    arrays = {name: array.copy() for name, array in arrays.items()}
    for array in arrays.values():
        array.setflags(write=False)
    return scalars, arrays
