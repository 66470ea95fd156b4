"""Permissions of a site, from its policy.toml, whose lines are the fields below.

docs/sites.md shows one.

A site without one allows all but what no site would. Every refusal is a sentence that the
coordinator shows.
"""

import hashlib
import json
import math
import secrets
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch

from .. import console, options
from ..errors import FedcliError, UsageError, nearest
from ..federation.client import ClientReport, ClientTask
from ..federation.privacy import epsilon, noised_model
from ..io import toml_text
from ..io.files import read_text, replacing, write_text
from ..methods import resolve
from ..runs import own_code
from ..runs.rules import check
from ..runs.train_options import TrainOptions
from ..shapes import NUMBER, read_json
from .description import SMALLEST

COLUMNS = {  # that fedcli's own methods report
    "accuracy",
    "amplitudes",
    "candidate_key",
    "cell_counts",
    "cell_losses",
    "class_covariances",
    "class_images",
    "class_losses",
    "class_means",
    "cluster",
    "control_change",
    "counted",
    "creff_gradient",
    "creff_has",
    "dense_mean",
    "direction",
    "discrepancy",
    "divergence_loss",
    "dual",
    "feature_n",
    "feature_sum",
    "gap",
    "gradient_norm",
    "group_class_counts",
    "group_counts",
    "group_losses",
    "group_predictions",
    "label_entropy",
    "local_steps_effective",
    "loss",
    "loss_before",
    "moved",
    "mu",
    "rescue_factor",
    "sharpness",
    "snr",
    "squared_length",
    "supervised_loss",
    "training_accuracy",
    "training_loss",
    "trains",
    "validation_accuracy",
    "validation_images",
    "validation_loss",
    "without_me",
}
T = TypeVar("T", "Policy", "Privacy")
MOST_ANSWERS = 1_000_000  # beyond which nobody counts
KEY = "noise.key"
LEDGER = "privacy.json"
SHAPE = {"answered": [str], "epsilon": NUMBER, "delta": NUMBER}


class Refusal(FedcliError):
    """A request that the policy of a site does not allow."""


@dataclass(frozen=True)
class Privacy:
    """The [privacy] table: the noise of an update, and a bound on what all of them reveal."""

    clip: Annotated[float, "largest norm of an update, > 0"] = 1.0
    noise: Annotated[float, "standard deviation of the noise, in units of clip, > 0"] = 20.0
    epsilon: Annotated[float, "that all answers of this site together may reach, > 0"] = 8.0
    delta: Annotated[float, "of that epsilon, in (0, 1)"] = 1e-5

    @property
    def answers(self) -> int:
        """The number of answers that stay within epsilon, at most MOST_ANSWERS."""
        numbers = range(MOST_ANSWERS + 1)
        return bisect(numbers, self.epsilon, key=self.spent) - 1

    def spent(self, answers: int) -> float:
        """The epsilon that so many answers reveal."""
        return epsilon(self.noise, answers, self.delta)


