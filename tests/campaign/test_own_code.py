"""Files of somebody's own that hold code, and archives that could: a mistake in them ends in a sentence."""

import io
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcli.models import weights

from .chain import copied, files
from .judge import faults, leftovers
from .mutations import damage
from .process import run
from .test_sites import tried

Draw = np.random.Generator

KINDS = {  # what `fedcli new` writes -> (the stage before, lines that use it)
    "method": (
        "train",
        [["train", "./mine.py", "--rounds", "1"], ["train", "fedprox+./mine.py", "--rounds", "1"]],
    ),
    "partition": ("partition", [["partition", "--scheme", "./mine.py", "--clients", "2"]]),
    "model": ("train", [["train", "fedavg", "--model", "./mine.py:build", "--rounds", "1"]]),
    "metric": ("report", [["report", "--metric", "./mine.py"]]),
    "dataset": ("prepare", [["prepare", "./mine.py", "--sample"], ["datasets", "./mine.py"]]),
}
VALUES = [
    "None",
    "1 / 0",
    "()",
    "[]",
    "{}",
    "'x'",
    "float('nan')",
    "-1",
    "object()",
    "lambda *_: None",
    "2**70",
    "nothing",
    "range(3)",
    "(1, 2, 3)",
    "b''",
    "print",
    "float('inf')",
    "True",
    "[[1, 2], [3]]",
    "'é' * 5000",
    "10**400",
]
LINES = [
    "raise ValueError('mine')",
    "raise KeyError(3)",
    "raise SystemExit(3)",
    "raise Exception",
    "return None",
    "import nothing",
    "raise MemoryError",
    "raise OSError(28, 'full')",
    "assert False",
    "1 / 0",
    "del x",
    "yield 1",
    "return 'x'",
    "return -1",
    "raise ValueError('a\\nb' * 500)",
    "raise KeyboardInterrupt",
    "raise UnicodeDecodeError('a', b'b', 0, 1, 'c')",
    "raise StopIteration",
    "raise RecursionError",
    "x = [0] * 3; x[5]",
    "pass",
    "print('x')",
    "break",
    "lambda: 0",
]


