"""The mean corruption error: by hand, and of two runs through `fedcli report --corrupt`."""

import json
from types import SimpleNamespace

import pytest

import fedcli
from fedcli.comparison.systems import BEST, LAST5
from fedcli.data.corruption.kinds import MODALITIES, magnetic_resonance  # noqa: F401 - its kinds
from fedcli.errors import UsageError
from fedcli.reporting import page
from fedcli.reporting import robustness as module
from fedcli.reporting.robustness import robustness
from fedcli.stages.report import report


def test_it_is_the_mean_of_sums_of_errors_divided_by_the_references():
    system = robustness(
        0.1,
        {"hair": [0.2, 0.4], "smoke": [0.3, 0.3]},
        0.2,
        {"hair": [0.3, 0.5], "smoke": [0.2, 0.2]},
    )
    assert system.errors == pytest.approx({"hair": 0.3, "smoke": 0.3})
    assert system.ce == pytest.approx({"hair": 0.6 / 0.8, "smoke": 0.6 / 0.4})
    assert system.facts["mce"] == pytest.approx((0.75 + 1.5) / 2)
    assert system.relative == pytest.approx({"hair": 0.4 / 0.4})  # under smoke nothing is lost
    assert system.facts["relative_mce"] == pytest.approx(1)


def test_a_reference_without_an_error_has_no_quotient():
    system = robustness(0.1, {"hair": [0.2]}, 0.0, {"hair": [0.0]})
    assert system.ce == {}
    assert system.facts["mce"] is None


def test_the_reference_itself_is_100():
    system = robustness(0.1, {"hair": [0.2, 0.4]}, 0.1, {"hair": [0.2, 0.4]})
    assert system.facts["mce"] == pytest.approx(1)
    assert system.facts["relative_mce"] == pytest.approx(1)


@pytest.mark.parametrize("at", [BEST, LAST5])
def test_a_table_beside_scores_of_the_best_round_says_that_it_is_of_the_last_ones(monkeypatch, at):
    of_both = {name: robustness(0.1, {"hair": [0.2]}, 0.1, {"hair": [0.3]}) for name in "ab"}
    rows = [SimpleNamespace(at=at)]
    monkeypatch.setattr(module, "_scored", lambda *_: [(rows, "")])
    monkeypatch.setattr(module, "_shared_levels", lambda _: {"hair": ["1"]})
    monkeypatch.setattr(module, "of_systems", lambda *_: ("a", of_both))
    for table in module.tables(rows):
        assert table.legend.endswith(module.NOT_OF_BEST) == (at == BEST)
    assert {fact["rounds"] for fact in module.facts(rows)} == {LAST5}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    data = fedcli.prepare("phantom", size=16, clients=3, sample_images=160, work=work, jobs=1)
    return [
        fedcli.train(method, data, rounds=1, work=work).path for method in ("fedavg", "fedprox")
    ]


@pytest.fixture(scope="module")
def reported(runs):
    return report(runs, corrupt=["mr"], severity=["2", "4"], against="fedprox", by=["sex"])


def test_two_runs_are_compared_over_all_kinds_of_a_modality(reported):
    summary, by_kind, of_accuracy = reported.robustness
    assert summary.title == "Mean corruption error relative to FedProx: balanced error"
    assert of_accuracy.title.endswith("FedProx: error")
    assert [row[0].text for row in summary.rows] == ["FedProx", "FedAvg"]  # the reference first
    assert summary.rows[0][3].text == "100.0"
    kinds = {row[0].text for row in by_kind.rows}
    assert {"bias field", "ghosting", "scale shift", "clean"} <= kinds
    assert "mr" in MODALITIES


def test_the_page_has_the_same_tables(reported, tmp_path):
    options = page.PageOptions(reference="fedprox")
    text = page.write(tmp_path / "page.html", list(reported.scores), options).read_text("utf-8")
    assert "Mean corruption error relative to FedProx" in text


def test_the_numbers_are_in_json(reported):
    facts = json.loads(json.dumps(module.facts(reported.rows, "fedprox")))
    assert {fact["reference"] for fact in facts} == {"FedProx"}
    (reference,) = [
        fact
        for fact in facts
        if fact["system"] == "FedProx" and fact["metric"] == "balanced_accuracy"
    ]
    assert reference["mce"] == 1
    assert set(reference["errors"]) == set(reference["ce"])


def test_a_reference_that_is_no_row_is_refused(runs):
    with pytest.raises(UsageError, match="no row of the report") as error:
        _ = report(runs, corrupt=["bias-field"], severity=["2"], against="nosuch").robustness
    assert error.value.hint == "known: FedAvg, FedProx"
