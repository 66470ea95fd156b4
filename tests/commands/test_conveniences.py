"""Names as people write them, lists, completion, defaults from files and variables, and where a run is kept."""

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import forked
import pytest
from nested_scores import body_of
from typer.testing import CliRunner

from fedcli.commands import method_facts
from fedcli.commands.app import app
from fedcli.commands.shell import complete
from fedcli.data import sources
from fedcli.data.corruption.kinds import ALIASES, KINDS
from fedcli.errors import UsageError
from fedcli.methods import METHODS, resolve
from fedcli.reproduction import recipe


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A toy dataset in two clients, one corrupted, with an evaluated run called first."""
    folder = tmp_path_factory.mktemp("work")
    where = ("--work", folder)
    corrupt = ("--corrupt", "gaussian", "--ratio", 0.5)
    assert run("prepare", "toy", "--sample-images", 400, "--clients", 2, *corrupt, *where)[0] == 0
    assert run("train", "FedISM+", "--rounds", 1, "--name", "first", *where)[0] == 0
    assert run("evaluate", *where)[0] == 0
    return folder


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        ("FedISM+", "fedism-plus"),
        ("fedism+", "fedism-plus"),
        ("FedISM", "fedism"),
        ("FedAvg", "fedavg"),
        ("q-FedAvg", "qffl"),
        ("Q-FFL", "qffl"),
        ("FEDPROX", "fedprox"),
        ("fedprox+afl", "fedprox+afl"),
        ("FedProx+SAGA", "fedprox+saga"),
        ("fedprox+FedHEAL", "fedprox+fedheal"),
    ],
)
def test_a_method_is_found_as_people_write_it(spelt, name):
    assert resolve(spelt).name == name


def test_every_label_means_its_method():
    for method in METHODS.values():
        assert resolve(method.label).name == method.name


def test_a_misspelt_label_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="unknown method 'FedHEEL'") as error:
        resolve("FedHEEL")
    assert "FedHEAL" in error.value.hint


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        ("HAM10000", "isic2018"),
        ("ham10000", "isic2018"),
        ("ISIC2019", "isic2019"),
        ("RSNA-ICH", "rsna-ich"),
    ],
)
def test_a_dataset_is_found_as_people_write_it(spelt, name):
    assert sources.named(spelt) == name


@pytest.mark.parametrize(
    "spelt", ["FedISM-Plus-Table2", "fedism+ table2", "FEDISM-PLUS-TABLE2.toml"]
)
def test_a_recipe_is_found_as_people_write_it(spelt):
    assert recipe.find(spelt).stem == "fedism-plus-table2"


@pytest.mark.parametrize(
    ("words", "sentence", "line"),
    [
        (
            ["train", "fedavg", "--round", 2],
            "error: no such option:? '?--round\\b",
            "`fedcli train --help`",
        ),
        (["prepare"], "(?i)error: missing argument 'name'", "`fedcli prepare --help`"),
        (["trian"], "error: no such command 'trian'", "`fedcli --help`"),
        (["--loud"], "error: no such option:? '?--loud\\b", "`fedcli --help`"),
        (["ls", "--work"], "error: option '--work' requires an argument", "`fedcli ls --help`"),
    ],
)
def test_what_cannot_be_read_is_refused_as_all_other_mistakes_are(words, sentence, line):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert re.search(f"{sentence}(.*\n)+  hint: {line}", err)
    assert "Usage" not in err
    assert "Error" not in err


def test_lists_and_help_import_no_torch(work):
    code = """
import sys
from fedcli.commands.app import app
for line in sys.argv[1:]:
    app(line.split(), standalone_mode=False)
    print("imports torch:", "torch" in sys.modules)
