import json
import pickle
import pickletools
from pathlib import Path

import numpy as np
import pytest
from partitions import fedism
from raw_folders import write_csv

from fedcli.data.partition import clients_file
from fedcli.errors import FedcliError

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "fedism_partitions.json").read_text()
)["partitions"]
IDS = ["a/one.jpg", "a/two.jpg", "b/three.png", "b/four.png", "c/five.png"]
TRAINING = np.array([0, 2, 4, 1])  # one test image; the others by class


def read(path, **options):
    return as_lists(*clients_file.read(path, IDS, TRAINING, **options))


def as_lists(rows_of, unknown):
    return {name: rows.tolist() for name, rows in rows_of.items()}, unknown


def save(path: Path, value) -> Path:
    np.save(path, np.array(value, dtype=object), allow_pickle=True)
    return path


def refused(path, *words, **options) -> FedcliError:
    with pytest.raises(FedcliError) as error:
        read(path, **options)
    assert error.value.code == 1
    assert error.value.hint
    assert "\n" not in error.value.sentence
    for word in words:
        assert word in error.value.sentence + " " + error.value.hint, error.value.sentence
    return error.value


# tables and JSON


def test_a_csv_names_images_by_id_file_or_stem_and_clients_by_any_text(tmp_path):
    rows = [
        ["Nord, Süd", "a/one.jpg"],
        ["x", "/data/two.jpg"],
        ["Nord, Süd", "three"],
        ["x", "three"],
        ["", "five"],
    ]
    path = tmp_path / "c.csv"
    write_csv(path, ["Client", "file"], rows)
    expected = ({"Nord, Süd": [0, 2], "x": [1, 2]}, [])
    assert read(tmp_path / "c.csv") == expected


def test_a_center_column_is_found_or_chosen_and_numbers_go_by_size(tmp_path):
    rows = [["one", 10, "p"], ["two", 9, "p"], ["three", 9, "q"], ["zero", 9, "q"]]
    path = tmp_path / "c.csv"
    head = ["image", "center", "fold"]
    write_csv(path, head, rows)
    expected = ({"9": [1, 2], "10": [0]}, ["zero"])
    assert read(tmp_path / "c.csv") == expected
    path = tmp_path / "c.csv"
    result = list(read(path, column="fold")[0])
    assert result == ["p", "q"]
    path = tmp_path / "c.csv"
    refused(path, "no column 'centre'", "'center'", column="centre")


def test_numbers_of_clients_that_are_names_of_images_too_are_no_images(tmp_path):
    rows = [[str(k % 2), f"{k}.png"] for k in range(4)]
    path = tmp_path / "c.csv"
    write_csv(path, ["hospital", "image"], rows)
    read_back = clients_file.read(tmp_path / "c.csv", [f"{k}" for k in range(4)], np.arange(4))
    expected = ({"0": [0, 2], "1": [1, 3]}, [])
    assert as_lists(*read_back) == expected


def test_semicolons_and_a_byte_order_mark_are_no_trouble(tmp_path):
    (tmp_path / "c.csv").write_text("\ufeffimage;client\none;a\ntwo;b\n", encoding="utf-8")
    expected = {"a": [0], "b": [1]}
    path = tmp_path / "c.csv"
    assert read(path)[0] == expected


