"""HAM10000's layout in little: 70 images of 63 lesions, Harvard's table, and FLamby's with hospitals and folds."""

from pathlib import Path

from ..sources.drawing import picture, save, table

CLASSES = ["mel", "nv", "bcc", "akiec", "bkl", "df", "vasc"]
TARGETS = [0, 1, 2, 3, 4, 5, 6]  # ISIC 2019's numbers; its seventh, SCC, is 7 for some of akiec
CENTERS = {"vidir_molemax": 1, "vidir_modern": 2, "rosendahl": 3, "vienna_dias": 5}
TYPES = ["histo", "follow_up", "consensus", "confocal"]
PLACES = ["back", "lower extremity", "trunk", "upper extremity", "face", "scalp", "unknown"]
HARVARD = ["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"]
FLAMBY = [*HARVARD, "dataset", "target", "center", "fold", "fold2"]
EACH = 10  # images per class


def make(folder: Path) -> None:
    records = [_record(i) for i in range(EACH * len(CLASSES))]
    table(folder / "HAM10000_metadata.csv", HARVARD, [record[: len(HARVARD)] for record in records])
    table(folder / "ham10000_fedisic2019.csv", FLAMBY, sorted(records, key=lambda record: record[1]))
    for i, (_, image, *_) in enumerate(records):
        part = folder / f"HAM10000_images_part_{1 + i % 2}"
        save(part / f"{image}.jpg", picture(image, i // EACH, tint=0.5 * (i % EACH < 2)))


def _record(i: int) -> list:
    """A line of FLamby's table; it begins with Harvard's. Both images of a class's first lesion are in both folds."""
    label, k = divmod(i, EACH)
    lesion, image = f"HAM_{i - (k == 1):07d}", f"ISIC_{24306 + 3 * i % 70:07d}"
    age = "" if k == 5 else f"{25 + 5 * (3 * i % 11)}.0"
    sex = "unknown" if k == 5 else ("male", "female")[i % 2]
    name = list(CENTERS)[(i // 2) % 4]
    target, center = 7 if CLASSES[label] == "akiec" and k > 5 else TARGETS[label], CENTERS[name]
    fold = "test" if k in (1, 9) else "train"
    columns = [TYPES[i % 4], age, sex, PLACES[i % 7]]
    return [lesion, image, CLASSES[label], *columns, name, target, center, fold, f"{fold}_{center}"]
