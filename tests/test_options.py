from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from fedcli import options
from fedcli.errors import UsageError, nearest
from fedcli.stages.options import PartitionOptions


@dataclass(frozen=True)
class Example:
    q: Annotated[float, "exponent, >= 0"] = 2.0
    share: Annotated[float, "of the clients, in (0, 1]"] = 1.0
    clients: Annotated[int, "how many, >= 1"] = 4
    rule: Annotated[Literal["paper", "released"], "the text or the code"] = "paper"
    quick: Annotated[bool, "without the slow part"] = False
    seed: Annotated[int | None, "of the random numbers, >= 0; none draws one"] = None
    by: Annotated[list[str] | None, "attributes to group by"] = None
    levels: Annotated[tuple[int, ...], "severities, in [1, 5]"] = (1,)
    out: Annotated[Path | None, "folder to write to"] = None


def test_a_value_is_read_in_the_type_of_its_field():
    changed = Example()
    for key, text in {
        "q": "3",
        "share": "0.5",
        "clients": "7",
        "rule": "released",
        "quick": "yes",
        "seed": "1",
        "by": "sex, age",
        "levels": "2,3",
        "out": "a/b",
    }.items():
        changed = options.change(changed, key, text)
    expected = Example(3.0, 0.5, 7, "released", True, 1, ["sex", "age"], (2, 3), Path("a/b"))
    assert changed == expected


def test_a_value_that_has_its_type_already_stays_as_it_is():
    assert options.change(Example(), "by", ["sex"]).by == ["sex"]
    assert options.change(Example(), "quick", True).quick is True


@pytest.mark.parametrize("nothing", [None, "none"])
def test_an_option_that_may_be_none_can_be_set_back_to_none(nothing):
    assert options.change(Example(seed=3), "seed", nothing).seed is None
    with pytest.raises(UsageError):
        options.change(Example(), "clients", nothing)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("q", -1, "q=-1.0 is out of range: it must be >= 0"),
        ("q", "nan", "q=nan is not finite"),
        ("q", "much", "q='much' is not a number of type float"),
        ("share", 0, r"share=0.0 is out of range: it must be in \(0, 1\]"),
        ("clients", "0", "clients=0 is out of range: it must be >= 1"),
        ("clients", "2.5", "clients='2.5' is not a number of type int"),
        ("clients", 2.5, "clients=2.5 is not a number of type int"),  # of a TOML file
        ("clients", float("inf"), "clients=inf is not a number of type int"),
        ("clients", True, "clients=True is not a number of type int"),
        ("rule", "original", "rule='original' is not one of paper, released"),
        ("quick", "maybe", "quick='maybe' is neither true nor false"),
        ("seed", -1, "seed=-1 is out of range: it must be >= 0"),
        ("levels", "1,6", r"levels=6 is out of range: it must be in \[1, 5\]"),
    ],
)
def test_a_value_of_the_wrong_type_or_out_of_range_is_refused(key, value, sentence):
    with pytest.raises(UsageError, match=sentence):
        options.change(Example(), key, value)


def test_an_empty_choice_is_not_listed():
    from fedcli.commands.shell.common import BriefJson

    with pytest.raises(UsageError, match=r"--json='foo' is not one of short, full$"):
        options.Option.of("--json", BriefJson, "").read("foo", name="--json")


def test_the_hint_writes_the_option_as_its_user_would():
    with pytest.raises(UsageError) as refusal:
        options.change(Example(), "quick", "code", write="--{name} {value}")
    assert refusal.value.hint == "write --quick true"


def test_options_are_described_by_type_value_and_meaning():
    described = {option.name: option for option in options.describe(Example(q=3.0)).values()}
    expected = {
        "name": "q",
        "type": "float",
        "default": 3.0,
        "meaning": "exponent, >= 0",
    }
    assert described["q"].about() == expected
    result = [described[name].type for name in ("rule", "seed", "by", "levels", "out")]
    assert result == [
        "paper|released",
        "int",
        "str,...",
        "int,...",
        "Path",
    ]


def test_an_annotation_that_is_no_option_is_refused():
    with pytest.raises(TypeError, match="of one type"):
        options.Option.of("x", int | str, 0)


@dataclass(frozen=True)
class Parts(options.Options):
    stage = "train"
    optimizer: Annotated[Literal["adam", "sgd"] | None, "of a step"] = None
    momentum: Annotated[float, "in [0, 1)", options.Flag(within="optimizer")] = 0.0
    keep_state: Annotated[bool, "kept", options.Flag(typed="keep", within="optimizer")] = False
    schedule: Annotated[str, "constant, or step:ROUND:FACTOR"] = "constant"
    warmup: Annotated[int, "rounds, >= 0", options.Flag(within="schedule")] = 0
    noise: Annotated[str, "client:NOISE", options.Flag(recorded=False)] = ""
    of_client: Annotated[float, ">= 0", options.Flag(typed="client", within="noise")] = 0.0
    of_clip: Annotated[float, "> 0", options.Flag(typed="clip", within="noise")] = 1.0
    adapters: Annotated[str, "lora:RANK"] = ""
    layers: Annotated[str, "names", options.Flag(within="adapters")] = ""


