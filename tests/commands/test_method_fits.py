"""Kinds of training that `fedcli methods NAME` lists for a method."""

import json

import pytest
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.commands.method_facts import fits, wants
from fedcli.common_options import FAMILIES
from fedcli.methods import METHODS, resolve
from fedcli.methods.registry import register

ADD_ON, AS_ADD_ON, ALONE, DP_SGD, SUMMED = range(5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fedavg", {ADD_ON, ALONE, DP_SGD, SUMMED}),
        ("fedheal", {AS_ADD_ON, DP_SGD}),
        ("fairfb", {ADD_ON}),
        ("harmofl", {ADD_ON, SUMMED}),
        ("crt", set()),
    ],
)
def test_what_a_method_trains_with(name, expected):
    fits_of_method = fits(resolve(name))
    assert {number for number, fit in enumerate(fits_of_method) if fit.fits} == expected
    for fit in fits_of_method:
        assert bool(fit.why) != fit.fits


def test_a_pair_takes_no_further_add_on():
    assert [fit.what for fit in fits(resolve("fedprox+fedheal"))] == [
        "--single-site",
        "--dp image",
        "--engine flower-secagg:DIR",
    ]


def test_every_method_has_an_answer():
    for method in METHODS.values():
        assert len(fits(method)) == 5


def test_the_command_says_so_with_the_reason():
    printed = CliRunner().invoke(app, ["methods", "fairfb"]).stdout
    assert "trains with" in printed
    assert "fairfb changes local training, so it cannot be an add-on" in " ".join(printed.split())
    written = json.loads(CliRunner().invoke(app, ["methods", "fairfb", "--json"]).stdout)
    assert {"what": "an add-on, as in BASE+ADDON", "fits": True, "why": ""} in written[
        "trains_with"
    ]


def test_every_method_of_fedcli_says_what_it_is_for():
    assert not [name for name, method in METHODS.items() if not method.families]
    assert {family for method in METHODS.values() for family in method.families} == set(FAMILIES)
    assert wants(METHODS["fedavg"]) == {}
    assert list(wants(METHODS["fairfb"])) == [
        "groups",
        "two classes",
        "one label",
    ]


def test_methods_for_a_purpose():
    def named(*words):
        ended = CliRunner().invoke(app, ["methods", *words])
        return {
            line.split()[0]
            for line in ended.stdout.splitlines()
            if line[:1] == " " and line[1:2].strip()
        }

    for family in FAMILIES:
        result = {name for name in named("--for", family) - {"method"} if "─" not in name}
        expected = {n for n, m in METHODS.items() if family in m.families}
        assert result == expected
    assert {"fedavg", "fedheal", "fedbn"} < named("--for", "privacy")
    assert "fedce" not in named("--for", "privacy")
    assert named() >= {"HOSPITAL", "RARE", "afl"}
    assert "OTHERS" not in named()
    written = json.loads(CliRunner().invoke(app, ["methods", "--for", "noise", "--json"]).stdout)
    expected = {n for n, m in METHODS.items() if "noise" in m.families}
    assert {facts["name"] for facts in written} == expected


def test_a_purpose_that_is_none_and_a_method_of_no_family_are_refused():
    output = CliRunner().invoke(app, ["methods", "--for", "grups"]).output
    assert "did you mean 'groups'?" in output
    output = CliRunner().invoke(app, ["methods", "--for", "xyz"]).output
    assert "known: domain, drift, groups, hospital, hostile" in output
    with pytest.raises(ValueError, match="no family 'sick'"):
        register(
            "odd",
            METHODS["fedavg"].local,
            METHODS["fedavg"].aggregator,
            label="Odd",
            about="-",
            families="sick",
        )


@pytest.mark.parametrize(
    ("purpose", "is_measured"), [("noise", True), ("rare", True), ("privacy", False)]
)
def test_a_purpose_that_the_benchmark_measures_names_its_page(purpose, is_measured):
    shown = CliRunner().invoke(app, ["methods", "--for", purpose]).stdout
    assert ("docs/which-method.md" in shown) is is_measured
