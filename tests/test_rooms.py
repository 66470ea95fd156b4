"""The rooms keep their shape: imports lead one way, files and functions stay short, every method has its tests."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import conftest
import pytest

import fedcli
from fedcli.scores.evaluation_options import (
    AuditOptions,
    CompareOptions,
    PredictOptions,
    ReportOptions,
)
from fedcli.stages.options import STAGES

ROOT = Path(fedcli.__file__).parent
LEVELS = (
    ("metrics",),
    ("data",),
    ("models",),
    ("methods",),
    ("federation",),
    ("runs",),
    ("scores", "bench"),
    ("comparison",),
    ("figures",),
    ("reporting",),
    ("stages",),
    ("reproduction",),
    ("commands",),
    ("sites",),
)
GROUND = "io", "system"  # rooms of the ground floor, whose files may import one another
LEVEL = {
    room: level for level, rooms in enumerate(LEVELS, 1) for room in rooms
}  # the ground floor is 0
DOORS = "fedcli", "fedcli.__main__"  # what a notebook and `python -m` open; they may lead anywhere
LONGEST_FILE, LONGEST_FUNCTION, MOST_ARGUMENTS = 700, 110, 8
BUDGETS = {  # syntax nodes of each room, with space for a contributor's file; raised only on purpose
    "bench": 8300,
    "commands": 22600,
    "comparison": 13100,
    "data": 98000,
    "federation": 15200,
    "figures": 26300,
    "io": 4500,
    "methods": 42600,
    "metrics": 5800,
    "models": 13300,
    "reporting": 38900,
    "reproduction": 32900,
    "runs": 17000,
    "scores": 44800,
    "sites": 22900,
    "stages": 12400,
    "system": 5000,
    "the ground floor": 9600,
}
MOST_FILES = 21  # on one floor of a room
# a file for each method, command and figure
ONE_EACH = "fedcli/methods", "fedcli/commands", "fedcli/figures/kinds"
MOST_ROOMS = 2  # that have a file of one name
QUESTIONS = (
    "What",
    "Whether",
    "Which",
    "How",
)  # no docstring begins so: it says what a thing is or does


@cache
def modules() -> dict[str, Path]:
    """Name -> file of every module."""
    return {name(path): path for path in sorted(ROOT.rglob("*.py"))}


def name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def imported(module: str) -> set[str]:
    """Our modules that a module imports anywhere, inside its functions too."""
    package = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
    result = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                result.add(inner if inner in modules() else base)
    return (result & modules().keys()) - {module, *DOORS}


def graph() -> dict[str, set[str]]:
    return {module: imported(module) for module in modules() if module not in DOORS}


def room(module: str) -> str:
    return next((part for part in module.split(".")[1:2] if part in LEVEL), "the ground floor")


def upward(arrows: dict[str, set[str]]) -> set[str]:
    """Imports that lead to a room on the same floor or above."""
    imports = set()
    for module, others in arrows.items():
        level = LEVEL.get(room(module), 0)
        for other in others:
            if room(module) != room(other) and LEVEL.get(room(other), 0) >= level:
                imports.add(f"{module} -> {other}")
    return imports


def in_circles(arrows: dict[str, set[str]]) -> set[str]:
    """Modules that lead back to themselves: what is left when those that import nothing else of ours are taken away."""
    arrows_left = {module: set(others) for module, others in arrows.items()}
    while ends := {
        module for module, others in arrows_left.items() if not others & arrows_left.keys()
    }:
        arrows_left = {
            module: others for module, others in arrows_left.items() if module not in ends
        }
    return {module for module in arrows_left if _reaches(module, module, arrows_left)}


def folder(module: str) -> str:
    """A file on the floor of its room, or the folder in the room that a file lies in."""
    parts = module.split(".")
    return ".".join(parts[:3])


def folders_of_rooms(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports inside each room, between its files and the folders in it."""
    between: dict[str, set[str]] = {}
    for module, others in arrows.items():
        start = folder(module)
        between.setdefault(start, set())
        for other in others:
            end = folder(other)
            if room(other) == room(module) and end != start:
                between[start].add(end)
    return between


