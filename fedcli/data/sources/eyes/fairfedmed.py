"""FairFedMed-Oph: glaucoma or not, from a fundus photograph (SLO) or an OCT volume.

There are six attributes a patient. Source: Li, Wen, Tian et al., FairFedMed and FairLoRA, IEEE TMI
2025, arXiv 2508.00873. Labels and attributes are the integer codes inside each npz file, as the
authors' code reads them; the tables say which files belong to which site and part, and fill in what
a file lacks. Sites are made by the authors, another three for each attribute.

What differs from the authors' code:
    * nothing is unpickled, and no volume is inflated for its attributes or its shape;
    * images are brought to size once, areas averaged when shrinking and cubics fitted when
      enlarging, on uint8; the authors use scikit-image's linear resize on floats, with a Gaussian
      before shrinking. An SLO is transposed first and of a volume every fourth B-scan is taken, as
      by them;
    * patients whose attribute is unknown stay, as group -1, since they too are patients to be
      served. The authors drop those whose chosen attribute is unknown from train and test:
      --set unknown=drop.
"""

import io
import math
import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy import ndarray
from numpy.lib.npyio import NpzFile

from .... import console
from ....errors import FedcliError
from ....seeds import derive
from ....system import processes
from ...pool import Row
from ...prepare_options import PrepareOptions
from ..division import divided
from ..drawing import scan, table
from ..formats.npy_header import read_header
from ..formats.photographs import within
from ..source import (
    Listing,
    Source,
    Unreadable,
    check_regular,
    checked_channels,
    unreadable,
)
from ..tables import AGE_BANDS, age_band, check_once, home_in, place, read_table

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
TEXTS = {LABEL: ["no", "yes"], **CODED}  # in the tables
# in the npz files and in the tables
MEMBERS = {name: name.replace("_", "") for name in (*TEXTS, "age")}
COUNTS = {MEMBERS[name]: len(values) for name, values in TEXTS.items()}
SITES = ["site1", "site2", "site3"]
SPELLINGS = {
    "others": "other",
    "separated": "legally separated",
    "married": "married or partnered",
    "hispanic or latino": "hispanic",
    "not hispanic": "non-hispanic",
}
UNKNOWN = "", "unknown", "nan", "-1"

SLO_MEMBER = "slo_fundus"
OCT_MEMBER = "oct_bscans"
STEP = 4  # every fourth of 128 B-scans
SLICES = 32
MOST = 2**27  # numbers in an image; 128 B-scans of 1024 x 1024
FOLDER = "all"
ALL = "meta_all.csv"

Codes = dict[str, int]  # the label and the attributes -> place among their values, -1 if unknown


class Listed(NamedTuple):
    """Facts of the tables about one npz file."""

    site: int  # place in SITES, -1 where no table tells
    test: bool
    table: dict[str, str]  # column -> text


def rows(member: str, raw: Path, choices: PrepareOptions) -> Listing:
    """Every listed patient whose file has this member, with label and attributes from the file."""
    checked_channels(SLICES if member == OCT_MEMBER else 1, choices, "B-scans")
    home = home_in(raw, "fairfedmed")
    images = home / FOLDER
    if not images.is_dir():
        hint = f"give the folder that holds {FOLDER}/ and {ALL}"
        raise FedcliError(f"{home} has no folder {FOLDER!r}", hint)
    listed, tables = _listed(home, choices)
    for name in listed:
        within(images, name)
    present = {entry.name for entry in os.scandir(images)}
    names = sorted(present & listed.keys())
    inside = images.relative_to(raw).as_posix()
    skipped = []
    for name in listed.keys() - present:
        skipped.append((f"{inside}/{name}", "listed in the tables, not in the folder"))
    read = partial(_read, images, member)
    codes = processes.in_order(
        read,
        names,
        label="reading attributes",
        jobs=choices.jobs,
    )
    patients = []
    differing: Counter[str] = Counter()
    for name, by_file in zip(names, codes, strict=True):
        file = f"{inside}/{name}"
        if isinstance(by_file, str):
            skipped.append((file, by_file))
            continue
        facts = listed[name]
        by_table = _by_table(facts.table)
        groups = dict.fromkeys(MEMBERS, -1) | by_table | by_file
        label = groups.pop(LABEL)
        if label < 0:
            skipped.append((file, "its glaucoma label is unknown"))
            continue
        for key in by_file.keys() & by_table:
            differing[key] += by_file[key] != by_table[key]
        groups["site"] = facts.site
        patients.append(Row(Path(file).stem, label, file, facts.test, groups))
    _note_differing(differing)
    if choices.own["unknown"] == "drop":
        patients = _without_unknown(patients, choices.own["sites"])
    attributes = {**CODED, "age": AGE_BANDS}
    if any(row.groups["site"] >= 0 for row in patients):
        attributes["site"] = SITES
    table_names = [path.relative_to(raw).as_posix() for path in tables]
    listing = Listing(patients, attributes, None, table_names, sorted(skipped))
    return divided(listing, choices)


