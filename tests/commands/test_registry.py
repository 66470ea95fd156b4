"""The registry of commands: one line each, imported when it is needed, left out where its room is gone."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fedcli
from fedcli.commands import registry

PACKAGE = Path(fedcli.__file__).parent
ALONE = {  # what of all commands only these need -> the commands
    "sites": ["site"],
    "reproduction": ["sweep", "run", "reproduce"],
    "scores/audit": ["audit"],
    "bench/checks.py": ["check"],
    "bench/engine.py": ["bench"],
}
EVERY_HELP = """
import json, sys
from fedcli.commands import registry
from fedcli.commands.app import app
app(["--help"], standalone_mode=False)
for name in registry.names():
    if name != "plot":  # a figure shows what audit has written
        app([name, "--help"], standalone_mode=False)
print("NAMES", json.dumps(registry.names()))
"""


def python(code: str, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", registry.COMMANDS)
def test_a_command_is_a_function_of_its_name(name):
    function = getattr(import_module(registry.COMMANDS[name].module), name)
    assert registry.load(name).name == function.__name__ == name


def test_a_call_of_one_command_imports_no_other(tmp_path):
    code = """
import sys
from fedcli.commands.app import app
app(["version", "--help"], standalone_mode=False)
print("LOADED", *sorted(name for name in sys.modules if name.startswith("fedcli.commands.")))
"""
    loaded = python(code, tmp_path).partition("LOADED ")[2].split()
    modules = {entry.module for entry in registry.COMMANDS.values()}
    assert modules & set(loaded) == {"fedcli.commands.version"}


def test_a_command_whose_room_is_gone_is_not_there(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "fedcli", ignore=shutil.ignore_patterns("__pycache__"))
    cards = PACKAGE.parent / "data_manifests"
    if cards.is_dir():  # of a checkout; an installed package holds its own
        (tmp_path / "data_manifests").symlink_to(cards)
    gone = []
    for path, names in ALONE.items():
        room = tmp_path / "fedcli" / path
        if room.is_dir():
            shutil.rmtree(room)
            (room / "__pycache__").mkdir(parents=True)  # which a removal by git leaves
        else:
            room.unlink()
        gone += names
    out = python(EVERY_HELP, tmp_path)
    names = json.loads(out.rpartition("NAMES ")[2])
    assert names == [name for name in registry.COMMANDS if name not in gone]
    commands = out.partition("\nBegin:")[2].partition("\nUsage:")[0]
    assert "\n  train  " in commands
    assert not [name for name in gone if f"\n  {name}  " in commands]
    code = "from fedcli.__main__ import main; import sys; sys.argv = ['fedcli', 'site']; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: no such command 'site'")


def test_what_a_command_needs_is_there(tmp_path):
    for entry in registry.COMMANDS.values():
        assert entry.is_complete()
    assert not registry.Entry("More", "fedcli.x", needs="fedcli.no_such.room").is_complete()
    assert not registry.Entry("More", "fedcli.x", needs="fedcli.no_such_room").is_complete()