@dataclass(frozen=True)
class Policy:
    """A policy file. None stands for no limit."""

    methods: Annotated[tuple[str, ...], "methods that may be trained; none: every one"] = ()
    # columns that may be sent beside the model; None: all that a method reports
    columns: tuple[str, ...] | None = None
    minimum_images: Annotated[int, "training images, >= 0"] = 0
    smallest_cell: Annotated[int, "images of a count that is shown, >= 1"] = SMALLEST
    maximum_rounds: Annotated[int, "rounds of a run, >= 0; 0: any number"] = 0
    # without it no model leaves after a single step, nor a column as long as the model
    gradients: Annotated[bool, "whether a single step's update may leave"] = True
    smallest_sum: Annotated[int, "least number of sites in a sum of masked models, >= 2"] = 2
    secure_aggregation: Annotated[
        bool, "whether a model is sent only masked, for a sum over the sites"
    ] = False
    quality: Annotated[bool | None, "whether histograms of the quality of its images may leave"] = (
        None
    )
    scores: Annotated[bool | None, "whether counts of predictions on its test images may leave"] = (
        None
    )
    privacy: Privacy | None = None

    @property
    def allows_scores(self) -> bool:
        """True where counts of predictions may leave."""
        return self._allows(self.scores)

    @property
    def allows_quality(self) -> bool:
        """True where histograms of image quality may leave."""
        return self._allows(self.quality)

    def _allows(self, answer: bool | None) -> bool:
        """The answer; where there is none, counts may leave, but not beside noised updates."""
        return self.privacy is None if answer is None else answer

    @property
    def allowed_columns(self) -> tuple[str, ...] | None:
        """None for all; with privacy, which covers the model alone, only those that are listed."""
        return () if self.privacy and self.columns is None else self.columns

    def check_plan(self, plan: TrainOptions, images: int) -> None:
        """Raises Refusal before a run. images: for training."""
        name = check(plan).name
        if self.methods and name not in self.methods:
            raise Refusal(f"its policy allows the methods {', '.join(self.methods)}, not {name}")
        if images < self.minimum_images:
            raise Refusal(
                f"it has {images} training images; its policy asks for at least "
                f"{self.minimum_images}"
            )
        self.check_round(plan.rounds)

    def check_round(self, round: int) -> None:
        """Raises Refusal for a round beyond the last that is allowed."""
        if self.maximum_rounds and round > self.maximum_rounds:
            raise Refusal(f"its policy allows {self.maximum_rounds} rounds, not {round}")

    def check_scores(self) -> None:
        """Raises Refusal where counts of predictions may not leave."""
        if not self.allows_scores:
            sentence = "its policy does not allow counts of its test images to be sent"
            raise Refusal(sentence, "write scores = true there")

    def check_quality(self, images: int) -> None:
        """Raises Refusal before the quality of so many images is described."""
        if not self.allows_quality:
            sentence = "its policy does not allow histograms of image quality to leave"
            raise Refusal(sentence, "write quality = true there")
        if images < self.smallest_cell:
            raise Refusal(
                f"it has {images} images, too few for one cell of a histogram: "
                f"smallest_cell is {self.smallest_cell}",
                "leave --quality out",
            )

    def check_masked(self, sites: Any) -> None:
        """Raises Refusal for a model without a mask, or with one for a sum over too few sites.

        sites: over which the sum is that a model is masked for; None where it is not.
        """
        if sites is None:
            if self.secure_aggregation:
                sentence = "its policy allows only masked models, in a sum over the sites"
                raise Refusal(sentence, "train with --engine flower-secagg:DIR")
        elif type(sites) is not int or sites < self.smallest_sum:
            raise Refusal(
                f"its policy asks for sums over at least {self.smallest_sum} sites, "
                f"not {str(sites)[:20]}"
            )

    def check_report(self, report: ClientReport, trainable: int) -> None:
        """Raises Refusal before a report leaves. trainable: numbers of the model that train."""
        if self.allowed_columns is not None:
            for name in sorted(report.columns.keys() - set(self.allowed_columns)):
                sentence = f"its policy does not allow the column {name!r} to be sent"
                raise Refusal(sentence, "allow it, or train another method")
        if self.gradients:
            return
        if report.steps == 1:
            raise Refusal(
                "its policy allows no gradients, and the model after a single step shows one"
            )
        for name, column in report.columns.items():
            if column.numel() >= trainable > 0:
                raise Refusal(
                    f"its policy allows no gradients, and the column {name!r} is as long as one"
                )


def read(path: Path | None) -> Policy:
    """The policy in a file; None is the one that allows all. Raises FedcliError, UsageError."""
    if path is None:
        return Policy()
    table = toml_text.read(path, "docs/sites.md shows a policy")
    privacy = table.pop("privacy", None)
    if not isinstance(privacy, dict | None):
        raise UsageError(f"{path}: privacy is not a table", "write [privacy] on a line of its own")
    policy = _filled(path, Policy(), table)
    policy = replace(policy, methods=_named_methods(path, policy.methods))
    for column in sorted(set(policy.columns or ()) - COLUMNS):
        hint = nearest(column, COLUMNS)
        console.warn(f"{path}: no method of fedcli reports a column {column!r}; {hint}")
    if privacy is not None:
        policy = replace(policy, privacy=_filled(path, Privacy(), privacy))
    return policy


