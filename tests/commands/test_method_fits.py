"""What `fedcli methods NAME` says a method can be trained with."""

import json

import pytest
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.commands.method_facts import fits
from fedcli.methods import METHODS, resolve

ADD_ON, AS_ADD_ON, ALONE, DP_SGD, SUMMED = range(5)


@pytest.mark.parametrize(
    "name, what",
    [
        ("fedavg", {ADD_ON, ALONE, DP_SGD, SUMMED}),
        ("fedheal", {AS_ADD_ON, DP_SGD}),
        ("fairfb", {ADD_ON}),
        ("harmofl", {ADD_ON, SUMMED}),
        ("crt", set()),
    ],
)
def test_what_a_method_trains_with(name, what):
    found = fits(resolve(name))
    assert {place for place, fit in enumerate(found) if fit.fits} == what
    assert all(bool(fit.why) != fit.fits for fit in found)


def test_a_pair_takes_no_further_add_on():
    assert [fit.what for fit in fits(resolve("fedprox+fedheal"))] == [
        "--single-site",
        "--dp-sgd",
        "--engine flower-secagg:DIR",
    ]


def test_every_method_has_an_answer():
    assert all(len(fits(method)) == 5 for method in METHODS.values())


def test_the_command_says_so_with_the_reason():
    shown = CliRunner().invoke(app, ["methods", "fairfb"]).stdout
    assert "trains with" in shown and "fairfb changes local training, so it cannot be an add-on" in " ".join(
        shown.split()
    )
    asked = json.loads(CliRunner().invoke(app, ["methods", "fairfb", "--json"]).stdout)
    assert {"what": "an add-on, as in BASE+ADDON", "fits": True, "why": ""} in asked["trains_with"]