def _reaches(start: str, end: str, arrows: dict[str, set[str]]) -> bool:
    visited: set[str] = set()
    ahead = set(arrows[start])
    while ahead and end not in ahead:
        visited |= ahead
        ahead = {far for module in ahead for far in arrows.get(module, ())} - visited
    return bool(ahead)


def functions(module: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef)]


def declares_options(module: str) -> bool:
    """Tell whether a module's signatures are those of a command."""
    return room(module) == "commands" or module == "fedcli.sites.command"


def lines_of(module: str, function: ast.FunctionDef) -> int:
    """The lines of a function; of a command's body alone, as its signature declares every option."""
    start = function.body[0].lineno if declares_options(module) else function.lineno
    return (function.end_lineno or start) - start + 1


def arguments_of(function: ast.FunctionDef) -> int:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(arguments) - (bool(arguments) and arguments[0].arg in ("self", "cls"))


def test_every_folder_is_a_room_on_a_floor():
    result = {folder.parent.name for folder in ROOT.glob("*/__init__.py")}
    assert result <= {*LEVEL, *GROUND}


def test_imports_lead_down():
    assert not upward(graph())


def test_no_file_imports_itself_by_way_of_others():
    assert not in_circles(graph())


def test_no_folder_of_a_room_imports_itself_by_way_of_others():
    within_rooms = {module: others for module, others in graph().items() if room(module) in LEVEL}
    assert not in_circles(folders_of_rooms(within_rooms))


def test_a_circle_of_folders_is_seen_where_no_file_is_in_one():
    arrows = {
        "fedcli.scores.clinical.a": {"fedcli.scores.statistics.b", "fedcli.data.d"},
        "fedcli.scores.statistics.b": set(),
        "fedcli.scores.statistics.c": {"fedcli.scores.clinical.e"},
        "fedcli.scores.clinical.e": {"fedcli.scores.clinical.f"},
        "fedcli.scores.clinical.f": set(),
    }
    assert not in_circles(arrows)
    circle = {"fedcli.scores.clinical", "fedcli.scores.statistics"}
    assert in_circles(folders_of_rooms(arrows)) == circle


def test_sites_have_one_door():
    """Engines and a command by the names of modules, which are imported where they are asked for."""
    package = {path: lines for path, lines in files().items() if path.startswith("fedcli/")}
    naming = {path for path, lines in package.items() if "fedcli.sites" in "".join(lines)}
    outside = {path for path in naming if not path.startswith("fedcli/sites/")}
    assert outside == {"fedcli/federation/engines/__init__.py", "fedcli/commands/registry.py"}
    for module, others in graph().items():
        if room(module) != "sites":
            assert "sites" not in {room(other) for other in others}, module


def test_an_import_upwards_and_a_circle_are_seen():
    arrows = {
        "fedcli.data.a": {"fedcli.runs.b"},
        "fedcli.runs.b": {"fedcli.runs.c"},
        "fedcli.runs.c": {"fedcli.runs.b"},
    }
    assert upward(arrows) == {"fedcli.data.a -> fedcli.runs.b"}
    assert upward({"fedcli.bench.a": {"fedcli.scores.b"}})
    assert not upward({"fedcli.runs.a": {"fedcli.metrics"}})
    assert in_circles(arrows) == {"fedcli.runs.b", "fedcli.runs.c"}


@cache
def files() -> dict[str, list[str]]:
    """Path -> lines, of the package and of its tests."""
    lines = {}
    for folder in (ROOT, Path(__file__).parent):
        for path in folder.rglob("*.py"):
            name = str(path.relative_to(folder.parent))
            lines[name] = path.read_text(encoding="utf-8").splitlines()
    return lines


def test_files_are_short():
    assert not {path for path, lines in files().items() if len(lines) > LONGEST_FILE}


def test_functions_fit_a_screen():
    for module in modules():
        for node in functions(module):
            assert lines_of(module, node) <= LONGEST_FUNCTION, f"{module}:{node.name}"


