"""The registry of commands: one line each, imported when it is needed, left out where its leaf was deleted."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from fedcli.commands import registry


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
app(["models", "--help"], standalone_mode=False)
print("LOADED", *sorted(name for name in sys.modules if name.startswith("fedcli.commands.")))
"""
    loaded = python(code, tmp_path).partition("LOADED ")[2].split()
    modules = {entry.module for entry in registry.COMMANDS.values()}
    assert modules & set(loaded) == {"fedcli.commands.lists"}


def test_what_a_command_needs_is_there():
    assert all(entry.is_complete() for entry in registry.COMMANDS.values())
    assert not registry.Entry("More", "fedcli.commands.no_such").is_complete()
    for module in ("fedcli.no_such.room", "fedcli.no_such_room"):
        assert not registry.Entry("More", "fedcli.commands.ls", needs=module).is_complete()
