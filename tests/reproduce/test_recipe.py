"""Recipes read, checked and laid out as command lines."""

import pytest
from tiny_recipe import TINY, write

from fedcli.errors import UsageError
from fedcli.methods import METHODS
from fedcli.methods.mixins import LearnsFromTeacher, StartsFromRun
from fedcli.reproduction import expand, raw, recipe
from fedcli.reproduction.expand import read_seeds
from fedcli.stages.train import resolved


@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_that_comes_along_is_sound_at_every_scale(name):
    checked = expand.check(recipe.find(name))
    assert checked.title
    assert checked.paper


def test_the_table_of_all_methods_has_those_that_train_any_network_and_its_seven_classes_without_a_teacher():
    """A method that is new joins when the table is made again."""
    listed = {
        row.method for row in recipe.load(recipe.find("benchmark/ham10000-hospitals-scratch")).rows
    }
    fits = {
        name
        for name, method in METHODS.items()
        if method.module.startswith("fedcli.methods.")
        and not (
            method.local.freezes
            or method.local.model
            or isinstance(method.local, LearnsFromTeacher)
        )
        and not (isinstance(method.aggregator, StartsFromRun) or method.local.needs_two_classes)
    }
    assert listed <= METHODS.keys()
    assert len(fits & listed) > 0.75 * len(fits)


def test_the_readme_of_recipes_lists_them_with_their_cells_and_its_example_is_sound(tmp_path):
    text = (recipe.FOLDERS[1] / "README.md").read_text(encoding="utf-8")
    tables = [line for line in text.splitlines() if line.startswith("| `") and line.count("|") > 3]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in tables]
    lines = {}
    for names, _, _, *cells in rows:
        full_name, *endings = [name.strip("` ") for name in names.split(",")]
        lines |= dict.fromkeys(
            (full_name, *(full_name.rpartition("-")[0] + ending for ending in endings)), cells
        )
    for name in recipe.names():
        table = recipe.load(recipe.find(name))
        result = lines[name][0].split()[0]
        expected = str(len(expand.cells(table, "paper")))
        assert result == expected, name
    example = text.split("```toml\n")[1].split("```")[0]
    expand.check(
        write(
            tmp_path,
            "\n".join(line for line in example.splitlines() if not line.startswith("published")),
        )
    )


def test_a_recipe_in_a_sub_folder_has_its_name_and_is_found_by_each_of_its_names():
    path = recipe.FOLDERS[1] / "benchmark" / "office-probe.toml"
    assert recipe.names()["benchmark/office-probe"] == path
    for name in ("benchmark/office-probe", "office-probe", "benchmark/office-probe.toml"):
        assert recipe.find(name) == path
    with pytest.raises(UsageError, match="no such recipe: benchmark/office") as raised:
        recipe.find("benchmark/office")
    assert "'benchmark/office-probe'" in raised.value.hint


def test_another_recipe_with_the_file_name_of_one_of_fedclis_is_refused(tmp_path):
    text = recipe.names()["benchmark/office-probe"].read_text(encoding="utf-8")
    copy = tmp_path / "office-probe.toml"
    copy.write_text(f"# a copy\n{text}", encoding="utf-8")
    assert recipe.find(str(copy)) == copy
    copy.write_text(text.replace('title = "', 'title = "My '), encoding="utf-8")
    with pytest.raises(UsageError, match="has the name of one of fedcli's recipes") as raised:
        recipe.find(str(copy))
    assert raised.value.hint == "rename it, for example to my-office-probe.toml"


def test_names_of_recipes_differ_also_without_their_folders():
    stems = [path.stem for path in recipe.names().values()]
    assert len(set(stems)) == len(stems)


@pytest.mark.parametrize(
    "federation", ["ham10000-hospitals", "ham10000-twenty", "office", "digits"]
)
def test_the_benchmark_has_every_method_or_says_why_not(federation):
    for regime in ("probe", "scratch"):
        known = recipe.load(recipe.find(f"benchmark/{federation}-{regime}"))
        listed = {METHODS[row.method].label for row in known.rows if row.method in METHODS}
        listed |= {"cRT", "CCVR"} if regime == "scratch" else set()
        notes = " ".join(known.notes)
        for method in METHODS.values():
            if method.module.startswith("fedcli.methods.") and method.label not in listed:
                assert SPELT.get(method.label, method.label) in notes, method.label


