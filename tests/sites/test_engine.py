"""A coordinator and its sites: the same bytes as in one process, and a sentence for whatever goes wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROSTER, interrupt_in_round
from made_plans import train
from site_federation import Carried, lines_of, plan, reached, sites_of, train_at

from fedcli.console import listed
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.server import Federation
from fedcli.federation.training import Training
from fedcli.io.files import write_text
from fedcli.reproduction import several
from fedcli.runs.finished import open_run
from fedcli.runs.train import Interrupted
from fedcli.sites.description import SiteError, describe
from fedcli.sites.roster import gathered
from fedcli.stages.options import TrainOptions
from fedcli.stages.train import NOT_CORRECTED
from fedcli.stages.train import run as train_stage

FILES = "rounds.jsonl", "models/00001.h5", "models/00002.h5"


def files(run, *more):
    return {name: (run.parent / name).read_bytes() for name in (*FILES, *more)}


@pytest.fixture
def sites(data, tmp_path):
    return sites_of(data, tmp_path / "sites")


def descriptions(data, folder, names=ROSTER):
    """Files as `fedcli site describe` writes them."""
    folder.mkdir()
    for client in names:
        write_text(folder / f"{client}.json", json.dumps(describe(data, client, client)))
    return [folder / f"{client}.json" for client in names]


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedism-plus", "afl"])
def test_a_run_over_sites_has_the_bytes_of_one_in_this_process(data, sites, tmp_path, method):
    usual = train(data, plan(method), work=tmp_path, out=tmp_path / "usual")
    run = train_at(sites, data, plan(method), tmp_path, out=tmp_path / "sites-run")
    assert files(run, "run.json") == files(usual, "run.json")


def test_another_transport_is_written_as_the_guide_says(data, sites, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "sites.md").read_text(encoding="utf-8")
    names = {"data": data, "plan": plan(rounds=1), "work": tmp_path, "transport": Carried(sites)}
    exec(page.split("```python")[1].split("```")[0], names)
    assert names["transport"].asked
    assert next(tmp_path.glob("runs/fedavg-*/run.json"))


def test_tensors_of_a_client_stay_at_its_site(data, sites, tmp_path):
    usual = train(data, plan("fedbn"), work=tmp_path, out=tmp_path / "usual")
    run = train_at(sites, data, plan("fedbn"), tmp_path, out=tmp_path / "sites-run")
    assert files(run)["rounds.jsonl"] == files(usual)["rounds.jsonl"]
    assert (tmp_path / "sites" / "north" / "memory").is_dir()


def test_a_coordinator_without_images_comes_to_the_same_models(data, sites, tmp_path):
    usual = train(data, plan("scaffold"), work=tmp_path, out=tmp_path / "usual")
    data_described = gathered(descriptions(data, tmp_path / "described"), tmp_path)
    run = train_at(sites, data_described, plan("scaffold"), tmp_path, out=tmp_path / "sites-run")
    assert files(run) == files(usual)
    assert manifest.verify(run, "run").body["roster"] == ROSTER
    with pytest.raises(FedcliError, match="images that are at their sites"):
        open_run(run)


def test_several_methods_and_seeds_are_trained_by_the_sites_that_are_named(data, tmp_path, capsys):
    described = tmp_path / "described"
    federation = gathered(descriptions(data, described), tmp_path)
    assert f"A federation of 4 sites: {listed(ROSTER)}" in capsys.readouterr().err
    options = TrainOptions(sites=[str(described)], engine="socket:x")
    plans = several.each_its_own(["fedavg", "fedprox"], options)
    cells = several.cells(plans, [0, 1], federation)
    assert [(cell.seed, cell.train.method) for cell in cells] == [
        (0, "fedavg"),
        (0, "fedprox"),
        (1, "fedavg"),
        (1, "fedprox"),
    ]
    assert not any(cell.train.sites for cell in cells)


def test_a_run_says_that_sites_keep_the_class_counts_that_a_correction_needs(
    data, sites, tmp_path, capsys, monkeypatch
):
    reached(monkeypatch, sites)
    federation = gathered(descriptions(data, tmp_path / "described"), tmp_path)
    options = TrainOptions("fedavg", data=federation, engine="here:x", rounds=1, work=tmp_path)
    run = manifest.read(train_stage(options).path, "run", whole=True)
    assert run.options["prior"] == "none"
    assert NOT_CORRECTED in capsys.readouterr().err


def test_starting_weights_are_sent_since_a_site_opens_no_file_that_is_named_to_it(
    data, sites, tmp_path
):
    before = train(data, plan(rounds=1), work=tmp_path, out=tmp_path / "before")
    second = plan(weights=str(before))
    usual = train(data, second, work=tmp_path, out=tmp_path / "usual")
    result = files(train_at(sites, data, second, tmp_path, out=tmp_path / "sites-run"))
    assert result == files(usual)


def test_a_coordinator_goes_on_from_its_state_with_the_memory_of_that_round(
    data, sites, tmp_path, monkeypatch
):
    """Its sites have played a round more than the state knows."""
    usual = train(data, plan("scaffold", 4), work=tmp_path, out=tmp_path / "usual")
    out = tmp_path / "sites-run"
    monkeypatch.setattr(Federation, "play", interrupt_in_round(4))
    with pytest.raises(Interrupted):
        train_at(sites, data, plan("scaffold", 4), tmp_path, out=out)
    monkeypatch.undo()
    newest = sorted((out / "state").glob("*.h5"))[-1]
    newest.unlink(), newest.with_suffix(".json").unlink()  # as where it was killed while writing it
    again = sites_of(data, tmp_path / "sites")  # killed too
    run = train_at(again, data, plan("scaffold", 4), tmp_path, out=out, resume=True)
    names = ("rounds.jsonl", "run.json", "models/00004.h5")
    for name in names:
        assert (run.parent / name).read_bytes() == (usual.parent / name).read_bytes()


def test_a_run_that_begins_again_at_its_sites_comes_to_the_same_models(data, sites, tmp_path):
    """Whoever trains it again has another folder; the sites still have theirs of its last rounds."""
    models = []
    for name in ("first", "again"):
        run = train_at(sites, data, plan("scaffold", 5), tmp_path, out=tmp_path / name)
        models.append([path.read_bytes() for path in sorted(run.parent.glob("models/*.h5"))])
    assert models[0] == models[1]


def test_a_site_that_lacks_the_round_refuses(data, sites, tmp_path, monkeypatch):
    monkeypatch.setattr(Federation, "play", interrupt_in_round(2))
    with pytest.raises(Interrupted):
        train_at(sites, data, plan("scaffold"), tmp_path, out=tmp_path / "run")
    monkeypatch.undo()
    elsewhere = sites_of(data, tmp_path / "other")
    with pytest.raises(SiteError, match=r"site north: .*memory after round 1 is not at this site"):
        train_at(elsewhere, data, plan("scaffold"), tmp_path, out=tmp_path / "run", resume=True)


def test_a_site_that_was_started_again_begins_the_run_again(data, sites, tmp_path):
    usual = train(data, plan("scaffold"), work=tmp_path, out=tmp_path / "usual")

    def restarted(client, question, answer):
        if question["ask"] == "train" and client == "west" and question["round"] == 1:
            sites["west"] = sites_of(data, tmp_path / "sites", ["west"])["west"]
        return answer

    run = train_at(
        sites, data, plan("scaffold"), tmp_path, out=tmp_path / "sites-run", change=restarted
    )
    assert files(run) == files(usual)


def changed(**scalars):
    return lambda answer: ({**answer[0], **scalars}, answer[1])


def with_array(name, make):
    return lambda answer: (answer[0], {**answer[1], name: make(answer[1][name])})


WRONG = {
    "nothing": (
        lambda answer: "it did not answer in time",
        "site south: it did not answer in time",
    ),
    "a sentence": (changed(error="its disk is full"), "site south: its disk is full"),
    "NaN": (with_array("theta", lambda a: a * np.nan), "site south: its model is not finite"),
    "another shape": (
        with_array("theta", lambda a: a[:-1]),
        r"site south: it answered with a model of shape",
    ),
    "another type": (
        with_array("theta", lambda a: a.astype(np.float64)),
        r"site south: it answered with a model",
    ),
    "another name": (changed(client="north"), "site south answered as 'north'"),
    "another round": (changed(round=7), "site south answered another request"),
    "no loss": (
        lambda answer: (answer[0], {"theta": answer[1]["theta"]}),
        "site south: .*without its array 'loss'",
    ),
    "no images": (changed(n=0), "site south: it answered of 0 training images, and described 20"),
    "a text": (changed(steps="many"), "site south: the steps of a report is a whole number"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_site_answers_wrongly_ends_in_a_sentence(data, tmp_path, wrong):
    change, sentence = WRONG[wrong]

    def in_round_1(client, question, answer):
        return change(answer) if (client, question["ask"]) == ("south", "train") else answer

    with pytest.raises(FedcliError, match=sentence) as error:
        train_at(sites_of(data, tmp_path / "sites"), data, plan(), tmp_path, change=in_round_1)
    assert error.value.code == 1
    assert len(error.value.sentence) < 400


OTHER_DATA = [
    (
        {"classes": ["a", "b"]},
        r'site east has the classes \["a", "b"\]; the coordinator has \["a", "b", "c"\]',
    ),
    ({"size": [16, 16]}, "site east has the size"),
    ({"versions": {"fedcli": "9"}}, "site east has the versions"),
    (
        {"images": {"train": 7, "val": 0, "test": 0}},
        "site east has 7 training images, the coordinator knows of 20",
    ),
    ({"counts": 3}, "site east described itself wrongly: counts is '3'"),
    (
        {"images": {"train": 10**300, "val": 0, "test": 0}},
        "site east: it describes 10{39} images of the part 'train'",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), OTHER_DATA)
def test_a_site_with_other_data_cannot_begin(data, sites, tmp_path, change, sentence):
    def other(client, question, answer):
        if client != "east":
            return answer
        scalars, _ = answer
        description = {**scalars["description"], **change}
        return {**scalars, "description": description}, {}

    with pytest.raises(FedcliError, match=sentence):
        train_at(sites, data, plan(), tmp_path, change=other)


def test_a_site_that_holds_other_data_than_it_described_cannot_begin(data, sites, tmp_path):
    def other(client, question, answer):
        scalars, _ = answer
        if client == "east":
            description = {**scalars["description"], "data": "0" * 64}
            scalars = {**scalars, "description": description}
        return scalars, {}

    data_described = gathered(descriptions(data, tmp_path / "described"), tmp_path)
    with pytest.raises(FedcliError, match="site east holds other data than it described"):
        train_at(sites, data_described, plan(), tmp_path, change=other)


def test_what_means_nothing_over_sites_is_refused(data, tmp_path):
    data_described = gathered(descriptions(data, tmp_path / "described"), tmp_path)
    cases = (
        (data_described, plan(), "in-process", "does not reach"),
        (data_described, plan(eval_every=1), "socket:s", "test images, which are at their sites"),
        (data, plan(single_site=True), "socket:s", "need no engine that reaches sites"),
        (data, plan("fed-mas", teacher="file"), "socket:s", "teacher from a file"),
        (
            data_described,
            plan(prior="logit-adjust-all"),
            "socket:s",
            "counts of all .* at the sites",
        ),
        (data, plan(), "socket", "needs the folder"),
    )
    for source, configuration, engine, sentence in cases:
        with pytest.raises(UsageError, match=sentence):
            train(source, configuration, work=tmp_path, engine=engine)


def test_the_order_of_the_sites_is_that_of_the_roster_whatever_was_gathered_before(data, tmp_path):
    files = descriptions(data, tmp_path / "described")
    for order in (files, files[::-1]):
        described = gathered(order, tmp_path)
        clients = [entry["client"] for entry in manifest.read(described).body["roster"]]
        assert clients == [file.stem for file in order]


def test_two_sites_of_one_name_or_of_other_classes_are_no_federation(data, tmp_path):
    north, south, *_ = descriptions(data, tmp_path / "described")
    with pytest.raises(SiteError, match="two sites are called north"):
        gathered([north, north], tmp_path)
    south.write_text(json.dumps({**json.loads(south.read_text()), "classes": ["x"]}))
    with pytest.raises(SiteError, match=r"site south has the classes .*north has"):
        gathered([north, south], tmp_path)
    south.write_text("{}")
    with pytest.raises(FedcliError, match=r"south.json is damaged: classes is missing"):
        gathered([north, south], tmp_path)
    with pytest.raises(FedcliError, match="no description of a site"):
        gathered([tmp_path / "partitions"], tmp_path)


def test_rounds_may_be_added_to_a_run_over_sites(data, sites, tmp_path, monkeypatch):
    monkeypatch.setattr(Federation, "play", interrupt_in_round(2))
    with pytest.raises(Interrupted):
        train_at(sites, data, plan("scaffold"), tmp_path, out=tmp_path / "run")
    monkeypatch.undo()
    more = {"resume": True, "force": True}
    run = train_at(sites, data, plan("scaffold", 3), tmp_path, out=tmp_path / "run", **more)
    assert len(lines_of(run)) == 3


def test_an_optimizer_that_is_kept_stays_at_its_site(data, sites, tmp_path):
    training = Training(optimizer="adam", lr=0.01, batch_size=8, keep_optimizer=True, bn="local")
    keeping = plan(training=training)
    usual = train(data, keeping, work=tmp_path, out=tmp_path / "usual")
    run = train_at(sites, data, keeping, tmp_path, out=tmp_path / "sites-run")
    assert files(run)["rounds.jsonl"] == files(usual)["rounds.jsonl"]


def absent_in(rounds, clients):
    """A transport's change: these sites do not answer in these rounds."""

    def changed(client, question, answer):
        if client in clients and question.get("round") in rounds:
            return "it did not answer in time"
        return answer

    return changed


