"""Options of other tools are answered with what says the same here."""

import pytest
from typer.testing import CliRunner

from fedcli.commands.app import OTHER_WAYS, app


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words), prog_name="fedcli")
    return done.exit_code, done.output


@pytest.mark.parametrize("word", OTHER_WAYS)
def test_the_answer_names_an_option_that_its_command_has(word):
    answer = OTHER_WAYS[word]
    option, _, command = answer.partition(", of ")
    if not command:  # a whole command
        command, option = answer.split("`")[1].split()[1:3]
    code, output = run(command, word, "x")
    assert (code, f"write {answer}" in output) == (2, True)
    name = option.split()[0]
    assert f"no such option: {name}" not in run(command, *option.split()[:2], "--no-such")[1]
    assert name in run(command, "--help=all")[1]


@pytest.mark.parametrize(
    ("word", "hint"),
    [("loss", "`fedcli plot curves --series loss`"), ("forrest", "did you mean 'forest'?")],
)
def test_a_word_that_is_no_figure_is_answered_with_what_draws_it(word, hint):
    code, output = run("plot", word)
    assert (code, hint in output) == (2, True)