def test_json_keeps_its_clients_order_and_an_image_twice_counts_once(tmp_path):
    (tmp_path / "c.json").write_text('{"z": ["one", "a/one.jpg", "two"], "b": ["one"]}')
    path = tmp_path / "c.json"
    contents, _ = read(path)
    assert list(contents) == ["z", "b"]
    expected = {"z": [0, 1], "b": [0]}
    assert contents == expected


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("c.csv", "image,client\n", ["has a header and no rows"]),
        ("c.csv", "image,client\none,a,b\n", ["3 cells, not 2"]),
        ("c.csv", "image,who\none,a\n", ["no column of clients", "--client-column", "image, who"]),
        ("c.csv", "image,client\nsix,a\n", ["names none of the 5 images", "six"]),
        ("c.csv", "image,client\none,\n", ["names no client"]),
        ("c.json", "{", ["not a readable JSON file"]),
        ("c.json", "[" * 100_000, ["not a readable JSON file"]),
        ("c.json", "[1]", ["no object of clients"]),
        ("c.json", '{"a": {"one": 1}}', ["client a holds no list"]),
        ("c.json", '{"a": [1.5]}', ["client a holds no list"]),
        ("c.json", '{"a": ["one"], " a": ["two"]}', ["'a' twice"]),
        ("c.json", '{"a": ["six"]}', ["names none of the 5 images"]),
        ("c.txt", "", ["no file of clients that is known", ".npy"]),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_a_sentence(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    refused(tmp_path / name, *words)


def test_a_client_none_of_whose_images_are_there_has_no_rows(tmp_path):
    (tmp_path / "c.json").write_text('{"a": ["six"], "b": ["one", "seven"], "c": []}')
    expected = ({"a": [], "b": [0], "c": []}, ["six", "seven"])
    assert read(tmp_path / "c.json") == expected
    path = save(tmp_path / "c.npy", {0: [], 1: []})
    refused(path, "names clients, but no image")


def test_a_name_that_two_images_have_is_refused(tmp_path):
    (tmp_path / "c.json").write_text('{"a": ["one"]}')
    with pytest.raises(FedcliError, match=r"one may be x/one.jpg or y/one.jpg"):
        clients_file.read(tmp_path / "c.json", ["x/one.jpg", "y/one.jpg"], np.arange(2))


# the authors' pickles


@pytest.mark.parametrize("name", ["rsna-ich-4", "rsna-ich-6"])
def test_the_fedism_authors_file_gives_their_twenty_clients(name, tmp_path):
    v = VECTORS[name]
    y = np.repeat(np.arange(5), v["class_counts"])
    parts = fedism(y, 20, v["corrupted"], 1.0)
    path = save(tmp_path / "dict_users.npy", {k: list(part) for k, part in enumerate(parts)})
    rows = np.random.default_rng(0).permutation(
        len(y)
    )  # where the pool keeps the images of train.csv
    rows_of, _ = clients_file.read(path, [f"ID_{row}" for row in range(len(y))], rows)
    assert list(rows_of)[-1] == "client-19"
    result = [len(part) for part in rows_of.values()]
    assert result == v["sizes"]
    pairs = zip(rows_of.values(), parts, strict=True)
    for rows_, part in pairs:
        assert np.array_equal(rows_, np.sort(rows[part]))


def test_an_order_file_says_which_images_the_positions_mean(tmp_path):
    path = save(tmp_path / "c.npy", {0: [np.int64(0), np.int64(2)], 1: [np.int64(1)]})
    rows = [["five", 0], ["one", 1], ["six", 1]]
    write_csv(tmp_path / "train.csv", ["id", "class"], rows)
    expected = (
        {"client-00": [4], "client-01": [0]},
        ["six"],
    )
    order = tmp_path / "train.csv"
    assert read(path, order=order) == expected
    expected = ({"client-00": [0, 4], "client-01": [2]}, [])
    assert read(path) == expected


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_lists_arrays_and_plain_integers_are_read_in_the_protocols_numpy_saves_in(
    tmp_path, protocol
):
    value = {
        0: [0, np.int32(3)],
        np.int64(1): np.array([1, 2], np.uint16),
        "x": np.array([2], ">i8"),
        "y": [np.uint8(1)],
    }
    save(tmp_path / "c.npy", 0)
    head = (tmp_path / "c.npy").read_bytes().partition(b"\n")[0] + b"\n"
    dumped = pickle.dumps(np.array(value, dtype=object), protocol)
    if protocol == 2:  # bytes are spelt by a call of codecs.encode there
        (tmp_path / "c.npy").write_bytes(head + dumped)
        refused(tmp_path / "c.npy", "_codecs.encode")
        return
    (tmp_path / "c.npy").write_bytes(head + dumped)
    expected = {
        "client-00": [0, 1],
        "client-01": [2, 4],
        "x": [4],
        "y": [2],
    }
    path = tmp_path / "c.npy"
    assert read(path)[0] == expected


class Evil:
    def __init__(self, does):
        self.does = does

    def __reduce__(self):
        return self.does


@pytest.mark.parametrize(
    ("does", "called"),
    [
        (lambda mark: (__import__("os").system, (f"touch {mark}",)), "posix.system"),
        (lambda mark: (eval, (f"open({str(mark)!r}, 'w')",)), "builtins.eval"),
        (lambda mark: (open, (str(mark), "w")), ".open"),
        (lambda mark: (np.fromfile, (str(mark),)), "numpy.fromfile"),
        (lambda mark: (getattr, ([], "append")), "builtins.getattr"),
        (lambda mark: (np.dtype, ("f8",)), "no list of row numbers"),
    ],
)
def test_a_pickle_that_calls_anything_is_refused_by_name_and_not_run(tmp_path, does, called):
    mark = tmp_path / "was-run"
    path = save(tmp_path / "c.npy", {0: Evil(does(mark))})
    refused(path, called)
    assert not mark.exists()


def test_a_pickle_cannot_change_what_reads_it(tmp_path):
    save(tmp_path / "c.npy", 0)
    head = (tmp_path / "c.npy").read_bytes().partition(b"\n")[0] + b"\n"
    for target in (b"cnumpy.core.multiarray\nscalar\n", b"cnumpy\ndtype\n"):
        body = (
            b"\x80\x03" + target + b"(N}X\x04\x00\x00\x00doesX\x01\x00\x00\x00xstb."
        )  # BUILD with (None, {"does": "x"})
        result = [code.name for code, *_ in pickletools.genops(body)][-2:]
        assert result == ["BUILD", "STOP"]
        (tmp_path / "c.npy").write_bytes(head + body)
        refused(tmp_path / "c.npy", "truncated or damaged")
    path = tmp_path / "c.npy"
    save(path, {0: [0], 1: np.array([1])})
    expected = {"client-00": [0], "client-01": [2]}
    path = tmp_path / "c.npy"
    assert read(path)[0] == expected


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\x80\x02K\x01r\xff\xff\xff\x7f.", ["counts 2147483647 values"]),
        (b"(ios\nsystem\n.", ["calls os.system"]),
        (b"\x80\x02\x82\x01.", ["operation EXT1"]),
        (b"\x80\x02cos\nsystem\n.", ["calls os.system"]),
        (b"\x80\x02]K\x01a.", ["holds no dict but a list"]),
        (b"\x80\x02}K\x00}s.", ["client 0 holds no list"]),
        (b"\x80\x02}K\x00]\x88as.", ["client 0 holds no list"]),
        (
            b"\x80\x02}K\x00]\x8b\x10\x00\x00\x00" + b"\x7f" * 16 + b"as.",
            ["client 0 holds no list"],
        ),
        (b"\x80\x02}N]s.", ["neither a number nor a name"]),
        (b"", ["truncated or damaged"]),
    ],
)
def test_odd_pickles_are_refused_in_a_sentence(tmp_path, body, words):
    save(tmp_path / "c.npy", 0)
    (tmp_path / "c.npy").write_bytes(
        (tmp_path / "c.npy").read_bytes().partition(b"\n")[0] + b"\n" + body
    )
    refused(tmp_path / "c.npy", *words)


