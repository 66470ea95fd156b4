"""Questions to a site: plans by the rules of the command line, disks that are full, and what is written down of it."""

import errno
import json
import math

import pytest
from site_federation import plan, sites_of, through_bytes, train_at

from fedcli.io.files import appending
from fedcli.sites import site as sites_module
from fedcli.sites.description import SiteError, versions
from fedcli.sites.site import LONGEST

BEGIN = {"ask": "begin", "client": "north", "run": "0" * 16, "threads": 1}
PLAIN = {"optimizer": "adam", "momentum": 0.0}


def audit(site):
    return [json.loads(line) for line in (site.folder / "audit.jsonl").read_text().splitlines()]


WRONG_PLANS = [
    ({"optimizer": "os.system"}, "--optimizer='os.system' is not one of"),
    ({"optimizer": "os.system", "lr": -1.0}, "--optimizer='os.system' is not one of"),
    ({"epochs": 0}, "--epochs=0 is out of range"),
    ({"lr": math.nan}, "--lr=nan is not finite"),
    ({"batch_size": 0}, "--batch-size=0 is out of range"),
    ({"precision": "int3"}, "--precision='int3' is not one of"),
    ({"eval_every": -1}, "--eval-every=-1 is out of range"),
    ({"rounds": 0}, "--rounds=0 is out of range"),
    ({"rounds": "2"}, "options received with rounds '2', which is a text"),
    ({"lr": "0.1"}, "options received with lr '0.1', which is a text"),
    (
        {"freeze_backbone": "yes"},
        "options received with freeze_backbone 'yes', which is a text",
    ),
    ({"threads": 0}, "to train with 0 threads"),
    ({"threads": True}, "to train with True threads"),
    ({"threads": 2**40}, "to train with 1099511627776 threads"),
    ({"method": "x" * 10**6}, "unknown method 'xxxx"),
]


@pytest.mark.parametrize(("change", "sentence"), WRONG_PLANS)
def test_an_asked_plan_is_held_to_the_rules_of_the_command_line(site, change, sentence):
    whole = plan().decided()
    plan_asked = {**whole, **change}
    threads = plan_asked.pop("threads", 1)
    answer, _ = site.answer(
        {**BEGIN, "threads": threads, "versions": versions(), "plan": plan_asked}, {}
    )
    assert sentence in answer["error"]
    assert len(answer["error"]) <= LONGEST
    assert audit(site)[-1]["error"] == answer["error"]


def test_a_question_is_written_down_by_its_hash_and_its_size(site):
    long = ["x" * 10**6, {"y": 10**400}]
    site.answer({**BEGIN, "run": long, "round": 10**400, "masked": long, "part": "a\nb"}, {})
    (line,) = audit(site)
    assert len(json.dumps(line)) < 1200
    assert len(line["question"]["sha256"]) == 64
    assert line["question"]["bytes"] == 0
    assert len(line["run"]) == len(line["round"]) == 40
    assert line["part"] == "a b"


def test_the_bytes_of_a_question_are_those_of_its_arrays(data, tmp_path):
    sites = sites_of(data, tmp_path / "sites")
    train_at(sites, data, plan(), tmp_path)
    record = audit(sites["north"])[1]
    expected = 4 * record["arrays"]["theta"][1][0]
    assert record["question"]["bytes"] == expected


def test_a_question_that_is_too_deep_is_answered_by_a_sentence(site):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    try:
        result = site.answer({"ask": "describe", "more": deep}, {})[0]["error"]
        assert "too deep" in result
    finally:
        while deep:
            deep = deep.pop()


@pytest.mark.parametrize("where", ["memory", "audit"])
def test_a_full_disk_is_said_at_both_ends(data, tmp_path, monkeypatch, caplog, where):
    def full(path, *rest, **more):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    if where == "memory":
        monkeypatch.setattr(sites_module, "remember", full)
    else:  # only of what is asked in a round
        monkeypatch.setattr(
            sites_module, "appending", lambda path: full(path) if full.on else appending(path)
        )
    full.on = False

    def change(client, question, answer):
        full.on = question["ask"] == "begin" or full.on
        return answer

    sites = sites_of(data, tmp_path / "sites")
    with pytest.raises(SiteError, match=r"^site north: its disk is full$") as error:
        train_at(sites, data, plan("scaffold"), tmp_path, change=change)
    assert str(tmp_path) not in error.value.hint
    assert "--resume" in error.value.hint
    assert (
        f"no space left on the device while writing {tmp_path / 'sites' / 'north'}" in caplog.text
    )


def test_a_file_that_the_system_refuses_is_said_without_its_name(site, monkeypatch):
    def refused(scalars, arrays):
        raise PermissionError(errno.EACCES, "Permission denied", "/home/patient-17")

    monkeypatch.setattr(site, "_begin", refused)
    answer = through_bytes(site.answer(BEGIN, {}))[0]
    assert answer["error"] == "its system refused a file: Permission denied"
    assert "patient" not in str(answer)
