"""FairFedMed-Oph's layout in little: npz files with both kinds of image, and another three sites for each attribute."""

import io
import zipfile
from pathlib import Path

import numpy as np

from ....seeds import derive
from ..drawing import picture, table

PATIENTS = 72
HEAD = ["", "filename", "age", "gender", "race", "ethnicity", "language", "maritalstatus", "glaucoma"]
TEXTS = {  # as the tables spell the codes; the last is for -1
    "gender": ["female", "male", "unknown"],
    "race": ["asian", "black", "white", "unknown"],
    "ethnicity": ["non-hispanic", "hispanic", "unknown"],
    "language": ["english", "spanish", "other", "unknown"],
    "maritalstatus": ["married or partnered", "single", "divorced", "widowed", "legally separated", "unknown"],
    "glaucoma": ["no", "yes"],
}
ORIGINS = "fairdomain_cls_data", "harvard30kglaucoma_data", "fairclip_data"
SITED = "race", "language", "ethnicity"
ODD = {"empty SLO": 5, "empty OCT": 8, "other gender": 11}  # patients with something amiss


def make(folder: Path) -> None:
    home, lines = folder / "fairfedmed", []
    (home / "all").mkdir(parents=True, exist_ok=True)
    for n in range(PATIENTS):
        code = _codes(n)
        name = f"{ORIGINS[n % 3]}_{n:05d}.npz"
        _write(home / "all" / name, {**_images(n, code), **code, "age": 20 + n % 70})
        texts = {key: TEXTS[key][value] for key, value in code.items()}
        if n == ODD["other gender"]:
            texts["gender"] = TEXTS["gender"][1 - code["gender"]]
        lines.append([n, name, 20 + n % 70, *(texts[key] for key in HEAD[3:])])
    table(home / "meta_all.csv", HEAD, lines)
    for attribute in SITED:
        order = np.random.default_rng(derive("fairfedmed", attribute)).permutation(PATIENTS).tolist()
        for site in range(3):
            own = order[site::3]
            parts = {"": own, "_train": own[: len(own) * 2 // 3], "_test": own[len(own) * 2 // 3 :]}
            for ending, members in parts.items():
                table(home / f"meta_site{site + 1}_{attribute}{ending}.csv", HEAD, [lines[n] for n in members])


def _codes(n: int) -> dict[str, int]:
    """A patient's codes: every value on both sides of the split, and some that are unknown."""
    return {
        "glaucoma": n % 2,
        "race": n // 2 % 3,
        "language": [0, 1, 2, 0, -1][n % 5],
        "ethnicity": [0, 0, 1, -1][n // 5 % 4],
        "gender": n // 3 % 2,
        "maritalstatus": [0, 1, 2, 3, 4, -1][n // 7 % 6],
    }


def _images(n: int, code: dict[str, int]) -> dict[str, np.ndarray]:
    slo = picture(f"slo-{n}", code["glaucoma"], height=32, width=24)[..., 0]  # [H, W]
    scans = [picture(f"oct-{n}-{k}", code["glaucoma"], height=20, width=20)[..., 0] for k in range(4)]
    volume = np.stack(scans).repeat(32, 0)  # [128, 20, 20]
    none = np.empty(0, np.uint8)
    return {
        "slo_fundus": none if n == ODD["empty SLO"] else slo,
        "oct_bscans": none if n == ODD["empty OCT"] else volume,
    }


def _write(path: Path, arrays: dict[str, np.ndarray | int]) -> None:
    """np.savez_compressed, whose archives tell the time, without the time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            file = io.BytesIO()
            np.lib.format.write_array(file, np.asarray(values), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), file.getvalue(), zipfile.ZIP_DEFLATED)
