import json
import signal
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
from conftest import make_chain
from made_plans import plan, planned, results, train

import fedcli
from fedcli.data import manifest
from fedcli.errors import FedcliError, HashError, UsageError
from fedcli.federation import state as states
from fedcli.federation.client import Training
from fedcli.figures.kinds.curves import chosen
from fedcli.figures.series import read
from fedcli.metrics.task import ONE
from fedcli.runs.finished import open_run, predict
from fedcli.runs.rules import check


def test_a_run_writes_its_record_models_and_manifest(tmp_path):
    run = train(make_chain(tmp_path, corrupted=True), plan(), work=tmp_path, out=None)
    lines = [json.loads(line) for line in (run.parent / "rounds.jsonl").read_text().splitlines()]
    expected = [1, 2, 3, 4, 5, 6]
    assert [line["round"] for line in lines] == expected
    assert sum(lines[0]["weights"]) == pytest.approx(1)
    result = sorted(p.name for p in (run.parent / "models").iterdir())
    expected = [f"{r:05d}.h5" for r in range(2, 7)]
    assert result == expected
    body = manifest.verify(run, "run").body
    assert body["rule"] == "released"
    assert body["corruption"]["clients"] == ["west"]
    assert not (run.parent / "state").exists()


def test_the_same_command_makes_the_same_bytes_and_is_not_run_twice(tmp_path):
    run, repeated = (
        train(make_chain(tmp_path / name), plan(), work=tmp_path / name, out=None) for name in "ab"
    )
    assert results(run.parent) == results(repeated.parent)
    stamp = (run.parent / "rounds.jsonl").stat().st_mtime_ns
    data = make_chain(tmp_path / "a")
    result = train(data, plan(), work=tmp_path / "a", out=None)
    assert result == run
    assert (run.parent / "rounds.jsonl").stat().st_mtime_ns == stamp


def test_a_changed_byte_in_a_parent_is_refused(tmp_path):
    data = make_chain(tmp_path)
    pool = tmp_path / "datasets" / "made" / "pool.h5"
    raw = bytearray(pool.read_bytes())
    raw[-1] ^= 1
    pool.write_bytes(raw)
    with pytest.raises(HashError, match=r"pool\.h5"):
        train(data, plan(), work=tmp_path, out=None)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(FedcliError, match=r"thesis.txt"):
        train(make_chain(tmp_path), plan(), work=tmp_path, out=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_two_processes_do_not_train_into_one_folder(tmp_path):
    from fedcli.runs.folder import claimed

    with (
        claimed(tmp_path / "run"),
        pytest.raises(FedcliError, match="another process"),
        claimed(tmp_path / "run"),
    ):
        raise AssertionError("claimed twice")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"rounds": 0}, "--rounds"),
        ({"participation": 0.0}, "--participation"),
        ({"model": "resnet81"}, "resnet81"),
        ({"augment": "flop"}, "flop"),
    ],
)
def test_values_that_cannot_mean_anything_are_refused(tmp_path, change, word):
    with pytest.raises(UsageError, match=word):
        train(make_chain(tmp_path), plan(**change), work=tmp_path, out=None)


def test_a_kept_model_predicts_and_a_damaged_one_is_refused(tmp_path):
    run = open_run(train(make_chain(tmp_path, corrupted=True), plan(), work=tmp_path, out=None))
    assert run.rounds == [2, 3, 4, 5, 6]
    clean, noisy = (predict(run, 6, run.data.test[version]) for version in ("clean", "corrupted"))
    assert clean.shape == noisy.shape == (40, 3)
    assert (clean != noisy).any()
    with h5py.File(run.path.parent / "models" / "00006.h5", "a") as file:
        del file["model/head.weight"]
    with pytest.raises(FedcliError, match=r"head\.weight"):
        predict(run, 6, run.data.test["clean"])


def test_scores_of_the_test_set_go_into_the_record_when_asked(tmp_path):
    run = train(make_chain(tmp_path), plan(rounds=3, eval_every=2), work=tmp_path)
    lines = [json.loads(line) for line in (run.parent / "rounds.jsonl").read_text().splitlines()]
    result = ["test" in line for line in lines]
    assert result == [False, True, True]
    result = lines[1]["test"]["clean"].keys()
    assert result == set(ONE.curves)


