"""The site: its generated pages say what the code says, its CI pipelines run, and it builds without a warning."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import generate
import pytest
import session

from fedcli.commands.app import app
from fedcli.data import bodies
from fedcli.data.sources import SOURCES
from fedcli.methods import METHODS

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def pages():
    return generate.pages()


def test_every_command_method_dataset_and_manifest_has_its_page(pages):
    expected = [f"commands/{c.name or c.callback.__name__}.md" for c in app.registered_commands]
    expected += [f"methods/{name}.md" for name in METHODS] + [f"datasets/{name}.md" for name in SOURCES]
    expected += [f"schemas/{kind}.json" for kind in bodies.BODIES]
    assert set(expected) <= set(pages)


def test_the_page_of_a_command_has_the_options_of_its_help(pages):
    help_text = session.run("fedcli train --help")
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_text)) - {"--help"}
    shown = set(re.findall(r"--[a-z][a-z-]+", " ".join(re.findall(r"^\| `([^`]*)`", pages["commands/train.md"], re.M))))
    assert {"--rounds", "--set"} <= flags & shown
    assert not shown - set(re.findall(r"--[a-z][a-z-]+", help_text))


def test_the_page_of_a_method_has_its_options_and_its_source(pages):
    assert "| `--set tau=` | server | `0.3` |" in pages["methods/fedheal.md"]
    assert "arXiv 2405.16585" in pages["methods/fedheal.md"]


def test_equations_are_of_methods_and_drawn_without_a_script(pages):
    assert set(generate.EQUATIONS) <= set(METHODS)
    for name, named in generate.EQUATIONS.items():
        page = pages[f"methods/{name}.md"]
        assert page.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') == len(named)
        assert "<mo>\\" not in page and "<mi>\\" not in page, "a command that is no LaTeX"
        ElementTree.fromstring(f"<page>{''.join(re.findall(r'<math.*?</math>', page))}</page>")


def pipeline(language: str) -> list[str]:
    """Lines of a CI file in docs/pipelines.md."""
    page = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.S)
    block = next(block for block in blocks if ("runs-on" in block) == (language == "github"))
    return re.findall(r"^ *- (?:run: )?(fedcli .*)$", block, re.M)


def test_the_files_for_ci_run_the_same_commands_and_they_validate(tmp_path, monkeypatch):
    lines = pipeline("github")
    assert lines and lines == pipeline("gitlab")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        last = session.run(line).splitlines()[-1]
    assert Path(last).suffix == ".html" and Path(last).exists()
    written = sorted(tmp_path.glob("fedcli-work/*/*/*.json"))
    kinds = {path.stem for path in written} & set(bodies.BODIES)
    assert {"dataset", "partition", "run"} <= kinds
    for path in written:
        if path.stem in bodies.BODIES:
            validate(json.loads(path.read_text(encoding="utf-8")), generate.schema(path.stem))


def validate(value, schema):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(value, schema)


def test_a_schema_refuses_a_manifest_of_another_shape():
    jsonschema = pytest.importorskip("jsonschema")
    bodiless = {"kind": "run", "made_by": [], "options": {}, "parents": {}, "files": {}, "format": 1}
    with pytest.raises(jsonschema.ValidationError, match="'body' is a required property"):
        jsonschema.validate(bodiless, generate.schema("run"))


@pytest.mark.long
@pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="needs the extra docs")
def test_the_site_builds_without_a_warning(tmp_path):
    words = f"{shlex.quote(sys.executable)} -m mkdocs build --strict --quiet --site-dir {tmp_path / 'site'}"
    done = subprocess.run(shlex.split(words), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "commands" / "train" / "index.html").read_text(encoding="utf-8")
    assert "--participation" in page