SPELT = {
    "Adversarial debiasing": "adversarial debiasing",
    "BSM-FL w/ KD": "KD",
    "Zero-shot CLIP": "zero-shot CLIP",
}  # label -> its spelling in a sentence


def test_a_cell_is_the_commands_that_make_it(tmp_path):
    cells = expand.cells(expand.check(write(tmp_path, TINY)), "paper")
    result = [cell.name for cell in cells[4:]]
    assert result == [
        "FedAvg · plain · seed 1",
        "FedAvg · Noise · seed 1",
        "FedISM+, q=0.5 · Noise · seed 1",
        "FedISM+, q=1 · Noise · seed 1",
    ]
    cell = cells[6]
    stages = (*cell.chain, cell.train, cell.evaluate)
    lines = [" ".join(stage.argv()) for stage in stages]
    assert lines == [
        "prepare toy",
        "partition --dirichlet 1.0 --clients 2",
        "corrupt gaussian --ratio 0.25",
        "train fedism-plus --batch-size 64 --rounds 7 --seed 1 --set state=loss --set q=0.5 --model resnet18 "
        "--weights imagenet",
        "evaluate",
    ]
    result = " ".join(cells[4].chain[1].argv())
    assert result == "partition --dirichlet 1.0 --clients 2 --seed 1"


def test_a_scale_changes_what_is_slow_and_a_recipe_adds_to_it(tmp_path):
    cells = expand.cells(recipe.load(write(tmp_path, TINY)), "smoke")
    assert len(cells) == 4  # one seed
    result = " ".join(cells[0].train.argv())
    assert result == "train fedavg --batch-size 128 --lr 0.001 --rounds 2 --model cnn"
    result = " ".join(cells[0].chain[1].argv())
    assert result == "partition --dirichlet 1.0 --clients 4"


@pytest.mark.parametrize(("scale", "rounds"), [("small", 20), ("smoke", 2)])
def test_a_scale_keeps_the_patience_behind_the_rounds(tmp_path, scale, rounds):
    text = TINY.replace("rounds = 7", 'rounds = "7:patience=3"')
    train = expand.cells(recipe.load(write(tmp_path, text)), scale)[0].train
    assert (train.rounds, train.patience) == (rounds, 3)


def test_a_file_that_lies_among_the_images_is_given_by_its_name():
    table = expand.check(recipe.find("fed-mas-table3"))
    for scale in ("paper", "smoke"):
        for files, expected in (({}, None), ({"tone": "ISIC/bevan.csv"}, "bevan.csv")):
            cells = expand.cells(table, scale, files=files)
            first_stages = [cell.chain[0] for cell in cells if cell.data == "tone"]
            assert {stage.set.get("tone-file") for stage in first_stages} == {expected}


def test_a_scale_changes_options_of_the_methods_that_have_them(tmp_path):
    text = TINY + "[smoke.set]\nrho = 0.2\nq = 3"
    table = expand.check(write(tmp_path, text))
    settings = {}
    for scale in ("paper", "smoke"):
        cells = expand.cells(table, scale, seeds=(0,))[1:]
        settings[scale] = [cell.train.set for cell in cells]
    expected = [{}, {"state": "loss", "q": "0.5"}, {"state": "loss", "q": "1"}]
    assert settings["paper"] == expected
    expected = [{}, *[{"state": "loss", "q": "3", "rho": "0.2"}] * 2]
    assert settings["smoke"] == expected


