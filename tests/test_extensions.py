"""Files and packages of other people: how they are loaded, and what their mistakes end in."""

import subprocess
import sys
from types import SimpleNamespace

import forked
import numpy as np
import pytest
import torch
from conftest import make_chain
from own_files import RULE, written
from raw_folders import completed

from fedcli import extensions
from fedcli.commands.new import TEMPLATES
from fedcli.data.partition import scheme
from fedcli.data.pool import Row
from fedcli.data.preparation import raw_folder
from fedcli.data.preparation.prepare import Reader, check_labels
from fedcli.data.sources.formats.photographs import within
from fedcli.data.sources.source import Listing, Source
from fedcli.errors import FedcliError, UsageError
from fedcli.federation import checks
from fedcli.federation.checks import ContractError
from fedcli.labels import MULTI_LABEL
from fedcli.methods import METHODS, resolve
from fedcli.methods.contract import Local
from fedcli.provenance import Code, OwnCodeError


def test_a_files_method_is_resolved_by_its_path_and_leaves_the_registry_as_it_was(tmp_path):
    before = dict(METHODS)
    path = written(tmp_path, RULE)
    for spec in (f"{path}", f"{path}:part-way", f"{path}:PartWay"):
        method = resolve(spec, {"share": "0.25"})
        assert (method.name, method.aggregator.share) == ("part-way", 0.25)
    assert "goes a share of the way" in method.documentation
    assert resolve(f"moon+{path}").name == "moon+part-way"
    assert resolve(f"moon+{path}").typed == "moon+mine.py:part-way"
    assert before == METHODS
    with pytest.raises(UsageError, match="unknown method 'part-way'"):
        resolve("part-way")


def test_a_file_that_is_the_first_to_import_fedclis_methods_leaves_them_in_their_table(tmp_path):
    path = written(tmp_path, RULE)
    lines = (
        "from fedcli import extensions",
        "from pathlib import Path",
        f"extensions.allow([{str(path)!r}])",
        f"loaded = extensions.load(Path({str(path)!r}))",
        "from fedcli.methods import METHODS",
        "print(list(loaded.tables['methods']), 'fedavg' in METHODS)",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.stdout.strip() == "['part-way'] True", done.stderr


def test_two_files_may_use_one_name_and_a_name_of_fedcli(tmp_path):
    one_file = written(tmp_path, RULE.replace("part-way", "fedheal"))
    other_file = written(
        tmp_path, RULE.replace("part-way", "fedheal").replace("= 0.5", "= 1.0"), "b+c.py"
    )
    result = [resolve(str(path)).settings["share"] for path in (one_file, other_file)]
    assert result == [0.5, 1.0]
    assert "share" not in resolve("fedheal").settings
    assert resolve(f"fedprox+{other_file}").settings["share"] == 1.0  # a plus in the file's name


def test_a_file_is_run_once_for_equal_bytes_and_again_when_it_changes(tmp_path):
    path = written(tmp_path, RULE)
    method = resolve(str(path))
    assert resolve(str(path)).aggregator is method.aggregator
    path.write_text(RULE.replace("= 0.5", "= 0.75"), encoding="utf-8")
    changed = resolve(str(path))
    assert changed.settings["share"] == 0.75
    assert changed.code["part-way"].sha256 != method.code["part-way"].sha256


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = (1,\ny = 2", r"mine\.py, line 1: SyntaxError: '\(' was never closed"),
        ("import no_such_package_here", r"mine\.py, line 1: ModuleNotFoundError: No module named"),
        ("x = 1\ny = x / 0", r"mine\.py, line 2: ZeroDivisionError"),
        ("import sys\nsys.exit(1)", r"mine\.py ends the program instead of registering something"),
        ("raise GeneratorExit", r"mine\.py, line 1: GeneratorExit"),
        ("x = 1", r"mine\.py registers no method"),
        (RULE + RULE, r"mine\.py, line 46: ValueError: method 'part-way' is registered twice"),
        (RULE + RULE.replace("part-way", "other"), r"mine\.py registers several: part-way, other"),
        (RULE.replace("part-way", "a+b"), r"mine\.py, line 23: ValueError: 'a\+b' is no name"),
        (
            RULE.replace("Plain()", "Plain"),
            r"mine\.py, line 23: TypeError: .* no object of a class that extends Local",
        ),
        (
            RULE.replace('Annotated[float, "share of the way, in (0, 1]"]', "dict | list"),
            r"mine\.py, line 23: TypeError",
        ),
        (
            RULE.replace("def aggregate", "def agregate"),
            r"mine\.py, line 23: TypeError: Part has no aggregate\(\)",
        ),
        ("raise ValueError('x' * 1000)", r"mine\.py, line 1: ValueError: x{200}\.\.\."),
        ("\0", r"mine\.py: (SyntaxError|ValueError): source code string cannot contain null bytes"),
        ("# coding: latin-7000\nx = 1", r"mine\.py: SyntaxError"),
    ],
    ids=range(15),
)
def test_a_mistake_in_a_file_is_a_sentence_with_its_line(text, sentence, tmp_path):
    path = written(tmp_path, text)
    before = set(sys.modules)
    with pytest.raises(FedcliError, match=sentence) as caught:
        resolve(str(path))
    longest = 400 + len(str(tmp_path))
    assert len(caught.value.sentence) < longest
    assert caught.value.hint
    modules_left = {name for name in set(sys.modules) - before if name.startswith("fedcli_file_")}
    assert bool(modules_left) == ("registers" in sentence)


