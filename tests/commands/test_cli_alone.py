"""The command line where nothing has been made before: help, streams, edited manifests, odd folders."""

import io
import json
import os
import platform
import re
import subprocess
import sys
import warnings
from pathlib import Path

import forked
import numpy
import pytest
from typed_lines import fedcli, path_of

from fedcli.commands import ls, registry
from fedcli.commands.app import Commands, _open_streams, main
from fedcli.commands.shell import common, declare, shown
from fedcli.errors import UsageError


def test_a_path_from_stdin_may_have_any_bytes_and_is_not_read_for_ever(monkeypatch):
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xffdata.json\n"), encoding="utf-8")
    )
    _open_streams()
    assert declare.piped() == "\udcffdata.json"
    monkeypatch.setattr(sys, "stdin", io.StringIO("x" * 10**6))
    assert len(declare.piped()) == declare.LONGEST_PATH


def test_a_file_in_place_of_a_folder_is_said_in_words(tmp_path):
    (tmp_path / "labels.csv").write_text("")
    code, _, err = fedcli("prepare", "toy", "--out", tmp_path / "labels.csv" / "x")
    assert code == 1
    assert f"error: {tmp_path}/labels.csv is no folder, and a folder is needed there" in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["frobnicate"], 2),
        (["ls", "--work", "absent"], 1),
        (["methods"], 0),
        (["prepare", "toy"], 0),
    ],
)
def test_messages_that_a_full_disk_does_not_take_change_no_exit_code(words, code, tmp_path):
    def on_a_full_disk():
        os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
        sys.argv = ["fedcli", *words]
        main()

    ended = forked.run(on_a_full_disk, tmp_path)
    assert ended.returncode == code
    assert bool(ended.stdout) == (code == 0)


