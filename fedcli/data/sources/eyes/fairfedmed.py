"""FairFedMed-Oph: glaucoma or not, from a fundus photograph (SLO) or an OCT volume, with six attributes a patient.

Source: Li, Wen, Tian et al., FairFedMed and FairLoRA, IEEE TMI 2025, arXiv 2508.00873. Labels and attributes are the
integer codes inside each npz file, as the authors' code reads them; the tables say which files belong to which site
and part, and fill in what a file lacks. Sites are made by the authors, another three for each attribute.

What differs from the authors' code:
    * nothing is unpickled, and no volume is inflated for its attributes or its shape;
    * images are brought to size once, areas averaged when shrinking and cubics fitted when enlarging, on uint8; the
      authors use scikit-image's linear resize on floats, with a Gaussian before shrinking. An SLO is transposed
      first and of a volume every fourth B-scan is taken, as by them;
    * patients whose attribute is unknown stay, as group -1, since they too are patients to be served. The authors drop
      those whose chosen attribute is unknown from train and test: --set unknown=drop.
"""

import io
import math
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from .... import console
from ....errors import FedcliError
from ....seeds import derive
from ....system import processes
from ...pool import Row
from ..division import divided
from ..drawing import scan, table
from ..formats.npy_header import read_header
from ..formats.photographs import within
from ..source import (
    Choices,
    Listing,
    Source,
    Unreadable,
    check_regular,
    checked_channels,
    unreadable,
)
from ..tables import AGE_BANDS, age_band, check_once, place, read_table

CODED = {  # attribute -> values in the order of their codes; -1 is unknown
    "race": ["asian", "black", "white"],
    "language": ["english", "spanish", "other"],
    "ethnicity": ["non-hispanic", "hispanic"],
    "gender": ["female", "male"],
    "marital_status": [
        "married or partnered",
        "single",
        "divorced",
        "widowed",
        "legally separated",
    ],
}
LABEL = "glaucoma"
MEMBERS = {
    name: name.replace("_", "") for name in [LABEL, *CODED, "age"]
}  # in the npz files and in the tables
TEXTS = {LABEL: ["no", "yes"], **CODED}  # in the tables
COUNTS = {MEMBERS[name]: len(values) for name, values in TEXTS.items()}
SITES = ["site1", "site2", "site3"]
SPELLINGS = {"others": "other", "separated": "legally separated", "married": "married or partnered"}
SPELLINGS |= {"hispanic or latino": "hispanic", "not hispanic": "non-hispanic"}
UNKNOWN = "", "unknown", "nan", "-1"

SLO_MEMBER, OCT_MEMBER = "slo_fundus", "oct_bscans"
STEP, SLICES = 4, 32  # every fourth of 128 B-scans
MOST = 2**27  # numbers in an image; 128 B-scans of 1024 x 1024
FOLDER, ALL = "all", "meta_all.csv"


class Listed(NamedTuple):
    """Facts of the tables about one npz file."""

    site: int  # place in SITES, -1 where no table tells
    test: bool
    table: dict[str, str]  # column -> text


def rows(member: str, raw: Path, choices: Choices) -> Listing:
    """Every listed patient whose file has this member, with label and attributes from the file."""
    checked_channels(SLICES if member == OCT_MEMBER else 1, choices, "B-scans")
    home = raw / "fairfedmed" if (raw / "fairfedmed").is_dir() else raw
    if not (home / FOLDER).is_dir():
        raise FedcliError(
            f"{home} has no folder {FOLDER!r}", f"give the folder that holds {FOLDER}/ and {ALL}"
        )
    listed, tables = _listed(home, choices)
    for name in listed:
        within(home / FOLDER, name)
    there = {entry.name for entry in os.scandir(home / FOLDER)} & {*listed}
    names, inside = sorted(there), (home / FOLDER).relative_to(raw).as_posix()
    read: Callable[[str], str | dict[str, int]] = partial(_read, home / FOLDER, member)
    codes = processes.in_order(read, names, label="reading attributes", jobs=choices.jobs)
    skipped = [
        (f"{inside}/{name}", "listed in the tables, not in the folder")
        for name in {*listed} - there
    ]
    patients: list[Row] = []
    differ: Counter[str] = Counter()
    for name, by_file in zip(names, codes, strict=True):
        source, by_table = f"{inside}/{name}", _by_table(listed[name].table)
        groups = (
            dict.fromkeys(MEMBERS, -1) | by_table | (by_file if isinstance(by_file, dict) else {})
        )
        if (label := groups.pop(LABEL)) < 0 or isinstance(by_file, str):
            skipped.append(
                (source, by_file if isinstance(by_file, str) else "its glaucoma label is unknown")
            )
            continue
        differ.update(key for key in by_file.keys() & by_table if by_file[key] != by_table[key])
        groups["site"] = listed[name].site
        patients.append(Row(Path(source).stem, label, source, listed[name].test, groups))
    if differ:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(differ.items()))
        console.say(f"the tables differ from the npz files, which count: {counts}")
    if choices.own["unknown"] == "drop":
        attribute, count = choices.own["sites"], len(patients)
        patients = [row for row in patients if row.groups[attribute] >= 0]
        console.say(f"left out {count - len(patients)} patients whose {attribute} is unknown")
    attributes = {**CODED, "age": AGE_BANDS, "site": SITES}
    if all(row.groups["site"] < 0 for row in patients):
        del attributes["site"]
    names = [table.relative_to(raw).as_posix() for table in tables]
    return divided(Listing(patients, attributes, None, names, sorted(skipped)), choices)


