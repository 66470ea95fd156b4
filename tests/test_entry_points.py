"""Entry points of installed packages: found by name, listed with their package."""

import json
import sys

import pytest
import typer
from conftest import make_chain
from made_plans import planned, train
from own_files import RULE
from typed_lines import fedcli

from fedcli import extensions, models, plot, report
from fedcli.commands import registry
from fedcli.commands.app import app
from fedcli.data import sources
from fedcli.data.partition import resolve as scheme
from fedcli.errors import UsageError
from fedcli.federation import engines
from fedcli.federation.training import Training
from fedcli.methods import METHODS, resolve

POINTS = """
[fedcli.methods]
rules = somebodys.rules
broken = somebodys.broken
ends = somebodys.ends

[fedcli.models]
flat = somebodys.other:flat

[fedcli.datasets]
dots = somebodys.other

[fedcli.partitions]
halves = somebodys.other

[fedcli.engines]
backwards = somebodys.engine

[fedcli.commands]
shout = somebodys.commands:shout
count = somebodys.commands:app
ls = somebodys.commands:shout
absent = somebodys.broken
undeclared = somebodys.commands:undeclared
number = somebodys.commands:number

[fedcli.figures]
losses = somebodys.figures
curves = somebodys.figures
lost = somebodys.broken

[fedcli.sections]
counted = somebodys.sections:counted
halved = somebodys.sections:halved
none = somebodys.sections:none
gone = somebodys.broken
"""
OTHER = '''
from dataclasses import dataclass

import numpy as np
from torch import nn

from fedcli.data.partition import register as scheme
from fedcli.data.partition.scheme import Counted
from fedcli.data.pool import Row
from fedcli.data.sources import Source, register
from fedcli.data.sources.source import Listing


def flat(channels, classes):
    """Pixels as features."""
    return nn.Flatten(), 0


def rows(raw, choices):
    return Listing([Row(f"{k}", k % 2, k, k % 3 == 0) for k in range(12)])


def decode(raw, row, choices):
    return np.full((8, 8, 1), 20 * row.source, np.uint8)


register("dots", Source(rows, decode), {"title": "Dots", "classes": ["a", "b"], "channels": 1, "size": 8})


@scheme("halves")
@dataclass(frozen=True, kw_only=True)
class Halves(Counted):
    def assign(self, images):
        return self.named([np.arange(len(images))[k :: self.clients] for k in range(self.clients)])
'''
ENGINE = """
from contextlib import nullcontext

from fedcli.federation.engines import Kind, register

register("backwards", Kind(lambda clients, count, at_most: nullcontext(lambda tasks: list(clients(tasks)))))
"""
COMMANDS = '''
from pathlib import Path
from typing import Annotated

import typer

from fedcli.common_options import NAME, RESULTS

app = typer.Typer(help="Count things. Or people.")
number = 3


@app.command()
def things(work: Path = Path("none")):
    print("things in", work)


@app.command()
def people():
    raise ValueError("nobody")


def shout(
    word: Annotated[str, "what is said", NAME],
    times: Annotated[int, "how often, >= 1"] = 1,
    work: Annotated[Path, "folder of all results", RESULTS] = Path("fedcli-work"),
) -> None:
    """Say a word in capitals.

    It is said several times.
    """
    print(*[word.upper()] * times, work)


def undeclared(word):
    print(word)
'''
FIGURES = """
from pandas import DataFrame

from fedcli.figures.figure import Figure, register
from fedcli.figures.shapes import picture


def frame(path):
    return DataFrame({"round": [1, 2], "loss": [0.5, 0.25]})


register(Figure("losses", "How did the loss fall?", "path", frame, lambda table: picture(table, [])))
register(Figure("curves", "Never asked", "path", frame, lambda table: picture(table, [])))
"""
SECTIONS = '''
from fedcli.reporting.table import ReportTable, Section


def counted(systems):
    """Runs of each system."""
    lines = [(system.name, system.runs) for system in systems]
    return Section("runs", "How many runs?", [ReportTable.of("", ["system", "runs"], lines)], text=["All count."])


def halved(systems):
    return 1 / 0


def none(systems):
    return len(systems)
'''
BROKEN, ENDS = "import no_such_package", "import sys; sys.exit(3)"