MISTAKES = {
    ("[train]", "[trian]"): "the recipe: unknown key 'trian'|did you mean 'train'?",
    ("rounds = 7", "round = 7"): "train: train has no flag 'round'|did you mean 'rounds'?",
    ("rounds = 7", "rounds = 0"): (
        "tiny.toml at --scale paper: row 'FedAvg': --rounds=0 is out of range: it must be >= 1"
    ),
    (
        "rounds = 7",
        "device = 'cuda'",
    ): "train: train takes no device in a recipe|fedcli reproduce sets it itself",
    (
        'dataset = "toy"',
        'dataset = "toys"',
    ): "data.plain: dataset 'toys' is unknown|did you mean 'toy'?",
    (
        "ratio = 0.5",
        "rato = 0.5",
    ): "data.noise.corrupt: corrupt has no flag 'rato'|did you mean 'ratio'?",
    ('"gaussian"', '"gausian"'): "data.noise.corrupt: ",
    (
        '"fedism-plus"',
        '"fedism-pluss"',
    ): "row 'FedISM+, q=0.5': unknown method|did you mean 'fedism-plus'?",
    ('state = "loss"', 'stat = "loss"'): "|did you mean 'state'?",
    (
        'data = ["noise"]',
        'data = ["nose"]',
    ): "row 'FedISM+': data 'nose' is unknown|did you mean 'noise'?",
    ('data = ["noise"]\n', ""): "row 'FedISM+' changes the corruption of plain, which has none",
    ("[0.5, 1]", "[1, 1]"): "two rows are named 'FedISM+, q=1'",
    ('title = "Noise"', 'title = "plain"'): (
        "two data sets are named 'plain'|give each data set its own name"
    ),
    ('"set.q"', '"q"'): "row 'FedISM+': vary 'q' names no key",
    ('data = "plain"\n', ""): "column 'accuracy' does not say which data it is about",
    (
        'versions/clean/accuracy"',
        'versions/clean/accuracy"\nminus = "FedAv"',
    ): "minus 'FedAv' is unknown",
    ("seeds = [0, 1]", "seeds = [0, 0]"): "seeds has one of 0, 0 twice",
    ("seeds = [0, 1]", 'published = "none.json"'): "published 'none.json' cannot be read",
    ("seeds = [0, 1]", "seeds = [0, 1"): "is not TOML",
    ("seeds = [0, 1]", 'files = ["moco"]'): "files should be a valid table",
    ("{seed}", "{sed}"): "row 'FedAvg': '{sed}': {sed} has no meaning|did you mean 'seed'?",
    ("[smoke.train]", "[smoke.set]\ntua = 1\n[smoke.train]"): (
        "smoke.set: no row there has an option 'tua'|did you mean 'tau'?"
    ),
    ("[train]", "[data.noise.set]\ntua = 1\n[train]"): (
        "data.noise.set: no row there has an option 'tua'|did you mean 'tau'?"
    ),
    ('"versions/clean/accuracy"', '"x"\nmean_of = ["accuracy"]'): (
        "column 'accuracy' is a mean of others and has no data"
    ),
    (
        "[[column]]",
        '[[column]]\nname = "mean"\nmean_of = ["acuracy"]\n[[column]]',
    ): "column 'mean': mean_of 'acuracy' is unknown|did you mean 'accuracy'?",
}


@pytest.mark.parametrize(("was", "now"), MISTAKES)
def test_a_mistake_is_told_with_its_place_and_the_nearest_word(tmp_path, was, now):
    sentence, _, hint = MISTAKES[was, now].partition("|")
    with pytest.raises(UsageError) as error:
        text = TINY.replace(was, now, 1)
        expand.check(write(tmp_path, text))
    assert sentence in error.value.sentence
    assert hint in error.value.hint


