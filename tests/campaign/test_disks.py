"""Full disks, read-only folders, moved folders, wrong clocks, and processes that start with nothing loaded."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fedcli

from .chain import STAGES, WRITERS, copied, differing, expanded, files, words_of
from .judge import faults
from .process import Ended, run

NOBODY = 65534
PAGE = 4096  # bytes: what a file on a disk takes at least


def mounted(*words: object) -> bool:
    done = subprocess.run(["mount", *map(str, words)], capture_output=True)
    return done.returncode == 0


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A small file system of its own, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() or not mounted("-t", "tmpfs", "-o", "size=64m", "none", folder):
        pytest.skip(
            "no file system can be mounted here; RLIMIT_FSIZE and failing operations stand for it"
        )
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def taken(folder: Path) -> int:
    """Bytes that the files of a folder take on a disk, its folders too."""
    return sum(
        -(-path.lstat().st_size // PAGE) * PAGE + PAGE * path.is_dir() for path in folder.rglob("*")
    )


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_ends_in_a_sentence_and_the_command_goes_on_when_there_is_room(
    name, chain, play, disk, tmp_path
):
    words = words_of(name)
    whole = copied(chain.before(name), tmp_path / "whole")
    assert run(words, whole).code == 0
    expected = files(whole)
    bytes_needed = max(PAGE * 4, taken(whole) - taken(chain.before(name)))
    for draw in play.cases():
        mounted("-o", "remount,size=64m", disk)
        folder = copied(chain.before(name), disk / "case")
        room = int(draw.uniform(0, 1.2 * bytes_needed))
        mounted("-o", f"remount,size={(taken(folder) + room) // PAGE * PAGE}", disk)
        stopped = run(words, folder)
        wrong = faults(stopped)
        mounted("-o", "remount,size=64m", disk)
        again = run(words, folder)
        if again.code or (differences := differing(files(folder), expected)):
            wrong.append(f"cannot go on: {again.err[-200:] if again.code else differences[:3]}")
        play.judge(stopped, wrong, f"{room} bytes are free, {bytes_needed} are needed")


def nobody_can_import() -> bool:
    """True where a process that root turns into nobody's can still import what it needs."""
    places = [Path(sys.prefix), Path(fedcli.__path__[0])]
    return bool(os.geteuid()) or all(
        p.stat().st_mode & 0o001 for root in places for p in (root, *root.parents)
    )


def as_nobody() -> None:
    if not os.geteuid():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@pytest.mark.skipif(
    not nobody_can_import(), reason="the Python environment is closed to others than root"
)
@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_may_only_be_read_ends_in_a_sentence_and_stays_as_it_was(
    name, chain, play, tmp_path
):
    words = words_of(name)
    for draw in play.cases():
        folder = copied(chain.before(name), tmp_path / "case")
        folders = [path for path in (folder, *sorted(folder.rglob("*"))) if path.is_dir()]
        shut = folders if draw.random() < 0.5 else [folders[int(draw.integers(len(folders)))]]
        standing = files(folder)
        mode = 0o555 if draw.random() < 0.7 else 0o000
        for path in tmp_path.resolve().parents:  # else nobody could not come here
            if path.owner() == "root" and path != Path("/") and not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)
        for path in folder.rglob("*"):
            os.chown(path, NOBODY, -1) if not os.geteuid() else None
        os.chown(folder, NOBODY, -1) if not os.geteuid() else None
        for path in shut:
            path.chmod(mode)
        stopped = run(words, folder, before=as_nobody)
        wrong = faults(stopped)
        for path in shut:
            path.chmod(0o755)
        if stopped.code and (
            lost := [key for key, value in standing.items() if files(folder).get(key) != value]
        ):
            wrong.append(f"changes {lost[:3]}")
        again = run(words, folder)
        if again.code:
            wrong.append(f"cannot go on: {again.err[-200:]}")
        which = "all folders" if len(shut) > 1 else str(shut[0].relative_to(tmp_path))
        play.judge(stopped, wrong, f"{which} with mode {mode:o}")


