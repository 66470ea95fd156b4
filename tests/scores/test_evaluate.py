import numpy as np
import published_schema
import pytest
from conftest import make_chain
from evaluated_runs import ABOUT, ATTRIBUTES, GAUSSIAN, ROSTER, a_run, a_shard, logits_of, scorer
from made_plans import planned, train
from nested_scores import body_of
from score_json import group_scores

from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import Training
from fedcli.metrics import score
from fedcli.runs.finished import load_mean_personal, logits, open_run, predict
from fedcli.scores import evaluate as stage
from fedcli.scores.evaluate import evaluate
from fedcli.scores.scores import RunScores


@pytest.fixture
def scores_of(monkeypatch):
    return scorer(monkeypatch)


VERSIONS = "clean", "corrupted", "average"


def test_each_metric_has_last_mean_and_population_std_over_the_kept_rounds(tmp_path, scores_of):
    run = a_run(tmp_path)
    body = body_of(scores_of(run))
    y = run.data.test["clean"].y.numpy()
    for version in ("clean", "corrupted"):
        per_round = [score(logits_of(run, r, version), y)["auc_ovo_macro"] for r in (4, 5, 6)]
        expected = {
            "last": per_round[2],
            "mean_last5": np.mean(per_round),
            "std_last5": np.std(per_round),
            "per_round": per_round,
        }
        assert body["versions"][version]["auc_ovo_macro"] == expected
    assert body["versions"]["clean"]["count"] == 90
    assert body["versions"]["clean"]["classes_missing"] == []
    assert body["kept_rounds"] == [4, 5, 6]
    assert "ddof 0" in body["legend"]["std_last5"]


def test_clients_whom_one_model_answers_on_the_same_images_are_scored_once(tmp_path, monkeypatch):
    clients_scored = []
    client = stage._client
    monkeypatch.setattr(
        stage, "_client", lambda *given: clients_scored.append(given[3].client) or client(*given)
    )
    plan = planned("fedavg", {}, Training(), 1)
    data = make_chain(tmp_path, corrupted=True)
    run = train(
        data,
        plan,
        work=tmp_path,
        out=None,
    )
    body = body_of(evaluate(run))
    corrupted = manifest.read(manifest.parent(run, "corruption")).body["clients"]
    assert len(clients_scored) == 2
    assert len(body["clients"]) == 4
    assert 0 < len(corrupted) < 4
    for name, scores in body["clients"].items():
        same = next(
            client_scored
            for client_scored in clients_scored
            if (client_scored in corrupted) == (name in corrupted)
        )
        assert scores == body["clients"][same]


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cuda:\u0661"])
def test_a_run_is_not_opened_on_a_device_that_is_none(device, tmp_path):
    with pytest.raises(UsageError, match=f"--device '{device}' is unknown"):
        open_run(tmp_path, device)


def test_average_is_the_mean_of_clean_and_corrupted_in_each_round(tmp_path, scores_of):
    path = scores_of(a_run(tmp_path))
    versions = body_of(path)["versions"]
    for metric in ("balanced_accuracy", "auc_ovr_weighted", "f1_macro"):
        clean, corrupted, average = (np.array(versions[v][metric]["per_round"]) for v in VERSIONS)
        expected = pytest.approx((clean + corrupted) / 2, abs=1e-15)
        assert average == expected
        assert versions["average"][metric]["std_last5"] == pytest.approx(average.std())


def test_without_corruption_there_is_neither_corrupted_nor_average(tmp_path, scores_of):
    monkeypatch = a_run(tmp_path, noise=None)
    body = body_of(scores_of(monkeypatch))
    assert list(body["versions"]) == ["clean"]
    result = list(body["groups"]["sex"])
    assert result == ["clean"]
    assert body["corruption"] is None
    assert body["data"]["corruption"] is None


