"""One table made by several processes on one work folder."""

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile

import digits_recipe
import forked
import pytest
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.errors import UsageError
from fedcli.reproduction import expand, jobs, shared
from fedcli.reproduction.jobs import Place, fitting, make_data, spread
from fedcli.reproduction.shared import Board, Outcome, Shared, dealt

LINE = "fedcli reproduce tiny.toml --scale smoke --jobs 1 --work"
TABLE = "results.json", "table.md"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits_recipe.write(tmp_path)
    return tmp_path


def table(work: str) -> dict[str, str]:
    return {name: Path(work, "reproduce/tiny-smoke", name).read_text() for name in TABLE}


class Processes(ExitStack):
    """Command lines of fedcli in processes forked from this one; those that live are killed at the end."""

    def start(self, line: str, **env: str) -> tuple[int, TemporaryFile]:
        output = self.enter_context(TemporaryFile())  # noqa: SIM115
        if not (process := os.fork()):
            os.setpgrp()

            def rest() -> int:
                forked._become(output.fileno(), output.fileno(), None, env)
                return forked.exit_code(lambda: forked.main(line))

            forked.end(rest)
        self.callback(self.kill, process)
        return process, output

    def kill(self, process: int) -> None:
        try:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        except (ProcessLookupError, ChildProcessError):  # it has ended
            return

    def end(self, process: int, output: TemporaryFile) -> tuple[int, str]:
        _, status = os.waitpid(process, 0)
        return os.waitstatus_to_exitcode(status), forked.texts(output)[0]


def claim_after_both_began():
    """Shared.claim() that waits in its first call for the first call of another process."""
    claim = Shared.claim
    barrier = multiprocessing.get_context("fork").Barrier(2)
    has_waited = []

    def waiting(self, cell):
        if not has_waited:
            barrier.wait(120)
            has_waited.append(True)
        return claim(self, cell)

    return waiting


@pytest.mark.long
def test_two_processes_share_the_cells_and_their_table_is_that_of_one(folder, no_page, monkeypatch):
    monkeypatch.setattr(jobs, "POLL", 0.05)
    with monkeypatch.context() as while_both_run, Processes() as processes:
        while_both_run.setattr(Shared, "claim", claim_after_both_began())
        both = [processes.start(f"{LINE} w") for _ in range(2)]
        ended = [processes.end(*process) for process in both]
    result = [code for code, _ in ended]
    assert result == [0, 0], ended
    (last,) = [output for _, output in ended if "written: w/reproduce" in output]
    (helper,) = [output for _, output in ended if output != last]
    assert "of 3 cells of this table trained here; " in helper
    assert "clean ACC" in last
    runs = {path: path.stat().st_ino for path in Path("w").glob("runs/*/run.json")}
    assert len(runs) == 3
    assert "clean ACC" in helper
    assert "published" not in helper
    result = CliRunner().invoke(app, [*LINE.split()[1:], "alone"]).exit_code
    assert result == 0
    assert table("w") == table("alone")
    assert not Path("w/cells/held").exists()
    before = table("w")
    note = Path("w/reproduce/tiny-smoke/note.txt")
    note.write_text("mine")
    Path("w/runs").rename("elsewhere")
    Path("w/runs").symlink_to(Path("elsewhere").absolute())
    again = CliRunner().invoke(app, [*LINE.split()[1:], "w"])
    assert note.read_text() == "mine"
    assert again.exit_code == 0
    assert again.stderr.count("(was done already)") == 3
    assert table("w") == before
    result = {path: path.stat().st_ino for path in runs}
    assert result == runs


@pytest.mark.long
def test_two_of_four_are_killed_and_another_goes_on_to_the_table_of_one(folder):
    Path("tiny.toml").write_text(digits_recipe.TINY.replace("rounds = 2", "rounds = 8"))
    line = [
        sys.executable,
        "-m",
        "fedcli",
        *LINE.replace("--jobs 1", "--jobs 1 --seeds 3").split()[1:],
    ]
    with ExitStack() as stack:
        logs = [stack.enter_context(open(f"log-{k}", "w+b")) for k in range(4)]
        four = [
            subprocess.Popen([*line, "w"], stdout=log, stderr=log, start_new_session=True)
            for log in logs
        ]
        while len([*Path("w").glob("runs/*/run.json")]) < 2:
            time.sleep(0.05)
            assert any(process.poll() is None for process in four)
        for process in four[:2]:
            os.killpg(process.pid, signal.SIGKILL)
        fifth = subprocess.run([*line, "w", "--wait"], capture_output=True, text=True)
        codes = [process.wait() for process in four]
        output = "".join(forked.texts(*logs)) + fifth.stderr
    expected = [-9, -9, 0, 0]
    assert codes == expected, output
    assert fifth.returncode == 0, output
    assert not [*Path("w").glob("runs/*/state")]
    subprocess.run([*line, "alone"], check=True, capture_output=True)
    assert table("w") == table("alone")


