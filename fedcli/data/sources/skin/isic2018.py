"""ISIC 2018 task 3 = HAM10000: dermoscopy of seven kinds of skin lesion.

The files are Harvard's or the ISIC archive's. Source: Tschandl, Rosendahl, Kittler, Scientific Data
5:180161, 2018. Many lesions were photographed several times, so the split keeps a lesion together
unless asked otherwise. The hospitals, and the official fold, come from the table that FLamby's
Fed-ISIC2019 made (arXiv 2210.04620), when it lies beside.
"""

from pathlib import Path

from ....errors import FedcliError
from ...prepare_options import PrepareOptions
from ..described import listed
from ..division import divided
from ..drawing import save_picture, table
from ..formats.photographs import PHOTOGRAPHS, files_of, photograph
from ..source import Listing, Source
from ..tables import (
    AGE_BANDS,
    SEXES,
    DataFrame,
    age_bands,
    check_values,
    first_of,
    one_hot,
    read_table,
)

CLASSES = ["mel", "nv", "bcc", "akiec", "bkl", "df", "vasc"]
HAM = "HAM10000_metadata.csv"
CENTERS = "ham10000_fedisic2019.csv"
TRUTH = "ISIC2018_Task3_Training_GroundTruth.csv"
GROUPINGS = "ISIC2018_Task3_Training_LesionGroupings.csv"
FOLDERS = [
    "images",
    "HAM10000_images_part_1",
    "HAM10000_images_part_2",
    "ISIC2018_Task3_Training_Input",
    ".",
]


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every listed image that is there, with the facts of the tables on it."""
    read = read_ham if (raw / HAM).is_file() else read_task3
    images, tables = read(raw)
    images = _checked(images, raw / tables[0]).sort_values("image_id")
    if choices.split == "official":
        _check_official(images, raw)
    files = files_of(raw, FOLDERS, PHOTOGRAPHS, lambda path: path.stem)
    facts = images.rename(columns={"image_id": "id", "lesion_id": "patient"})
    labels = facts.dx.map(CLASSES.index)
    is_test = facts.get("fold") == "test"
    facts = facts.assign(
        label=labels,
        file=facts.id.map(files),
        test=is_test,
    )
    absent = f"listed in {tables[0]}, in none of the image folders"
    listing = listed(
        facts,
        _attributes(images),
        tables,
        patient="lesion_id",
        absent=absent,
    )
    if choices.split in ("lesion", "folds"):
        _check_lesions(listing, raw)
    return divided(listing, choices)


def read_ham(raw: Path) -> tuple[DataFrame, list[str]]:
    """Harvard Dataverse's table, with hospitals and folds where they lie beside it."""
    texts = dict.fromkeys(["image_id", "lesion_id", "dx", "sex"], str)
    table = read_table(
        raw / HAM,
        ["lesion_id", "image_id", "dx", "age", "sex"],
        dtype=texts,
    )
    table["age"] = age_bands(table.age)
    if not (raw / CENTERS).is_file():
        return table.rename(columns={"dataset": "center"}), [HAM]
    columns = {"image_id": "image_id", "dataset": "center", "fold": "fold"}
    table = table.drop(columns=["dataset"], errors="ignore")
    return _joined(table, raw / CENTERS, columns), [HAM, CENTERS]


def read_task3(raw: Path) -> tuple[DataFrame, list[str]]:
    """The ISIC archive's one-hot table, with lesions where they lie beside it."""
    first_of(
        raw,
        (HAM, TRUTH),
        "give the folder with the table; see fedcli datasets isic2018",
    )
    columns = [name.upper() for name in CLASSES]
    table = read_table(raw / TRUTH, ["image", *columns], dtype={"image": str})
    labels = one_hot(raw / TRUTH, table, columns, "image")
    table = table[["image"]].rename(columns={"image": "image_id"})
    table["dx"] = [CLASSES[label] for label in labels]
    if not (raw / GROUPINGS).is_file():
        return table, [TRUTH]
    lesions = {"image": "image_id", "lesion_id": "lesion_id"}
    return _joined(table, raw / GROUPINGS, lesions), [TRUTH, GROUPINGS]


def _joined(table: DataFrame, path: Path, columns: dict[str, str]) -> DataFrame:
    """The table with the facts of another one on its images."""
    facts = read_table(path, columns, dtype=str).drop_duplicates("image_id")
    return table.merge(facts, on="image_id", how="left")


