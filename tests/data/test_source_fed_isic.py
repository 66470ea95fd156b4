"""Fed-ISIC2019: FLamby's table of hospitals and folds over ISIC 2019's files."""

import os
from collections import Counter
from pathlib import Path

import pandas
import pytest
from raw_folders import completed, prepare, refused, rewrite

from fedcli.data import manifest, shared_patients, sources
from fedcli.data.partition import make_partition, resolve
from fedcli.data.pool import Row
from fedcli.data.sources.skin import fed_isic, isic2019
from fedcli.data.sources.source import Listing
from fedcli.errors import FedcliError

REAL = pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
DATASET = "fed-isic"
OFFICIAL = completed(16, "official")
SPLIT = "train_test_split"


def held_out(listing: Listing) -> list[str]:
    return sorted(row.id for row in listing.rows if row.test)


def test_the_card_agrees_with_the_code():
    card = sources.card("fed-isic")
    assert card["classes"] == isic2019.CLASSES
    assert card["sites"] == "center"
    assert card["attributes"]["center"] == fed_isic.CENTERS
    assert len(fed_isic.CENTERS) == card["clients"]


def test_every_image_has_its_hospital_class_and_official_fold(raw, capsys):
    listing = fed_isic.rows(raw, OFFICIAL)
    classes = Counter((row.groups["center"], row.label) for row in listing.rows)
    expected = {
        (center, label): 3 for center, (_, labels) in fed_isic.PREFIXES.items() for label in labels
    }
    assert classes == expected
    result = Counter((row.groups["center"], row.label) for row in listing.rows if row.test)
    assert result == dict.fromkeys(classes, 1)
    assert listing.attributes["center"] == fed_isic.CENTERS
    assert listing.tables == [isic2019.TRUTH, isic2019.METADATA, SPLIT]
    assert not listing.skipped
    output = capsys.readouterr().err
    assert (
        "2 of 80 images of ISIC 2019 have no hospital in train_test_split and are left out"
        in output
    )
    of_sample = "7 of 26 test lesions also have training images"  # MEL and BCC
    assert shared(listing) == of_sample


def shared(listing: Listing) -> str:
    body = shared_patients.of_rows(listing.patient, listing.rows)
    return shared_patients.of_body(body)


def test_a_lesion_stays_on_one_side_by_default(raw):
    assert sources.card("fed-isic")["split"] == "lesion"
    listing = fed_isic.rows(raw, completed(16, "lesion"))
    assert any(row.test for row in listing.rows)
    assert shared(listing) == ""


def test_an_image_without_a_lesion_cannot_be_on_both_sides():
    rows = [Row(str(i), 0, None, test=bool(i % 2)) for i in range(4)]
    assert shared_patients.of_rows("lesion_id", rows) == {}


