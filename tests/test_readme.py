"""Documentation is held by tests: what the README lists is what there is, and its session is what runs."""

import json
import os
import re
from pathlib import Path

import generate
import pytest
import session
from nested_scores import body_of

from fedcli.commands import registry
from fedcli.data.sources import SOURCES, card
from fedcli.methods import METHODS
from fedcli.reproduction import recipe

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


DOCS = sorted(ROOT.glob("docs/*.md"))


def test_the_readme_names_every_command_and_counts_no_more_than_there_is():
    for name in registry.COMMANDS:
        assert f"`{name}`" in README
    for word, registered in (
        ("Methods", METHODS),
        ("Datasets", SOURCES),
        ("Recipes", recipe.names()),
    ):
        count = int(re.search(rf"- \*\*{word}\*\*: more than (\d+)", README)[1])
        assert count < len(registered) <= count + 10, f"{word}: there are {len(registered)}"
    assert len(README.splitlines()) <= 220


def test_links_between_pages_lead_somewhere():
    generated_pages = generate.pages()
    for page in [*ROOT.glob("*.md"), *DOCS, *ROOT.glob("recipes/*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
            generated = page.parent.name == "docs" and target in generated_pages
            assert generated or (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_dataset_has_a_card():
    for name in SOURCES:
        facts = card(name)
        for key in (
            "title",
            "task",
            "classes",
            "attributes",
            "files",
            "where",
            "licence",
            "citation",
        ):
            assert key in facts, f"{name} says no {key}"
    result = {p.stem for p in (ROOT / "data_manifests").glob("*.json")}
    assert result == {
        *SOURCES,
        "published_files",
    }


def test_every_exit_code_is_documented():
    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    expected = ["0", "1", "2", "3", "4", "130"]
    assert re.findall(r"^\| (\d+) \|", page, re.M) == expected


def test_the_two_commands_come_first():
    install, run_tests = re.findall(r"```sh\n(.*?)```", README, re.S)[:2]
    assert install.strip() == "pip install -e . && fedcli demo"
    assert run_tests.strip() == "pip install -e '.[test]' && pytest"
    assert README.index("fedcli demo") < 2500


def test_options_named_in_the_guides_exist():
    flags = {
        flag for name in registry.COMMANDS for flag in re.findall(r"--[a-z][a-z-]+", _help(name))
    }
    text = "\n".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *DOCS])
    flag = re.compile(r"(?<=\s)--[a-z][a-z-]*[a-z]\b(?!-)")  # no arrow such as --socket-->
    used = {
        option for line in text.splitlines() if "fedcli " in line for option in flag.findall(line)
    }
    flags |= {"--help", "--version", "--install-completion"}
    assert used <= flags | {"--percent"}  # an option of a figure, which plot --help does not list


def _help(command) -> str:
    return session.run(f"fedcli {command} --help=all")


def test_the_changelog_names_this_version():
    import fedcli

    assert f"## {fedcli.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_nothing_names_a_path_of_one_machine():
    words = re.compile(r"/(?:root|home|work|tmp)/\w")
    cases = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.*"),
        *ROOT.glob("fedcli/**/*.py"),
        *ROOT.glob("data_manifests/*.json"),
        *ROOT.glob("fedcli/**/*.html"),
        *filter(Path.is_file, ROOT.glob("recipes/**/*")),
    ]
    for path in cases:
        assert not words.search(path.read_text(encoding="utf-8")), path


def test_cards_are_sorted_json_without_pixels():
    for path in (ROOT / "data_manifests").glob("*.json"):
        assert path.stat().st_size < 20_000
        json.loads(path.read_text(encoding="utf-8"))


LONG = () if os.environ.get("FEDCLI_SLOW") else ("train", "evaluate")  # a minute and more


POINTS = 2.0  # between processors; the sessions train until their scores vary less than that


def compare(name: str, leave_out: tuple[str, ...] = ()) -> None:
    for command, printed in session.recorded(name):
        if command.split()[1] in leave_out:
            continue
        text, numbers = session.comparable(session.run(command))
        expected, before = session.comparable(printed)
        assert text == expected, command
        assert numbers == pytest.approx(before, abs=POINTS, rel=0), command


HERE = " FedAvg   84.5 ±5.4 *  1.42 ±0.31\n FedISM+  78.0 ±1.4  1.40 ±0.25 *\n"
ELSEWHERE = " FedAvg     84.5 ±5.4  1.42 ±0.31 *\n FedISM+  78.0 ±1.4 *    1.43 ±0.25\n"


def test_a_session_is_the_same_wherever_the_stars_stand_and_not_with_other_numbers():
    text, numbers = session.comparable(HERE)
    assert (
        session.comparable(ELSEWHERE)[0]
        == text
        == sorted(["FedAvg", "N", "±N", "N", "±N", "FedISM+", "N", "±N", "N", "±N"])
    )
    expected = pytest.approx(numbers, abs=POINTS, rel=0)
    assert session.comparable(ELSEWHERE)[1] == expected
    result = session.comparable(HERE.replace("84.5", "87.0"))[1]
    assert result != pytest.approx(numbers, abs=POINTS, rel=0)


@pytest.mark.long
def test_the_three_lines_end_above_chance_on_clean_and_on_noisy_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = re.search(r"The next three lines run.*?\n\n((?:    fedcli [^\n]*\n)+)", README, re.S)[1]
    for line in lines.splitlines():
        path = session.run(line.strip()).splitlines()[-1]
    versions = body_of(Path(path))["versions"]
    for name in ("clean", "corrupted"):
        assert versions[name]["balanced_accuracy"]["mean_last5"] > 0.3  # chance 0.2


@pytest.mark.long
def test_the_recorded_session_is_what_the_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compare(session.EMBEDDED)


@pytest.mark.long
@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_the_sessions_on_real_images_are_what_the_commands_print(tmp_path, monkeypatch):
    session.lay_out(Path(os.environ["FEDCLI_REAL_DATA"]), tmp_path)
    monkeypatch.chdir(tmp_path)
    compare(session.SKIN, leave_out=LONG)
    compare(session.REAL)
