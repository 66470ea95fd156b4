"""A run that stops at any moment and is resumed ends at the same bytes."""

import os
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import pytest
from conftest import interrupt_in_round, make_chain
from made_plans import TRAINING, plan, planned, results, train
from typer.testing import CliRunner

from fedcli.commands import ls
from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.errors import FedcliError
from fedcli.federation import state as states
from fedcli.federation.client_state import ClientStateStore
from fedcli.federation.server import Federation
from fedcli.io.locks import held
from fedcli.runs import folder as folders
from fedcli.runs.folder import unfinished
from fedcli.runs.settings import begun
from fedcli.runs.train import Interrupted
from fedcli.scores.evaluate import evaluate


def test_ctrl_c_saves_and_resume_ends_at_the_same_bytes(tmp_path, monkeypatch):
    data = make_chain(tmp_path)
    whole = train(data, plan(), work=tmp_path, out=tmp_path / "runs" / "whole")
    monkeypatch.setattr(Federation, "play", interrupt_in_round(4))
    with pytest.raises(Interrupted, match="after round 3 of 6"):
        train(data, plan(), work=tmp_path, out=tmp_path / "runs" / "cut", checkpoint_every=10)
    monkeypatch.undo()
    with pytest.raises(FedcliError, match="unfinished run, stopped after round 3"):
        train(data, plan(), work=tmp_path, out=tmp_path / "runs" / "cut")
    cut = train(data, plan(), work=tmp_path, out=tmp_path / "runs" / "cut", resume=True)
    assert results(cut.parent) == results(whole.parent)
    monkeypatch.setattr(Federation, "play", interrupt_in_round(1))
    with pytest.raises(Interrupted, match=r"^interrupted before the first of 6 rounds was done"):
        train(data, plan(), work=tmp_path, out=tmp_path / "runs" / "early")
    (early,) = (entry for entry in ls.listed(tmp_path)["run"] if entry["run"] == "early")
    assert (early["method"], early["rounds_played"]) == ("FedHEAL", 0)


def test_a_lost_manifest_is_written_anew_without_the_scores(tmp_path):
    data = make_chain(tmp_path)
    out = tmp_path / "runs" / "lost"
    run = train(data, plan(), work=tmp_path, out=out)
    whole = run.read_bytes()
    evaluate(run)
    run.unlink()
    again = train(data, plan(), work=tmp_path, out=out, resume=True)
    assert again.read_bytes() == whole
    evaluate(again)


def test_kill_9_at_any_moment_and_resume_end_at_the_same_bytes(tmp_path):
    """Two kills while rounds are being played; the finished run equals one that nobody killed."""
    data = make_chain(tmp_path)
    whole = train(data, plan(rounds=12), work=tmp_path, out=tmp_path / "runs" / "whole")
    out = tmp_path / "runs" / "killed"
    record = out / "rounds.jsonl"
    for rounds in (2, 6):
        child = os.fork()
        ended = 0
        if not child:
            try:
                train(data, plan(rounds=12), work=tmp_path, out=out, resume=True)
            finally:
                os._exit(0)
        while not ended and (not record.exists() or record.read_bytes().count(b"\n") < rounds):
            time.sleep(0.002)
            ended, _ = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    again = train(data, plan(rounds=12), work=tmp_path, out=out, resume=True)
    assert results(again.parent) == results(whole.parent)


