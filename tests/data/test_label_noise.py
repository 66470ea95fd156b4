"""Wrong labels at some clients: which images, which labels, and what nobody touches."""

import numpy as np
import pytest
from conftest import ROSTER, make_chain

import fedcli
from fedcli.data import manifest, shard
from fedcli.data.corruption.label_noise import flipped
from fedcli.errors import FedcliError, UsageError

IDS = [f"img-{k}" for k in range(3000)]


def flips(kind, rate, to=(1, 2, 0), seed=0, client="north"):
    y = np.arange(3000) % 3
    return y, flipped(y, IDS, (kind, rate), to, seed, client)


def test_symmetric_noise_changes_the_share_that_was_asked_for_to_every_other_class():
    y, noisy = flips("symmetric", 0.3)
    expected = pytest.approx(0.3, abs=0.03)
    assert (noisy != y).mean() == expected  # 3.6 standard deviations of 3,000 draws
    by_step = np.bincount((noisy - y) % 3, minlength=3)
    expected = pytest.approx(by_step[2], rel=0.2)
    assert by_step[1] == expected


def test_pair_noise_goes_to_the_next_class_and_asymmetric_noise_where_it_was_told():
    y, noisy = flips("pair", 0.5)
    result = set(((noisy - y) % 3).tolist())
    assert result == {0, 1}
    y, noisy = flips("asymmetric", 1.0, to=(-1, 0, -1))
    assert (noisy == np.array([0, 0, 2])[y]).all()


def test_nothing_and_everything():
    y, noisy = flips("symmetric", 0.0)
    assert (noisy == y).all()
    y, noisy = flips("symmetric", 1.0)
    assert (noisy != y).all()


def test_an_image_has_its_own_draw_by_seed_and_client():
    y, noisy = flips("symmetric", 0.3)
    order = np.random.default_rng(1).permutation(3000)
    ids = [IDS[k] for k in order]
    again = flipped(y[order], ids, ("symmetric", 0.3), (1, 2, 0), 0, "north")
    assert (again == noisy[order]).all()
    assert (flips("symmetric", 0.3, seed=1)[1] != noisy).any()
    assert (flips("symmetric", 0.3, client="south")[1] != noisy).any()


@pytest.fixture(scope="module")
def noisy(work, source):
    return fedcli.corrupt(source, "labels", change="pair", rate=0.5, on=[ROSTER[0]], work=work)


def test_only_training_labels_of_the_clients_that_were_chosen_are_changed(source, noisy):
    before = shard.load(source)
    after = shard.load(noisy.path)
    for client in ROSTER:
        changed = (before.train[client].y != after.train[client].y).sum().item()
        entry = noisy.body["label_noise"].get(client)
        assert (changed > 0) == (client == ROSTER[0])
        assert entry is None or entry["changed"] == changed
        expected = after.train[client].rows.tolist()
        assert before.train[client].rows.tolist() == expected
        expected = after.val[client].y.tolist()
        assert before.val[client].y.tolist() == expected
    expected = after.test["clean"].y.tolist()
    assert before.test["clean"].y.tolist() == expected
    counts = after.train[ROSTER[0]].y.bincount(minlength=3).tolist()
    result = noisy.body["roster"][0]["class_counts"]
    assert result == counts


def test_it_is_a_partition_that_images_are_corrupted_on_and_methods_train_on(noisy, source, work):
    again = fedcli.corrupt(source, "labels", change="pair", rate=0.5, on=[ROSTER[0]], work=work)
    assert noisy.kind == "partition"
    assert noisy == again
    images = fedcli.corrupt(noisy, "gaussian", ratio=0.25, work=work, jobs=1)
    assert images.body["label_noise"] == noisy.body["label_noise"]
    loaded = shard.load(images.path)
    expected = shard.load(noisy.path).train[ROSTER[0]].y.tolist()
    result = loaded.train[ROSTER[0]].y.tolist()
    assert result == expected
    run = fedcli.train("fedavg", images, rounds=1, work=work)
    scores = fedcli.evaluate(run).body
    expected = {ROSTER[0]: ["pair", 0.5]}
    result = scores["data"]["partition"]["options"]["label_noise"]["each"]
    assert result == expected


