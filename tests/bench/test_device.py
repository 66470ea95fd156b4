"""The checks of a GPU, played on the CPU with a stand-in for its recorded steps."""

import subprocess
import sys

import pytest
import torch
from tapes import Tape

from fedcli.bench import device
from fedcli.methods import METHODS

FEW = ["fedavg", "scaffold", "ditto"]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(device, "METHODS", {name: METHODS[name] for name in FEW})


def test_every_check_holds_where_recorded_steps_do_what_they_should(few):
    made = list(device.proofs("cpu", Tape))
    assert {proof.method: proof.failed for proof in made} == {name: {} for name in FEW}
    assert [proof.method for proof in made if not proof.recorded] == ["ditto"]


class Forgetful(Tape):
    """Replays all but the last operation of a step."""

    def replay(self):
        self.operations = self.operations[:-1]
        super().replay()


def test_a_recording_that_leaves_something_out_is_noticed(monkeypatch):
    monkeypatch.setattr(device, "METHODS", {"fedavg": METHODS["fedavg"]})
    (proof,) = device.proofs("cpu", Forgetful)
    assert proof.failed["recorded steps are ordinary steps"] == "theta differs after 3 rounds"


def test_networks_are_timed_each_way_and_one_that_cannot_run_ends_no_other(monkeypatch):
    monkeypatch.setattr(device, "SECONDS", 0.0)

    def broken(clients):
        raise RuntimeError("no compiler\nat all")

    monkeypatch.setitem(device.WAYS, "compiled", ("fp32", broken))
    monkeypatch.setattr(device.limits, "SECONDS", 0.0)
    threads = torch.get_num_threads()
    made = list(device.speeds("cpu", {("cnn", 8): 8}))
    torch.set_num_threads(threads)
    assert [speed.way for speed in made] == list(device.WAYS)
    assert all(speed.images_per_second > 0 and speed.share > 0 for speed in made[:-1])
    assert made[-1].images_per_second is None and made[-1].why == "RuntimeError: no compiler"


HIDDEN = """
import sys
sys.modules |= dict.fromkeys(["pydicom", "albumentations", "imagecorruptions", "cv2", "matplotlib", "pandas"])
from fedcli.bench import device
device.METHODS = {"fedavg": device.METHODS["fedavg"]}
(proof,) = device.proofs("cpu")
assert not proof.failed, proof.failed
import fedcli.commands.app
"""


def test_packages_that_read_and_corrupt_images_are_not_needed():
    done = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