def _note_differing(counts: Counter[str]) -> None:
    differing = [f"{name} {count}" for name, count in sorted(counts.items()) if count]
    if differing:
        sentence = "the tables differ from the npz files, which count"
        console.say(f"{sentence}: {', '.join(differing)}")


def _without_unknown(patients: list[Row], attribute: str) -> list[Row]:
    usable = [row for row in patients if row.groups[attribute] >= 0]
    count = len(patients) - len(usable)
    console.say(f"left out {count} patients whose {attribute} is unknown")
    return usable


def decode(
    member: str,
    raw: Path,
    row: Row,
    choices: PrepareOptions,
) -> ndarray:
    """uint8 [W, H, 1] of an SLO, transposed as by the authors, or [H, W, 32] of a volume."""
    with _opened(raw / row.source) as data:
        array = data[member]
    if member == SLO_MEMBER:
        return np.ascontiguousarray(array.T[..., None])
    slices = array[::STEP]
    return np.ascontiguousarray(np.moveaxis(slices, 0, -1))


def _listed(home: Path, choices: PrepareOptions) -> tuple[dict[str, Listed], list[Path]]:
    """File name -> facts of the tables, and the tables."""
    sites = choices.own["sites"]
    train = [home / f"meta_{site}_{sites}_train.csv" for site in SITES]
    test = [home / f"meta_{site}_{sites}_test.csv" for site in SITES]
    if choices.split == "official":
        for path in [*train, *test]:
            if not path.is_file():
                hint = f"--split image needs {ALL} alone"
                raise FedcliError(f"{home} has no {path.name}", hint)
        numbered = [*enumerate(train), *enumerate(test)]
        return _together(numbered, test), [*train, *test]
    if not (home / ALL).is_file():
        hint = "download it, or use --split official with the sites' tables"
        raise FedcliError(f"{home} has no {ALL}", hint)
    tables = []
    for site, name in enumerate(SITES):
        whole = home / f"meta_{name}_{sites}.csv"
        paths = [whole] if whole.is_file() else [train[site], test[site]]
        tables += [(site, path) for path in paths if path.is_file()]
    by_site = _together(tables, [])
    listed = {}
    for name, record in _records(home / ALL):
        site = by_site[name].site if name in by_site else -1
        listed[name] = Listed(site, False, record)
    return listed, [home / ALL, *(path for _, path in tables)]


def _together(tables: list[tuple[int, Path]], test: list[Path]) -> dict[str, Listed]:
    """File name -> facts of one of the tables of sites.

    Raises FedcliError where two of them list a file.
    """
    listed: dict[str, Listed] = {}
    for site, path in tables:
        new = {}
        for name, record in _records(path):
            new[name] = Listed(site, path in test, record)
        both = listed.keys() & new.keys()
        if both:
            sentence = f"{path} lists {min(both)}, which another site or part lists too"
            hint = "a patient belongs to one site, and to train or test; download the tables again"
            raise FedcliError(sentence, hint)
        listed |= new
    return listed


