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
        lines, found = strangers.FILES[file], list(strangers.places(json.loads(path.read_text(encoding="utf-8"))))
    else:
        text, lines = strangers.TOML[file]
        found = strangers.texts(text)
    for draw in play.cases():
        case = (file, *(options[int(draw.integers(len(options)))] for options in (found, strangers.PROBES, lines)))
        (ended,), said = strangers.played(whole, tmp_path, [case])
        play.note(ended["wrong"] + ["unexpected"] * ("error: unexpected" in said), f"{case}\n{said[-400:]}")
