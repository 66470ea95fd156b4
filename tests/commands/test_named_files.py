"""Files that a person names: nothing that fedcli did not write is lost, and pipes and devices are written into."""

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.commands.shell import defaults
from fedcli.errors import FedcliError
from fedcli.io import outputs

NOTES = b"patient,note\n"
TO_FILES = {  # a command that writes a named file -> its words
    "report": ["report", "--format", "csv", "--out", "FILE.csv"],
    "page": ["report", "--format", "html", "--out", "FILE.html"],
    "brief": ["report", "--json", "--out", "FILE.json"],
    "numbers": ["report", "--export", "FILE.csv"],
    "predictions": ["predict", "RUN", "image.png", "--out", "FILE.csv"],
    "picture": ["plot", "curves", "--out", "FILE.png"],
    "points": ["plot", "curves", "--out", "FILE.csv"],
    "description": ["site", "describe", "--client", "client-00", "--out", "FILE.json"],
}
INTO_FOLDERS = {  # a command that writes into a named folder -> its words, and a file of that folder
    "figures": (["report", "--figures", "FOLDER"], "captions.md"),
    "card": (["report", "--card", "FOLDER"], "model-card.md"),
    "evidence": (["report", "--evidence", "FOLDER"], "evidence.json"),
}
RESULTS = {  # a command that makes a folder or files of its own names, and has no --force
    "prepare": ["prepare", "toy", "--size", "8", "--sample-images", "80", "--jobs", "1"],
    "partition": ["partition", "--iid", "--clients", "2"],
    "corrupt": ["corrupt", "contrast", "--jobs", "1"],
    "attack": ["corrupt", "clients", "--kind", "label-flip"],
    "train": ["train", "fedavg", "--rounds", "1", "--engine", "in-process"],
    "evaluate": ["evaluate", "RUN"],
    "audit": ["audit", "RUN", "--iterations", "1"],
    "model": ["export", "model", "RUN", "--format", "safetensors"],
}
ELSEWHERE = {  # options that refuse whatever is there, or write into a folder named after the run
    ("new", "--out"),
    ("datasets", "--make-sample"),
    ("datasets", "--download"),
    ("train", "--dry-run"),
    ("reproduce", "--dry-run"),
    ("train", "--track"),
    ("evaluate", "--track"),
}


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words), prog_name="fedcli")
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def federation(tmp_path_factory) -> Path:
    """A folder with a small federation, its scored run and an image."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        Image.new("L", (8, 8)).save("image.png")
        assert run("prepare", "toy", "--size", "8", "--sample-images", "80", "--jobs", "1")[0] == 0
        assert run("partition", "--iid", "--clients", "2")[0] == 0
        train = ["train", "fedavg", "--rounds", "1", "--engine", "in-process", "--name", "first"]
        assert run(*train)[0] == 0
        assert run("evaluate")[0] == 0
    return folder


@pytest.fixture
def folder(federation, tmp_path, monkeypatch) -> Path:
    """The folder at hand, with an empty folder `out` in it and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDCLI_WORK", str(federation / "fedcli-work"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "image.png").write_bytes((federation / "image.png").read_bytes())
    (tmp_path / "out").mkdir()
    return tmp_path


def words_of(line: list[str], target: Path) -> list[str]:
    """The words of a command that writes to this target, of which the suffix is the command's own."""
    return [str(target) if word.startswith(("FILE", "FOLDER")) else word for word in with_run(line)]


def with_run(line: list[str]) -> list[str]:
    return ["first" if word == "RUN" else word for word in line]


def target_of(line: list[str], folder: Path) -> Path:
    (name,) = [word for word in line if word.startswith("FILE")]
    return folder / "out" / f"target{name.removeprefix('FILE')}"


def put(kind: str, target: Path) -> None:
    """Something that is at a target before a command writes there."""
    elsewhere = target.parent.parent / "elsewhere"
    if kind == "folder":
        target.mkdir()
    elif kind == "dangling link":
        target.symlink_to(elsewhere)
    elif kind == "link":
        elsewhere.write_bytes(NOTES)
        target.symlink_to(elsewhere)
    else:
        target.write_bytes(NOTES)
    if kind == "read-only file":
        target.chmod(0o444)


def content(folder: Path) -> dict[str, object]:
    """Content of a folder: links by where they lead, files by their bytes, and the rest by its kind."""
    lying = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if path.is_symlink():
            value: object = path.readlink()
        else:
            value = path.read_bytes() if stat.S_ISREG(mode) else stat.S_IFMT(mode)
        lying[str(path)] = value
    return lying


