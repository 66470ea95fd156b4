"""ISIC 2019 with the tone of the skin: computed, from a table, and as clients by shares."""

import os
from collections import Counter
from dataclasses import replace
from functools import wraps
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raw_folders import completed, prepare, refused, write_csv, write_skin

from fedcli.data import manifest, sources
from fedcli.data.partition import make_partition, resolve
from fedcli.data.pool import read_pool
from fedcli.data.prepare_options import PrepareOptions
from fedcli.data.sources.skin import isic2018, isic2019, isic_skin_tone
from fedcli.data.sources.source import Listing
from fedcli.io.hdf5 import open_hdf5

DATASET = "isic-skin-tone"
OWN = {"ita-cut": "28", "ita-rule": "continuous", "tone-file": ""}
LESION = completed(16, "lesion", jobs=1, own=OWN)
TABLE = "isic_train_20-19-18-17.csv"


@pytest.fixture(scope="module", autouse=True)
def _each_image_once():
    """Keep the skin type of an image for the next test that shows it: each takes 10 ms."""
    types = {}
    compute = isic_skin_tone.skin_type.skin_type

    @wraps(compute)
    def computed(image, rule):
        key = image.shape, image.tobytes(), rule
        if key not in types:
            types[key] = compute(image, rule)
        return types[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isic_skin_tone.skin_type, "skin_type", computed)
        yield


def choose(**own: str) -> PrepareOptions:
    typed = {name.replace("_", "-"): value for name, value in own.items()}
    return LESION.completed({**OWN, **typed})


def tones(listing: Listing) -> list[int]:
    return [row.groups["skin_tone"] for row in listing.rows]


def test_the_card_agrees_with_the_code():
    card = sources.card("isic-skin-tone")
    assert card["classes"] == isic2019.CLASSES
    assert card["attributes"]["skin_tone"] == isic_skin_tone.TONES
    result = {name: option["default"] for name, option in card["options"].items()}
    assert result == OWN


def test_dark_ground_is_dark_and_light_ground_is_light(raw, capsys):
    listing = isic_skin_tone.rows(raw, LESION)
    expected = [int(i % 9 > 4) for i in range(72)]
    assert tones(listing) == expected
    assert listing.attributes["skin_tone"] == ["light", "dark"]
    assert set(listing.attributes) > {
        "sex",
        "age",
    }
    result = Counter((row.label, row.groups["skin_tone"]) for row in listing.rows)
    expected = {(label, tone): (5, 4)[tone] for label in range(8) for tone in (0, 1)}
    assert result == expected
    assert "skin tone: 40 light, 32 dark, 0 unknown" in capsys.readouterr().err


def test_the_released_rule_takes_a_bluish_cast_for_dark_skin(raw):
    light = [i for i, tone in enumerate(tones(isic_skin_tone.rows(raw, LESION))) if tone == 0]
    listing = isic_skin_tone.rows(raw, choose(ita_rule="released"))
    released = tones(listing)
    result = [i for i in light if released[i] == 1]
    assert result == list(isic_skin_tone.BLUISH)


def test_the_tones_do_not_touch_the_split_or_the_other_attributes(raw):
    plain = isic2019.rows(raw, LESION)
    toned = isic_skin_tone.rows(raw, LESION)
    bare = []
    for row in toned.rows:
        groups = {name: value for name, value in row.groups.items() if name != "skin_tone"}
        bare.append(replace(row, groups=groups))
    assert bare == plain.rows
    assert (toned.patient, toned.tables) == (plain.patient, plain.tables)


def test_the_number_of_processes_changes_nothing(raw, monkeypatch):
    monkeypatch.setattr(
        isic_skin_tone.skin_type, "skin_type", isic_skin_tone.skin_type.skin_type.__wrapped__
    )
    result = isic_skin_tone.rows(raw, replace(LESION, jobs=2))
    assert result == isic_skin_tone.rows(raw, LESION)


def test_the_cut_decides_what_type_three_is(raw):
    for path in (raw / isic2019.FOLDER).iterdir():
        Image.new("RGB", (32, 32), (190, 150, 125)).save(path, quality=100)  # 33 degrees
    listing = isic_skin_tone.rows(raw, LESION)
    assert set(tones(listing)) == {0}
    listing = isic_skin_tone.rows(raw, choose(ita_cut="41"))
    result = set(tones(listing))
    assert result == {1}


def test_a_table_of_types_stands_in_for_the_computation(raw, monkeypatch):
    monkeypatch.setattr(isic_skin_tone.skin_type, "skin_type", None)  # must not be called
    listing = isic_skin_tone.rows(raw, choose(tone_file=TABLE))
    expected = [-1 if i == 20 else int(i % 9 > 4) for i in range(72)]
    assert tones(listing) == expected
    assert listing.tables[-1] == TABLE


def test_the_cut_applies_to_a_table_too_and_what_it_leaves_out_is_unknown(raw):
    names = [f"ISIC_{i:07d}" for i in range(6)]
    lines = [[name, skin_type] for name, skin_type in zip(names, [1, 2, 3, 4, -1, ""], strict=True)]
    path = raw / TABLE
    write_csv(path, ["image_name", "fitzpatrick"], lines)
    expected = [0, 0, 0, 1, -1, -1, -1]
    listing = isic_skin_tone.rows(raw, choose(tone_file=TABLE))
    result = tones(listing)[:7]
    assert result == expected
    expected = [
        0,
        0,
        1,
        1,
        -1,
        -1,
        -1,
    ]
    listing = isic_skin_tone.rows(raw, choose(tone_file=TABLE, ita_cut="41"))
    result = tones(listing)[:7]
    assert result == expected


