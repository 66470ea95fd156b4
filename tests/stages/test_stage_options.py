"""The options of a stage: read from flags, written as a command line, checked when they are made."""

import re
from dataclasses import MISSING, replace
from itertools import chain

import pytest

from fedcli.errors import UsageError
from fedcli.options import outside
from fedcli.stages.options import (
    STAGES,
    CorruptOptions,
    EvaluateOptions,
    PartitionOptions,
    PrepareOptions,
    TrainOptions,
)


def test_flags_are_read_as_a_recipe_writes_them():
    flags = {
        "batch-size": 64,
        "personal": True,
        "weights": False,
        "lr": "1e-3",
        "set": {"q": 0.5, "fast": True},
    }
    options = TrainOptions.from_flags({"method": "fedavg", **flags})
    assert (options.batch_size, options.personal) == (64, True)
    assert (options.weights, options.lr) == (None, 0.001)
    assert options.set == {"q": "0.5", "fast": "true"}
    options = TrainOptions.from_flags({"set": ["q=0.5", "rule=paper"]})
    assert options.set == {"q": "0.5", "rule": "paper"}
    for partition in (PartitionOptions.from_flags({"by": "sex"}), PartitionOptions(by=["sex"])):
        assert partition.by == ("sex",)


def test_a_command_line_holds_what_differs_from_the_defaults_in_one_order():
    flags = {"set": {"tau": 0.4}, "rounds": 5, "personal": True, "resume": True}
    options = TrainOptions("fedheal", "data.json", work="here", **flags)
    expected = [
        "train",
        "fedheal",
        "data.json",
        "--personal",
        "--rounds",
        "5",
        "--set",
        "tau=0.4",
        "--work",
        "here",
        "--resume",
    ]
    assert options.argv() == expected
    outcome = TrainOptions("fedavg", batch_size=32, seed=0).argv()
    assert outcome == ["train", "fedavg"]
    result = CorruptOptions("p.json", "gaussian", on=["a", "b"]).argv()
    assert result == [
        "corrupt",
        "gaussian",
        "p.json",
        "--on",
        "a",
        "--on",
        "b",
    ]


def test_a_manifest_records_no_location_and_of_a_file_its_name():
    locations = {"clients_file": "lists/who.csv", "work": "here", "out": "there"}
    options = PartitionOptions("somewhere/dataset.json", seed=3, **locations)
    assert options.made_by() == ["partition", "--clients-file", "who.csv", "--seed", "3"]
    result = CorruptOptions(None, "fog").made_by(("severity",))
    assert result == ["corrupt", "fog", "--severity", "3"]
    result = EvaluateOptions("run.json", by=["sex"], export="csv", device="cuda").made_by()
    assert result == [
        "evaluate",
        "--by",
        "sex",
    ]


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_written_reads_as_the_same_options(stage):
    cls = STAGES[stage]
    examples = {bool: True, int: 4, float: 0.5, str: "text"}
    of_shape = {"several": ["a", "b"], "table": {"k": "v"}}
    values = {}
    for field in cls.declared():
        values[field.name] = (*field.choices, examples[field.kind])[0]
        if field.shape in of_shape:
            values[field.name] = of_shape[field.shape]
        if field.name == "size":
            values[field.name] = 32
        if field.parts and not field.flag.recorded:
            values[field.name] = ""  # it only holds its parts
    options = cls(**values)
    again = {field.name: getattr(options, field.name) for field in cls.declared()}
    assert cls(**again) == options
    words = options.argv()
    flags = {}
    arguments = [field.name for field in cls.declared() if field.flag.argument]
    expected = [stage, *(str(values[name]) for name in arguments)]
    assert words[: len(expected)] == expected
    flagged = [field for field in cls.declared() if not field.flag.argument]
    fields = {f"--{field.typed.split('/')[0]}": field for field in flagged}
    rest = iter(words[len(expected) :])
    for word in rest:
        field = fields[word]
        value = True if field.shape == "switch" else next(rest)
        flags.setdefault(field.name, []).append(value)
    shaped = {name: items if len(items) > 1 else items[0] for name, items in flags.items()}
    for name in arguments:
        shaped[name] = values[name]
    assert cls.from_flags(shaped) == options


