"""Training of every client: the optimizer, its learning rate over the rounds, and the loss."""

import copy
import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from ..errors import UsageError, nearest
from ..options import COMMON, Flag, Options

USUAL = {
    # optimizer: (learning rate, momentum, weight decay) of a network from random weights
    "adam": (1e-3, 0.0, 5e-4),  # measured, see docs/settings.md; weight decay: FedISM+ section 2
    "sgd": (1e-3, 0.9, 1e-5),  # FedHEAL section 2
    "adamw": (1e-3, 0.0, 1e-2),  # torch's own
}
FINE_TUNING = {
    "adam": 3e-4
}  # learning rates of a network that starts from --weights: FedISM+ section 2
CLASSIFIER = {
    "adam": 3e-3
}  # learning rates of a classifier on a frozen network: measured, see docs/settings.md
SCHEDULES = ("constant", "cosine", "step")
METHOD = "Method"
OPTIMIZER = "Optimizer"
OPEN = Flag(panel=OPTIMIZER, open=True)
OPEN_PART = Flag(panel=OPTIMIZER, open=True, within="optimizer")
PART = Flag(panel=OPTIMIZER, within="optimizer")
NETWORK = "Network"
RARE = "Rare classes"
PRIVACY = "Privacy"
HOW = "", OPTIMIZER, PRIVACY  # headings of options that say how a client trains


@dataclass(frozen=True, kw_only=True)
class Training(Options):
    """The way every client trains. The optimizer starts fresh in each round, unless it is kept."""

    panel: ClassVar[str] = "Training"
    epochs: Annotated[int, "passes over a client's images per round, >= 1", COMMON] = 1
    batch_size: Annotated[int, "images per local step, >= 1", Flag(marks=("second",))] = 32
    optimizer: Annotated[
        Literal["adam", "sgd", "adamw"],
        "adam (lr 1e-3, 3e-4 from --weights, 3e-3 with --freeze-backbone; weight decay 5e-4), the "
        "default, sgd (lr 1e-3, momentum 0.9, weight decay 1e-5) or adamw (lr 1e-3, weight decay "
        "1e-2); settings follow a colon: weight-decay=X, momentum=X and nesterov of sgd, clip=X "
        "(largest norm of a step's gradient), keep (its state from round to round), backbone=X "
        "(its share of the learning rate), such as sgd:momentum=0.9,nesterov",
        Flag("NAME[:PART,...]", panel=OPTIMIZER, open=True),
    ] = "adam"
    lr: Annotated[float, "local learning rate, > 0; default: the optimizer's", OPEN, COMMON] = 1e-3
    momentum: Annotated[float, "of sgd, in [0, 1); default 0.9", OPEN_PART] = 0.0
    weight_decay: Annotated[float, "of every step, >= 0; default: the optimizer's", OPEN_PART] = (
        5e-4
    )
    nesterov: Annotated[bool, "Nesterov momentum, for sgd", PART] = False
    clip_norm: Annotated[
        float,
        "largest norm of the gradient of a local step, >= 0; 0: no limit",
        Flag(typed="clip", panel=OPTIMIZER, within="optimizer"),
    ] = 0.0
    dp: Annotated[
        str,
        "differential privacy, simulated: client:NOISE adds noise to what each client "
        "sends, image:NOISE to each local step (DP-SGD; for a network without batch "
        "norm, such as --model cnn-gn). NOISE is a standard deviation in units of the "
        "norm at which a client's update, or an image's gradient, is clipped: clip=NORM, "
        "default 1. delta=X, default 1e-5, goes with the epsilon that the run states. "
        "Example: client:20,clip=0.5",
        Flag("client|image:NOISE", panel=PRIVACY, recorded=False),
    ] = ""
    dp_noise: Annotated[
        float,
        "standard deviation of noise on each client's update, in units of the clipping norm, in "
        "[0, 1000000]: client-level differential privacy, simulated; 0 adds none",
        Flag(typed="client", panel=PRIVACY, within="dp"),
    ] = 0.0
    dp_sgd: Annotated[
        float,
        "noise of each local step on the sum of images' gradients, in units of the clipping norm, "
        "in [0, 1000000]: sample-level differential privacy (DP-SGD), simulated; 0 adds none",
        Flag(typed="image", panel=PRIVACY, within="dp"),
    ] = 0.0
    dp_clip: Annotated[
        float,
        "norm at which each client's update, or each image's gradient, is cut, > 0",
        Flag(typed="clip", panel=PRIVACY, within="dp"),
    ] = 1.0
    dp_delta: Annotated[
        float,
        "delta of the epsilon that a run with noise states, in (0, 1)",
        Flag(typed="delta", panel=PRIVACY, within="dp"),
    ] = 1e-5
    keep_optimizer: Annotated[
        bool,
        "keep the state of each client's optimizer between rounds, instead of a fresh one in each",
        Flag(typed="keep", panel=OPTIMIZER, within="optimizer"),
    ] = False
    backbone: Annotated[
        float,
        "learning rate of the backbone, as a share of the classifier's, in (0, 1]",
        Flag(panel=OPTIMIZER, within="optimizer", recorded="on"),
    ] = 1.0
    schedule: Annotated[
        str,
        "of the learning rate over the rounds: constant, the default, cosine, or "
        "step:ROUND,...:FACTOR, which multiplies it by FACTOR after each of these "
        "rounds; then :warmup=N, rounds over which it rises linearly, such as "
        "cosine:warmup=5",
        OPEN,
    ] = "constant"
    warmup: Annotated[
        int,
        "rounds over which the learning rate rises linearly, >= 0",
        Flag(panel=OPTIMIZER, within="schedule"),
    ] = 0
    loss: Annotated[
        str,
        "cross-entropy, or focal:GAMMA; then :smoothing=X, the share of the target that "
        "is spread evenly over all classes",
        Flag(panel=RARE, label="{} loss"),
    ] = "cross-entropy"
    class_weights: Annotated[
        str,
        "how classes count in the loss, from the client's own counts: none, balanced (1 / count) "
        "or effective:BETA (effective numbers)",
        Flag(panel=RARE, label="{} class weights"),
    ] = "none"
    sampling: Annotated[
        str,
        "how a client draws its training images: shuffle (each once), or evenly over class, group "
        "or group-class, with repeats; group:NAME and group-class:NAME name the attribute",
        Flag(panel=RARE, label="sampling {}"),
    ] = "shuffle"
    label_smoothing: Annotated[
        float,
        "share of the target that is spread evenly over all classes, in [0, 1)",
        Flag(typed="smoothing", panel=RARE, label="{} label smoothing", within="loss"),
    ] = 0.0
    prior: Annotated[
        Literal["none", "bsm", "fedlc", "logit-adjust", "logit-adjust-all"],
        "correct for rare classes by a client's class counts: none, bsm, fedlc or "
        "logit-adjust; by the counts of all clients: logit-adjust-all; default: if the "
        "rarest class has under a tenth of the training images of the most common, "
        "logit-adjust-all with --freeze-backbone and logit-adjust without, else none",
        Flag(panel=RARE, label="prior {}", open=True),
        COMMON,
    ] = "none"
    personal: Annotated[
        bool,
        "also keep and score each client's model after its local training",
        Flag(panel=METHOD),
    ] = False
    bn: Annotated[
        Literal["aggregate", "local", "freeze"],
        "batch-norm statistics: aggregate, local or freeze",
        Flag(panel=NETWORK),
    ] = "aggregate"

    def at(self, round: int, rounds: int) -> "Training":
        """A copy with the learning rate of one round, t from 1."""
        lr = self.lr
        if self.schedule == "cosine":
            lr = lr * (1 + math.cos(math.pi * (round - 1) / rounds)) / 2
        elif self.schedule != "constant":
            milestones, factor = steps(self.schedule)
            passed = sum(round > milestone for milestone in milestones)
            lr = lr * factor**passed
        if round < self.warmup:
            lr = lr * round / self.warmup
        training = copy.copy(self)  # replace() would check every option again for every client
        object.__setattr__(training, "lr", lr)
        return training

    @property
    def focal(self) -> float:
        """The gamma of the focal loss; 0 without it."""
        gamma = self.loss.partition(":")[2]
        return float(gamma or 0)