TOP, COLUMN = "seeds = [0, 1]", 'score = "versions/clean/accuracy"'
KEYS = [
    (TOP, "notes = 5", "notes should be a valid list"),
    (TOP, 'notes = "abc"', "notes should be a valid list"),
    (TOP, "paper = 3", "paper should be a valid string"),
    (TOP, "published = 3", "published should be a valid string"),
    (TOP, "figure = {}", "figure should be a valid list"),
    (TOP, "figure = [1]", "figure, value 1, should be a valid table"),
    (TOP, "seeds = []", "seeds should have at least 1 item, not 0"),
    (TOP, "seeds = [-1]", "seeds, value 1, should be greater than or equal to 0"),
    (TOP, "seeds = [0x" + "f" * 5000 + "]", "seeds, value 1, should be less than"),
    (
        TOP,
        'at = "best"',
        "data.plain has no validation parts to choose the best round by|data.plain.partition",
    ),
    (TOP, 'title2 = "a\\u001b"', "the recipe: unknown key 'title2'"),
    ('title = "Noise"', "title = 3", "data.noise.title should be a valid string"),
    ('title = "Noise"', 'title = "a\\nb"', "data.noise.title holds the character '\\n'"),
    ("[data.noise]", '[data."a\\nb"]', "data.'a\\nb' holds the character"),
    ('"FedAvg"', '"A\\nB"', "row 'A\\nB': name holds the character"),
    ('"accuracy"', '"A\\u2028B"', "column 'A\\u2028B': name holds the character"),
    ("[data.noise]", "[data.-x]", "data.-x '-x' begins with a dash"),
    ('"fedavg"', '"--help"', "row 'FedAvg': method '--help' begins with a dash"),
    ('model = "resnet18"', 'model = "--help"', "train: model: '--help' begins with a dash"),
    ("lr = 1e-3", "lr = [0.1, 0.2]", "row 'FedAvg': train: lr takes one value, not a list"),
    ("lr = 1e-3", "lr = true", "row 'FedAvg': train: lr needs a value"),
    ("lr = 1e-3", "lr = nan", "row 'FedAvg': train: lr is nan"),
    ("lr = 1e-3", "lr = 1979-05-27", "row 'FedAvg': train: lr is a date or time"),
    ("lr = 1e-3", "personal = 3", "row 'FedAvg': train: personal takes no value"),
    (
        "lr = 1e-3",
        "batch-size = 1, batch_size = 2",
        "train: a flag is there with a dash and with an underscore",
    ),
    ('data = ["noise"]', "data = 3", "row 'FedISM+': data should be a valid list"),
    ('data = ["noise"]', 'data = "noise"', "row 'FedISM+': data should be a valid list"),
    ('data = ["noise"]', "data = []", "row 'FedISM+': data should have at least 1 item"),
    (
        'data = ["noise"]',
        'data = [["noise"]]',
        "row 'FedISM+': data, value 1, should be a valid string",
    ),
    ('{ state = "loss" }', '"q"', "row 'FedISM+': set should be a valid table"),
    ('{ state = "loss" }', "[1]", "row 'FedISM+': set should be a valid table"),
    ('{ state = "loss" }', "{ q = [1] }", "row 'FedISM+': set: q is a list, not one value"),
    ('{ "set.q" = [0.5, 1] }', '"q"', "row 'FedISM+': vary should be a valid table"),
    ('{ "set.q" = [0.5, 1] }', "[1]", "row 'FedISM+': vary should be a valid table"),
    (
        '"set.q" = [0.5, 1]',
        '"corrupt.kind" = ["gausian"]',
        "row 'FedISM+': vary: unknown corruption 'gausian'",
    ),
    (
        '"set.q" = [0.5, 1]',
        '"set.q" = [[1]]',
        "row 'FedISM+': vary: 'set.q': [1] is a list, not one value",
    ),
    (COLUMN, COLUMN + '\nlower = "no"', "column 'accuracy': lower should be a valid boolean"),
    (
        '"toy"',
        '"digits"\nevaluate = { by = ["domian"] }',
        "data.plain.evaluate: digits has no attribute 'domian'|'domain'",
    ),
    (
        '"toy"',
        '"toy"\nevaluate = { shots = "7" }',
        "data.plain.evaluate: --shots '7' is not two numbers",
    ),
]


@pytest.mark.parametrize(("was", "now", "expected"), KEYS)
def test_every_key_is_of_its_kind(tmp_path, was, now, expected):
    sentence, _, hint = expected.partition("|")
    with pytest.raises(UsageError) as error:
        text = TINY.replace(was, now, 1)
        recipe.load(write(tmp_path, text))
    assert sentence in error.value.sentence
    assert error.value.hint
    assert hint in error.value.hint


OWN = """
[files]
moco = "a teacher"
[data.noise.train]
batch-size = 16
lr = 1e-4
[data.noise.set]
tau = 0.3
q = 9
[smoke.prepare]
table = "{data}.csv"
[[row]]
name = "Fed-MAS"
method = "fed-mas"
train = { teacher = "{files.moco}" }
data = ["plain"]
"""


