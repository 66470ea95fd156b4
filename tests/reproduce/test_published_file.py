"""The file of published numbers beside a recipe."""

import json

import pytest
from tiny_recipe import TINY, write

from fedcli.errors import UsageError
from fedcli.reproduction import recipe

PUBLISHED = {
    '{"rows": {"FedAvg": ["accuracy"]}}': "rows.FedAvg should be a valid table",
    '{"mean": true}': "rows.FedAvg.accuracy.mean should be a valid number",
    '{"mean": NaN}': "rows.FedAvg.accuracy.mean should be a finite number",
    '{"mean": 1, "std": -1}': "rows.FedAvg.accuracy.std should be greater than or equal to 0",
    '{"mean": 1, "std": "x"}': "rows.FedAvg.accuracy.std should be a valid number",
    '{"mean": 1, "sd": 2}': "rows.FedAvg.accuracy: unknown key 'sd'",
    '{"mean": 1}}}, "unit": {"a": {"b": 1': "unit should be a valid string",
    '{"mean": 1}}, "x": {"accuracy": {"mean": 1}': "row 'x' is unknown",
    "[1": "cannot be read",
}


@pytest.mark.parametrize("cell", PUBLISHED)
def test_published_numbers_are_numbers(tmp_path, cell):
    (tmp_path / "published").mkdir()
    text = (
        cell if cell.startswith('{"rows"') else f'{{"rows": {{"FedAvg": {{"accuracy": {cell}}}}}}}'
    )
    (tmp_path / "published" / "tiny.json").write_text(text)
    with pytest.raises(UsageError) as error:
        recipe.load(write(tmp_path, 'published = "tiny.json"\n' + TINY))
    assert PUBLISHED[cell] in error.value.sentence


UNITS_TOGETHER = [
    ("percent", "percent", True),
    ("percent", "points", True),
    ("MB", "MB", True),
    ("share", "percent", False),
    ("percent", "MB", False),
    ("points", "percent", False),
]


@pytest.mark.parametrize(
    ("unit", "column_unit", "sound"),
    UNITS_TOGETHER,
)
def test_published_numbers_are_in_the_columns_unit(tmp_path, unit, column_unit, sound):
    (tmp_path / "published").mkdir()
    rows = {"FedAvg": {"accuracy": {"mean": 80}}}
    body = {"unit": unit, "rows": rows}
    (tmp_path / "published" / "tiny.json").write_text(json.dumps(body))
    text = f'published = "tiny.json"\n{TINY}unit = "{column_unit}"\n'
    path = write(tmp_path, text)
    if sound:
        result = recipe.load(path).numbers["FedAvg"]["accuracy"].mean
        assert result == 80
    else:
        with pytest.raises(
            UsageError,
            match=f"unit '{unit}' differs from the unit of column 'accuracy', {column_unit}",
        ):
            recipe.load(path)


def test_published_numbers_lie_in_their_folder(tmp_path):
    (tmp_path / "published").mkdir()
    (tmp_path / "other.json").write_text('{"rows": {}}')
    (tmp_path / "published" / "link.json").symlink_to(tmp_path / "other.json")
    for file in ("../other.json", f"{tmp_path}/other.json", "link.json"):
        with pytest.raises(UsageError, match="lies outside of"):
            text = f'published = "{file}"\n{TINY}'
            recipe.load(write(tmp_path, text))


def test_published_rows_and_columns_are_the_recipes(tmp_path):
    (tmp_path / "published").mkdir()
    file = tmp_path / "published" / "tiny.json"
    path = write(tmp_path, 'published = "tiny.json"\n' + TINY)
    rows = {"FedAvg": {"accuracy": {"mean": 80.0, "std": 1.0}}}
    file.write_text(json.dumps({"rows": rows}))
    result = recipe.load(path).numbers["FedAvg"]["accuracy"].mean
    assert result == 80.0
    for row, column, hint in (("FedAvgs", "accuracy", "FedAvg"), ("FedAvg", "acuracy", "accuracy")):
        rows = {row: {column: {"mean": 80.0}}}
        file.write_text(json.dumps({"rows": rows}))
        with pytest.raises(UsageError) as error:
            recipe.load(path)
        assert error.value.hint == f"did you mean {hint!r}?"
