"""The last round's model adapted to new test images without training, each adaptation beside none.

bn           batch-norm statistics of the new images. Source: AdaBN, Li, Wang, Shi, Liu and Hou, ICLR workshop 2017,
             arXiv 1603.04779, Algorithm 1, which takes layer after layer over all images; as in Nado et al., arXiv
             2006.10963, section 3, batches (seeded, up to 512 images) are normalised by themselves, in one pass, and
             the mean over them is kept.
prior        the class prior of the new images by EM on the model's answers. Source: Saerens, Latinne and Decaestecker,
             Neural Computation 14(1), 2002, section 2. EM needs calibrated answers (Alexandari, Kundaje and Shrikumar,
             ICML 2020, arXiv 1901.06852): a slope and a bias for each class are fitted to validation images first, and
             the old prior is the mean answer there. A normal prior of variance 1 on each bias is ours: a class without
             a validation image is not ruled out.
temperature  logits divided by a number fitted to validation images. Source: Guo et al., ICML 2017, arXiv 1706.04599.

Of the new images pixels are used, no label; validation images are those of the clients of training.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import nn

from ... import console, metrics
from ...data.shard import EVALUATION_BATCH, Shard
from ...errors import FedcliError, UsageError
from ...methods.contract import Local
from ...methods.mixins import GroupViews, views_of
from ...metrics import Task, probabilities
from ...metrics.of_images import number
from ...models.network import Network, has_batch_norm
from ...runs.finished import Run
from ...seeds import derive
from ..answering import answers_of
from ..clinical.points import Seen, temperature, validation
from ..facts import Images
from ..parts import AS_TRAINED, Adapted, AdaptedScore
from ..statistics.bootstrap import draws, interval
from ..statistics.intervals import RESAMPLES, SEED

BN, PRIOR, TEMPERATURE = ADAPTATIONS = "bn", "prior", "temperature"
CALIBRATION = (
    "calibration_error_top_label",
    "calibration_error_macro",
)  # of one label per image, of several
GAP = ""  # in place of a group of an attribute: between the best and the worst
ROUNDS, CLOSE = 10_000, 1e-9  # of EM: at most so many, and until no prior moves further


def check(run: Run, names: Sequence[str]) -> None:
    """Refuse an adaptation that a run cannot have. Raises FedcliError, UsageError."""
    if BN in names and not has_batch_norm(run.net):
        what = f"the network {run.manifest.body['model']['name']} of {run.path} has no batch norm to adapt"
        raise UsageError(what, "leave --adapt bn out")
    if not (needing := [name for name in (PRIOR, TEMPERATURE) if name in names]):
        return
    if run.data.test["clean"].multi_label:
        raise UsageError(
            f"--adapt {needing[0]} is about one class per image, and images have several labels",
            "leave it out",
        )
    if not any(len(shard) for shard in run.data.val.values()):
        what = f"--adapt {needing[0]} is fitted to the clients' validation images, and {run.path} has none"
        raise FedcliError(what, "partition with --val 0.2 and train again")


def adapted(run: Run, images: Images, names: Sequence[str]) -> Adapted:
    """Scores after each adaptation with their differences from none, of all images and of each group."""
    chosen = validation(run, {}) if {PRIOR, TEMPERATURE} & {*names} else None
    calibration = Calibration.of(chosen) if chosen and PRIOR in names else None
    divisor = temperature(chosen) if chosen and TEMPERATURE in names else None
    made = Adapted(
        divisor, {"validation": _by_class(calibration.prior, images)} if calibration else {}
    )
    turns = [(version, name) for version in run.data.test for name in (AS_TRAINED, *names)]
    before: dict[str, np.ndarray] = {}
    plain: list[np.ndarray] = []
    for version, name in console.progress(turns, label="adapt", total=len(turns)):
        if name == PRIOR and calibration:
            tables, priors = map(list, zip(*map(calibration.carried, plain), strict=True))
            made.prior[version] = _by_class(np.mean(priors, 0), images)
        elif name == TEMPERATURE and divisor:
            tables = [table / divisor for table in plain]
        else:
            tables = answers_of(
                replace(run, adapt=statistics_of if name == BN else None), run.rounds[-1], version
            )
        plain = tables if name == AS_TRAINED else plain
        scored = {
            attribute: _scored(tables, images, attribute) for attribute in ("", *images.groupings)
        }
        before = scored if name == AS_TRAINED else before
        made.scores.extend(_lines(name, version, scored, before, images))
    return made


def _by_class(prior: np.ndarray, images: Images) -> dict[str, float]:
    return dict(zip(images.classes, prior.tolist(), strict=True))


def statistics_of(net: Network, shard: Shard, local: Local) -> None:
    """Put the batch-norm statistics of a shard's images into a network that is in eval mode."""
    if len(shard) < 2:
        raise FedcliError(
            "one test image has no batch-norm statistics",
            "leave --adapt bn out, or give more images",
        )
    norms = [
        module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)
    ]
    net.eval()
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over batches
        norm.train()
    stream = torch.Generator().manual_seed(derive("batch-norm statistics", 0))
    order = torch.randperm(len(shard), generator=stream).to(shard.rows.device)
    for at in order.tensor_split(
        -(-len(shard) // EVALUATION_BATCH)
    ):  # of equal size, so that none counts for more
        batch = shard.batch(at)
        if isinstance(local, GroupViews):
            local.set_groups(net, shard, batch.at, views_of(local)[0])
        net(batch.x)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    net.eval()


@dataclass(frozen=True)
class Calibration:
    """Chances that hold on validation images, softmax(slope * logits + bias); prior: their mean there."""

    slope: float
    bias: np.ndarray  # [C]
    prior: np.ndarray  # [C]

    @classmethod
    def of(cls, chosen: Seen) -> "Calibration":
        """The most likely one; the problem is convex."""
        from scipy.optimize import minimize

        z = chosen.logits.astype(np.float64)  # [N, C]
        truth = np.eye(z.shape[1])[chosen.y]  # [N, C]

        def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
            p = probabilities(x[0] * z + x[1:])
            off = p - truth
            likelihood = np.log(np.maximum(p, np.finfo(float).tiny))[truth == 1].sum()
            return (x[1:] ** 2).sum() / 2 - likelihood, np.array(
                [(off * z).sum(), *(off.sum(0) + x[1:])]
            )

        bounds = [(np.exp(-3), np.exp(3)), *[(None, None)] * z.shape[1]]
        x = minimize(
            loss, np.array([1.0, *np.zeros(z.shape[1])]), jac=True, method="L-BFGS-B", bounds=bounds
        ).x
        prior = probabilities(x[0] * z + x[1:]).mean(0)
        return cls(
            float(x[0]), x[1:], np.maximum(prior, np.finfo(float).tiny)
        )  # 0 where logits are very large

    def carried(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits [N, C] of new images under their own prior, and that prior [C]."""
        made = self.slope * logits.astype(np.float64) + self.bias
        prior = new_prior(probabilities(made), self.prior)
        return made + np.log(
            prior / self.prior
        ), prior  # Eq. 2.4, of which softmax is the right side


def new_prior(chances: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The class prior [C] of new images, of whose chances [N, C] under another prior [C] it makes most likely ones."""
    now = prior
    for _ in range(ROUNDS):
        weighted = chances * (now / prior)  # [N, C]
        before, now = now, (weighted / weighted.sum(1, keepdims=True)).mean(0)  # Eq. 2.9
        if np.abs(now - before).max() < CLOSE:
            break
    return np.maximum(now, np.finfo(float).tiny)


def _scored(tables: Sequence[np.ndarray], images: Images, attribute: str) -> np.ndarray:
    """Of all images, or of each group and of the gap between them: [M, G + 1, 1 + B], as the images are and then in the
    resamples that every run on them has; by one model or in the mean over several."""
    places, names = (
        images.groupings[attribute] if attribute else (np.zeros(len(images.y), np.int64), [""])
    )
    members = [places == g for g in range(len(names))]
    plans = [[metrics.plan(table[at], images.y[at]) for at in members] for table in tables]
    units = len(images.y) if images.units is None else images.units
    parts = []
    for weights in chain(
        [np.ones((len(images.y), 1), np.int64)], draws(units, RESAMPLES, SEED)
    ):  # [N, b]
        sums = [
            [plan.sums(weights[at]) for plan, at in zip(of, members, strict=True)] for of in plans
        ]
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is the NaN that is meant
            parts.append(
                np.array(
                    [
                        [[metrics.get(name).of(of) for of in each] for each in sums]
                        for name in _shown(images)
                    ]
                )
            )
    scores = np.concatenate(parts, -1)  # [M, T, G, 1 + B]
    flat = scores.transpose(0, 1, 3, 2)  # [M, T, 1 + B, G]
    gaps = metrics.gap(flat.reshape(-1, len(names))).reshape(flat.shape[:-1])  # [M, T, 1 + B]
    return np.concatenate([scores, gaps[:, :, None]], 2).mean(1)


def _lines(
    name: str,
    version: str,
    scored: dict[str, np.ndarray],
    before: dict[str, np.ndarray],
    images: Images,
) -> Iterator[AdaptedScore]:
    units = np.arange(len(images.y)) if images.units is None else images.units
    for attribute, scores in scored.items():
        places, names = (
            images.groupings[attribute] if attribute else (np.zeros(len(units), np.int64), [""])
        )
        for g, group in enumerate([*names, GAP] if attribute else names):
            at = places == g if g < len(names) else places >= 0
            for m, metric in enumerate(_shown(images)):
                off = scores[m, g] - before[attribute][m, g]  # [1 + B], in equal resamples
                low, high = (
                    interval(off[1:])
                    if name != AS_TRAINED and len(np.unique(units[at])) > 1
                    else (None, None)
                )
                value, difference = (
                    number(scores[m, g, 0]),
                    None if name == AS_TRAINED else number(off[0]),
                )
                yield AdaptedScore(
                    name,
                    version,
                    attribute,
                    group,
                    metric,
                    int(at.sum()),
                    value,
                    difference,
                    low,
                    high,
                )


def _shown(images: Images) -> list[str]:
    """The usual metrics of the task, and how far off its chances are."""
    several = images.y.ndim == 2
    return [*([] if several else ["accuracy"]), *Task.of(images.y).usual, CALIBRATION[several]]
