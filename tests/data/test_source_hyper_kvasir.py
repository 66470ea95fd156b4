"""HyperKvasir: 23 folders, a table, and the authors' folds."""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from raw_folders import completed, prepare, refused, write_csv

from fedcli.data import manifest, sources
from fedcli.data.pool import read_pool
from fedcli.data.sources import hyper_kvasir
from fedcli.errors import FedcliError

DATASET = "hyper-kvasir"
IMAGE = completed(16, "image")
COUNTS = {
    "bbps-2-3": 1148,
    "polyp": 1028,
    "normal-cecum": 1009,
    "dyed-lifted-polyps": 1002,
    "normal-pylorus": 999,
    "dyed-resection-margins": 989,
    "normal-z-line": 932,
    "retroflex-stomach": 764,
    "bbps-0-1": 646,
    "ulcerative-colitis-grade-2": 443,
    "oesophagitis-a": 403,
    "retroflex-rectum": 391,
    "oesophagitis-b-d": 260,
    "ulcerative-colitis-grade-1": 201,
    "ulcerative-colitis-grade-3": 133,
    "impacted-stool": 131,
    "short-segment-barretts": 53,
    "barretts": 41,
    "ulcerative-colitis-grade-0-1": 35,
    "ulcerative-colitis-grade-2-3": 28,
    "ulcerative-colitis-grade-1-2": 11,
    "ileum": 9,
    "hemorrhoids": 6,
}


def table(raw: Path) -> Path:
    return raw / "labeled-images" / "image-labels.csv"


def held_out(listing) -> set[str]:
    return {row.id for row in listing.rows if row.test}


def test_the_card_names_the_classes_and_attributes_of_the_code():
    card = sources.card("hyper-kvasir")
    assert card["classes"] == hyper_kvasir.CLASSES
    assert len(card["classes"]) == 23
    assert card["attributes"] == hyper_kvasir.ATTRIBUTES


def test_every_class_has_its_images_organ_and_finding(sample):
    listing = hyper_kvasir.rows(sample, IMAGE)
    result = Counter(row.label for row in listing.rows)
    assert result == dict.fromkeys(range(23), 5)
    assert listing.skipped == []
    assert listing.tables == ["labeled-images/image-labels.csv"]
    result = Counter(row.groups["organ"] for row in listing.rows)
    expected = {0: 16 * 5, 1: 7 * 5}
    assert result == expected
    expected = {
        0: 6 * 5,
        1: 12 * 5,
        2: 3 * 5,
        3: 2 * 5,
    }
    result = Counter(row.groups["finding"] for row in listing.rows)
    assert result == expected
    hemorrhoids = next(
        row for row in listing.rows if hyper_kvasir.CLASSES[row.label] == "hemorrhoids"
    )
    expected = ({"organ": 0, "finding": 1}, "")
    assert (hemorrhoids.groups, hemorrhoids.patient) == expected
    result = hyper_kvasir.SOURCE.decode(sample, hemorrhoids, IMAGE).shape
    assert result == (24, 32, 3)


def test_the_folder_of_images_itself_will_do(sample):
    inner = hyper_kvasir.rows(sample / "labeled-images", IMAGE)
    expected = [row.id for row in hyper_kvasir.rows(sample, IMAGE).rows]
    assert [row.id for row in inner.rows] == expected
    assert inner.tables == ["image-labels.csv"]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("hemorroids", "hemorrhoids"),
        ("ulcerative-colitis-0-1", "ulcerative-colitis-grade-0-1"),
        ("ulcerative-colitis-3", "ulcerative-colitis-grade-3"),
        ("Barretts short segment", "short-segment-barretts"),
        ("esophagitis_b-d", "oesophagitis-b-d"),
        ("z-line", "normal-z-line"),
    ],
)
def test_other_spellings_of_a_class_are_known(spelling, name):
    assert hyper_kvasir.class_of(spelling) == name


