"""The examples for schedulers, with processes in place of nodes and a stand-in for the scheduler."""

import os
import subprocess
import sys
from pathlib import Path

import digits_recipe
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PARALLEL = """#!{python}
import subprocess, sys
words = sys.argv[sys.argv.index("fedcli"):]
line, values = words[:words.index(":::")], words[words.index(":::") + 1:]
running = [subprocess.Popen([word.replace("{{}}", value) for word in line]) for value in values]
sys.exit(sum(process.wait() != 0 for process in running))
"""
FLAGS = ["tiny.toml", "--scale", "smoke", "--jobs", "1"]


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    digits_recipe.write(folder)
    for name, text in (
        ("parallel", PARALLEL.format(python=sys.executable)),
        ("fedcli", f'#!/bin/sh\nexec {sys.executable} -m fedcli "$@"\n'),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    nodes = [start(folder, ["fedcli", "reproduce", *FLAGS, "--work", "alone"])]
    made(folder, nodes, "alone")
    return folder


def start(folder: Path, line: list[str], **env: str) -> subprocess.Popen:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        line,
        cwd=folder,
        env={**os.environ, "PATH": path, **env},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def made(folder: Path, nodes: list[subprocess.Popen], work: str) -> str:
    ended = [(*node.communicate(), node.returncode) for node in nodes]
    for *_, code in ended:
        assert code == 0, ended
    return (folder / work / "reproduce/tiny-smoke/table.md").read_text()


@pytest.mark.long
@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes", "parallel"])
def test_an_example_makes_the_table_of_one_process(scheduler, shared_folder):
    nodes = []
    work = f"work-{scheduler}"
    if scheduler == "slurm":
        words = ["bash", str(ROOT / "examples/reproduce-slurm.sh"), *FLAGS, "--work", work]
        array = {"SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
        nodes = [
            start(shared_folder, words, SLURM_ARRAY_TASK_ID=task, **array) for task in ("1", "2")
        ]
    elif scheduler == "kubernetes":
        job = yaml.safe_load((ROOT / "examples/reproduce-kubernetes.yaml").read_text())["spec"]
        (pod,) = job["template"]["spec"]["containers"]
        env = {variable["name"]: variable["value"] for variable in pod["env"]}
        assert job["completionMode"] == "Indexed"
        assert env["PARTS"] == str(job["completions"])
        line = [*pod["command"][:-1], f"{pod['command'][-1]} --scale smoke --work {work}"]
        env |= {"TABLE": "tiny.toml", "RAW": "toy=.", "DEVICE": "cpu", "PARTS": "2"}
        line[-1] = line[-1].replace('--raw "$RAW" ', "")  # the digits of toy come along
        nodes = [
            start(shared_folder, line, JOB_COMPLETION_INDEX=index, **env) for index in ("0", "1")
        ]
    else:
        nodes = [
            start(
                shared_folder,
                ["bash", str(ROOT / "examples/reproduce-parallel.sh"), "2", *FLAGS, "--work", work],
            )
        ]
    expected = (shared_folder / "alone/reproduce/tiny-smoke/table.md").read_text()
    assert made(shared_folder, nodes, work) == expected