def test_a_round_goes_on_without_those_that_are_absent_and_says_so(data, sites, tmp_path):
    change = absent_in([2], ["south", "west"])
    run = train_at(sites, data, plan("scaffold", 3), tmp_path, change=change, min_clients=2)
    first_line, second_line, third_line = lines_of(run)
    assert "absent" not in first_line
    assert "clients" not in first_line
    assert len(third_line["weights"]) == 4
    assert second_line["absent"] == dict.fromkeys(["south", "west"], "it did not answer in time")
    assert second_line["clients"] == ["north", "east"]
    assert second_line["weights"] == [0.5, 0.5]


def test_too_few_that_answer_end_the_run_in_a_sentence(data, sites, tmp_path):
    with pytest.raises(
        FedcliError, match="2 of 4 clients answered in round 2; south: it did not answer in time"
    ):
        train_at(
            sites, data, plan(), tmp_path, change=absent_in([2], ["south", "west"]), min_clients=3
        )


@pytest.mark.parametrize("wrong", [name for name in WRONG if name != "nothing"])
def test_a_wrong_answer_makes_a_site_absent(data, sites, tmp_path, wrong):
    change = WRONG[wrong][0]

    def in_round_1(client, question, answer):
        return change(answer) if (client, question.get("round")) == ("south", 1) else answer

    first_line, second_line = lines_of(
        train_at(sites, data, plan(), tmp_path, change=in_round_1, min_clients=1)
    )
    assert list(first_line["absent"]) == ["south"]
    assert "absent" not in second_line