def test_a_damaged_newest_state_falls_back_to_the_one_before(tmp_path, monkeypatch, capsys):
    data = make_chain(tmp_path)
    out = tmp_path / "runs" / "cut"
    whole = train(data, plan(), work=tmp_path, out=tmp_path / "runs" / "whole")
    monkeypatch.setattr(Federation, "play", interrupt_in_round(5))
    with pytest.raises(Interrupted):
        train(data, plan(), work=tmp_path, out=out, checkpoint_every=1)
    monkeypatch.undo()
    newest = states.saved(out / "state")[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    cut = train(data, plan(), work=tmp_path, out=out, resume=True)
    assert "using the state before it" in capsys.readouterr().err
    assert results(cut.parent) == results(whole.parent)


def test_resume_with_another_value_is_refused_by_name_unless_forced(tmp_path, monkeypatch):
    data = make_chain(tmp_path)
    out = tmp_path / "runs" / "cut"
    monkeypatch.setattr(Federation, "play", interrupt_in_round(3))
    with pytest.raises(Interrupted):
        train(data, plan(), work=tmp_path, out=out)
    monkeypatch.undo()
    with pytest.raises(FedcliError, match="participation"):
        train(data, plan(participation=0.5), work=tmp_path, out=out, resume=True)
    run = train(data, plan(participation=0.5), work=tmp_path, out=out, resume=True, force=True)
    assert "participation" in manifest.read(run).body["forced"][0]


def test_an_unfinished_run_is_found_and_planned_from_its_folder(tmp_path, monkeypatch):
    data = make_chain(tmp_path)
    heal_plan = planned("fedheal", {"tau": "0.4"}, TRAINING, 6, seed=3)
    monkeypatch.setattr(Federation, "play", interrupt_in_round(3))
    with pytest.raises(Interrupted):
        train(data, heal_plan, work=tmp_path, out=None)
    monkeypatch.undo()
    folder = unfinished(tmp_path, None)
    again = begun(folder)
    source = Path(again.data)
    assert source.resolve() == data.resolve()
    assert again.device == "cpu"
    run = train(source, again, work=tmp_path, out=folder, resume=True)
    assert manifest.read(run).body["settings"]["tau"] == 0.4
    with pytest.raises(FedcliError, match="no unfinished run"):
        unfinished(tmp_path, None)


def fail_once(monkeypatch, target, error, after=0):
    """Make a function raise once, after so many good calls."""
    module, _, name = target.rpartition(".")
    owner = sys.modules[module]
    real = getattr(owner, name)
    calls = []

    def broken(*rest, **named):
        calls.append(1)
        if len(calls) == after + 1:
            raise error
        return real(*rest, **named)

    monkeypatch.setattr(owner, name, broken)


@cache
def without_a_stop(method):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        whole = train(
            make_chain(work),
            plan(method, rounds=4),
            work=work,
            out=work / "runs" / "whole",
            checkpoint_every=1,
        )
        return results(whole.parent)


@pytest.mark.parametrize(
    ("target", "error", "after"),
    [
        (
            "fedcli.data.manifest.seal",
            OSError(28, "No space left on device"),
            0,
        ),  # everything trained, nothing sealed
        ("fedcli.data.manifest.seal", KeyboardInterrupt(), 0),
        ("fedcli.runs.train.save_model", KeyboardInterrupt(), 2),  # between the line and the state
        ("fedcli.federation.state._write", OSError(28, "No space left on device"), 3),
        ("os.fsync", OSError(28, "No space left on device"), 9),
    ],
)
@pytest.mark.parametrize("method", ["fedbn", "fedheal"])
def test_a_stop_anywhere_costs_no_round_and_no_byte(
    tmp_path, monkeypatch, method, target, error, after
):
    data = make_chain(tmp_path)
    out = tmp_path / "runs" / "cut"
    fail_once(monkeypatch, target, error, after)
    with pytest.raises((OSError, KeyboardInterrupt, FedcliError)):
        train(data, plan(method, rounds=4), work=tmp_path, out=out, checkpoint_every=1)
    monkeypatch.undo()
    again = train(
        data, plan(method, rounds=4), work=tmp_path, out=out, checkpoint_every=1, resume=True
    )
    assert results(again.parent) == without_a_stop(method)
    assert not list(out.rglob("*.tmp"))
    assert not (out / "state").exists()
    manifest.verify(again)


def test_absent_clients_keep_an_order_that_a_resume_has_too(tmp_path, monkeypatch):
    data = make_chain(tmp_path)
    bn_plan = plan("fedbn", participation=0.5, seed=4)
    whole = train(data, bn_plan, work=tmp_path, out=tmp_path / "runs" / "whole")
    monkeypatch.setattr(Federation, "play", interrupt_in_round(5))
    with pytest.raises(Interrupted):
        train(data, bn_plan, work=tmp_path, out=tmp_path / "runs" / "cut")
    monkeypatch.undo()
    cut = train(data, bn_plan, work=tmp_path, out=tmp_path / "runs" / "cut", resume=True)
    assert results(cut.parent) == results(whole.parent)


@pytest.mark.parametrize(
    ("method", "engine"),
    [("scaffold", "in-process"), ("scaffold", "pool:2"), ("fedheal", "in-process")],
)
def test_states_of_clients_on_disk_change_no_byte_of_a_run_or_of_its_resume(
    tmp_path, monkeypatch, method, engine
):
    data = make_chain(tmp_path)
    method_plan = plan(method, participation=0.5, seed=4)
    whole = train(data, method_plan, work=tmp_path, out=tmp_path / "runs" / "whole")
    monkeypatch.setattr(
        "fedcli.runs.train.ClientStateStore", partial(ClientStateStore, in_memory=0)
    )
    options = {"checkpoint_every": 1, "engine": engine}
    stored = train(data, method_plan, work=tmp_path, out=tmp_path / "runs" / "stored", **options)
    with monkeypatch.context() as patched:
        patched.setattr(Federation, "play", interrupt_in_round(5))
        with pytest.raises(Interrupted):
            train(data, method_plan, work=tmp_path, out=tmp_path / "runs" / "cut", **options)
    cut = train(
        data, method_plan, work=tmp_path, out=tmp_path / "runs" / "cut", **options, resume=True
    )
    assert results(cut.parent) == results(stored.parent) == results(whole.parent)


def test_a_forced_resume_with_other_rounds_keeps_the_last_five_models_only(tmp_path, monkeypatch):
    data = make_chain(tmp_path)
    out = tmp_path / "runs" / "cut"
    monkeypatch.setattr(Federation, "play", interrupt_in_round(6))
    with pytest.raises(Interrupted):
        train(data, plan(rounds=6), work=tmp_path, out=out)
    monkeypatch.undo()
    with pytest.raises(FedcliError, match="trained 5 rounds already"):
        train(data, plan(rounds=3), work=tmp_path, out=out, resume=True, force=True)
    run = train(data, plan(rounds=12), work=tmp_path, out=out, resume=True, force=True)
    result = [name for name in manifest.read(run).files if name.startswith("models/")]
    expected = [f"models/{r:05d}.h5" for r in range(8, 13)]
    assert result == expected


@pytest.mark.parametrize(
    "name", [".lock", "state", "models", "settings.json", "rounds.jsonl", "timing.jsonl"]
)
def test_a_link_in_an_unfinished_run_is_refused_or_replaced_and_never_written_through(
    tmp_path, monkeypatch, name
):
    data = make_chain(tmp_path)
    out = tmp_path / "runs" / "cut"
    monkeypatch.setattr(Federation, "play", interrupt_in_round(2))
    with pytest.raises(Interrupted):
        train(data, plan(rounds=3), work=tmp_path, out=out)
    monkeypatch.undo()
    elsewhere = tmp_path / "elsewhere"
    (out / name).touch()
    (out / name).rename(elsewhere)
    (out / name).symlink_to(elsewhere)
    before = {
        path: path.read_bytes() for path in (elsewhere, *elsewhere.rglob("*")) if path.is_file()
    }
    with suppress(FedcliError):
        train(data, plan(rounds=3), work=tmp_path, out=out, resume=True)
    result = {
        path: path.read_bytes() for path in (elsewhere, *elsewhere.rglob("*")) if path.is_file()
    }
    assert result == before


def test_options_that_no_unfinished_run_has_are_refused_and_the_one_that_waits_is_named(
    tmp_path, monkeypatch
):
    data = make_chain(tmp_path)
    monkeypatch.chdir(tmp_path)

    def typed(*words):
        result = CliRunner().invoke(
            app, ["train", "fedavg", str(data), "--work", "w", *map(str, words)]
        )
        return result.exit_code, result.output

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "play", interrupt_in_round(3))
        code, _ = typed("--rounds", 4, "--lr", 0.01)
    (begun,) = Path("w").glob("runs/*")
    code, output = typed("--rounds", 2, "--resume")
    assert code == 2
    assert f"{begun} stopped after round 2 of 4 and was begun with lr 0.01, rounds 4" in output
    assert f"fedcli train --resume --out {begun}" in output
    assert len([*Path("w").glob("runs/*")]) == 1
    with held(begun / ".lock", "", ""):  # it is being trained
        assert typed("--rounds", 2, "--resume")[0] == 0
    code, output = typed("--rounds", 2, "--resume", "--seed", 1)
    assert code == 0
    assert "no unfinished run to resume" in output
    assert typed("--rounds", 4, "--lr", 0.01, "--resume")[0] == 0


def test_a_second_process_waits_where_it_is_asked_to(tmp_path, monkeypatch):
    data = make_chain(tmp_path)
    out = tmp_path / "run"
    waiting = threading.Event()
    monkeypatch.setattr(folders.console, "status", lambda sentence: waiting.set())
    out.mkdir()
    with held(out / ".lock", "", ""):
        with pytest.raises(FedcliError, match="another process is training") as refused:
            train(data, plan(rounds=1), work=tmp_path, out=out)
        assert "--wait" in refused.value.hint
        other = ThreadPoolExecutor(1)
        waits = other.submit(train, data, plan(rounds=1, wait=True), work=tmp_path, out=out)
        assert waiting.wait(60)
        assert not waits.done()
    assert waits.result().is_file()
    other.shutdown()
