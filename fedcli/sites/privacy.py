"""Noise of a site's policy on its updates, and the count of its answers; see federation/privacy.py for the account.

The numbers of images, which weigh a model, are not covered: a description shows them.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from ..federation.client import Report, Task
from ..federation.privacy import epsilon, noised_model
from ..io.files import read_text, replacing, write_text
from ..shapes import NUMBER
from .policy import Privacy, Refusal
from .transport.frames import read_json

KEY = "noise.key"
LEDGER = "privacy.json"
SHAPE = {"answered": [str], "epsilon": NUMBER, "delta": NUMBER}


def noised(
    report: Report, task: Task, privacy: Privacy, folder: Path, asked: str, variances: Iterable[slice] = ()
) -> Report:
    """The report with a cut and noised model and no loss, counted among the site's answers.

    asked: sha256 of the question and of the update without noise. The same question about the same update gets the same
    answer, which reveals nothing more and is not counted again. variances: their places in the model; one that the
    noise made negative is 0.
    Raises Refusal where the answer would exceed the policy's epsilon.
    """
    secret = hashlib.sha256(f"{_key(folder / KEY)}\x1f{asked}".encode()).digest()
    _count(privacy, folder / LEDGER, asked)
    theta = noised_model(report.theta, task.theta, privacy.clip, privacy.noise, int.from_bytes(secret, "big"))
    for span in variances:
        theta[span].clamp_(min=0)
    return replace(report, theta=theta, loss=torch.full_like(report.loss, math.nan))


def read_ledger(ledger: Path) -> tuple[list[str], float]:
    """The questions that were answered, and the epsilon they revealed then. Raises FedcliError where it is damaged."""
    if not ledger.is_file():
        return [], 0.0
    hint = "restore it: without it the site does not know what it has revealed"
    kept = read_json(ledger, SHAPE, hint)
    return kept["answered"], kept["epsilon"]


def _count(privacy: Privacy, ledger: Path, asked: str) -> None:
    known, _ = read_ledger(ledger)
    if asked in known:
        return
    spent = epsilon(privacy.noise, len(known) + 1, privacy.delta)
    if spent > privacy.epsilon:
        what = f"answer {len(known) + 1} would reveal epsilon {spent:.3g}, its policy allows {privacy.epsilon:g}"
        raise Refusal(what, "fewer rounds, or more noise in the site's policy")
    ledger.parent.mkdir(parents=True, exist_ok=True)
    write_text(ledger, json.dumps({"answered": [*known, asked], "epsilon": spent, "delta": privacy.delta}) + "\n")


def _key(path: Path) -> str:
    """The site's secret, made when it is first needed; only its owner may read it."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            Path(file.name).chmod(0o600)
            file.write(secrets.token_hex(32).encode())
    return read_text(path)