"""
    method_facts.all_facts()  # which the first `fedcli methods` keeps
    lines = "methods", "reproduce", "ls", "train --help"
    ended = subprocess.run(
        [sys.executable, "-c", code, *lines], cwd=work.parent, capture_output=True, text=True
    )
    import_lines = [line for line in ended.stdout.splitlines() if line.startswith("imports torch:")]
    assert import_lines == ["imports torch: False"] * len(lines), ended.stderr


def test_ls_shows_every_stage_with_the_runs_score(work):
    code, out, _ = run("ls", "--work", work)
    assert code == 0
    for words in ("toy-16-", "dirichlet", "gaussian-noise", "first", "FedISM+"):
        assert words in out
    written = json.loads(run("ls", "--work", work, "--json")[1])
    (line,) = written["run"]
    assert (line["run"], line["seed"], line["rounds"]) == ("first", 0, 1)
    assert line["rounds_played"] == 1
    scores = body_of(next(work.glob("runs/first/scores/*/scores.json")))
    mean = scores["versions"]["average"]["balanced_accuracy"]["mean_last5"]
    assert line["balanced_accuracy (%)"] == 100 * mean
    assert f"{100 * mean:.1f}" in out
    result = (written["dataset"][0]["pixels"], written["corruption"][0]["severity"])
    assert result == (16, 3)
    assert {entry["data"] for entries in written.values() for entry in entries} == {"real"}
    assert written["partition"][0]["scheme"].startswith("dirichlet alpha 1")


def test_ls_names_the_attribute_of_a_partition_and_says_what_is_synthetic(tmp_path):
    assert run("prepare", "rsna-ich", "--sample", "--size", 8, "--work", tmp_path)[0] == 0
    assert run("partition", "--by", "race", "--work", tmp_path)[0] == 0
    listed = json.loads(run("ls", "--work", tmp_path, "--json")[1])
    result = [entry["data"] for entry in (*listed["dataset"], *listed["partition"])]
    assert result == ["SYNTHETIC"] * 2
    assert listed["partition"][0]["scheme"] == "by race"


def test_ls_shows_how_far_an_unfinished_run_is(work, tmp_path):
    begun = tmp_path / "runs" / "begun"
    begun.mkdir(parents=True)
    (begun / "settings.json").write_text((work / "runs" / "first" / "settings.json").read_text())
    (begun / "rounds.jsonl").write_text("{}\n" * 3)
    (entry,) = json.loads(run("ls", "--work", tmp_path, "--json")[1])["run"]
    result = (
        entry["rounds_played"],
        entry["rounds"],
        entry["data"],
        entry["balanced_accuracy (%)"],
    )
    assert result == (3, 1, "-", None)
    assert "3 of 1" in run("ls", "--work", tmp_path)[1]
    code, out, err = run("ls", "--work", tmp_path / "empty")
    assert code == 1
    assert not out
    assert "fedcli prepare NAME" in err


def test_a_newer_run_that_has_not_finished_is_not_silently_passed_over(work):
    begun = work / "runs" / "second-try"
    begun.mkdir()
    (begun / "settings.json").write_text((work / "runs" / "first" / "settings.json").read_text())
    try:
        code, out, err = run("evaluate", "--work", work)
    finally:
        shutil.rmtree(begun)
    assert code == 0
    assert out.strip().endswith("scores.json")
    assert begun.name not in out
    assert f"warning: {begun} has not finished and is left out; go on with: " in err
    assert f"fedcli train --resume --out {begun}" in err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["models"], "resnet18"),
        (["metrics"], "equalized_odds_difference"),
        (["corruptions"], "motion-blur"),
    ],
)
def test_what_can_be_named_is_listed(words, name):
    code, out, _ = run(*words)
    assert code == 0
    assert name in out
    assert name in json.loads(run(*words, "--json")[1])


def test_every_corruption_is_described_with_its_other_names():
    listed = json.loads(run("corruptions", "--json")[1])
    assert listed.keys() == set(KINDS)
    for alias, kind in ALIASES.items():
        assert alias in listed[kind]["aliases"]
    shown = run("corruptions", "motion-blur")[1]
    assert "also called" in shown
    assert "1903.12261" in shown


def test_a_missing_stage_is_answered_with_the_command_to_type(tmp_path):
    cases = (
        (["partition"], "`fedcli prepare NAME`"),
        (["corrupt", "gaussian"], "`fedcli partition`"),
        (["train", "fedavg"], "`fedcli prepare NAME`"),
        (["evaluate"], "`fedcli train METHOD`"),
    )
    for words, command in cases:
        code, _, err = run(*words, "--work", tmp_path)
        assert code == 1, words
        assert command in err, words
    assert "unknown corruption 'gausian'" in run("corrupt", "gausian", "--work", tmp_path)[2]
    assert "which method?" in run("train", tmp_path)[2]


def test_a_name_is_the_runs_folder(work):
    assert (work / "runs" / "first" / "run.json").is_file()
    for name in ("a/b", " ", ".hidden"):
        code, _, err = run("train", "fedavg", "--name", name, "--work", work)
        assert code == 2
        assert "is no name for a folder" in err
    code, _, err = run("train", "fedavg", "--name", "first", "--work", work)
    assert code == 1
    assert "already holds another result" in err
    assert "give another --name or --out" in err
    assert (
        "exclude each other"
        in run("train", "fedavg", "--name", "a", "--out", "b", "--work", work)[2]
    )


def test_one_value_of_an_option_that_may_be_repeated_needs_no_list(work, monkeypatch):
    monkeypatch.chdir(work.parent)
    for value in ('"accuracy"', '["accuracy"]'):
        Path("fedcli.toml").write_text(f"[report]\nmetric = {value}\n", encoding="utf-8")
        code, out, err = run("report", "--work", work, "--format", "csv")
        assert code == 0, err
        assert "clean accuracy" in out
    Path("fedcli.toml").write_text('[plot]\nseries = "loss"\n', encoding="utf-8")
    code, _, err = run("plot", "curves", "--work", work, "--out", "loss.csv")
    assert code == 0, err
    Path("fedcli.toml").write_text("[evaluate]\nseverity = 3\n", encoding="utf-8")
    code, _, err = run("evaluate", "--work", work, "--corrupt", "gaussian")
    assert code == 0, err
    Path("fedcli.toml").unlink()


def test_a_folder_without_results_hides_no_run_of_its_name(work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("first").mkdir()
    (Path("first") / "notes.json").write_text("{}")
    code, _, err = run("evaluate", "first", "--work", work)
    assert code == 0, err
    (Path("first") / "run.json").write_text("{}")
    assert "first/run.json is not a fedcli manifest" in run("evaluate", "first", "--work", work)[2]


def test_a_folder_without_results_is_called_a_folder(work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("hospitals/.editor").mkdir(parents=True)
    Path("hospitals/.editor/settings.json").write_text("{}")
    for word in ("hospitals", "."):
        code, _, err = run("evaluate", word, "--work", work)
        assert code == 1
        assert "no such manifest" not in err
    assert "the folder hospitals holds no result" in run("evaluate", "hospitals", "--work", work)[2]


def test_options_from_a_file_and_from_variables_are_used_and_said(work, monkeypatch):
    monkeypatch.chdir(work.parent)
    text = f'work = "{work.name}"\n[train]\nrounds = 3\nset = {{ mu = 0.5 }}\nname = "second"\n'
    Path("fedcli.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("FEDCLI_DEVICE", "cpu")
    code, out, err = run("train", "fedprox", "--rounds", 1)
    assert code == 0
    assert "runs/second" in out
    body = json.loads((work / "runs" / "second" / "run.json").read_text())["body"]
    assert body["rounds"] == 1
    assert body["settings"]["mu"] == 0.5  # what was typed comes first
    for words in (
        "--set mu=0.5 from fedcli.toml",
        "--device cpu from FEDCLI_DEVICE",
        f"--work {work.name} from fedcli.toml",
    ):
        assert words in err
    assert "--rounds" not in err
    assert "first" in run("ls")[1]
    Path("fedcli.toml").unlink()


@pytest.mark.parametrize(
    ("text", "command", "words"),
    [
        ("rounds = 3", "ls", "'rounds' is no option of every command"),
        ("[trian]\nrounds = 3", "train", "'trian' is no command"),
        ("[train]\nround = 3", "train", "train has no flag 'round'"),
        ("work = ", "ls", "is not TOML"),
        ('[train]\nmethods = ["./evil.py"]', "train", "train has no flag 'methods'"),
    ],
)
def test_mistakes_in_the_file_are_explained(tmp_path, monkeypatch, text, command, words):
    monkeypatch.chdir(tmp_path)
    Path("fedcli.toml").write_text(text, encoding="utf-8")
    code, _, err = run(command, "fedavg") if command != "ls" else run(command)
    assert code == 2
    assert words in err
    assert "hint:" in err
    assert not Path("fedcli-work").exists()
    for line in (["methods"], [command, "--help"], ["--help"], ["--version"]):
        code, out, err = run(*line)
        assert code == 0, line
        assert out
        assert err.count("warning:") <= 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("momentum = 0.9", 'optimizer = "sgd:momentum=0.9"'),
        ('optimizer = "adamw"\nweight_decay = 0.1', 'optimizer = "adamw:weight-decay=0.1"'),
        ("nesterov = true", 'optimizer = "sgd:nesterov"'),
        ("backbone = 0.1", 'optimizer = "adam:backbone=0.1"'),
        ("clip_norm = 3", 'optimizer = "adam:clip=3"'),
        ("dp-noise = 20", 'dp = "client:20"'),
        ("smoothing = 0.1", 'loss = "smoothing=0.1"'),
        ('layers = "qkv"', 'adapters = "lora:8:layers=qkv"'),
    ],
)
def test_a_part_of_an_options_text_is_answered_with_the_line_to_write(
    tmp_path, monkeypatch, text, line
):
    monkeypatch.chdir(tmp_path)
    Path("fedcli.toml").write_text(f"[train]\n{text}", encoding="utf-8")
    code, _, err = run("train", "fedavg")
    assert code == 2
    assert f"write {line}" in err
    Path("fedcli.toml").write_text(f"[train]\n{line}", encoding="utf-8")
    assert "has no flag" not in run("train", "fedavg")[2]


@pytest.mark.parametrize(
    "line",
    [
        "train fedavg --dp",
        "train fedavg --optimizer",
        "train fedavg --out",
        "train fedavg --weights",
        "train fedavg --over",
        "report fedavg --figures",
        "methods --for",
        "reproduce fedheal --only",
        "evaluate fedavg --by",
    ],
)
def test_an_empty_text_is_not_taken_for_an_option_that_was_left_out(line):
    code, _, err = run(*line.split(), "")
    assert code == 2
    flag = line.split()[-1]
    assert f"{flag} is empty" in err
    assert "give it a value, or leave it out" in err


def test_an_empty_argument_and_an_empty_text_of_the_file_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "the argument runs is empty" in run("report", "")[2]
    Path("fedcli.toml").write_text('[train]\ndp = ""\n', encoding="utf-8")
    code, _, err = run("train", "fedavg")
    assert code == 2
    assert "--dp is empty (this value is from fedcli.toml)" in err


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("away")])
def test_what_is_no_file_of_options_is_said(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    make(Path("fedcli.toml"))
    code, _, err = run("methods")
    assert code == 0
    assert err.count("no option is read from it") == 1


def test_a_value_that_cannot_be_is_named_with_the_file_or_variable_it_is_from(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("fedcli.toml").write_text('[train]\nrounds = "one"\n', encoding="utf-8")
    code, _, err = run("train", "fedavg")
    assert code == 2
    assert "--rounds='one'" in err
    assert "this value is from fedcli.toml" in err
    monkeypatch.setenv("FEDCLI_JOBS", "two")
    assert "this value is from FEDCLI_JOBS" in run("train", "fedavg", "--rounds", 1)[2]
    assert "this value is from" not in run("train", "fedavg", "--rounds", 1, "--jobs", "two")[2]


def test_a_log_file_gets_every_message_wherever_the_flag_stands(work, tmp_path):
    log = tmp_path / "log.txt"
    run("partition", "--iid", "--clients", 2, "--log-file", log, "--work", work)
    run("partition", "--iid", "--clients", 9999, f"--log-file={log}", "--work", work)
    text = log.read_text()
    partition_path = next((work / "partitions").glob("toy-iid-*/partition.json"))
    assert f"INFO {partition_path}" in text  # what stands on stdout
    assert "INFO using" in text
    assert "ERROR" in text
    assert text.splitlines()[0][:2] == "20"


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("fedcli train fedis", "fedism-plus"),
        ("fedcli train fedprox+af", "fedprox+afl"),
        ("fedcli prepare isic", "isic2019"),
        ("fedcli reproduce fedheal-t", "fedheal-table2"),
        ("fedcli corrupt gauss", "gaussian-noise"),
        ("fedcli corrupt gaussian --work WORK --on client-", "client-01"),
        ("fedcli train fedavg --work WORK WORK/cor", "corruption.json"),
        ("fedcli train fedavg fedis", "fedism-plus"),
        ("fedcli compare --work WORK fir", "first"),
        ("fedcli train FedI", "FedISM+"),
        ("fedcli prepare ham", "ham10000"),
        ("fedcli report --metric f1", "f1_macro"),
        ("fedcli report --format m", "markdown"),
        ("fedcli train fedavg --prior logit", "logit-adjust"),
    ],
)
def test_the_shell_completes_names_clients_and_files(work, line, completed):
    words = line.replace("WORK", str(work))
    shell = {
        "_FEDCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    ended = forked.command("fedcli", env=shell)
    assert any(completed in word for word in ended.stdout.split()), ended.stdout + ended.stderr


@pytest.mark.parametrize("text", ["", "[]", '{"body": 3}'])
def test_the_shell_completes_nothing_from_a_damaged_manifest(text, tmp_path):
    (tmp_path / "datasets" / "one").mkdir(parents=True)
    (tmp_path / "datasets" / "one" / "dataset.json").write_text(text)
    assert complete.attributes(SimpleNamespace(params={"work": tmp_path}), "s") == []


def test_the_bar_of_progress_shows_loss_and_scores(work, tmp_path):
    line = f"fedcli train fedavg --rounds 2 --eval-every 1 --seed 7 --work {work}"
    main, side = pty.openpty()
    pieces = []

    def read():
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(main, 4096):
                pieces.append(piece)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    ended = forked.command(line, screen=side)
    os.close(side)
    reader.join()
    os.close(main)
    assert ended.returncode == 0, pieces
    assert b"loss " in b"".join(pieces), pieces
    assert b", clean " in b"".join(pieces), pieces


def test_help_of_a_large_command_has_headings():
    out = run("train", "--help=all")[1]
    words = [
        "\nTraining:",
        "\n  --rounds",
        "\nMethod:",
        "\n  --set",
        "\nMachine:",
        "\n  --device",
        "\nOutput:",
    ]
    places = [out.index(word) for word in words]
    assert places == sorted(places)
    out = run("prepare", "--help=all")[1]  # trains nothing: its seed and --set are about the data
    assert "\nTraining:" not in out
    assert "\nMethod:" not in out
    assert out.index("\nData:") < out.index("\n  --set") < out.index("\nMachine:")
    forgotten = [
        name
        for name in ("train", "evaluate", "report", "corrupt")
        if "\nOptions:" in run(name, "--help=all")[1]
    ]
    assert not forgotten
    assert "--log-file" in run("ls", "--help")[1]
    assert "\nTraining:" not in run("ls", "--help")[1]


def test_help_shows_the_options_that_are_used_most_and_counts_the_others():
    out = run("train", "--help")[1].partition("\nMost used:")[2]
    shown = re.findall(r"^  (--[a-z-]+)", out, re.M)
    order = "rounds epochs lr model weights prior seeds device resume set name over"
    assert shown == [f"--{name}" for name in order.split()]
    count = int(re.search(r"--help=all lists (\d+) more options", out)[1])
    every = run("train", "--help=all")[1].partition("\nTraining:")[2]
    all_shown = re.findall(r"^  (--[a-z-]+)", every, re.M)
    assert len(all_shown) == len(shown) + count
    assert set(shown) < set(all_shown)


@pytest.mark.parametrize(("command", "most"), [("train", 48), ("prepare", 38)])
def test_the_whole_help_of_a_large_command_is_not_endless(command, most):
    lines = re.findall(r"^  --", run(command, "--help=all")[1], re.M)
    assert len(lines) <= most


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("train fedavg --patience 5", "--rounds patience=VALUE"),
        ("train fedavg --dp-noise 5", "--dp client=VALUE"),
        ("prepare toy --clahe", "--fit clahe"),
    ],
)
def test_an_option_that_is_a_part_of_another_is_answered_with_that_one(words, part):
    code, _, err = run(*words.split())
    assert code == 2
    assert part in err


def test_an_experiment_file_of_ones_own_is_run(work, tmp_path, monkeypatch):
    text = """
        title = "Mine"
        seeds = [0]
        column = [{ name = "AUC", data = "toy", score = "versions/clean/auc_ovo_macro" }]
        [data.toy]
        dataset = "toy"
        partition = { iid = true, clients = 2 }
        [[row]]
        name = "FedAvg"
        method = "fedavg"
    """
    (path := tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    code, out, err = run("reproduce", path, "--dry-run", "--work", tmp_path)
    assert code == 0, err
    assert "fedcli train fedavg" in out, err
    assert "no such recipe" in run("reproduce", tmp_path / "absent.toml")[2]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"options": {}}', '{"options": {"method": 1, "seed": 0, "rounds": 3}}']
)
def test_ls_leaves_out_a_damaged_unfinished_run_and_says_so(text, tmp_path):
    (begun := tmp_path / "runs" / "begun").mkdir(parents=True)
    (begun / "settings.json").write_text(text)
    code, _, err = run("ls", "--work", tmp_path)
    assert code == 1
    assert f"left out {begun}" in err
    assert "nothing is under" in err


@pytest.mark.parametrize(
    "words", ["is no table of scores: line", "holds no score of all clean test images"]
)
def test_ls_leaves_out_a_run_whose_scores_are_damaged(words, work, tmp_path):
    copy = shutil.copytree(work, tmp_path / "work")
    path = next(copy.glob("runs/first/scores/*/scores.json"))
    table = path.with_name("scores.csv")
    whole = table.read_text()
    metric = ",balanced_accuracy,,1,"
    table.write_text(
        whole.replace(metric, metric + "x", 1) if "line" in words else whole.partition("\n")[0]
    )
    code, out, err = run("ls", "--work", copy)
    assert code == 0
    assert "gaussian-noise" in out
    assert "FedISM+" not in out
    assert "left out" in err
    assert f"scores.csv {words}" in err
