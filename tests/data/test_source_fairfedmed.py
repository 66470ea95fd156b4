"""FairFedMed-Oph: npz files, and tables of three sites for each attribute."""

import csv
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from raw_folders import completed, prepare, refused, write_csv

from fedcli.data import manifest, sources
from fedcli.data.pool import Row, read_pool
from fedcli.data.prepare_options import PrepareOptions
from fedcli.data.sources.eyes import fairfedmed
from fedcli.data.sources.source import Unreadable
from fedcli.errors import UsageError

DATASET = "fairfedmed-slo"
CLASSES = ["no glaucoma", "glaucoma"]
OWN = {"sites": "race", "unknown": "keep"}
SLO = fairfedmed.SLO
OCT = fairfedmed.OCT
CODES = {"glaucoma": 1, "race": 2, "language": 0, "ethnicity": -1, "gender": 1, "maritalstatus": 4}


def choices(split: str = "official", *, clahe: bool = False, **own: str) -> PrepareOptions:
    return completed(16, split, clahe=clahe, jobs=1, own=OWN | own)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def by_id(listing) -> dict[str, Row]:
    return {row.id: row for row in listing.rows}


def patient(
    raw: Path, *, codes: dict = CODES, columns: dict | None = None, name: str = "a.npz", **arrays
) -> Path:
    """A folder of one patient, without sites, for --split image."""
    (raw / "all").mkdir(exist_ok=True)
    slo_fundus = np.zeros((6, 4), np.uint8)
    arrays = {"slo_fundus": slo_fundus, **arrays}
    np.savez_compressed(raw / "all" / name, **{**arrays, **codes})
    columns = {"filename": name, **(columns or {})}
    rows = [list(columns.values())]
    path = raw / "meta_all.csv"
    write_csv(path, list(columns), rows)
    return raw


@pytest.mark.parametrize("name", ["fairfedmed-slo", "fairfedmed-oct"])
def test_the_cards_name_the_classes_attributes_and_options_of_the_code(name):
    card = sources.card(name)
    assert card["classes"] == CLASSES
    expected = 32 if name.endswith("oct") else 1
    assert card["channels"] == (expected)
    expected = {
        **fairfedmed.CODED,
        "age": fairfedmed.AGE_BANDS,
        "site": fairfedmed.SITES,
    }
    assert card["attributes"] == expected
    result = {key: option["default"] for key, option in card["options"].items()}
    assert result == OWN


def test_the_tables_of_the_sites_decide_site_and_part(sample):
    listing = SLO.rows(sample, choices())
    images = by_id(listing)
    for site in (1, 2, 3):
        for part in ("train", "test"):
            for line in read(sample / f"fairfedmed/meta_site{site}_race_{part}.csv"):
                if (row := images.pop(line["filename"].removesuffix(".npz"), None)) is not None:
                    expected = (site - 1, part == "test")
                    assert (row.groups["site"], row.test) == expected
    assert images == {}


def test_every_attribute_has_three_sites_of_its_own(sample):
    site = {}
    for attribute in ("race", "language", "ethnicity"):
        listing = SLO.rows(sample, choices(sites=attribute))
        images = by_id(listing)
        site[attribute] = {id: row.groups["site"] for id, row in images.items()}
    assert site["race"] != site["language"] != site["ethnicity"] != site["race"]
    for site_of in site.values():
        assert Counter(site_of.values()).keys() == {0, 1, 2}


def test_labels_and_attributes_are_those_of_the_table_that_spells_them(sample):
    listing = SLO.rows(sample, choices("image"))
    images = by_id(listing)
    lines = read(sample / "fairfedmed/meta_all.csv")
    assert len(images) == len(lines) - 1 == 71  # one file has no SLO
    for line in lines:
        if (row := images.get(line["filename"].removesuffix(".npz"))) is None:
            continue
        assert CLASSES[row.label] == {"no": "no glaucoma", "yes": "glaucoma"}[line["glaucoma"]]
        for name, values in fairfedmed.CODED.items():
            expected = line[name.replace("_", "")]
            code = row.groups[name]
            if (name, row.id) != ("gender", "fairclip_data_00011"):  # the one in which they differ
                assert (values[code] if code >= 0 else "unknown") == expected
        age = int(line["age"])
        assert row.groups["age"] == (age >= 40) + (age >= 60)


