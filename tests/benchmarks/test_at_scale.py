"""Benchmarks of whole commands: memory with many clients, time of a report over many runs."""

import json
import shutil
import signal
import subprocess
import tempfile

import forked
import many_clients
import many_runs
import pytest
import shell
from many_clients import Memory, Size
from many_runs import Reported
from shell import Spent
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.errors import FedcliError, UsageError


def in_process(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
def test_memory_is_looked_at_after_a_sixth_half_and_all_of_the_rounds(monkeypatch):
    monkeypatch.setattr(many_clients, "COHORT", 3)
    words = []

    def command(*line):
        words.append(line)
        return in_process(*line)

    fedavg, fedheal = many_clients.memory(["fedheal"], Size(12, 2, 6, side=8), 1, command)
    assert [memory.method for memory in (fedavg, fedheal)] == ["fedavg", "fedheal"]
    result = [list(peak) for peak in fedheal.peaks]
    assert result == [[1, 3, 6]]
    result = min(fedheal.peaks[0].values())
    assert result > 10**6
    trained = next(line for line in words if line[:2] == ("train", "fedheal"))
    result = trained[trained.index("--participation") + 1]
    assert result == 3 / 12


def test_ratios_of_memory_are_of_pairs_in_one_repetition():
    fedavg = [{10: 400, 30: 400, 60: 400}, {10: 500, 30: 500, 60: 500}, {10: 400, 30: 400, 60: 500}]
    memory = Memory(
        "scaffold",
        Size(),
        [{10: 500, 30: 500, 60: 500}] * 2 + [{10: 500, 30: 550, 60: 600}],
        fedavg,
    )
    assert memory.growth == [1, 1, 1.2]
    assert memory.beside_first == [1.25, 1, 1.2]
    result = many_clients.columns(60)[1:5]
    assert result == ["to round 10", "to 30", "to 60", "round 60 : round 10"]
    assert memory.row()[4:] == ["1.000", "1.000 to 1.200", "1.200", "1.000 to 1.250"]
    result = json.loads(json.dumps(memory.body()))["clients_per_round"]
    assert result == 50


@pytest.mark.long
def test_a_report_and_its_page_are_timed_over_runs_that_a_recipe_made():
    table, page = many_runs.report(2, 36, 1, in_process)
    assert table.what == "report, 2 runs, 36 images"
    assert page.what.startswith("report --format html, 2 runs")
    for timing in (table, page):
        assert timing.spent[0].clock > 0
        assert timing.spent[0].processor > 0
        assert timing.bare[0] > 0


def test_seconds_of_a_report_are_given_with_their_spread_and_beside_reading():
    timing = Reported(
        "report", [Spent(2.0, 3.0), Spent(4.0, 3.5), Spent(3.0, 4.0)], [1.0, 1.0, 2.0]
    )
    assert timing.row() == ["report", "3.00 s", "2.00 to 4.00 s", "3.50 s", "2.00", "1.50 to 4.00"]
    assert timing.body()["ratio"] == 2.0


def test_a_command_that_fails_ends_in_what_it_said(monkeypatch):
    monkeypatch.setattr(shell.sys, "executable", "false")
    with pytest.raises(FedcliError, match="fedcli report --by sex failed"):
        shell.fedcli("report", "--by", "sex")


def test_a_command_is_asked_to_end_and_waited_for_when_this_one_is_interrupted(
    monkeypatch, tmp_path
):
    """Killed, it could end nothing of its own, and go on in a folder that is removed."""
    program = tmp_path / "program"
    waits = "do sleep 0.01; done"
    program.write_text(
        f"#!/bin/sh\ntrap 'touch ended; exit 1' TERM\nuntil [ -e go ]; {waits}\nkill -INT $PPID\nwhile :; {waits}\n"
    )
    program.chmod(0o700)

    def communicate(self, unpatched=subprocess.Popen.communicate):
        (tmp_path / "go").touch()
        return unpatched(self)

    def interrupted():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a worker of pytest ignores
        with pytest.raises(KeyboardInterrupt):
            shell.fedcli("report")

    monkeypatch.setattr(shell.sys, "executable", str(program))
    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    assert forked.run(interrupted, tmp_path).returncode == 0
    assert (tmp_path / "ended").exists()


def test_a_folder_is_gone_also_where_its_removal_is_interrupted(monkeypatch, tmp_path):
    def rmtree(folder, *args, unpatched=shutil.rmtree, **rest):
        monkeypatch.setattr(shutil, "rmtree", unpatched)
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), shell.temporary_folder() as folder:
        (folder / "file").touch()
        monkeypatch.setattr(shutil, "rmtree", rmtree)
    assert not list(tmp_path.iterdir())


def test_methods_and_sizes_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match="unknown method 'nope'"):
        many_clients.main(["nope"])
    with pytest.raises(UsageError, match="2 images are too few"):
        many_clients.memory(["fedavg"], Size(clients=1), 1)


def test_tables_and_json_of_both(monkeypatch, capsys):
    fedavg = Memory("fedavg", Size(rounds=6), [{1: 10**6, 3: 10**6, 6: 10**6}])
    fedavg.first.extend(fedavg.peaks)
    monkeypatch.setattr(many_clients, "memory", lambda methods, size, repeats: [fedavg])
    monkeypatch.setattr(
        many_runs,
        "report",
        lambda runs, images, repeats: [Reported("report", [Spent(1, 2)], [1.0])],
    )

    def printed(main, **asked):
        main(**asked)
        return capsys.readouterr().out

    assert "1 MB" in printed(many_clients.main, rounds=6)
    result = json.loads(printed(many_clients.main, json=True))[0]["growth"]
    assert result == [1]
    assert "1.00 s" in printed(many_runs.main)
    result = json.loads(printed(many_runs.main, json=True))[0]["processor_seconds"]
    assert result == [2]
