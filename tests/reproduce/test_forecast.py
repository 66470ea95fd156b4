"""The forecast before a recipe: all kinds of training where there is time, else the mean of those measured."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fedcli.bench.estimate import Estimate
from fedcli.reproduction import forecast
from fedcli.reproduction.jobs import Place
from fedcli.runs.train_options import TrainOptions

IMAGES = {"small": 100, "large": 300}
EACH = {"a": 10.0, "b": 20.0, "c": 90.0}  # seconds of a training on the small data


@pytest.fixture
def measured(monkeypatch):
    """Limits that kinds were measured with; every measurement takes 25 seconds of a clock of its own."""
    now = [0.0]
    limits = {}

    def estimate(source, kind, cell, work, limit):
        now[0] += 25
        limits[kind] = limit
        if kind == "c":
            return None
        total_seconds = EACH[kind] * IMAGES[source.name] / 100
        return SimpleNamespace(total_seconds=total_seconds, peak_bytes=7, free_bytes=9)

    monkeypatch.setattr(forecast.time, "perf_counter", lambda: now[0])
    for name, replacement in {
        "_measured": estimate,
        "_plan": lambda kind, source: kind,
        "_kind": lambda kind: kind,
        "is_done": lambda kind, source, runs: kind == "done",
        "images": lambda source: IMAGES[source.name],
        "_reckoned": lambda kind, source: (5.0, 7.0 if kind == "slow" else 1.0),
        "_in_turn": list,
        "_Kept": lambda work, kinds: SimpleNamespace(estimates={}, add=lambda cost, one: None),
    }.items():
        monkeypatch.setattr(forecast, name, replacement)
    return limits


def made(*lines, keep=False):
    """The forecast of cells, each a kind of training on data."""
    cells = []
    for number, line in enumerate(lines):
        kind, data = line.split()
        cells.append(SimpleNamespace(work=number, chain=(data,), train=kind, row=kind))
    sources = {(name,): Path(name) for name in IMAGES}
    workplace = Place(Path("work"))
    return forecast.forecast(cells, sources, workplace, keep=keep)


def test_each_kind_is_measured_once_and_goes_with_the_images(measured):
    total = made("a small", "a large", "b small", "done small")
    expected = (3, 10 + 30 + 20, (2, 2))
    assert (total.cells, total.seconds, total.kinds) == expected
    assert measured == {"a": 15.0, "b": 15.0}
    assert "kinds" not in total.sentence(1)
    assert "3 runs to train: about 60 s, one after another" in total.sentence(1)
    assert "3 runs to train: at least 30 s, 2 at a time" in total.sentence(2)


def test_when_the_time_is_over_the_other_kinds_count_as_the_mean(measured, monkeypatch):
    monkeypatch.setattr(forecast, "MOST_SECONDS", 40.0)
    total = made("a small", "b small", "d large", "e small", "f small")
    assert measured == {"a": 8.0, "b": 15 / 4}  # a fifth, and a fourth of what is left
    expected = (5, 10 + 20 + 45 + 15 + 15)
    assert (total.cells, total.seconds) == expected
    assert total.sentence(1).endswith("(2 of 5 kinds of training measured)")


def test_measuring_takes_a_small_share_of_the_time_that_it_predicts(measured):
    """A clock of 25 seconds for each: 5 % of 400 seconds are over after one, of 600 after two."""
    lines = ["b small", *["a small"] * 39, "e small"]
    total = made(*lines, keep=True)
    assert measured == {"a": 1.0}  # the commonest, quickly: nothing is known before
    assert (total.cells, total.seconds, total.kinds) == (41, 410, (3, 1))
    assert total.sentence(1).endswith("(1 of 3 kinds of training measured)")
    measured.clear()
    total = made(*lines, *["a large"] * 10, keep=True)
    assert measured == {"a": 1.0, "b": pytest.approx((0.05 * 710 - 25) / 2)}
    assert total.kinds == (3, 2)
    measured.clear()
    made(*["a large"] * 400, "b small", keep=True)
    assert measured == {"a": 1.0, "b": 15.0}


def test_each_method_is_measured_before_the_second_kind_of_any():
    plans = {
        key: TrainOptions(method)
        for key, method in {"a": "fedavg", "b": "fedavg", "c": "fedheal"}.items()
    }
    assert forecast._in_turn(plans) == ["a", "c", "b"]


def test_the_methods_that_are_measured_are_named(measured, capsys):
    made("a small", "b small")
    assert "measuring a few steps of a and b, 30 s at most" in capsys.readouterr().err
    made(*["a large"] * 100, "b small", keep=True)
    assert "measuring a few steps of b, 15 s at most" in capsys.readouterr().err
    made(*["a small"] * 55, "b small", keep=True)
    assert "at most" not in capsys.readouterr().err


def test_what_cannot_be_measured_is_left_out(measured):
    assert made("c small", "a small").seconds == 10
    assert made("c small").seconds == 0


def test_a_kind_whose_steps_take_too_long_counts_by_its_operations(measured, capsys):
    total = made("slow large", "a small")
    expected = (2, 5 * 300 + 10, (2, 1))
    assert (total.cells, total.seconds, total.kinds) == expected
    assert measured == {"a": 15.0}
    output = capsys.readouterr().err
    assert "measuring a few steps of a, 15 s at most" in output
    assert "1 kind of training with steps" in output


def test_what_was_measured_is_not_measured_again(tmp_path):
    data = tmp_path / "data.json"
    data.write_text("{}", encoding="utf-8")
    work = Place(tmp_path)
    estimate = Estimate(1.0, 2, 3.0, 4, 5, 6, 1, {}, {})
    kinds = {"a": data, "b": data}
    forecast._Kept(work, kinds).add("a", estimate)
    kinds = {"a": data, "b": data}
    result = forecast._Kept(work, kinds).estimates
    assert result == {"a": estimate}
    workplace = Place(tmp_path, ("cuda",))
    assert not forecast._Kept(workplace, {"a": data}).estimates
    data.write_text("{ }", encoding="utf-8")
    assert not forecast._Kept(work, {"a": data}).estimates
    data.write_text("{}", encoding="utf-8")
    file = tmp_path / "forecasts.json"
    text_of_file = file.read_text(encoding="utf-8")
    assert forecast._Kept(work, {"a": data}).estimates
    for text in (
        "[",
        "[]",
        "null",
        '{"a": 1}',
        text_of_file.replace(": 3.0", ': "x"'),
        text_of_file.replace(": 3.0", ": NaN"),
    ):
        file.write_text(text, encoding="utf-8")
        assert not forecast._Kept(work, {"a": data}).estimates
