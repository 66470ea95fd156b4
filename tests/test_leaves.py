"""Leaves of ARCHITECTURE.md: each is deleted from a copy of the package, which works without it."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path

import leaves
import pytest
import test_rooms

from fedcli.commands import registry

MOST = 283_500  # syntax nodes of the core
ALL = "all leaves"
METHODS = "methods of papers"
ALL_BUT_METHODS = "all leaves but methods"
TESTS = Path(__file__).parent
ROOMS = "comparison", "federation", "figures", "io", "metrics", "models", "reporting", "system"
COMMANDS = {  # leaf -> commands that go with it
    "sites": ["site"],
    "recipes and sweeps": ["reproduce"],
    "audit": ["audit"],
    "speed": ["bench"],
    "export": ["export"],
}
FIGURES = {  # leaf -> figures that go with it
    METHODS: ["divergence"],
    "audit": ["reconstructions"],
    "image quality": ["quality"],
    "figures": [
        *("adapters", "answers", "confusion", "corruptions", "features"),
        *("overall-and-worst", "samples", "severities"),
    ],
}
EVERY_MODULE = """
import json, pkgutil, importlib
import fedcli
for module in pkgutil.walk_packages(fedcli.__path__, "fedcli."):
    if module.name != "fedcli.__main__":
        importlib.import_module(module.name)
from fedcli.commands import registry
from fedcli.commands.app import app
from fedcli.data.sources import SOURCES
from fedcli.figures.kinds import FIGURES
for words in (["--help"], ["methods"], ["datasets"], ["plot", "--help"]):
    app(words, standalone_mode=False)
for name in registry.names():
    app([name, "--help"], standalone_mode=False)
print("LISTS", json.dumps([registry.names(), list(FIGURES), list(SOURCES)]))
"""
REFUSED = {  # command line -> the error that ends it without any leaf
    "train fedavg fedheal --work .": "train of several runs needs "
    "fedcli.reproduction, which is not installed",
    "train fedavg --track mlflow --work .": "--track needs fedcli.reporting.tracking, which is not "
    "installed",
    "evaluate --track mlflow --work .": "--track needs fedcli.reporting.tracking, which is not "
    "installed",
    "train fedavg toy --engine ray --work .": "--engine 'ray' is unknown",
    "train fedsam toy --work .": "unknown method 'fedsam'",
    "prepare isic2018 --work .": "unknown dataset 'isic2018'",
    "plot quality": "no figure is named 'quality'",
    "audit": "no such command 'audit'",
}
REFUSED_LINES = """
import contextlib, io, json, sys
from fedcli.commands.app import app
sentences = []
for line in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        app(line.split(), prog_name="fedcli")
    sentences.append(said.getvalue().partition("error: ")[2].partition("\\n")[0])