def test_data_fill_what_rows_leave_open_and_files_are_for_the_papers_scale(tmp_path):
    text = TINY + OWN
    checked = expand.check(write(tmp_path, text))
    lines = {
        cell.name: " ".join(cell.train.argv())
        for cell in expand.cells(checked, "paper", files={"moco": "m.pth"})
    }
    common, network = "--batch-size 16 --lr", "--model resnet18 --weights imagenet"
    expected = f"train fedavg {common} 0.001 --rounds 7 {network}"
    assert lines["FedAvg · Noise · seed 0"] == expected
    q = f"train fedism-plus {common} 0.0001 --rounds 7 --set tau=0.3 --set q=0.5 --set state=loss {network}"
    assert lines["FedISM+, q=0.5 · Noise · seed 0"] == q
    assert "--batch-size 64" in lines["FedAvg · plain · seed 0"]
    assert "--teacher m.pth" in lines["Fed-MAS · plain · seed 0"]
    cells = expand.cells(checked, "paper")
    result = [cell.asks for cell in cells[-1:] + cells[:1]]
    assert result == [{"MOCO_FILE"}, set()]
    smoke = expand.cells(checked, "smoke")
    for cell in smoke:
        assert not (cell.asks)
        assert not (cell.train.teacher)
    result = smoke[0].chain[0].argv()
    expected = ["prepare", "toy", "--size", "32", "--table", "plain.csv"]
    assert result == expected


def test_cells_that_need_a_file_which_is_not_given_are_left_out_with_its_name(tmp_path):
    text = TINY + OWN
    checked = expand.check(write(tmp_path, text))
    cells = expand.cells(checked, "paper")
    folders = dict.fromkeys(raw.needed(checked), "there")
    result = raw.possible(checked, cells, folders)[1]
    assert result == ["Fed-MAS left out: no --file moco=PATH was given, which is a teacher."]
    with pytest.raises(UsageError, match=r"needs files \(moco: a teacher\)"):
        raw.possible(checked, [cell for cell in cells if cell.asks], folders)
    (tmp_path / "m.pth").touch()
    result = raw.files(checked, [f"moco={tmp_path}/m.pth"], {}, "paper", tmp_path)
    expected = {"moco": f"{tmp_path}/m.pth"}
    assert result == expected
    for flag, message in (
        ("m.pth", "which file it is"),
        ("mocko=m.pth", "no file 'mocko'"),
        ("moco=no.pth", "no such"),
    ):
        with pytest.raises(UsageError, match=message):
            raw.files(checked, [flag], {}, "paper", tmp_path)


def test_a_number_of_seeds_takes_the_recipes_first():
    usual = (1, 2, 3, 4, 5)
    result = read_seeds("3", usual)
    assert result == (1, 2, 3)
    assert read_seeds("3", (0,)) == (0, 1, 2)
    result = read_seeds("4,7", (1, 2))
    assert result == (4, 7)
    assert read_seeds("0,", (1, 2)) == (0,)
    assert read_seeds("7,", (1, 2)) == (7,)
    assert read_seeds(None, (1, 2)) == ()
    for text in ("²", "0", "-1", ",", "1,,", "1,1", "9" * 30, "1000000"):
        with pytest.raises(UsageError, match="--seeds"):
            read_seeds(text, (0,))


def test_only_takes_cells_by_their_names(tmp_path):
    cells = expand.cells(recipe.load(write(tmp_path, TINY)), "paper")
    result = [cell.seed for cell in expand.chosen(cells, ["noise · SEED 1"])]
    assert result == [1, 1, 1]
    with pytest.raises(UsageError, match="no cell is called 'ditto'"):
        expand.chosen(cells, ["ditto"])


def test_only_takes_a_row_by_its_whole_name_before_rows_that_hold_it():
    table = recipe.load(recipe.find("fedism-plus-table2"))
    cells = expand.cells(table, "paper")
    result = {cell.row for cell in expand.chosen(cells, ["fedism"])}
    assert result == {"FedISM"}
    result = {cell.row for cell in expand.chosen(cells, ["FedISM+"])}
    assert result == {
        "FedISM+ (S)",
        "FedISM+ (L)",
    }


FEDISM = [name for name in recipe.names() if name.startswith("fedism-plus")]


