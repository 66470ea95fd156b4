"""Messages as bytes, also those of somebody who means harm."""

import io
import json
import struct

import numpy as np
import pytest
from site_federation import through_bytes

from fedcli.errors import FedcliError
from fedcli.sites.transport import frames
from fedcli.sites.transport.frames import FrameError, decoded, digest, encoded

MESSAGE = (
    {"b": 1, "a": None},
    {"x": np.arange(6, dtype=np.int64).reshape(2, 3), "s": np.float32(2.5) * np.ones(())},
)


def of_bytes(data, largest=None):
    stream = io.BytesIO(data)
    return decoded(lambda buffer: stream.readinto(buffer), largest)


def framed(text, body=b""):
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    return struct.pack(">4sQ", b"FCLI", len(text)) + text + body


def test_what_is_sent_arrives():
    scalars, arrays = through_bytes(MESSAGE)
    assert scalars == MESSAGE[0]
    assert arrays["s"].shape == ()
    assert arrays["s"].dtype == np.float64
    assert np.array_equal(arrays["x"], MESSAGE[1]["x"])
    assert arrays["x"].flags.writeable


def test_an_empty_array_and_one_out_of_order_arrive():
    arrays = {
        "none": np.zeros((0, 3), np.float32),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    }
    _, arrived = through_bytes(({}, arrays))
    assert arrived["none"].shape == (0, 3)
    assert np.array_equal(arrived["turned"], arrays["turned"])


def test_equal_messages_have_equal_digests_and_others_have_not():
    turned = dict(reversed(MESSAGE[0].items())), dict(reversed(MESSAGE[1].items()))
    assert digest(MESSAGE) == digest(turned)
    expected = digest((MESSAGE[0], {**MESSAGE[1], "s": np.ones(())}))
    assert digest(MESSAGE) != expected


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([object()]), np.array([1j])])
def test_only_numbers_are_sent(array):
    with pytest.raises(FrameError, match="no array of type"):
        list(encoded(({}, {"x": array})))


NO_MESSAGES = [
    (b"GET / HTTP/1.1\r\n", "no message of fedcli"),
    (struct.pack(">4sQ", b"FCLI", 2**40), "no message of fedcli"),
    (framed(b"{"), "whose text is no JSON"),
    (framed(b"[" * 100_000), "whose text is no JSON"),
    (framed([]), "arrived damaged"),
    (framed({"scalars": {}}), "arrays is missing"),
    (framed({"scalars": {}, "arrays": [["x", "object", [1]]]}), "an array that cannot be"),
    (framed({"scalars": {}, "arrays": [["x", "float32", [-1]]]}), "too large"),
    (framed({"scalars": {}, "arrays": [["x", "float32", [2**40, 2**40]]]}), "too large"),
    (framed({"scalars": {}, "arrays": [["x", "float32", [1] * 70]]}), "too large"),
    (framed({"scalars": {}, "arrays": [["x", "float32", [0, 2**70]]]}), "too large"),
    (framed({"scalars": {}, "arrays": [["x", "float32"]]}), "an array that cannot be"),
    (framed({"scalars": {}, "arrays": [["x", "float32", ["1"]]]}), "arrays"),
]


@pytest.mark.parametrize(("data", "sentence"), NO_MESSAGES)
def test_what_is_no_message_is_refused_before_anything_is_allocated(data, sentence):
    with pytest.raises(FedcliError, match=sentence):
        of_bytes(data)


def test_the_sum_of_all_arrays_is_bounded(monkeypatch):
    monkeypatch.setattr(frames, "LARGEST", 100)
    listed = [["x", "uint8", [60]], ["y", "uint8", [60]]]
    with pytest.raises(FrameError, match="too large"):
        of_bytes(framed({"scalars": {}, "arrays": listed}, bytes(120)))
    with pytest.raises(FrameError, match="more than"):
        list(encoded(({}, {"x": np.zeros(101, np.uint8)})))


NO_ARRAYS = [
    ({"x": object()}, "no array of type object: 'x'"),
    ({"x": "text"}, "no array of type str"),
    ({"x": 1 + 2j}, "no array of type complex128: 'x'"),
    ({5: np.zeros(1)}, "an array whose name is no text: '5'"),
    ({"x": np.zeros(1), 5: np.zeros(1)}, "an array whose name is no text: '5'"),
]


@pytest.mark.parametrize(("arrays", "sentence"), NO_ARRAYS)
def test_what_is_no_array_is_refused_in_a_sentence(arrays, sentence):
    with pytest.raises(FrameError, match=sentence):
        list(encoded(({}, arrays)))


def test_a_message_may_be_bounded_below_the_largest_of_all():
    data = b"".join(map(bytes, encoded(({}, {"x": np.zeros(10, np.uint8)}))))
    assert of_bytes(data, 10)[1]["x"].shape == (10,)
    with pytest.raises(FrameError, match="too large"):
        of_bytes(data, 9)
