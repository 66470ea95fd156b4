"""HyperKvasir's layout in little: 23 folders of five images, the table, and the authors' folds as they spell them."""

import uuid
from pathlib import Path

from ...seeds import derive
from ..sources.drawing import picture, save, table

FOLDERS = {  # as the zip has them
    "lower-gi-tract/anatomical-landmarks": ["cecum", "ileum", "retroflex-rectum"],
    "lower-gi-tract/pathological-findings": [
        *("hemorrhoids", "polyps", "ulcerative-colitis-grade-0-1", "ulcerative-colitis-grade-1"),
        *("ulcerative-colitis-grade-1-2", "ulcerative-colitis-grade-2"),
        *("ulcerative-colitis-grade-2-3", "ulcerative-colitis-grade-3"),
    ],
    "lower-gi-tract/quality-of-mucosal-views": ["bbps-0-1", "bbps-2-3", "impacted-stool"],
    "lower-gi-tract/therapeutic-interventions": ["dyed-lifted-polyps", "dyed-resection-margins"],
    "upper-gi-tract/anatomical-landmarks": ["pylorus", "retroflex-stomach", "z-line"],
    "upper-gi-tract/pathological-findings": ["barretts", "barretts-short-segment", "esophagitis-a", "esophagitis-b-d"],
}
IN_FOLDS = {  # where the authors' folds spell a class in another way
    **{"cecum": "normal-cecum", "pylorus": "normal-pylorus", "z-line": "normal-z-line", "polyps": "polyp"},
    **{"hemorrhoids": "hemorroids", "barretts-short-segment": "short-segment-barretts"},
    **{"esophagitis-a": "oesophagitis-a", "esophagitis-b-d": "oesophagitis-b-d"},
}
ORGANS = {"lower": "Lower GI", "upper": "Upper GI"}
EACH = 5  # images of a class


def make(folder: Path) -> None:
    labels = []
    folds: dict[int, list[list]] = {2: [], 5: []}
    names = sorted(name for classes in FOLDERS.values() for name in classes)
    for place, classes in FOLDERS.items():
        organ, kind = place.split("/")
        for name in classes:
            for k in range(EACH):
                id = str(uuid.UUID(int=derive("hyper-kvasir", name, k) << 64, version=4))
                image = picture(id, names.index(name), tint=0.5 * (organ[0] == "u"))
                save(folder / "labeled-images" / place / name / f"{id}.jpg", image)
                labels.append([id, ORGANS[organ[:5]], name, kind])
                for count, split in folds.items():
                    split.append([f"{id}.jpg", IN_FOLDS.get(name, name), k % count])
    table(folder / "labeled-images/image-labels.csv", ["Video file", "Organ", "Finding", "Classification"], labels)
    for count, split in folds.items():
        path = folder / f"official_splits/{count}_fold_split.csv"
        table(path, ["file-name", "class-name", "split-index"], split, separator=";")
