"""ISIC 2019's layout in little on light and dark skin, two images with a bluish cast, and a table of skin types."""

from pathlib import Path

from ..sources.drawing import picture, save, table
from . import isic2019
from .isic2019 import SEXES, SITES, Photograph

BLUISH = 12, 30  # bright skin that Bevan's quotient takes for the darkest type


def make(folder: Path) -> None:
    photographs = [_photograph(i) for i in range(72)]
    isic2019.write(folder, photographs)
    for i in BLUISH:
        p = photographs[i]
        save(folder / isic2019.INPUT / f"{p.image}.jpg", picture(p.image, p.label)[..., ::-1])
    head = ["image_name", "target", "year", "tfrecord", "mclassd", "size", "fitzpatrick"]
    types = [-1 if i == 20 else 6 if p.tint else 2 for i, p in enumerate(photographs)]
    lines = [
        [p.image, int(p.label == 0), 2019, -1, 0, "1024x1024", skin_type]
        for p, skin_type in zip(photographs, types, strict=True)
    ]
    table(folder / "isic_train_20-19-18-17.csv", head, lines)


def _photograph(i: int) -> Photograph:
    """Of nine images of a class four show dark skin."""
    k, label = i % 9, i // 9
    lesion = f"BCN_{i:07d}" if k else ""
    return Photograph(f"ISIC_{i:07d}", label, f"{20 + i}.0", SITES[i % 8], lesion, SEXES[i % 2], tint=float(k > 4))
