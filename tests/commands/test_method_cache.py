"""`fedcli methods` without importing torch: what is kept is what the methods say."""

import json
import re
from dataclasses import replace

import pytest

from fedcli.commands import method_facts, methods
from fedcli.commands.app import app
from fedcli.methods import METHODS
from fedcli.methods.registry import ALIASES


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Two places in an empty folder."""
    monkeypatch.setattr(
        method_facts, "places", lambda: [tmp_path / name / "methods-1.json" for name in "ab"]
    )
    return tmp_path


def shown(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        app(["methods", *words], prog_name="fedcli")
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_what_is_kept_is_what_the_methods_say(cache, capsys, monkeypatch):
    printed_before = shown(capsys, "fedheal")
    text = (cache / "a" / "methods-1.json").read_text(encoding="utf-8")
    names = {name for facts in json.loads(text)["methods"] for name in facts["names"]}
    assert names >= {name.lower() for name in (*METHODS, *ALIASES)}
    assert not (cache / "b").exists()
    printed = {}
    for name in METHODS:
        methods._print(method_facts.facts_of(METHODS[name]))
        printed[name] = capsys.readouterr().out
    monkeypatch.setattr("fedcli.methods.resolve", None)  # nobody is asked
    assert {name: shown(capsys, name) for name in METHODS} == printed
    assert shown(capsys, "FedHEAL") == printed_before == printed["fedheal"]


def test_five_methods_are_marked_as_the_first_to_try(cache, capsys):
    marked = re.findall(r"^ (\S+) \*", shown(capsys), re.M)
    assert len(marked) == 5
    assert {"fedavg", "fedism-plus", "fedheal"} < set(marked)


def test_the_list_is_the_registry_from_the_methods_or_from_what_is_kept(cache, capsys):
    for _ in range(2):
        listed = []
        for facts in method_facts.all_facts():
            name, *words = methods._line(facts)
            listed.append((name.removesuffix(" *"), *words))
        expected = {(m.name, m.label) for m in METHODS.values()}
        assert {line[:2] for line in listed} == expected
        for line in listed:
            assert line[2].startswith(METHODS[line[0]].about)
        assert len(listed) == len(METHODS)
        assert [facts["name"] for facts in method_facts.all_facts()][:2] == ["adv", "afl"]
    listed = shown(capsys)
    for name in METHODS:
        assert name in listed


def test_a_method_registered_in_a_loop_and_described_by_a_name_is_listed(cache, monkeypatch):
    words = "in words that stand elsewhere"
    monkeypatch.setitem(METHODS, "twin", replace(METHODS["fedavg"], name="twin", about=words))
    assert method_facts.named("twin")["about"] == words


def test_where_it_cannot_be_kept_the_methods_are_asked_each_time(cache, capsys, monkeypatch):
    monkeypatch.setattr(
        "fedcli.methods.METHODS", {"fedavg": METHODS["fedavg"]}
    )  # two of them would take as long
    for name in "ab":
        (cache / name).write_text("", encoding="utf-8")  # a file in place of the folder
    assert shown(capsys, "fedavg") == shown(capsys, "fedavg")
    (cache / "a").unlink()
    shown(capsys, "fedavg")
    for text in ("{", "[]", "{}"):
        (cache / "a" / "methods-1.json").write_text(text, encoding="utf-8")
        assert shown(capsys, "fedavg", "--json").startswith("{")


def test_an_account_without_a_home_has_one_place(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert [path.parent.name for path in method_facts.places()] == ["__pycache__"]


def test_another_state_of_the_package_is_kept_under_another_name(tmp_path, monkeypatch):
    monkeypatch.setattr(method_facts, "PACKAGE", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = method_facts.places()
    (tmp_path / "new.py").write_text("", encoding="utf-8")
    assert before[0].parent == tmp_path / "methods" / "__pycache__"
    assert before[1].parent == tmp_path / "cache" / "fedcli"
    assert method_facts.places()[0].name != before[0].name
    method_facts._keep([{"names": ["x"]}])
    method_facts._keep([{"names": ["y"]}])
    assert method_facts.named("Y") == {"names": ["y"]}
    assert len(list(before[0].parent.iterdir())) == 1