def without_locks(number: int) -> Callable[[], None]:
    """A hook that makes every lock of a process fail, as on some network disks."""

    def patch() -> None:
        def refuse(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        fcntl.flock = refuse

    return patch


@pytest.mark.parametrize("name", [*STAGES, "report"])
def test_a_disk_without_locks_gives_the_same_bytes_and_a_word(name, chain, play, tmp_path):
    words = words_of(name)
    expected = copied(chain.before(name), tmp_path / "whole")
    assert run(words, expected).code == 0
    for number in play.some([errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP]):
        folder = copied(chain.before(name), tmp_path / "case")
        ended = run(words, folder, before=without_locks(number))
        wrong = faults(ended)
        if ended.code:
            wrong.append("fails")
        elif different := differing(files(folder), files(expected)):
            wrong.append(f"other bytes: {different[:3]}")
        if name != "report" and ended.err.count("a disk without file locks") != 1:
            wrong.append("does not say once that there are no locks")
        play.judge(ended, wrong, os.strerror(number))
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", WRITERS)
def test_a_work_folder_that_was_moved_with_other_clocks_gives_the_same_bytes(
    name, chain, play, tmp_path
):
    """Its files carry the times of another machine, of 1970 or of the future, in the order in which they were."""
    words = words_of(name)
    whole = copied(chain.before(name), tmp_path / "whole")
    assert run(words, whole).code == 0
    expected = files(whole)
    for draw in play.cases():
        folder = copied(chain.before(name), tmp_path / f"elsewhere {draw.integers(9)} é" / "work")
        paths = sorted(folder.rglob("*"), key=lambda path: path.stat().st_mtime_ns)
        start = float(draw.choice([0.0, 1e9, 4e9]))
        for second, path in enumerate(paths):
            os.utime(path, (start + second, start + second))
        ended = run(words, folder)
        differences = [] if ended.code else differing(files(folder), expected)
        if start == 4e9 and differences:
            differences = []  # nobody can say which was made last
        play.judge(
            ended,
            faults(ended) + ([f"other bytes: {differences[:3]}"] if differences else []),
            f"from {start:g} s on",
        )


ENVIRONMENTS: dict[str, dict[str, str]] = {
    "nothing": {},
    "C": {"LC_ALL": "C"},
    "POSIX without UTF-8": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "Latin-1": {"PYTHONIOENCODING": "latin-1:strict"},
    "no HOME": {"HOME": "/nowhere"},
    "40 columns": {"COLUMNS": "40"},
    "warnings are shown": {"PYTHONWARNINGS": "default"},
    "development mode": {"PYTHONDEVMODE": "1"},
    "hash seed": {"PYTHONHASHSEED": "77"},
    "two threads": {"OMP_NUM_THREADS": "2"},
    "optimized": {"PYTHONOPTIMIZE": "1"},
    "no temporary folder": {"TMPDIR": "/nowhere"},
    "a dumb terminal": {"TERM": "dumb", "NO_COLOR": "1"},
    "no bytecode": {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
}
FRESH = [*STAGES, "report", "plot", "ls", "export"]


def from_the_shell(words: list[str], folder: Path, env: dict[str, str]) -> Ended:
    """A process that loads everything itself, with nothing in its environment but this and the way to the packages."""
    env = {"PATH": os.environ["PATH"], **env}
    try:
        line = [sys.executable, "-m", "fedcli", *words]
        done = subprocess.run(
            line, cwd=folder, env=env, capture_output=True, timeout=600, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return Ended(tuple(words), -9, "", "", hung=True)
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return Ended(tuple(words), done.returncode, out, err)


@pytest.mark.parametrize("name", FRESH)
def test_a_process_of_its_own_in_an_odd_environment_gives_the_same_bytes(
    name, chain, play, tmp_path
):
    whole = copied(chain.before(name), tmp_path / "whole")
    words = expanded(words_of(name), whole)
    assert run(words, whole).code == 0
    expected = files(whole)
    for which in play.some(list(ENVIRONMENTS)):
        folder = copied(chain.before(name), tmp_path / "case")
        ended = from_the_shell(words, folder, ENVIRONMENTS[which])
        wrong = faults(ended) + ([] if ended.code == 0 else ["fails"])
        if not ended.code and (differences := differing(files(folder), expected)):
            wrong.append(f"other bytes: {differences[:3]}")
        play.judge(ended, wrong, which)
        shutil.rmtree(folder)
