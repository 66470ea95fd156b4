"""No text of a manifest, of settings, of a recipe or of fedcli.toml runs code or asks the network."""

import json

import pytest
import strangers


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return strangers.made(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("file", [*strangers.FILES, *strangers.TOML])
def test_a_text_that_names_code_or_a_network(file, whole, play, tmp_path):
    """Every text, probe and command may be drawn."""
    if file in strangers.FILES:
        (path,) = whole.glob(f"fedcli-work/{file}")
        lines = strangers.FILES[file]
        places = list(strangers.places(json.loads(path.read_text(encoding="utf-8"))))
    else:
        text, lines = strangers.TOML[file]
        places = strangers.texts(text)
    for draw in play.cases():
        case = (
            file,
            *(
                options[int(draw.integers(len(options)))]
                for options in (places, strangers.PROBES, lines)
            ),
        )
        (ended,), err = strangers.played(whole, tmp_path, [case])
        if "error: unexpected" in err:
            ended["wrong"].append("unexpected")
        play.note(ended["wrong"], f"{case}\n{err[-400:]}")


def test_a_parameter_of_a_command_in_fedcli_toml(whole, play, tmp_path):
    """Any parameter of any command, and any probe, alone or in a list."""
    parameters = strangers.defaults()
    for draw in play.cases():
        command, parameter, words = parameters[int(draw.integers(len(parameters)))]
        probe = strangers.PROBES[int(draw.integers(len(strangers.PROBES)))]
        value = f'["--model", "{probe}"]' if draw.random() < 0.3 else f'"{probe}"'
        case = ("fedcli.toml", f"[{command}]\n{parameter} = {value}\n", probe, words)
        (ended,), err = strangers.played(whole, tmp_path, [case])
        if "error: unexpected" in err:
            ended["wrong"].append("unexpected")
        play.note(ended["wrong"], f"{case}\n{err[-400:]}")