def test_our_folds_test_every_image_once_and_every_class_each_time(sample):
    folds = [hyper_kvasir.rows(sample, completed(16, "folds", fold=k)) for k in range(1, 6)]
    assert (
        sum(Counter(held_out(fold)).total() for fold in folds)
        == 115
        == len(set.union(*map(held_out, folds)))
    )
    for fold in folds:
        result = Counter(row.label for row in fold.rows if row.test)
        assert result == dict.fromkeys(range(23), 1)


def test_the_authors_folds_are_taken_and_counted_from_1(sample):
    choices = completed(16, "official", fold=2, folds=2)
    second = hyper_kvasir.rows(sample, choices)
    path = sample / "official_splits" / "2_fold_split.csv"
    folds = hyper_kvasir.read_folds(path)
    expected = {id for id, (_, fold) in folds.items() if fold == 1}
    assert held_out(second) == expected
    assert len(held_out(second)) == 2 * 23
    assert "official_splits/2_fold_split.csv" in second.tables


def test_the_authors_file_says_the_same_as_a_split_file(sample, tmp_path):
    official = prepare(
        "hyper-kvasir", raw=sample, work=tmp_path, size=8, split="official", fold=3, jobs=1
    )
    file = sample / "official_splits" / "5_fold_split.csv"
    by_file = prepare(
        "hyper-kvasir", raw=sample, work=tmp_path, size=8, split_file=file, fold=2, jobs=1
    )
    result = manifest.read(official).body["split"]["test"]
    assert result == 23
    path = official.parent / "pool.h5"
    result = read_pool(path).split.tolist()
    path = by_file.parent / "pool.h5"
    expected = read_pool(path).split.tolist()
    assert result == expected


def test_official_folds_that_are_not_there_or_incomplete_are_an_error(raw):
    with refused("no 3_fold_split.csv", "simula/hyper-kvasir"):
        hyper_kvasir.rows(raw, completed(16, "official", folds=3))
    path = raw / "official_splits" / "5_fold_split.csv"
    head, line, *others = path.read_text().splitlines()
    path.write_text("\n".join([head, *others]))
    with refused(f"no fold for {line[:36]}"):
        hyper_kvasir.rows(raw, completed(16, "official"))
    path.write_text("\n".join([head, line.replace("normal-cecum", "polyp"), *others]))
    with refused("is normal-cecum, but .* calls it polyp"):
        hyper_kvasir.rows(raw, completed(16, "official"))
    path.write_text("\n".join([head, line[:-1] + "first", *others]))
    with refused("split-index 'first'"):
        hyper_kvasir.rows(raw, completed(16, "official"))


def test_table_and_folders_that_differ_leave_an_image_out_with_the_reason(raw):
    lines = table(raw).read_text().splitlines()
    wrong = lines[2].replace("cecum", "ileum")
    table(raw).write_text(
        "\n".join([lines[0], wrong, *lines[3:], "gone,Lower GI,polyps,pathological-findings"])
    )
    listing = hyper_kvasir.rows(raw, IMAGE)
    unlisted = lines[1][:36]
    moved = lines[2][:36]
    assert len(listing.rows) == 113
    assert not {unlisted, moved} & {row.id for row in listing.rows}
    folder = "labeled-images/lower-gi-tract/anatomical-landmarks/cecum"
    expected = sorted(
        [
            ("gone.jpg", "listed in image-labels.csv, in none of the folders"),
            (f"{folder}/{unlisted}.jpg", "not listed in image-labels.csv"),
            (f"{folder}/{moved}.jpg", "listed in image-labels.csv as ileum"),
        ]
    )
    assert sorted(listing.skipped) == expected


def test_without_the_table_the_folders_decide(raw):
    whole = hyper_kvasir.rows(raw, IMAGE)
    table(raw).unlink()
    listing = hyper_kvasir.rows(raw, IMAGE)
    assert listing.rows == whole.rows
    assert listing.tables == []


