"""The forecast before a recipe: all kinds of training where there is time, else the mean of those measured."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fedcli.reproduce import forecast
from fedcli.reproduce.jobs import Place

IMAGES = {"small": 100, "large": 300}
EACH = {"a": 10.0, "b": 20.0, "c": 90.0}  # seconds of a training on the small data


@pytest.fixture
def measured(monkeypatch):
    """Limits that kinds were measured with; every measurement takes 25 seconds of a clock of its own."""
    now, limits = [0.0], {}

    def estimate(source, kind, cell, place, limit):
        now[0] += 25
        limits[kind] = limit
        if kind == "c":
            return None
        return SimpleNamespace(total_seconds=EACH[kind] * IMAGES[source.name] / 100, peak_bytes=7, free_bytes=9)

    monkeypatch.setattr(forecast.time, "perf_counter", lambda: now[0])
    for name, made in {
        "_measured": estimate, "_plan": lambda kind, source: kind, "_cost": lambda kind: kind, "begun": lambda work: [],
        "is_done": lambda kind, source, runs: kind == "done", "_images": lambda source: IMAGES[source.name],
    }.items():  # fmt: skip
        monkeypatch.setattr(forecast, name, made)
    return limits


def made(*asked):
    """The forecast of cells, each a kind of training on data."""
    cells = [
        SimpleNamespace(work=(kind, data), chain=(data,), train=kind, row=kind)
        for kind, data in (each.split() for each in asked)
    ]
    sources = {(name,): Path(name) for name in IMAGES}
    return forecast.forecast(cells, sources, Place(Path("work")))


def test_each_kind_is_measured_once_and_goes_with_the_images(measured):
    total = made("a small", "a large", "b small", "done small")
    assert (total.cells, total.seconds, total.kinds) == (3, 10 + 30 + 20, (2, 2))
    assert measured == {"a": 15.0, "b": 15.0} and "kinds" not in total.sentence(1)


def test_when_the_time_is_over_the_other_kinds_count_as_the_mean(measured, monkeypatch):
    monkeypatch.setattr(forecast, "MOST_SECONDS", 40.0)
    total = made("a small", "b small", "d large", "e small", "f small")
    assert measured == {"a": 8.0, "b": 8.0}  # a fifth each
    assert (total.cells, total.seconds) == (5, 10 + 20 + 45 + 15 + 15)
    assert total.sentence(1).endswith("(2 of 5 kinds of training measured)")


def test_what_cannot_be_measured_is_left_out(measured):
    assert made("c small", "a small").seconds == 10
    assert made("c small").seconds == 0
