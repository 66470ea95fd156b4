"""The files for packagers say what pyproject.toml says."""

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
    pythons = re.findall(r"^FROM python:([\d.]+)-slim", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)
    said = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if line.startswith("Programming Language")]
    assert set(pythons) <= set(said) and PROJECT["requires-python"] == f">={said[0]}"


def test_issue_templates_are_forms_with_a_name():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert path.name == "config.yml" or (form["name"] and all(part["type"] for part in form["body"]))


@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="not a git checkout")
def test_no_large_file_is_kept():
    """A package that was downloaded beside the sources would stay in the history of every clone."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]  # of a checkout that another user made too
    kept = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in kept.split("\0") if name]
    assert not [path.name for path in paths if path.is_file() and path.stat().st_size > 2**19]
