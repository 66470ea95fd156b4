"""Measures of how plainly Python is written: the size of a statement, and habits that make a reader go back.

python tests/support/prose.py fedcli/reporting      # prints the measures and every place
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LARGE = 20  # syntax nodes; a statement of more is counted
VAGUE = {
    "about",
    "asked",
    "at",
    "back",
    "by",
    "drawn",
    "each",
    "first",
    "found",
    "from",
    "given",
    "here",
    "held",
    "it",
    "kept",
    "known",
    "left",
    "made",
    "meant",
    "more",
    "most",
    "named",
    "of",
    "one",
    "own",
    "place",
    "said",
    "seen",
    "shown",
    "so",
    "some",
    "taken",
    "that",
    "there",
    "those",
    "told",
    "under",
    "wanted",
    "what",
    "with",
    "within",
}
WITHOUT_SUBJECT = (
    *(
        "of ",
        "in what",
        "to what",
        "by what",
        "those ",
        "as ",
        "what ",
        "whether ",
        "which ",
        "how ",
    ),
    "the same",
)
COMPREHENSIONS = ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef
IMPORTS = ast.Import, ast.ImportFrom
CONTEXTS = ast.Load, ast.Store, ast.Del
WIDTH = 100  # columns of a line
GAP = re.compile(r"\S {2,}\S")  # between the columns of a table, or after a formula's comma
COLUMN = re.compile(r"[^\s,;] {2,}\S")


@dataclass
class Prose:
    """Counts of one folder of Python files, and the places of each habit."""

    nodes: int = 0
    lines: int = 0
    statements: int = 0
    large: int = 0
    functions: int = 0
    places: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def nodes_per_statement(self) -> float:
        return self.nodes / max(self.statements, 1)

    def nodes_per_line(self) -> float:
        return self.nodes / max(self.lines, 1)

    def share_of_large(self) -> float:
        return self.large / max(self.statements, 1)

    def share_of_vague(self) -> float:
        return len(self.places["vague name"]) / max(self.functions, 1)


def measure(*folders: Path) -> Prose:
    """The measures of all Python files below some folders."""
    prose = Prose()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            read_file(path, prose)
    return prose


def read_file(path: Path, prose: Prose) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    prose.lines += len(lines_of_code(tree, text))
    for node in ast.walk(tree):
        if not isinstance(node, (*CONTEXTS, *IMPORTS, ast.alias)):
            prose.nodes += 1
        if is_statement(node):
            prose.statements += 1
            prose.large += size_of(node) > LARGE
        if isinstance(node, FUNCTIONS):
            prose.functions += 1
        for habit in habits_of(node):
            prose.places[habit].append(f"{path}:{getattr(node, 'lineno', 1)}")


def lines_of_code(tree: ast.Module, text: str) -> set[int]:
    """Numbers of the lines that are neither blank, nor a comment, a docstring or an import."""
    uncounted = set()
    for node in ast.walk(tree):
        if isinstance(node, IMPORTS):
            uncounted |= set(range(node.lineno, node.end_lineno + 1))
        if docstring_of(node):
            string = node.body[0]
            uncounted |= set(range(string.lineno, string.end_lineno + 1))
    counted = set()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#") and number not in uncounted:
            counted.add(number)
    return counted


def docstring_of(node: ast.AST) -> str:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module)):
        return ast.get_docstring(node) or ""
    return ""


def broken_rows(tree: ast.Module) -> list[int]:
    """Numbers of the lines where a row of a docstring's table was wrapped as if it were prose."""
    broken = []
    for node in ast.walk(tree):
        for block in indented_blocks(node):
            broken += broken_rows_of_block(block)
    return broken


def indented_blocks(node: ast.AST) -> Iterator[dict[int, str]]:
    """Number -> line of each block of lines that a docstring indents."""
    if not docstring_of(node):
        return
    string = node.body[0]
    margin = " " * (string.col_offset + 2)
    block: dict[int, str] = {}
    for number, line in enumerate(string.value.value.splitlines(), string.lineno):
        if line.startswith(margin) and line.strip():
            block[number] = line
            continue
        yield block
        block = {}
    yield block