def test_parts_are_played_alone_and_the_last_one_writes_the_table(folder, no_page):
    line = [*LINE.split()[1:], "w", "--cells"]
    for part, message in (
        ("0/2", "no part"),
        ("3/2", "no part"),
        ("x", "write for example --cells 3/8"),
    ):
        ended = CliRunner().invoke(app, [*line, part])
        assert ended.exit_code == 2
        assert message in ended.stderr
        assert not Path("w").exists()
    second_part = CliRunner().invoke(app, [*line, "2/2"])
    assert second_part.exit_code == 0, second_part.output
    assert (
        "1 of 3 cells of this table trained here; 2 left to other processes" in second_part.stderr
    )
    assert not Path("w/reproduce").exists()
    assert second_part.stdout == ""
    result = CliRunner().invoke(app, [*line, "2/2", "--json"]).stdout
    assert result == "null\n"
    result = CliRunner().invoke(app, [*line, "1/2"]).exit_code
    assert result == 0
    result = json.loads(table("w")["results.json"])["rows"][2]["cells"]["clean ACC"]["runs"]
    assert result == 1


def test_parts_take_about_as_long_and_hold_every_cell_once(monkeypatch):
    lengths = {f"cell {k}": length for k, length in enumerate([9, 1, 1, 5, 1, 4, 2, 1])}
    monkeypatch.setattr(shared, "_length", lambda cell, source: lengths[cell])
    parts = [dealt(dict.fromkeys(lengths), f"{k}/3") for k in (1, 2, 3)]
    result = sorted(itertools.chain(*parts))
    assert result == [*lengths]
    for part in parts:
        assert part == sorted(part)
    result = [sum(lengths[cell] for cell in part) for part in parts]
    assert result == [9, 8, 7]
    name = dict.fromkeys(lengths)
    assert dealt(name, "9/9") == []


def test_a_method_that_looks_at_images_more_often_is_longer(folder):
    checked = expand.check(folder / "tiny.toml")
    cells = expand.cells(checked, "smoke")
    workplace = Place(Path("w"))
    source = make_data(cells, workplace)[cells[0].chain]
    plain, _, fair = (shared._length(cell, source) for cell in cells)
    assert plain < fair < 2 * plain


def test_a_cell_that_failed_elsewhere_is_told_and_not_tried_again_before_the_command_is_given_anew(
    folder,
):
    checked = expand.check(folder / "tiny.toml")
    cells = expand.cells(checked, "smoke", seeds=(0, 1))
    work = Place(Path("w"))
    sources = make_data(cells, work)
    with Shared(work.work, cells, sources) as failing, Shared(work.work, cells, sources) as other:
        assert failing.claim(cells[0])
        failing.end(Outcome(cells[0], None, "no ink", "buy some"))
        expected = Outcome(cells[0], None, "no ink", "buy some")
        assert other.ended(cells[0]) == expected
        assert Shared(work.work, cells, sources).ended(cells[0]) is None
        board = Board(other, lambda _: "")
        assert board.count == "[1/6]"
        assert not board.rest
    shutil.rmtree("w/cells")


def test_cells_share_a_gpu_as_far_as_its_memory_goes(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    devices = spread("cuda", None, 3)
    assert devices == ("cuda:0", "cuda:1") * 3
    assert spread("cuda:1", None, 2) == ("cuda:1",) * 2
    two_gpus = Place(Path("w"), devices)
    gib = 2**30
    needed_bytes = 20 * gib
    free_bytes = 78 * gib
    result = fitting(two_gpus, needed_bytes, free_bytes).devices
    assert result == devices
    needed_bytes = 30 * gib
    free_bytes = 78 * gib
    result = fitting(two_gpus, needed_bytes, free_bytes).devices
    expected = ("cuda:0", "cuda:1") * 2
    assert result == expected
    needed_bytes = 90 * gib
    free_bytes = 78 * gib
    result = fitting(two_gpus, needed_bytes, free_bytes).devices
    assert result == ("cuda:0", "cuda:1")
    workplace = Place(Path("w"), ("cpu",) * 4)
    needed_bytes = 90 * gib
    free_bytes = 78 * gib
    result = fitting(workplace, needed_bytes, free_bytes).devices
    assert result == ("cpu",) * 4
    with pytest.raises(UsageError, match="--at-once is about cells on one GPU"):
        jobs.devices("cpu", None, [], 2)


def test_who_plays_a_training_for_another_cell_does_not_have_the_cell_that_ends_with_it(folder):
    """A row of two stages and its first stage as a row, in two parts that are played at once."""
    second = '[[row]]\nname = "then cRT"\nmethod = "fedavg"\ntrain = { then = "crt" }\n[[column]]'
    text = digits_recipe.TINY.replace("[[column]]", second, 1)
    (folder / "tiny.toml").write_text(text, encoding="utf-8")
    cells = expand.cells(expand.check(folder / "tiny.toml"), "smoke", seeds=(0,))
    plain = cells[0]
    then_crt = cells[3]
    assert (plain.row, then_crt.row) == ("FedAvg", "then cRT")
    workplace = Place(Path("w"))
    sources = make_data(cells, workplace)
    with Shared(Path("w"), cells, sources) as waiting, Shared(Path("w"), cells, sources) as other:
        assert other.claim(then_crt)
        assert not waiting.claim(plain)
        assert not waiting.left_to_others([plain])
        assert waiting.left_to_others([then_crt])
        other.end(Outcome(then_crt, None, "no ink"))
        assert waiting.claim(plain)
        assert other.left_to_others([plain])
