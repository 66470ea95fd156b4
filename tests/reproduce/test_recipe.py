"""Recipes read, checked and laid out as command lines."""

import json

import pytest

from fedcli.commands.reproduce import read_seeds
from fedcli.errors import UsageError
from fedcli.reproduce import plan, raw, recipe

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
    ("seeds = [0, 1]", 'files = ["moco"]'): "files is no table of texts",
    ("{seed}", "{sed}"): "row 'FedAvg': '{sed}': {sed} stands for nothing|did you mean 'seed'?",
    ("[train]", "[data.noise.set]\ntua = 1\n[train]"): "data.noise.set: no row there has an option 'tua'|did you mean 'tau'?",
    ('"versions/clean/accuracy"', '"x"\nmean_of = ["accuracy"]'): "column 'accuracy' is a mean of others and has no data",
    ("[[column]]", '[[column]]\nname = "mean"\nmean_of = ["acuracy"]\n[[column]]'):
        "column 'mean': mean_of 'acuracy' is unknown|did you mean 'accuracy'?",
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


OWN = """
[files]
moco = "a teacher"
[data.noise.train]
batch-size = 16
lr = 1e-4
[data.noise.set]
tau = 0.3
q = 9
[smoke.evaluate]
by = "{data}"
[[row]]
name = "Fed-MAS"
method = "fed-mas"
train = { teacher = "{files.moco}" }
data = ["plain"]
"""


def test_data_fill_what_rows_leave_open_and_files_are_for_the_papers_scale(tmp_path):
    found = plan.check(write(tmp_path, TINY + OWN))
    lines = {cell.name: " ".join(cell.train) for cell in plan.cells(found, "paper", files={"moco": "m.pth"})}
    common = "--rounds 7 --batch-size 16 --model resnet18 --weights imagenet --lr"
    assert lines["FedAvg · Noise · seed 0"] == f"train fedavg {common} 0.001 --seed 0"
    q = f"train fedism-plus {common} 0.0001 --set tau=0.3 --set q=0.5 --set state=loss --seed 0"
    assert lines["FedISM+, q=0.5 · Noise · seed 0"] == q
    assert "--batch-size 64" in lines["FedAvg · plain · seed 0"]
    assert "--teacher m.pth" in lines["Fed-MAS · plain · seed 0"]
    cells = plan.cells(found, "paper")
    assert [cell.asks for cell in cells[-1:] + cells[:1]] == [{"MOCO_FILE"}, set()]
    smoke = plan.cells(found, "smoke")
    assert not any(cell.asks or "--teacher" in cell.train for cell in smoke)
    assert smoke[0].evaluate == ("evaluate", "--by", "plain")


def test_cells_that_need_a_file_which_is_not_given_are_left_out_with_its_name(tmp_path):
    found = plan.check(write(tmp_path, TINY + OWN))
    cells = plan.cells(found, "paper")
    told = raw.without_files(found, cells)
    assert told == ["Fed-MAS left out: no --file moco=PATH was given, which is a teacher."]
    with pytest.raises(UsageError, match=r"needs files \(moco: a teacher\)"):
        raw.without_files(found, [cell for cell in cells if cell.asks])
    (tmp_path / "m.pth").touch()
    assert raw.files(found, [f"moco={tmp_path}/m.pth"]) == {"moco": f"{tmp_path}/m.pth"}
    for given, said in (("m.pth", "which file it is"), ("mocko=m.pth", "no file 'mocko'"), ("moco=no.pth", "no such")):
        with pytest.raises(UsageError, match=said):
            raw.files(found, [given])


def test_a_number_of_seeds_takes_the_recipes_first():
    assert read_seeds("3", (1, 2, 3, 4, 5)) == (1, 2, 3)
    assert read_seeds("3", (0,)) == (0, 1, 2)
    assert read_seeds("4,7", (1, 2)) == (4, 7)
    assert read_seeds(None, (1, 2)) == ()


def test_only_takes_cells_by_their_names(tmp_path):
    cells = plan.cells(recipe.load(write(tmp_path, TINY)), "paper")
    assert [cell.seed for cell in plan.chosen(cells, ["noise · SEED 1"])] == [1, 1, 1]
    with pytest.raises(UsageError, match="no cell is called 'ditto'"):
        plan.chosen(cells, ["ditto"])
