"""Tables of expected intervals and detectable gaps, from facts that are made up."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from report_tables import texts

from fedcli.errors import UsageError
from fedcli.reporting import power

GROUP = {
    "group": "f",
    "images": 1200,
    "patients": 60,
    "positives": 20,
    "sensitivity": 0.125,
    "specificity": None,
    "auc": 0.0625,
}
GAP = {"first": "f", "second": "m", "sensitivity": 0.25, "specificity": None}


def heads_of(table):
    return [column.heading for column in table.columns]


def test_each_group_has_its_images_and_half_widths_in_points():
    sex = {"groups": [GROUP], "gaps": []}
    (table,) = power.tables({"sex": sex}, "ill")
    assert table.title == "Expected intervals on test images: ill"
    expected = ["attribute", "group", "images", "patients", "with ill"]
    assert heads_of(table)[:5] == expected
    result = [column.name for column in table.columns[5:]]
    assert result == [
        "± sensitivity",
        "± specificity",
        "± AUC",
    ]
    expected = [["sex", "f", "1,200", "60", "20", "12.5", "-", "6.2"]]
    assert texts(table) == expected
    assert table.legend == power.WIDTHS


def test_gaps_between_two_groups_have_a_table_where_there_are_any():
    sex = {"groups": [GROUP], "gaps": [GAP]}
    _, table = power.tables({"sex": sex}, "ill")
    assert table.title == "Detectable gaps on test images: ill"
    expected = [["sex", "f", "m", "25.0", "-"]]
    assert texts(table) == expected
    assert table.legend == power.GAPS


def test_an_unknown_class_is_refused_with_the_nearest(monkeypatch):
    body = {"classes": ["edema", "mass"], "attributes": {}}
    monkeypatch.setattr(power.manifest, "read", lambda *_: SimpleNamespace(body=body))
    with pytest.raises(UsageError) as refusal:
        power.of_manifest(Path("dataset.json"), "edma")
    assert refusal.value.sentence == "--power 'edma' is no class"
    assert "edema" in refusal.value.hint