def test_clients_may_have_different_noise(source, work):
    client = [f"{ROSTER[1]}=symmetric:0.5", f"{ROSTER[2]}=asymmetric"]
    noisy = fedcli.corrupt(
        source,
        "labels",
        client=client,
        flip={"a": "b"},
        work=work,
    )
    noise = noisy.body["label_noise"]
    result = {name: (entry["kind"], entry["rate"]) for name, entry in noise.items()}
    expected = {
        ROSTER[1]: ("symmetric", 0.5),
        ROSTER[2]: ("asymmetric", 0.2),
    }
    assert result == expected


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"change": "random"}, "unknown label noise 'random'"),
        ({"rate": 1.5}, "rate=1.5 is out of range"),
        ({"change": "asymmetric"}, "needs the classes it changes"),
        ({"change": "asymmetric", "flip": {"a": "z"}}, "--flip names 'z', which is no class"),
        ({"severity": 4}, "--severity is for images"),
        ({"client": ["nowhere=symmetric:0.1"]}, "no client 'nowhere'"),
        ({"on": ["nowhere"]}, "no client 'nowhere'"),
    ],
)
def test_mistakes_are_explained(source, work, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        fedcli.corrupt(source, "labels", work=work, **options)


@pytest.mark.parametrize(
    "line", [("labels", {"ratio": 0.5}), ("attributes", {"hide": ["sex"], "share": 0.5})]
)
def test_the_same_line_without_a_path_makes_the_same_again(tmp_path, line):
    make_chain(tmp_path)
    word, options = line
    paths = [fedcli.corrupt(kind=word, work=tmp_path, **options).path for _ in range(2)]
    assert paths[0] == paths[1]
    result = len(list((tmp_path / "partitions").iterdir()))
    assert result == 2


def test_what_it_is_not_for_is_refused(noisy, source, work):
    with pytest.raises(FedcliError, match="has noisy labels already"):
        fedcli.corrupt(noisy, "labels", work=work)
    images = fedcli.corrupt(source, "gaussian", ratio=0.25, work=work, jobs=1)
    with pytest.raises(FedcliError, match="labels are changed before images are"):
        fedcli.corrupt(images, "labels", work=work)
    with pytest.raises(UsageError, match="--rate is for labels"):
        fedcli.corrupt(source, "gaussian", rate=0.3, work=work)


def test_labels_that_do_not_fit_the_images_are_refused(noisy):
    images_of_clients = {client: len(part) for client, part in shard.load(noisy.path).train.items()}
    result = set(shard.read_labels(noisy.path, noisy.body, images_of_clients))
    assert result == {ROSTER[0]}
    with pytest.raises(FedcliError, match="is not the labels of that client's images"):
        shard.read_labels(noisy.path, noisy.body, {**images_of_clients, ROSTER[0]: 3})


def test_the_manifest_holds_the_labels_file(noisy):
    result = set(manifest.verify(noisy.path).files)
    assert result == {"rows.h5", shard.LABELS}


def test_it_says_how_many_of_a_clients_labels_are_changed_and_names_classes_of_the_dataset(
    source, tmp_path, capsys
):
    noisy = fedcli.corrupt(
        source, "labels", change="symmetric", rate=1.0, on=[ROSTER[0]], work=tmp_path
    )
    n = len(shard.load(noisy.path).train[ROSTER[0]])
    result = f"training labels changed: {ROSTER[0]} {n} of {n};"
    assert result in " ".join(capsys.readouterr().err.split())
    with pytest.raises(UsageError, match="needs the classes") as refused:
        fedcli.corrupt(source, "labels", change="asymmetric", work=tmp_path)
    assert refused.value.hint == "for example --flip a=b"