@pytest.mark.parametrize("kind", ["folder", "file", "read-only file", "link", "dangling link"])
@pytest.mark.parametrize("command", TO_FILES)
def test_what_fedcli_did_not_write_is_left_as_it_is(command, kind, folder):
    target = target_of(TO_FILES[command], folder)
    put(kind, target)
    before = content(folder)
    code, _, err = run(*words_of(TO_FILES[command], target))
    assert code in (1, 2)
    assert str(target) in err
    assert "hint:" in err
    assert content(folder) == before


@pytest.mark.parametrize("command", TO_FILES)
def test_its_own_file_is_replaced_until_somebody_changes_it(command, folder):
    target = target_of(TO_FILES[command], folder)
    line = words_of(TO_FILES[command], target)
    assert run(*line)[0] == 0
    written = target.read_bytes()
    assert run(*line)[0] == 0
    assert target.read_bytes() == written
    target.write_bytes(written + b"a remark\n")
    code, _, err = run(*line)
    assert code == 1
    assert f"{target} is there already" in err
    assert "--force" in err
    assert target.read_bytes() == written + b"a remark\n"
    assert run(*line, "--force")[0] == 0
    assert target.read_bytes() == written


@pytest.mark.parametrize("command", TO_FILES)
def test_a_pipe_is_written_into(command, folder):
    target = target_of(TO_FILES[command], folder)
    plain = folder / "plain"
    plain = plain.with_suffix(target.suffix)
    assert run(*words_of(TO_FILES[command], plain))[0] == 0
    os.mkfifo(target)
    received = []
    reader = threading.Thread(target=lambda: received.append(target.read_bytes()), daemon=True)
    reader.start()
    assert run(*words_of(TO_FILES[command], target))[0] == 0
    reader.join()
    assert received == [plain.read_bytes()]
    assert stat.S_ISFIFO(target.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("command", TO_FILES)
def test_a_device_stays_a_device(command, linked, folder):
    target = target_of(TO_FILES[command], folder)
    device = folder / "device" if linked else target
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # takes and forgets all, as null
        device.open("wb").close()
    except PermissionError:
        pytest.skip("no devices in this folder")
    if linked:
        target.symlink_to(device)
    assert run(*words_of(TO_FILES[command], target))[0] == 0
    assert stat.S_ISCHR(device.stat().st_mode)
    assert target.is_symlink() == linked


@pytest.mark.parametrize("command", INTO_FOLDERS)
def test_a_folder_keeps_the_files_that_fedcli_did_not_write(command, folder):
    line, name = INTO_FOLDERS[command]
    target = folder / "out" / name
    line = words_of(line, target.parent)
    assert run(*line)[0] == 0
    written = content(target.parent)
    assert run(*line)[0] == 0
    assert content(target.parent) == written
    target.write_bytes(NOTES)
    before = content(target.parent)
    code, _, err = run(*line)
    assert code == 1
    assert f"{target} is there already" in err
    assert content(target.parent) == before
    assert run(*line, "--force")[0] == 0
    assert content(target.parent) == written


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "pipe"])
@pytest.mark.parametrize("command", RESULTS)
def test_a_result_takes_the_place_of_nothing(command, kind, folder):
    target = folder / "out" / "target"
    if kind == "pipe":
        os.mkfifo(target)
    else:
        put(kind, target)
    before = content(folder)
    code, _, err = run(*with_run(RESULTS[command]), "--out", str(target))
    assert code in (1, 2)
    assert str(target) in err
    assert "unexpected" not in err
    assert content(folder) == before


def test_every_option_that_writes_is_tried_here():
    tried = {(line[0], word) for line in TO_FILES.values() for word in line}
    tried |= {(line[0], word) for line, _ in INTO_FOLDERS.values() for word in line}
    tried |= {(line[0], "--out") for line in RESULTS.values()}
    writing = set()
    for name, command in get_command(app).commands.items():
        options = getattr(command.callback, defaults.OPTIONS, {})
        for option in options.values():
            if option.access == "writes":
                writing.add((name, f"--{option.typed.split()[0]}"))
    assert writing - tried == ELSEWHERE


def test_open_files_of_the_process_are_written_into():
    for path in ("/dev/stdout", "/dev/stderr", "/dev/fd/3", "/proc/self/fd/1"):
        assert outputs.is_stream(Path(path))
    assert not outputs.is_stream(Path("/dev/shm/table.csv"))


def test_without_a_cache_a_file_is_replaced_by_force_alone(tmp_path, monkeypatch):
    (tmp_path / "cache").write_bytes(NOTES)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "table.csv"
    outputs.write(path, b"1\n")
    outputs.write(path, b"1\n")  # the same bytes lose nothing
    with pytest.raises(FedcliError, match=r"table\.csv is there already"):
        outputs.write(path, b"2\n")
    outputs.write(path, b"2\n", force=True)
    assert path.read_bytes() == b"2\n"
