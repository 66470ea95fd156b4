"""fedcli.reproduce: a published table as a notebook gets it."""

import digits_recipe
import pytest
from made_results import a_cell, made

import fedcli
from fedcli.errors import UsageError
from fedcli.reproduction.played import PlayedTable
from fedcli.reproduction.recipe import RecipeColumn
from fedcli.reproduction.shape import Printed


def test_a_table_has_our_numbers_beside_the_published_ones(tmp_path, no_page):
    digits_recipe.write(tmp_path)
    options = {"scale": "smoke", "seeds": 1, "work": tmp_path / "work"}
    table = fedcli.reproduce(tmp_path / "tiny.toml", only=["FedAvg"], **options)
    expected = tmp_path / "work" / "reproduce" / "tiny-smoke"
    assert table.path == expected
    assert len(table.scores) == 1
    frame = table.to_frame()
    result = frame[["row", "runs", "clean ACC published"]].values.tolist()
    assert result == [["FedAvg", 1, 0.97]]
    assert "97.0 ±0.5" in repr(table)
    assert repr(table).endswith("report.html")


def test_shares_are_in_percent_where_that_is_asked_for_and_megabytes_stay(tmp_path):
    column = RecipeColumn(name="up", data="d", score="bytes/up", unit="MB")
    published = Printed(mean=3.0, std=0.5)
    results = made(column, {"FedAvg": a_cell(2.0, 0.25, published=published)})
    for percent in (False, True):
        frame = PlayedTable(tmp_path, results, []).to_frame(percent=percent)
        expected = [["FedAvg", 1, 2.0, 0.25, 3.0, 0.5]]
        assert frame.values.tolist() == expected
    column = column.model_copy(update={"unit": "points"})
    results = made(column, {"FedAvg": a_cell(2.0, 0.25)})
    table = PlayedTable(tmp_path, results, [])
    result = table.to_frame()["up"].tolist()
    assert result == [0.02]
    result = table.to_frame(percent=True)["up std"].tolist()
    assert result == [0.25]


REFUSED_OPTIONS = [
    ({}, "which recipe?"),
    ({"recipe": "fedheal"}, "fedheal is a paper, not a recipe"),
    ({"recipe": "fedheal-table2", "jobs": 2, "at_once": 2}, "--jobs and --at-once exclude"),
    ({"recipe": "fedheal-table2", "cells": "3/2"}, "--cells '3/2' is no part"),
    ({"recipe": "fedheal-table2", "scale": "tiny"}, "--scale='tiny' is not one of paper"),
]


@pytest.mark.parametrize(
    ("options", "sentence"),
    REFUSED_OPTIONS,
)
def test_what_cannot_be_reproduced_is_said(options, sentence):
    with pytest.raises(UsageError, match=sentence.replace("?", r"\?")):
        fedcli.reproduce(**options)