def _filled(path: Path, target: T, table: dict[str, Any]) -> T:
    """A policy or its table of privacy with what a file says, checked. Raises UsageError."""
    fields = options.describe(target)
    for name, value in table.items():
        if name not in fields:
            raise UsageError(f"{path}: a policy has no {name!r}", nearest(name, fields))
        if fields[name].many and not _is_names(value):
            raise UsageError(f"{path}: {name} is not a list of names", f'write {name} = ["..."]')
        try:
            target = options.change(
                target,
                name,
                value,
                write="{name} = {value}",
            )
        except UsageError as error:
            raise UsageError(f"{path}: {error.sentence}", error.hint) from None
    return target


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _named_methods(path: Path, specs: Iterable[str]) -> tuple[str, ...]:
    """The methods of a policy by their names; warns of one that is unknown here.

    Raises UsageError for a method that is nearly a known one.
    """
    names = []
    for spec in specs:
        if own_code.opens_files(spec, ""):
            sentence = f"{path}: {spec!r} is a file, and a site trains no method of a file"
            raise UsageError(sentence, "write its name")
        try:
            names.append(resolve(spec).name)
        except UsageError as error:
            if error.hint.startswith("did you mean"):
                raise UsageError(f"{path}: {error.sentence}", error.hint) from None
            console.warn(f"{path}: {error.sentence}, which this site cannot train")
            names.append(spec)
    return tuple(names)


def noised(
    report: ClientReport,
    task: ClientTask,
    privacy: Privacy,
    folder: Path,
    question: str,
    variances: Iterable[slice] = (),
) -> ClientReport:
    """The report with a cut and noised model and no loss, counted among the site's answers.

    federation/privacy.py has the account. The numbers of images, which weigh a model, are not
    covered: a description shows them.

    question: sha256 of the question and of the update without noise. The same question about the
    same update gets the same answer, which reveals nothing more and is not counted again.
    variances: their places in the model; one that the noise made negative is 0.
    Raises Refusal where the answer would exceed the policy's epsilon.
    """
    key = _key(folder / KEY)
    salted_question = f"{key}\x1f{question}"
    secret = hashlib.sha256(salted_question.encode()).digest()
    _count(privacy, folder / LEDGER, question)
    seed = int.from_bytes(secret, "big")
    theta = noised_model(
        report.theta,
        task.theta,
        privacy.clip,
        privacy.noise,
        seed,
    )
    for span in variances:
        theta[span].clamp_(min=0)
    return replace(
        report,
        theta=theta,
        loss=torch.full_like(report.loss, math.nan),
    )


def read_ledger(ledger: Path) -> tuple[list[str], float]:
    """The questions that were answered, and the epsilon they revealed then.

    Raises FedcliError where the file is damaged.
    """
    if not ledger.is_file():
        return [], 0.0
    hint = "restore it: without it the site does not know what it has revealed"
    content = read_json(ledger, SHAPE, hint)
    return content["answered"], content["epsilon"]


def _count(privacy: Privacy, ledger: Path, question: str) -> None:
    """Count an answer. Raises Refusal where it would exceed the policy's epsilon."""
    answered, _ = read_ledger(ledger)
    if question in answered:
        return
    answered.append(question)
    spent = privacy.spent(len(answered))
    if spent > privacy.epsilon:
        raise Refusal(
            f"answer {len(answered)} would reveal epsilon {spent:.3g}, "
            f"its policy allows {privacy.epsilon:g}",
            "fewer rounds, or more noise in the site's policy",
        )
    content = {"answered": answered, "epsilon": spent, "delta": privacy.delta}
    write_text(ledger, json.dumps(content) + "\n")


def _key(path: Path) -> str:
    """The site's secret, made when it is first needed; only its owner may read it."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            Path(file.name).chmod(0o600)
            file.write(secrets.token_hex(32).encode())
    return read_text(path)
