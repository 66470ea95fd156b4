"""A small job is over before a large library is imported: training loads none of those it does not need."""

import subprocess
import sys

from conftest import make_chain

SLOW = (
    "torch._dynamo",
    "torch._inductor",
    "torchvision",
    "matplotlib",
    "pandas",
    "albumentations",
    "sklearn",
    "jinja2",
)


def test_training_imports_no_compiler_and_nothing_for_pictures(tmp_path):
    data = make_chain(tmp_path)
    program = f"""
import sys
from fedcli.bench import limits
from fedcli.commands.app import app
limits.LEAST = float("inf")  # a busy machine may take long enough for its limits to be measured
train = ["train", "fedavg", {str(data)!r}, "--rounds", "1", "--work", {str(tmp_path)!r}, "--quiet"]
for more in ([], ["--dp", "image:1", "--model", "cnn-gn"]):
    app([*train, *more], standalone_mode=False)
print([name for name in {SLOW!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