def test_the_std_among_clients_on_shared_test_sets_is_four_tenths_of_the_gap(tmp_path, scores_of):
    # FedISM+ Table IV: one client in five sees the corrupted test set, so std = sqrt(.2 * .8) * |clean - corrupted|
    path = scores_of(a_run(tmp_path))
    body = body_of(path)
    clean, corrupted = (
        np.array(body["versions"][v]["auc_ovo_macro"]["per_round"]) for v in ("clean", "corrupted")
    )
    expected = pytest.approx(0.4 * np.abs(clean - corrupted).mean())
    assert body["among_clients"]["auc_ovo_macro"]["std"] == expected
    expected = pytest.approx(np.minimum(clean, corrupted).mean())
    assert body["among_clients"]["auc_ovo_macro"]["worst"] == expected
    expected = pytest.approx((0.8 * clean + 0.2 * corrupted).mean())
    assert body["among_clients"]["auc_ovo_macro"]["mean"] == expected
    per_round = body["among_clients"]["auc_ovo_macro"]["per_round"]
    expected = pytest.approx(0.4 * np.abs(clean - corrupted))
    assert per_round["std"] == expected
    expected = pytest.approx(np.minimum(clean, corrupted))
    assert per_round["worst"] == expected
    expected = pytest.approx(0.8 * clean + 0.2 * corrupted)
    assert per_round["mean"] == expected
    result = [body["clients"][c]["version"] for c in ROSTER]
    expected = ["clean"] * 4 + ["corrupted"]
    assert result == expected
    outcome = {body["clients"][c]["part"] for c in ROSTER}
    assert outcome == {"whole"}


def test_a_client_with_a_test_part_of_its_own_is_scored_on_it(tmp_path, scores_of):
    test_parts = {"north": range(40), "harbour": range(40, 90)}
    run = a_run(tmp_path, own=test_parts)
    clients = body_of(scores_of(run))["clients"]
    y = run.data.test["clean"].y.numpy()
    result = [clients[c]["part"] for c in ROSTER]
    assert result == ["own", "whole", "whole", "whole", "own"]
    result = [clients[c]["count"] for c in ROSTER]
    assert result == [40, 90, 90, 90, 50]
    expected = score(logits_of(run, 6)[:40], y[:40])["accuracy"]
    assert clients["north"]["accuracy"]["last"] == expected
    expected = score(logits_of(run, 6, "corrupted")[40:], y[40:])["accuracy"]
    assert clients["harbour"]["accuracy"]["last"] == expected


def test_a_client_without_an_auc_is_left_out_of_the_spread(tmp_path, scores_of):
    y = a_shard(3).y.numpy()
    north = np.flatnonzero(y == 1)
    test_parts = {"north": north, "east": range(45), "south": range(45, 90)}
    monkeypatch = a_run(tmp_path, noise=None, own=test_parts)
    body = body_of(scores_of(monkeypatch))
    assert body["clients"]["north"]["auc_ovo_macro"]["mean_last5"] is None
    result = body["clients"]["north"]["classes_missing"]
    assert result == [0, 2]
    table = np.array([body["clients"][c]["auc_ovo_macro"]["per_round"] for c in ROSTER[1:]])
    expected = pytest.approx(table.std(0).mean())
    assert body["among_clients"]["auc_ovo_macro"]["std"] == expected


def test_clients_that_share_model_and_images_have_no_spread(tmp_path, scores_of):
    monkeypatch = a_run(tmp_path, noise=None)
    path = scores_of(monkeypatch)
    among = body_of(path)["among_clients"]
    nothing = {"mean": None, "std": None, "worst": None}
    expected = nothing | {"per_round": nothing}
    assert among["auc_ovo_macro"] == expected


def test_clients_that_keep_their_own_batch_norm_are_scored_with_it(tmp_path, scores_of):
    run = a_run(tmp_path, noise=None, bn="local")
    body = body_of(scores_of(run))
    y = run.data.test["clean"].y.numpy()
    assert body["personal_models"] is True
    expected = score(logits_of(run, 6, client="west"), y)["accuracy"]
    result = body["clients"]["west"]["accuracy"]["last"]
    assert result == expected
    result = body["versions"]["clean"]["accuracy"]["last"]
    expected = score(logits_of(run, 6), y)["accuracy"]
    assert result == expected
    assert body["among_clients"]["accuracy"]["std"] > 0