def test_functions_take_few_arguments():
    for module in modules():
        if not declares_options(module):
            for node in functions(module):
                assert arguments_of(node) <= MOST_ARGUMENTS, f"{module}:{node.name}"


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else "the ground floor"


def nodes_of(module: str) -> int:
    """Syntax nodes of a module, without imports and contexts."""
    uncounted = ast.Load, ast.Store, ast.Del, ast.Import, ast.ImportFrom, ast.alias
    return sum(not isinstance(node, uncounted) for node in ast.walk(tree(module)))


def test_rooms_keep_to_their_budgets():
    nodes: Counter[str] = Counter()
    for module, path in modules().items():
        nodes[room_of(path)] += nodes_of(module)
    over = {}
    for room, count in nodes.items():
        if count > BUDGETS.get(room, 0):
            over[room] = f"{count} of {BUDGETS.get(room, 0)}"
    assert not over, "syntax nodes of rooms and BUDGETS of this file"
    assert not BUDGETS.keys() - nodes.keys()


def test_a_floor_has_few_files():
    floors = Counter(str(path.parent.relative_to(ROOT.parent)) for path in modules().values())
    files = {}
    for floor, count in floors.items():
        files[floor] = count - (ROOT.parent / floor / "__init__.py").is_file()
    for floor, count in files.items():
        assert count <= MOST_FILES or floor in ONE_EACH, floor


def test_a_file_has_its_name_to_itself():
    rooms: dict[str, set[str]] = {}
    for path in modules().values():
        rooms.setdefault(path.stem, set()).add(room_of(path))
    shared = {}
    for stem, rooms_of_stem in rooms.items():
        if stem != "__init__" and len(rooms_of_stem) > MOST_ROOMS:
            shared[stem] = rooms_of_stem
    assert not shared


def test_docstrings_begin_with_what_a_thing_is_or_does():
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef
    for module in modules():
        for node in ast.walk(tree(module)):
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            if text:
                assert text.split()[0] not in QUESTIONS, f"{module}: {text.splitlines()[0]}"


def naming(word: str) -> set[str]:
    """Files outside methods/ that name an option or a metric; an attribute that is read is no name."""
    pattern = re.compile(rf"(?<![.\w]){word}(?!\w)")
    modules_of = {module for module, path in modules().items() if room(module) != "methods"}
    return {
        module
        for module in modules_of
        if pattern.search(modules()[module].read_text(encoding="utf-8"))
    }


STAGES_OPTIONS: dict[str, list[str]] = {}
for stage in (*STAGES.values(), PredictOptions, AuditOptions, ReportOptions, CompareOptions):
    STAGES_OPTIONS[stage.stage] = [option.name for option in stage.declared()]
# of two words, as a word alone is also one of everyday language
TWO_WORDS = sorted({name for names in STAGES_OPTIONS.values() for name in names if "_" in name})
MOST_FILES_OF_AN_OPTION = 3  # its declaration and its uses
IN_MORE_FILES = {
    "class_weights": "cautions advise a correction, and a CUDA graph has an input of that name",
    "clients_file": "the scheme's own field, the rules of schemes, and a recipe's file",
    "dp_noise": "rules, cautions and the page on a run tell two kinds of privacy apart",
    "dp_sgd": "as dp_noise",
    "freeze_backbone": "defaults, rules and cautions of a network that is not trained whole",
    "order_file": "a field of two schemes, and the rules of schemes",
    "single_site": "also a fact of a finished run, by which its models are scored",
    "sample_images": "ranks over datasets do not take two samples of one folder for two of them",
}
LISTED = {  # file -> the reason why it lists three options or more of a stage
    "fedcli.commands.ls": "keys of partition.json",
    "fedcli.commands.shell.defaults": "defaults of all commands in fedcli.toml",
    "fedcli.reproduction.several": "the order in which a refusal names them",
    "fedcli.runs.rules": "what a loss of a method's own replaces",
    "fedcli.stages.corrupt": "rules of which option is for which kind, with a hint for each",
    "fedcli.stages.partition": "flags that name a scheme, in the order in which a refusal names them",
}