def test_where_file_and_table_differ_the_file_counts_and_a_person_is_told(sample, capsys):
    listing = SLO.rows(sample, choices())
    row = by_id(listing)["fairclip_data_00011"]
    with np.load(sample / row.source) as data:
        assert row.groups["gender"] == data["gender"].item()
    assert "the tables differ from the npz files, which count: gender 1" in capsys.readouterr().err


def test_the_table_tells_what_a_file_lacks(tmp_path):
    lines = {
        "race": "Black",
        "age": "59.5",
        "gender": "female",
        "glaucoma": "yes",
        "language": "Klingon",
    }
    (row,) = SLO.rows(patient(tmp_path, codes={}, columns=lines), choices("image")).rows
    assert row.label == 1
    expected = {
        "race": 1,
        "age": 1,
        "gender": 0,
        "language": -1,
        "ethnicity": -1,
        "marital_status": -1,
        "site": -1,
    }
    assert row.groups == expected


def test_the_unknown_stay_unless_they_are_to_be_dropped(sample, capsys):
    images = SLO.rows(sample, choices(sites="ethnicity")).rows
    dropped = SLO.rows(sample, choices(sites="ethnicity", unknown="drop")).rows
    unknown = [row for row in images if row.groups["ethnicity"] < 0]
    assert len(unknown) > 5
    expected = len(images) - len(unknown)
    assert len(dropped) == expected
    for row in dropped:
        assert row.groups["ethnicity"] >= 0
    assert any(row.groups["language"] < 0 for row in dropped)
    assert f"left out {len(unknown)} patients whose ethnicity is unknown" in capsys.readouterr().err


def test_a_patient_without_this_kind_of_image_is_skipped_and_has_the_other(sample):
    slo = SLO.rows(sample, choices())
    oct_ = OCT.rows(sample, choices())
    assert slo.skipped == [("fairfedmed/all/fairclip_data_00005.npz", "its slo_fundus is empty")]
    assert oct_.skipped == [("fairfedmed/all/fairclip_data_00008.npz", "its oct_bscans is empty")]
    assert "fairclip_data_00008" in by_id(slo)
    assert "fairclip_data_00005" in by_id(oct_)


@pytest.mark.parametrize(
    ("source", "arrays", "why"),
    [
        (OCT, {}, "has no oct_bscans"),
        (
            OCT,
            {"oct_bscans": np.zeros((200, 4, 4), np.uint8)},
            "its oct_bscans has 200 B-scans, expected 128",
        ),
        (
            OCT,
            {"oct_bscans": np.zeros((128, 4), np.uint8)},
            "its oct_bscans is uint8 [128, 4], expected uint8 with 3 axes",
        ),
        (
            SLO,
            {"slo_fundus": np.zeros((4, 4))},
            "its slo_fundus is float64 [4, 4], expected uint8 with 2 axes",
        ),
        (
            SLO,
            {"slo_fundus": np.array([None])},
            "its slo_fundus is object [1], expected uint8 with 2 axes",
        ),
        (SLO, {"race": 3}, "its race is 3, expected -1 to 2"),
        (SLO, {"race": np.arange(9)}, "its race is int64 [9], expected one number"),
        (SLO, {"race": np.array("white")}, "its race is <U5 [], expected one number"),
        (SLO, {"race": np.array([None])}, "its race is object [1], expected one number"),
        (SLO, {"glaucoma": -1}, "its glaucoma label is unknown"),
    ],
)
def test_a_file_of_another_form_is_skipped_with_the_reason(tmp_path, source, arrays, why):
    listing = source.rows(
        patient(tmp_path, **({"codes": CODES | arrays} | arrays)), choices("image")
    )
    expected = ([], [("all/a.npz", why)])
    assert (listing.rows, listing.skipped) == expected


