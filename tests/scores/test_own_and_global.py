"""Where clients have models of their own, the global one is scored beside them on the same images."""

import h5py
import numpy as np
import pytest
from conftest import ROSTER, make_chain
from made_plans import planned, train
from nested_scores import body_of

from fedcli.data import manifest
from fedcli.federation.client import Training
from fedcli.metrics import CLASSES, names, score
from fedcli.reporting.rows import rows
from fedcli.reporting.tables import render
from fedcli.runs.finished import open_run, predict
from fedcli.scores.evaluate import evaluate

COLUMNS = [f"mean among clients balanced_accuracy {whose} model" for whose in ("own", "global")]


def trained(work, data, method):
    training = Training(batch_size=10, lr=0.01)
    plan = planned(method, {}, training, rounds=2)
    run = train(data, plan, work=work, out=None)
    return run, evaluate(run)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """FedBN and FedAvg where one client of four sees corrupted images."""
    work = tmp_path_factory.mktemp("noisy")
    data = make_chain(work, corrupted=True)
    return {method: trained(work, data, method) for method in ("fedbn", "fedavg")}


def cells(path):
    return rows([path])[0].cells


def test_each_client_holds_both_models_scores_on_its_own_images(noisy):
    path, scores = noisy["fedbn"]
    body = body_of(scores)
    run = open_run(path)
    for client in ROSTER:
        shard = run.data.test["corrupted" if client == "west" else "clean"]
        personal, general = (
            score(predict(run, 2, shard, who), shard.y.numpy()) for who in (client, None)
        )
        entry = body["clients"][client]
        assert entry["balanced_accuracy"]["last"] == personal["balanced_accuracy"]
        assert entry["global_model"]["balanced_accuracy"]["last"] == general["balanced_accuracy"]
        expected = entry.keys() - {"version", "part", "global_model"}
        assert entry["global_model"].keys() == expected


def test_both_means_are_over_the_same_clients_and_stand_in_the_report(noisy):
    _, scores = noisy["fedbn"]
    body = body_of(scores)
    assert (
        body["among_clients_global"].keys()
        == body["among_clients"].keys()
        == set(names(CLASSES, headline=True))
    )
    for metric in names(CLASSES, headline=True):
        table = np.array(
            [body["clients"][c]["global_model"][metric]["per_round"] for c in ROSTER]
        )  # [K, rounds]
        per_round = {"mean": table.mean(0), "std": table.std(0), "worst": table.min(0)}
        result = dict(body["among_clients_global"][metric])
        expected = {name: pytest.approx(values) for name, values in per_round.items()}
        assert result.pop("per_round") == expected
        expected = pytest.approx({name: values.mean() for name, values in per_round.items()})
        assert result == expected
    cells_shown = cells(scores)
    expected = body["among_clients"]["balanced_accuracy"]["mean"]
    assert cells_shown[COLUMNS[0]].mean == expected
    expected = body["among_clients_global"]["balanced_accuracy"]["mean"]
    assert cells_shown[COLUMNS[1]].mean == expected
    assert "pFL" in render(rows([scores]), "markdown")
    assert "pFL" in body["legend"]["among_clients_global"]


def test_a_run_without_models_of_clients_own_says_nothing_of_them(noisy):
    _, scores = noisy["fedavg"]
    body = body_of(scores)
    assert body["among_clients_global"] == {}
    for client in body["clients"].values():
        assert "global_model" not in client
    assert not set(COLUMNS) & set(cells(scores))
    assert "pFL" not in render(rows([scores]), "markdown")


def test_on_images_that_all_share_the_global_model_has_a_mean_and_no_spread(tmp_path):
    _, scores = trained(tmp_path, make_chain(tmp_path), "fedbn")
    body = body_of(scores)
    for metric in names(CLASSES, headline=True):
        mean = body["versions"]["clean"][metric]["mean_last5"]
        result = body["among_clients_global"][metric]
        outcome = (result["mean"], result["std"], result["worst"])
        assert outcome == (pytest.approx(mean), None, None)
        assert len(result["per_round"]["mean"]) == 2
        assert result["per_round"]["std"] is None
        assert body["among_clients"][metric]["std"] is not None
    assert set(COLUMNS) <= set(cells(scores))


def test_a_client_with_test_images_of_its_own_is_scored_on_them_by_both(tmp_path):
    data = make_chain(tmp_path)
    with h5py.File(data.parent / "rows.h5", "a") as file:
        for k in range(4):
            del file[f"test/{k}"]
            file[f"test/{k}"] = np.arange(80 + 10 * k, 90 + 10 * k)
    old = manifest.read(data)
    data.unlink()
    manifest.seal(data.parent, old)
    path, scores = trained(tmp_path, data, "ditto")
    entry = body_of(scores)["clients"]["east"]
    run = open_run(path)
    shard = run.data.test["clean"]
    own_rows = slice(20, 30)
    for who, result in (("east", entry), (None, entry["global_model"])):
        logits = predict(run, 2, shard, who)[own_rows]
        assert result["accuracy"]["last"] == score(logits, shard.y.numpy()[own_rows])["accuracy"]
        assert result["count"] == 10
