"""docs/extend.md, carried out as it stands: its files, its command lines and its notebook."""

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from typed_lines import fedcli

from fedcli import extensions
from fedcli.commands import registry
from fedcli.commands.app import app
from fedcli.methods import METHODS
from fedcli.reporting import sections

TEXT = (Path(__file__).parent.parent / "docs" / "extend.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|sh)\n(.*?)```", TEXT, re.S)
FILES = {
    block.partition("\n")[0][2:]: block.partition("\n")[2]
    for kind, block in BLOCKS
    if kind == "python"
}


@pytest.mark.long
def test_the_pages_commands_run_one_after_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FILES["mine.py"], encoding="utf-8")
    assert len(FILES["mine.py"].splitlines()) <= 60
    for line in (line for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()):
        if "timm:" in line:
            pytest.importorskip("timm")
        with pytest.raises(SystemExit) as ended:
            app(shlex.split(line)[1:], prog_name="fedcli")
        printed = capsys.readouterr()
        assert ended.value.code == 0, f"{line}\n{printed.err}"
        if line == "fedcli check ./mine.py":
            assert "FAILS" not in printed.out
            assert "moon+my-mgda" in printed.out
        if line.startswith("fedcli report --metric"):
            assert "my cost" in " ".join(printed.out.split())


def test_the_notebook_registers_trains_and_may_be_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        for _ in range(2):
            exec(FILES["notebook"], {"__name__": "a_notebook"})
            assert METHODS["small-logits"].code["small-logits"].sha256
    finally:
        METHODS.pop("small-logits")
    assert "Small logits + FedHEAL" in capsys.readouterr().out


@pytest.fixture
def my_package(tmp_path, monkeypatch):
    """The package of the page, installed: its command and its section."""
    tomls = re.findall(r"```toml\n(.*?)```", TEXT, re.S)
    groups = tomllib.loads("\n".join(tomls))["project"]["entry-points"]
    (tmp_path / "my_package").mkdir()
    lines = []
    for kind, file in (("commands", "losses.py"), ("sections", "sections.py")):
        (tmp_path / "my_package" / file).write_text(FILES[f"my_package/{file}"], encoding="utf-8")
        lines.append(f"[fedcli.{kind}]")
        lines += [f"{name} = {function}" for name, function in groups[f"fedcli.{kind}"].items()]
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    caches = extensions.packages, extensions.installed, registry.of_package
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()
    for module in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[module]


def test_the_command_of_the_page_is_a_command_of_its_package(my_package, tmp_path):
    rounds = [{"loss": [3.0, None]}, {"loss": [2.0, 1.0]}, {"loss": [0.5, 0.5]}]
    lines = [json.dumps(line) for line in rounds]
    (tmp_path / "rounds.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert "From my-package 1.0:\n  losses  Print the mean loss" in fedcli("--help")[1]
    assert fedcli("losses", tmp_path, "--last", 2)[:2] == (0, "1.5\n0.5\n")
    assert fedcli("losses", tmp_path)[:2] == (0, "3.0\n1.5\n0.5\n")


def test_the_section_of_the_page_is_a_section_of_its_package(my_package):
    (section,) = sections.of_packages(["runs"], [SimpleNamespace(name="FedAvg", runs=2)])
    assert section.name == "package-runs"
    (table,) = section.tables
    assert table.title == "How many runs?"
    assert [[cell.text for cell in row] for row in table.rows] == [["FedAvg", "2"]]