def test_the_best_round_on_validation_is_scored_from_its_own_model(tmp_path, scores_of):
    run = a_run(tmp_path, best={"round": 2, "metric": "balanced_accuracy", "score": 0.75})
    path = scores_of(run, by=["sex"])
    best = body_of(path)["best_on_validation"]
    result = {key: best[key] for key in ("round", "metric", "validation")}
    assert result == {
        "round": 2,
        "metric": "balanced_accuracy",
        "validation": 0.75,
    }
    y = run.data.test["clean"].y.numpy()
    sex = run.data.test["clean"].groups["sex"].numpy()
    table = logits_of(run, "best", "corrupted")
    reason = {"small": False, "reason": ""}
    expected = score(table, y) | reason
    assert best["versions"]["corrupted"] == expected
    assert set(best["versions"]) == set(VERSIONS)
    expected = group_scores(table, y, sex, ATTRIBUTES["sex"], classes=run.data.classes)
    assert best["groups"]["sex"]["corrupted"] == expected
    monkeypatch = a_run(tmp_path / "another")
    path = scores_of(monkeypatch)
    outcome = body_of(path)["best_on_validation"]
    assert outcome is None


def test_a_class_nobody_has_is_named_and_gives_no_nan(tmp_path, scores_of):
    monkeypatch = a_run(tmp_path, classes=2)
    path = scores_of(monkeypatch)
    result = body_of(path)["versions"]["average"]["classes_missing"]
    assert result == [2]
    assert body_of(path)["versions"]["average"]["auc_ovo_macro"]["mean_last5"] is not None
    assert "NaN" not in path.read_text()


def test_one_kept_round_has_no_std(tmp_path, scores_of):
    monkeypatch = a_run(tmp_path, rounds=[1])
    path = scores_of(monkeypatch)
    over = body_of(path)["versions"]["clean"]["accuracy"]
    assert over["std_last5"] is None
    assert over["last"] == over["mean_last5"]


def test_the_body_says_what_ran_and_on_which_data(tmp_path, scores_of):
    contents = manifest.read(scores_of(a_run(tmp_path)))
    body = contents.body
    copied = {key: value for key, value in ABOUT.items() if key not in ("roster", "model")}
    result = {key: body[key] for key in copied}
    assert result == copied
    assert body["model"].items() >= ABOUT["model"].items()
    assert body["roster_size"] == 5
    assert body["corruption"] == GAUSSIAN
    assert body["options"] == {"lr": 0.1, "bn": "aggregate"}
    path = tmp_path / "partition" / "partition.json"
    sha256 = manifest.sha256(path)
    expected = {
        "sha256": sha256,
        "options": {"seed": 7},
    }
    assert body["data"]["partition"] == expected
    path = tmp_path / "run" / "run.json"
    assert contents.parents == {"../../run.json": manifest.sha256(path)}
    assert contents.made_by == ["evaluate"]


def test_the_same_run_gives_the_same_bytes_wherever_it_lies(tmp_path, scores_of):
    folders = [scores_of(a_run(tmp_path / name)).parent for name in ("one", "two")]
    assert folders[0].name == folders[1].name
    for file in ("scores.json", "predictions.h5"):
        expected = (folders[1] / file).read_bytes()
        assert (folders[0] / file).read_bytes() == expected


def test_scores_made_before_are_not_made_again(tmp_path, scores_of, monkeypatch):
    run = a_run(tmp_path)
    path = scores_of(run)
    monkeypatch.setattr(stage, "open_run", lambda *_: pytest.fail("opened the network again"))
    assert evaluate(run.path) == path


def test_scores_of_another_shape_are_refused_with_what_to_do(tmp_path, scores_of):
    path = scores_of(a_run(tmp_path))
    body = manifest.read(path).body
    assert RunScores.of(body, path).facts() == body
    cases = (
        body | {"best": {}},
        {key: body[key] for key in body if key != "label"},
        body | {"clients": [1]},
    )
    for other in cases:
        with pytest.raises(FedcliError, match="does not have the shape") as error:
            RunScores.of(other, path)
        assert f"remove {path.parent}" in error.value.hint
    val = {"shared": ["a", 1], "of": 2}
    shared = {"unit": "patients", "val": val}
    with pytest.raises(FedcliError, match="shared"):
        facts = body | {"shared_patients": shared}
        RunScores.of(facts, path)


def test_out_takes_the_place_of_the_default_folder(tmp_path, scores_of):
    out = tmp_path / "elsewhere"
    path = scores_of(a_run(tmp_path), out=out)
    assert path == tmp_path / "elsewhere" / "scores.json"
    result = list(manifest.verify(path).parents)
    assert result == ["../run/run.json"]


def test_a_run_without_models_is_refused(tmp_path, scores_of):
    with pytest.raises(FedcliError, match="kept no model"):
        scores_of(a_run(tmp_path, rounds=[]))


