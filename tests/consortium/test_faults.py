"""Sites that lie, and servers and clients of NVFlare and Flower that are killed, over each engine's own server.

The script of the rehearsal with faults.sh in place of its last line. Minutes each.
"""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
LAST = "train_and_compare "
INSTEAD = f'source "{HERE}/faults.sh"\nfaults '
LIES = ["count", "negative", "steps", "shape", "nan", "columns"]


def with_faults(engine: str, folder: Path) -> Path:
    """A copy of the example that calls faults() where it called train_and_compare()."""
    for path in EXAMPLES.glob("consortium-*.sh"):
        shutil.copy(path, folder)
    script = folder / f"consortium-{engine}.sh"
    before, call, engine_and_folder = script.read_text().rpartition(LAST)
    assert call
    assert engine_and_folder.startswith(f'"{engine}:')
    script.write_text(before + INSTEAD + engine_and_folder)
    return script


@pytest.mark.parametrize(
    ("engine", "package", "needs"),
    [("nvflare", "nvflare", "bash"), ("flower", "flwr", "ssh-keygen")],
)
def test_lies_are_named_and_what_was_killed_goes_on_to_the_same_bytes(
    engine, package, needs, tmp_path
):
    if find_spec(package) is None or shutil.which(needs) is None:
        pytest.skip(f"the extra {engine}, or {needs}, is not installed")
    done = subprocess.run(
        ["bash", with_faults(engine, tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "FEDCLI_WORK": "fedcli-work"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    for lie in LIES:
        assert f"refused-{lie}.log ended with 1: error: site vidir_modern: " in done.stdout
    for whom in ("client", "server"):
        assert f"{whom} killed: the run ended with 1 " in done.stdout
    assert done.stdout.count("scaffold: the same bytes as --engine pool:2") == 2