@pytest.mark.parametrize(
    ("typed", "same", "words"),
    [
        (
            {"optimizer": "sgd:momentum=0.9,keep"},
            {"optimizer": "sgd", "momentum": 0.9, "keep_state": True},
            ["--optimizer", "sgd:momentum=0.9,keep"],
        ),
        ({"optimizer": "keep"}, {"keep_state": True}, ["--optimizer", "keep"]),
        ({"optimizer": "adam"}, {"optimizer": "adam"}, ["--optimizer", "adam"]),
        (
            {"schedule": "step:4:0.1:warmup=2"},
            {"schedule": "step:4:0.1", "warmup": 2},
            ["--schedule", "step:4:0.1:warmup=2"],
        ),
        (
            {"schedule": "warmup=2"},
            {"warmup": 2},
            ["--schedule", "warmup=2"],
        ),
        (
            {"adapters": "lora:8:layers=qkv,proj"},
            {"adapters": "lora:8", "layers": "qkv,proj"},
            ["--adapters", "lora:8:layers=qkv,proj"],
        ),
        ({"noise": "client:20"}, {"of_client": 20.0}, ["--noise", "client:20.0"]),
        (
            {"noise": "client:20:clip=0.5"},
            {"of_client": 20.0, "of_clip": 0.5},
            ["--noise", "client:20.0,clip=0.5"],
        ),
    ],
)
def test_the_text_of_an_option_may_hold_other_options(typed, same, words):
    parts = Parts(**typed)
    assert parts == Parts(**same)
    _, *written = parts.argv()
    assert written == words
    assert Parts(**{written[0].lstrip("-"): written[1]}) == parts


@dataclass(frozen=True)
class OnOrOff(options.Options):
    stage = "prepare"
    sample: Annotated[bool | None, "a sample", options.Flag(typed="sample/--no-sample")] = None


@pytest.mark.parametrize(
    ("value", "words"),
    [(True, ["--sample"]), (False, ["--no-sample"]), (None, [])],
)
def test_a_switch_that_may_be_left_open_is_on_or_off_in_words_of_its_own(value, words):
    switched = OnOrOff.from_flags({"sample": value})
    assert switched.sample is value
    assert switched.argv() == ["prepare", *words]


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"optimizer": "sgd:momentum=2"}, r"--optimizer momentum=2.0 is out of range"),
        ({"optimizer": "sgd:momentums=0.9"}, "has the unknown part 'momentums'"),
        ({"optimizer": "sgd:keep,other"}, "has the unknown part 'other'"),
        ({"optimizer": "sgd:keeep"}, "has the unknown part 'keeep'"),
        ({"optimizer": "sdg:keep"}, "'sdg' is not one of adam, sgd"),
        ({"optimizer": "sgd:keep", "keep_state": True}, "--optimizer keep is given twice"),
        ({"noise": "hospital:3"}, "--noise 'hospital:3' is not understood"),
        ({"noise": "client:much"}, "--noise client='much' is not a number"),
        ({"noise": "client"}, "--noise client needs a value"),
        ({"noise": "client:0"}, "--noise client:0 changes nothing"),
        ({"noise": "client:"}, "--noise client needs a value"),
        ({"noise": "client:2,client=3"}, "--noise client is given twice"),
        ({"adapters": "lora:8:layers="}, "--adapters layers needs a value"),
        ({"adapters": "lora:8:"}, "--adapters 'lora:8:' ends in a colon"),
    ],
)
def test_a_text_that_holds_wrong_options_is_refused(typed, sentence):
    with pytest.raises(UsageError, match=sentence):
        Parts(**typed)


def test_a_number_that_a_word_may_replace_is_refused_with_the_word():
    with pytest.raises(UsageError, match="--fedmrl='author' is not a number") as error:
        PartitionOptions(fedmrl="author")
    assert error.value.hint == "write for example --fedmrl 1, or --fedmrl authors"


def test_the_nearest_name_is_the_same_in_capitals():
    names = ["adam", "sgd", "FedAvg"]
    assert nearest("SGD", names) == "did you mean 'sgd'?"
    assert nearest("fedavg", names) == "did you mean 'FedAvg'?"
    assert nearest("nosuch", names, ["sgd"]) == "known: sgd"
