"""fedcli.toml of the folder at hand says neither where a command writes nor what it trusts; nor does a recipe."""

import os
import re
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.commands.shell import defaults
from fedcli.options import Flag, Option
from fedcli.reproduction import flags
from fedcli.stages.options import STAGES

TYPED_ONLY = "writes", "trusts", "results", "typed"
NO_PATHS = {  # options that name no path, though their help is about files
    ("prepare", "table"),  # of the folder that is read
    ("prepare", "window"),  # of images in files
    ("partition", "without"),  # a hospital of --clients-file
    ("train", "name"),  # of a folder below --work, in which no / may be
    ("report", "format"),
    ("methods", "name"),  # a file of it is code, which --code allows
}


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words), prog_name="fedcli")
    return done.exit_code, done.stdout, done.stderr


def commands():
    """Every command of the program, those of figures too, by the words that call it."""
    by_words = {}
    for name, command in get_command(app).commands.items():
        if hasattr(command, "list_commands"):
            for figure in command.list_commands(None):
                by_words[name, figure] = command.get_command(None, figure)
        else:
            by_words[name,] = command
    return by_words


COMMANDS = commands()


def options_of(command) -> dict[str, Option]:
    return getattr(command.callback, defaults.OPTIONS)


DECLARED = [
    (words, option)
    for words, command in COMMANDS.items()
    for option in options_of(command).values()
]
REFUSED = [
    (words, option)
    for words, option in DECLARED
    if option.access in TYPED_ONLY and words[:1] != ("plot",)
]


def name_of(value) -> str:
    return " ".join(value) if isinstance(value, tuple) else value.name


def test_a_new_option_with_a_path_says_whether_it_is_read_written_or_trusted():
    undeclared = [(*words, option.name) for words, option in DECLARED if option.access == ""]
    assert undeclared == []


def test_what_says_file_or_folder_in_its_help_is_declared_too():
    undeclared = set()
    for words, option in DECLARED:
        about_files = re.search(r"\b(file|folder)\b", option.meaning) and not option.choices
        if about_files and option.kind is str and option.access is None:
            undeclared.add((words[0], option.name))
    assert undeclared == NO_PATHS


def test_a_path_without_a_declaration_is_refused():
    undeclared = Option.of("into", Path, None)
    assert undeclared.access == ""
    assert defaults._is_typed_only(undeclared, "x")
    assert not defaults._is_typed_only(Option.of("rounds", int, 1), "3")


@pytest.mark.parametrize(("words", "option"), REFUSED, ids=name_of)
def test_a_path_that_is_written_or_trusted_is_only_typed(words, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = "tensorboard:../elsewhere" if ":" in option.flag.metavar else "../elsewhere"
    value = "true" if option.shape == "switch" else f'"{path}"'
    Path("fedcli.toml").write_text(f"[{words[0]}]\n{option.name} = {value}\n", encoding="utf-8")
    needed = [p.name for p in COMMANDS[words].params if p.required]
    code, _, err = run(*words, *needed)
    name = option.typed.split()[0]
    assert code == 2
    assert f"fedcli.toml sets {name} to" in err
    assert "only the command line decides" in err
    assert f"type: fedcli {words[0]} --{name}" in err
    assert list(Path().iterdir()) == [Path("fedcli.toml")]
    assert not Path("../elsewhere").exists()


READ = [
    (words, option) for words, option in DECLARED if option.access == "reads" and words[0] != "plot"
]


@pytest.mark.parametrize(("words", "option"), READ, ids=name_of)
def test_a_file_outside_is_refused_before_it_is_opened(words, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("/etc/passwd")
    for path in ("/etc/passwd", "../elsewhere.csv", "link"):
        word = f"name={path}" if "=" in option.flag.metavar else path
        value = f'["{word}"]' if option.shape == "several" else f'"{word}"'
        Path("fedcli.toml").write_text(f"[{words[0]}]\n{option.name} = {value}\n")
        needed = [p.name for p in COMMANDS[words].params if p.required and p.name != option.name]
        code, _, err = run(*words, *needed)
        assert code == 2
        assert "root:" not in err
        if "has no flag" not in err:  # lists of arguments are only typed
            assert "decides which file outside the folder at hand is read" in err


def test_a_folder_outside_may_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    Path("fedcli.toml").write_text(f'[prepare]\nraw = "{outside}"\n')
    _, _, err = run("prepare", "isic2018")
    assert f"--raw {outside} from fedcli.toml" in err
    assert "only the command line" not in err


def test_a_figure_is_written_where_the_command_line_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fedcli.toml").write_text('[plot]\nout = "../x.png"\n', encoding="utf-8")
    code, _, err = run("plot", "curves")
    assert code == 2
    assert "type: fedcli plot curves --out ../x.png" in err


@pytest.mark.parametrize("path", ["..", "/elsewhere", "out/../../x", "link", "link/x"])
def test_results_lie_in_the_folder_of_the_file(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("..")
    Path("fedcli.toml").write_text(f'work = "{path}"\n', encoding="utf-8")
    code, _, err = run("ls")
    assert code == 2
    assert "that results lie outside the folder at hand" in err


@pytest.mark.parametrize("path", ["results", "./results", f"results{os.sep}", "deep/results"])
def test_a_folder_of_results_below_the_file_is_used(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fedcli.toml").write_text(f'work = "{path}"\n', encoding="utf-8")
    code, _, err = run("ls")
    assert code == 1
    assert "nothing is under" in err


def test_a_site_keeps_its_memory_where_its_own_people_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fedcli.toml").write_text('work = "results"\n', encoding="utf-8")
    code, _, err = run("site", "check")
    assert code == 2
    assert "only the command line decides what a command trusts" in err
    assert "no corruption or partition" in run("site", "check", "--work", "results")[2]


def test_a_variable_comes_before_the_file_and_may_name_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("fedcli.toml").write_text('[ls]\nwork = "/elsewhere"\n', encoding="utf-8")
    monkeypatch.setenv("FEDCLI_WORK", str(tmp_path / "of-variable"))
    assert "of-variable from FEDCLI_WORK" in run("ls")[2]


@pytest.mark.parametrize("word", ["pool:2", "in-process", "tensorboard"])
def test_a_name_without_a_place_is_no_path(word):
    assert not defaults._is_typed_only(
        Option("engine", str, None, flag=Flag("NAME[:N]", access="trusts")), word
    )


@pytest.mark.parametrize("stage", STAGES)
def test_a_recipe_sets_no_path_that_is_written_or_trusted(stage):
    settable = flags.flags(stage).values()
    result = [option.name for option in settable if option.access in ("", *TYPED_ONLY)]
    assert result == []


def test_a_file_with_nothing_to_check_is_neither_method_nor_corruption(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.py").write_text("x = 1\n", encoding="utf-8")
    code, _, err = run("check", "empty.py")
    assert code == 2
    assert "empty.py holds no method and no corruption" in err
    assert "register(NAME" in err
    assert "write a function (image, severity, stream)" in err