SCHEME = """
from dataclasses import dataclass
from fedcli.data.partition.scheme import BASE, register
@register("mine")
@dataclass(frozen=True, kw_only=True)
class Mine(BASE):
    pass
"""


@pytest.mark.parametrize(
    "base", ["Scheme", "Random"]
)  # Random divides by patients, and has no assign() either
def test_a_scheme_without_assign_is_refused_where_it_is_registered(base, tmp_path):
    with pytest.raises(FedcliError, match=r"mine\.py, line 4: TypeError: Mine has no assign\(\)"):
        scheme.named(str(written(tmp_path, SCHEME.replace("BASE", base))))


def test_a_file_that_is_not_there_is_named(tmp_path):
    for path in (tmp_path / "none.py", tmp_path):
        with pytest.raises(FedcliError, match=r"no such file|unknown method"):
            resolve(f"{path}")
    with pytest.raises(UsageError, match="registers no method 'part-wya'") as caught:
        resolve(f"{written(tmp_path, RULE)}:part-wya")
    assert caught.value.hint == "did you mean 'part-way'?"
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "link.py").symlink_to("gone.py")
    for name, sentence in (
        ("folder.py", "is a folder"),
        ("link.py", "is a link to gone.py, which is not there"),
    ):
        with pytest.raises(FedcliError, match=sentence):
            resolve(f"{tmp_path / name}")


def test_only_errors_of_such_files_are_theirs(tmp_path, monkeypatch):
    monkeypatch.setattr(extensions, "_loaded", {})
    path = written(tmp_path, RULE.replace("theta.lerp", "theta.lurp"))
    method = resolve(str(path))
    with pytest.raises(AttributeError) as theirs:
        method.aggregator.aggregate(None, None, {})
    fault = extensions.fault(theirs.value)
    assert isinstance(fault, OwnCodeError)
    assert fault.sentence.startswith(
        "mine.py, line 20: AttributeError: 'NoneType' object has no attribute 'lurp'"
    )
    with pytest.raises(ZeroDivisionError) as ours:
        _ = 1 / 0
    assert extensions.fault(fault) is None
    assert extensions.fault(OSError(28, "full")) is None
    assert (
        extensions.fault(RuntimeError("can't start new thread")) is None
    )  # it says of the system what it is
    returned = extensions.fault(ours.value)  # it may come of what the file returned
    assert returned
    assert returned.sentence.endswith(", while mine.py was used")
    monkeypatch.setattr(extensions, "_loaded", {})
    assert extensions.fault(ours.value) is None


def test_what_is_recorded_of_code_does_not_hold_its_place(tmp_path):
    code = resolve(str(written(tmp_path, RULE))).code["part-way"]
    expected = {"file": "mine.py", "sha256": extensions.digest(tmp_path / "mine.py")}
    assert code.recorded == expected
    expected = {
        "package": "dist",
        "version": "1.0",
        "sha256": "ab",
    }
    assert Code("dist", "ab", "1.0").recorded == expected


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (np.full((8, 8, 3), 0.5), r"float64 \[8, 8, 3\]"),
        (np.zeros((8, 8), np.uint8), r"uint8 \[8, 8\]"),
        (np.zeros((8, 8, 4), np.uint8), r"uint8 \[8, 8, 4\]"),
        (np.zeros((0, 8, 3), np.uint8), r"uint8 \[0, 8, 3\]"),
        (None, "a NoneType"),
    ],
)
def test_what_decode_returns_is_checked(outcome, words):
    def mine(raw, row, choices):
        return outcome

    reader = Reader(Source(None, mine), None, completed(8, "image"), None)
    with pytest.raises(
        OwnCodeError, match=rf"test_extensions\.py: mine returned {words} for the image 'one'"
    ):
        reader._read(Row("one", 0, "one"), np.zeros((8, 8, 3), np.uint8))


