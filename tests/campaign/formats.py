"""Damage to files of a known format: archives, arrays, DICOM, pictures, tensors, TOML."""

import bz2
import gzip
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import torch
from PIL import Image
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_dataset, write_file_meta_info

Draw = np.random.Generator


def array(values: np.ndarray, draw: Draw) -> tuple[Any, str]:
    """An array of another type, shape or content."""
    kind = str(
        draw.choice(
            [
                "rank",
                "half",
                "floats",
                "nan",
                "negative",
                "words",
                "big-endian",
                "zeros",
                "0-d",
                "huge",
                "bool",
            ]
        )
    )
    numeric = values.dtype.kind in "iufb"
    changed = {
        "rank": lambda: values[None],
        "half": lambda: values[: len(values) // 2] if values.ndim else values,
        "floats": lambda: values + 0.5 if numeric else values[None],
        "nan": lambda: np.full(values.shape, np.nan),
        "negative": lambda: np.full(values.shape, -3, np.int64),
        "words": lambda: np.full(values.shape, "x"),
        "big-endian": lambda: values.astype(values.dtype.newbyteorder(">")),
        "zeros": lambda: np.zeros_like(values),
        "0-d": lambda: np.zeros((), values.dtype),
        "huge": lambda: np.full(values.shape, 2**40),
        "bool": lambda: np.ones(values.shape, bool),
    }[kind]()
    return changed, kind


def _npz(path: Path, draw: Draw) -> str:
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    name = sorted(arrays)[int(draw.integers(len(arrays)))]
    match str(draw.choice(["array", "array", "array", "drop", "member", "folder", "deflated"])):
        case "drop":
            del arrays[name]
            note = f"without {name}"
        case "member":
            path.write_bytes(_zip({f"{name}.npy": b"no array at all"}))
            return f"{name} is no array"
        case "folder":
            path.write_bytes(_zip({f"../{name}.npy": b"x", "/etc/x.npy": b"y"}))
            return "names that lead out"
        case "deflated":
            np.savez_compressed(path, **arrays)
            return "deflated"
        case _:
            arrays[name], change = array(arrays[name], draw)
            note = f"{name}: {change}"
    np.savez(path, **arrays)
    return note


def _zip(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return out.getvalue()


def _npy(path: Path, draw: Draw) -> str:
    try:
        values = np.load(path)
    except ValueError:  # objects
        values = np.arange(6)
    changed, note = array(values, draw)
    np.save(path, changed)
    return note


def _packed(pack: Any) -> Callable[[Path, Draw], str]:
    def mutate(path: Path, draw: Draw) -> str:
        data = bytearray(pack.decompress(path.read_bytes()))
        match str(draw.choice(["inside", "cut inside", "twice", "bomb", "plain", "nothing"])):
            case "inside" if data:
                index = int(draw.integers(min(len(data), 200)))
                data[index] ^= 1 << int(draw.integers(8))
                note = f"a bit of unpacked byte {index} flipped"
            case "cut inside":
                del data[int(draw.integers(len(data) + 1)) :]
                note = f"unpacked, cut to {len(data)} bytes"
            case "twice":
                path.write_bytes(path.read_bytes() * 2)
                return "two members"
            case "bomb":
                data = bytearray(2**26)
                note = "64 MiB of zeros"
            case "plain":
                path.write_bytes(bytes(data))
                return "not packed"
            case _:
                data = bytearray()
                note = "packs nothing"
        path.write_bytes(pack.compress(bytes(data)))
        return note

    return mutate


def _mat(path: Path, draw: Draw) -> str:
    from scipy.io import loadmat, savemat

    values = {name: value for name, value in loadmat(path).items() if not name.startswith("__")}
    name = sorted(values)[int(draw.integers(len(values)))]
    if draw.random() < 0.2:
        note = f"without {name}"
        values = {k: v for k, v in values.items() if k != name} or {"other": np.zeros(2)}
    else:
        values[name], note = array(values[name], draw)
    savemat(path, values, do_compression=bool(draw.random() < 0.5))
    return f"{name}: {note}"


ELEMENTS: list[tuple[str, list[Any]]] = [
    ("Rows", [0, 1, 65535]),
    ("Columns", [0, 3]),
    ("BitsAllocated", [1, 8, 32, 64]),
    ("BitsStored", [0, 1, 12, 40]),
    ("HighBit", [0, 7, 31]),
    ("PixelRepresentation", [1, 7]),
    ("SamplesPerPixel", [0, 3, 4]),
    ("PhotometricInterpretation", ["MONOCHROME1", "RGB", "YBR_FULL", "PALETTE COLOR", "", "x"]),
    ("RescaleSlope", ["0", "-1", "1e30", ""]),
    ("RescaleIntercept", ["1e30", ""]),
    ("WindowWidth", ["0", "-5", ["1", "2"], ""]),
    ("WindowCenter", ["1e30", ["1", "2", "3"], ""]),
    ("NumberOfFrames", ["0", "2", "-1"]),
    ("PlanarConfiguration", [1, 9]),
    ("VOILUTFunction", ["SIGMOID", "x"]),
    ("PixelPaddingValue", [0, 65535]),
    ("PatientAge", ["", "9Y", "x", "411Y"]),
]


def _dicom(path: Path, draw: Draw) -> str:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = pydicom.dcmread(path, force=True)
        name, values = ELEMENTS[int(draw.integers(len(ELEMENTS)))]
        how = str(draw.choice(["value", "value", "drop", "pixels", "syntax", "no preamble"]))
        match how:
            case "value":
                value = values[int(draw.integers(len(values)))]
                setattr(file, name, value)
                note = f"{name} = {value!r}"
            case "drop":
                present = [element.keyword for element in file if element.keyword]
                name = present[int(draw.integers(len(present)))]
                delattr(file, name)
                note = f"without {name}"
            case "pixels" if "PixelData" in file:
                file.PixelData = file.PixelData[: int(draw.integers(len(file.PixelData))) & ~1]
                note = f"{len(file.PixelData)} bytes of pixels"
            case "syntax":
                syntaxes = [
                    "1.2.840.10008.1.2",
                    "1.2.840.10008.1.2.4.70",
                    "1.2.840.10008.1.2.5",
                    "1.2.840.10008.1.2.1.99",
                    "9.9",
                ]
                file.file_meta.TransferSyntaxUID = str(draw.choice(syntaxes))
                note = f"transfer syntax {file.file_meta.TransferSyntaxUID}"
            case _:
                path.write_bytes(path.read_bytes()[132:])
                return "no preamble"
        for element in file:  # pydicom writes none whose type another element decided that is gone
            element.VR = "US" if element.VR == "US or SS" else element.VR
        written = DicomBytesIO(
            b"\0" * 128 + b"DICM"
        )  # dcmwrite refuses plain pixels under a compressed syntax
        written.seek(0, io.SEEK_END)
        written.is_little_endian, written.is_implicit_VR = True, False
        write_file_meta_info(written, file.file_meta, enforce_standard=False)
        write_dataset(written, file)
        path.write_bytes(written.getvalue())
    return note


def _picture(path: Path, draw: Draw) -> str:  # noqa: C901, PLR0912, PLR0915 - a case for each kind of change
    """Writes the picture in another mode, format or size."""
    kinds = [
        "mode",
        "mode",
        "pixel",
        "line",
        "format",
        "rotated",
        "animated",
        "empty palette",
        "fractions",
        "deep",
        "cut",
        "chunk",
        "transparent",
        "large",
    ]
    kind = str(draw.choice(kinds))
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    format = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".bmp": "BMP", ".tif": "TIFF"}[
        path.suffix.lower()
    ]
    out = io.BytesIO()
    options = {}
    match kind:
        case "mode":
            mode = str(
                draw.choice(["1", "L", "P", "CMYK", "YCbCr", "LAB", "I;16", "LA", "RGBA", "I", "F"])
            )
            grey = np.asarray(image.convert("L"))
            image = (
                Image.fromarray(grey.astype(np.uint16) * 257)
                if mode == "I;16"
                else image.convert(mode)
            )
            format = {
                "CMYK": "JPEG",
                "LA": "PNG",
                "RGBA": "PNG",
                "P": "PNG",
                "I;16": "PNG",
                "1": "PNG",
            }.get(mode, "TIFF")
            kind = f"mode {mode} as {format}"
        case "pixel":
            image = image.resize((1, 1))
        case "line":
            image = image.resize((1, 3000))
        case "large":
            image = image.resize((3000, 2000))
        case "format":
            format = str(draw.choice(["GIF", "PNG", "JPEG", "BMP", "TIFF", "PPM", "WEBP"]))
            kind = f"a {format}"
        case "rotated":
            exif = Image.Exif()
            exif[0x0112] = int(draw.integers(0, 12))
            format = "JPEG"
            options = {"exif": exif}
        case "animated":
            format = "GIF"
            options = {"save_all": True, "append_images": [image.rotate(90)]}
        case "empty palette":
            image = image.quantize(2)
            format = "PNG"
        case "fractions":
            image = Image.fromarray(
                np.full((9, 9), float(draw.choice([0, 0.5, -1, np.nan, 1e30])), np.float32)
            )
            format = "TIFF"
        case "deep":
            top = int(draw.choice([0, 1, 14, 4095, 4096, 65535]))
            image = Image.fromarray(np.full((9, 9), top, np.uint16))
            format = "PNG"
        case "transparent":
            image = Image.new("RGBA", (9, 9), (0, 0, 0, 0))
            format = "PNG"
    image.save(out, format, **options)
    data = out.getvalue()
    if kind == "cut":
        data = data[: int(draw.integers(len(data)))]
    if kind == "chunk":
        data = data[:33] + b"\x00\x00\x00\x05zTXthello\x00\x00\x00\x00" + data[33:]
    path.write_bytes(data)
    return kind


def _tensors(path: Path, draw: Draw) -> str:
    tensors = torch.load(path, weights_only=True)
    name = list(tensors)[int(draw.integers(len(tensors)))]
    value = tensors[name]
    kinds: dict[str, Callable[[], Any]] = {
        "meta": lambda: value.to("meta"),
        "sparse": lambda: torch.sparse_coo_tensor(value.shape, check_invariants=False),
        "nan": lambda: value * torch.nan,
        "complex": lambda: value.to(torch.complex64),
        "rank": lambda: value[None],
        "int": lambda: value.to(torch.int8),
        "half": lambda: value.to(torch.bfloat16),
        "double": lambda: value.double(),
        "list": lambda: value.tolist(),
        "text": lambda: "x",
        "none": lambda: None,
        "expanded": lambda: torch.zeros(1).expand(2**40),
        "inf": lambda: value + torch.inf,
        "bool": lambda: value.bool(),
        "float8": lambda: value.to(torch.float8_e4m3fn),
        "strided": lambda: torch.zeros([2 * n for n in value.shape])[
            tuple(slice(None, None, 2) for _ in value.shape)
        ],
        "grad": lambda: value.float().requires_grad_(),
    }
    kind = str(
        draw.choice([*kinds, "drop", "another", "nested", "alone", "number keys", "list of"])
    )
    out: Any = dict(tensors)
    match kind:
        case "drop":
            del out[name]
        case "another":
            out["another"] = value
        case "nested":
            out = {"state_dict": {"model": out}}
        case "alone":
            out = value
        case "number keys":
            out = dict(enumerate(out.values()))
        case "list of":
            out = [out]
        case _:
            out[name] = kinds[kind]()
    torch.save(out, path)
    return f"{name}: {kind}"


WORDS = [
    '"x"',
    "-1",
    "0",
    "1e400",
    "nan",
    "inf",
    "true",
    "[]",
    "{}",
    "[1, 2]",
    '""',
    '"é"',
    "1979-05-27",
    '"../x"',
    '"\\u001b[31m"',
    "[[]]",
    "{ a = 1 }",
    "[{}]",
    '"{seed}"',
    '"{files.x}"',
    '"{x"',
    '[""]',
    '"a\\nb"',
    "99999999999999999999",
    "0x10",
    '"0"',
]


def _toml(path: Path, draw: Draw) -> str:
    """A value, a name, a line or a table of a TOML file changed, as text: it may be no TOML any more."""
    lines = path.read_text().splitlines()
    index = int(draw.choice([k for k, line in enumerate(lines) if line.strip()]))
    line = lines[index]
    match str(draw.choice(["value", "value", "value", "drop", "twice", "name", "inner", "table"])):
        case "value" if "=" in line:
            lines[index] = f"{line.split('=')[0]}= {draw.choice(WORDS)}"
        case "inner" if values := re.findall(r"(?<== )[^{},\]]+(?=[ ,}\]])", line):
            lines[index] = line.replace(str(draw.choice(values)), str(draw.choice(WORDS)), 1)
        case "name" if "=" in line:
            lines[index] = (
                f"{draw.choice(['x', 'seed', 'work', 'out', 'set', 'device', 'a-b', 'rows'])} ={line.split('=', 1)[1]}"
            )
        case "twice":
            lines.insert(index, line)
        case "table":
            lines.insert(
                index,
                str(
                    draw.choice(
                        [
                            "[train]",
                            "[[row]]",
                            "[x]",
                            "[data]",
                            "[smoke.train]",
                            "[[column]]",
                            "[files]",
                        ]
                    )
                ),
            )
        case _:
            del lines[index]
    path.write_text("\n".join(lines) + "\n")
    return f"line {index + 1}: {line[:30]!r} -> {lines[min(index, len(lines) - 1)][:40]!r}"


MUTATIONS: dict[str, Callable[[Path, Draw], str]] = {
    ".npz": _npz,
    ".npy": _npy,
    ".gz": _packed(gzip),
    ".bz2": _packed(bz2),
    ".mat": _mat,
    ".dcm": _dicom,
    ".png": _picture,
    ".jpg": _picture,
    ".jpeg": _picture,
    ".bmp": _picture,
    ".tif": _picture,
    ".pt": _tensors,
    ".toml": _toml,
}
