"""ISIC 2018 task 3 = HAM10000: dermoscopy of seven kinds of skin lesion, from Harvard's or the ISIC archive's files.

Source: Tschandl, Rosendahl, Kittler, Scientific Data 5:180161, 2018. Many lesions were photographed several
times, so the split keeps a lesion together unless asked otherwise. The hospitals, and the official fold, come from
the table that FLamby's Fed-ISIC2019 made (arXiv 2210.04620), when it lies beside.
"""

from pathlib import Path

from ....errors import FedcliError
from ..described import listed
from ..division import divided
from ..drawing import picture, save, table
from ..formats.photographs import PHOTOGRAPHS, files_of, photograph
from ..source import Choices, Listing, Source
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
HAM, CENTERS = "HAM10000_metadata.csv", "ham10000_fedisic2019.csv"
TRUTH = "ISIC2018_Task3_Training_GroundTruth.csv"
GROUPINGS = "ISIC2018_Task3_Training_LesionGroupings.csv"
FOLDERS = (
    "images",
    "HAM10000_images_part_1",
    "HAM10000_images_part_2",
    "ISIC2018_Task3_Training_Input",
    ".",
)


def rows(raw: Path, choices: Choices) -> Listing:
    """Every listed image that is there, with what the tables say about it."""
    found, tables = read_ham(raw) if (raw / HAM).is_file() else read_task3(raw)
    found = _checked(found, raw / tables[0]).sort_values("image_id")
    if choices.split == "official":
        _check_official(found, raw)
    files = files_of(raw, FOLDERS, PHOTOGRAPHS, lambda path: path.stem)
    facts = found.rename(columns={"image_id": "id", "lesion_id": "patient"})
    facts = facts.assign(
        label=facts.dx.map(CLASSES.index),
        file=facts.id.map(files),
        test=facts.get("fold") == "test",
    )
    absent = f"listed in {tables[0]}, in none of the image folders"
    listing = listed(facts, _attributes(found), tables, patient="lesion_id", absent=absent)
    if choices.split in ("lesion", "folds") and (
        alone := [row.id for row in listing.rows if not row.patient]
    ):
        hint = f"put {GROUPINGS} beside the table, or use --split image"
        raise FedcliError(f"{raw} does not say which lesion {alone[0]} shows", hint)
    return divided(listing, choices)


def read_ham(raw: Path) -> tuple[DataFrame, list[str]]:
    """Harvard Dataverse's table, with hospitals and folds where they lie beside it."""
    text = dict.fromkeys(["image_id", "lesion_id", "dx", "sex"], str)
    table = read_table(raw / HAM, ["lesion_id", "image_id", "dx", "age", "sex"], dtype=text)
    table["age"] = age_bands(table.age)
    if not (raw / CENTERS).is_file():
        return table.rename(columns={"dataset": "center"}), [HAM]
    columns = {"image_id": "image_id", "dataset": "center", "fold": "fold"}
    centers = read_table(raw / CENTERS, columns, dtype=str).drop_duplicates("image_id")
    return table.drop(columns=["dataset"], errors="ignore").merge(
        centers, on="image_id", how="left"
    ), [HAM, CENTERS]


def read_task3(raw: Path) -> tuple[DataFrame, list[str]]:
    """The ISIC archive's one-hot table, with lesions where they lie beside it."""
    first_of(raw, (HAM, TRUTH), "give the folder with the table; see fedcli datasets isic2018")
    columns = [name.upper() for name in CLASSES]
    table = read_table(raw / TRUTH, ["image", *columns], dtype={"image": str}).rename(
        columns={"image": "image_id"}
    )
    table["dx"] = [CLASSES[k] for k in one_hot(raw / TRUTH, table, columns, "image_id")]
    if not (raw / GROUPINGS).is_file():
        return table[["image_id", "dx"]], [TRUTH]
    lesions = read_table(
        raw / GROUPINGS, {"image": "image_id", "lesion_id": "lesion_id"}, dtype=str
    )
    table = table[["image_id", "dx"]].merge(
        lesions.drop_duplicates("image_id"), on="image_id", how="left"
    )
    return table, [TRUTH, GROUPINGS]


def _checked(table: DataFrame, path: Path) -> DataFrame:
    """Each image once. Raises FedcliError for one with two labels or an unknown one."""
    table = table.drop_duplicates(["image_id", "dx"])
    check_values(path, table.image_id, table.dx, CLASSES, noun="unknown class")
    if (twice := table.image_id.duplicated()).any():
        id = table.image_id[twice].iloc[0]
        labels = " and ".join(table.dx[table.image_id == id].astype(str))
        raise FedcliError(
            f"{path}: {id} has two labels, {labels}", "keep the right one of the two rows"
        )
    return table


def _attributes(table: DataFrame) -> dict[str, list[str]]:
    centers = sorted(table.center.dropna().unique()) if "center" in table else []
    offered = {"sex": SEXES, "age": AGE_BANDS, "center": centers}
    return {name: values for name, values in offered.items() if name in table and values}


def _check_official(table: DataFrame, raw: Path) -> None:
    """Refuse a table without FLamby's folds."""
    if "fold" not in table:
        raise FedcliError(
            f"{raw} has no {CENTERS}, which holds the official fold", "use --split lesion or image"
        )
    if (missing := ~table.fold.isin(["train", "test"])).any():
        raise FedcliError(
            f"{raw / CENTERS} has no fold for {table.image_id[missing].iloc[0]}",
            "use --split lesion",
        )


# the synthetic sample

HOSPITALS = {"vidir_molemax": 1, "vidir_modern": 2, "rosendahl": 3, "vienna_dias": 5}
TYPES = ["histo", "follow_up", "consensus", "confocal"]
PLACES = ["back", "lower extremity", "trunk", "upper extremity", "face", "scalp", "unknown"]
HARVARD = ["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"]
FLAMBY = [*HARVARD, "dataset", "target", "center", "fold", "fold2"]
EACH = 10  # images per class


def sample(folder: Path) -> None:
    """70 images of 63 lesions, Harvard's table, and FLamby's with hospitals and folds."""
    records = [_record(i) for i in range(EACH * len(CLASSES))]
    table(folder / HAM, HARVARD, [record[: len(HARVARD)] for record in records])
    table(folder / CENTERS, FLAMBY, sorted(records, key=lambda record: record[1]))
    for i, (_, image, *_) in enumerate(records):
        part = folder / f"HAM10000_images_part_{1 + i % 2}"
        save(part / f"{image}.jpg", picture(image, i // EACH, tint=0.5 * (i % EACH < 2)))


def _record(i: int) -> list:
    """A line of FLamby's table; it begins with Harvard's. Both images of a class's first lesion are in both folds."""
    label, k = divmod(i, EACH)
    lesion, image = f"HAM_{i - (k == 1):07d}", f"ISIC_{24306 + 3 * i % 70:07d}"
    age = "" if k == 5 else f"{25 + 5 * (3 * i % 11)}.0"
    sex = "unknown" if k == 5 else ("male", "female")[i % 2]
    name = list(HOSPITALS)[(i // 2) % 4]
    target = (
        7 if CLASSES[label] == "akiec" and k > 5 else label
    )  # ISIC 2019's number, of whose SCC are some of akiec
    center = HOSPITALS[name]
    fold = "test" if k in (1, 9) else "train"
    columns = [TYPES[i % 4], age, sex, PLACES[i % 7]]
    return [lesion, image, CLASSES[label], *columns, name, target, center, fold, f"{fold}_{center}"]


SOURCE = Source(rows, photograph, sample, per_file=True)
