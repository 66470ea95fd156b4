"""`pytest tests/campaign --count 500 --seed 7`: more cases of every kind, and others."""

from pathlib import Path

import pytest

from .chain import Chain, build
from .play import Play
from .process import warm


@pytest.fixture(scope="session")
def chain(tmp_path_factory) -> Chain:
    warm()
    return build(tmp_path_factory.mktemp("campaign"))


@pytest.fixture
def play(request) -> Play:
    option = request.config.getoption
    tally = option("--tally")
    return Play(request.node.name, option("--count"), option("--seed"), Path(tally) if tally else None)