def test_a_file_that_is_cut_off_anywhere_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "c.npy"
    whole = save(path, {0: [np.int64(0)], 1: np.array([1, 2])}).read_bytes()
    for length in range(0, len(whole) - 1, 7):
        (tmp_path / "c.npy").write_bytes(whole[:length])
        refused(tmp_path / "c.npy")


def test_no_changed_byte_of_a_file_does_more_than_be_refused(tmp_path):
    path = tmp_path / "c.npy"
    whole = bytearray(save(path, {0: [np.int64(0)], 1: np.array([1, 2])}).read_bytes())
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(whole), 300):
        changed = whole.copy()
        changed[position] = rng.integers(256)
        (tmp_path / "c.npy").write_bytes(changed)
        try:
            read(tmp_path / "c.npy")
        except FedcliError as error:
            sentence = error.sentence
        else:
            sentence = ""
        assert "\n" not in sentence


@pytest.mark.parametrize(("row", "count"), [(4, 4), (-1, 4)])
def test_rows_that_train_csv_does_not_have_are_refused(tmp_path, row, count):
    path = save(tmp_path / "c.npy", {0: [0], 7: [np.int64(row)]})
    refused(
        path,
        f"client client-07 holds row {row}",
        f"there are {count} training images",
        "--order-file",
    )
    rows = [["one", 0], ["two", 0], ["five", 1], ["four", 1]]
    write_csv(tmp_path / "t.csv", ["id", "class"], rows)
    order = tmp_path / "t.csv"
    refused(path, f"holds row {row}, but t.csv has 4 rows", order=order)


def test_arrays_that_are_no_dict_are_refused(tmp_path):
    np.save(tmp_path / "c.npy", np.arange(3))
    refused(tmp_path / "c.npy", "array of int64 [3], not one dict")
    np.save(tmp_path / "c.npy", np.array([{}, {}], object), allow_pickle=True)
    refused(tmp_path / "c.npy", "array of object [2], not one dict")
    (tmp_path / "c.npy").write_bytes(b"no numpy")
    refused(tmp_path / "c.npy", "not a readable .npy file")
