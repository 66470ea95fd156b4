"""The model that is best on the clients' validation parts: which it is, and that no stop changes it."""

import json
import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from conftest import interrupt_in_round, make_chain
from made_plans import TRAINING, planned, results, train

from fedcli.data import manifest
from fedcli.errors import UsageError
from fedcli.federation import state as states
from fedcli.federation.server import Federation
from fedcli.metrics import balanced_accuracy, score
from fedcli.runs.finished import BEST, open_run, predict
from fedcli.runs.rules import check
from fedcli.runs.scoring import in_words
from fedcli.runs.train import Interrupted
from fedcli.stages.corrupt import corrupt
from fedcli.stages.partition import partition


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Four clients that keep a quarter of their images for validation, those of one under noise."""
    work = tmp_path_factory.mktemp("data")
    divided = partition(
        manifest.parent(make_chain(work), "dataset"), work=work, dirichlet=3.0, clients=4, val=0.25
    )
    return corrupt(divided, "gaussian", severity=5, ratio=0.25, work=work, jobs=1).path


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """(method, options) -> their run, which nothing stopped."""
    return cache(
        lambda method, **rest: train(
            data, asked(method, **rest), work=tmp_path_factory.mktemp(method)
        )
    )


def validated(folder):
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return [line["validation"]["balanced_accuracy"] for line in lines]


def asked(method="fedheal", **rest):
    return planned(method, {}, TRAINING, rounds=7, seed=3, **rest)


@pytest.mark.parametrize(("method", "options"), [("fedbn", {}), ("fedavg", {"single_site": True})])
def test_the_first_of_the_best_rounds_is_kept_and_scores_as_recorded(whole, method, options):
    run = open_run(whole(method, **options))
    best = run.manifest.body["best"]
    scores = validated(run.path.parent)
    expected = {
        "round": int(np.argmax(scores)) + 1,
        "metric": "balanced_accuracy",
        "score": max(scores),
    }
    assert best == expected
    parts = {c: shard for c, shard in run.data.val.items() if len(shard)}
    table = np.concatenate(
        [predict(run, BEST, part, client if options else None) for client, part in parts.items()]
    )
    y = np.concatenate([part.y.numpy() for part in parts.values()])
    assert score(table, y)["balanced_accuracy"] == balanced_accuracy(table, y) == best["score"]
    if best["round"] in run.rounds:
        models = run.path.parent / "models"
        expected = (models / f"{best['round']:05d}.h5").read_bytes()
        assert (models / "best.h5").read_bytes() == expected


def test_without_validation_parts_nothing_is_chosen(tmp_path):
    run = train(make_chain(tmp_path), asked(), work=tmp_path, out=None)
    assert "best" not in manifest.read(run).body
    assert not (run.parent / "models" / "best.h5").exists()
    assert "validation" not in (run.parent / "rounds.jsonl").read_text()


def test_a_stop_in_any_round_ends_at_the_same_best_model(tmp_path, data, whole, monkeypatch):
    whole = whole("fedbn")
    assert (
        1 < manifest.read(whole).body["best"]["round"] < 7
    )  # so that stops come before and after it
    for cut in (3, 7):
        out = tmp_path / "runs" / f"cut{cut}"
        monkeypatch.setattr(Federation, "play", interrupt_in_round(cut))
        with pytest.raises(Interrupted):
            train(data, asked("fedbn"), work=tmp_path, out=out, checkpoint_every=1)
        monkeypatch.undo()
        if cut == 7:  # the best model of a later round than that of the state must not be taken
            states.saved(out / "state")[-1].write_bytes(b"damaged")
        again = train(data, asked("fedbn"), work=tmp_path, out=out, resume=True)
        assert results(again.parent) == results(whole.parent)


def test_a_stop_while_the_best_model_is_written_costs_nothing(tmp_path, data, whole, monkeypatch):
    whole = whole("fedheal")
    out = tmp_path / "runs" / "cut"

    def full(path, *rest):
        from fedcli.runs.finished import save_model

        if path.name == "best.h5":
            path.with_name(".best.h5.0123abcd.tmp").write_bytes(b"half")
            raise OSError(28, "No space left on device")
        save_model(path, *rest)

    monkeypatch.setattr("fedcli.runs.train.save_model", full)
    with pytest.raises(OSError, match="No space"):
        train(data, asked(), work=tmp_path, out=out)
    monkeypatch.undo()
    again = train(data, asked(), work=tmp_path, out=out, resume=True)
    assert results(again.parent) == results(whole.parent)
    assert not list(out.rglob("*.tmp"))


def test_a_forced_resume_goes_on_from_the_best_of_the_rounds_that_stay(tmp_path, data, monkeypatch):
    out = tmp_path / "runs" / "cut"
    monkeypatch.setattr(Federation, "play", interrupt_in_round(5))
    with pytest.raises(Interrupted):
        train(data, asked(), work=tmp_path, out=out)
    monkeypatch.undo()
    wild = replace(asked(), lr=2.0)
    run = train(data, wild, work=tmp_path, out=out, resume=True, force=True)
    scores = validated(run.parent)
    best = manifest.read(run).body["best"]["round"]
    assert best == int(np.argmax(scores)) + 1 <= 4


def test_clocks_and_memory_are_told_outside_the_manifest(whole):
    run = whole("fedheal")
    lines = [json.loads(line) for line in (run.parent / "timing.jsonl").read_text().splitlines()]
    for line in lines:
        assert 0 < line["evaluation_seconds"] < line["seconds"]
        assert line["peak_bytes"] > 1e6
    assert "timing.jsonl" not in manifest.read(run).files


def first_stop(scores, patience):
    """After which round a training stops: the best so far is `patience` rounds old."""
    rounds = range(1, len(scores) + 1)
    for t in rounds:
        rounds_since_best = t - 1 - int(np.argmax(scores[:t]))
        if rounds_since_best >= patience:
            return t
    return len(scores)


def test_patience_stops_after_rounds_without_a_better_validation_score(
    tmp_path, data, whole, monkeypatch
):
    whole = whole("fedbn")
    lines = (whole.parent / "rounds.jsonl").read_text().splitlines()
    last = first_stop(validated(whole.parent), 1)
    assert 1 < last < 7
    early = train(data, asked("fedbn", patience=1), work=tmp_path, out=tmp_path / "runs" / "early")
    body = manifest.read(early).body
    result = (early.parent / "rounds.jsonl").read_text().splitlines()
    assert result == lines[:last]
    result = (body["rounds"], body["stopped_after"], body["best"]["round"])
    expected = (7, last, last - 1)
    assert result == expected
    expected = list(range(max(1, last - 4), last + 1))
    assert open_run(early).rounds == expected
    assert manifest.read(whole).options["patience"] == 0
    assert "stopped_after" not in manifest.read(whole).body

    out = tmp_path / "runs" / "cut"
    monkeypatch.setattr(Federation, "play", interrupt_in_round(last))
    with pytest.raises(Interrupted):
        train(data, asked("fedbn", patience=1), work=tmp_path, out=out, checkpoint_every=1)
    monkeypatch.undo()
    again = train(data, asked("fedbn", patience=1), work=tmp_path, out=out, resume=True)
    assert results(again.parent) == results(early.parent)


def test_a_run_with_patience_goes_on_from_a_state_whose_models_later_rounds_removed(
    tmp_path, data, whole, monkeypatch
):
    patient = asked("fedbn", patience=6)
    early = train(data, patient, work=tmp_path, out=tmp_path / "runs" / "early")
    out = tmp_path / "runs" / "cut"
    monkeypatch.setattr(Federation, "play", interrupt_in_round(3))
    with pytest.raises(Interrupted):
        train(data, patient, work=tmp_path, out=out, checkpoint_every=1)
    monkeypatch.undo()
    saved = tmp_path / "saved"
    shutil.copytree(out / "state", saved)
    monkeypatch.setattr(Federation, "play", interrupt_in_round(7))
    with pytest.raises(Interrupted):
        train(data, patient, work=tmp_path, out=out, resume=True)
    monkeypatch.undo()
    assert not (out / "models" / "00001.h5").exists()
    shutil.rmtree(out / "state")  # as if the process had been killed before a later one was saved
    saved.rename(out / "state")
    again = train(data, patient, work=tmp_path, out=out, resume=True)
    assert results(again.parent) == results(early.parent)


def test_patience_needs_validation_images(tmp_path):
    with pytest.raises(
        UsageError,
        match="--rounds patience=2 stops by the clients' validation images, and they have none",
    ):
        train(
            make_chain(tmp_path), asked(patience=2), work=tmp_path, out=tmp_path / "runs" / "mine"
        )
    assert not (tmp_path / "runs" / "mine").exists()
    with pytest.raises(UsageError, match="--rounds patience=-1 is out of range"):
        check(asked(patience=-1))


def test_beside_the_bar_stands_the_validation_score_and_no_test_score():
    scored = {"clean": {"balanced_accuracy": 0.5}, "corrupted": {"balanced_accuracy": None}}
    line = {"loss": [1.0, None, 2.0], "test": scored}
    assert in_words(line) == "loss 1.5, clean 50.0 %"
    line |= {"validation": {"balanced_accuracy": 0.625}}
    assert in_words(line) == "loss 1.5, validation 62.5 %"
