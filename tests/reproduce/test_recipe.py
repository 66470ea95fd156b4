"""Recipes read, checked and laid out as command lines."""

import json

import pytest

from fedcli.errors import UsageError
from fedcli.reproduce import plan, recipe

TINY = """
title = "tiny"
seeds = [0, 1]
[data.plain]
dataset = "toy"
partition = { dirichlet = 1.0, clients = 2, seed = "{seed}" }
[data.noise]
title = "Noise"
dataset = "toy"
partition = { dirichlet = 1.0, clients = 2 }
corrupt = { kind = "gaussian", ratio = 0.5 }
[train]
rounds = 7
batch-size = 64
model = "resnet18"
weights = "imagenet"
[smoke.train]
batch_size = 128
[[row]]
name = "FedAvg"
method = "fedavg"
train = { lr = 1e-3 }
[[row]]
name = "FedISM+"
method = "fedism-plus"
set = { state = "loss" }
data = ["noise"]
corrupt = { ratio = 0.25 }
vary = { "set.q" = [0.5, 1] }
[[column]]
name = "accuracy"
data = "plain"
score = "versions/clean/accuracy"
"""


def write(folder, text):
    path = folder / "tiny.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_that_comes_along_is_sound_at_every_scale(name):
    found = plan.check(recipe.find(name))
    assert found.title and found.paper


def test_the_readme_of_recipes_lists_them_with_their_cells_and_its_example_is_sound(tmp_path):
    text = (recipe.FOLDERS[1] / "README.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    told = {}
    for names, _, _, *cells in rows:
        first, *more = [name.strip("` ") for name in names.split(",")]
        told |= dict.fromkeys((first, *(first.rpartition("-")[0] + one for one in more)), cells)
    for name in recipe.names():
        found = recipe.load(recipe.find(name))
        assert told[name][0].split()[0] == str(len(plan.cells(found, "paper"))), name
    example = text.split("```toml\n")[1].split("```")[0]
    plan.check(write(tmp_path, "\n".join(line for line in example.splitlines() if not line.startswith("published"))))


def test_a_cell_is_the_commands_that_make_it(tmp_path):
    cells = plan.cells(plan.check(write(tmp_path, TINY)), "paper")
    assert [cell.name for cell in cells[4:]] == [
        "FedAvg · plain · seed 1",
        "FedAvg · Noise · seed 1",
        "FedISM+, q=0.5 · Noise · seed 1",
        "FedISM+, q=1 · Noise · seed 1",
    ]
    lines = [" ".join(line) for line in (*cells[6].chain, cells[6].train, cells[6].evaluate)]
    assert lines == [
        "prepare toy",
        "partition --dirichlet 1.0 --clients 2",
        "corrupt gaussian --ratio 0.25",
        "train fedism-plus --rounds 7 --batch-size 64 --model resnet18 --weights imagenet --set state=loss --set q=0.5 --seed 1",
        "evaluate",
    ]
    assert " ".join(cells[4].chain[1]) == "partition --dirichlet 1.0 --clients 2 --seed 1"


def test_a_scale_changes_what_is_slow_and_a_recipe_adds_to_it(tmp_path):
    cells = plan.cells(recipe.load(write(tmp_path, TINY)), "smoke")
    assert len(cells) == 4  # one seed
    assert " ".join(cells[0].train) == "train fedavg --rounds 2 --batch-size 128 --model cnn --lr 0.001 --seed 0"
    assert " ".join(cells[0].chain[1]) == "partition --dirichlet 1.0 --clients 4 --seed 0"


MISTAKES = {
    ("[train]", "[trian]"): "the recipe: unknown key 'trian'|did you mean 'train'?",
    ("rounds = 7", "round = 7"): "train: train has no flag 'round'|did you mean 'rounds'?",
    ("rounds = 7", "rounds = 0"): "tiny.toml at --scale paper: FedAvg · plain · seed 0: fedcli train fedavg --rounds 0",
    ("rounds = 7", "device = 'cuda'"): "train: train takes no device in a recipe|fedcli reproduce sets it itself",
    ('dataset = "toy"', 'dataset = "toys"'): "data.plain: unknown dataset 'toys'|did you mean 'toy'?",
    ("ratio = 0.5", "rato = 0.5"): "data.noise.corrupt: corrupt has no flag 'rato'|did you mean 'ratio'?",
    ('"gaussian"', '"gausian"'): "data.noise.corrupt: ",
    ('"fedism-plus"', '"fedism-pluss"'): "|did you mean 'fedism-plus'?",
    ('state = "loss"', 'stat = "loss"'): "|did you mean 'state'?",
    ('data = ["noise"]', 'data = ["nose"]'): "row 'FedISM+': data 'nose' is unknown|did you mean 'noise'?",
    ('data = ["noise"]\n', ""): "row 'FedISM+' changes the corruption of plain, which has none",
    ("[0.5, 1]", "[1, 1]"): "two rows are named 'FedISM+, q=1'",
    ('"set.q"', '"q"'): "row 'FedISM+': vary 'q' names no place",
    ('data = "plain"\n', ""): "column 'accuracy' does not say which data it is about",
    ("seeds = [0, 1]", "seeds = [0, 0]"): "two seeds are named '0'",
    ("seeds = [0, 1]", 'published = "none.json"'): "published 'none.json' cannot be read",
    ("seeds = [0, 1]", "seeds = [0, 1"): "is not TOML",
}  # fmt: skip


@pytest.mark.parametrize(("was", "now"), MISTAKES)
def test_a_mistake_is_told_with_its_place_and_the_nearest_word(tmp_path, was, now):
    sentence, _, hint = MISTAKES[was, now].partition("|")
    with pytest.raises(UsageError) as told:
        plan.check(write(tmp_path, TINY.replace(was, now, 1)))
    assert sentence in told.value.sentence
    assert hint in told.value.hint


def test_published_rows_and_columns_are_the_recipes(tmp_path):
    (tmp_path / "published").mkdir()
    file = tmp_path / "published" / "tiny.json"
    path = write(tmp_path, 'published = "tiny.json"\n' + TINY)
    file.write_text(json.dumps({"rows": {"FedAvg": {"accuracy": {"mean": 80.0, "std": 1.0}}}}))
    assert recipe.load(path).published["rows"]["FedAvg"]["accuracy"]["mean"] == 80.0
    for row, column, hint in (("FedAvgs", "accuracy", "FedAvg"), ("FedAvg", "acuracy", "accuracy")):
        file.write_text(json.dumps({"rows": {row: {column: {"mean": 80.0}}}}))
        with pytest.raises(UsageError) as told:
            recipe.load(path)
        assert told.value.hint == f"did you mean {hint!r}?"


def test_only_takes_cells_by_their_names(tmp_path):
    cells = plan.cells(recipe.load(write(tmp_path, TINY)), "paper")
    assert [cell.seed for cell in plan.chosen(cells, ["noise · SEED 1"])] == [1, 1, 1]
    with pytest.raises(UsageError, match="no cell is called 'ditto'"):
        plan.chosen(cells, ["ditto"])
