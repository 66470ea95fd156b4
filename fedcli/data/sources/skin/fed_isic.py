"""Fed-ISIC2019: ISIC 2019 by the six hospitals it came from.

FLamby's table names hospitals and folds.

Source: Ogier du Terrail et al., FLamby, NeurIPS 2022 (arXiv 2210.04620). Its 23,247 images are
those of ISIC 2019 that name a lesion. By default a lesion's images stay together. The split
"official" is FLamby's, drawn image by image within a hospital, so that a lesion may have images on
both sides; published results can be compared with no other.

The split "folds" is our reading of Fed-MAS's five (arXiv 2307.14959), of which only the first is
public: fold 1 tests on the official test part, each other one on a part of the official train part,
cut by class within every hospital. They too are drawn image by image, as the first is, and leak as
it does.
"""

from dataclasses import replace
from pathlib import Path

from .... import console
from ....errors import FedcliError
from ...pool import Row
from ...prepare_options import PrepareOptions
from ..division import divided, fold_rows
from ..drawing import table
from ..formats.photographs import photograph
from ..source import Listing, Source
from ..tables import SEXES, DataFrame, check_values, present, read_table
from . import isic2019
from .isic2019 import BODY, CLASSES, Photograph

# by their numbers in the table
CENTERS = ["BCN", "vidir_molemax", "vidir_modern", "rosendahl", "MSK", "vienna_dias"]
TABLES = [  # FLamby's name first
    "train_test_split",
    "train_test_split.csv",
    "flamby_isic2019_train_test_split.csv",
]
FACTS = ["target", "center", "fold"]


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image of FLamby's table that is there."""
    path = locate(raw)
    images = isic2019.read_tables(raw)
    hospitals = read_hospitals(path)
    skipped = []
    for name in hospitals.index.difference(images.index):
        reason = f"listed in {path.name}, not in {isic2019.TRUTH}"
        skipped.append((f"{name}.jpg", reason))
    outside = len(images.index.difference(hospitals.index))
    if outside:
        count = f"{outside} of {len(images)} images of ISIC 2019"
        console.say(f"{count} have no hospital in {path.name} and are left out")
    images = images.join(hospitals[FACTS], how="inner")
    _check_labels(images, path)
    images = images.assign(test=images.fold == "test")
    return _split(isic2019.collect(raw, images, [path.name], skipped), choices)


def locate(raw: Path) -> Path:
    """FLamby's table, by any of its names.

    Raises FedcliError that names every table that is missing.
    """
    missing = []
    hints = []
    for name in (isic2019.TRUTH, isic2019.METADATA):
        if not (raw / name).is_file():
            missing.append(name)
            hints = ["give the folder with the ISIC archive's two tables of 2019"]
    path = present(raw, TABLES)
    if path and not missing:
        return path
    if not path:
        missing.append(f"{TABLES[0]}, which names the hospitals")
        folder = "datasets/fed_isic2019/dataset_creation_scripts"
        hints.append(f"put {TABLES[0]} of FLamby's folder {folder} there")
    missing_text = " and no ".join(missing)
    raise FedcliError(f"{raw} has no {missing_text}", ", and ".join(hints))


def read_hospitals(path: Path) -> DataFrame:
    """One line per image, indexed as ISIC's tables are.

    Its columns are image, target, center (a category) and fold.
    """
    from pandas import Categorical

    columns = ["image", *FACTS]
    texts = {"image": str, "fold": str}
    table = read_table(path, columns, dtype=texts)[columns]
    check_values(path, table.image, table.target, range(len(CLASSES)))
    check_values(path, table.image, table.center, range(len(CENTERS)))
    check_values(path, table.image, table.fold, ["train", "test"])
    table["center"] = Categorical.from_codes(table.center.astype(int), CENTERS)
    return isic2019.by_key(table, path.name)


def _check_labels(table: DataFrame, path: Path) -> None:
    is_labelled = table.label >= 0
    is_other = table.label != table.target
    differing = table[is_labelled & is_other]
    if differing.empty:
        return
    line = differing.iloc[0]
    label = f"{CLASSES[line.label]} in {isic2019.TRUTH}"
    target = f"{CLASSES[line.target]} in {path.name}"
    sentence = f"{line.image} is {label} and {target}"
    raise FedcliError(sentence, "download both tables again")


def _split(listing: Listing, choices: PrepareOptions) -> Listing:
    if choices.split in ("lesion", "image"):
        return divided(listing, choices)
    if choices.split == "folds" and choices.fold > 1:
        return replace(listing, rows=_later_fold(listing.rows, choices))
    return listing


def _later_fold(images: list[Row], choices: PrepareOptions) -> list[Row]:
    """Test on one part of the official train part of every hospital, train on all else."""
    whole = choices.completed(choices.own, sample_images=None)
    test = set()
    for center in range(len(CENTERS)):
        train = [row for row in images if row.groups["center"] == center and not row.test]
        for row in fold_rows(train, whole, by_patient=False, other_folds=1):
            if row.test:
                test.add(row.id)
    return [replace(row, test=row.id in test) for row in images]


# the synthetic sample

PREFIXES = {  # hospital by its number -> how its lesions' names begin, and its classes
    0: ("BCN", range(8)),
    1: ("HAM", [0, 1, 4, 5]),
    2: ("HAM", [0, 1, 2, 6]),
    3: ("HAM", [1, 3, 4, 7]),
    4: ("MSK4", [0, 1, 4]),
    5: ("HAM", [0, 1, 4]),
}
EACH = 3  # images of a class in a hospital: in train, train and test
MSK = 4


def sample(folder: Path) -> None:
    """Six hospitals, leaking folds, and two images that name no lesion.

    FLamby knows no hospital of these two.
    """
    lines: list[list] = []
    photographs: list[Photograph] = []
    for center, (prefix, labels) in PREFIXES.items():
        for label in labels:
            for k in range(EACH):
                i = len(photographs)
                image = f"ISIC_{10000 + i:07d}"
                if center == MSK:
                    image += isic2019.SHRUNK
                is_shared = k == 2 and label in (0, 2)  # MEL's and BCC's first and last: one lesion
                lesion = f"{prefix}_{i - 2 if is_shared else i:07d}"
                age = f"{30 + 5 * (i % 10)}.0" if i % 13 else ""
                body_site = BODY[i % 8]
                sex = SEXES[i % 2]
                photograph = Photograph(
                    image,
                    label,
                    age,
                    body_site,
                    lesion,
                    sex,
                )
                photographs.append(photograph)
                fold = "test" if k == 2 else "train"
                facts = [label, center, fold, f"{fold}_{center}"]
                lines.append([image, *isic2019.hot(label), *facts])
    for k in range(2):
        name = f"ISIC_009000{k}{isic2019.SHRUNK}"
        photographs.append(Photograph(name, k, "40.0", "", "", "male"))
    isic2019.write(folder, photographs)
    head = ["image", *CLASSES, isic2019.UNKNOWN, *FACTS, "fold2"]
    sorted_lines = sorted(lines, key=lambda line: (line[0][-1], line[0]))
    table(
        folder / TABLES[0],
        head,
        sorted_lines,
    )


SOURCE = Source(rows, photograph, sample, per_file=True)
