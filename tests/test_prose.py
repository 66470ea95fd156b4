"""Code is plain: small statements, names that say what they hold, docstrings with a subject."""

import ast
from functools import cache
from pathlib import Path

import prose
import pytest

import fedcli

ROOT = Path(fedcli.__file__).parent
GROUND = "the ground floor"  # the files beside the rooms
DONE = [  # rooms that keep to the measures
    "bench",
    "commands",
    "comparison",
    "data",
    "federation",
    "figures",
    "io",
    "methods",
    "metrics",
    "models",
    "reporting",
    "reproduction",
    "runs",
    "scores",
    "sites",
    "stages",
    "system",
    GROUND,
]
NODES_PER_STATEMENT = 9.3
NODES_PER_STATEMENT_OF_ALL = 8.5
SHARE_OF_LARGE = 0.03
SHARE_OF_LARGE_OF_ALL = 0.02
NODES_PER_LINE = 7.7
NODES_PER_LINE_OF_ALL = 6.5
SHARE_OF_VAGUE = 0.03
NEVER = (
    "walrus in a comprehension",
    "conditional in a conditional expression",
    "text or list times a truth value",
    "and/or as a statement",
    "docstring without a subject",
    "two expressions assigned on one line",
)
SELDOM = {"comprehension in a comprehension": 1}
TESTS = Path(__file__).parent
OF_TESTS = [  # folders of tests whose names say what they hold
    "bench",
    "benchmarks",
    "comparison",
    "data",
    "federation",
    "figures",
    "io",
    "methods",
    "metrics",
    "models",
    "reproduce",
    "runs",
    "stages",
    "system",
]
SMALL_IN_TESTS = [
    "bench",
    "benchmarks",
    "commands",
    "federation",
    "figures",
    "io",
    "methods",
    "metrics",
    "models",
    "reproduce",
    "runs",
    "stages",
    "system",
]
NODES_PER_STATEMENT_IN_TESTS = 9.5
SHARE_OF_VAGUE_IN_TESTS = 0.1
NESTED_IN_TESTS = 6


@cache
def measured(room: str) -> prose.Prose:
    if room != GROUND:
        return prose.measure(ROOT / room)
    measures = prose.Prose()
    for path in sorted(ROOT.glob("*.py")):
        prose.read_file(path, measures)
    return measures


@cache
def measured_tests(folder: str) -> prose.Prose:
    return prose.measure(TESTS / folder)


@pytest.mark.parametrize("room", DONE)
def test_statements_of_a_room_are_small(room):
    measures = measured(room)
    assert measures.nodes_per_statement() <= NODES_PER_STATEMENT
    assert measures.share_of_large() <= SHARE_OF_LARGE
    assert measures.nodes_per_line() <= NODES_PER_LINE


def test_statements_of_the_package_are_small():
    """A room may be denser than the whole, as where every function has a long header."""
    measures = prose.measure(ROOT)
    assert measures.nodes_per_statement() <= NODES_PER_STATEMENT_OF_ALL
    assert measures.share_of_large() <= SHARE_OF_LARGE_OF_ALL
    assert measures.nodes_per_line() <= NODES_PER_LINE_OF_ALL


@pytest.mark.parametrize("room", DONE)
def test_a_room_has_no_habit_that_makes_a_reader_go_back(room):
    places = measured(room).places
    for habit in NEVER:
        assert not places[habit], habit
    for habit, limit in SELDOM.items():
        assert len(places[habit]) <= limit, places[habit]


@pytest.mark.parametrize("room", DONE)
def test_names_in_a_room_say_what_they_hold(room):
    measures = measured(room)
    assert measures.share_of_vague() <= SHARE_OF_VAGUE, measures.places["vague name"]


@pytest.mark.parametrize("folder", SMALL_IN_TESTS)
def test_statements_of_tests_are_small(folder):
    """The other folders write out tables of cases and tensors, which are large."""
    assert measured_tests(folder).nodes_per_statement() <= NODES_PER_STATEMENT_IN_TESTS


@pytest.mark.parametrize("folder", OF_TESTS)
def test_tests_have_no_habit_that_makes_a_reader_go_back(folder):
    places = measured_tests(folder).places
    for habit in NEVER:
        assert not places[habit], habit
    nested = places["comprehension in a comprehension"]
    assert len(nested) <= NESTED_IN_TESTS, nested


@pytest.mark.parametrize("folder", OF_TESTS)
def test_names_in_tests_say_what_they_hold(folder):
    measures = measured_tests(folder)
    assert measures.share_of_vague() <= SHARE_OF_VAGUE_IN_TESTS, measures.places["vague name"]


def test_rows_of_tables_in_docstrings_are_whole():
    broken = []
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        broken += [f"{path}:{number}" for number in prose.broken_rows(tree)]
    assert not broken


def test_a_row_that_was_wrapped_to_the_start_of_its_table_is_seen():
    row = "    median          each number is the median of the numbers of all clients that take part in a"
    docstring = f"{row}\n    round\n    krum            the model of one client"
    assert prose.broken_rows(ast.parse(f'"""Rules:\n\n{docstring}\n"""')) == [4]
    below_its_column = docstring.replace("\n    round", f"\n{' ' * 20}round")
    assert not prose.broken_rows(ast.parse(f'"""Rules:\n\n{below_its_column}\n"""'))


def test_every_habit_is_seen(tmp_path):
    """Code that shows each habit once, so that no measure is blind."""
    code = '''
def function(known):
    """Of each thing its place."""
    table = [[cell for cell in row] for row in known]
    rows = [row for line in known if (row := line.strip())]
    sign = 1 if table else 2 if rows else 3
    text = "," * bool(rows)
    rows and rows.clear()
    left_end, right_end = len(rows), len(text)
    return sign, left_end, right_end
'''
    (tmp_path / "code.py").write_text(code, encoding="utf-8")
    places = prose.measure(tmp_path).places
    habits = {habit for habit, lines in places.items() if lines}
    assert habits == {*NEVER, *SELDOM, "vague name"}
    assert all(len(lines) == 1 for lines in places.values())


def test_the_size_of_a_statement_leaves_out_its_body(tmp_path):
    (tmp_path / "code.py").write_text(
        "for row in table:\n    total = total + row\n", encoding="utf-8"
    )
    measures = prose.measure(tmp_path)
    assert (measures.statements, measures.nodes, measures.lines) == (2, 10, 2)
