"""An update with noise, and how much all of them together reveal of a site's images.

A site's update is the difference of its model to the one it received, cut at the norm C, with normal noise of standard
deviation `noise` C on every number. Exchanging any of its images, even all, moves a cut update by at most 2 C. So k
answers reveal as much as one with noise / (2 sqrt(k)) standard deviations, whose delta for an epsilon is known exactly:

    delta = Phi(1 / 2s - epsilon s) - exp(epsilon) Phi(-1 / 2s - epsilon s),    s = noise / (2 sqrt(k))

Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, arXiv 1805.06530,
Theorem 8; that k normal mechanisms are one: Dong, Roth and Su, arXiv 1905.02383, Corollary 3.3.
The numbers of images, which weigh a model, are not covered: a description shows them. Normal numbers of float64 have
gaps, through which exact values could in principle be told (Mironov, CCS 2012); this is not defended against.
"""

import hashlib
import json
import math
import secrets
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.special import log_ndtr

from ..errors import FedcliError
from ..federation.client import Report, Task
from ..files import read_text, replacing, write_text
from .policy import Privacy, Refusal

KEY = "noise.key"
LEDGER = "privacy.json"
LARGEST_EPSILON = 1e4


def epsilon(noise: float, answers: int, delta: float) -> float:
    """What so many answers together reveal; noise: in units of the norm that updates are cut at."""
    if not answers:
        return 0.0
    s = noise / (2 * math.sqrt(answers))
    low, high = 0.0, LARGEST_EPSILON
    if _delta(s, high) > delta:
        return math.inf
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(s, middle) > delta else (low, middle)
    return high


def _delta(s: float, epsilon: float) -> float:
    """Theorem 8."""
    first, second = log_ndtr(1 / (2 * s) - epsilon * s), epsilon + log_ndtr(-1 / (2 * s) - epsilon * s)
    return float(np.exp(first) * -np.expm1(min(second - first, 0.0)))


def noised(report: Report, task: Task, privacy: Privacy, folder: Path, asked: str) -> Report:
    """The report with a cut and noised model and no loss, counted among the site's answers.

    asked: sha256 of the question and of all that decides the answer. The same question gets the same answer, which
    reveals nothing more and is not counted again. Raises Refusal where the answer would exceed the policy's epsilon.
    """
    update = (report.theta - task.theta).double().cpu().numpy()  # [P]
    norm = float(np.linalg.norm(update))
    if not math.isfinite(norm):
        raise FedcliError("its update is not finite (NaN or infinity)", "lower --lr")
    secret = hashlib.sha256(f"{_key(folder / KEY)}\x1f{asked}".encode()).digest()
    _count(privacy, folder / LEDGER, asked)
    draws = np.random.Generator(np.random.PCG64(int.from_bytes(secret, "big"))).standard_normal(len(update))
    update = update * min(1.0, privacy.clip / max(norm, 1e-12)) + privacy.noise * privacy.clip * draws
    theta = task.theta + torch.from_numpy(update).to(task.theta)
    return replace(report, theta=theta, loss=torch.full_like(report.loss, math.nan))


def _count(privacy: Privacy, ledger: Path, asked: str) -> None:
    """Add a question to those that were answered, before its answer leaves."""
    known: list[str] = json.loads(read_text(ledger))["answered"] if ledger.is_file() else []
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
