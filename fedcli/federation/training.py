"""Training of every client: the optimizer, its learning rate over the rounds, and the loss."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import UsageError, nearest
from ..methods.losses import CLASS_WEIGHTS
from ..methods.priors import PRIORS
from . import sampling

OPTIMIZERS = {
    # name: (learning rate, momentum, weight decay) the papers use
    "adam": (3e-4, 0.0, 5e-4),  # FedISM+ section 2
    "sgd": (1e-3, 0.9, 1e-5),  # FedHEAL section 2
    "adamw": (1e-3, 0.0, 1e-2),  # torch's own
}
LOSSES = ("cross-entropy", "focal")
SCHEDULES = ("constant", "cosine", "step")
# recorded only where they are not off, so that a run without them is the same as one of a version that had none
OPTIONAL = (
    "warmup",
    "nesterov",
    "clip_norm",
    "keep_optimizer",
    "label_smoothing",
    "class_weights",
    "loss",
    "sampling",
    "dp_clip",
    "dp_noise",
    "dp_delta",
    "dp_sgd",
)
LOSS_OPTIONS = ("label_smoothing", "class_weights", "loss")


@dataclass(frozen=True)
class Training:
    """The way every client trains. The optimizer starts fresh in each round, unless it is kept.

    Attributes:
        schedule: "constant", "cosine": lr falls from its start to near 0 over the rounds, or "step:ROUND,...:FACTOR":
            after each of these rounds it is multiplied by the factor.
        prior: what is added to the training logits from the client's class counts, see methods.priors.
        bn: "aggregate", "local" or "freeze" the batch-norm statistics.
        personal: keep each client's model as its training leaves it, to be scored beside the global one.
        warmup: rounds over which lr rises in a line: lr / warmup in the first, lr in the last of them.
        nesterov: momentum of sgd looks ahead.
        clip_norm: largest norm of a step's gradient; 0 cuts none.
        keep_optimizer: a client goes on with its own optimizer state of the last round that it took part in.
        label_smoothing: share of the target that all classes get alike.
        class_weights: "none", or from the client's own class counts, see methods.losses.
        loss: "cross-entropy" or "focal:GAMMA".
        sampling: how images are drawn, see sampling.py.
        dp_clip, dp_noise, dp_delta: of noise on each client's update, see privacy.py; no noise is none of it.
        dp_sgd: noise of each local step, in units of dp_clip, at which images' gradients are cut; see dp_sgd.py.
    """

    optimizer: str = "adam"
    lr: float = 3e-4
    momentum: float = 0.0
    weight_decay: float = 5e-4
    epochs: int = 1
    batch_size: int = 32
    schedule: str = "constant"
    prior: str = "none"
    bn: str = "aggregate"
    personal: bool = False
    warmup: int = 0
    nesterov: bool = False
    clip_norm: float = 0.0
    keep_optimizer: bool = False
    label_smoothing: float = 0.0
    class_weights: str = "none"
    loss: str = "cross-entropy"
    sampling: str = "shuffle"
    dp_clip: float = 1.0
    dp_noise: float = 0.0
    dp_delta: float = 1e-5
    dp_sgd: float = 0.0

    def at(self, round: int, rounds: int) -> "Training":
        """The same with the learning rate of one round, t from 1."""
        lr = self.lr
        if self.schedule == "cosine":
            lr = lr * (1 + math.cos(math.pi * (round - 1) / rounds)) / 2
        elif self.schedule != "constant":
            milestones, factor = _steps(self.schedule)
            lr = lr * factor ** sum(round > milestone for milestone in milestones)
        if round < self.warmup:
            lr = lr * round / self.warmup
        return replace(self, lr=lr)

    def changed(self, names: Iterable[str]) -> list[str]:
        """Those of these options that are not as usual."""
        return [name for name in names if getattr(self, name) != getattr(Training, name)]

    @property
    def focal(self) -> float:
        """gamma of the focal loss; 0 without it."""
        return float(self.loss.partition(":")[2] or 0)

    def check(self) -> None:
        """Raise UsageError for numbers no optimizer can work with."""
        default = usual(self.optimizer)[0]
        if self.epochs < 1:
            raise UsageError(f"--epochs {self.epochs} trains nothing", "give at least 1")
        if not 0 < self.lr < math.inf:
            raise UsageError(f"--lr {self.lr} is not above 0", f"the default of {self.optimizer} is {default:g}")
        if not 0 <= self.weight_decay < math.inf:
            raise UsageError(f"--weight-decay {self.weight_decay} is not 0 or above", "0 turns it off")
        if not 0 <= self.momentum < 1:
            raise UsageError(f"--momentum {self.momentum} is not in [0, 1)", "0.9 is common")
        for name, known in (("prior", PRIORS), ("bn", ("aggregate", "local", "freeze"))):
            if getattr(self, name) not in known:
                raise UsageError(f"--{name} {getattr(self, name)!r} is unknown", nearest(getattr(self, name), known))
        if not 1 <= self.batch_size < 2**31:
            raise UsageError(f"--batch-size {self.batch_size} is not a number of images", "32 is the default")
        if self.momentum and self.optimizer != "sgd":
            raise UsageError("--momentum belongs to sgd", "add --optimizer sgd")
        if self.nesterov and not self.momentum:
            raise UsageError("--nesterov is a kind of momentum", "add --optimizer sgd --momentum 0.9")
        if not 0 <= self.warmup < 2**31:
            raise UsageError(f"--warmup {self.warmup} is no number of rounds", "0 is none")
        if not 0 <= self.clip_norm < math.inf:
            raise UsageError(f"--clip-norm {self.clip_norm} is not a length", "5 is common, 0 turns it off")
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(f"--label-smoothing {self.label_smoothing} is not in [0, 1)", "0.1 is common")
        self._check_privacy()
        self._check_named()

    def _check_privacy(self) -> None:
        if not 0 <= self.dp_noise < math.inf:
            raise UsageError(f"--dp-noise {self.dp_noise} is no standard deviation", "0 adds none")
        if not 0 < self.dp_clip < math.inf:
            raise UsageError(f"--dp-clip {self.dp_clip} is not above 0", "1 is the default")
        if not 0 < self.dp_delta < 1:
            raise UsageError(f"--dp-delta {self.dp_delta} is not in (0, 1)", "1e-5 is the default")
        if (given := self.changed(("dp_clip", "dp_delta"))) and not (self.dp_noise or self.dp_sgd):
            what = f"--{given[0].replace('_', '-')} belongs to --dp-noise or --dp-sgd"
            raise UsageError(what, "add --dp-noise 20 for clients, or --dp-sgd 1 for single images")
        if not 0 <= self.dp_sgd < math.inf:
            raise UsageError(f"--dp-sgd {self.dp_sgd} is no standard deviation", "0 adds none")
        if self.dp_sgd and self.dp_noise:
            raise UsageError(
                "--dp-sgd and --dp-noise are two accounts, of an image and of a client", "give one of them"
            )
        if self.dp_sgd and (given := self.changed(("prior", "class_weights", "sampling"))):
            flag = f"--{given[0].replace('_', '-')}"
            raise UsageError(f"{flag} reads the client's labels, which --dp-sgd does not cover", f"leave {flag} out")

    def _check_named(self) -> None:
        """Raise UsageError for a schedule, a loss, class weights or sampling that are not one of the known ones."""
        sampling.check(self.sampling)
        if self.schedule not in SCHEDULES[:2]:
            _steps(self.schedule)
        name, colon, number = self.loss.partition(":")
        if name not in LOSSES or (name == "focal") != bool(colon):
            raise UsageError(
                f"--loss {self.loss!r} is unknown", f"{nearest(name, LOSSES)}; focal has a number: focal:2"
            )
        if name == "focal" and not 0 < _number(number) < math.inf:
            raise UsageError(f"--loss {self.loss}: {number!r} is not a number above 0", "write for example focal:2")
        name, colon, number = self.class_weights.partition(":")
        if name not in CLASS_WEIGHTS or (name == "effective") != bool(colon):
            hint = f"{nearest(name, CLASS_WEIGHTS)}; effective has a number: effective:0.999"
            raise UsageError(f"--class-weights {self.class_weights!r} is unknown", hint)
        if name == "effective" and not 0 <= _number(number) < 1:
            raise UsageError(f"--class-weights {self.class_weights}: {number!r} is not in [0, 1)", "effective:0.999")


def usual(optimizer: str) -> tuple[float, float, float]:
    """Learning rate, momentum and weight decay of an optimizer. Raises UsageError where it is unknown."""
    if optimizer not in OPTIMIZERS:
        raise UsageError(f"--optimizer {optimizer!r} is unknown", nearest(optimizer, OPTIMIZERS))
    return OPTIMIZERS[optimizer]


def idle(training: Training, rounds: int) -> list[str]:
    """Parts of the learning rate's course that lie after the last round, a sentence each."""
    sentences = []
    if training.warmup > rounds:
        sentences.append(
            f"--warmup {training.warmup} is longer than the {rounds} rounds: the learning rate ends at "
            f"{rounds}/{training.warmup} of --lr"
        )
    if training.schedule.startswith("step:"):
        late = [milestone for milestone in _steps(training.schedule)[0] if milestone >= rounds]
        listed = ", ".join(map(str, late))
        sentences += (
            [f"--schedule {training.schedule}: no round comes after {listed}, as there are {rounds}"] if late else []
        )
    return sentences


def _steps(schedule: str) -> tuple[list[int], float]:
    """The rounds and the factor of "step:ROUND,...:FACTOR". Raises UsageError."""
    name, _, rest = schedule.partition(":")
    if name not in SCHEDULES:
        raise UsageError(f"--schedule {schedule!r} is unknown", nearest(name, SCHEDULES))
    milestones, _, factor = rest.partition(":")
    rounds = milestones.split(",")
    if not all(part.isdecimal() and int(part) for part in rounds) or not 0 < _number(factor) < math.inf:
        hint = "write for example step:40:0.1, or step:30,45:0.1: after these rounds lr is multiplied by 0.1"
        raise UsageError(f"--schedule {schedule!r} is not step:ROUND,...:FACTOR", hint)
    return [int(part) for part in rounds], float(factor)


def _number(text: str) -> float:
    """NaN for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
