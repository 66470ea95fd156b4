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

import math
import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from .... import console
from ....errors import FedcliError, UsageError
from ....system import processes
from ...pool import Row
from ..division import divided
from ..formats.photographs import within
from ..source import Choices, Listing, Source, Unreadable, unreadable
from ..tables import AGE_BANDS, age_band, check_once, place, read_table
from . import fairfedmed_sample as sample

CLASSES = ["no glaucoma", "glaucoma"]
CODED = {  # attribute -> values in the order of their codes; -1 is unknown
    "race": ["asian", "black", "white"],
    "language": ["english", "spanish", "other"],
    "ethnicity": ["non-hispanic", "hispanic"],
    "gender": ["female", "male"],
    "marital_status": ["married or partnered", "single", "divorced", "widowed", "legally separated"],
}
MEMBERS = {name: name.replace("_", "") for name in [*CODED, "age"]}  # in the npz files and in the tables
COUNTS = {"glaucoma": len(CLASSES), **{MEMBERS[name]: len(values) for name, values in CODED.items()}}
SITES = ["site1", "site2", "site3"]
SPELLINGS = {"others": "other", "separated": "legally separated", "married": "married or partnered"}
SPELLINGS |= {"hispanic or latino": "hispanic", "not hispanic": "non-hispanic"}
UNKNOWN = "", "unknown", "nan", "-1"

SLO_MEMBER, OCT_MEMBER = "slo_fundus", "oct_bscans"
STEP, SLICES = 4, 32  # every fourth of 128 B-scans
MOST = 2**27  # numbers in an image; 128 B-scans of 1024 x 1024
FOLDER, ALL = "all", "meta_all.csv"


@dataclass(frozen=True)
class Listed:
    """Facts of the tables about one npz file.

    Attributes:
        site: place in SITES, -1 where no table tells.
        table: column -> text.
    """

    site: int
    test: bool
    table: dict[str, str]


def rows(member: str, raw: Path, choices: Choices) -> Listing:
    """Every listed patient whose file has this member, with label and attributes from the file."""
    if choices.clahe and member == OCT_MEMBER:
        raise UsageError(f"--clahe takes grey or colour images, not {SLICES} B-scans", "leave --clahe out")
    home = raw / "fairfedmed" if (raw / "fairfedmed").is_dir() else raw
    if not (home / FOLDER).is_dir():
        raise FedcliError(f"{home} has no folder {FOLDER!r}", f"give the folder that holds {FOLDER}/ and {ALL}")
    listed, tables = _listed(home, choices)
    for name in listed:
        within(home / FOLDER, name)
    there = {entry.name for entry in os.scandir(home / FOLDER)} & {*listed}
    names, inside = sorted(there), (home / FOLDER).relative_to(raw).as_posix()
    read = partial(_read, home / FOLDER, member)
    codes: Iterator[str | dict[str, float]] = processes.in_order(
        read, names, label="reading attributes", jobs=choices.jobs
    )
    skipped = [(f"{inside}/{name}", "listed in the tables, not in the folder") for name in {*listed} - there]
    patients: list[Row] = []
    differ: Counter[str] = Counter()
    for name, code in zip(names, codes, strict=True):
        row = code if isinstance(code, str) else _row(f"{inside}/{name}", listed[name], code)
        if isinstance(row, str) or isinstance(code, str):
            skipped.append((f"{inside}/{name}", str(row)))
            continue
        differ.update(_differing(code, listed[name].table))
        patients.append(row)
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
    return np.ascontiguousarray(array.T[..., None] if member == SLO_MEMBER else np.moveaxis(array[::STEP], 0, -1))


def _listed(home: Path, choices: Choices) -> tuple[dict[str, Listed], list[Path]]:
    """File name -> what the tables tell, and the tables."""
    parts = {part: _site_tables(home, choices, f"_{part}") for part in ("train", "test")}
    if choices.split == "official":
        files = [path for paths in parts.values() for path in paths]
        if absent := [path for path in files if not path.is_file()]:
            raise FedcliError(f"{home} has no {absent[0].name}", f"--split image needs {ALL} alone")
        listed: dict[str, Listed] = {}
        for part, tables in parts.items():
            for site, path in enumerate(tables):
                listed = _joined(listed, {n: Listed(site, part == "test", t) for n, t in _records(path)}, path)
        return listed, files
    if not (home / ALL).is_file():
        raise FedcliError(f"{home} has no {ALL}", "download it, or use --split official with the sites' tables")
    whole = _site_tables(home, choices, "")
    used = [home / ALL]
    sites: dict[str, int] = {}
    for site in range(len(SITES)):
        for path in [whole[site]] if whole[site].is_file() else [by_site[site] for by_site in parts.values()]:
            if path.is_file():
                sites = _joined(sites, {name: site for name, _ in _records(path)}, path)
                used.append(path)
    return {name: Listed(sites.get(name, -1), False, table) for name, table in _records(home / ALL)}, used