def test_a_folder_of_other_files_is_not_offered_for_removal(tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    code, _, err = fedcli("prepare", "toy", "--out", tmp_path)
    assert code == 1
    assert "is in use" in err
    assert "remove" not in err


def test_a_tree_prints_names_of_others_on_one_line_and_without_control_characters(capsys):
    shown.show_tree(
        {
            "a\x1b[31m": {"b": "c\nd\x07"},
            "list": [{"x\x1b": "y\x1b"}],
            "words": ["z\x1b]0;t\x07", 1],
        }
    )
    lines = [
        "a\\x1b[31m:",
        "  b: c\\nd\\x07",
        "list:",
        "  x\\x1b y\\x1b",
        "words: z\\x1b]0;t\\x07 1",
    ]
    assert capsys.readouterr().out.splitlines() == lines


SHORT_OF_MEMORY = [
    ImportError("libtorch_cpu.so: failed to map segment"),
    MemoryError(),
    RuntimeError("can't start new thread"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
]


@pytest.mark.parametrize("error", SHORT_OF_MEMORY)
def test_too_little_memory_is_said(error, monkeypatch, tmp_path):
    def fail(*_):
        raise error

    monkeypatch.setattr(ls, "_entries", fail)
    code, out, err = fedcli("ls", "--work", tmp_path)
    assert code == 1
    assert not out
    assert err.startswith("error: too little memory")
    assert "ulimit -v" in err
    assert (str(error) or "memory is used up") in err


def test_a_limit_on_memory_that_torch_would_not_survive_is_said_before_it_is_loaded(tmp_path):
    line = f"ulimit -v 3200000; exec {sys.executable} -m fedcli prepare toy --work {tmp_path}"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "3.1 GB are allowed, and torch's libraries need 4" in ended.stderr
    assert "ulimit -v" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_help_is_fast_and_imports_no_torch():
    code = """
import sys
import warnings
from fedcli.commands.app import app
app(["--help"], standalone_mode=False)
print("HEAVY", sorted({"torch", "pandas", "albumentations", "rich", "h5py", "numpy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "HEAVY []" in done.stdout


def test_a_report_loads_neither_torch_nor_pictures_nor_tests_before_it_needs_them():
    code = """
import sys
import fedcli.stages.report
print("HEAVY", sorted({"torch", "pandas", "matplotlib", "scipy", "sklearn", "cv2"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "HEAVY []" in done.stdout, done.stderr


@pytest.mark.parametrize("name", registry.names())
def test_every_command_explains_itself(name):
    code, out, _ = fedcli(name, "--help")
    assert code == 0
    assert len(re.sub(r"\s+", " ", out)) > 200


@pytest.mark.parametrize("columns", ["80", "100"])
def test_the_list_of_commands_shows_whole_sentences(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    printed = fedcli("--help")[1]
    assert "..." not in printed.split("\nBegin:")[1]
    assert max(map(len, printed.splitlines())) <= int(columns)
    for name in registry.names():
        sentence = registry.load(name).help.split("\n\n")[0].strip()
        assert sentence.endswith("."), name
        assert len(sentence) <= 60, name
        if registry.COMMANDS[name].shared_line:
            assert re.search(rf"^  .*\b{name}\b", printed, re.M), name
            continue
        assert re.search(rf"^  {name} +{re.escape(sentence)}$", printed, re.M), name
    for group in ("Begin", "Data", "Train and score", "Compare", "Look up", "For authors"):
        assert f"\n{group}:\n" in printed


def test_arguments_are_shown_without_a_type():
    printed = fedcli("report", "--help")[1]
    assert "  RUN  runs or scores" in printed
    assert "list[str]" not in printed
    assert "......" not in printed


def test_versions_of_packages_without_the_name_of_a_host():
    printed = fedcli("--version", "--verbose")[1]
    versions = dict(line.split(maxsplit=1) for line in printed.splitlines()[2:] if line)
    assert versions["numpy"] == numpy.__version__
    assert {"fedcli", "python", "platform", "torchvision", "h5py"} < versions.keys()
    assert not {"pytest", "ruff", "flwr"} & versions.keys()
    assert platform.node() not in versions["platform"]
    assert fedcli("--version")[1] == f"fedcli {versions['fedcli']}\n"


def edited(path, **body):
    """A manifest with other values in its body, as somebody may send it."""
    raw = json.loads(Path(path).read_text())
    raw["body"] |= body
    Path(path).write_text(json.dumps(raw))
    return path


@pytest.mark.parametrize("name", ["../../../out", "/tmp/out", "..", "a/b"])
def test_a_name_in_a_manifest_cannot_lead_out_of_the_work_folder(tmp_path, name):
    dataset = edited(
        path_of(fedcli("prepare", "toy", "--work", tmp_path / "w", "--quiet")), name=name
    )
    partition_path = Path(
        path_of(fedcli("partition", dataset, "--iid", "--work", tmp_path / "w", "--quiet"))
    )
    assert partition_path.resolve().parent.parent == (tmp_path / "w" / "partitions").resolve()


@pytest.mark.parametrize("body", [{"clients": "many"}, {"classes": None}, {"attributes": []}])
def test_an_edited_manifest_ends_in_a_sentence_not_in_a_traceback(tmp_path, body):
    dataset = edited(path_of(fedcli("prepare", "toy", "--work", tmp_path, "--quiet")), **body)
    code, _, err = fedcli("partition", dataset, "--by", "sex", "--work", tmp_path, "--quiet")
    assert code in (1, 2)
    assert "Traceback" not in err
    assert "hint:" in err


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"format": ' + "9" * 5000 + "}"])
def test_a_damaged_settings_file_or_manifest_is_told(tmp_path, text):
    (tmp_path / "settings.json").write_text(text)
    (tmp_path / "run.json.bad").write_text(text)
    for command in (
        ("train", "--resume", "--out", tmp_path),
        ("inspect", tmp_path / "run.json.bad"),
    ):
        code, _, err = fedcli(*command)
        assert code == 1
        assert "Traceback" not in err
        assert "hint:" in err


def test_a_damaged_stage_is_made_again(tmp_path):
    dataset_path = path_of(fedcli("prepare", "toy", "--work", tmp_path, "--quiet"))
    pool = Path(dataset_path).parent / "pool.h5"
    good = pool.read_bytes()
    pool.write_bytes(good[:-9])
    code, _out, err = fedcli("prepare", "toy", "--work", tmp_path)
    assert code == 0
    assert "making it again" in err
    assert pool.read_bytes() == good


def test_options_beside_a_bare_resume_are_refused(tmp_path):
    code, _, err = fedcli("train", "--resume", "--rounds", "9", "--work", tmp_path)
    assert code == 2
    assert "--rounds would be ignored by a bare --resume" in err


def test_every_kind_of_corruption_is_listed():
    from fedcli.data.corruption.corrupt import KINDS

    _, out, _ = fedcli("corruptions")
    for kind in KINDS:
        name = kind.partition("@")[0]
        assert name in "".join(out.split())  # a line may end after a hyphen


def test_warnings_of_libraries_do_not_reach_the_user(monkeypatch, capsys):
    monkeypatch.setattr(
        "fedcli.commands.app.app", lambda: warnings.warn("for programmers", stacklevel=1)
    )
    monkeypatch.setattr(
        "fedcli.system.interrupts.listen", lambda: None
    )  # the handlers of the tests stay
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        main()
    assert capsys.readouterr().err == ""


def test_a_folder_is_no_file_to_write():
    with pytest.raises(UsageError, match="/ is a folder"):
        common.write(Path("/"), "text")


def test_ctrl_c_before_a_command_has_begun_is_one_sentence(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("fedcli.commands.app.app", interrupted)
    monkeypatch.setattr(
        "fedcli.system.interrupts.listen", lambda: None
    )  # the handlers of the tests stay
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith("error: interrupted before anything was begun\n")


def test_ctrl_c_while_the_line_is_read_is_the_same_sentence(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Commands, "parse_args", interrupted)
    monkeypatch.setattr("fedcli.system.interrupts.listen", lambda: None)
    monkeypatch.setattr("sys.argv", ["fedcli", "ls"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith("error: interrupted before anything was begun\n")
