"""Every command where nothing was made before: it does its work or ends in one sentence that says what to type."""

import pytest
from typed_lines import fedcli
from typer.main import get_command

from fedcli.commands.app import app
from fedcli.figures.kinds import FIGURES

COMMANDS = [*get_command(app).commands, *(f"plot {figure}" for figure in FIGURES)]
ALONE = ["demo", "bench"]  # train networks where nothing else is typed
UNKNOWN = "nope"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def typed(command, *words):
    return fedcli(*command.split(), *words)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_arguments_in_an_empty_folder_says_what_it_needs(command, tmp_path):
    if command in ALONE:
        pytest.skip("needs no argument")
    code, out, err = typed(command)
    assert "unexpected" not in err
    assert "Traceback" not in err
    assert (code == 0 and out) or (code in (1, 2) and "error: " in err and "hint: " in err)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_help(command):
    code, out, err = typed(command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: fedcli {command}")
    assert not err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_debug(command):
    code, _, err = typed(command, "--debug", "--help")
    assert code == 0
    assert "no such option" not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_nothing_has_is_refused_in_a_sentence(command, tmp_path):
    code, out, err = typed(command, UNKNOWN)
    assert code in (1, 2)
    assert not out
    assert "error: " in err
    assert "unexpected " not in err.replace("unexpected extra argument", "")
    assert not list(tmp_path.iterdir())


def test_figures_are_listed_with_the_whole_question_that_each_answers():
    code, out, err = typed("plot")
    listed = " ".join(out.split())
    assert code == 0
    assert not err
    result = [name for name, figure in FIGURES.items() if figure.question not in listed]
    assert result == []


def test_debug_before_the_name_of_a_figure_shows_the_traceback():
    code, _, err = typed("plot", "--debug", "curves")
    assert code == 1
    assert "Traceback" in err
    assert "error: no run under fedcli-work" in err


def test_inspect_in_an_empty_folder_says_how_to_begin():
    code, _, err = typed("inspect")
    assert code == 1
    assert "error: nothing is under fedcli-work" in err
    assert "fedcli prepare" in err


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("models resnet18", "ResNet-18"),
        ("models timm:vit_tiny_patch16_224", "any network of timm"),
        ("metrics accuracy", "share of images"),
        ("metrics gap", "--fail-if 'gap(sex) > 5'"),
        ("corruptions gaussian", "normal noise"),
    ],
)
def test_a_list_shows_the_entry_that_is_named(line, entry):
    code, out, _ = typed(line)
    assert code == 0
    assert entry in " ".join(out.split())


def test_a_name_that_is_nearly_right_is_offered():
    code, _, err = typed("models resnet1")
    assert code == 2
    assert "unknown model 'resnet1'" in err
    assert "did you mean 'resnet18'?" in err