def idle(training: Training, rounds: int) -> list[str]:
    """Parts of the learning rate's course that lie after the last round, a sentence each."""
    sentences = []
    if training.warmup > rounds:
        sentences.append(
            f"warmup={training.warmup} of --schedule is longer than the {rounds} rounds: the "
            f"learning rate ends at {rounds}/{training.warmup} of --lr"
        )
    if training.schedule.startswith("step:"):
        milestones, _ = steps(training.schedule)
        late = [str(milestone) for milestone in milestones if milestone >= rounds]
        if late:
            sentences.append(
                f"--schedule {training.schedule}: no round comes after {', '.join(late)}, "
                f"as there are {rounds}"
            )
    return sentences


def steps(schedule: str) -> tuple[list[int], float]:
    """The rounds and the factor of "step:ROUND,...:FACTOR". Raises UsageError."""
    name, _, rest = schedule.partition(":")
    if name not in SCHEDULES:
        raise UsageError(f"--schedule {schedule!r} is unknown", nearest(name, SCHEDULES))
    milestones, _, factor = rest.partition(":")
    rounds = milestones.split(",")
    are_rounds = all(part.isdecimal() and int(part) for part in rounds)
    if not are_rounds or not 0 < number(factor) < math.inf:
        raise UsageError(
            f"--schedule {schedule!r} is not step:ROUND,...:FACTOR",
            "write for example step:40:0.1, or step:30,45:0.1: after these rounds lr is multiplied "
            "by 0.1",
        )
    return [int(part) for part in rounds], float(factor)


def number(text: str) -> float:
    """The number in a text; NaN where it holds none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
