"""A resume takes over nothing that was changed since it was saved."""

import json
import shutil
import threading

import pytest
import torch
from conftest import interrupt_in_round, make_chain
from made_plans import planned, results, train

from fedcli.data import manifest
from fedcli.errors import FedcliError, HashError
from fedcli.federation import state as states
from fedcli.federation.client import Training
from fedcli.federation.server import Federation
from fedcli.runs import folder, settings
from fedcli.runs import train as training
from fedcli.runs.train import Interrupted


def plan(rounds=6):
    return planned("fedheal", {}, Training(optimizer="sgd", lr=0.05, batch_size=8), rounds)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A work folder with a run stopped after round 4 of 6."""
    work = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Federation, "play", interrupt_in_round(5))
        train(make_chain(work), plan(), work=work, out=work / "runs" / "cut")
    return work


@pytest.fixture
def cut(stopped, tmp_path):
    """The folder of a copy of that run, and its data."""
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    return tmp_path / "runs" / "cut", tmp_path / "partitions" / "made" / "partition.json"


def resume(cut):
    out, data = cut
    return train(data, plan(), work=out.parent.parent, out=out, resume=True)


def flip(path, position=0.5):
    raw = bytearray(path.read_bytes())
    raw[int(len(raw) * position)] ^= 4
    path.write_bytes(raw)


@pytest.mark.parametrize("name", ["models/00002.h5", "models/00004.h5", "rounds.jsonl"])
def test_a_changed_byte_of_a_model_or_a_line_is_not_carried_into_the_run(cut, name):
    flip(cut[0] / name)
    with pytest.raises(
        HashError, match=f"{name.split('/')[-1]} was changed since round 4 was saved"
    ):
        resume(cut)
    flip(cut[0] / name)
    assert manifest.verify(resume(cut))


def test_a_lost_model_is_not_passed_over(cut):
    (cut[0] / "models" / "00003.h5").unlink()
    with pytest.raises(HashError, match=r"00003.h5 was changed"):
        resume(cut)


def test_a_damaged_state_is_said_and_the_one_before_it_leads_to_the_same_bytes(
    cut, tmp_path, capsys
):
    whole = train(cut[1], plan(), work=tmp_path, out=tmp_path / "runs" / "whole")
    flip(states.saved(cut[0] / "state")[-1])
    assert results(resume(cut).parent) == results(whole.parent)
    assert "its sha256 differs; using the state before it" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["lr", "seed", "rounds"])
def test_changed_settings_are_refused(cut, name):
    path = cut[0] / "settings.json"
    content = json.loads(path.read_text())
    content["options"][name] = 3
    path.write_text(json.dumps(content))
    with pytest.raises(HashError, match=r"settings.json was changed since the run was begun"):
        settings.load(cut[0])


@pytest.mark.parametrize("text", ["{}", "[]", "7", '{"options": 3}', "\x00"])
def test_settings_of_another_shape_are_refused_with_a_sentence(cut, text):
    (cut[0] / "settings.json").write_text(text)
    with pytest.raises(FedcliError, match=r"settings.json (is damaged|holds zero bytes)"):
        settings.load(cut[0])


def test_only_states_are_removed_from_the_folder_of_states(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "rounds.jsonl").write_text("{}\n")
    state = states.RunState(1, torch.zeros(10))
    folder.save_state(tmp_path, state, [])
    (tmp_path / "state" / "notes.txt").write_text("mine")
    folder.remove_states(tmp_path)
    result = [path.name for path in (tmp_path / "state").iterdir()]
    assert result == ["notes.txt"]


def test_a_process_that_waited_while_another_finished_the_run_leaves_it_whole(
    tmp_path, monkeypatch
):
    """Both see no run.json; the second comes to the folder when the first has sealed it."""
    data = make_chain(tmp_path)
    out = tmp_path / "runs" / "one"
    real = training.assemble
    assembled = threading.Event()

    def slow(*words, **options):
        federation = real(*words, **options)
        if not assembled.is_set():
            assembled.set()
            train(data, plan(rounds=2), work=tmp_path, out=out)  # the other process
        return federation

    monkeypatch.setattr(training, "assemble", slow)
    run = train(data, plan(rounds=2), work=tmp_path, out=out, resume=True)
    assert "run.json" not in manifest.verify(run).files
