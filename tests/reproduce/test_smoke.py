"""One recipe of each paper from its datasets' folders to its table, picture and page, through the command line.

The folders hold synthetic samples and are given with --raw, as a user gives the real ones, so that the forecast of
time and memory runs too. All but one are long. The other recipes run the same way, `fedcli reproduce NAME --scale
smoke`, and take up to a minute each; test_recipe.py tries all their command lines.
"""

import json
import re

import pytest
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import sources
from fedcli.reproduction import forecast, raw, recipe

PAPERS = {  # name -> what the names of its rows contain, or all rows
    "fairfedmed-figure5": ("FairLoRA, ", "FairLoRA"),
    "fed-mas-table3": (),
    "fedheal-figure5": (),
    "fedheal-table3": (),
    "fedism-plus-table1": ("FedAvg", "FedISM+"),
    "fedmrl-table1": ("FedAvg", "FedAvg,", "FedMRL", "FedMRL,"),
    "fairfedmed-table4": (
        "PromptFL",
    ),  # volumes, whose projection trains in front of a frozen network
}
SHORT = "fedism-plus-table1"  # groups, corruption, pictures


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == SHORT else pytest.mark.long) for name in PAPERS]
)
def test_a_recipe_of_each_paper_runs_from_end_to_end(name, tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "MOST_SECONDS", 0.1)  # measures no whole rounds
    monkeypatch.setattr(forecast, "LEAST_SECONDS", 0.1)
    table = recipe.load(recipe.find(name))
    samples = {
        dataset: sources.make_sample(dataset, tmp_path / dataset) for dataset in raw.needed(table)
    }
    raw_flags = [
        word for dataset, folder in samples.items() for word in ("--raw", f"{dataset}={folder}")
    ]
    line = ["reproduce", name, "--scale", "smoke", "--work", str(tmp_path / "work"), *raw_flags]
    line += [word for row in PAPERS[name] for word in ("--only", row)]
    ended = CliRunner().invoke(app, line)
    assert ended.exit_code == 0, ended.output
    folder = tmp_path / "work" / "reproduce" / f"{name}-smoke"
    written = json.loads((folder / "results.json").read_text())
    pattern = "|".join(map(re.escape, PAPERS[name]))
    chosen = [row for row in table.rows if re.search(pattern, row.name)]
    result = [row["name"] for row in written["rows"]]
    expected = [row.name for row in chosen]
    assert result == expected
    for row, recipe_row in zip(written["rows"], chosen, strict=True):
        assert len(row["scores"]) == len(recipe_row.data)
        assert any(cell["mean"] is not None for cell in row["cells"].values())
    numbers = []
    for row in written["rows"]:
        numbers.append({name: cell["per_run"] for name, cell in row["cells"].items()})
    assert all(
        numbers.count(row) == 1 for row in numbers
    )  # two equal rows may be one method, the other not applied
    assert not [note for note in written["notes"] if note.startswith(("Not there", "No picture"))]
    for picture in written.get("pictures", {}).values():
        assert (folder / picture).is_file()
    assert written["title"] in (folder / "report.html").read_text()