def test_the_first_fold_is_the_official_one_and_the_others_cut_up_its_train_part(raw):
    official = fed_isic.rows(raw, OFFICIAL)
    folds = [fed_isic.rows(raw, completed(16, "folds", fold=fold)) for fold in range(1, 6)]
    assert folds[0].rows == official.rows
    everything = Counter(id for fold in folds for id in held_out(fold))
    expected = {row.id for row in official.rows}
    assert set(everything) == expected
    assert set(everything.values()) == {1}
    for fold in folds[1:]:
        sizes = Counter(row.groups["center"] for row in fold.rows if row.test)
        for center, (_, labels) in fed_isic.PREFIXES.items():
            assert sizes[center] in (
                len(labels) * 2 // 4,
                -(-len(labels) * 2 // 4),
            )  # a quarter of two images per class


def test_of_two_folds_the_second_is_the_train_part_of_the_first(raw):
    official = fed_isic.rows(raw, OFFICIAL)
    second = fed_isic.rows(raw, completed(16, "folds", fold=2, folds=2))
    expected = [not row.test for row in official.rows]
    assert [row.test for row in second.rows] == expected


def test_folds_depend_on_the_seed_and_the_official_one_does_not(raw):
    fold_2 = [
        held_out(fed_isic.rows(raw, completed(16, "folds", fold=2, seed=seed))) for seed in (0, 1)
    ]
    fold_1 = [
        held_out(fed_isic.rows(raw, completed(16, "folds", fold=1, seed=seed))) for seed in (0, 1)
    ]
    assert fold_2[0] != fold_2[1]
    assert fold_1[0] == fold_1[1]


@pytest.mark.parametrize("name", fed_isic.TABLES)
def test_flambys_table_may_have_any_of_its_names(raw, name):
    (raw / SPLIT).rename(raw / name)
    result = fed_isic.rows(raw, OFFICIAL).tables[-1]
    assert result == name


def test_without_flambys_table_there_are_no_hospitals(raw):
    (raw / SPLIT).unlink()
    with refused("has no train_test_split, which names the hospitals", "dataset_creation_scripts"):
        fed_isic.rows(raw, OFFICIAL)


def test_every_table_that_is_missing_is_named_at_once(raw):
    (raw / SPLIT).unlink()
    (raw / isic2019.METADATA).unlink()
    with pytest.raises(FedcliError) as error:
        fed_isic.rows(raw, OFFICIAL)
    assert (
        f"has no {isic2019.METADATA} and no {SPLIT}, which names the hospitals"
        in error.value.sentence
    )
    assert "ISIC archive" in error.value.hint
    assert "dataset_creation_scripts" in error.value.hint


def test_shortened_tables_as_flambys_download_leaves_them_are_fine(raw, capsys):
    for name in (isic2019.TRUTH, isic2019.METADATA):
        path = raw / name
        rewrite(path, lambda table: table[:-2])
    result = len(fed_isic.rows(raw, OFFICIAL).rows)
    assert result == 78
    assert "no hospital" not in capsys.readouterr().err


def test_the_names_may_lack_the_suffix_in_one_table(raw):
    before = fed_isic.rows(raw, OFFICIAL).rows
    path = raw / SPLIT
    rewrite(path, lambda table: table.assign(image=table.image.str.removesuffix("_downsampled")))
    assert fed_isic.rows(raw, OFFICIAL).rows == before


def test_an_image_of_flambys_table_that_isics_lacks_is_skipped_with_the_reason(raw):
    path = raw / isic2019.TRUTH
    rewrite(path, lambda table: table[1:])
    listing = fed_isic.rows(raw, OFFICIAL)
    expected = [("ISIC_0010000.jpg", f"listed in {SPLIT}, not in {isic2019.TRUTH}")]
    assert listing.skipped == expected


@pytest.mark.parametrize(
    ("column", "value", "hint"),
    [
        ("target", "8", "0 to 7"),
        ("center", "6", "0 to 5"),
        ("center", "", "0 to 5"),
        ("fold", "val", "train or test"),
    ],
)
def test_an_unknown_class_hospital_or_fold_is_an_error(raw, column, value, hint):
    path = raw / SPLIT
    rewrite(path, lambda table: table.assign(**{column: [value, *table[column][1:]]}))
    with refused(rf"ISIC_00\d+ has the {column}", hint):
        fed_isic.rows(raw, OFFICIAL)


def test_two_tables_that_contradict_each_other_are_an_error(raw):
    path = raw / SPLIT
    rewrite(path, lambda table: table.assign(target=["7", *table.target[1:]]))
    with refused(r"ISIC_00\d+ is MEL in ISIC_2019_.* and SCC in train_test_split"):
        fed_isic.rows(raw, OFFICIAL)


def test_an_image_in_two_folds_is_an_error_and_a_missing_column_is_named(raw):
    path = raw / SPLIT
    rewrite(path, lambda table: pandas.concat([table, table[:1].assign(fold="test")]))
    with refused("train_test_split lists ISIC_.* twice"):
        fed_isic.rows(raw, OFFICIAL)
    path = raw / SPLIT
    rewrite(path, lambda table: table.drop(columns="center"))
    with refused("has no column 'center'"):
        fed_isic.rows(raw, OFFICIAL)


def test_the_hospitals_become_clients_with_test_parts_of_their_own(raw):
    work = raw / "work"
    dataset_path = prepare("fed-isic", raw=raw, work=work, size=16, jobs=1, split="official")
    assert manifest.read(dataset_path).body["sites"] == "center"
    scheme = resolve("by", {"by": ["center"]})
    work = raw / "work"
    path = make_partition(dataset_path, scheme, manifest.Destination(work))
    roster = manifest.read(path).body["roster"]
    result = [client["client"] for client in roster]
    assert result == fed_isic.CENTERS
    expected = [
        (16, 8),
        (8, 4),
        (8, 4),
        (8, 4),
        (6, 3),
        (6, 3),
    ]
    result = [(client["train"], client["test"]) for client in roster]
    assert result == expected


# the real table

TRAIN = {  # images per class in FLamby's folds, as they were counted for Fed-MAS
    "BCN": [2279, 3363, 2245, 606, 923, 97, 87, 330],
    "vidir_molemax": [20, 2977, 2, 0, 96, 23, 45, 0],
    "vidir_modern": [533, 1470, 174, 20, 379, 40, 64, 11],
    "rosendahl": [276, 649, 223, 86, 406, 20, 3, 144],
    "MSK": [166, 349, 0, 0, 140, 0, 0, 0],
    "vienna_dias": [58, 276, 5, 0, 6, 4, 2, 0],
}
TEST = {
    "BCN": [578, 843, 564, 131, 215, 27, 24, 101],
    "vidir_molemax": [4, 743, 0, 0, 28, 7, 9, 0],
    "vidir_modern": [147, 362, 37, 1, 96, 11, 18, 0],
    "rosendahl": [66, 154, 73, 23, 84, 10, 0, 42],
    "MSK": [49, 66, 0, 0, 49, 0, 0, 0],
    "vienna_dias": [9, 74, 0, 0, 4, 0, 1, 0],
}


@REAL
def test_the_real_table_has_fed_mass_sizes_and_class_counts():
    path = Path(os.environ["FEDCLI_REAL_DATA"]) / "splits/flamby_isic2019_train_test_split.csv"
    table = fed_isic.read_hospitals(path)
    assert len(table) == 23247
    for fold, published in (("train", TRAIN), ("test", TEST)):
        counts = pandas.crosstab(table.center[table.fold == fold], table.target[table.fold == fold])
        result = {center: row.tolist() for center, row in counts.iterrows()}
        assert result == published
    result = [sum(TRAIN[c]) for c in fed_isic.CENTERS]
    assert result == [9930, 3163, 2691, 1807, 655, 351]
    result = [sum(TEST[c]) for c in fed_isic.CENTERS]
    assert result == [2483, 791, 672, 452, 164, 88]


@REAL
def test_the_real_official_fold_shares_696_lesions_of_ham10000(tmp_path):
    real = Path(os.environ["FEDCLI_REAL_DATA"])
    ham = pandas.read_csv(real / "ham10000/ham10000_fedisic2019.csv", dtype={"age": str})
    truth = pandas.DataFrame(
        {name: (ham.target == k).astype(float) for k, name in enumerate(isic2019.CLASSES)}
    )
    truth.assign(image=ham.image_id).to_csv(tmp_path / isic2019.TRUTH, index=False)
    names = {"image_id": "image", "age": "age_approx", "localization": "anatom_site_general"}
    ham.rename(columns=names).to_csv(tmp_path / isic2019.METADATA, index=False)
    (tmp_path / isic2019.FOLDER).symlink_to(real / "ham10000/images")
    (tmp_path / fed_isic.TABLES[2]).symlink_to(real / "splits" / fed_isic.TABLES[2])
    listing = fed_isic.rows(tmp_path, OFFICIAL)
    assert shared(listing).startswith("696 of ")
    hospitals = Counter(fed_isic.CENTERS[row.groups["center"]] for row in listing.rows)
    expected = {
        "vidir_molemax": 3954,
        "vidir_modern": 3363,
        "rosendahl": 2259,
        "vienna_dias": 439,
    }
    assert hospitals == expected
    assert len(listing.skipped) == 23247 - 10015
    result = shared(fed_isic.rows(tmp_path, completed(16, "lesion")))
    assert result == ""
