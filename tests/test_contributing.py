"""The recipes of CONTRIBUTING.md, carried out in a copy of the package as they stand."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|json|diff|sh)\n(.*?)```", TEXT, re.S)


def changed(text: str, diff: str) -> str:
    """A file's text with a diff applied: lines with - or a blank are there, and lines with + take their place."""
    lines = diff.splitlines()
    was = "\n".join(line[1:] for line in lines if line[0] in " -")
    now = "\n".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(was) == 1, diff
    return text.replace(was, now)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package with every block of the page in its file."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("fedcli", "data_manifests", "recipes"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("methods", "data", "metrics", "figures"):
        (root / "tests" / folder).mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "conftest.py", root / "tests")
    shutil.copytree(ROOT / "tests" / "support", root / "tests" / "support")
    for kind, block in BLOCKS:
        head, _, body = block.partition("\n")
        path = root / re.sub(r"^(#|//) ", "", head)
        if kind == "diff":
            path.write_text(changed(path.read_text(encoding="utf-8"), body), encoding="utf-8")
        elif kind != "sh":
            assert not path.exists()
            path.write_text(body, encoding="utf-8")
    return root


def run(work: Callable[[], object], root: Path, folder: Path) -> str:
    """The output of a function in a process that imports the copy."""

    def in_copy() -> None:
        sys.path[:0] = map(str, (root, root / "tests", root / "tests" / "support"))
        for name in ("conftest", "raw_folders", "session"):
            sys.modules.pop(name, None)
        assert Path(importlib.import_module("fedcli").__file__).is_relative_to(root)
        work()

    path = os.pathsep.join(map(str, (root, root / "tests", root / "tests" / "support")))
    ended = forked.run(in_copy, folder, env={"PYTHONPATH": path}, anew=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_every_command_of_the_page_runs(copy, tmp_path):
    lines = "".join(block for kind, block in BLOCKS if kind == "sh").splitlines()

    def work():
        output = importlib.import_module("session").output
        for line in filter(None, lines):
            print(output(line), end="")

    printed = run(work, copy, tmp_path)
    assert "Bernstein, Zhao" in printed
    assert re.search(r"partitions/dots-by-SYNTHETIC-\w+/partition.json", printed)
    assert re.search(r"runs/fedavg-\w+/run.json", printed)
    assert "recall, geometric mean" in " ".join(printed.split())


def test_the_tests_of_the_page_pass(copy):
    line = [
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "--rootdir",
        str(copy),
    ]
    line += [
        "tests/methods/test_majority.py",
        "tests/data/test_by_class.py",
        "tests/metrics/test_geometric.py",
    ]
    line += ["tests/figures/test_progress.py"]
    result = run(lambda: sys.exit(pytest.main(line)), copy, copy)
    assert "6 passed" in result


def test_every_file_that_is_new_or_changed_is_as_ruff_wants_it(copy):
    if shutil.which("ruff") is None:
        pytest.skip("no ruff here")
    files = {
        copy / block.partition("\n")[0][2:] for kind, block in BLOCKS if kind in ("python", "diff")
    }
    for words in (["check"], ["format", "--check"]):
        line = ["ruff", *words, "--config", str(ROOT / "pyproject.toml"), *map(str, files)]
        ended = subprocess.run(line, cwd=copy, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def checkout(copy, tmp_path_factory):
    """The copy with all tests and pages, as a first contributor's checkout has them."""
    root = tmp_path_factory.mktemp("checkout") / "fedcli"
    shutil.copytree(copy, root, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("tests", "docs", "examples", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored, dirs_exist_ok=True)
    for page in (
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "README.md",
        "CHANGELOG.md",
        "pyproject.toml",
    ):
        shutil.copy(ROOT / page, root)
    return root


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("tests", ["tests/test_rooms.py", "tests/test_golden.py", "tests/scores"])
def test_the_tests_of_fedcli_pass_with_every_example_of_the_page(checkout, tests):
    line = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", tests]
    env = os.environ | {"PYTHONPATH": str(checkout)}
    ended = subprocess.run(line, cwd=checkout, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-5000:]