def decode(member: str, raw: Path, row: Row, choices: Choices) -> np.ndarray:
    """uint8 [W, H, 1] of an SLO, transposed as by the authors, or [H, W, 32] of a volume."""
    with _opened(raw / row.source) as data:
        array = data[member]
    return np.ascontiguousarray(
        array.T[..., None] if member == SLO_MEMBER else np.moveaxis(array[::STEP], 0, -1)
    )


def _listed(home: Path, choices: Choices) -> tuple[dict[str, Listed], list[Path]]:
    """File name -> what the tables tell, and the tables."""
    ends = "", "_train", "_test"
    whole, train, test = (
        [home / f"meta_{site}_{choices.own['sites']}{end}.csv" for site in SITES] for end in ends
    )
    if choices.split == "official":
        if absent := [path for path in train + test if not path.is_file()]:
            raise FedcliError(f"{home} has no {absent[0].name}", f"--split image needs {ALL} alone")
        return _together([*enumerate(train), *enumerate(test)], test), train + test
    if not (home / ALL).is_file():
        raise FedcliError(
            f"{home} has no {ALL}", "download it, or use --split official with the sites' tables"
        )
    places = [[whole[k]] if whole[k].is_file() else [train[k], test[k]] for k in range(len(SITES))]
    used = [(site, path) for site, paths in enumerate(places) for path in paths if path.is_file()]
    sites = {name: of.site for name, of in _together(used, []).items()}
    listed = {
        name: Listed(sites.get(name, -1), False, table) for name, table in _records(home / ALL)
    }
    return listed, [home / ALL, *(path for _, path in used)]


def _together(tables: list[tuple[int, Path]], test: list[Path]) -> dict[str, Listed]:
    """File name -> what one of the tables of sites tells. Raises FedcliError where two of them list a file."""
    listed: dict[str, Listed] = {}
    for site, path in tables:
        new = {name: Listed(site, path in test, table) for name, table in _records(path)}
        if both := listed.keys() & new.keys():
            hint = "a patient belongs to one site, and to train or test; download the tables again"
            raise FedcliError(
                f"{path} lists {min(both)}, which another site or part lists too", hint
            )
        listed |= new
    return listed


