"""The two scripts that rehearse a consortium on one machine, each with its engine: `pytest tests/consortium`.

Minutes each. With FEDCLI_REAL_DATA they train on the images of two of HAM10000's hospitals.
"""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
REAL = os.environ.get("FEDCLI_REAL_DATA")


@pytest.mark.parametrize(
    ("engine", "package", "needs"),
    [("nvflare", "nvflare", "bash"), ("flower", "flwr", "ssh-keygen")],
)
def test_a_consortium_on_one_machine_comes_to_the_bytes_of_one_process(engine, package, needs):
    if find_spec(package) is None or shutil.which(needs) is None:
        pytest.skip(f"the extra {engine}, or {needs}, is not installed")
    raw = [str(Path(REAL) / "ham10000")] if REAL else []
    script = EXAMPLES / f"consortium-{engine}.sh"
    done = subprocess.run(
        ["bash", script, *raw], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "the same bytes as --engine pool:2"