@pytest.mark.parametrize(("source", "shape"), [(OCT, (128, 1025, 1024)), (SLO, (2**14, 2**14))])
def test_a_file_that_claims_more_numbers_than_an_eye_has_is_skipped_unread(tmp_path, source, shape):
    raw = patient(tmp_path)
    member = fairfedmed.OCT_MEMBER if source is OCT else fairfedmed.SLO_MEMBER
    with (
        zipfile.ZipFile(raw / "all/a.npz", "w") as archive,
        archive.open(f"{member}.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": shape}
        )
    why = f"its {member} claims {' x '.join(map(str, shape))} numbers, which is no image of an eye"
    result = source.rows(raw, choices("image")).skipped
    assert result == [("all/a.npz", why)]


def test_a_file_that_is_no_archive_is_skipped(tmp_path):
    patient(tmp_path)
    (tmp_path / "all/a.npz").write_bytes((tmp_path / "all/a.npz").read_bytes()[:-100])
    result = SLO.rows(tmp_path, choices("image")).skipped
    assert result == [("all/a.npz", "is no npz archive")]
    (tmp_path / "all/a.npz").unlink()
    why = "listed in the tables, not in the folder"
    result = SLO.rows(tmp_path, choices("image")).skipped
    assert result == [("all/a.npz", why)]


def test_listing_reads_no_pixels(tmp_path, monkeypatch):
    oct_bscans = np.zeros((128, 4, 4), np.uint8)
    patient(tmp_path, oct_bscans=oct_bscans)
    read_members = []
    member = np.lib.npyio.NpzFile.__getitem__
    monkeypatch.setattr(
        np.lib.npyio.NpzFile,
        "__getitem__",
        lambda s, key: (read_members.append(key), member(s, key))[1],
    )
    result = len(OCT.rows(tmp_path, choices("image")).rows)
    assert result == 1
    assert sorted(read_members) == sorted(CODES)


def test_an_slo_is_transposed(tmp_path):
    slo = np.arange(24, dtype=np.uint8).reshape(6, 4)
    raw = patient(tmp_path, slo_fundus=slo)
    (row,) = SLO.rows(raw, choices("image")).rows
    image = SLO.decode(raw, row, choices())
    assert image.shape == (4, 6, 1)
    result = image[3, 5, 0]
    assert result == slo[5, 3]
    result = image[0, 5, 0]
    assert result == slo[5, 0]


def test_every_fourth_b_scan_of_a_volume_is_a_channel(tmp_path):
    volume = np.arange(128, dtype=np.uint8)[:, None, None] + np.arange(6, dtype=np.uint8).reshape(
        2, 3
    )
    raw = patient(tmp_path, oct_bscans=volume)
    (row,) = OCT.rows(raw, choices("image")).rows
    image = OCT.decode(raw, row, choices())
    assert image.shape == (2, 3, 32)
    expected = list(range(0, 128, 4))
    assert image[0, 0].tolist() == expected
    result = image[1, 2, 31]
    assert result == 124 + 5


def test_a_damaged_volume_is_unreadable(tmp_path):
    raw = patient(
        tmp_path, slo_fundus=np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)
    )
    (row,) = SLO.rows(raw, choices("image")).rows
    data = bytearray((raw / row.source).read_bytes())
    data[2000:2100] = bytes(100)
    (raw / row.source).write_bytes(data)
    with pytest.raises(Unreadable):
        SLO.decode(raw, row, choices())


def test_the_folder_may_be_given_itself_and_all_may_be_a_link(raw):
    inner = SLO.rows(raw / "fairfedmed", choices())
    assert inner.rows[0].source.startswith("all/")
    assert inner.tables[0] == "meta_site1_race_train.csv"
    (raw / "fairfedmed/all").rename(raw / "elsewhere")
    (raw / "fairfedmed/all").symlink_to(raw / "elsewhere")
    assert len(SLO.rows(raw / "fairfedmed", choices()).rows) == len(inner.rows) == 71


