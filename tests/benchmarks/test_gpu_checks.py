"""Checks of every method on a GPU, played on the CPU with a stand-in for its recorded steps."""

import subprocess
import sys
from pathlib import Path

import gpu_checks
import pytest
import torch
from pretend import pretended
from tapes import Tape

from fedcli.methods import METHODS
from fedcli.models.network import LoneSafe

FEW = ["fedavg", "scaffold", "ditto"]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(gpu_checks, "METHODS", {name: METHODS[name] for name in FEW})


def test_every_check_holds_where_recorded_steps_do_what_they_should(few):
    proofs = list(gpu_checks.proofs("cpu", Tape))
    result = {proof.method: proof.failed for proof in proofs}
    expected = {name: {} for name in FEW}
    assert result == expected
    result = [proof.method for proof in proofs if not proof.recorded]
    assert result == ["ditto"]


class Forgetful(Tape):
    """Replays all but the last operation of a step."""

    def replay(self):
        self.operations = self.operations[:-1]
        super().replay()


def test_a_recording_that_leaves_something_out_is_noticed(monkeypatch):
    monkeypatch.setattr(gpu_checks, "METHODS", {"fedavg": METHODS["fedavg"]})
    (proof,) = gpu_checks.proofs("cpu", Forgetful)
    assert proof.failed["recorded steps are ordinary steps"] == "theta differs after 3 rounds"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_networks_train_whose_vectors_begin_at_any_offset(device):
    with pretended():
        assert gpu_checks.failing_offsets(device) == {}


def misaligned(x, weight, bias, mean, variance, *_):
    if any(vector.data_ptr() % 16 for vector in (weight, bias, mean, variance)):
        raise RuntimeError("CUDA error: misaligned address")
    return before_torch(x, weight, bias, mean, variance, *_)


before_torch = torch.batch_norm


def test_a_batch_norm_that_gives_cudnn_such_vectors_is_noticed(monkeypatch):
    monkeypatch.setattr(LoneSafe, "_fits_cudnn", lambda _: True)
    monkeypatch.setattr(torch, "batch_norm", misaligned)
    with pretended():
        failed = gpu_checks.failing_offsets("cuda")
    expected = {f"{precision}, {n} classes" for precision in gpu_checks.ROUNDING for n in (5, 6, 7)}
    assert set(failed) == expected
    assert failed["tf32, 7 classes"] == "RuntimeError: CUDA error: misaligned address"


HIDDEN = """
import sys
sys.modules |= dict.fromkeys(["pydicom", "albumentations", "imagecorruptions", "cv2", "matplotlib", "pandas"])
sys.path.insert(0, FOLDER)
import gpu_checks
gpu_checks.METHODS = {"fedavg": gpu_checks.METHODS["fedavg"]}
(proof,) = gpu_checks.proofs("cpu")
assert not proof.failed, proof.failed
import fedcli.commands.app
"""


def test_packages_that_read_and_corrupt_images_are_not_needed():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            HIDDEN.replace("FOLDER", repr(str(Path(gpu_checks.__file__).parent))),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
