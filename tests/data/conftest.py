"""The raw folder of a dataset, for the test file about it, which names it as DATASET."""

import shutil
from pathlib import Path

import pytest

from fedcli.data import sources


@pytest.fixture(scope="module")
def made(request, tmp_path_factory) -> Path:
    """The synthetic sample, which tests only read."""
    return sources.make_sample(request.module.DATASET, tmp_path_factory.mktemp("sample"))


@pytest.fixture
def raw(made, tmp_path) -> Path:
    """A copy, which a test may change."""
    return Path(shutil.copytree(made, tmp_path / "raw"))
