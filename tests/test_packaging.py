"""The files for packagers say what pyproject.toml says."""

import json
import re
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import fedcli

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}  # name on PyPI -> there


def test_the_conda_recipe_has_the_same_dependencies():
    recipe = yaml.safe_load((ROOT / "packaging" / "recipe.yaml").read_text(encoding="utf-8"))
    expected = [
        re.match(r"([\w-]+)(.*)", dependency).groups() for dependency in PROJECT["dependencies"]
    ]
    _, *requirements = recipe["requirements"]["run"]
    for requirement, (name, limits) in zip(requirements, expected, strict=True):
        assert requirement == f"{CONDA.get(name, name)} {limits}".strip()


def test_the_version_is_written_in_one_file():
    assert re.fullmatch(r"\d+\.\d+\.\d+", fedcli.__version__)
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    for name in ("packaging/recipe.yaml", "CITATION.cff", "Dockerfile", "mkdocs.yml"):
        assert fedcli.__version__ not in (ROOT / name).read_text(encoding="utf-8")


def test_the_image_is_built_on_a_python_that_is_said_to_work():
    pythons = re.findall(
        r"^FROM python:([\d.]+)-slim", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M
    )
    versions = [
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if line.startswith("Programming Language")
    ]
    assert set(pythons) <= set(versions)
    assert PROJECT["requires-python"] == f">={versions[0]}"


LAST_OPENCV = (
    "pip uninstall --yes opencv-python && "
    "pip install --no-cache-dir --no-deps --force-reinstall opencv-python-headless"
)


@pytest.mark.parametrize("name", ["Dockerfile", ".ci/run"])
def test_the_last_opencv_of_the_image_and_of_its_step_needs_no_libgl(name):
    """Of two packages that own the folder cv2 the last wins, and the image has no libGL."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    assert LAST_OPENCV in " ".join(text.split())


def test_the_image_takes_extras_and_any_user():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert '"$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}"' in text
    for folder in ("/home/fedcli", "/data"):
        assert re.search(rf"1777 {folder}\b", text)


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
    on_request = re.search(r"^on_request=\((.*?)\)", script, re.M)[1].split()
    functions = re.findall(r"^(\w+)\(\) \{", script, re.M)
    assert steps == [name for name in functions if name not in on_request], "in their order"
    jobs = list(jobs_of(ROOT / ".github" / "workflows" / "tests.yml"))
    steps_run = [
        step for line, _ in jobs if line.startswith(".ci/run ") for step in line.split()[1:]
    ]
    assert set(steps_run) == set(functions) == {*steps, *on_request}
    for line, _ in jobs:
        assert (ROOT / line.split()[0]).exists()
    versions = {
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if line.startswith("Programming Language")
    }
    result = {python for line, python in jobs if line == ".ci/run tests"}
    assert result == versions
    ended = subprocess.run([ROOT / ".ci" / "run", "lint", "tpyes"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "no step tpyes; steps: lint types" in ended.stderr


def test_issue_templates_are_forms_with_a_name():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.name != "config.yml":
            assert form["name"]
            assert all(part["type"] for part in form["body"])


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
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in listing.split("\0") if (ROOT / name).is_file()}


@pytest.mark.long
def test_the_archives_hold_every_file_that_they_need(tmp_path):
    """The wheel has all of the package, with its cards and recipes; the archive of sources has all."""
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    sources = pytest.importorskip("hatchling.builders.sdist")
    (wheel,) = hatchling.WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    (archive,) = sources.SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(archive) as opened:
        in_archive = {name.partition("/")[2] for name in opened.getnames()}
    packaged = {name for name in tracked() if name.startswith("fedcli/")}
    for folder in ("data_manifests", "recipes"):
        packaged |= {f"fedcli/{name}" for name in tracked() if name.startswith(f"{folder}/")}
    assert not packaged - in_wheel
    assert not tracked() - in_archive


def test_no_large_file_is_kept():
    """A package that was downloaded beside the sources would stay in the history of every clone."""
    assert not [name for name in tracked() if (ROOT / name).stat().st_size > 2**19]
