"""docs/extend.md, carried out as it stands: its files, its command lines and its notebook."""

import re
import shlex
from pathlib import Path

import pytest

from fedcli.commands.app import app
from fedcli.methods import METHODS

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
        shown = capsys.readouterr()
        assert ended.value.code == 0, f"{line}\n{shown.err}"
        if line == "fedcli check ./mine.py":
            assert "FAILS" not in shown.out and "moon+my-mgda" in shown.out
        if line.startswith("fedcli report --metric"):
            assert "my cost" in " ".join(shown.out.split())


def test_the_notebook_registers_trains_and_may_be_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        for _ in range(2):
            exec(FILES["notebook"], {"__name__": "a_notebook"})
            assert METHODS["small-logits"].code["small-logits"].sha256
    finally:
        METHODS.pop("small-logits")
    assert "Small logits + FedHEAL" in capsys.readouterr().out