def test_one_that_was_absent_at_the_start_may_come_later(data, sites, tmp_path):
    def late(client, question, answer):
        late.asked += client == "east"
        if client == "east" and late.asked <= 2:
            sites["east"].begun = None
            return "no site listens"
        return answer

    late.asked = 0
    run = train_at(sites, data, plan(), tmp_path, change=late, min_clients=3)
    first_line, second_line = lines_of(run)
    assert first_line["absent"] == {"east": "no site listens"}
    assert "absent" not in second_line


def test_an_answer_that_comes_too_late_does_not_count_and_its_memory_is_not_used(data, tmp_path):
    """A site that is late in round 2 has played it, and is asked in round 3 with its memory of round 1."""
    late = absent_in([2], ["south"])
    lost = sites_of(data, tmp_path / "late")
    configuration = plan("scaffold", 3)
    out = tmp_path / "a"
    run = train_at(lost, data, configuration, tmp_path, out=out, change=late, min_clients=1)

    sites = sites_of(data, tmp_path / "silent")
    whole = sites["south"].answer

    def silent_in_round_2(scalars, arrays):
        if scalars.get("round") == 2:
            return {"error": "it did not answer in time"}, {}
        return whole(scalars, arrays)

    sites["south"].answer = silent_in_round_2
    other = train_at(sites, data, configuration, tmp_path, out=tmp_path / "b", min_clients=1)
    assert lines_of(run) == lines_of(other)


def test_rules_that_need_every_client_refuse_to_do_without(data, tmp_path):
    with pytest.raises(UsageError, match="fedce needs every client in every round"):
        train(data, plan("fedce"), work=tmp_path, engine="socket:s", min_clients=2)
    with pytest.raises(UsageError, match="about sites that may be absent"):
        train(data, plan(), work=tmp_path, min_clients=2)


def test_a_rule_that_trains_some_clients_trains_all_where_one_may_be_absent(data, sites, tmp_path):
    released = replace(plan("afl"), set={"rule": "released"})
    usual = train(data, released, work=tmp_path, out=tmp_path / "usual")
    run = train_at(sites, data, released, tmp_path, out=tmp_path / "sites-run", min_clients=3)
    assert files(run)["models/00002.h5"] == files(usual)["models/00002.h5"]