def _records(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(file name, column -> text) of each line.

    Raises FedcliError where a file is listed twice.
    """
    table = read_table(path, ["filename"], dtype=str, keep_default_na=False)
    check_once(path, table.filename, "keep one of the two lines")
    return zip(table.filename, table.to_dict("records"), strict=True)


def _read(folder: Path, member: str, file: str) -> Codes | str:
    """The codes in an npz file, or the reason why it cannot be used."""
    codes: Codes = {}
    try:
        with _opened(folder / file) as data:
            reason = _unfit(data, member)
            if reason:
                return reason
            for name, key in MEMBERS.items():
                if key in data.files:
                    value = _scalar(data, key)
                    codes[name] = _age(value) if name == "age" else int(value)
    except Unreadable as error:
        return str(error)
    return codes


@contextmanager
def _opened(path: Path) -> Iterator[NpzFile]:
    """An npz file whose members are read when asked for.

    Raises Unreadable for all faults inside.
    """
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
    except Exception as error:  # broken archives raise BadZipFile, zlib.error, EOFError and more
        raise unreadable(error, path) from error


def _unfit(data: NpzFile, member: str) -> str:
    """The reason why a file's image cannot be used, by its header alone; "" if it can."""
    if member not in data.files:
        return f"has no {member}"
    shape, kind = _header(data, member)
    if 0 in shape:
        return f"its {member} is empty"
    if math.prod(shape) > MOST:
        sides = " x ".join(map(str, shape))
        return f"its {member} claims {sides} numbers, which is no image of an eye"
    axes = 2 if member == SLO_MEMBER else 3
    if kind != np.uint8 or len(shape) != axes:
        return f"its {member} is {kind} {list(shape)}, expected uint8 with {axes} axes"
    if member == OCT_MEMBER and len(range(0, shape[0], STEP)) != SLICES:
        return f"its {member} has {shape[0]} B-scans, expected {STEP * SLICES}"
    return ""


def _header(data: NpzFile, key: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of a member, from its first bytes."""
    archive = cast(zipfile.ZipFile, data.zip)
    with archive.open(f"{key}.npy") as file:
        shape, _, kind = read_header(file)
    return shape, kind


def _scalar(data: NpzFile, key: str) -> float:
    """A member that is one number; NaN is kept.

    Its header is asked before, so that nothing large is inflated.
    """
    shape, kind = _header(data, key)
    if kind.kind not in "biuf" or set(shape) - {1}:
        raise Unreadable(f"its {key} is {kind} {list(shape)}, expected one number")
    value = float(data[key].item())
    if key in COUNTS and value not in range(-1, COUNTS[key]):
        largest = COUNTS[key] - 1
        raise Unreadable(f"its {key} is {value:g}, expected -1 to {largest}")
    return value


def _by_table(record: dict[str, str]) -> Codes:
    """The codes that a table tells in a spelling that is known here."""
    codes = {}
    for name, key in MEMBERS.items():
        text = record.get(key, "?").strip().lower()
        text = SPELLINGS.get(text, text)
        values = TEXTS.get(name, [])
        if name == "age" and text.replace(".", "", 1).isdecimal():
            codes[name] = _age(float(text))
        elif text in values or (text in UNKNOWN and name != LABEL):
            codes[name] = place(text, values)
    return codes


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
SPELT = {MEMBERS[name]: [*values, "unknown"] for name, values in TEXTS.items()}  # last: of -1
ORIGINS = "fairdomain_cls_data", "harvard30kglaucoma_data", "fairclip_data"
SITED = "race", "language", "ethnicity"
# patients with something amiss
EMPTY_SLO = 5
EMPTY_OCT = 8
OTHER_GENDER = 11


def sample(folder: Path) -> None:
    """Npz files with both kinds of image, and another three sites for each attribute."""
    home = folder / "fairfedmed"
    (home / FOLDER).mkdir(parents=True, exist_ok=True)
    lines = []
    for n in range(PATIENTS):
        codes = _codes(n)
        age = 20 + n % 70
        name = f"{ORIGINS[n % 3]}_{n:05d}.npz"
        images = _images(n, codes[LABEL])
        _write(home / FOLDER / name, {**images, **codes, "age": age})
        texts = {key: SPELT[key][code] for key, code in codes.items()}
        if n == OTHER_GENDER:
            other_gender = 1 - codes["gender"]
            texts["gender"] = SPELT["gender"][other_gender]
        lines.append([n, name, age, *(texts[key] for key in HEAD[3:])])
    table(home / ALL, HEAD, lines)
    for attribute in SITED:
        rng = np.random.default_rng(derive("fairfedmed", attribute))
        order = rng.permutation(PATIENTS)
        for k, site in enumerate(SITES):
            members = [lines[n] for n in order[k::3]]
            cut = len(members) * 2 // 3
            path = f"meta_{site}_{attribute}"
            table(home / f"{path}.csv", HEAD, members)
            table(home / f"{path}_train.csv", HEAD, members[:cut])
            table(home / f"{path}_test.csv", HEAD, members[cut:])


def _codes(n: int) -> Codes:
    """A patient's codes: every value on both sides of the split, and some that are unknown."""
    return {
        "glaucoma": n % 2,
        "race": n // 2 % 3,
        "language": [0, 1, 2, 0, -1][n % 5],
        "ethnicity": [0, 0, 1, -1][n // 5 % 4],
        "gender": n // 3 % 2,
        "maritalstatus": [0, 1, 2, 3, 4, -1][n // 7 % 6],
    }


def _images(n: int, label: int) -> dict[str, ndarray]:
    slo = scan(f"slo-{n}", label, height=32, width=24)  # [H, W]
    scans = [scan(f"oct-{n}-{k}", label, height=20, width=20) for k in range(STEP)]
    volume = np.stack(scans).repeat(SLICES, 0)  # [128, 20, 20]
    images = {SLO_MEMBER: slo, OCT_MEMBER: volume}
    if n == EMPTY_SLO:
        images[SLO_MEMBER] = np.empty(0, np.uint8)
    elif n == EMPTY_OCT:
        images[OCT_MEMBER] = np.empty(0, np.uint8)
    return images


def _write(path: Path, arrays: dict[str, ndarray | int]) -> None:
    """np.savez_compressed, whose archives tell the time, without the time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            file = io.BytesIO()
            np.lib.format.write_array(
                file,
                np.asarray(values),
                allow_pickle=False,
            )
            entry = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(
                entry,
                file.getvalue(),
                zipfile.ZIP_DEFLATED,
            )


SLO = Source(partial(rows, SLO_MEMBER), partial(decode, SLO_MEMBER), sample)
OCT = Source(partial(rows, OCT_MEMBER), partial(decode, OCT_MEMBER), sample)
