"""The files for packagers say what pyproject.toml says."""

import re
import tomllib
from pathlib import Path

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