@pytest.mark.parametrize("name", ["../types.csv", "/etc/hostname", "a/../../types.csv"])
def test_a_table_outside_the_folder_is_refused(raw, name):
    with refused("leads out of"):
        isic_skin_tone.rows(raw, choose(tone_file=name))


def test_a_table_that_is_absent_or_about_other_images_is_refused(raw):
    with refused(r"has no nothing\.csv"):
        isic_skin_tone.rows(raw, choose(tone_file="nothing.csv"))
    path = raw / TABLE
    rows = [["elsewhere", 2]]
    write_csv(path, ["image_name", "fitzpatrick"], rows)
    with refused("names none of the 72 images"):
        isic_skin_tone.rows(raw, choose(tone_file=TABLE))


@pytest.mark.parametrize("skin_type", ["7", "0", "2.5", "light"])
def test_an_unknown_type_is_an_error(raw, skin_type):
    path = raw / TABLE
    rows = [["ISIC_0000000", skin_type]]
    write_csv(path, ["image_name", "fitzpatrick"], rows)
    with refused("ISIC_0000000 has the skin type", "1 to 6"):
        isic_skin_tone.rows(raw, choose(tone_file=TABLE))


def test_a_contradiction_or_a_missing_column_in_the_table_is_an_error(raw):
    rows = [["ISIC_0000000", 1], ["ISIC_0000000", 5]]
    path = raw / TABLE
    write_csv(path, ["image_name", "fitzpatrick"], rows)
    with refused("lists ISIC_0000000 twice"):
        isic_skin_tone.rows(raw, choose(tone_file=TABLE))
    path = raw / TABLE
    write_csv(path, ["image_name"], [["ISIC_0000000"]])
    with refused("no column 'fitzpatrick'"):
        isic_skin_tone.rows(raw, choose(tone_file=TABLE))


def test_a_broken_image_has_no_tone_and_prepare_says_why(raw):
    (raw / isic2019.FOLDER / "ISIC_0000000.jpg").write_text("no")
    listing = isic_skin_tone.rows(raw, LESION)
    result = tones(listing)[:2]
    assert result == [-1, 0]
    work = raw / "work"
    dataset_path = prepare("isic-skin-tone", raw=raw, work=work, size=16, jobs=1)
    result = [skipped["file"] for skipped in manifest.read(dataset_path).body["skipped"]]
    assert result == [f"{isic2019.FOLDER}/ISIC_0000000.jpg"]


def test_ham10000s_folder_is_taken_with_its_seven_classes(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    lesions = [[f"L{i // 2}", f"i{i:02d}", isic2018.CLASSES[i % 7], 45, "male"] for i in range(28)]
    write_skin(raw, lesions)
    for i in range(28):
        Image.new("RGB", (40, 30), (80, 64, 56) if i % 2 else (200, 160, 140)).save(
            raw / "images" / f"i{i:02d}.jpg"
        )
    listing = isic_skin_tone.rows(raw, LESION)
    expected = [0, 1] * 14
    assert tones(listing) == expected
    assert listing.classes == isic2018.CLASSES
    result = len({(row.patient, row.test) for row in listing.rows})
    assert result == 14
    dataset_path = prepare(
        "isic-skin-tone", raw=raw, work=tmp_path, size=16, jobs=1, split="folds", fold=2
    )
    result = manifest.read(dataset_path).body["classes"]
    assert result == isic2018.CLASSES


def test_a_folder_of_neither_is_told_what_is_missing(tmp_path):
    with refused(f"has no {isic2019.TRUTH}"):
        isic_skin_tone.rows(tmp_path, LESION)


def test_the_cards_shares_make_three_mostly_light_clients_and_a_dark_one(raw):
    work = raw / "work"
    dataset_path = prepare("isic-skin-tone", raw=raw, work=work, size=16, jobs=1, test=0.15)
    words = sources.card("isic-skin-tone")["notes"].split("--shares ")[1:]
    shares = [word.split()[0] for word in words]
    assert shares == [
        ".45,.05",
        ".30,.10",
        ".20,.15",
        ".05,.70",
    ]  # light, dark: the order of the attribute's values
    scheme = resolve("shares", {"by": ["skin_tone"], "shares": ";".join(shares), "clients": 4})
    destination = manifest.Destination(raw / "work")
    path = make_partition(dataset_path, scheme, destination, val=0.1765)
    pool = read_pool(dataset_path.parent / "pool.h5")
    with open_hdf5(path.parent / "rows.h5") as file:
        rows = [np.concatenate([file[f"train/{k}"][()], file[f"val/{k}"][()]]) for k in range(4)]
    dark = [(pool.groups["skin_tone"][client_rows] == 1).mean() for client_rows in rows]
    assert max(dark[:3]) < 0.5 < dark[3]
    expected = (pool.split == 0).sum()
    assert sum(map(len, rows)) == expected


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_real_dark_images_are_dark_in_another_estimate_too(tmp_path):
    from pandas import read_csv

    real = Path(os.environ["FEDCLI_REAL_DATA"]) / "ham10000"
    estimate = read_csv(real / "ita_estimate_derived.csv").set_index("image_id").ita_bin
    chosen = set(estimate[estimate.isin(["brown", "dark"])].index) | set(estimate.index[::100])
    table = read_csv(real / isic2018.HAM, dtype=str, keep_default_na=False)
    table[table.image_id.isin(chosen)].to_csv(tmp_path / isic2018.HAM, index=False)
    (tmp_path / "images").symlink_to(real / "images")
    listing = isic_skin_tone.rows(tmp_path, LESION)
    dark = {row.id for row in listing.rows if row.groups["skin_tone"] == 1}
    assert len(dark) > 20
    result = (estimate[list(dark)].isin(["brown", "dark", "tan"])).mean()
    assert result > 0.8
