"""The site: its generated pages say what the code says, its CI pipelines run, and it builds without a warning."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import generate
import pictures
import published_schema
import pytest
import session
import which_method
import yaml
from typed_lines import fedcli

from fedcli import extensions
from fedcli.commands import registry
from fedcli.data import manifest_bodies
from fedcli.data.sources import SOURCES
from fedcli.methods import METHODS, resolve
from fedcli.sites import policy

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def pages():
    return generate.pages()


def nav(value) -> list[str]:
    """The pages of a part of mkdocs.yml's navigation."""
    if isinstance(value, str):
        return [value]
    return [
        page
        for inner in (value.values() if isinstance(value, dict) else value)
        for page in nav(inner)
    ]


def test_every_page_is_reached_from_the_navigation_and_from_the_first_page(pages):
    listed = nav(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    written = {path.name for path in ROOT.glob("docs/*.md")}
    assert len(listed) == len(set(listed))
    assert written <= set(listed) <= written | set(pages)
    first_page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)#]+)", generate.on_page_markdown(first_page)))
    of_the_repository = written | set(generate.REPOSITORY_PAGES)
    assert of_the_repository - {"index.md"} <= linked, (
        "the first page links to every page that is written"
    )
    for folder in ("commands", "methods", "datasets"):
        pages_linked = set(re.findall(r"\]\(([^)#/]+\.md)", pages[f"{folder}/index.md"]))
        expected = {f"{folder}/{name}" for name in pages_linked | {"index.md"}}
        result = {page for page in pages if page.startswith(folder)}
        assert result == expected


RUN_BY = {  # (page, language) of a block -> the test that runs it
    ("screens.md", "console"): "test_docs.py",
    ("first-table.md", "console"): "test_readme.py",
    ("README.md", "console"): "test_readme.py",
    ("real-images.md", "console"): "test_readme.py",
    ("external-validation.md", "console"): "test_external_validation.py",
    ("external-validation.md", "python"): "test_external_validation.py",
    ("extend.md", "python"): "test_extend.py",
    ("extend.md", "sh"): "test_extend.py",
    ("multi-label.md", "sh"): "test_multi_label.py",
    ("consortium.md", "sh"): "consortium",
    ("engines.md", "sh"): "consortium",
    ("python.md", "python"): "stages/test_python_api.py",
    ("notebook.md", "python"): "stages/test_python_api.py",
    ("sites.md", "python"): "sites/test_engine.py",
    ("pipelines.md", "yaml"): "test_docs.py",
    ("settings.md", "toml"): "test_docs.py",
    ("sites.md", "toml"): "test_docs.py",
    ("extend.md", "toml"): "test_docs.py",
}
BY_LINES = {
    "index.md",
    "README.md",
    "models.md",
    "sites.md",
}  # fences whose lines test_documented_lines.py runs


def test_no_block_of_the_guides_escapes_the_tests():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        for language in set(re.findall(r"^```(\w+)$", page.read_text(encoding="utf-8"), re.M)):
            by_lines = language == "sh" and page.name in BY_LINES
            runner = RUN_BY.get((page.name, language), "")
            assert by_lines or runner, f"{page.name}: no test runs its {language} blocks"
            assert by_lines or (ROOT / "tests" / runner).exists()


def test_the_page_of_screens_types_commands_and_flags_that_are_there():
    text = re.sub(
        r"<details>.*?</details>",
        "",
        (ROOT / "docs" / "screens.md").read_text(encoding="utf-8"),
        flags=re.S,
    )
    typed = re.findall(r"^\$ fedcli (\w+)(.*)$", text, re.M)
    assert len(typed) == 10
    for command, words in typed:
        help_text = session.run(f"fedcli {command} --help=all")
        for flag in re.findall(r"--[\w-]+", words):
            assert flag in help_text, command


