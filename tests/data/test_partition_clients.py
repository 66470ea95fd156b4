"""Partitions whose clients keep patients whole, share images or come from a file."""

import json

import numpy as np
import pytest
from partitions import everyone, names, partition

from fedcli.data import manifest
from fedcli.data.corruption.corrupt import make_corruption
from fedcli.data.corruption.mixture import Who
from fedcli.data.shard import load
from fedcli.errors import FedcliError


def rows_of(arrays, client):
    """Training and validation rows of a client."""
    return np.concatenate([arrays["train"][str(client)], arrays["val"][str(client)]])


@pytest.mark.parametrize(
    "options",
    [
        {"scheme": "iid"},
        {"scheme": "dirichlet", "alpha": 5.0},
        {"scheme": "dirichlet-balanced", "alpha": 0.5, "minimum": 3},
        {"scheme": "shards", "shards": 2},
        {"scheme": "fedmrl"},
    ],
    ids=lambda options: options["scheme"],
)
def test_whole_patients_go_to_one_client_if_asked_for(tmp_path, options, capsys):
    _, body, arrays = partition(tmp_path, clients=4, keep_units=True, val=0.2, **options)
    lesions_of_clients = [set(rows_of(arrays, k) // 3) for k in range(4)]
    assert sum(map(len, lesions_of_clients)) == len(set.union(*lesions_of_clients)) == 27
    assert body["unit_overlap"] == 0
    expected = [k for k in range(80) if k % 4 != 3]
    assert everyone(arrays, "train", "val") == expected
    assert "more than one client" not in capsys.readouterr().err
    if options["scheme"] == "iid":
        result = sorted(map(len, lesions_of_clients))
        assert result == [6, 7, 7, 7]


def test_patients_cannot_be_kept_whole_where_nobody_knows_them(tmp_path):
    with pytest.raises(FedcliError, match="does not say which patient or lesion"):
        folder = tmp_path / "bare"
        partition(folder, units=False, scheme="iid", clients=4, keep_units=True)
    with pytest.raises(
        FedcliError, match="27 training patients cannot be divided among 28 clients"
    ):
        partition(tmp_path, scheme="iid", clients=28, keep_units=True)


def test_four_clients_by_shares_of_two_skin_tones(tmp_path):
    shares = "0.45,0.05;0.30,0.10;0.20,0.15;0.05,0.70"
    _, _body, arrays = partition(tmp_path, scheme="shares", clients=4, by=["sex"], shares=shares)
    for value, (count, column) in enumerate(
        [(37, [0.45, 0.3, 0.2, 0.05]), (18, [0.05, 0.1, 0.15, 0.7])]
    ):
        got = [int((arrays["train"][str(k)] % 2 == value).sum()) for k in range(4)]
        assert sum(got) == count
        assert np.all(np.abs(np.array(got) - count * np.array(column)) <= 3)


# ---- clients that share images


def test_clients_that_share_images_are_told_and_can_be_trained_and_corrupted(tmp_path, capsys):
    path, body, arrays = partition(tmp_path, scheme="fedmrl-authors", clients=3, val=0.2)
    assert "images are in more than one client" in (output := capsys.readouterr().err)
    assert "validate one and train" in output
    rows_of_clients = [rows_of(arrays, k) for k in range(3)]
    assert (
        body["skew"]["images_in_several"]["count"]
        == (np.bincount(np.concatenate(rows_of_clients)) > 1).sum()
        > 0
    )
    who = Who(on=["client-02"])
    corrupted_path = make_corruption(path, "gaussian", manifest.Destination(tmp_path), who, jobs=1)
    clean = load(path)
    noisy = load(corrupted_path)
    for client in ("client-00", "client-01", "client-02"):
        for part in ("train", "val"):
            before = getattr(clean, part)[client]
            after = getattr(noisy, part)[client]
            assert before.ids.tolist() == after.ids.tolist()
            assert before.y.equal(after.y)
            same = before.images[before.rows].equal(after.images[after.rows])
            assert same == (client != "client-02")


def test_a_clean_clients_validation_image_that_a_corrupted_client_holds_too_stays_clean(tmp_path):
    both = [f"i{k}" for k in range(20)]
    (tmp_path / "who.json").write_text(json.dumps({"a": both, "b": both}))
    clients_file = tmp_path / "who.json"
    path, *_ = partition(tmp_path, units=False, scheme="file", clients_file=clients_file, val=0.3)
    who = Who(on=["b"])
    corrupted_path = make_corruption(path, "gaussian", manifest.Destination(tmp_path), who, jobs=1)
    clean = load(path)
    noisy = load(corrupted_path)
    assert set(clean.val["a"].ids) & set(clean.train["b"].ids)
    for part in ("train", "val"):
        before = getattr(clean, part)["a"]
        after = getattr(noisy, part)["a"]
        assert len(before)
        assert before.images[before.rows].equal(after.images[after.rows])


def test_one_clients_corruption_is_the_same_whether_it_shares_images_or_not(tmp_path):
    (tmp_path / "shared.json").write_text(json.dumps({"a": ["i0", "i1", "i2"], "b": ["i2", "i4"]}))
    (tmp_path / "apart.json").write_text(json.dumps({"a": ["i0", "i1"], "b": ["i2", "i4"]}))
    shards = []
    for name in ("shared", "apart"):
        clients_file = tmp_path / f"{name}.json"
        path, *_ = partition(tmp_path, scheme="file", clients_file=clients_file)
        who = Who(on=["b"])
        shards.append(
            load(
                make_corruption(path, "gaussian", manifest.Destination(tmp_path), who, jobs=1)
            ).train["b"]
        )
    images, images_apart = (shard.images[shard.rows] for shard in shards)
    assert images.equal(images_apart)
    assert len(images) == 2


# ---- a file of clients


def test_a_file_of_clients_gives_each_its_images_and_its_own_test_part(tmp_path, capsys):
    (tmp_path / "who.csv").write_text("image,hospital\ni0,b\ni1,a\ni2,b\ni3,b\ni99,a\ni1,b\n")
    clients_file = tmp_path / "who.csv"
    path, body, arrays = partition(tmp_path, scheme="file", clients_file=clients_file)
    assert names(body) == ["a", "b"]
    assert body["not_in_dataset"] == 1
    assert body["dropped"] == 57
    result = [arrays["train"][k].tolist() for k in "01"]
    assert result == [[1], [0, 1, 2]]
    result = [arrays["test"][k].tolist() for k in ("0", "1")]
    assert result == [[], [3]]
    assert len(arrays["test"]["all"]) == 20
    printed = capsys.readouterr().err
    assert "who.csv names 1 image that the dataset does not have: i99" in printed
    assert "1 image is in more than" in printed
    assert "1 image that who.csv gives to clients is a test image here" in printed
    assert "57 training images are left over" in printed
    assert str(tmp_path) not in path.read_text()


def test_clients_whose_images_are_all_absent_are_left_out_with_a_note(tmp_path, capsys):
    (tmp_path / "who.json").write_text(
        json.dumps({"a": ["i0"], "b": ["x1", "x2"], "c": ["i1"], "d": ["x3"]})
    )
    clients_file = tmp_path / "who.json"
    _, body, arrays = partition(tmp_path, scheme="file", clients_file=clients_file)
    assert names(body) == ["a", "c"]
    assert body["not_in_dataset"] == 3
    result = arrays["train"]["1"].tolist()
    assert result == [1]
    assert (
        "2 clients of who.json without an image in the dataset are left out: b"
        in capsys.readouterr().err
    )
    (tmp_path / "who.json").write_text(json.dumps({"b": ["x1"], "d": ["x3"]}))
    with pytest.raises(FedcliError, match="names none of the 80 images"):
        clients_file = tmp_path / "who.json"
        partition(tmp_path, scheme="file", clients_file=clients_file)


def test_another_files_bytes_or_column_are_another_partition(tmp_path):
    who = tmp_path / "who.csv"
    who.write_text("image,client,center\ni0,a,x\ni1,b,x\ni2,b,y\n")
    by_client, by_center = (
        partition(tmp_path, scheme="file", clients_file=who, client_column=c)[0]
        for c in (None, "center")
    )
    who.write_text("image,client,center\ni0,a,x\ni1,b,x\ni2,a,y\n")
    result = len({by_client, by_center, partition(tmp_path, scheme="file", clients_file=who)[0]})
    assert result == 3


def test_fedisms_npy_counts_in_the_training_images_by_class_or_in_an_order_file(tmp_path):
    np.save(
        tmp_path / "d.npy",
        np.array({0: [np.int64(0), np.int64(59)], 1: [np.int64(21)]}, object),
        allow_pickle=True,
    )
    clients_file = tmp_path / "d.npy"
    _, body, arrays = partition(tmp_path, scheme="file", clients_file=clients_file)
    by_class = sorted((k for k in range(80) if k % 4 != 3), key=lambda k: (k % 3, k))
    assert names(body) == ["client-00", "client-01"]
    expected = [
        sorted([by_class[0], by_class[59]]),
        [by_class[21]],
    ]
    result = [arrays["train"][k].tolist() for k in "01"]
    assert result == expected
    (tmp_path / "train.csv").write_text(
        "id,class\n" + "".join(f"i{k},0\n" for k in range(79, -1, -1))
    )
    clients_file = tmp_path / "d.npy"
    order_file = tmp_path / "train.csv"
    _, _, arrays = partition(
        tmp_path, scheme="file", clients_file=clients_file, order_file=order_file
    )
    result = arrays["train"]["0"].tolist()
    assert result == [20]
    result = arrays["test"]["0"].tolist()
    assert result == [79]


def test_a_client_of_test_images_alone_is_refused(tmp_path):
    (tmp_path / "who.json").write_text('{"a": ["i3"], "b": ["i0"]}')
    with pytest.raises(FedcliError, match="client a gets no training images"):
        clients_file = tmp_path / "who.json"
        partition(tmp_path, scheme="file", clients_file=clients_file)
