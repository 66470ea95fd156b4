"""Schemes by their names, options and flags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from partitions import dataset, names
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import manifest
from fedcli.data.partition import SCHEMES, Scheme, listing, register
from fedcli.errors import UsageError
from fedcli.stages.options import PartitionOptions
from fedcli.stages.partition import scheme_of

# ---- the registry


def test_every_scheme_lists_its_options_with_their_meaning():
    table = listing()
    assert set(table) == set(SCHEMES)
    for name, options in table.items():
        assert SCHEMES[name].__doc__, name
        assert all(option.meaning for option in options), name
    assert ("corrupted", "required") in [
        (option.name, option.default) for option in table["fedism"]
    ]


def test_a_scheme_of_ones_own_is_reached_by_its_name(tmp_path):
    @register("odd-and-even")
    @dataclass(frozen=True, kw_only=True)
    class OddAndEven(Scheme):
        """Images by the parity of their number."""

        swap: Annotated[bool, "the even ones come last"] = False

        def assign(self, images):
            even = np.arange(0, len(images), 2)
            odd = np.arange(1, len(images), 2)
            parts = {"even": even, "odd": odd}
            return dict(reversed(parts.items())) if self.swap else parts

    try:
        done = CliRunner().invoke(
            app,
            [
                "partition",
                str(dataset(tmp_path)),
                "--work",
                str(tmp_path),
                "--scheme",
                "odd-and-even",
                "--set",
                "swap=yes",
            ],
        )
        path = Path(done.stdout.strip())
        record = manifest.verify(path)
    finally:
        del SCHEMES["odd-and-even"]
    assert names(record.body) == ["odd", "even"]
    assert record.options["swap"] is True
    assert record.made_by == ["partition", "--scheme", "odd-and-even", "--set", "swap=yes"]


DATASET = {"clients": 4}


@pytest.mark.parametrize(
    ("flags", "name", "settings"),
    [
        ({}, "dirichlet", {"alpha": 1.0, "clients": 4}),
        (
            {"dirichlet": 0.5, "balanced": True, "clients": 8},
            "dirichlet-balanced",
            {"alpha": 0.5, "clients": 8},
        ),
        ({"iid": True, "keep_units": True, "by": []}, "iid", {"keep_units": True}),
        ({"shards": 3}, "shards", {"shards": 3}),
        ({"fedism": 2, "dirichlet": 0.3}, "fedism", {"corrupted": 2, "alpha": 0.3}),
        ({"fedmrl": 0.0}, "fedmrl", {"eta": 0.0}),
        ({"by": ["sex"], "portion": 0.2}, "domains", {"by": ("sex",), "portion": 0.2}),
        (
            {"by": ["sex"], "shares": ["0.9,0.1", "0.1,0.9"]},
            "shares",
            {"shares": "0.9,0.1;0.1,0.9"},
        ),
        ({"scheme": "shards", "set": {"shards": "3"}}, "shards", {"shards": 3, "clients": 4}),
        ({"clients": 1}, "all", {}),
        ({"clients": 1, "dirichlet": 1.0}, "dirichlet", {"clients": 1}),
        ({"clients": 2}, "dirichlet", {"clients": 2}),
    ],
)
def test_flags_mean_a_scheme(flags, name, settings):
    options = PartitionOptions(**flags)
    scheme = scheme_of(options, DATASET)
    assert scheme.name == name
    result = {key: getattr(scheme, key) for key in settings}
    assert result == settings


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"iid": True, "shards": 2}, "--iid and --shards exclude each other"),
        ({"iid": True, "dirichlet": 1.0}, "--dirichlet and --iid are different schemes"),
        ({"scheme": "shards", "dirichlet": 1.0}, "--dirichlet and --scheme are different schemes"),
        ({"scheme": "iid", "by": ["sex"]}, "--by and --scheme exclude each other"),
        ({"set": {"alpha": "1"}}, "--set is about the options of a scheme"),
        ({"shares": ["1,0"]}, "--shares needs to know which attribute"),
        ({"fedism": 2, "keep_units": True}, "the scheme fedism deals out images, not patients"),
        ({"scheme": "iidd"}, "unknown partition scheme 'iidd'"),
        ({"scheme": "all", "clients": 2}, "the scheme all makes one client, not 2"),
    ],
)
def test_flags_that_exclude_each_other_are_refused(flags, sentence):
    with pytest.raises(UsageError) as error:
        scheme_of(PartitionOptions(**flags), DATASET)
    assert sentence in error.value.sentence
    assert error.value.hint