def broken_rows_of_block(block: dict[int, str]) -> list[int]:
    """Lines without columns at the start of a table, whose first word was too long for the line above."""
    rows = [line.strip() for line in block.values()]
    if not any(GAP.search(row) for row in rows):
        return []
    start = min(len(line) - len(line.lstrip()) for line in block.values())
    broken = []
    above = ""
    for number, line in block.items():
        was_full = len(above) + 1 + len(line.split()[0]) > WIDTH
        starts_row = line[start] != " "
        if above and was_full and starts_row and not COLUMN.search(line.strip()):
            broken.append(number)
        above = line
    return broken


def is_statement(node: ast.AST) -> bool:
    """Tell whether a node is a statement that is no import and no docstring."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return isinstance(node, ast.stmt) and not isinstance(node, IMPORTS) and not is_text


def size_of(statement: ast.AST) -> int:
    """Number of syntax nodes of a statement without the statements in its body."""
    size = 0
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        size += not isinstance(node, CONTEXTS)
        parts = ast.iter_child_nodes(node)
        waiting += [part for part in parts if not isinstance(part, ast.stmt)]
    return size


def contains(node: ast.AST, kinds: type | tuple[type, ...]) -> bool:
    return any(isinstance(part, kinds) for part in ast.walk(node) if part is not node)


def habits_of(node: ast.AST) -> list[str]:
    """Names of the habits that a node shows."""
    habits = []
    if isinstance(node, COMPREHENSIONS) and contains(node, COMPREHENSIONS):
        habits.append("comprehension in a comprehension")
    if isinstance(node, COMPREHENSIONS) and contains(node, ast.NamedExpr):
        habits.append("walrus in a comprehension")
    if isinstance(node, ast.IfExp) and contains(node, ast.IfExp):
        habits.append("conditional in a conditional expression")
    if isinstance(node, ast.BinOp) and is_text_times_truth(node):
        habits.append("text or list times a truth value")
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.BoolOp):
        habits.append("and/or as a statement")
    if isinstance(node, ast.Assign) and is_double_assignment(node):
        habits.append("two expressions assigned on one line")
    if isinstance(node, FUNCTIONS) and names_of(node) & VAGUE:
        habits.append("vague name")
    if docstring_of(node).lower().startswith(WITHOUT_SUBJECT):
        habits.append("docstring without a subject")
    return habits


def is_text_times_truth(product: ast.BinOp) -> bool:
    if not isinstance(product.op, ast.Mult):
        return False
    first_factor = product.left
    second_factor = product.right
    return (is_text(first_factor) and is_truth(second_factor)) or (
        is_text(second_factor) and is_truth(first_factor)
    )


def is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.List):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_truth(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare | ast.BoolOp):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Name) and called.id in ("bool", "any", "all", "isinstance")


def is_double_assignment(statement: ast.Assign) -> bool:
    """Tell whether several values are assigned at once, of which one is computed."""
    if not isinstance(statement.value, ast.Tuple) or not isinstance(
        statement.targets[0], ast.Tuple
    ):
        return False
    values = statement.value.elts
    return any(not isinstance(value, ast.Constant | ast.Name) for value in values)


def names_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names of a function's parameters and of the variables that it assigns."""
    names = {parameter.arg for parameter in [*function.args.args, *function.args.kwonlyargs]}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def classes_in_several_files(folder: Path) -> dict[str, list[str]]:
    """Public class names that more than one file defines, with these files."""
    files = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for name in names:
            if not name.startswith("_"):
                files[name].append(str(path.relative_to(folder)))
    return {name: paths for name, paths in files.items() if len(paths) > 1}


def main() -> None:
    prose = measure(Path(sys.argv[1]))
    print(f"{prose.nodes} nodes, {prose.nodes_per_statement():.2f} a statement")
    print(f"{100 * prose.share_of_large():.1f} % of statements have more than {LARGE} nodes")
    print(f"{prose.nodes_per_line():.2f} nodes a line")
    counts = Counter({habit: len(places) for habit, places in prose.places.items()})
    for habit, count in counts.most_common():
        print(f"{count} {habit}")
        for line in prose.places[habit]:
            print(f"    {line}")


if __name__ == "__main__":
    main()
