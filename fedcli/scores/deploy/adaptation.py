"""The last round's model adapted to new test images without training, each adaptation beside none.

bn           batch-norm statistics of the new images. Source: AdaBN, Li, Wang, Shi, Liu and Hou,
             ICLR workshop 2017, arXiv 1603.04779, Algorithm 1, which takes layer after layer over
             all images; as in Nado et al., arXiv 2006.10963, section 3, batches (seeded, up to 512
             images) are normalised by themselves, in one pass, and the mean over them is kept.
prior        the class prior of the new images by EM on the model's answers. Source: Saerens,
             Latinne and Decaestecker, Neural Computation 14(1), 2002, section 2. EM needs
             calibrated answers (Alexandari, Kundaje and Shrikumar, ICML 2020, arXiv 1901.06852): a
             slope and a bias for each class are fitted to validation images first, and the old
             prior is the mean answer there. A normal prior of variance 1 on each bias is ours: a
             class without a validation image is not ruled out.
temperature  logits divided by a number fitted to validation images. Source: Guo et al., ICML 2017,
             arXiv 1706.04599.

Of the new images pixels are used, no label; validation images are those of the clients of training.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn

from ... import console, metrics
from ...data.shard import EVALUATION_BATCH, Shard
from ...errors import FedcliError, UsageError
from ...methods.contract import Local
from ...methods.mixins import GroupViews, views_of
from ...metrics import Grouping, Task, needs_every_class, probabilities
from ...metrics.of_images import number
from ...models.network import Network, has_batch_norm
from ...runs.finished import FinishedRun
from ...seeds import derive
from ..answering import answers_of
from ..clinical.points import Seen, temperature, validation
from ..facts import ScoredImages
from ..groups import Patients
from ..parts import AS_TRAINED, Adaptations, AdaptedScore
from ..statistics.bootstrap import draws, interval
from ..statistics.intervals import RESAMPLES, SEED

BN = "bn"
PRIOR = "prior"
TEMPERATURE = "temperature"
ADAPTATIONS = (BN, PRIOR, TEMPERATURE)
GAP = ""  # in place of a group of an attribute: between the best and the worst
ROUNDS = 10_000  # of EM, at most
CLOSE = 1e-9  # EM ends where no prior moves further
Array = np.ndarray
Scored = dict[str, Array]  # attribute, "" of all images -> scores [M, G + 1, 1 + B]


def check(run: FinishedRun, names: Sequence[str]) -> None:
    """Refuse an adaptation that a run cannot have. Raises FedcliError, UsageError."""
    if BN in names and not has_batch_norm(run.net):
        network = run.manifest.body["model"]["name"]
        fault = f"the network {network} of {run.path} has no batch norm to adapt"
        raise UsageError(fault, "leave --adapt bn out")
    needing = [name for name in (PRIOR, TEMPERATURE) if name in names]
    if not needing:
        return
    if run.data.test["clean"].multi_label:
        raise UsageError(
            f"--adapt {needing[0]} is about one class per image, and images have several labels",
            "leave it out",
        )
    if not any(len(shard) for shard in run.data.val.values()):
        raise FedcliError(
            f"--adapt {needing[0]} is fitted to the clients' validation images, and {run.path} has "
            "none",
            "partition with --val 0.2 and train again",
        )


def adapted(
    run: FinishedRun,
    images: ScoredImages,
    names: Sequence[str],
) -> Adaptations:
    """Scores after each adaptation with their differences from none.

    They are of all images and of each group.
    """
    calibration = None
    divisor = None
    if PRIOR in names or TEMPERATURE in names:
        chosen = validation(run, {})
        if PRIOR in names:
            calibration = Calibration.of(chosen)
        if TEMPERATURE in names:
            divisor = temperature(chosen)
    result = Adaptations(divisor)
    if calibration:
        result.prior["validation"] = _by_class(calibration.prior, images)
    turns = [(version, name) for version in run.data.test for name in (AS_TRAINED, *names)]
    as_trained: list[Array] = []
    before: Scored = {}
    for version, name in console.progress(turns, label="adapt", total=len(turns)):
        if name == PRIOR and calibration:
            tables, prior = _under_prior(calibration, as_trained)
            result.prior[version] = _by_class(prior, images)
        elif name == TEMPERATURE and divisor:
            tables = [logits / divisor for logits in as_trained]
        else:
            opened = replace(run, adapt=statistics_of if name == BN else None)
            tables = answers_of(opened, run.rounds[-1], version)
        scored = {}
        for attribute in ("", *images.groupings):
            scored[attribute] = _scored(tables, images, attribute)
        if name == AS_TRAINED:
            as_trained = tables
            before = scored
        result.scores.extend(_lines(name, version, scored, before, images))
    return result


def _under_prior(
    calibration: "Calibration", as_trained: Sequence[Array]
) -> tuple[list[Array], Array]:
    """The logits of each model under the new images' prior, and the mean of the priors [C]."""
    tables = []
    priors = []
    for logits in as_trained:
        carried, prior = calibration.carried(logits)
        tables.append(carried)
        priors.append(prior)
    return tables, np.mean(priors, 0)


