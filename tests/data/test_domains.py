"""Office-Caltech-10 and FedHEAL's clients: four domains, a portion each."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raw_folders import completed, prepare, refused

from fedcli.data import manifest, sources
from fedcli.data.partition import make_partition, resolve
from fedcli.data.partition.held_out import UNUSED
from fedcli.data.partition.sites import domain_clients
from fedcli.data.pool import TRAIN, read_pool
from fedcli.data.sources import office_caltech
from fedcli.errors import UsageError
from fedcli.io.hdf5 import open_hdf5


def folders(raw: Path, caltech: str = "caltech10") -> Path:
    for k, domain in enumerate(("amazon", caltech, "dslr", "webcam")):
        for c, label in enumerate(("backpack", "mug", "projector")):
            (raw / domain / label).mkdir(parents=True)
            for i in range(10 + 10 * k):
                Image.new("RGB", (12, 9), (c * 80, k * 60, i)).save(
                    raw / domain / label / f"frame_{i:04d}.jpg"
                )
    return raw


def prepared(work: Path, caltech: str = "caltech10") -> Path:
    raw = folders(work / "raw", caltech)
    return prepare("office-caltech", raw=raw, work=work, size=8, jobs=1)


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Path:
    """The dataset, which tests only read."""
    return prepared(tmp_path_factory.mktemp("domains"))


@pytest.mark.parametrize("caltech", ["caltech", "caltech10"])
def test_images_0_to_7_of_every_ten_train(tmp_path, caltech):
    dataset_path = prepared(tmp_path, caltech)
    body = manifest.read(dataset_path).body
    path = dataset_path.parent / "pool.h5"
    pool = read_pool(path)
    expected = {"by": "fedheal", "test": 60, "train": 240}
    assert body["split"] == expected
    assert body["attributes"]["domain"] == ["amazon", "caltech", "dslr", "webcam"]
    amazon_tests = pool.id[(pool.groups["domain"] == 0) & (pool.split == 1)]
    result = amazon_tests.tolist()[:2]
    assert result == ["amazon/backpack/frame_0008", "amazon/backpack/frame_0009"]


def test_what_macos_puts_beside_an_image_is_no_image(tmp_path):
    raw = folders(tmp_path)
    whole = office_caltech.rows(raw, completed(8, "fedheal"))
    (raw / "amazon" / "mug" / "._frame_0000.jpg").write_text("of macOS")
    (raw / "amazon" / ".AppleDouble").mkdir()
    (raw / "amazon" / ".AppleDouble" / "frame_0000.jpg").write_text("of macOS")
    result = office_caltech.rows(raw, completed(8, "fedheal"))
    assert result == whole


def test_a_missing_domain_or_an_unknown_class_is_refused(tmp_path):
    raw = folders(tmp_path / "raw")
    (raw / "dslr" / "teapot").mkdir()
    Image.new("RGB", (9, 9)).save(raw / "dslr" / "teapot" / "a.jpg")
    with refused("teapot is none of the ten classes"):
        prepare("office-caltech", raw=raw, work=tmp_path, jobs=1)
    (raw / "webcam").rename(raw / "phonecam")
    with refused("no folder 'webcam'"):
        prepare("office-caltech", raw=raw, work=tmp_path, jobs=1)


def test_every_client_draws_its_portion_of_one_domain_and_none_twice():
    domains = np.repeat([0, 1, 2, -1], [100, 60, 30, 7])
    y = np.zeros(len(domains), int)
    parts = domain_clients(domains, y, 6, 0.25, np.random.default_rng(0), 3)
    expected = [25, 25, 15, 15, 7, 7]
    assert [len(part) for part in parts] == expected
    expected = [{0}, {0}, {1}, {1}, {2}, {2}]
    result = [set(domains[part]) for part in parts]
    assert result == expected
    result = len(np.unique(np.concatenate(parts)))
    assert result == sum(map(len, parts))


def test_a_client_that_misses_a_class_gets_one_image_of_it():
    y = np.repeat([0, 1, 2], [80, 19, 1])
    for seed in range(20):
        for part in domain_clients(np.zeros(100, int), y, 5, 0.2, np.random.default_rng(seed), 1):
            assert len(part) == 20
            assert set(y[part]) == {0, 1, 2}


def test_a_client_of_three_images_with_one_spare_never_loses_a_class():
    y = np.repeat([0, 1, 2], 20)
    for seed in range(30):
        parts = domain_clients(np.zeros(60, int), y, 20, 0.05, np.random.default_rng(seed), 1)
        for part in parts:
            assert sorted(y[part]) == [0, 1, 2]


@pytest.mark.parametrize("absent", ["caltech", "webcam"])
def test_a_domain_without_training_images_has_no_clients_and_the_others_keep_theirs(
    sample, tmp_path, absent
):
    scheme = resolve("domains", {"by": ["domain"], "clients": 8, "portion": 0.5})
    dataset = manifest.read(sample).body
    domains = dataset["attributes"]["domain"]
    pool = read_pool(sample.parent / "pool.h5")
    is_absent = pool.groups["domain"] == domains.index(absent)
    split = np.where(is_absent & (pool.split == TRAIN), UNUSED, pool.split)
    division = scheme.divide(replace(pool, split=split), dataset, 0, 1)
    present = [domain for domain in domains if domain != absent]
    expected = [f"{domain}-{k}" for domain in present for k in range(2)]
    assert [*division.train] == expected
    for rows in (division.train, division.test):
        for client, indices in rows.items():
            (domain,) = {domains[index] for index in pool.groups["domain"][indices]}
            assert client.startswith(domain)


def test_clients_are_named_after_their_domain_and_share_its_test_images(sample, tmp_path):
    scheme = resolve("domains", {"by": ["domain"], "clients": 8, "portion": 0.5})
    path = make_partition(sample, scheme, manifest.Destination(tmp_path))
    roster = manifest.read(path).body["roster"]
    result = [c["client"] for c in roster[:3]]
    assert result == ["amazon-0", "amazon-1", "caltech-0"]
    expected = [12, 12, 24, 24, 36, 36, 48, 48]
    assert [c["train"] for c in roster] == expected
    with open_hdf5(path.parent / "rows.h5") as file:
        expected = file["test/3"][()].tolist()
        assert file["test/2"][()].tolist() == expected
        assert len(file["test/2"]) == 12


@pytest.mark.parametrize(
    ("change", "word"),
    [({"clients": 7}, "evenly"), ({"portion": 0.6}, "0.6"), ({"by": []}, "--by domain")],
)
def test_shares_that_do_not_fit_are_refused(sample, tmp_path, change, word):
    with pytest.raises(UsageError) as error:
        scheme = resolve("domains", {"by": ["domain"], "clients": 8} | change)
        make_partition(sample, scheme, manifest.Destination(tmp_path))
    assert word in error.value.sentence + error.value.hint


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_the_real_domains_have_fedheals_sizes(tmp_path, monkeypatch):
    raw = Path(os.environ["FEDCLI_REAL_DATA"]) / "office_caltech_10"
    decode = office_caltech.SOURCE.decode
    tenth = iter(range(10_000))

    def some(raw, row, choices):
        return np.zeros((8, 8, 3), np.uint8) if next(tenth) % 10 else decode(raw, row, choices)

    monkeypatch.setitem(
        sources.SOURCES, "office-caltech", replace(office_caltech.SOURCE, decode=some)
    )
    dataset_path = prepare("office-caltech", raw=raw, work=tmp_path, size=8, jobs=1)
    pool = read_pool(dataset_path.parent / "pool.h5")
    train = np.bincount(pool.groups["domain"][pool.split == 0])
    assert train.tolist() == [768, 899, 127, 237]
    result = np.bincount(pool.groups["domain"]).tolist()
    assert result == [958, 1123, 157, 295]
    scheme = resolve("domains", {"by": ["domain"], "clients": 20})
    path = make_partition(dataset_path, scheme, manifest.Destination(tmp_path))
    result = [c["train"] for c in manifest.read(path).body["roster"][::5]]
    assert result == [76, 89, 12, 23]
