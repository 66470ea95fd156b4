"""Files and packages of other people: how they are loaded, and what their mistakes end in."""

import sys

import numpy as np
import pytest
from own_files import RULE, written

from fedcli import extensions
from fedcli.data.partition import scheme
from fedcli.data.pool import Row
from fedcli.data.prepare import Reader
from fedcli.data.sources.source import Choices, Source
from fedcli.errors import FedcliError, UsageError
from fedcli.methods import METHODS, resolve
from fedcli.provenance import Code, OwnCodeError


def test_a_files_method_is_resolved_by_its_path_and_leaves_the_registry_as_it_was(tmp_path):
    before, path = dict(METHODS), written(tmp_path, RULE)
    for spec in (f"{path}", f"{path}:part-way", f"{path}:PartWay"):
        method = resolve(spec, {"share": "0.25"})
        assert (method.name, method.aggregator.share) == ("part-way", 0.25)
    assert "goes a share of the way" in method.documentation
    assert resolve(f"moon+{path}").name == "moon+part-way" and resolve(f"moon+{path}").typed == "moon+mine.py:part-way"
    assert before == METHODS
    with pytest.raises(UsageError, match="unknown method 'part-way'"):
        resolve("part-way")


def test_two_files_may_use_one_name_and_a_name_of_fedcli(tmp_path):
    first = written(tmp_path, RULE.replace("part-way", "fedheal"))
    second = written(tmp_path, RULE.replace("part-way", "fedheal").replace("= 0.5", "= 1.0"), "b+c.py")
    assert [resolve(str(path)).settings["share"] for path in (first, second)] == [0.5, 1.0]
    assert "share" not in resolve("fedheal").settings
    assert resolve(f"fedprox+{second}").settings["share"] == 1.0  # a plus in the file's name


def test_a_file_is_run_once_for_equal_bytes_and_again_when_it_changes(tmp_path):
    path = written(tmp_path, RULE)
    first = resolve(str(path))
    assert resolve(str(path)).aggregator is first.aggregator
    path.write_text(RULE.replace("= 0.5", "= 0.75"), encoding="utf-8")
    changed = resolve(str(path))
    assert changed.settings["share"] == 0.75 and changed.code["part-way"].sha256 != first.code["part-way"].sha256


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = (1,\ny = 2", r"mine\.py, line 1: SyntaxError: '\(' was never closed"),
        ("import no_such_package_here", r"mine\.py, line 1: ModuleNotFoundError: No module named"),
        ("x = 1\ny = x / 0", r"mine\.py, line 2: ZeroDivisionError"),
        ("import sys\nsys.exit(1)", r"mine\.py ends the program instead of registering something"),
        ("x = 1", r"mine\.py registers no method"),
        (RULE + RULE, r"mine\.py, line 46: ValueError: method 'part-way' is registered twice"),
        (RULE + RULE.replace("part-way", "other"), r"mine\.py registers several: part-way, other"),
        (RULE.replace("part-way", "a+b"), r"mine\.py, line 23: ValueError: 'a\+b' is no name"),
        (RULE.replace("Plain()", "Plain"), r"mine\.py, line 23: TypeError: .* no object of a class that extends Local"),
        (
            RULE.replace('Annotated[float, "share of the way, in (0, 1]"]', "dict | list"),
            r"mine\.py, line 23: TypeError",
        ),
        (RULE.replace("def aggregate", "def agregate"), r"mine\.py, line 23: TypeError: Part has no aggregate\(\)"),
        ("raise ValueError('x' * 1000)", r"mine\.py, line 1: ValueError: x{200}\.\.\."),
        ("\0", r"mine\.py: (SyntaxError|ValueError): source code string cannot contain null bytes"),
        ("# coding: latin-7000\nx = 1", r"mine\.py: SyntaxError"),
    ],
    ids=range(14),
)
def test_a_mistake_in_a_file_is_a_sentence_with_its_line(text, sentence, tmp_path):
    path, before = written(tmp_path, text), set(sys.modules)
    with pytest.raises(FedcliError, match=sentence) as caught:
        resolve(str(path))
    assert len(caught.value.sentence) < 400 + len(str(tmp_path)) and caught.value.hint
    left = {name for name in set(sys.modules) - before if name.startswith("fedcli_file_")}
    assert bool(left) == ("registers" in sentence)


SCHEME = """
from dataclasses import dataclass
from fedcli.data.partition.scheme import BASE, register
@register("mine")
@dataclass(frozen=True, kw_only=True)
class Mine(BASE):
    pass
"""


@pytest.mark.parametrize("base", ["Scheme", "Random"])  # Random divides by patients, and has no assign() either
def test_a_scheme_without_assign_is_refused_where_it_is_registered(base, tmp_path):
    with pytest.raises(FedcliError, match=r"mine\.py, line 4: TypeError: Mine has no assign\(\)"):
        scheme.named(str(written(tmp_path, SCHEME.replace("BASE", base))))


def test_a_file_that_is_not_there_is_named(tmp_path):
    for path in (tmp_path / "none.py", tmp_path):
        with pytest.raises(FedcliError, match="no such file|unknown method"):
            resolve(f"{path}")
    with pytest.raises(UsageError, match="registers no method 'part-wya'") as caught:
        resolve(f"{written(tmp_path, RULE)}:part-wya")
    assert caught.value.hint == "did you mean 'part-way'?"


def test_only_errors_of_such_files_are_theirs(tmp_path, monkeypatch):
    monkeypatch.setattr(extensions, "_loaded", {})
    path = written(tmp_path, RULE.replace("theta.lerp", "theta.lurp"))
    method = resolve(str(path))
    with pytest.raises(AttributeError) as theirs:
        method.aggregator.aggregate(None, None, {})
    fault = extensions.fault(theirs.value)
    assert isinstance(fault, OwnCodeError)
    assert fault.sentence.startswith("mine.py, line 20: AttributeError: 'NoneType' object has no attribute 'lurp'")
    with pytest.raises(ZeroDivisionError) as ours:
        _ = 1 / 0
    assert extensions.fault(fault) is None and extensions.fault(OSError(28, "full")) is None
    returned = extensions.fault(ours.value)  # it may come of what the file returned
    assert returned and returned.sentence.endswith(", while mine.py was used")
    monkeypatch.setattr(extensions, "_loaded", {})
    assert extensions.fault(ours.value) is None


def test_what_is_recorded_of_code_does_not_hold_its_place(tmp_path):
    code = resolve(str(written(tmp_path, RULE))).code["part-way"]
    assert code.recorded == {"file": "mine.py", "sha256": extensions.digest(tmp_path / "mine.py")}
    assert Code("dist", "ab", "1.0").recorded == {"package": "dist", "version": "1.0", "sha256": "ab"}


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (np.full((8, 8, 3), 0.5), r"float64 \[8, 8, 3\]"),
        (np.zeros((8, 8), np.uint8), r"uint8 \[8, 8\]"),
        (np.zeros((8, 8, 4), np.uint8), r"uint8 \[8, 8, 4\]"),
        (np.zeros((0, 8, 3), np.uint8), r"uint8 \[0, 8, 3\]"),
        (None, "a NoneType"),
    ],
)
def test_what_decode_returns_is_checked(made, what):
    def mine(raw, row, choices):
        return made

    reader = Reader(Source(None, mine), None, Choices(8, "image"), None)
    with pytest.raises(OwnCodeError, match=rf"test_extensions\.py: mine returned {what} for the image 'one'"):
        reader._read(Row("one", 0, "one"), np.zeros((8, 8, 3), np.uint8))