def test_every_group_is_scored_too_and_the_curves_have_their_mean(tmp_path):
    data = fedcli.prepare("phantom", size=16, sample_images=240, clients=2, work=tmp_path, jobs=1)
    run = fedcli.train("fedavg", data, rounds=2, eval_every=1, work=tmp_path)
    lines = (run.path.parent / "rounds.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    groups = last["groups"]["clean"]["sex"]
    scores = fedcli.evaluate(run, by=["sex"]).body["groups"]["sex"]["clean"]["last_round"]["groups"]
    result = {value: score["accuracy"] for value, score in groups.items()}
    expected = {v: s["accuracy"] for v, s in scores.items()}
    assert result == expected
    series = read(run.path).series
    values = [score["accuracy"] for score in groups.values()]
    result = series["clean average accuracy by sex"].values[-1]
    expected = pytest.approx(100 * sum(values) / len(values))
    assert result == expected
    result = series["clean worst accuracy by sex"].values[-1]
    expected = pytest.approx(100 * min(values))
    assert result == expected
    assert series["clean accuracy of female by sex"].tested
    assert "clean accuracy of female by sex" not in chosen([read(run.path)], [])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"lr": float("nan")}, "--lr"),
        ({"weight_decay": -1.0}, "--optimizer weight-decay"),
        ({"momentum": 1.0}, "--optimizer momentum"),
        ({"batch_size": 2**40}, "--batch-size"),
    ],
)
def test_numbers_no_optimizer_can_use_are_refused(change, word):
    with pytest.raises(UsageError, match=word):
        check(planned("fedavg", {}, Training(**change)))


def test_more_threads_than_any_processor_has_are_refused_before_torch_starts_them(tmp_path):
    with pytest.raises(UsageError, match="--threads=1000000 is out of range"):
        train(make_chain(tmp_path), plan(), work=tmp_path, out=None, threads=10**6)


def test_a_model_with_a_number_that_is_not_finite_is_named(tmp_path):
    run = train(make_chain(tmp_path), plan(rounds=1), work=tmp_path, out=None)
    model = run.parent / "models" / "00001.h5"
    with h5py.File(model, "r+") as file:
        next(iter(file["model"].values()))[...] = np.nan
    sealed = manifest.read(run)
    manifest.write_text(
        run, replace(sealed, files={**sealed.files, "models/00001.h5": manifest.sha256(model)}).text
    )
    with pytest.raises(FedcliError, match=r"00001.h5 holds numbers that are not finite"):
        predict(opened := open_run(run), 1, opened.data.test["clean"])
    with pytest.raises(FedcliError, match=r"00001.h5: .* is not finite"):
        train(
            make_chain(tmp_path), plan(rounds=1, weights=str(run.parent)), work=tmp_path, out=None
        )


def test_a_full_disk_is_an_error_of_ours_and_leaves_the_older_file(tmp_path):
    """A limit on file sizes stands for the disk: HDF5 itself would end the process."""
    import resource

    path = tmp_path / "state.h5"
    states.write_tensors(path, {"theta": torch.zeros(10)})
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError):
            states.write_tensors(path, {"theta": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state.h5"]


def test_a_run_says_on_which_processor_and_with_which_libraries_it_was_trained(tmp_path):
    where = manifest.read(train(make_chain(tmp_path), plan(), work=tmp_path)).body["environment"]
    assert where["processor"]
    assert where["instruction_set"] == torch.backends.cpu.get_cpu_capability()
    assert where["torch"] == torch.__version__
    assert where["numpy"] == np.__version__
    assert {"torchvision", "python", "device", "threads"} <= where.keys()


def test_a_state_that_cannot_be_written_ends_the_run(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError("disk full")

    monkeypatch.setattr("fedcli.runs.folder.save_state", fails)
    with pytest.raises(OSError, match="disk full"):
        train(make_chain(tmp_path), plan(rounds=1), work=tmp_path, out=None)
