"""fedcli rm: runs under the work folder, and nothing else."""

import pytest
from run_folders import a_line, a_run
from typed_lines import Terminal, fedcli

from fedcli.data import manifest
from fedcli.io.locks import held


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "fedcli-work" / "runs"
    for name in ("fedavg-1", "fedavg-2"):
        a_run(runs / name, [a_line(1)])
    return runs


def left(runs):
    return sorted(path.name for path in runs.iterdir())


@pytest.mark.parametrize(
    "word", ["fedavg-1", "fedcli-work/runs/fedavg-1", "fedcli-work/runs/fedavg-1/run.json"]
)
def test_a_run_is_removed_by_name_or_path(work, word):
    code, out, _ = fedcli("rm", word, "--yes")
    assert code == 0
    assert out.strip().endswith("fedcli-work/runs/fedavg-1")
    assert left(work) == ["fedavg-2"]


def test_without_a_terminal_nobody_is_asked_and_nothing_is_removed(work):
    code, _, err = fedcli("rm", "fedavg-1", "fedavg-2")
    assert code == 2
    assert "nothing was removed" in err
    assert "--yes" in err
    assert left(work) == ["fedavg-1", "fedavg-2"]


@pytest.mark.parametrize(("answer", "count"), [("y\n", 1), ("\n", 2), ("no\n", 2)])
def test_a_person_is_asked(work, monkeypatch, answer, count):
    monkeypatch.setattr("typed_lines.io.StringIO", Terminal)
    _, _, err = fedcli("rm", "fedavg-1", stdin=answer)
    assert "Remove 1 run (fedavg-1)" in err
    assert len(left(work)) == count


def test_a_run_elsewhere_is_left_alone(work, tmp_path):
    elsewhere = a_run(tmp_path / "elsewhere", [a_line(1)])
    (work / "link").symlink_to(elsewhere)
    for word in ("elsewhere", "link", "fedcli-work/../elsewhere"):
        code, _, err = fedcli("rm", word, "--yes")
        assert code == 1
        assert "is no folder in fedcli-work/runs" in err
    assert (elsewhere / "run.json").is_file()


def test_what_is_no_run_is_left_alone(work, tmp_path):
    (tmp_path / "thesis").mkdir()
    for word in ("thesis", "fedavg-3", "fedcli-work", "..", "/"):
        code, _, err = fedcli("rm", word, "--yes")
        assert code == 1
        assert f"{word} is no run" in err
    assert left(work) == ["fedavg-1", "fedavg-2"]


def test_a_run_that_is_being_trained_is_left_alone(work):
    with held(work / "fedavg-1" / ".lock", "", ""):
        code, _, err = fedcli("rm", "fedavg-1", "--yes")
    assert code == 1
    assert "a process is training into" in err
    assert left(work) == ["fedavg-1", "fedavg-2"]


def test_a_run_that_another_goes_on_from_goes_with_it_alone(work):
    first = work / "fedavg-1" / "run.json"
    later = manifest.read(work / "fedavg-2" / "run.json")
    parents = {"../fedavg-1/run.json": manifest.sha256(first)}
    continued = manifest.Manifest("run", ["train"], {}, parents, {}, later.body)
    (work / "fedavg-3").mkdir()
    manifest.seal(work / "fedavg-3", continued)
    code, _, err = fedcli("rm", "fedavg-1", "--yes")
    assert code == 1
    assert "fedavg-3 goes on from" in err
    assert fedcli("rm", "fedavg-1", "fedavg-3", "--yes")[0] == 0
    assert left(work) == ["fedavg-2"]