def test_labels_of_a_reader_are_checked_before_anything_is_decoded():
    card = {"classes": ["a", "b"], "task": "binary"}
    check_labels("mine.py", card, Listing([Row("one", 1, "one")]))
    listing = Listing([Row("one", (1, 2), "one")])
    check_labels("mine.py", card | {"task": MULTI_LABEL}, listing)
    for label in (-1, 2, None, (0, 1)):
        with pytest.raises(OwnCodeError, match=r"mine\.py: the row 'one' has the label"):
            check_labels("mine.py", card, Listing([Row("one", label, "one")]))
    for label in (1, (1, 3), (1,)):
        with pytest.raises(OwnCodeError, match=r"mine\.py: the row 'one' has the label"):
            check_labels(
                "mine.py", card | {"task": MULTI_LABEL}, Listing([Row("one", label, "one")])
            )


def test_images_of_a_reader_are_inside_of_the_raw_folder(tmp_path):
    within(tmp_path, "a/one.png", "mine.py")
    for source in ("../one.png", "/etc/passwd"):
        with pytest.raises(FedcliError, match=r"mine\.py: .* leads out of"):
            within(tmp_path, source, "mine.py")


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ([[0], [1]], "returned a list"),
        ({}, "returned no client"),
        ({1: [0]}, "named a client '1'"),
        ({"../a": [0]}, r"named a client '\.\./a'"),
        ({"a": [0, 4]}, "gave client 'a' what are no indices"),
        ({"a": [-1]}, "gave client 'a' what are no indices"),
        ({"a": [1, 1]}, "gave client 'a' what are no indices"),
        ({"a": [0.5]}, "gave client 'a' what are no indices"),
        ({"a": [[0], [1, 2]]}, "gave client 'a' what are no indices"),
    ],
)
def test_what_assign_returns_is_checked(parts, sentence, tmp_path):
    path = written(
        tmp_path,
        SCHEME.replace("BASE", "Scheme").replace("    pass", "    def assign(self, images): ..."),
    )
    mine = scheme.resolve(str(path))
    object.__setattr__(mine, "assign", lambda images: parts)
    with pytest.raises(OwnCodeError, match=rf"mine\.py: assign of mine {sentence}"):
        mine._assigned(scheme.Images(np.zeros(4, np.int64)))
    object.__setattr__(mine, "assign", lambda images: {"a": [0, 3], "b": []})
    result = {}
    for name, part in mine._assigned(scheme.Images(np.zeros(4))).items():
        result[name] = part.tolist()
    assert result == {
        "a": [0, 3],
        "b": [],
    }


def test_one_of_several_functions_has_to_be_named(tmp_path):
    path = written(tmp_path, "def f1(p, y, g): ...\n\n\ndef f2(p, y, g): ...\n")
    with pytest.raises(UsageError, match="has several functions: f1, f2") as caught:
        extensions.function(str(path), "metrics")
    assert caught.value.hint == f"name one: {path}:f1"


def test_two_files_and_two_versions_have_samples_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_folder, "sample_in", lambda name, folder, usual: None)
    text = (TEMPLATES / "dataset.py.txt").read_text(encoding="utf-8").replace("__NAME__", "dots")
    (tmp_path / "other").mkdir()
    files = [written(tmp_path, text), written(tmp_path / "other", text + "\n")]
    folders = {raw_folder.usual_sample(str(file), tmp_path) for file in files}
    files[0].write_text(text + "\n\n", encoding="utf-8")
    folders.add(raw_folder.usual_sample(str(files[0]), tmp_path))
    assert len(folders) == 3
    assert raw_folder.usual_sample("digits", tmp_path).name == "digits-usual"


def test_what_aggregate_and_loss_return_is_checked(tmp_path):
    method = resolve(str(written(tmp_path, RULE)))
    for outcome, words in (
        (None, "a NoneType, not a pair"),
        (torch.zeros(2), "a float32 tensor"),
        ((1, 2, 3), "3 values"),
    ):
        with pytest.raises(
            ContractError, match=rf"aggregate of Part \(method mine\.py:part-way\) returned {words}"
        ):
            checks.pair(method, outcome)

    class Mine(Local):
        def loss(self, net, batch, client):
            return net

    for outcome, words in ((3.0, "a float"), (torch.zeros(2), r"a tensor of shape \[2\]")):
        with pytest.raises(
            FedcliError, match=rf"test_extensions\.py: loss of Mine returned {words}"
        ):
            Mine().gradient(outcome, None, SimpleNamespace(private=None))


def test_a_function_of_ones_own_code_that_ends_the_program_is_an_error(tmp_path):
    (tmp_path / "net.py").write_text(
        "import sys\n\n\ndef build(channels, classes):\n    sys.exit()\n"
    )
    data = make_chain(tmp_path)
    ended = forked.command(
        f"fedcli train fedavg {data} --model {tmp_path / 'net.py'}:build --rounds 1", tmp_path
    )
    assert ended.returncode == 1, ended.stderr
    assert "net.py, line 5: SystemExit" in ended.stderr, ended.stderr
    assert "take sys.exit out of it" in ended.stderr
