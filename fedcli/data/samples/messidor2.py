"""Messidor-2 in little, as Kaggle's messidor2preprocess has it: one table, and a folder of .png and .JPG."""

from pathlib import Path

from ..sources.drawing import picture, save, table

HEAD = ["id_code", "diagnosis", "adjudicated_dme", "adjudicated_gradable"]
GRADES = [16, 12, 12, 10, 10]  # images of grade 0 to 4
FOLDER = Path("messidor-2", "messidor-2", "preprocess")


def make(folder: Path) -> None:
    rows = []
    for grade, count in enumerate(GRADES):
        for k in range(count):
            place = 100 * grade + k
            old = k % 3 == 2  # names of the first Messidor: .jpg in the table, .JPG on disk
            stem = f"IM{place:06d}" if old else f"20051020_{43000 + place}_0100_PP"
            rows.append([f"{stem}.{'jpg' if old else 'png'}", grade, int(grade > 1 and k % 2), 1])
            save(folder / FOLDER / f"{stem}.{'JPG' if old else 'png'}", picture(stem, grade, height=32))
    ungradable = "20060411_58550_0200_PP"
    save(folder / FOLDER / f"{ungradable}.png", picture(ungradable, 0, height=32, tint=1))
    table(folder / "messidor_data.csv", HEAD, [*rows, [f"{ungradable}.png", "", "", 0]])