@cache
def texts_of(module: str) -> frozenset[str]:
    """The texts of a module, and the fields that its classes declare."""
    texts = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            texts.add(node.target.id)
    return frozenset(texts)


def lists_of_texts(module: str) -> list[set[str]]:
    """The tuples, lists and sets of three texts or more."""
    collections = ast.Tuple, ast.List, ast.Set
    lists = []
    for node in ast.walk(tree(module)):
        if isinstance(node, collections):
            values = [part.value for part in node.elts if isinstance(part, ast.Constant)]
            if len(values) == len(node.elts) >= 3:
                lists.append({value for value in values if isinstance(value, str)})
    return lists


@pytest.mark.parametrize("option", TWO_WORDS)
def test_an_option_is_named_in_few_files(option):
    outside = [module for module in modules() if room(module) != "methods"]
    files = [module for module in outside if option in texts_of(module)]
    assert len(files) <= MOST_FILES_OF_AN_OPTION or option in IN_MORE_FILES, files


def test_an_option_with_a_reason_to_be_in_more_files_is_in_more():
    for option in IN_MORE_FILES:
        files = [module for module in modules() if option in texts_of(module)]
        assert len(files) > MOST_FILES_OF_AN_OPTION, option


def test_options_are_listed_by_their_marks_and_not_by_their_names():
    listing = set()
    options = [set(names) for names in STAGES_OPTIONS.values()]
    for module in modules():
        for texts in lists_of_texts(module):
            if len(texts) >= 3 and any(texts <= names for names in options):
                listing.add(module)
    assert listing == LISTED.keys()


@pytest.mark.parametrize("option", ["scaled_decoding", "eval_every", "min_clients"])
def test_an_option_is_declared_once(option):
    declaring = []
    for module in modules():
        for node in ast.walk(tree(module)):
            if not isinstance(node, ast.AnnAssign) or ast.unparse(node.target) != option:
                continue
            if "Annotated" in ast.unparse(node.annotation):
                declaring.append(module)
    assert len(declaring) == 1


@pytest.mark.parametrize(
    "metric", ["f1_macro", "precision_macro", "auc_binary", "auc_ovr_macro", "exact_match_accuracy"]
)
def test_a_metric_is_named_in_few_files(metric):
    assert len(naming(metric)) <= 2


def test_no_thread_of_a_test_outlives_it():
    """A process waits at its end for threads that are no daemons."""
    for path, lines in files().items():
        for line in lines:
            if re.search(r"Thread\(target", line):
                assert "daemon=True" in line, path


def test_a_campaign_of_many_cases_may_take_longer_than_a_test():
    def limit(folder):
        marks = []
        path = Path("tests", folder, "test_x.py")
        item = SimpleNamespace(
            path=path, get_closest_marker=lambda name: None, add_marker=marks.append
        )
        conftest.pytest_collection_modifyitems([item])
        return [mark.args for mark in marks]

    assert limit("campaign") == limit("consortium") == [(0,)]
    assert limit("sites") == []


@pytest.mark.parametrize(
    "module", sorted(path.stem for path in (ROOT / "methods").glob("[!_]*.py"))
)
def test_every_module_of_methods_has_a_test_file(module):
    assert (Path(__file__).parent / "methods" / f"test_{module}.py").is_file(), (
        f"add tests/methods/test_{module}.py"
    )


def test_the_page_on_architecture_names_rooms_and_files_that_are_there():
    page = (Path(__file__).parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.M))
    assert rows.keys() == LEVEL.keys()
    for room, text in rows.items():
        for file in re.findall(r"`([\w/]+(?:\.py|/))`", text):
            assert (ROOT / room / file).exists(), f"{room}/{file}"
    for path in re.findall(r"`(\w+/\w+\.py)`", page.partition("## The life of a round")[2]):
        assert (ROOT / path).exists() or (ROOT.parent / path).exists(), path
