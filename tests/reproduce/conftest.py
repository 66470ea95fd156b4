"""Fixtures that make the tests of whole tables short."""

import pytest

from fedcli.comparison import verdict
from fedcli.reporting import page
from fedcli.reproduction import forecast
from fedcli.scores.statistics import intervals


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    for module in (intervals, verdict):
        monkeypatch.setattr(module, "RESAMPLES", 50)


@pytest.fixture
def no_page(monkeypatch):
    """The page of a table is its title."""
    monkeypatch.setattr(page, "write", lambda path, scores, options: path.write_text(options.title))


@pytest.fixture
def no_forecast(monkeypatch):
    monkeypatch.setattr(forecast, "announce", lambda cells, sources, place: place)
