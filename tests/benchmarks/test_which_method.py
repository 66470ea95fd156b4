"""Every number of docs/which-method.md, held against the CSV files of the benchmark."""

import re
from pathlib import Path

import pytest
import which_method

from fedcli.reproduction import recipe

PAGE = (Path(__file__).parents[2] / "docs" / "which-method.md").read_text(encoding="utf-8")
DIFFERENCE = re.compile(r"[+-]\d+\.\d \([+-]\d+\.\d to [+-]\d+\.\d\)")
PERCENT = re.compile(r"(?<![\d.(])(\d+\.\d) %")
PROSE = "\n".join(line for line in PAGE.splitlines() if not line.startswith("|"))
SENTENCES = [" ".join(text.split()) for text in re.split(r"(?<=\.)\s|\n- |\n\n", PROSE)]


@pytest.mark.parametrize("name", which_method.recipes())
def test_each_table_is_the_one_of_the_scores(name):
    assert "\n".join(which_method.table(name)) in PAGE


def test_each_difference_in_a_sentence_is_a_tested_one_of_a_method_that_it_names():
    known = set(which_method.differences())
    found = 0
    for sentence in SENTENCES:
        for text in DIFFERENCE.findall(sentence):
            found += 1
            named = [method for method, difference in known if difference == text]
            assert any(method in sentence for method in named), (text, sentence)
    assert found > 3


def test_it_says_how_many_rows_are_there():
    for name in which_method.recipes():
        rows = len(recipe.load(recipe.find(f"benchmark/{name}")).rows)
        assert f"{len(which_method.numbers(name))} of {rows} rows" in PAGE


def test_each_percentage_in_a_sentence_is_a_mean_of_the_scores():
    known = set()
    for name in which_method.recipes():
        for columns in which_method.means(name).values():
            known |= {f"{value:.1f}" for value in columns.values()}
    found = PERCENT.findall(" ".join(SENTENCES))
    assert found
    assert set(found) <= known


def test_each_recipe_that_it_names_is_there_and_has_scores_or_is_said_to_be_missing():
    named = set(re.findall(r"benchmark/([a-z0-9-]+)", PAGE))
    assert {f"benchmark/{name}" for name in named} <= recipe.names().keys()
    _, missing = PAGE.split("## What is missing")
    for name in recipe.names():
        stem = name.removeprefix("benchmark/")
        if stem != name and stem not in which_method.recipes():
            assert f"benchmark/{stem}" in missing, name