def block(page, language, number=0):
    """A fenced block of a page in a language, usually the first."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)```", text, re.S | re.M)[number]


def test_the_settings_the_policy_and_the_entry_points_of_the_guides_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("policy.toml").write_text(block("sites.md", "toml"), encoding="utf-8")
    assert policy.read(Path("policy.toml")).allows_scores
    Path("policy.toml").write_text(block("sites.md", "toml", 1), encoding="utf-8")
    site = policy.read(Path("policy.toml"))
    assert site.methods == ("fedavg", "scaffold")
    assert site.privacy.epsilon == 8.0
    Path("fedcli.toml").write_text(block("settings.md", "toml"), encoding="utf-8")
    assert "FedHEAL" in session.output(
        "fedcli methods fedheal"
    )  # a mistake in the file would end any command
    text = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    points = "\n".join(re.findall(r"```toml\n(.*?)```", text, re.S))
    groups = tomllib.loads(points)["project"]["entry-points"]
    expected = {f"fedcli.{kind}" for kind in extensions.KINDS}
    assert set(groups) == expected


def test_every_command_method_dataset_and_manifest_has_its_page(pages):
    expected = [f"commands/{name}.md" for name in registry.COMMANDS]
    expected += [f"methods/{name}.md" for name in METHODS]
    expected += [f"datasets/{name}.md" for name in SOURCES]
    expected += [f"schemas/{kind}.json" for kind in manifest_bodies.BODIES]
    assert set(expected) <= set(pages)


def test_the_page_of_a_command_has_the_options_of_its_help(pages):
    help_text = session.run("fedcli train --help=all")
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_text)) - {"--help"}
    flags_shown = set(
        re.findall(
            r"--[a-z][a-z-]+",
            " ".join(re.findall(r"^\| `([^`]*)`", pages["commands/train.md"], re.M)),
        )
    )
    assert {"--rounds", "--set"} <= flags & flags_shown
    assert not flags_shown - set(re.findall(r"--[a-z][a-z-]+", help_text))


def test_the_page_of_a_method_has_its_options_and_its_source(pages):
    assert "| `--set tau=` | server | `0.3` |" in pages["methods/fedheal.md"]
    assert "arXiv 2405.16585" in pages["methods/fedheal.md"]


def test_equations_are_of_methods_and_drawn_without_a_script(pages):
    own_methods = {
        name for name, method in METHODS.items() if method.module.startswith("fedcli.methods.")
    }
    assert set(generate.EQUATIONS) <= own_methods
    for name, equations in generate.EQUATIONS.items():
        page = pages[f"methods/{name}.md"]
        assert page.count(
            '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
        ) == len(equations)
        assert "<mo>\\" not in page, "a command that is no LaTeX"
        assert "<mi>\\" not in page, "a command that is no LaTeX"
        ElementTree.fromstring(f"<page>{''.join(re.findall(r'<math.*?</math>', page))}</page>")


def test_equations_that_a_page_numbers_are_numbered_in_the_source_too():
    for name, equations in generate.EQUATIONS.items():
        for equation in equations:
            for kind, start, end in re.findall(
                r"(Eq|Alg|Lemma)s?\.? (\d+)(?:(?:-| and |, )(\d+))?", equation
            ):
                numbers = numbered(kind, METHODS[name].documentation)
                result = {int(number) for number in (start, end) if number}
                assert result <= numbers, f"{name}: {equation}"


def numbered(kind, text):
    """The numbers of the equations, or algorithms, that a docstring names, with those inside its ranges."""
    word = {"Eq": r"Eqs?\.|equations?", "Alg": r"Algs?\.|Algorithms?", "Lemma": "Lemma"}[kind]
    numbers = set()
    for listed in re.findall(rf"(?:{word}) ((?:\d+(?:-| and |, )?)+)", " ".join(text.split())):
        for start, end in re.findall(r"(\d+)(?:-(\d+))?", listed):
            numbers |= set(range(int(start), int(end or start) + 1))
    return numbers


def steps_of(workflow):
    """The shell steps of a workflow of GitHub Actions, by name: those of its one job."""
    (job,) = workflow["jobs"].values()
    return {step["name"]: step for step in job["steps"] if "run" in step}


def lines_of(script):
    return [line for line in script.splitlines() if line.startswith("fedcli ")]


def test_the_workflows_of_the_guide_run_gate_and_keep_the_page(tmp_path, monkeypatch):
    written = (ROOT / "examples" / "fedcli.yml").read_text(encoding="utf-8")
    assert block("pipelines.md", "yaml") == written, (
        "docs/pipelines.md shows examples/fedcli.yml as it is"
    )
    workflow = yaml.safe_load(written)
    gitlab = yaml.safe_load(block("pipelines.md", "yaml", 1))["fairness"]
    steps = steps_of(workflow)
    *before, gate, page = [line for step in steps.values() for line in lines_of(step["run"])]
    assert [*before, gate] == lines_of("\n".join(gitlab["script"]))
    assert [page] == gitlab["after_script"]
    out = shlex.split(page)[shlex.split(page).index("--out") + 1]
    *_, upload = workflow["jobs"]["fairness"]["steps"]
    assert upload["with"]["path"] == out
    assert gitlab["artifacts"] == {"when": "always", "paths": [out]}
    assert "!cancelled()" in upload["if"]
    expected = list(steps.values())[-1]["if"]
    assert upload["if"] == expected
    monkeypatch.chdir(tmp_path)
    shorter = {"prepare": "--size 16", "train": "--rounds 1"}
    for line in before:
        session.output(f"{line} {shorter.get(line.split()[1], '')}")
    limits = [*re.findall("--fail-if '.*?'", gate), "--fail-if 'gap(race) > 0'"]
    code, _, err = fedcli(*shlex.split(" ".join([gate, limits[-1]]))[1:])
    assert len(limits) > 2
    assert code == 4
    assert "gap" in err
    session.output(page)
    assert "<html" in Path(out).read_text(encoding="utf-8")
    for path in sorted(tmp_path.glob("fedcli-work/*/*/*.json")):
        if path.stem in manifest_bodies.BODIES:
            validate(json.loads(path.read_text(encoding="utf-8")), generate.schema(path.stem))


def validate(value, schema):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(value, schema)


def test_the_schema_of_scores_knows_every_key_at_every_depth(tmp_path):
    whole = generate.schema("scores")
    definitions = whole["$defs"]
    (clinical, _) = whole["properties"]["body"]["properties"]["clinical"]["anyOf"]
    assert {"External", "Client", "Curves"} <= set(definitions)
    operating = clinical["properties"]["classes"]["additionalProperties"]["additionalProperties"][
        "properties"
    ]["operating"]
    assert operating["items"]["required"][:3] == ["rule", "choice", "thresholds"]
    assert "youden" in operating["items"]["properties"]["rule"]["description"]
    assert definitions["Client"]["additionalProperties"] is False
    path = tmp_path / "scores.json"
    path.write_text(json.dumps({"body": {"clients": {"a": {"version": 1.5}}}}))
    wrong = published_schema.errors(path)
    assert "$.body.clients.a.version: 1.5 is not of type 'string'" in wrong
    assert "$.body.clients.a: 'part' is a required property" in wrong


def test_a_schema_refuses_a_manifest_of_another_shape():
    jsonschema = pytest.importorskip("jsonschema")
    bodiless = {
        "kind": "run",
        "made_by": [],
        "options": {},
        "parents": {},
        "files": {},
        "format": 1,
    }
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


def test_the_picture_of_every_method_has_the_rows_of_the_benchmark(tmp_path):
    pairs = pictures.every_method()
    names = [name for attribute, name, *_ in pairs if attribute == "sex"]
    assert names == list(which_method.numbers("ham10000-hospitals-scratch"))
    for *_, overall, worst in pairs:
        assert 0 < worst <= 100
        assert 0 < overall <= 100
    pictures.plane(tmp_path / "plane.svg")
    assert "Overall score and worst group" in (tmp_path / "plane.svg").read_text()


def test_the_page_of_networks_lists_the_methods_that_need_a_text_encoder():
    text = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    listed = re.search(r"^- (.*), which need a text encoder", text, re.M)[1]
    of_clip = {name for name in METHODS if resolve(name).local.model == "clip"}
    assert set(re.findall(r"`([\w-]+)`", listed)) == of_clip


def test_privacy_lists_methods_by_what_their_server_needs():
    rows = re.findall(
        r"^\| (sums|scalars|updates) \|[^|]*\|([^|]*)\|$",
        (ROOT / "docs/privacy.md").read_text(),
        re.M,
    )
    assert [needs for needs, _ in rows] == ["sums", "scalars", "updates"]
    for needs, listed in rows:
        method_names = [name for name in re.findall(r"[a-z][a-z-]*", listed) if name in METHODS]
        assert method_names
        result = {name: resolve(name).needs for name in method_names}
        assert result == dict.fromkeys(method_names, needs)