print("SENTENCES", json.dumps(sentences))
"""


def files_of(leaf: str) -> list[Path]:
    if leaf in leaves.files():
        return leaves.files()[leaf]
    paths = []
    for name in leaves.files():
        if leaf == ALL or name != METHODS:  # which tests of the core train as examples
            paths += leaves.files()[name]
    return paths


def copied(folder: Path, leaf: str) -> Path:
    """A folder with a copy of the package without a leaf, and with the cards of datasets."""
    shutil.copytree(leaves.PACKAGE, folder / "fedcli", ignore=shutil.ignore_patterns("__pycache__"))
    cards = leaves.PACKAGE.parent / "data_manifests"
    if cards.is_dir():  # of a checkout; an installed package holds its own
        (folder / "data_manifests").symlink_to(cards)
    for path in files_of(leaf):
        (folder / "fedcli" / path.relative_to(leaves.PACKAGE)).unlink()
    return folder


def played(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A process of Python in this folder, whose fedcli is the copy there."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def output(folder: Path, *words: str) -> str:
    ended = played(folder, *words)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert "error: " not in ended.stderr, ended.stderr
    return ended.stdout


def nodes_of(paths: list[Path]) -> int:
    return sum(test_rooms.nodes_of(test_rooms.name(path)) for path in paths)


def imported_at_once(module: str) -> set[str]:
    """Modules that a module imports when it is imported itself, not in a function."""
    package = (
        module if test_rooms.modules()[module].name == "__init__.py" else module.rpartition(".")[0]
    )
    names = set()
    for node in test_rooms.tree(module).body:
        if isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names & test_rooms.modules().keys()


def test_no_module_needs_a_leaf_to_be_imported():
    leaf_of = {}
    modules = {path: module for module, path in test_rooms.modules().items()}
    for leaf in leaves.files():
        leaf_of |= {modules[path]: leaf for path in files_of(leaf)}
    for module in modules.values():
        others = {leaf_of.get(name) for name in imported_at_once(module)}
        assert others <= {None, leaf_of.get(module)}, module


def test_the_core_is_small():
    core = nodes_of(sorted(test_rooms.modules().values())) - nodes_of(files_of(ALL))
    assert core <= MOST


def test_a_file_is_in_one_leaf():
    paths = files_of(ALL)
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("leaf", leaves.files())
def test_the_page_says_how_large_a_leaf_is(leaf):
    thousands = nodes_of(files_of(leaf)) / 1000
    assert leaves.sizes()[leaf] == pytest.approx(thousands, rel=0.2, abs=1)


def gone_with(names_by_leaf: dict[str, list[str]], leaf: str) -> list[str]:
    if leaf == ALL:
        return list(chain.from_iterable(names_by_leaf.values()))
    return names_by_leaf.get(leaf, [])


def check_lists(printed: str, leaf: str) -> None:
    """Check that commands and figures are listed but for those of a leaf, and no other."""
    commands, figures, datasets = json.loads(printed.rpartition("LISTS ")[2])
    gone = gone_with(COMMANDS, leaf)
    assert commands == [name for name in registry.COMMANDS if name not in gone]
    assert re.findall(r"^  (train|demo) ", printed, re.M)
    gone = gone_with(FIGURES, leaf)
    assert not set(figures) & set(gone)
    assert {"curves", "forest", "weights"} <= set(figures)
    few = leaf in (ALL, "named datasets")
    assert (datasets == ["images", "phantom", "toy"]) == few


@pytest.fixture(scope="module")
def without_leaves(tmp_path_factory):
    """A folder with a copy of the package without any leaf."""
    return copied(tmp_path_factory.mktemp("core"), ALL)


def test_without_any_leaf_all_that_is_left_is_imported_and_listed(without_leaves):
    check_lists(output(without_leaves, "-c", EVERY_MODULE), ALL)


def test_a_flag_that_needs_a_leaf_is_refused(without_leaves):
    printed = output(without_leaves, "-c", REFUSED_LINES, json.dumps(list(REFUSED)))
    sentences = json.loads(printed.rpartition("SENTENCES ")[2])
    assert sentences == list(REFUSED.values())


@pytest.mark.long
@pytest.mark.parametrize("leaf", [*leaves.files(), ALL])
def test_without_a_leaf_the_demo_and_the_lists_are_there(tmp_path, leaf):
    folder = copied(tmp_path, leaf)
    check_lists(output(folder, "-c", EVERY_MODULE), leaf)
    printed = output(folder, "-m", "fedcli", "demo", "--rounds", "1", "--work", "demo")
    assert "FedHEAL" in printed
    page = (folder / "demo" / "report.html").read_text(encoding="utf-8")
    assert page.count("<section ") > 3


def imports_of(path: Path) -> set[str]:
    """Names that a test imports, and those that the helpers which it imports do."""
    helpers = {path.stem: path for path in (TESTS / "support").glob("*.py")}
    helpers |= {path.stem: path for path in (TESTS.parent / "benchmarks").glob("*.py")}
    names: set[str] = set()
    waiting = [path]
    while waiting:
        new = set()
        for node in ast.walk(ast.parse(waiting.pop().read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                new |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                new |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        waiting += [helpers[name] for name in new - names if name in helpers]
        names |= new
    return names


def core_tests() -> list[str]:
    """Files of tests that import no leaf but methods, and call no command of one."""
    paths = files_of(ALL_BUT_METHODS)
    gone = {test_rooms.name(path) for path in paths}
    called = re.compile(rf"fedcli ({'|'.join(gone_with(COMMANDS, ALL))})\b")
    tests = []
    for room in ROOMS:
        for path in sorted((TESTS / room).glob("test_*.py")):
            text = path.read_text(encoding="utf-8")
            if not gone & imports_of(path) and not called.search(text):
                tests.append(str(path.relative_to(TESTS.parent)))
    return tests


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_tests_of_the_core_pass_without_leaves(tmp_path):
    folder = copied(tmp_path, ALL_BUT_METHODS)
    shutil.copytree(TESTS, folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("ARCHITECTURE.md", "pyproject.toml"):
        shutil.copy(TESTS.parent / name, folder / name)
    for name in ("benchmarks", "docs", "recipes"):
        (folder / name).symlink_to(TESTS.parent / name)
    tests = core_tests()
    assert len(tests) > 40
    ended = played(folder, "-m", "pytest", "-n", "2", "--tb=short", *tests)
    assert ended.returncode == 0, ended.stdout[-3000:]