@pytest.mark.parametrize("name", FEDISM)
def test_every_fedism_plus_recipe_takes_the_lists_that_its_authors_publish(name):
    table = recipe.load(recipe.find(name))
    brought = {file: f"/lists/{file}" for file in table.files}
    for cell in expand.cells(table, "smoke", files=brought) + expand.cells(
        table, "paper", files=brought
    ):
        prepare, partition = cell.chain[:2]
        prefix = "isic-" if prepare.name == "isic2019" and "isic-split" in brought else ""
        assert str(prepare.split_file) == f"/lists/{prefix}split"
        assert prepare.sample_images is None
        assert str(partition.order_file) == f"/lists/{prefix}order"
        assert partition.fedism or str(partition.clients_file) == f"/lists/{prefix}clients"
    plain = expand.cells(table, "paper")
    result = {cell.chain[0].sample_images for cell in plain if cell.chain[0].name == "rsna-ich"}
    assert result <= {25000}
    for cell in plain:
        assert not cell.chain[0].split_file
        assert "FILE" not in "".join(cell.asks)
    for cell in expand.cells(table, "smoke"):
        assert not cell.chain[0].sample_images


def test_one_of_several_lists_is_refused_with_the_others():
    table = recipe.load(recipe.find("fedism-plus-table2"))
    with pytest.raises(UsageError, match="one of the lists clients, order, split") as error:
        expand.cells(table, "paper", files={"split": "/lists/train.csv"})
    assert "--file clients=PATH --file order=PATH" in error.value.hint


def test_lists_name_files_that_the_recipe_asks_for(tmp_path):
    lists = 'lists = { prepare = { split-file = "{files.spilt}" }, partition = { iid = true } }'
    text = TINY.replace("[data.plain]", f'[files]\nsplit = "a split"\n[data.plain]\n{lists}')
    with pytest.raises(UsageError, match=r"data.plain.lists: file 'spilt'"):
        recipe.load(write(tmp_path, text))


def test_a_row_of_clients_own_models_reads_its_numbers_there():
    ditto = next(
        row for row in recipe.load(recipe.find("fedheal-table3")).rows if row.name == "Ditto"
    )
    own_models = "personal/mean_personal"
    assert (
        ditto.place("groups/domain/clean/each/accuracy/mnist")
        == f"{own_models}/groups/domain/clean/each/accuracy/mnist"
    )
    assert ditto.place("versions/clean/accuracy") == f"{own_models}/clean/accuracy"
    assert ditto.place("clients/*/accuracy") == "clients/*/accuracy"


def test_fed_mas_recipes_augment_by_the_pipeline_beside_them():
    fed_mas_recipes = [name for name in recipe.names() if name.startswith("fed-mas")]
    for name in fed_mas_recipes:
        cells = expand.cells(recipe.load(recipe.find(name)), "paper")
        for cell in cells:
            file = (
                "fed-mas-flamby.json" if cell.chain[0].name == "fed-isic" else "fed-mas-skin.json"
            )
            expected = str(recipe.recipes_folder() / file)
            assert str(cell.train.augment) == expected
    options = cells[0].train
    assert "VerticalFlip" in resolved(options).augment


def test_where_validation_images_choose_no_best_is_marked_by_test_images():
    tuning = recipe.load(recipe.find("fedism-plus-tuning"))
    assert {column.name: column.validation for column in tuning.columns if column.validation}
    for column in tuning.columns:
        assert not column.marked
    assert any(column.marked for column in recipe.load(recipe.find("fedism-plus-table2")).columns)
    result = {row.stem for row in tuning.rows}
    assert result == {"q-FedAvg", "FairFed"}


@pytest.mark.parametrize(
    "typed", ["fedism-plus", "FedISM+", "fed-mas", "fedheal", "FedMRL", "fairfedmed"]
)
def test_a_papers_name_means_all_its_recipes(typed):
    files = recipe.recipes_of(typed)
    paper = files[0].stem.rpartition("-")[0]
    expected = [path for name, path in recipe.names().items() if name.startswith(f"{paper}-")]
    assert files == expected
    assert any("-table" in path.stem for path in files)


def test_a_recipes_name_means_that_one():
    assert recipe.recipes_of("FedISM+ table2") == [recipe.find("fedism-plus-table2")]
    with pytest.raises(UsageError, match="no such recipe: fed"):
        recipe.recipes_of("fed")
