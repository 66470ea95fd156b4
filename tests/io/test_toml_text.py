"""TOML files are bounded before they are parsed."""

import tomllib
from pathlib import Path

import pytest

import fedcli
from fedcli.commands import registry
from fedcli.commands.shell import defaults
from fedcli.errors import UsageError
from fedcli.io import toml_text
from fedcli.reproduction import recipe
from fedcli.sites import policy

BOMBS = {
    "arrays": ("x = " + "[" * 100_000, "nests more than 32 deep"),
    "tables": ("x = " + "{a=" * 100_000, "nests more than 32 deep"),
    "closed arrays": ("x = " + "[" * 2000 + "]" * 2000, "nests more than 32 deep"),
    "a key": ("a." * 100_000 + "a = 1", "nests more than 32 deep"),
    "a spaced key": ("a . " * 100_000 + "a = 1", "nests more than 32 deep"),
    "a quoted key": ('"a".' * 100_000 + "a = 1", "nests more than 32 deep"),
    "a head": ("[" + "a." * 100_000 + "a]", "nests more than 32 deep"),
    "digits": ("x = " + "9" * 100_000, "is not TOML"),
    "size": ("x = 1\n" + "# more\n" * 200_000, "has more than 1048576 characters"),
    "nothing": ("x = \0", "zero bytes"),
    "written nothing": ('x = "\\u0000"', "zero bytes"),
}
ALLOWED = """
a.b.c = [[1.5, 2.5, {d = 3}], [0.1, 0.2, 0.3]]  # ((([[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
e = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[.............................................\\""
f = '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[..............................................'
g = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1,
     0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
"""


@pytest.mark.parametrize(("text", "words"), BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("read", [toml_text.read, policy.read, recipe.load])
def test_a_file_that_would_take_long_or_much_is_a_sentence(tmp_path, text, words, read):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(fedcli.FedcliError, match=words):
        read(tmp_path / "a.toml")


def test_the_file_in_the_folder_at_hand_is_read_by_it_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defaults.FILE.write_text(BOMBS["arrays"][0])
    with pytest.raises(UsageError, match=r"fedcli\.toml is not TOML: it nests more than 32 deep"):
        defaults.read("train", registry.CommandsByName()["train"], ["train"])


def test_what_is_usual_is_read(tmp_path):
    (tmp_path / "a.toml").write_text(
        ALLOWED + 'h = """\n[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n"""\n'
    )
    expected = tomllib.loads((tmp_path / "a.toml").read_text())
    assert toml_text.read(tmp_path / "a.toml") == expected
    for path in (Path(fedcli.__file__).parents[1] / "recipes").glob("*.toml"):
        assert toml_text.read(path)


def test_a_byte_order_mark_before_the_text_is_left_out(tmp_path):
    (path := tmp_path / "fedcli.toml").write_text("x = 1", encoding="utf-8-sig")
    assert toml_text.read(path) == {"x": 1}