def test_a_diverged_model_leaves_no_scores_behind(tmp_path, monkeypatch):
    run = a_run(tmp_path)
    monkeypatch.setattr(stage, "open_run", lambda *_: run)
    monkeypatch.setattr(
        "fedcli.runs.finished.predict", lambda *_, **__: np.full((90, 3), np.nan, np.float32)
    )
    with pytest.raises(FedcliError, match="90 of 90 images got logits that are not finite"):
        evaluate(run.path)
    assert not list(run.path.parent.glob("scores/*"))


def test_a_trained_run_is_scored_as_its_stored_models_predict(tmp_path):
    training = Training(batch_size=5, bn="local")
    plan = planned("fedavg", {}, training, rounds=2)
    data = make_chain(tmp_path, corrupted=True)
    out = tmp_path / "run"
    path = train(data, plan, work=tmp_path, out=out)
    body = body_of(evaluate(path))
    run = open_run(path)
    for version, test in run.data.test.items():
        expected = score(predict(run, 2, test), test.y.numpy())
        assert body["versions"][version]["auc_ovo_macro"]["last"] == expected["auc_ovo_macro"]
    noisy = run.data.test["corrupted"]
    own_scores = score(predict(run, 2, noisy, "west"), noisy.y.numpy())
    result = body["clients"]["west"]["auc_ovo_macro"]["last"]
    assert result == own_scores["auc_ovo_macro"]
    assert body["kept_rounds"] == [1, 2]
    result = body["groups"]["sex"]["clean"]["last_round"]["groups"]["f"]["count"]
    assert result == 20
    result = body["intervals"]["average"]["accuracy"]["units"]
    assert result == 20  # patients of two images each
    assert manifest.verify(path).kind == "run"  # scores inside its folder leave the run as it was


def test_global_personal_and_mean_personal_models_are_scored_apart(tmp_path):
    """Ditto keeps a whole model on each client, FedBN its batch norm: each kind has a name of its own."""
    from conftest import make_chain

    from fedcli.federation.client import Training

    data = make_chain(tmp_path, corrupted=True)
    training = Training(optimizer="sgd", lr=0.1, batch_size=8)
    by_name = {}
    for method in ("ditto", "fedbn", "fedavg"):
        plan = planned(method, {}, training, 2)
        run = train(data, plan, work=tmp_path, out=None)
        path = evaluate(run)
        by_name[method] = body_of(path)
        assert not published_schema.errors(path)
    result = {name: set(body["personal"]) for name, body in by_name.items()}
    expected = {
        "ditto": {"personal", "mean_personal"},
        "fedbn": {"personal"},
        "fedavg": set(),
    }
    assert result == expected
    per_round = [
        by_name["ditto"][k]["clean"]
        if k == "versions"
        else by_name["ditto"]["personal"][k]["clean"]
        for k in ("versions", "personal", "mean_personal")
    ]
    outcome = len({tuple(scores["auc_ovo_macro"]["per_round"]) for scores in per_round})
    assert outcome == 3
    run = open_run(next(tmp_path.glob("runs/ditto-*/run.json")))
    noisy = run.data.test["corrupted"]
    y = run.data.test["clean"].y.numpy()
    sex = noisy.groups["sex"].numpy()
    facts = {"classes": run.data.classes, "units": run.data.test_patients}
    scores_of_clients = [
        group_scores(predict(run, 2, noisy, c), y, sex, ["f", "m"], **facts)
        for c in run.data.roster
    ]
    load_mean_personal(run, 2)
    averaged = group_scores(logits(run.net, noisy, run.method.local), y, sex, ["f", "m"], **facts)
    personal = {}
    for name, parts in by_name["ditto"]["personal"].items():
        personal[name] = parts["groups"]["sex"]["corrupted"]
    assert personal["mean_personal"]["last_round"] == averaged
    result = personal["mean_personal"]["each"]["accuracy"]["f"]["last"]
    assert result == averaged["groups"]["f"]["accuracy"]
    mean_of_own = np.mean(
        [scores_of_client["groups"]["m"]["accuracy"] for scores_of_client in scores_of_clients]
    )
    outcome = personal["personal"]["each"]["accuracy"]["m"]["last"]
    assert outcome == pytest.approx(mean_of_own)
    assert (
        by_name["ditto"]["versions"] == by_name["fedavg"]["versions"]
    )  # its global track is FedAvg