def _records(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(file name, column -> text) of each line. Raises FedcliError where a file is listed twice."""
    table = read_table(path, ["filename"], dtype=str, keep_default_na=False)
    check_once(path, table.filename, "keep one of the two lines")
    return zip(table.filename, table.to_dict("records"), strict=True)


def _read(folder: Path, member: str, name: str) -> dict[str, int] | str:
    """Label and attributes -> place in an npz file, or why it cannot be used."""
    try:
        with _opened(folder / name) as data:
            if why := _unfit(data, member):
                return why
            codes = {name: _scalar(data, key) for name, key in MEMBERS.items() if key in data.files}
            return {
                name: _age(code) if name == "age" else int(code) for name, code in codes.items()
            }
    except Unreadable as error:
        return str(error)


@contextmanager
def _opened(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """An npz file whose members are read when asked for. What goes wrong inside is raised as Unreadable."""
    check_regular(path)
    try:
        with path.open("rb") as file:  # opened here, since numpy leaves a broken archive open
            if not zipfile.is_zipfile(file):
                raise Unreadable("is no npz archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as data:
                yield data
    except Unreadable:
        raise
    except (
        Exception
    ) as error:  # broken archives raise BadZipFile, zlib.error, ValueError, EOFError and more
        raise unreadable(error, path) from error


def _unfit(data: np.lib.npyio.NpzFile, member: str) -> str:
    """The reason why a file's image cannot be used, by its header alone; "" if it can."""
    if member not in data.files:
        return f"has no {member}"
    shape, kind = _header(data, member)
    if 0 in shape:
        return f"its {member} is empty"
    if math.prod(shape) > MOST:
        return f"its {member} claims {' x '.join(map(str, shape))} numbers, which is no image of an eye"
    if kind != np.uint8 or len(shape) != (2 if member == SLO_MEMBER else 3):
        return f"its {member} is {kind} {list(shape)}, expected uint8 with {2 if member == SLO_MEMBER else 3} axes"
    if member == OCT_MEMBER and len(range(0, shape[0], STEP)) != SLICES:
        return f"its {member} has {shape[0]} B-scans, expected {STEP * SLICES}"
    return ""


def _header(data: np.lib.npyio.NpzFile, key: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of a member, from its first bytes."""
    with cast(zipfile.ZipFile, data.zip).open(f"{key}.npy") as file:
        shape, _, kind = read_header(file)
    return shape, kind


def _scalar(data: np.lib.npyio.NpzFile, key: str) -> float:
    """A member that is one number; NaN is kept. Its header is asked first, so that nothing large is inflated."""
    shape, kind = _header(data, key)
    if kind.kind not in "biuf" or any(side != 1 for side in shape):
        raise Unreadable(f"its {key} is {kind} {list(shape)}, expected one number")
    value = float(data[key].item())
    if key in COUNTS and value not in range(-1, COUNTS[key]):
        raise Unreadable(f"its {key} is {value:g}, expected -1 to {COUNTS[key] - 1}")
    return value


def _by_table(table: dict[str, str]) -> dict[str, int]:
    """Label and attributes -> place, without those that a table does not tell or spells in a way not known here."""
    groups = {}
    for name, key in MEMBERS.items():
        text = table.get(key, "?").strip().lower()
        text = SPELLINGS.get(text, text)
        if name == "age" and text.replace(".", "", 1).isdecimal():
            groups[name] = _age(float(text))
        elif text in TEXTS.get(name, []) or (text in UNKNOWN and name != LABEL):
            groups[name] = place(text, TEXTS.get(name, []))
    return groups


def _age(years: float) -> int:
    return -1 if years < 0 else place(age_band(years), AGE_BANDS)


# the synthetic sample

PATIENTS = 72
HEAD = [
    "",
    "filename",
    "age",
    "gender",
    "race",
    "ethnicity",
    "language",
    "maritalstatus",
    "glaucoma",
]
SPELT = {
    MEMBERS[name]: [*values, "unknown"] for name, values in TEXTS.items()
}  # the last is for -1
ORIGINS = "fairdomain_cls_data", "harvard30kglaucoma_data", "fairclip_data"
SITED = "race", "language", "ethnicity"
ODD = {"empty SLO": 5, "empty OCT": 8, "other gender": 11}  # patients with something amiss


def sample(folder: Path) -> None:
    """Npz files with both kinds of image, and another three sites for each attribute."""
    home, lines = folder / "fairfedmed", []
    (home / FOLDER).mkdir(parents=True, exist_ok=True)
    for n in range(PATIENTS):
        code = _codes(n)
        name = f"{ORIGINS[n % 3]}_{n:05d}.npz"
        _write(home / FOLDER / name, {**_images(n, code), **code, "age": 20 + n % 70})
        texts = {key: SPELT[key][value] for key, value in code.items()}
        if n == ODD["other gender"]:
            texts["gender"] = SPELT["gender"][1 - code["gender"]]
        lines.append([n, name, 20 + n % 70, *(texts[key] for key in HEAD[3:])])
    table(home / ALL, HEAD, lines)
    for attribute in SITED:
        order = (
            np.random.default_rng(derive("fairfedmed", attribute)).permutation(PATIENTS).tolist()
        )
        for site in range(3):
            own = order[site::3]
            parts = {"": own, "_train": own[: len(own) * 2 // 3], "_test": own[len(own) * 2 // 3 :]}
            for ending, members in parts.items():
                table(
                    home / f"meta_site{site + 1}_{attribute}{ending}.csv",
                    HEAD,
                    [lines[n] for n in members],
                )


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
    slo = scan(f"slo-{n}", code["glaucoma"], height=32, width=24)  # [H, W]
    scans = [scan(f"oct-{n}-{k}", code["glaucoma"], height=20, width=20) for k in range(4)]
    volume = np.stack(scans).repeat(32, 0)  # [128, 20, 20]
    none = np.empty(0, np.uint8)
    return {
        SLO_MEMBER: none if n == ODD["empty SLO"] else slo,
        OCT_MEMBER: none if n == ODD["empty OCT"] else volume,
    }


def _write(path: Path, arrays: dict[str, np.ndarray | int]) -> None:
    """np.savez_compressed, whose archives tell the time, without the time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            file = io.BytesIO()
            np.lib.format.write_array(file, np.asarray(values), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), file.getvalue(), zipfile.ZIP_DEFLATED)


SLO = Source(partial(rows, SLO_MEMBER), partial(decode, SLO_MEMBER), sample)
OCT = Source(partial(rows, OCT_MEMBER), partial(decode, OCT_MEMBER), sample)
