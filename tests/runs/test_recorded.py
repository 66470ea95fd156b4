"""A run's record, its page and its card say what the engine was given, for every option that is recorded."""

from functools import cache

import pytest
from conftest import make_chain
from made_plans import TRAINING, plan, planned

from fedcli import options
from fedcli.data import manifest
from fedcli.federation.training import Training
from fedcli.options import recorded
from fedcli.reporting import cards
from fedcli.reporting.page import provenance
from fedcli.reporting.rows import rows
from fedcli.runs import assembly, settings, settled, train, train_options
from fedcli.runs.rules import check
from fedcli.runs.train_options import TrainOptions
from fedcli.scores.evaluate import evaluate
from fedcli.scores.evaluation_options import EvaluateOptions

OPTIONS = [option.name for option in recorded(TrainOptions)]
RUNS = {
    "by the data": dict(method="fedprox", sampling="group"),
    "by hand": dict(
        method="fedavg", augment="flip", prior="bsm", bn="local", momentum=0.0, optimizer="adam"
    ),
    "frozen": dict(method="fedavg", freeze_backbone=True),
    "own loss": dict(method="ldam"),
    "own norms": dict(method="fedbn"),
    "a teacher": dict(method="fed-mas"),
    "groups": dict(method="group-dro"),
    "in a pair": dict(method="fedprox+fairfed", settings={"gap": "spd"}),
    "alone": dict(method="fedprox", single_site=True),
    "on adapters": dict(method="fedprox", adapters="lora:4", local_adapters="all"),
}
TEACHER = "the starting weights"


def asked(method, settings=None, **rest):
    return planned(method, settings or {}, TRAINING, 2, **rest)


def scored(run):
    return evaluate(run, EvaluateOptions(by=["sex"]))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("chain"), augment="affine-flip")


@pytest.fixture(scope="module")
def trained(data):
    """name of a run -> its run.json, its row of a table, and the federation that its engine was opened for."""

    @cache
    def made(name):
        federations = []
        opened = train.opened

        def watched(federation):
            federations.append(federation)
            return opened(federation)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(train, "opened", watched)
            run = train.train(data, asked(**RUNS[name], work=data.parents[2]))
        (row,) = rows([scored(run)])
        return run, row, federations[0]

    return made


def acting(name, federation):
    """An option as the engine has it: of what it was given, not of what was asked for."""
    method = federation.method
    clients = federation.clients
    (shard, *_) = federation.data.train.values()
    values = {
        "method": method.name,
        "augment": shard.kind,
        "seed": federation.seed,
        "settings": options.values(method.local)
        | ({} if federation.single_site else options.values(method.aggregator)),
        "model": federation.model["name"],
        "weights": federation.net.start,
        "teacher": TEACHER if federation.net.teacher else None,
        "freeze_backbone": assembly.is_frozen(federation.net),
        "precision": federation.model["precision"],
    }
    if name in values:
        return values[name]
    if name in options.describe(Training):
        return getattr(clients.training, name)
    return (
        getattr(federation, name, None)
        if hasattr(federation, name)
        else getattr(federation.plan, name)
    )


OF_THE_METHOD = {  # what the method has of its own in place of an option
    "own loss": {"loss", "class_weights", "label_smoothing", "prior"},
    "own norms": {"bn"},
    "a teacher": {"prior"},
}


WHEN_ON = {each.name: each.default for each in recorded(TrainOptions) if each.flag.recorded == "on"}
SAID = {each.name: f"{each.title} (--{each.typed})" for each in recorded(TrainOptions)}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("option", OPTIONS)
def test_the_record_the_page_and_the_card_say_what_the_engine_was_given(trained, name, option):
    run, row, federation = trained(name)
    option = "settings" if option == "set" else option
    value = settings.OWN if option in OF_THE_METHOD.get(name, ()) else acting(option, federation)
    if option not in manifest.read(run).options:
        assert value == WHEN_ON[option]
        return
    assert manifest.read(run).options[option] == value
    if option in row.scores.options and option != "seed":
        word = (
            {True: "yes", False: "no", None: "none"}[value]
            if isinstance(value, bool | None)
            else str(value)
        )
        (card,) = [s for s in cards.cards(row)[0].sections if s.name == "training"]
        title = SAID.get(option, option.replace("_", " "))
        for pairs in (provenance.settings([row], False).pairs, card.pairs):
            expected = word if had_effect(option, row) else None
            assert dict(pairs).get(title) == expected


def had_effect(option, row):
    """Tell whether an option did something: it is on, and so is one that it belongs to."""
    options = row.scores.options
    if options[option] in (None, False, 0, "", "none"):
        return False
    owners = train_options.BELONGS.get(option)
    return owners is None or any(options.get(owner) for owner in owners)


@pytest.mark.parametrize("name", RUNS)
def test_the_methods_table_says_which_settings_acted(trained, name):
    run, row, _ = trained(name)
    (line,) = provenance.settings([row], False).tables[0].rows
    for key, value in manifest.read(run).options["settings"].items():
        assert key == "rule" or f"{key}={value}" in str(line[2])


def test_what_is_left_open_and_what_it_stands_for_are_one_run(data, trained):
    run, _, _ = trained("by the data")
    again = dict(
        method="fedprox", sampling="group:sex", augment="affine-flip", work=data.parents[2]
    )
    assert train.train(data, asked(**again)) == run
    result = train.train(data, asked(**again | {"augment": "none"}))
    assert result != run


def test_the_command_of_a_run_makes_it_again(trained):
    for name in RUNS:
        run, _, _ = trained(name)
        options = manifest.read(run).options
        assert not {settings.OWN, settings.STARTING} & {*manifest.read(run).made_by}
        again = settings.plan_of(options)
        assert settings.options(again, check(again), None) == options


def test_the_data_choose_an_attribute_which_is_said():
    body = {"attributes": {"age": ["0-39", "60+"], "sex": ["f", "m"]}, "augment": "none"}
    for asked_plan, flag in (
        (planned("fairfed", {"gap": "spd"}, TRAINING), "--set attribute=NAME"),
        (plan("adv"), "--set attribute=NAME"),
        (plan("fedavg", sampling="group-class"), "--sampling group-class:NAME"),
        (plan("fairfed"), ""),
        (
            planned("fairfed", {"gap": "eod", "attribute": "sex"}, TRAINING, sampling="group:sex"),
            "",
        ),
    ):
        settled_plan = settled.settled(asked_plan, check(asked_plan), body)
        sentence = (
            f"the groups come from age; {flag} chooses another attribute (sex)" if flag else ""
        )
        assert settled.chosen(asked_plan, settled_plan, body) == sentence
