"""`fedcli check`: what it finds in methods that are wrong, each in one way."""

import json

import pytest
from own_files import RULE, written

from fedcli.bench import checks
from fedcli.bench.checks import CHECKS, Subject, verdicts
from fedcli.commands.app import app

LINE = "        return theta.lerp(average(updates.theta, updates.base), self.share), updates.base\n"
COUNTED = """from fedcli.methods.contract import Local
from fedcli.methods.losses import weighted_cross_entropy
import torch

TURNS = []


class Counting(Local):
    def loss(self, net, batch, client):
        TURNS.append(client.name)
        return super().loss(net, batch, client) * (1 + 0.001 * len(TURNS))


register("""
FAULTS = {  # what is changed in the file -> the check that does not hold, and a word of why
    "keeps_the_contract": [
        (LINE, LINE.replace("updates.base\n", "2 * updates.base\n"), "weights that sum to 2"),
        (LINE, LINE.replace("theta.lerp", "theta[1:].lerp"), "mine.py, line 20: RuntimeError"),
        (LINE, LINE.replace("self.share)", "self.share).double()"), "returned a model of shape"),
        (
            LINE,
            LINE.replace("updates.base\n", "None\n"),
            "returned a NoneType, not a tensor as weights",
        ),
    ],
    "differs_from_fedavg": [("= 0.5", "= 1.0", "FedAvg's to the last bit")],
    "resumes": [
        ("register(", COUNTED, "theta differs"),
        (
            LINE,
            "        object.__setattr__(self, 'share', 0.9 * self.share)\n" + LINE,
            "theta differs: keep all",
        ),
    ],
    "replays": [
        (
            LINE,
            "        memory.setdefault('t', updates.n.new_zeros(1)).add_(1)\n"
            + LINE.replace("self.share", "self.share / float(memory['t'])"),
            "differs: replace tensors",
        )
    ],
    "explains_its_options": [
        ('Annotated[float, "share of the way, in (0, 1]"]', "float", "share says nothing")
    ],
}


@pytest.mark.parametrize(
    ("check", "k"), [(check, k) for check, faults in FAULTS.items() for k in range(len(faults))]
)
def test_a_fault_is_found_by_its_check(check, k, tmp_path):
    old, new, why = FAULTS[check][k]
    assert RULE.count(old) == 1
    text = RULE.replace(old, new)
    if new is COUNTED:
        text = text.replace("Plain()", "Counting()")
    subject = Subject(str(written(tmp_path, text)))
    assert why in checks.outcome(getattr(checks, check), subject)


def test_a_method_that_holds_all_and_one_that_cannot_be_played(tmp_path):
    good = written(tmp_path, RULE)
    result = {verdict.why for verdict in verdicts(Subject(str(good)))}
    assert result == {""}
    assert checks.pairs_of(str(good)) == [f"moon+{good}"]  # it has a rule of its own
    bad = written(tmp_path, RULE.replace("theta.lerp", "theta.lurp"), "bad.py")
    verdict_of_file, *rest = verdicts(Subject(str(bad)))
    assert verdict_of_file.why.startswith("bad.py, line 20: AttributeError")
    assert {verdict.why for verdict in rest} == {None}


def test_the_command_prints_a_table_and_ends_with_1_where_something_does_not_hold(tmp_path, capsys):
    path = written(tmp_path, RULE.replace("= 0.5", "= 1.0"))
    with pytest.raises(SystemExit) as ended:
        app(["check", str(path), "--alone"], prog_name="fedcli")
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    expected = len(CHECKS) - 1
    assert out.count("holds") == expected
    assert out.count("FAILS") == 1
    assert (
        "1 check does not hold; the first: part-way, It comes to another model than FedAvg" in err
    )
    result = {verdict.why for verdict in verdicts(Subject("fedavg"))}
    assert result == {""}  # it is no other than itself
    with pytest.raises(SystemExit) as ended:
        app(["check", str(path), "--alone", "--set", "share=0.5", "--json"], prog_name="fedcli")
    assert ended.value.code == 0
    result = len(json.loads(capsys.readouterr().out)["part-way"])
    assert result == len(CHECKS)
