"""The files for packagers say what pyproject.toml says."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import fedcli

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}  # name on PyPI -> there


def test_the_conda_recipe_has_this_version_and_the_same_dependencies():
    recipe = yaml.safe_load((ROOT / "packaging" / "recipe.yaml").read_text(encoding="utf-8"))
    expected = [re.match(r"([\w-]+)(.*)", given).groups() for given in PROJECT["dependencies"]]
    assert recipe["requirements"]["run"][1:] == [
        f"{CONDA.get(name, name)} {limits}".strip() for name, limits in expected
    ]
    assert recipe["context"]["version"] == fedcli.__version__ == PROJECT["version"]


def test_the_image_is_built_on_a_python_that_is_said_to_work():
    pythons = re.findall(
        r"^FROM python:([\d.]+)-slim", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M
    )
    said = [
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if line.startswith("Programming Language")
    ]
    assert set(pythons) <= set(said) and PROJECT["requires-python"] == f">={said[0]}"


def jobs_of(workflow):
    """Command lines of the jobs of a workflow with the Python that each asks for, one for each cell of a matrix."""
    for job in yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        cells = [{}]
        for key in set(matrix) - {"include"}:
            cells = [{**cell, key: value} for cell in cells for value in matrix[key]]
        for cell in [*cells, *matrix.get("include", [])]:
            text = json.dumps(job["steps"])
            for key, value in cell.items():
                text = text.replace(f"${{{{ matrix.{key} }}}}", value)
            *_, python, command = json.loads(text)
            yield command["run"], python["with"]["python-version"]


def test_each_step_of_the_pipeline_is_a_job_and_tests_run_on_each_python_that_is_said_to_work():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = re.search(r"^steps=\((.*)\)$", script, re.M)[1].split()
    assert steps == re.findall(r"^(\w+)\(\) \{", script, re.M), "in the order in which they stand"
    jobs = list(jobs_of(ROOT / ".github" / "workflows" / "tests.yml"))
    named = [step for line, _ in jobs if line.startswith(".ci/run ") for step in line.split()[1:]]
    assert set(named) == set(steps) and all((ROOT / line.split()[0]).exists() for line, _ in jobs)
    said = {
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if line.startswith("Programming Language")
    }
    assert {python for line, python in jobs if line == ".ci/run tests"} == said
    ended = subprocess.run([ROOT / ".ci" / "run", "lint", "tpyes"], capture_output=True, text=True)
    assert ended.returncode == 2 and "no step tpyes; steps: lint types" in ended.stderr


def test_issue_templates_are_forms_with_a_name():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert path.name == "config.yml" or (
            form["name"] and all(part["type"] for part in form["body"])
        )


def tracked() -> set[str]:
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout")
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
    ]  # of a checkout that another user made too
    kept = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in kept.split("\0") if (ROOT / name).is_file()}


def test_the_archive_of_sources_has_whatever_tests_and_pages_need(monkeypatch):
    listed = pytest.importorskip("setuptools.command.egg_info").FileList()
    monkeypatch.chdir(ROOT)
    for line in Path("MANIFEST.in").read_text(encoding="utf-8").splitlines()[1:]:
        listed.process_template_line(line)
    packaged = (
        "fedcli/",
        "data_manifests/",
        "recipes/",
        "pyproject.toml",
        "LICENSE",
        "MANIFEST.in",
        ".git",
        ".docker",
    )
    assert not {name for name in tracked() - {*listed.files} if not name.startswith(packaged)}


def test_every_folder_of_the_package_is_named():
    """Else setuptools leaves its modules out, or warns of its data."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]["packages"]
    folders = {
        Path(name).parent
        for name in tracked()
        if name.startswith(("fedcli/", "data_manifests/", "recipes/"))
    }
    assert {
        ".".join(("fedcli", *folder.parts)).replace("fedcli.fedcli", "fedcli") for folder in folders
    } == {*declared}


def test_no_large_file_is_kept():
    """A package that was downloaded beside the sources would stay in the history of every clone."""
    assert not [name for name in tracked() if (ROOT / name).stat().st_size > 2**19]