def test_without_the_tables_of_the_sites_there_is_no_site(raw):
    for path in raw.glob("fairfedmed/meta_site*"):
        path.unlink()
    listing = SLO.rows(raw, choices("image"))
    assert "site" not in listing.attributes
    assert listing.tables == ["fairfedmed/meta_all.csv"]
    result = sum(row.test for row in listing.rows)
    assert result == 15


def test_sites_of_another_split_come_from_the_whole_tables_else_from_the_parts(raw):
    official = {id: row.groups["site"] for id, row in by_id(SLO.rows(raw, choices())).items()}
    for _ in range(2):
        result = {
            id: row.groups["site"] for id, row in by_id(SLO.rows(raw, choices("folds"))).items()
        }
        assert result == official
        for path in raw.glob("fairfedmed/meta_site?_race.csv"):
            path.unlink()


def test_folds_take_turns_as_the_test_part(sample):
    tests = []
    for fold in range(1, 6):
        listing = SLO.rows(sample, completed(16, "folds", jobs=1, own=OWN, fold=fold))
        tests.append({row.id for row in listing.rows if row.test})
    assert sum(map(len, tests)) == len(set.union(*tests)) == 71


def test_a_volume_of_32_channels_goes_into_the_pool(sample, tmp_path):
    made_at = prepare("fairfedmed-oct", raw=sample, work=tmp_path, size=10, jobs=1)
    body = manifest.read(made_at).body
    path = made_at.parent / "pool.h5"
    pool = read_pool(path)
    result = (body["channels"], body["sites"], body["count"], pool.shape)
    expected = (
        32,
        "site",
        71,
        (71, 10, 10, 32),
    )
    assert result == expected
    listing = OCT.rows(sample, choices())
    row = by_id(listing)[pool.id[0]]
    volume = OCT.decode(sample, row, choices()).astype(float)  # [20, 20, 32]
    halves = volume.reshape(10, 2, 10, 2, 32).mean((1, 3))
    result = np.abs(pool.pixels(np.array([0]))[0] - halves).max()
    assert result <= 0.5


def test_clahe_takes_no_volume(sample):
    with refused("--fit clahe takes grey or colour images, not 32 B-scans", of=UsageError):
        OCT.rows(sample, choices(clahe=True))


def test_missing_tables_and_columns_are_named(raw):
    with refused("has no meta_site1_gender_train.csv", "--split image"):
        SLO.rows(raw, choices(sites="gender"))
    path = raw / "fairfedmed/meta_all.csv"
    write_csv(path, ["file"], [["a.npz"]])
    with refused("has no column 'filename'"):
        SLO.rows(raw, choices("image"))
    (raw / "fairfedmed/meta_all.csv").unlink()
    with refused(r"has no meta_all\.csv", "--split official"):
        SLO.rows(raw, choices("image"))
    shutil.rmtree(raw / "fairfedmed/all")
    with refused("has no folder 'all'"):
        SLO.rows(raw, choices())


def test_a_patient_in_two_parts_two_sites_or_two_lines_is_refused(raw):
    site1, site2 = (
        raw / f"fairfedmed/meta_site{site}_race_{part}.csv"
        for site, part in ((1, "test"), (2, "test"))
    )
    name = read(site1)[0]["filename"]
    write_csv(site2, ["filename"], [[name]])
    with refused(f"meta_site2_race_test.csv lists {name}, which another site or part lists"):
        SLO.rows(raw, choices())
    rows = [[name], [name]]
    write_csv(site1, ["filename"], rows)
    with refused(f"meta_site1_race_test.csv lists {name} twice"):
        SLO.rows(raw, choices())


@pytest.mark.parametrize("name", ["../a.npz", "/etc/passwd"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path, name):
    raw = patient(tmp_path)
    path = raw / "meta_all.csv"
    write_csv(path, ["filename"], [[name]])
    with refused("leads out of"):
        SLO.rows(raw, choices("image"))


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path):
    raw = patient(tmp_path)
    shutil.move(raw / "all/a.npz", tmp_path / "b.npz")
    (raw / "all/a.npz").symlink_to(tmp_path / "b.npz")
    with refused("leads out of"):
        SLO.rows(raw, choices("image"))
