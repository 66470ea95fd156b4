import json
import sys
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from raw_folders import completed, refused
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import sources
from fedcli.data.pool import Row
from fedcli.data.preparation.request import check_own
from fedcli.data.sources import phantom, rsna_ich
from fedcli.data.sources.division import split_rows
from fedcli.data.sources.formats import photographs
from fedcli.data.sources.skin import isic2018
from fedcli.data.sources.source import Unreadable
from fedcli.data.sources.tables import age_band
from fedcli.data.transforms import AUGMENTS
from fedcli.errors import FedcliError, UsageError

# cards and the registry

CARD = [  # keys of every card
    "title",
    "task",
    "classes",
    "attributes",
    "files",
    "where",
    "licence",
    "citation",
    "size",
    "channels",
    "split",
    "splits",
    "augment",
    "clients",
    "sites",
]


@pytest.mark.parametrize("name", sources.SOURCES)
def test_every_dataset_has_a_card_that_later_stages_can_use(name):
    card = sources.card(name)
    assert set(CARD) <= set(card)
    assert card["split"] in card["splits"]
    assert card["augment"] in AUGMENTS
    assert card["sites"] is None or card["sites"] in card["attributes"]


def test_the_cards_agree_with_the_code():
    assert sources.card("isic2018")["classes"] == isic2018.CLASSES
    assert sources.card("rsna-ich")["classes"] == rsna_ich.CLASSES
    assert sources.card("phantom")["classes"] == phantom.CLASSES
    expected = {name: list(shares) for name, shares in phantom.SHARES.items()}
    assert sources.card("phantom")["attributes"] == expected


def test_an_unknown_dataset_is_named_with_the_nearest():
    with refused("unknown dataset 'phantoms'", "'phantom'"):
        sources.source("phantoms")


LISTED = [
    (name, key, about)
    for name in sources.SOURCES
    for key, about in sources.card(name).get("options", {}).items()
    if "values" in about
]


@pytest.mark.parametrize(("name", "key", "option"), LISTED)
def test_what_an_option_of_a_dataset_does_not_know_is_named_with_the_nearest(name, key, option):
    assert option["default"] in option["values"]
    card = sources.card(name)
    word = option["values"][-1] + "s"
    with pytest.raises(UsageError, match=f"unknown value {key}={word}") as error:
        check_own(name, card, {key: word})
    assert repr(option["values"][-1]) in error.value.hint or "known: " in error.value.hint


def test_an_installed_card_comes_before_the_checkouts(tmp_path, monkeypatch):
    installed = sources.card("toy") | {"title": "installed"}
    (tmp_path / "toy.json").write_text(json.dumps(installed))
    monkeypatch.setattr(sources.cards, "_FOLDERS", (tmp_path, *sources.cards._FOLDERS))
    assert sources.card("toy") == installed
    assert sources.card("phantom")["size"] == 64


@pytest.mark.parametrize("key", [*CARD, "files[0].path", "options.a.default"])
def test_a_card_that_lacks_a_key_is_refused_in_one_sentence(tmp_path, monkeypatch, key):
    files = [{}] * key.startswith("files[")
    card = sources.card("toy") | {"files": files}
    card |= {"options": {"a": {"about": ""}}} if key.startswith("options") else {}
    (tmp_path / "toy.json").write_text(
        json.dumps({name: value for name, value in card.items() if name != key})
    )
    monkeypatch.setattr(sources.cards, "_FOLDERS", (tmp_path,))
    for words in (["datasets", "toy"], ["prepare", "toy"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 1
        assert f"toy.json is damaged: {key} is missing" in " ".join(done.stderr.split())


# the split


def test_train_gets_the_floor_of_its_share_in_every_class():
    rows = [
        Row(f"{label}-{i}", label, None) for label, n in enumerate([548, 7, 1]) for i in range(n)
    ]
    choices = completed(16, "image")
    split = split_rows(rows, choices, by_patient=False)
    of_training = Counter(row.label for row in split if not row.test)
    result = [of_training[label] for label in range(3)]
    assert result == [438, 5, 0]


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_rows():
    rows = [Row(f"i{i}", i % 2, None) for i in range(40)]
    chosen = {
        row.id for row in split_rows(rows, completed(16, "image"), by_patient=False) if row.test
    }
    expected = {
        row.id
        for row in split_rows(rows[::-1], completed(16, "image"), by_patient=False)
        if row.test
    }
    assert chosen == expected
    other = {
        row.id
        for row in split_rows(rows, completed(16, "image", seed=1), by_patient=False)
        if row.test
    }
    assert chosen != other


def test_a_unit_is_never_on_both_sides_and_the_share_still_holds():
    rows = [Row(f"i{i}", i % 3, None, patient=f"u{i // 4}") for i in range(400)]
    choices = completed(16, "patient")
    split = split_rows(rows, choices, by_patient=True)
    test = {row.patient for row in split if row.test}
    assert not test & {row.patient for row in split if not row.test}
    result = sum(row.test for row in split)
    assert result == 80


def test_an_image_without_a_unit_is_its_own():
    rows = [Row(f"i{i}", 0, None) for i in range(10)]
    result = sum(row.test for row in split_rows(rows, completed(16, "patient"), by_patient=True))
    assert result == 2


def test_age_bands_meet_at_40_and_60():
    result = [age_band(a) for a in (0, 39.9, 40, 59, 60, 85, float("nan"))]
    expected = [
        "0-39",
        "0-39",
        "40-59",
        "40-59",
        "60+",
        "60+",
        "",
    ]
    assert result == expected


# images


def test_a_machine_without_opencvs_libraries_is_told_the_fix(monkeypatch):
    photographs.import_cv2.cache_clear()
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(FedcliError, match="OpenCV cannot be loaded") as error:
        photographs.import_cv2()
    assert "apt-get install libgl1" in error.value.hint
    assert "opencv-python-headless" in error.value.hint


def test_shrinking_averages_areas():
    image = np.arange(16, dtype=np.uint8).reshape(4, 4, 1) * 4
    result = photographs.fit_image(image, 2, "stretch", False)[..., 0].tolist()
    assert result == [
        [10, 18],
        [42, 50],
    ]


def test_padding_keeps_the_ratio_and_fills_with_black():
    image = photographs.fit_image(np.full((6, 12, 3), 200, np.uint8), 8, "pad", False)
    assert image.shape == (8, 8, 3)
    assert (image[2:6] == 200).all()
    assert (image[:2] == 0).all()
    assert (image[6:] == 0).all()


def test_clahe_raises_a_faint_contrast():
    image = np.tile(np.arange(100, 132, dtype=np.uint8).repeat(2), (64, 1))[..., None]
    plain = photographs.fit_image(image, 64, "stretch", False)
    even = photographs.fit_image(image, 64, "stretch", True)
    assert np.array_equal(plain, image)
    result = np.ptp(np.diff(even.astype(int), axis=1))
    assert result >= 3 * np.ptp(np.diff(plain.astype(int), axis=1))


def test_a_truncated_photograph_says_so_without_its_folder(tmp_path):
    path = tmp_path / "a.jpg"
    Image.effect_noise((64, 64), 50).save(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(Unreadable, match="truncated"):
        photographs.read_rgb(path)
    path.write_text("no image")
    with pytest.raises(Unreadable, match="in no image format"):
        photographs.read_rgb(path)