def edited(text: str, draw: Draw) -> tuple[str, str]:
    """A Python file in which one line, value, name or argument is another."""
    lines = text.splitlines()
    code = [
        k
        for k, line in enumerate(lines)
        if line.strip() and not line.lstrip().startswith(("#", '"""'))
    ]
    index = code[int(draw.integers(len(code)))]
    line = lines[index]
    indent = re.match(r"\s*", lines[index])[0]
    match str(
        draw.choice(
            [
                "return",
                "value",
                "number",
                "insert",
                "insert",
                "drop",
                "name",
                "indent",
                "cut",
                "type",
            ]
        )
    ):
        case "return" if returned := [k for k in code if lines[k].lstrip().startswith("return ")]:
            index = returned[int(draw.integers(len(returned)))]
            before = lines[index].partition("return")[0]
            lines[index] = f"{before}return {VALUES[int(draw.integers(len(VALUES)))]}"
        case "value" if "=" in line:
            lines[index] = f"{line.split('=')[0]}= {VALUES[int(draw.integers(len(VALUES)))]}"
        case "number" if numbers := re.findall(r"\b\d[\d.]*\b", line):
            lines[index] = line.replace(
                str(draw.choice(numbers)), VALUES[int(draw.integers(len(VALUES)))], 1
            )
        case "drop":
            del lines[index]
        case "name" if names := re.findall(r"\b[a-z_]{3,}\b", line):
            lines[index] = line.replace(
                str(draw.choice(names)), str(draw.choice(["nothing", "x", "self", "len"])), 1
            )
        case "indent":
            lines[index] = f" {line}"
        case "cut":
            lines[index] = line[: int(draw.integers(len(line)))]
        case "type" if inside := re.findall(r"\(([^()]+)\)", line):
            lines[index] = line.replace(
                str(draw.choice(inside)), VALUES[int(draw.integers(len(VALUES)))], 1
            )
        case _:
            lines.insert(index, indent + LINES[int(draw.integers(len(LINES)))])
    now = lines[index] if index < len(lines) else ""
    return "\n".join(
        lines
    ) + "\n", f"line {index + 1}: {line.strip()[:50]!r} -> {now.strip()[:50]!r}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_of_code_ends_in_a_sentence(kind, chain, play, tmp_path):
    stage, lines = KINDS[kind]
    written = tmp_path / "new"
    written.mkdir()
    assert run(["new", kind, "mine"], written).code == 0
    text = (written / "mine.py").read_text()
    for draw in play.cases():
        folder = copied(chain.before(stage), tmp_path / "case")
        changed, note = edited(text, draw)
        (folder / "mine.py").write_text(changed, encoding="utf-8")
        if draw.random() < 0.1:
            note = damage(folder / "mine.py", draw)
        standing = set(files(folder))
        ended = run(lines[int(draw.integers(len(lines)))], folder)
        wrong = faults(ended)
        if ended.code:
            wrong += leftovers(standing, files(folder))
        play.judge(ended, wrong, f"{kind}: {note}")


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def _packed(members: dict[str, bytes], how: int = zipfile.ZIP_STORED, link: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as file:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = how
            entry.external_attr = 0o120777 << 16 if name == link else 0o644 << 16
            file.writestr(entry, data)
    return out.getvalue()


OPERATIONS = [  # of a pickle, which name what an archive must never call
    b"cos\nsystem\n(S'true'\ntR.",
    b"cbuiltins\nexec\n(S'1'\ntR.",
    b"\x80\x02]q\x00(K\x01K\x02e.",
    b".",
    b"",
    b"r\xff\xff\xff\x7f.",
    b"\x8c\x05torch\x8c\x04load\x93)R.",
    b"(" * 2000 + b".",
    b"\x80\x05\x8e" + b"\xff" * 8 + b".",
    b"c__torch__\nNet\n)\x81}b.",
    b"I1\n.",
    b"ctorch\nFloatStorage\n.",
    b"\x82\x01.",
]


def _archive(path: Path, draw: Draw) -> str:  # noqa: C901 - a case for each kind of change
    """A TorchScript archive or a file of torch.save in which a member is another."""
    members = _members(path)
    name = str(draw.choice(sorted(members)))
    table = next(n for n in members if n.endswith("/data.pkl"))
    how = zipfile.ZIP_STORED
    link = ""
    match str(
        draw.choice(
            [
                "bytes",
                "table",
                "flip",
                "drop",
                "packed",
                "bomb",
                "out",
                "link",
                "empty",
                "long",
                "number",
            ]
        )
    ):
        case "bytes":
            return damage(path, draw)
        case "table":
            k = int(draw.integers(len(OPERATIONS)))
            members[table] = OPERATIONS[k]
            note = f"table number {k}"
        case "flip":
            data = bytearray(members[table])
            index = int(draw.integers(len(data)))
            data[index] ^= 1 << int(draw.integers(8))
            members[table] = bytes(data)
            note = f"a bit of byte {index} of the table flipped"
        case "drop":
            del members[name]
            note = f"without {name}"
        case "packed":
            how = zipfile.ZIP_DEFLATED
            note = "deflated"
        case "bomb":
            how = zipfile.ZIP_DEFLATED
            note = f"{name} unpacks to 64 MiB"
            members[name] = bytes(2**26)
        case "out":
            members = {f"../{name}": data for name, data in members.items()}
            note = "names that lead out"
        case "link":
            link, members[name], note = name, b"/etc/passwd", f"{name} is a link"
        case "empty":
            members[name], note = b"", f"{name} is empty"
        case "long":
            members[name], note = members[name] * 3, f"{name} three times as long"
        case _:  # the length of a storage, or a size
            sizes = [k for k, byte in enumerate(members[table][:-1]) if byte == ord("K")]
            index = sizes[int(draw.integers(len(sizes)))] + 1
            data = bytearray(members[table])
            data[index] = int(draw.integers(256))
            members[table] = bytes(data)
            note = f"number {index} of the table is {data[index]}"
    path.write_bytes(_packed(members, how, link))
    return note


def _safetensors(path: Path, draw: Draw) -> str:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].decode()
    match str(draw.choice(["bytes", "length", "text", "text"])):
        case "bytes":
            return damage(path, draw)
        case "length":
            size = int(draw.choice([0, 1, length + 1, 2**40, 2**62]))
            path.write_bytes(size.to_bytes(8, "little") + data[8:])
            return f"a text of {size} bytes is announced"
        case _:
            numbers = re.findall(r"\b\d+\b|F32|\w+\.weight", text)
            old = str(draw.choice(numbers))
            new = str(draw.choice(["0", "-1", "9" * 20, "F64", "x", "1.5", "null"]))
            text = text.replace(old, new, 1)
            path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + data[8 + length :])
            return f"{old} -> {new}"


def _write_script(path: Path) -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated, and files of it are there
        torch.jit.save(torch.jit.script(net), path)


def _write_safetensors(path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"0.weight": torch.ones(3, 4), "0.bias": torch.zeros(3)}, path)


ARCHIVES: dict[str, tuple[Callable[[Path], None], Callable[[Path, Draw], str]]] = {
    "script.pt": (_write_script, _archive),
    "saved.pt": (
        lambda path: torch.save({"0.weight": torch.ones(3, 4), "0.bias": torch.zeros(3)}, path),
        _archive,
    ),
    "saved.safetensors": (_write_safetensors, _safetensors),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_changed_archive_of_tensors_is_refused_or_read(name, play, tmp_path, monkeypatch):
    """And nothing in it is run."""
    write, change = ARCHIVES[name]
    write(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    assert not tried(lambda: weights.read(tmp_path / name))
    ran: list[str] = []
    monkeypatch.setattr("os.system", ran.append)
    for draw in play.cases():
        (tmp_path / name).write_bytes(whole)
        note = change(tmp_path / name, draw)
        wrong = tried(lambda: weights.read(tmp_path / name))
        play.note(wrong + (["runs code"] if ran else []), note)
