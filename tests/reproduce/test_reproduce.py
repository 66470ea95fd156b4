"""A recipe from its file to its folder, through the command line."""

import errno
import json
import shutil
import subprocess
from pathlib import Path

import digits_recipe
import pytest
from typer.testing import CliRunner

from fedcli import extensions
from fedcli.commands.app import app
from fedcli.reporting import page
from fedcli.reproduction import expand, jobs, raw, recipe, script
from fedcli.reproduction.shared import Board

TINY = """
title = "Two methods on scanned digits"
paper = "made up"
published = "tiny.json"
notes = ["ACC is balanced accuracy."]
seeds = [0, 1]
[data.noise]
dataset = "toy"
partition = { dirichlet = 1.0, clients = 4 }
corrupt = { kind = "gaussian", ratio = 0.25 }
[train]
rounds = 2
lr = 3e-3
[smoke.prepare]
size = 8
[[row]]
name = "FedAvg"
method = "fedavg"
[[row]]
name = "q-FFL"
method = "qffl"
vary = { "set.q" = [0.5, 1] }
[[column]]
name = "clean ACC"
score = "versions/clean/balanced_accuracy"
[[figure]]
title = "q"
x = "set.q"
lines = ["FedAvg"]
[[figure]]
title = "rounds"
kind = "convergence"
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits_recipe.write(tmp_path, TINY)
    return lambda *more: CliRunner().invoke(app, ["reproduce", "tiny.toml", "--work", "w", *more])


def results(scale="smoke"):
    return Path(f"w/reproduce/tiny-{scale}/results.json")


def test_it_is_killed_goes_on_and_redoes_nothing(tiny, no_page, monkeypatch):
    played_round = Board.played_round
    rounds = []

    def kill_in_the_second_cell(board, cell, done, total):
        rounds.append((cell.row, done))
        if len(rounds) == 3:
            raise KeyboardInterrupt
        played_round(board, cell, done, total)

    monkeypatch.setattr(Board, "played_round", kill_in_the_second_cell)
    assert tiny("--scale", "smoke").exit_code == 130
    assert not results().exists()

    done = {path: path.stat().st_ino for path in Path("w").glob("runs/*/run.json")}
    assert len(done) == 1
    ended = tiny("--scale", "smoke")
    assert ended.exit_code == 0, ended.output
    expected = [
        ("q-FFL, q=0.5", 1),
        ("q-FFL, q=0.5", 2),
        ("q-FFL, q=1", 1),
        ("q-FFL, q=1", 2),
    ]
    assert rounds[2:] == expected
    for path, node in done.items():
        assert path.stat().st_ino == node
    assert "numbers are not to be compared" in ended.stderr
    assert "Below: as the paper prints it; at --scale smoke it cannot be compared." in " ".join(
        ended.stdout.split()
    )
    assert "| paper | 97.0 ±0.5 |" in results().with_name("table.md").read_text()
    assert " paper & 97.0 $\\pm$0.5" in results().with_name("table.tex").read_text()
    assert json.loads(results().read_text())["title"].endswith(
        "(at smoke scale: 4 clients, 1 corrupted, 2 rounds)"
    )

    files = {path.name: path.read_bytes() for path in results().parent.iterdir()}
    assert {
        "results.json",
        "table.md",
        "table.tex",
        "report.html",
        "q.png",
        "q.svg",
        "q.pdf",
    } <= set(files)
    assert (
        "No picture 'rounds'" in json.loads(files["results.json"])["notes"][-1]
    )  # nothing was recorded over rounds
    again = tiny("--scale", "smoke", "--json")
    result = {path.name: path.read_bytes() for path in results().parent.iterdir()}
    assert result == files
    result = json.loads(again.stdout)["rows"][0]["cells"]["clean ACC"]["published"]["mean"]
    assert result == 97.0


def test_a_failed_cell_is_told_and_the_rest_goes_on_in_two_processes(tiny, no_forecast):
    text = TINY.replace(
        'dataset = "toy"', 'dataset = "toy"\nprepare = { size = 8, sample-images = 400 }'
    )
    Path("tiny.toml").write_text(text.replace('"qffl"', '"qffl"\ntrain = { weights = "no.pt" }'))
    ended = tiny(
        "--only", "seed 0", "--jobs", "2"
    )  # at --scale paper, where starting weights count
    assert ended.exit_code == 1
    assert "q-FFL, q=0.5 · seed 0: no such" in ended.stderr
    assert "[3/3]" in ended.stderr
    assert "2 of 3 cells failed: q-FFL, q=0.5 · seed 0 and others" in ended.stderr
    written = json.loads(results("paper").read_text())
    result = [failure["cell"] for failure in written["failed"]]
    assert result == [
        "q-FFL, q=0.5 · seed 0",
        "q-FFL, q=1 · seed 0",
    ]
    cell = written["rows"][0]["cells"]["clean ACC"]
    assert cell["verdict"] == "too few seeds"
    assert "half" in cell
    assert "Largest differences" in results("paper").with_name("report.html").read_text()
    expected = pytest.approx(cell["mean"] - 97)
    assert cell["difference"] == expected


def test_a_cell_says_what_the_system_refused_as_every_command_does():
    def full():
        raise OSError(28, "No space left on device", "w/rounds.jsonl")

    outcome = jobs._tried(None, full)
    assert outcome.sentence == "no space left on the device while writing w/rounds.jsonl"
    assert "free some space" in outcome.hint


def test_a_fault_in_the_page_loses_no_number_and_a_cell_trained_again_says_why(tiny, monkeypatch):
    def write(*_, **about):
        raise ValueError("no ink")

    monkeypatch.setattr(page, "write", write)
    monkeypatch.setattr(extensions, "_loaded", {})  # of other tests, whose code would be suspected
    Path("tiny.toml").write_text(
        TINY.replace('published = "tiny.json"\n', "").partition("[[figure]]")[0]
    )
    ended = tiny("--scale", "smoke", "--only", "FedAvg")
    assert ended.exit_code == 1
    assert "report.html is missing from" in ended.stderr
    assert "unexpected ValueError: no ink" in ended.stderr
    assert "FedAvg" in ended.stdout
    assert "published" not in ended.stdout
    assert results().with_name("table.md").is_file()

    monkeypatch.setattr(page, "write", lambda path, *_, **about: None)
    Path("tiny.toml").write_text(Path("tiny.toml").read_text().replace("lr = 3e-3", "lr = 1e-2"))
    assert (
        "FedAvg · seed 0 is trained again: lr is 0.01, was 0.003"
        in tiny("--scale", "smoke", "--only", "FedAvg").stderr
    )
    assert "trained again" not in tiny("--scale", "smoke", "--only", "FedAvg").stderr

    old = Path("w") / json.loads(results().read_text())["rows"][0]["scores"]["noise, seed 0"]
    shutil.copytree("w", "elsewhere")
    outside = f"../elsewhere/{old.relative_to('w')}"  # what a file says is not read outside of the work folder
    results().write_text(results().read_text().replace(str(old.relative_to("w")), outside))
    Path("tiny.toml").write_text(Path("tiny.toml").read_text().replace("lr = 1e-2", "lr = 1e-3"))
    assert "trained again" not in tiny("--scale", "smoke", "--only", "FedAvg").stderr


def test_a_wrong_folder_is_one_error_and_writes_nothing(tiny):
    Path("tiny.toml").write_text(TINY.replace('"toy"', '"isic2018"'))
    Path("empty").mkdir()
    for folder, message in (("nowhere", "no such folder: nowhere"), ("empty", "empty has neither")):
        ended = tiny("--scale", "smoke", "--raw", folder)
        assert (ended.exit_code, ended.stdout) == (1, "")
        assert ended.stderr.count("error: ") == 1
        assert message in ended.stderr
    assert not Path("w").exists()


def test_the_list_is_for_programs_too_and_an_unknown_name_gets_the_nearest(tiny):
    listed = json.loads(CliRunner().invoke(app, ["reproduce", "--json"]).stdout)[
        "fedism-plus-table1"
    ]
    assert listed["datasets"] == ["rsna-ich"]
    expected = len(listed["rows"]) * len(listed["seeds"])
    assert listed["cells"] == expected
    for word, hint in (
        ("fedism", "did you mean 'fedism-plus' or"),
        ("xyz", "`fedcli reproduce` lists all"),
    ):
        assert hint in CliRunner().invoke(app, ["reproduce", word]).stderr


def test_a_column_that_no_scores_have_is_refused_by_name(tiny):
    Path("tiny.toml").write_text(TINY.replace("clean/balanced_accuracy", "clean/balanced_acuracy"))
    ended = tiny("--scale", "smoke")
    assert ended.exit_code == 2
    assert (
        "column 'clean ACC': scores.json has no number at 'versions/clean/balanced_acuracy'"
        in ended.stderr
    )
    assert "did you mean 'balanced_accuracy'?" in ended.stderr


def test_the_dry_run_is_a_script_of_the_same_commands(tiny):
    script = tiny("--scale", "smoke", "--dry-run", "--only", "FedAvg").stdout
    expected = [
        "set -e",
        "# [1/1] FedAvg · seed 0",
        "prepare_1=$(fedcli prepare toy --size 8 --work w)",
        'partition_1=$(fedcli partition "$prepare_1" --dirichlet 1.0 --clients 4 --work w)',
        'corrupt_1=$(fedcli corrupt gaussian "$partition_1" --ratio 0.25 --work w)',
        'run=$(fedcli train fedavg "$corrupt_1" --lr 0.003 --rounds 2 --model cnn --work w --resume)',
        'fedcli evaluate "$run" --work w',
    ]
    assert script.splitlines()[2:] == expected
    assert not Path("w").exists()


def test_the_dry_run_writes_files_of_the_recipes_folder_and_names_no_place_on_this_machine(
    tmp_path,
):
    words = ["reproduce", "fed-mas-table8", "--seeds", "1", "--dry-run"]
    text = CliRunner().invoke(app, [*words, "--work", "w"]).stdout
    folder = recipe.recipes_folder()
    assert str(folder) not in text
    assert "--augment w/recipes/fed-mas-flamby.json" in text
    begin = text.index("{\n")
    written = text[begin : text.index("\nEND\n")]
    assert json.loads(written) == json.loads((folder / "fed-mas-flamby.json").read_text())


def test_the_dry_run_has_the_device_and_cells_side_by_side_and_writes_a_script_for_each(tiny):
    script = tiny(
        "--scale", "smoke", "--dry-run", "--device", "cuda", "--jobs", "2", "--precision", "bf16"
    ).stdout
    assert " --model cnn --device cuda --precision bf16 --work w --resume --wait)" in script
    assert 'fedcli evaluate "$run" --device cuda --work w' in script
    starts = [line for line in script.splitlines() if line.startswith((")", "wait", "exit"))]
    assert starts == [
        ") & side_1=$!",
        ") & side_2=$!",
        'wait "$side_1" || failed=1',
        'wait "$side_2" || failed=1',
        'exit "$failed"',
    ]
    result = subprocess.run(["sh", "-n"], input=script, text=True).returncode
    assert result == 0
    ended = tiny("--scale", "smoke", "--dry-run=scripts")
    assert (ended.exit_code, ended.stdout) == (
        0,
        "",
    )
    assert "scripts/data.sh, to be run first" in ended.stderr
    names = sorted(path.name for path in Path("scripts").iterdir())
    assert names == [
        "1-FedAvg-seed-0.sh",
        "2-q-FFL-q=0.5-seed-0.sh",
        "3-q-FFL-q=1-seed-0.sh",
        "data.sh",
    ]
    assert "train" not in Path("scripts/data.sh").read_text()
    assert "--set q=0.5" in Path("scripts", names[1]).read_text()
    assert "scripts is not empty" in tiny("--dry-run=scripts").stderr
    assert "exclude each other" in tiny("--dry-run", "--cells", "1/2").stderr
    assert not Path("w").exists()


def test_the_dry_run_asks_for_folders_and_files_that_were_not_given(tiny):
    text = TINY.replace('"toy"', '"hyper-kvasir"').replace(
        "[train]", '[files]\nmoco = "a teacher"\n[train]\nset-up'
    )
    text = text.replace("set-up", 'weights = "{raw}/r18$.pth"').replace(
        '"qffl"', '"kd"\ntrain = { teacher = "{files.moco}" }'
    )
    Path("tiny.toml").write_text(text.replace("set.q", "set.lambda_f"))
    script = tiny("--dry-run", "--only", "seed 0").stdout
    assert (
        '# MOCO_FILE: a teacher\n: "${HYPER_KVASIR:?the folder of hyper-kvasir as downloaded}"\n'
        in script
    )
    assert ': "${MOCO_FILE:?the file moco}"' in script
    assert 'prepare_1=$(fedcli prepare hyper-kvasir --raw "$HYPER_KVASIR" --work w)' in script
    assert (
        ' --lr 0.003 --rounds 2 --set lambda_f=0.5 --weights "$HYPER_KVASIR/r18\\$.pth" --teacher "$MOCO_FILE"'
        in script
    )
    assert "MOCO_FILE" not in tiny("--dry-run", "--only", "FedAvg").stdout


def test_a_dataset_without_its_folder_is_left_out_unless_nothing_remains(tiny):
    text = TINY.replace("[train]", '[data.skin]\ndataset = "isic2018"\n[train]').replace(
        "score =", 'data = "noise"\nscore ='
    )
    Path("tiny.toml").write_text(text)
    ended = tiny("--only", "skin · seed 0")
    assert ended.exit_code == 2
    assert "tiny needs the files of isic2018" in ended.stderr
    table = recipe.load(Path("tiny.toml"))
    cells = expand.cells(table, "paper")
    _, missing = raw.possible(table, cells, {})
    assert missing == ["isic2018 is left out: no --raw isic2018=DIR was given."]


def test_a_table_of_fewer_rows_says_that_the_runs_are_kept(tiny, no_page, no_forecast):
    Path("tiny.toml").write_text(TINY.partition("[[figure]]")[0])
    both = ["--scale", "smoke", "--seeds", "1", "--only"]
    assert "left out of this one" not in tiny(*both, "FedAvg").stderr
    output = " ".join(tiny(*both, "q-FFL").stderr.split())
    assert "1 of 1 row of the table in w/reproduce/tiny-smoke left out of this one" in output
    assert "the same command without --only shows all" in output
    assert "table.tex, report.html" in output
    result = json.loads(results().read_text())["statistics"]
    assert result == []  # no tests of samples of a few images


def test_scripts_are_all_written_or_none(tiny, monkeypatch):
    """On a full disk half of them would else lie there, and the same command would refuse the folder."""
    written = []

    def filled(path, text):
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        written.append(path)
        path.write_text(text)

    with monkeypatch.context() as disk:
        disk.setattr(script, "write_text", filled)
        ended = tiny("--scale", "smoke", "--dry-run=scripts")
    assert ended.exit_code == 1
    assert "no space left on the device" in ended.stderr
    assert not Path("scripts").exists()
    assert not list(Path().glob(".scripts*"))
    assert tiny("--scale", "smoke", "--dry-run=scripts").exit_code == 0
    result = len(list(Path("scripts").iterdir()))
    assert result == 4
