import h5py
import numpy as np
import pytest
import torch
from conftest import make_chain
from raw_folders import write_pool
from torch.testing import assert_close

from fedcli.data import manifest, transforms
from fedcli.data import shard as load
from fedcli.data.pool import BlankPool, Row, contents, copy_pool, pool_of, read_pool
from fedcli.errors import FedcliError, UsageError


def pool(path, n=6):
    rows = [Row(f"ä{i}", i % 2, None, i >= 4, {"sex": i % 3 - 1}, f"p{i}") for i in range(n)]
    images = (np.full((4, 5, 3), i, np.uint8) for i in range(n))
    write_pool(path, rows, images, ["sex"])
    return read_pool(path)


def test_a_pool_gives_back_what_was_written(tmp_path):
    written = pool(tmp_path / "pool.h5")
    assert written.shape == (6, 4, 5, 3)
    assert written.id.tolist()[0] == "ä0"
    expected = [0, 0, 0, 0, 1, 1]
    assert written.split.tolist() == expected
    expected = [-1, 0, 1, -1, 0, 1]
    assert written.groups["sex"].tolist() == expected
    assert written.patient.tolist()[5] == "p5"


def test_images_that_follow_one_another_are_written_at_once_and_in_any_order(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 5, 3), np.uint8)
    blank = BlankPool.make(tmp_path / "pool.h5", images.shape)
    blank.put(3, images[3:])
    blank.put(0, images[:3][:, :, ::-1][:, :, ::-1])  # not contiguous
    blank.finish([Row(f"i{k}", 0, None) for k in (0, 2, 4)], [0, 2, 4], [])
    path = tmp_path / "pool.h5"
    result = read_pool(path).pixels()
    expected = images[[0, 2, 4]]
    assert np.array_equal(result, expected)
    with pytest.raises(ValueError, match=r"expected uint8 \[n, \(4, 5, 3\)\]"):
        blank.put(0, images[0])


def test_rows_may_be_asked_for_in_any_order_and_twice(tmp_path):
    written = pool(tmp_path / "pool.h5")
    result = written.pixels(np.array([5, 0, 5, 3]))[:, 0, 0, 0].tolist()
    assert result == [5, 0, 5, 3]
    result = written.pixels(np.array([], int)).shape
    assert result == (0, 4, 5, 3)


def test_the_same_pool_has_the_same_bytes(tmp_path):
    path = tmp_path / "a.h5"
    pool(path), pool(tmp_path / "b.h5")
    expected = (tmp_path / "b.h5").read_bytes()
    assert (tmp_path / "a.h5").read_bytes() == expected


def test_some_rows_can_become_a_pool_of_their_own(tmp_path):
    written = pool(tmp_path / "pool.h5")
    rows = np.array([1, 4])
    path = tmp_path / "site.h5"
    pixels = written.pixels(rows)
    copy_pool(written, rows, path, pixels)
    site = read_pool(tmp_path / "site.h5")
    assert site.id.tolist() == ["ä1", "ä4"]
    result = site.pixels()[:, 0, 0, 0].tolist()
    assert result == [1, 4]


def test_a_truncated_pool_is_refused(tmp_path):
    pool(tmp_path / "pool.h5")
    raw = (tmp_path / "pool.h5").read_bytes()
    (tmp_path / "pool.h5").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(FedcliError, match="not a readable HDF5"):
        read_pool(tmp_path / "pool.h5")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("y", np.zeros(5)),
        ("group/sex", np.zeros(7)),
        ("x", np.zeros((6, 4), np.uint8)),
        ("x", np.zeros((6, 4, 5, 3))),
    ],
)
def test_a_pool_of_other_shapes_is_refused(tmp_path, name, value):
    pool(tmp_path / "pool.h5")
    with h5py.File(tmp_path / "pool.h5", "a") as file:
        del file[name]
        file[name] = value
    with pytest.raises(FedcliError, match=name.removeprefix("group/")):
        read_pool(tmp_path / "pool.h5")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("y", 99, "y holds 0 to 99, where dataset.json has 0 to 1"),
        ("y", -3, "y holds -3 to 1"),
        ("split", 7, "split holds 0 to 7"),
        ("group/sex", 2, "group/sex holds -1 to 2"),
        ("id", "ä1".encode(), "two images have the same id"),
    ],
)
def test_a_pool_that_its_manifest_does_not_describe_is_refused(tmp_path, name, value, why):
    pool(tmp_path / "pool.h5")
    body = {
        "classes": ["a", "b"],
        "attributes": {"sex": ["f", "m"]},
        "size": [4, 5],
        "channels": 3,
        "augment": "none",
    }
    body |= {"name": "mine", "unit": None, "sites": None}
    record = manifest.Manifest("dataset", ["prepare"], {}, {}, {"pool.h5": "0"}, body)
    (tmp_path / "dataset.json").write_text(record.text, encoding="utf-8")
    dataset = tmp_path / "dataset.json"
    result = pool_of(dataset).shape
    assert result == (6, 4, 5, 3)
    with h5py.File(tmp_path / "pool.h5", "a") as file:
        file[name][0] = value
    with pytest.raises(FedcliError, match=why):
        pool_of(tmp_path / "dataset.json")


