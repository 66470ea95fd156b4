"""`pytest tests/campaign --count 500 --seed 7`: more cases of every kind, and others."""

from pathlib import Path

import numpy as np
import pytest

from .chain import METHODS, Chain, build
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
    return Play(
        request.node.name, option("--count"), option("--seed"), Path(tally) if tally else None
    )


def pytest_collection_modifyitems(config, items) -> None:
    """Where few cases are played, they are of few methods, which the seed draws."""
    if config.getoption("--count") > 2:
        return
    few = (
        np.random.default_rng(config.getoption("--seed")).permutation(sorted(METHODS))[:3].tolist()
    )
    dropped = [item for item in items if _method(item) in METHODS.keys() - set(few)]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]


def _method(item) -> str | None:
    """The method of a case of the campaign, None of one without."""
    is_campaign = item.path.parent == Path(__file__).parent and hasattr(item, "callspec")
    name = item.callspec.params.get("name") if is_campaign else None
    return name if name in METHODS else None