def _checked(table: DataFrame, path: Path) -> DataFrame:
    """Each image once. Raises FedcliError for one with two labels or an unknown one."""
    table = table.drop_duplicates(["image_id", "dx"])
    check_values(path, table.image_id, table.dx, CLASSES, noun="unknown class")
    repeated = table.image_id[table.image_id.duplicated()]
    if len(repeated):
        image = repeated.iloc[0]
        classes_of_image = table.dx[table.image_id == image]
        labels = " and ".join(classes_of_image.astype(str))
        sentence = f"{path}: {image} has two labels, {labels}"
        raise FedcliError(sentence, "keep the right one of the two rows")
    return table


def _attributes(table: DataFrame) -> dict[str, list[str]]:
    attributes = {}
    for name, values in (("sex", SEXES), ("age", AGE_BANDS)):
        if name in table:
            attributes[name] = values
    centers = sorted(table.center.dropna().unique()) if "center" in table else []
    if centers:
        attributes["center"] = centers
    return attributes


def _check_official(table: DataFrame, raw: Path) -> None:
    """Refuse a table without FLamby's folds."""
    if "fold" not in table:
        sentence = f"{raw} has no {CENTERS}, which holds the official fold"
        raise FedcliError(sentence, "use --split lesion or image")
    has_fold = table.fold.isin(["train", "test"])
    without_fold = table.image_id[~has_fold]
    if len(without_fold):
        sentence = f"{raw / CENTERS} has no fold for {without_fold.iloc[0]}"
        raise FedcliError(sentence, "use --split lesion")


def _check_lesions(listing: Listing, raw: Path) -> None:
    """Refuse an image of a lesion that no table names."""
    for row in listing.rows:
        if not row.patient:
            hint = f"put {GROUPINGS} next to the table, or use --split image"
            raise FedcliError(f"{raw} does not say which lesion {row.id} shows", hint)


# the synthetic sample

HOSPITALS = {
    "vidir_molemax": 1,
    "vidir_modern": 2,
    "rosendahl": 3,
    "vienna_dias": 5,
}
TYPES = ["histo", "follow_up", "consensus", "confocal"]
PLACES = ["back", "lower extremity", "trunk", "upper extremity", "face", "scalp", "unknown"]
HARVARD = ["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"]
FLAMBY = [*HARVARD, "dataset", "target", "center", "fold", "fold2"]
EACH = 10  # images per class


def sample(folder: Path) -> None:
    """70 images of 63 lesions, Harvard's table, and FLamby's with hospitals and folds."""
    count = EACH * len(CLASSES)
    records = [_record(i) for i in range(count)]
    harvard_records = [record[: len(HARVARD)] for record in records]
    table(folder / HAM, HARVARD, harvard_records)
    sorted_records = sorted(records, key=lambda record: record[1])
    table(
        folder / CENTERS,
        FLAMBY,
        sorted_records,
    )
    for i, record in enumerate(records):
        label, k = divmod(i, EACH)
        part = folder / f"HAM10000_images_part_{1 + i % 2}"
        path = part / f"{record[1]}.jpg"
        tint = 0.5 if k < 2 else 0
        save_picture(path, label, tint=tint)


def _record(i: int) -> list:
    """A line of FLamby's table; it begins with Harvard's.

    Both images of a class's first lesion are in both folds.
    """
    label, k = divmod(i, EACH)
    lesion = i - 1 if k == 1 else i
    image = 24306 + 3 * i % 70
    name = CLASSES[label]
    years = 25 + 5 * (3 * i % 11)
    age = f"{years}.0"
    sex = ("male", "female")[i % 2]
    if k == 5:
        age = ""
        sex = "unknown"
    lesion_id = f"HAM_{lesion:07d}"
    image_id = f"ISIC_{image:07d}"
    kind = TYPES[i % 4]
    harvard = [lesion_id, image_id, name, kind, age, sex]
    hospital = list(HOSPITALS)[(i // 2) % 4]
    center = HOSPITALS[hospital]
    target = label
    if name == "akiec" and k > 5:
        target = 7  # ISIC 2019's number of SCC, which some of akiec are
    fold = "test" if k in (1, 9) else "train"
    body_site = PLACES[i % 7]
    fold_and_center = f"{fold}_{center}"
    return [*harvard, body_site, hospital, target, center, fold, fold_and_center]


SOURCE = Source(rows, photograph, sample, per_file=True)
