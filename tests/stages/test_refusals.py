"""Options that cannot be, alone or together: the sentence, and what to do instead."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import fedcli
from fedcli.errors import FedcliError, UsageError
from fedcli.figures.figure import Figure
from fedcli.stages import corrupt, plot, train
from fedcli.stages import evaluate as evaluation
from fedcli.stages.options import CorruptOptions, EvaluateOptions, TrainOptions


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """toy in two clients."""
    work = tmp_path_factory.mktemp("refusals")
    dataset = fedcli.prepare("toy", size=8, sample_images=120, work=work)
    fedcli.partition(dataset, iid=True, clients=2, work=work)
    return work


def refusal_of(action, *args, **kwargs):
    with pytest.raises(FedcliError) as refusal:
        action(*args, **kwargs)
    return refusal.value.sentence, refusal.value.hint


@pytest.mark.parametrize(
    ("options", "sentence", "hint"),
    [
        ({"export": "xlsx"}, "--export 'xlsx' is unknown", "there is one: --export csv"),
        (
            {"positive": "ill"},
            "--positive, --rule and --cost choose operating points",
            "add --clinical",
        ),
        (
            {"cost": 2.0},
            "--positive, --rule and --cost choose operating points",
            "add --clinical",
        ),
        (
            {"adapt": ["batchnorm"]},
            "--adapt 'batchnorm' is unknown",
            "known: bn, prior, temperature",
        ),
        (
            {"cross_site": True, "on": "other.json"},
            "--cross-site is about the clients' own test images",
            "leave --on out",
        ),
        (
            {"engine": "socket:x", "cross_site": True},
            "--cross-site and --engine exclude each other",
            "sites score their own images with what they have",
        ),
    ],
)
def test_evaluate_refuses_before_a_run_is_looked_for(options, sentence, hint):
    result = refusal_of(evaluation.run, EvaluateOptions("nowhere.json", **options))
    assert result == (sentence, hint)


def test_an_engine_that_reaches_no_sites_cannot_evaluate():
    options = EvaluateOptions("nowhere.json", engine="pool:2")
    assert refusal_of(evaluation.run, options) == (
        "--engine 'pool:2' reaches no sites",
        "write for example --engine socket:DIR",
    )


@pytest.mark.parametrize(
    ("options", "sentence", "hint"),
    [
        (
            {"rate": 0.2},
            "--rate is for labels",
            "fedcli corrupt labels --kind symmetric --rate 0.2",
        ),
        (
            {"kind": "gaussian", "change": "pair"},
            "--kind is for labels and clients",
            "of images the kind is a word: fedcli corrupt gaussian; of labels: fedcli corrupt labels "
            "--kind symmetric --rate 0.2",
        ),
        (
            {"kind": "labels", "share": 0.3},
            "--share is for attributes",
            "fedcli corrupt attributes --hide sex --share 0.3",
        ),
        (
            {"kind": "labels", "severity": 5},
            "--severity is for images",
            "--rate sets how many labels are changed, --share how many patients lose an attribute",
        ),
        (
            {"kind": "attributes", "client": ["a=gaussian:3"]},
            "--client is for images and labels",
            "--share sets for how many patients an attribute is hidden",
        ),
        (
            {"kind": "labels", "match": "a"},
            "--match is for images",
            "fedcli corrupt --match NAME --on NAME",
        ),
        (
            {"kind": "attributes", "ratio": 0.5},
            "--ratio is for images and labels",
            "--on names the clients; --clients sets how many of them attack",
        ),
        (
            {"match": "a", "severity": 2},
            "--match finds the kind and its strength itself, and --severity is given",
            "fedcli corrupt --match NAME --on NAME",
        ),
    ],
)
def test_corrupt_refuses_options_of_another_subject(options, sentence, hint):
    assert refusal_of(corrupt.run, CorruptOptions(**options)) == (sentence, hint)


@pytest.mark.parametrize(
    ("options", "sentence", "words"),
    [
        ({}, "no kind of attack is given", "label-flip"),
        ({"change": "backdor"}, "unknown attack 'backdor'", "backdoor"),
        ({"change": "scale", "target": "0"}, "--target is for backdoor", "add --kind backdoor"),
        (
            {"change": "scale", "flip": {"0": "1"}},
            "--flip is for label-flip",
            "add --kind label-flip",
        ),
    ],
)
def test_attack_refuses_options_of_another_kind(options, sentence, words):
    result = refusal_of(corrupt.run, CorruptOptions(kind="clients", **options))
    assert result[0] == sentence
    assert words in result[1]


def test_the_target_of_an_attack_is_a_class(work):
    options = CorruptOptions(kind="clients", change="backdoor", target="ten", work=work)
    sentence, _ = refusal_of(corrupt.run, options)
    assert sentence == "--target 'ten' is no class"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"on": ["nort"], "corrupt": "gaussian"}, "the partition will have no client 'nort'"),
        ({"severity": 3}, "--severity is about a corruption"),
        ({"ratio": 0.5}, "--ratio is about a corruption"),
    ],
)
def test_prepare_refuses_a_corruption_that_cannot_be_before_it_reads_anything(
    options, sentence, tmp_path
):
    result = refusal_of(fedcli.prepare, "phantom", work=tmp_path, **options)
    assert result[0] == sentence
    assert not any(tmp_path.iterdir())


def test_a_path_in_place_of_a_method_is_refused(tmp_path):
    folder = tmp_path / "dataset"
    folder.mkdir()
    assert refusal_of(train.resolved, TrainOptions(str(folder))) == (
        f"{folder} is no method but a path",
        "write the method first: fedcli train METHOD DATA",
    )


def test_without_a_method_and_without_resume_there_is_nothing_to_train(tmp_path):
    sentence, hint = refusal_of(train.run, TrainOptions(None, work=tmp_path))
    assert sentence == "which method?"
    assert hint.startswith("write for example fedcli train fedavg")


def test_a_bare_resume_takes_no_options_of_training(tmp_path):
    options = TrainOptions(None, resume=True, lr=0.1, work=tmp_path)
    assert refusal_of(train.run, options) == (
        "--lr would be ignored by a bare --resume",
        "a run continues with its own options: leave it out",
    )


@pytest.mark.parametrize("name", ["", "a/b", "-x", "x" * 81, "a b"])
def test_a_name_that_is_no_folder_is_refused(name, work):
    sentence, hint = refusal_of(train.resolved, TrainOptions("fedavg", name=name, work=work))
    assert sentence == f"--name {name!r} is no name for a folder"
    assert "--name ablation-3" in hint


@pytest.mark.parametrize("name", ["a", "x" * 80, "ablation-3", "1.2+b_c"])
def test_a_name_is_a_folder_among_the_runs(name, work):
    plan = train.resolved(TrainOptions("fedavg", name=name, work=work))
    assert Path(plan.out) == work / "runs" / name
    assert plan.name is None


def test_what_follows_a_run_is_a_method_that_continues_one():
    sentence, hint = refusal_of(train.resolved, TrainOptions("fedavg", then="fedprox"))
    assert sentence == "--then 'fedprox' does not continue a run"
    assert hint.startswith("give --then ")
    assert "crt" in hint


def test_images_at_their_sites_are_reached_by_an_engine_of_sites():
    options = TrainOptions("fedavg", sites=["north"], engine="in-process")
    assert refusal_of(train.data_for, options)[0]


def test_steps_are_not_measured_on_images_at_their_sites():
    options = TrainOptions("fedavg", sites=["north"], engine="socket:x")
    assert refusal_of(train.run_estimate, options) == (
        "--dry-run measures steps on images, which are at their sites",
        "leave --dry-run out",
    )


def test_an_audit_takes_each_run_once(tmp_path, monkeypatch):
    monkeypatch.setattr("fedcli.stages.audit.source", lambda run, work, kind: tmp_path / run)
    assert refusal_of(fedcli.audit, "a", shadow=["b", "a"]) == (
        "a run is given twice",
        "shadow runs are others than the run that is audited",
    )


def figure(of, **parameters):
    return SimpleNamespace(name="made", of=of, parameters=parameters, frame=None)


@pytest.mark.parametrize("subject", ["path", "system"])
def test_a_figure_of_one_run_refuses_two(subject, tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    result = refusal_of(plot.drawn, figure(subject), paths, {}, runs_named=True)
    assert result == ("made draws one run at a time", "give one")


def test_a_figure_of_one_run_takes_the_newest_of_a_name(tmp_path, monkeypatch):
    chosen = [tmp_path / "newest"]
    monkeypatch.setattr(plot.named_runs, "newest", lambda source, work: chosen[0])
    monkeypatch.setattr(plot.named_runs, "every", lambda names, work: 3 * names)
    for subject in ("path", "data", "system"):
        one_run = SimpleNamespace(of=subject, every=False)
        assert plot.paths_of(one_run, ["fedavg"], tmp_path) == chosen
        assert plot.paths_of(one_run, [tmp_path / "run.json"], tmp_path) == [tmp_path / "run.json"]
    several_runs = SimpleNamespace(of="systems", every=True)
    assert len(plot.paths_of(several_runs, ["fedavg"], tmp_path)) == 3


def test_a_figure_refuses_an_option_that_it_does_not_have():
    sentence, hint = refusal_of(fedcli.plot, "curves", serie=["loss"])
    assert sentence == "curves has no option 'serie'"
    assert "series" in hint


def test_an_unknown_figure_is_refused_with_the_nearest():
    sentence, hint = refusal_of(fedcli.plot, "curve")
    assert "'curve'" in sentence
    assert "curves" in hint


def test_without_a_run_there_is_nothing_to_draw(tmp_path):
    assert refusal_of(plot.runs_of, [], tmp_path, every=False) == (
        f"no run under {tmp_path}",
        "train one with fedcli train METHOD, or give its folder",
    )


def test_a_figure_is_what_the_stand_in_has():
    assert {"name", "of", "frame"} <= Figure.__dataclass_fields__.keys()


def test_options_are_refused_as_flags_are_typed(work):
    options = CorruptOptions(kind="labels", work=work)
    sentence, _ = refusal_of(corrupt.run, replace(options, change="simetric"))
    assert "simetric" in sentence
    with pytest.raises(UsageError):
        CorruptOptions(kind="labels", rate=1.5)


def test_clients_that_train_alone_have_no_class_counts_of_all(work):
    options = TrainOptions("fedavg", prior="logit-adjust-all", single_site=True, work=work)
    assert refusal_of(train.resolved, options) == (
        "--prior logit-adjust-all needs the class counts of all clients, and --single-site sends "
        "nothing",
        "--prior logit-adjust uses the class counts of each client alone",
    )