@pytest.mark.parametrize("stage", STAGES)
def test_every_flag_says_what_it_means_and_its_default_is_one_that_it_takes(stage):
    for field in STAGES[stage].declared():
        assert len(field.meaning) > 8, field.name
        if field.default is not MISSING:
            assert field.read(field.default) == field.default, field.name


RANGE = re.compile(r"in [\[(]([\d.]+), ([\d.]+)[\])]|>=? ([\d.]+)")
MISTAKES = [
    (TrainOptions, {"round": 3}, "train has no flag 'round'", "did you mean 'rounds'?"),
    (
        TrainOptions,
        {"rounds": 0},
        "--rounds=0 is out of range: it must be >= 1",
        "rounds of federated training",
    ),
    (TrainOptions, {"rounds": 2.5}, "--rounds=2.5 is not a number of type int", "--rounds 1"),
    (TrainOptions, {"lr": "fast"}, "--lr='fast' is not a number of type float", "--lr 1"),
    (
        TrainOptions,
        {"participation": 0},
        "--participation=0.0 is out of range: it must be in (0, 1]",
        "share of",
    ),
    (TrainOptions, {"set": ["tau"]}, "--set 'tau' is not key=value", "--set tau=0.4"),
    (TrainOptions, {"set": ["tau=1", "tau=2"]}, "--set tau is given twice", "once"),
    (
        PrepareOptions,
        {"name": "toy", "test": 1.0},
        "--test=1.0 is out of range: it must be in [0.01, 0.9]",
        "share of",
    ),
    (
        PrepareOptions,
        {"name": "toy", "fit": "strech"},
        "--fit='strech' is not one of stretch, pad",
        "did you mean",
    ),
    (
        PrepareOptions,
        {"name": "toy", "severity": 6},
        "--severity=6 is out of range: it must be in [1, 5]",
        "strength",
    ),
    (EvaluateOptions, {"bye": ["sex"]}, "evaluate has no flag 'bye'", "did you mean 'by'?"),
]


@pytest.mark.parametrize(("options", "flags", "sentence", "hint"), MISTAKES)
def test_a_mistake_names_the_flag_and_the_cure(options, flags, sentence, hint):
    with pytest.raises(UsageError) as error:
        options.from_flags(flags)
    assert sentence in error.value.sentence
    assert hint in error.value.hint


@pytest.mark.parametrize("stage", STAGES)
def test_a_range_is_enforced_as_it_is_written(stage):
    """A number on either side of every bound that a help text names."""
    for option in STAGES[stage].declared():
        numbers_in_text = chain.from_iterable(RANGE.findall(option.meaning))
        bounds = [float(number) for number in numbers_in_text if number]
        if option.kind in (int, float) and bounds:
            step = 1 if option.kind is int else 1e-9
            sides = (-step, 0, step)
            numbers = [option.kind(bound + side) for bound in bounds for side in sides]
            allowed = [number for number in numbers if not outside(number, option.meaning)]
            assert allowed, option.name
            assert len(allowed) < len(numbers), option.name
            flag = f"--{option.typed}"
            for number in set(numbers) - set(allowed):
                with pytest.raises(UsageError, match=f"{flag}=.* out of range: it must be "):
                    option.read(number, flag)


def test_options_stay_checked_when_they_are_changed():
    with pytest.raises(UsageError, match="--rounds=0 is out of range"):
        replace(TrainOptions("fedavg"), rounds=0)


def test_equal_options_have_one_hash_so_that_equal_cells_are_run_once():
    a, b = (TrainOptions("fedavg", set={"q": value}) for value in (1, "1"))
    assert a == b
    result = len({a, b, replace(a, seed=1)})
    assert result == 2
