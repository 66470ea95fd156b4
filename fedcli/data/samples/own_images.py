"""What a folder of your own images may look like: a CSV with hospitals, patients and groups beside photographs."""

from pathlib import Path

from ..sources.drawing import picture, save, table

CLASSES = ["benign", "malignant", "uncertain"]
HEAD = ["image", "label", "sex", "age", "hospital", "patient"]
EACH = 20  # images per class


def make(folder: Path) -> None:
    rows = []
    for i in range(EACH * len(CLASSES)):
        label, k = i // EACH, i % EACH
        name = f"{'north' if i % 2 else 'south'}/image-{i:03d}.{('png', 'jpg', 'tif', 'bmp')[i % 4]}"
        save(folder / name, picture(name, label)[..., : 1 if k == 3 else 3])  # one of a class is grey
        sex, age = ("female", "male", "")[i % 3], "" if k == 5 else str(20 + 7 * i % 70)
        rows.append([name, CLASSES[label], sex, age, name.split("/")[0], f"p{i // 2:02d}"])
    table(folder / "labels.csv", HEAD, rows)
