"""The raw folder of a dataset, for the test file about it, which names it as DATASET, and a partition on disk."""

import shutil
from pathlib import Path

import pytest
from site_federation import chain_with_tests

from fedcli.data import sources


@pytest.fixture(scope="module")
def sample(request, tmp_path_factory) -> Path:
    """The synthetic sample, which tests only read."""
    return sources.make_sample(request.module.DATASET, tmp_path_factory.mktemp("sample"))


@pytest.fixture
def raw(sample, tmp_path) -> Path:
    """A copy, which a test may change."""
    return Path(shutil.copytree(sample, tmp_path / "raw"))


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def source(work) -> Path:
    """A partition of four clients with validation and test images, which tests only read."""
    return chain_with_tests(work)