def forget():
    extensions.packages.cache_clear()
    extensions.installed.cache_clear()
    extensions._registered_by.cache_clear()
    registry.of_package.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of somebody else, installed in a folder of its own."""
    (tmp_path / "somebodys").mkdir()
    rules = RULE + RULE.replace("part-way", "fedheal").replace(
        "class Part(", "class Other("
    ).replace("Part(),", "Other(),")
    texts = {
        "__init__": "",
        "rules": rules,
        "other": OTHER,
        "engine": ENGINE,
        "commands": COMMANDS,
        "figures": FIGURES,
        "sections": SECTIONS,
        "broken": BROKEN,
        "ends": ENDS,
    }
    for name, text in texts.items():
        (tmp_path / "somebodys" / f"{name}.py").write_text(text, encoding="utf-8")
    info = tmp_path / "somebodys_things-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: somebodys-things\nVersion: 1.2\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    with extensions.allowed(
        ["moon+part-way", "part-wya", "qqqq", "dots", "halves", "halfs", "flat", "backwards:2"]
    ):
        yield
    forget()
    for name in [name for name in sys.modules if name.startswith("somebodys")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run."""
    work = tmp_path_factory.mktemp("work")
    plan = planned("fedavg", {}, Training(optimizer="sgd", lr=0.1, batch_size=8), 1)
    return train(make_chain(work), plan, work=work, out=work / "runs" / "avg").parent


def test_methods_of_a_package_by_name_and_beside_fedclis_own(package, caplog):
    method = resolve("moon+part-way", {"share": "1"})
    recorded = method.code["part-way"].recorded
    assert recorded["package"] == "somebodys-things"
    assert recorded["version"] == "1.2"
    assert len(recorded["sha256"]) == 64
    assert method.typed == "moon+part-way"
    assert "part-way" not in METHODS
    assert not resolve("fedheal").code  # fedcli's own comes first
    assert (
        "the method broken of somebodys-things 1.2 cannot be loaded: ModuleNotFoundError"
        in caplog.text
    )
    assert "the method ends of somebodys-things 1.2 cannot be loaded: SystemExit: 3" in caplog.text
    with pytest.raises(UsageError) as caught:
        resolve("part-wya")
    assert caught.value.hint == "did you mean 'part-way'?"
    with pytest.raises(UsageError) as caught:
        resolve("qqqq")
    assert caught.value.hint == "`fedcli methods` lists them"