def test_an_image_with_two_classes_is_an_error_and_a_repeated_row_is_not(raw):
    lines = table(raw).read_text().splitlines()
    table(raw).write_text("\n".join([*lines, lines[1]]))
    result = len(hyper_kvasir.rows(raw, IMAGE).rows)
    assert result == 115
    table(raw).write_text("\n".join([*lines, lines[1].replace("cecum", "ileum")]))
    with refused("has two classes, normal-cecum and ileum"):
        hyper_kvasir.rows(raw, IMAGE)


def test_what_macos_puts_beside_folders_and_images_is_no_image(raw):
    whole = hyper_kvasir.rows(raw, IMAGE)
    top = raw / "labeled-images"
    image = next(top.glob("lower-gi-tract/*/*/*.jpg"))
    image.with_name(f"._{image.name}").write_text("of macOS")
    (image.parent.parent / "._polyp").mkdir()
    (image.parent.parent / "._polyp" / "x.jpg").write_text("of macOS")
    assert hyper_kvasir.rows(raw, IMAGE) == whole
    for folder in list(top.glob("*-gi-tract")):
        folder.rename(folder.with_name(f"._{folder.name}"))
    with refused("has no folder lower-gi-tract or upper-gi-tract"):
        hyper_kvasir.rows(raw, IMAGE)


def test_an_image_in_two_folders_is_an_error(raw):
    image = next(raw.glob("labeled-images/*/*/cecum/*.jpg"))
    shutil.copy(image, image.parents[1] / "ileum" / image.name)
    with refused("lies in cecum and in ileum"):
        hyper_kvasir.rows(raw, IMAGE)


def test_an_unknown_class_is_an_error_in_table_and_folder(raw):
    text = table(raw).read_text()
    table(raw).write_text(text + "x,Lower GI,appendix,anatomical-landmarks\n")
    with pytest.raises(
        FedcliError, match="'appendix' is none of HyperKvasir's 23 classes"
    ) as error:
        hyper_kvasir.rows(raw, IMAGE)
    assert error.value.hint.startswith("known: barretts, ")
    table(raw).unlink()
    folder = raw / "labeled-images" / "lower-gi-tract" / "anatomical-landmarks"
    (folder / "ileum").rename(folder / "colon")
    with refused("colon' is none of"):
        hyper_kvasir.rows(raw, IMAGE)


def test_a_name_that_leads_out_of_the_folder_is_refused(raw):
    text = table(raw).read_text()
    table(raw).write_text(text + "../../secret,Lower GI,polyps,pathological-findings\n")
    with refused(r"'\.\./\.\./secret' leads out of"):
        hyper_kvasir.rows(raw, IMAGE)


def test_a_missing_column_and_a_missing_folder_are_named(raw):
    rows = [["a", "Lower GI"]]
    write_csv(table(raw), ["Video file", "Organ"], rows)
    with refused(r"image-labels.csv has no column 'Finding'"):
        hyper_kvasir.rows(raw, IMAGE)
    with refused("no folder lower-gi-tract", "labeled-images"):
        hyper_kvasir.rows(raw / "official_splits", IMAGE)


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
@pytest.mark.parametrize(
    ("folds", "sizes"), [(2, [5324, 5338]), (5, [2122, 2122, 2122, 2122, 2174])]
)
def test_the_authors_files_have_the_published_counts(folds, sizes):
    folder = Path(os.environ["FEDCLI_REAL_DATA"], "splits", "hyper_kvasir", "official_splits")
    path = folder / f"{folds}_fold_split.csv"
    read = hyper_kvasir.read_folds(path)
    result = Counter(name for name, _ in read.values())
    assert result == COUNTS
    assert len(read) == 10662 == sum(COUNTS.values())
    per_fold = Counter(fold for _, fold in read.values())
    result = [per_fold[k] for k in range(folds)]
    assert result == sizes
    result = len({read_class for read_class, fold in read.values() if fold == 0})
    assert result == 23
