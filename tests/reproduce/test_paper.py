"""All recipes of a paper, and one page about them."""

import json
from pathlib import Path
from types import SimpleNamespace

import digits_recipe
import pytest
from made_results import a_cell, made
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.errors import UsageError
from fedcli.reproduction import raw, recipe
from fedcli.reproduction.recipe import RecipeColumn
from fedcli.reproduction.shape import Printed
from fedcli.reproduction.tables import paper
from fedcli.reproduction.tables.agreement import OUTSIDE, WITHIN

TINY = """
title = "Tiny, {title}"
published = "tiny.json"
notes = ["ACC is balanced accuracy."]
seeds = [0, 1]
[data.noise]
dataset = "{dataset}"
partition = { dirichlet = 1.0, clients = 4 }
[train]
rounds = 1
[smoke.prepare]
size = 8
[[row]]
name = "FedAvg"
method = "fedavg"
[[row]]
name = "FedProx"
method = "fedprox"
[[column]]
name = "clean ACC"
score = "versions/clean/balanced_accuracy"
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch, no_page, no_forecast):
    """The folder of a paper with a table, a figure and a table whose data nobody has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recipe, "FOLDERS", (tmp_path / "recipes",))
    Path("recipes/published").mkdir(parents=True)
    Path("recipes/published/tiny.json").write_text(digits_recipe.PUBLISHED)
    for name, dataset, title in (
        ("tiny-figure2", "toy", "Figure 2: rounds"),
        ("tiny-table1", "toy", "Table 1: two methods"),
        ("tiny-table3", "isic2018", "Table 3: skin"),
    ):
        text = TINY.replace("{title}", title).replace("{dataset}", dataset)
        Path(f"recipes/{name}.toml").write_text(text)
    return lambda *more: CliRunner().invoke(app, ["reproduce", "tiny", "--work", "w", *more])


def test_a_paper_ends_in_a_page_of_what_agrees_and_what_could_not_be_run(made_up):
    ended = made_up("--only", "FedAvg")
    assert ended.exit_code == 1, ended.output
    assert "1 of 3 recipes were not completed: tiny-table3" in ended.stderr
    folder = Path("w/reproduce/tiny-paper")
    page = (folder / "report.html").read_text()
    for text in (
        "Tiny: every table and figure",
        "Table 1: two methods",
        "Figure 2: rounds",
        "What could not be run",
    ):
        assert text in page
    assert "Table 3: skin: tiny-table3 needs the files of isic2018." in page
    assert page.index("Table 1: two methods") < page.index("Figure 2: rounds")
    assert (
        "Table 1, Table 3, Figure 2: ACC is balanced accuracy." in page
    )  # a note that they share stands once
    output = " ".join(ended.stdout.split())
    assert (
        "Table 1: two methods 2 of 4 1 of 1" in output
        or "Table 1: two methods 2 of 4 0 of 1" in output
    )
    again = made_up("--only", "FedAvg", "--json")
    assert (folder / "report.html").read_text() == page
    answer = json.loads(again.stdout)
    assert answer["tiny-table3"] is None
    result = answer["tiny-table1"]["rows"][0]["name"]
    assert result == "FedAvg"


def test_a_table_without_the_chosen_cells_is_no_fault_of_the_paper(made_up):
    file = Path("recipes/tiny-table1.toml")
    file.write_text(file.read_text().replace('name = "FedProx"', 'name = "Proximal"'))
    line = "--scale", "smoke", "--seeds", "1", "--jobs", "1", "--only"
    ended = made_up(*line, "proximal")
    assert ended.exit_code == 0, ended.output
    assert "Figure 2: rounds: no cell is called 'proximal'." in " ".join(ended.stdout.split())
    nothing = made_up(*line, "nothing")
    assert nothing.exit_code == 2
    assert "no cell is called 'nothing'" in nothing.stderr


@pytest.mark.long
def test_a_page_says_which_tables_other_processes_still_play(made_up):
    file = Path("w/reproduce/tiny-table1-smoke/results.json")
    file.parent.mkdir(parents=True)
    file.write_text('{"half')
    line = "--scale", "smoke", "--seeds", "1", "--jobs", "1", "--cells"
    first_part = made_up(*line, "1/2")
    assert first_part.exit_code == 0, first_part.output
    sentence = "Table 1: two methods: other processes still play it"
    page = Path("w/reproduce/tiny-smoke/report.html")
    assert sentence in first_part.stdout
    assert sentence in page.read_text()
    second_part = made_up(*line, "2/2")
    assert second_part.exit_code == 0
    assert "still play" not in second_part.stdout + page.read_text()
    wrong = made_up("--cells", "9/8")
    assert wrong.exit_code == 2
    assert "no part" in wrong.stderr
    assert not wrong.stdout


def test_folders_and_files_go_to_the_recipes_that_read_them():
    tables = [
        recipe.load(recipe.find(name)) for name in ("fedism-plus-table2", "fedism-plus-table3")
    ]
    result = raw.shared_out(tables, ["isic2019=A", "rsna-ich=B"], [])
    expected = [
        (["rsna-ich=B"], []),
        (["isic2019=A"], []),
    ]
    assert result == expected
    for folder in ("A", "digits=A"):
        with pytest.raises(UsageError, match="names nothing that these recipes read"):
            raw.shared_out(tables, [folder], [])


def test_a_table_agrees_in_the_numbers_that_lie_within_our_intervals(tmp_path):
    column = RecipeColumn(name="ACC", data="d", score="versions/clean/accuracy")
    fields = {"published": Printed(mean=1.0), "difference": 8.0, "half": 2.0}
    cells = {
        "A": a_cell(9.0, verdict=WITHIN, **fields),
        "B": a_cell(9.0, verdict=OUTSIDE, beyond=6.0, **fields),
        "C": a_cell(9.0, verdict=OUTSIDE, beyond=6.0, **fields),
        "D": a_cell(9.0),
    }
    rows = [SimpleNamespace(data=["d"]) for _ in cells]
    part = paper.Rebuilt(SimpleNamespace(rows=rows, title="Tiny, Table 1: rows"), tmp_path)
    object.__setattr__(part, "results", made(column, cells))
    agree = [head.name for head in paper.overview([part]).columns].index("agree")
    result = paper.overview([part]).rows[0][agree].plain
    assert result == "1 of 3"