def listed(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        app(list(words), prog_name="fedcli")
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_lists_say_where_things_come_from(package, capsys):
    lines = listed(capsys, "methods").splitlines()
    result = [line.split()[-1] for line in lines if line.split()[:1] == ["afl"]]
    assert result == ["fedcli"]
    (part_way,) = [line for line in lines if line.split()[:1] == ["part-way"]]
    assert part_way.rstrip().endswith("somebodys-things 1.2")
    assert "Pixels as features; from somebodys-things 1.2" in listed(capsys, "models")
    assert "dots" in json.loads(listed(capsys, "datasets", "--json"))


def test_engines_of_a_package(package):
    assert engines.parsed("backwards:2", "cpu") == ("backwards", 2)
    assert "backwards" not in engines.ENGINES
    assert engines.chosen("backwards:2", 3, "cpu") == ("backwards", 2)
    with pytest.raises(UsageError) as caught:
        engines.parsed("backward:2", "cpu")
    assert caught.value.hint == "did you mean 'backwards'?"


def test_datasets_partitions_and_networks_of_a_package(package):
    assert sources.named("dots") == "dots"
    assert sources.card("dots")["clients"] == 4
    assert sources.find("dots").code.version == "1.2"
    assert sources.find("toy").code is None
    assert scheme("halves", {"clients": 3}).clients == 3
    assert models.describe("flat").make is not None
    with pytest.raises(UsageError, match="unknown partition scheme 'halfs'"):
        scheme("halfs")


def test_without_packages_lists_are_as_they_were(capsys):
    result = listed(capsys, "methods").splitlines()[0].split()
    assert result == [
        "method",
        "in",
        "papers",
        "what",
        "it",
        "does",
    ]


def test_commands_of_a_package_are_in_the_list_of_help(package):
    code, out, err = fedcli("--help")
    own_commands, _, of_packages = out.partition("\nFrom somebodys-things 1.2:\n")
    assert code == 0
    assert "  ls " in own_commands
    assert "shout" not in own_commands
    assert of_packages.splitlines() == [
        "  count  Count things. Or people.",
        "  shout  Say a word in capitals.",
    ]
    warnings = sorted(line for line in err.splitlines() if line.startswith("warning: "))
    assert len(warnings) == len(err.splitlines()) == 3
    assert warnings[0].startswith("warning: number of somebodys-things 1.2 offers no command: ")
    assert warnings[1].startswith(
        "warning: the command absent of somebodys-things 1.2 cannot be loaded: ModuleNotFoundError"
    )
    assert warnings[2].startswith(
        "warning: the command undeclared of somebodys-things 1.2 cannot be used: TypeError: word is not"
    )


def test_a_function_of_a_package_is_a_command_as_those_of_fedcli(package, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDCLI_WORK", raising=False)
    assert fedcli("shout", "ho", "--times", 2)[:2] == (0, "HO HO fedcli-work\n")
    code, _, err = fedcli("shout", "ho", "--times", 0)
    assert code == 2
    assert "--times=0 is out of range" in err
    (tmp_path / "fedcli.toml").write_text('work = "here"\n[shout]\ntimes = 3\n', encoding="utf-8")
    code, out, err = fedcli("shout", "ho")
    assert (code, out) == (0, "HO HO HO here\n")
    assert "--times 3 from fedcli.toml" in err


def test_a_typer_app_of_a_package_is_a_command_and_gets_nothing_from_a_file(
    package, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extensions, "_loaded", {})  # files that other tests have used
    (tmp_path / "fedcli.toml").write_text('work = "/"\n', encoding="utf-8")
    assert fedcli("count", "things")[:2] == (0, "things in none\n")
    code, _, err = fedcli("count", "people")
    assert code == 1
    assert "error: ValueError: nobody, in count, a command of a package" in err
    assert "Traceback" not in err


def test_commands_of_fedcli_come_first_and_load_no_package(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedcli.toml").write_text("[shout]\ntimes = 3\n", encoding="utf-8")
    code, _, err = fedcli("ls", "--work", tmp_path)
    assert code == 1
    assert "nothing is under" in err
    assert "warning" not in err
    assert not {"somebodys.commands", "somebodys.broken"} & sys.modules.keys()


def test_completion_offers_commands_of_packages_that_can_be_used(package):
    group = typer.main.get_command(app)
    context = group.make_context("fedcli", [], resilient_parsing=True)
    offered = [item.value for item in group.shell_complete(context, "")]
    assert {"train", "count", "shout"} <= set(offered)
    assert not {"absent", "undeclared", "number"} & set(offered)


def test_a_broken_command_of_a_package_ends_in_a_sentence(package):
    code, out, err = fedcli("absent")
    assert code == 2
    assert not out
    assert "Traceback" not in err
    assert "warning: the command absent of somebodys-things 1.2 cannot be loaded" in err
    assert "error: no such command 'absent'" in err


def test_figures_of_a_package_are_listed_and_drawn(package, run, tmp_path):
    code, out, err = fedcli("plot", "--help")
    assert code == 0
    assert "How did the loss fall?" in out
    assert "Never asked" not in out, "a package replaces no figure of fedcli"
    warning = "warning: the figure lost of somebodys-things 1.2 cannot be loaded: "
    assert [line[: len(warning)] for line in err.splitlines()] == [warning]
    path = str(run)
    table = tmp_path / "losses.csv"
    assert fedcli("plot", "losses", path, "--out", table)[0] == 0
    assert table.read_text(encoding="utf-8") == "round,loss\n1,0.5\n2,0.25\n"
    assert list(plot("losses", path).frame["loss"]) == [0.5, 0.25]
    with pytest.raises(UsageError) as caught:
        plot("loses", path)
    assert caught.value.hint == "did you mean 'losses'?"
    assert fedcli("plot", "lost", path)[0] == 2


def test_sections_of_a_package_are_on_the_page_and_in_the_text(package, run, tmp_path):
    path = str(run)
    words = ["report", path, "--work", tmp_path, "--section", "counted"]
    code, out, err = fedcli(*words)
    assert code == 0
    assert "How many runs?" in out
    assert "All count." in out + err
    page = tmp_path / "page.html"
    assert fedcli(*words, "--format", "html", "--out", page)[0] == 0
    assert '<section id="package-counted"' in page.read_text(encoding="utf-8")
    markdown = fedcli(*words, "--format", "markdown")[1]
    assert "How many runs?" in markdown
    assert "How many runs?" not in fedcli("report", path, "--work", tmp_path)[1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("halved", "ZeroDivisionError: division by zero"), ("none", "TypeError: int is no Section")],
)
def test_a_section_that_fails_costs_a_warning(package, run, tmp_path, name, reason):
    code, out, err = fedcli("report", run, "--work", tmp_path, "--section", name)
    assert code == 0
    assert "FedAvg" in out
    sentence = f"warning: the section {name} of somebodys-things 1.2 is left out: {reason}"
    assert err.count(sentence) == 1


def test_a_section_that_no_package_offers_is_refused(package, tmp_path):
    code, _, err = fedcli("report", "--work", tmp_path, "--section", "conted")
    assert code == 2
    warning, error, hint = err.splitlines()
    assert warning.startswith("warning: the section gone of somebodys-things 1.2 cannot be loaded")
    assert error == "error: no installed package offers a section 'conted'"
    assert hint.strip() == "hint: did you mean 'counted'?"
    code, _, err = fedcli("report", "--work", tmp_path, "--section", "gone")
    assert code == 2
    assert "error: no installed package offers a section 'gone'" in err
    with pytest.raises(UsageError, match="no installed package"):
        report(work=tmp_path, section=["conted"])
