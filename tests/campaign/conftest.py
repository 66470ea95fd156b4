"""`pytest tests/campaign --count 500 --seed 7`: more cases of every kind, and others."""

import pytest

from .chain import Chain, build


@pytest.fixture(scope="session")
def chain(tmp_path_factory) -> Chain:
    return build(tmp_path_factory.mktemp("campaign"))


@pytest.fixture
def count(request) -> int:
    return request.config.getoption("--count")


@pytest.fixture
def seed(request) -> int:
    return request.config.getoption("--seed")