def _by_class(prior: Array, images: ScoredImages) -> dict[str, float]:
    return dict(zip(images.classes, prior.tolist(), strict=True))


def statistics_of(net: Network, shard: Shard, local: Local) -> None:
    """Put the batch-norm statistics of a shard's images into a network that is in eval mode."""
    if len(shard) < 2:
        hint = "leave --adapt bn out, or give more images"
        raise FedcliError("one test image has no batch-norm statistics", hint)
    kind = nn.modules.batchnorm._BatchNorm
    norms = [module for module in net.modules() if isinstance(module, kind)]
    net.eval()
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over batches
        norm.train()
    stream = torch.Generator().manual_seed(derive("batch-norm statistics", 0))
    order = torch.randperm(len(shard), generator=stream).to(shard.rows.device)
    batches = -(-len(shard) // EVALUATION_BATCH)
    for rows in order.tensor_split(batches):  # of equal size, so that none counts for more
        batch = shard.batch(rows)
        if isinstance(local, GroupViews):
            local.set_groups(net, shard, batch.at, views_of(local)[0])
        net(batch.x)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    net.eval()


@dataclass(frozen=True)
class Calibration:
    """Chances that hold on validation images, softmax(slope * logits + bias).

    prior: their mean there.
    """

    slope: float
    bias: Array  # [C]
    prior: Array  # [C]

    @classmethod
    def of(cls, chosen: Seen) -> "Calibration":
        """The most likely one; the problem is convex."""
        from scipy.optimize import minimize

        z = chosen.logits.astype(np.float64)  # [N, C]
        classes = z.shape[1]
        truth = np.eye(classes)[chosen.y]  # [N, C]
        tiny = np.finfo(float).tiny

        def loss(x: Array) -> tuple[float, Array]:
            p = probabilities(x[0] * z + x[1:])
            off = p - truth
            log_chances = np.log(np.maximum(p, tiny))
            likelihood = log_chances[truth == 1].sum()
            slope_gradient = (off * z).sum()
            bias_gradient = off.sum(0) + x[1:]
            penalty = (x[1:] ** 2).sum() / 2
            return penalty - likelihood, np.array([slope_gradient, *bias_gradient])

        start = np.array([1.0, *np.zeros(classes)])
        free = (None, None)
        scale_bounds = (np.exp(-3), np.exp(3))
        class_bounds = [free for _ in range(classes)]
        bounds = [scale_bounds, *class_bounds]
        x = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        calibrated = probabilities(x[0] * z + x[1:])
        prior = calibrated.mean(0)
        # 0 where logits are very large
        return cls(float(x[0]), x[1:], np.maximum(prior, tiny))

    def carried(self, logits: Array) -> tuple[Array, Array]:
        """Logits [N, C] of new images under their own prior, and that prior [C]."""
        calibrated = self.slope * logits.astype(np.float64) + self.bias
        prior = new_prior(probabilities(calibrated), self.prior)
        # Eq. 2.4, of which softmax is the right side
        return calibrated + np.log(prior / self.prior), prior


def new_prior(chances: Array, prior: Array) -> Array:
    """The class prior [C] of new images that makes their chances most likely.

    chances: [N, C], under another prior [C].
    """
    now = prior
    for _ in range(ROUNDS):
        weighted = chances * (now / prior)  # [N, C]
        before = now
        now = (weighted / weighted.sum(1, keepdims=True)).mean(0)  # Eq. 2.9
        if np.abs(now - before).max() < CLOSE:
            break
    return np.maximum(now, np.finfo(float).tiny)


def _grouping(images: ScoredImages, attribute: str) -> Grouping:
    """The groups of an attribute; of "" one group of all images."""
    if attribute:
        return images.groupings[attribute]
    return np.zeros(len(images.y), np.int64), [""]


def _scored(
    tables: Sequence[Array],
    images: ScoredImages,
    attribute: str,
) -> Array:
    """The scores of all images, or of each group and of the gap between them: [M, G + 1, 1 + B].

    They are of the images as they are and then of the resamples that every run on them has; by one
    model or in the mean over several.
    """
    codes, names = _grouping(images, attribute)
    members = [codes == code for code in range(len(names))]
    units = len(images.y) if images.units is None else images.units
    once = np.ones((len(images.y), 1), np.int64)
    plans = []
    for logits in tables:
        plans_of_members = [metrics.plan(logits[rows], images.y[rows]) for rows in members]
        plans.append(plans_of_members)
    parts = []
    for weights in chain([once], draws(units, RESAMPLES, SEED)):  # [N, b]
        models = []
        for of_groups in plans:
            groups = zip(of_groups, members, strict=True)
            sums_of_groups = [plan.sums(weights[rows]) for plan, rows in groups]
            models.append(sums_of_groups)
        parts.append(_values(models, images))
    scores = np.concatenate(parts, -1)  # [M, T, G, 1 + B]
    flat = scores.transpose(0, 1, 3, 2)  # [M, T, 1 + B, G]
    flat_gaps = metrics.gap(flat.reshape(-1, len(names)))
    gaps = flat_gaps.reshape(flat.shape[:-1])  # [M, T, 1 + B]
    return np.concatenate([scores, gaps[:, :, None]], 2).mean(1)


def _values(models: Sequence[Sequence[Any]], images: ScoredImages) -> Array:
    """The metrics [M, T, G, b] of sums of each model and group."""
    values = []
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is the NaN that is meant
        for name in _shown(images):
            metric = metrics.get(name)
            of_models = []
            for groups in models:
                of_models.append([metric.of(sums) for sums in groups])
            values.append(of_models)
    return np.array(values)


def _lines(
    name: str,
    version: str,
    scored: Scored,
    before: Scored,
    images: ScoredImages,
) -> Iterator[AdaptedScore]:
    units = np.arange(len(images.y)) if images.units is None else images.units
    for attribute, scores in scored.items():
        codes, names = _grouping(images, attribute)
        patients = images.patients_by_group[attribute] if attribute else [images.patients]
        groups = [*names, GAP] if attribute else names
        for g, group in enumerate(groups):
            members = codes == g if g < len(names) else codes >= 0
            patients_in_group = np.unique(units[members])
            several = name != AS_TRAINED and len(patients_in_group) > 1
            for m, metric in enumerate(_shown(images)):
                off = scores[m, g] - before[attribute][m, g]  # [1 + B], in equal resamples
                compared = [patients[g]] if g < len(names) else _scored_ones(patients, scores[m])
                low = high = None
                if several and _has_interval(metric, compared):
                    low, high = interval(off[1:])
                value = number(scores[m, g, 0])
                difference = None if name == AS_TRAINED else number(off[0])
                yield AdaptedScore(
                    adaptation=name,
                    version=version,
                    attribute=attribute,
                    group=group,
                    metric=metric,
                    images=int(members.sum()),
                    value=value,
                    difference=difference,
                    low=low,
                    high=high,
                )


def _scored_ones(patients: Sequence[Patients], scores: Array) -> list[Patients]:
    """The patients of each group that has a score. scores: [G + 1, 1 + B]."""
    return [group for group, row in zip(patients, scores, strict=False) if np.isfinite(row[0])]


def _has_interval(metric: str, groups: Sequence[Patients]) -> bool:
    """Tell whether a difference has an interval: no class of its groups is that of one patient."""
    return not needs_every_class(metric) or all(patients.has_interval for patients in groups)


def _shown(images: ScoredImages) -> list[str]:
    """The usual metrics of the task, and how far off its chances are."""
    usual = Task.of(images.y).usual
    if images.y.ndim == 2:
        return [*usual, "calibration_error_macro"]
    return ["accuracy", *usual, "calibration_error_top_label"]