def _site_tables(home: Path, choices: Choices, ending: str) -> list[Path]:
    return [home / f"meta_{site}_{choices.own['sites']}{ending}.csv" for site in SITES]


def _records(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(file name, column -> text) of each line. Raises FedcliError where a file is listed twice."""
    table = read_table(path, ["filename"], dtype=str, keep_default_na=False)
    check_once(path, table.filename, "keep one of the two lines")
    return zip(table.filename, table.to_dict("records"), strict=True)


def _joined(known: dict, new: dict, path: Path) -> dict:
    if both := known.keys() & new.keys():
        hint = "a patient belongs to one site, and to train or test; download the tables again"
        raise FedcliError(f"{path} lists {min(both)}, which another site or part lists too", hint)
    return known | new


def _read(folder: Path, member: str, name: str) -> dict[str, float] | str:
    """The codes in an npz file by member, or why it cannot be used."""
    try:
        with _opened(folder / name) as data:
            if why := _unfit(data, member):
                return why
            return {key: _scalar(data, key) for key in ["glaucoma", *MEMBERS.values()] if key in data.files}
    except Unreadable as error:
        return str(error)


@contextmanager
def _opened(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    """An npz file whose members are read when asked for. What goes wrong inside is raised as Unreadable."""
    if not path.is_file():
        raise Unreadable("no such file" if not path.exists() else "not a regular file")
    try:
        with path.open("rb") as file:  # opened here, since numpy leaves a broken archive open
            if not zipfile.is_zipfile(file):
                raise Unreadable("is no npz archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as data:
                yield data
    except Unreadable:
        raise
    except Exception as error:  # broken archives raise BadZipFile, zlib.error, ValueError, EOFError and more
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
        if (version := np.lib.format.read_magic(file)) != (1, 0):  # later ones are for headers of more than 64 KB
            raise Unreadable(f"its {key} has a header of version {version}")
        shape, _, kind = np.lib.format.read_array_header_1_0(file)
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


def _row(source: str, listed: Listed, code: dict[str, float]) -> Row | str:
    """A patient, or why there is no label."""
    label = int(code["glaucoma"]) if "glaucoma" in code else _label_by_table(listed.table)
    if label < 0:
        return "its glaucoma label is unknown"
    groups = dict.fromkeys(MEMBERS, -1) | _by_table(listed.table) | _by_file(code)  # the file counts before the table
    return Row(Path(source).stem, label, source, listed.test, groups | {"site": listed.site})


def _label_by_table(table: dict[str, str]) -> int:
    return place(table.get("glaucoma", "").strip().lower(), ["no", "yes"])


def _by_file(code: dict[str, float]) -> dict[str, int]:
    groups = {name: int(code[key]) for name, key in MEMBERS.items() if name in CODED and key in code}
    return groups | ({"age": _age(code["age"])} if "age" in code else {})


def _by_table(table: dict[str, str]) -> dict[str, int]:
    """Attribute -> place, without those that a table does not tell or spells in a way not known here."""
    groups = {}
    for name, key in MEMBERS.items():
        text = table.get(key, "?").strip().lower()
        text = SPELLINGS.get(text, text)
        if name == "age" and text.replace(".", "", 1).isdecimal():
            groups[name] = _age(float(text))
        elif text in UNKNOWN or text in CODED.get(name, []):
            groups[name] = place(text, CODED.get(name, []))
    return groups


def _age(years: float) -> int:
    return -1 if years < 0 else place(age_band(years), AGE_BANDS)


def _differing(code: dict[str, float], table: dict[str, str]) -> list[str]:
    """Facts that file and table both tell, but not alike."""
    by_file, by_table = _by_file(code), _by_table(table)
    differ = [name for name in MEMBERS if by_file.get(name) != by_table.get(name) and name in by_file.keys() & by_table]
    label = _label_by_table(table)
    return differ + ["glaucoma"] * ("glaucoma" in code and label not in (-1, code["glaucoma"]))


SLO = Source(partial(rows, SLO_MEMBER), partial(decode, SLO_MEMBER), sample.make)
OCT = Source(partial(rows, OCT_MEMBER), partial(decode, OCT_MEMBER), sample.make)