def test_contents_names_every_dataset(tmp_path):
    pool(tmp_path / "pool.h5")
    result = contents(tmp_path / "pool.h5")["datasets"]["x"]
    assert result == "uint8 [6, 4, 5, 3]"


def test_a_corruption_changes_its_clients_and_a_copy_of_the_test_set(tmp_path):
    clean = load.load(make_chain(tmp_path))
    noisy = load.load(make_chain(tmp_path, corrupted=True))
    same = {c: torch.equal(_pixels(clean.train[c]), _pixels(noisy.train[c])) for c in clean.roster}
    expected = {"north": True, "south": True, "east": True, "west": False}
    assert same == expected
    expected = _pixels(noisy.test["clean"])
    shard = clean.test["clean"]
    assert torch.equal(_pixels(shard), expected)
    other = _pixels(noisy.test["corrupted"])
    shard = noisy.test["clean"]
    assert not torch.equal(_pixels(shard), other)
    expected = noisy.test["clean"].ids.tolist()
    assert noisy.test["corrupted"].ids.tolist() == expected


def _pixels(shard):
    return torch.cat([batch.x for batch in shard.in_order(7)])


def test_an_epoch_has_every_image_once_and_keeps_the_last_batch(tmp_path):
    shard = load.load(make_chain(tmp_path)).train["north"]
    batches = list(shard.epoch(8, shuffle=1, augment=1))
    result = [len(b.y) for b in batches]
    assert result == [8, 8, 4]
    places = torch.cat([b.at for b in batches])
    result = places.sort().values.tolist()
    assert result == list(range(20))
    assert places.tolist() != list(range(20))


def test_normalisation_is_mean_and_deviation_of_the_unit_range():
    x = torch.tensor([0, 128, 255], dtype=torch.uint8).reshape(1, 1, 1, 3)
    grey = transforms.to_input(x, channels=1)
    assert_close(grey, (x / 255 - 0.449) / 0.226)
    rgb = transforms.to_input(x, channels=3)
    expected = (x[0, 0] / 255 - 0.406) / 0.225
    assert_close(rgb[0, 2], expected)


@pytest.mark.parametrize("kind", transforms.AUGMENTS)
def test_augmentations_keep_shape_and_range_and_are_seeded(kind):
    x = torch.arange(3 * 2 * 12 * 10).remainder(251).to(torch.uint8).reshape(3, 2, 12, 10)
    out = [
        transforms.to_unit(transforms.augment(x, kind, transforms.draw(3, seed, x.device)))
        for seed in (1, 1, 2)
    ]
    assert out[0].shape == x.shape
    assert 0 <= out[0].min()
    assert out[0].max() <= 1
    assert torch.equal(out[0], out[1])
    assert kind == "none" or not torch.equal(out[0], out[2])


def test_a_flip_mirrors_and_a_still_affine_changes_nothing():
    x = torch.arange(16, dtype=torch.uint8).reshape(1, 1, 4, 4)
    always = torch.tensor([[0.5, 0.5, 0.5, 0.0]])
    never = torch.tensor([[0.5, 0.5, 0.5, 0.9]])
    assert torch.equal(transforms.augment(x, "flip", always), x.flip(3))
    assert torch.equal(transforms.augment(x, "affine-flip", never), x / 255)
    expected = x.flip(3) / 255
    assert_close(transforms.augment(x, "affine-flip", always), expected)


def test_an_affine_turn_is_a_rotation_also_on_images_that_are_not_square():
    """A dot right of the centre, turned by 10 degrees, stays at its distance in pixels."""
    x = torch.zeros(1, 1, 61, 121, dtype=torch.uint8)
    x[0, 0, 30, 60 + 25] = 255
    chance = torch.tensor([[1.0, 0.5, 0.5, 0.9]])
    turned = transforms.augment(x, "affine-flip", chance)[0, 0].nonzero()[0].float()
    offset = turned - torch.tensor([30.0, 60.0])
    assert abs(offset.norm().item() - 25) < 1
    expected = pytest.approx(25 * 0.1736, abs=0.8)
    assert abs(offset[0].item()) == expected


def test_an_unknown_augmentation_is_refused():
    with pytest.raises(UsageError, match="affine-flop"):
        transforms.check_augment("affine-flop")
