"""What to train: every option that decides the bytes of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .. import models
from .. import options as settings_of
from ..data.transforms import check_augment
from ..errors import UsageError, nearest
from ..federation.training import LOSS_OPTIONS, Training
from ..labels import is_multi_label
from ..methods.contract import Aggregator
from ..methods.mixins import BalancedSampling, LearnsFromTeacher
from ..methods.registry import METHODS, Method, resolve

PRECISIONS = "fp32", "tf32", "bf16", "auto"
ANOTHER = "both sides need the same version of fedcli"  # where a plan that was sent cannot be read


@dataclass(frozen=True)
class Execution:
    """How a plan is carried out; none of it is an option of the method.

    Attributes:
        device: "cpu", "cuda" or "cuda:N". Equal bits are promised for one device and number of threads.
        threads: of the CPU; 0 for one where the network is small or clients train side by side, else torch's choice.
        engine: "in-process", "pool:N", "streams:N" or one that reaches sites, see federation.engines; None is what
            suits. It changes no bit.
        checkpoint_every: rounds between states; 0 keeps writing them under a share of the time.
        timeout: seconds that an engine waits for a site without a sign of life; 0 waits for as long as it takes.
        min_clients: sites that must answer in a round; 0: all that were asked.
        limits: (the federation, this, seconds of all rounds) -> a last line for timing.jsonl, see bench.limits.
        trained: what is done with the folder of a run that was trained now, and not with one that lay there.
    """

    device: str = "cpu"
    threads: int = 0
    engine: str | None = "in-process"
    checkpoint_every: int = 0
    timeout: float = 600
    min_clients: int = 0
    limits: Callable[[Any, "Execution", float], dict[str, Any] | None] | None = None
    trained: Callable[[Path], None] | None = None


ON_CPU = Execution()  # one client after another


@dataclass(frozen=True)
class Plan:
    """What to train, fully resolved."""

    method: str
    settings: dict[str, Any]  # --set, as given
    training: Training
    rounds: int
    seed: int = 0
    participation: float = 1.0
    model: str = "cnn"
    weights: str | None = None
    teacher: str | None = None
    freeze: bool = False
    augment: str | None = None
    precision: str = "fp32"
    eval_every: int = 0
    single_site: bool = False
    patience: int = 0  # rounds without a better validation score after which training stops; 0 plays all rounds

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Plan":
        """The plan that asdict() made these of. Raises UsageError where one is missing, unknown or of another type."""
        given = dict(values)
        training = given.pop("training", None)
        if not isinstance(training, dict):
            raise UsageError("a plan arrived without its training", ANOTHER)
        return cls(training=_read(Training, training), **_checked(cls, given, without="training"))

    def check(self) -> Method:
        """The method, resolved. Raises UsageError for values that cannot mean anything together."""
        self.training.check()
        method = resolve(self.method, self.settings)
        kind = models.describe(self.model).kind
        if method.local.model and method.local.model != kind:
            raise UsageError(
                f"{method.name} fine-tunes a CLIP network, which {self.model} is not",
                "--model clip-vit-b16 --weights openai, or --model clip-tiny to try it",
            )
        if method.local.freezes and self.freeze:
            raise UsageError(f"{method.name} freezes its network itself", "leave --freeze-backbone out")
        if self.augment:
            check_augment(self.augment)
        if self.rounds < 1:
            raise UsageError(f"--rounds {self.rounds} trains nothing", "give at least 1")
        if self.precision not in PRECISIONS:
            raise UsageError(f"--precision {self.precision!r} is unknown", nearest(self.precision, PRECISIONS))
        if self.eval_every < 0:
            raise UsageError(f"--eval-every {self.eval_every} is no number of rounds", "0 is never")
        if self.patience < 0:
            raise UsageError(f"--patience {self.patience} is no number of rounds", "0 plays all rounds")
        if not 0 < self.participation <= 1:
            raise UsageError(
                f"--participation {self.participation} is not in (0, 1]", "1 means every client in every round"
            )
        if self.participation < 1 and method.aggregator.full_participation:
            raise UsageError(
                f"{method.name} needs every client in every round",
                "leave --participation at 1, or use another server rule",
            )
        if self.training.prior != "none" and method.local.own_prior:
            raise UsageError(
                f"{method.name} corrects for class counts itself, so --prior {self.training.prior} has no place",
                f"write --set prior={self.training.prior}" if "prior" in method.settings else "leave --prior out",
            )
        if method.local.own_loss and (given := self.training.changed(LOSS_OPTIONS)):
            flag = f"--{given[0].replace('_', '-')}"
            raise UsageError(f"{method.name} has a loss of its own, so {flag} has no place", f"leave {flag} out")
        if self.single_site and self.training.dp_noise:
            raise UsageError("--dp-noise is on what clients send, and --single-site sends nothing", "leave one out")
        if self.training.dp_sgd:
            check_private(method)
            if self.precision != "fp32":
                raise UsageError(f"--dp-sgd computes in fp32, not in {self.precision}", "leave --precision out")
        if isinstance(method.local, BalancedSampling) and self.training.sampling != "shuffle":
            raise UsageError(f"{method.name} draws its classes equally often itself", "leave --sampling out")
        if self.teacher and not isinstance(method.local, LearnsFromTeacher):
            raise UsageError(f"{method.name} learns from no teacher", "leave --teacher out, or train fed-mas or kd")
        if self.single_site and not (method.local.works_without_server and method.aggregator.works_without_server):
            base = resolve("fedavg" if method.code else method.name.partition("+")[0])
            plain = base.name if base.local.works_without_server and base.aggregator.works_without_server else "fedavg"
            raise UsageError(
                f"{method.name} lives on what clients send, so its clients cannot train alone",
                f"fedcli train {plain} --single-site trains them by themselves",
            )
        if idle := [name for name in self.settings if self.single_site and name not in self.acting(method)]:
            raise UsageError(f"{idle[0]} is an option of the server, which --single-site never asks", "leave it out")
        return method

    def check_labels(self, body: Mapping[str, Any], method: Method) -> None:
        """Refuse a method that is defined for one label per image, or for two classes, alone.

        body: of the data's manifest. Raises UsageError.
        """
        if not is_multi_label(body):
            check_two_classes(body, method)
            return
        texts = method.local.head == "prompts" and models.describe(self.model).kind == "clip"
        why = method.local.needs_one_label or method.aggregator.needs_one_label
        if why := why or "on a CLIP network it chooses one of the class texts by a softmax" * texts:
            others = [m.name for m in METHODS.values() if not (m.local.needs_one_label or m.aggregator.needs_one_label)]
            what = f"{method.name} needs one label per image ({why}), and images of {body['dataset']} have several"
            raise UsageError(what, f"methods that take several: {', '.join(others)}")
        training = self.training
        options = {"prior": training.prior, "class-weights": training.class_weights, "sampling": training.sampling}
        for flag, given in options.items():
            if given.partition(":")[0] not in ("none", "balanced", "shuffle", "group"):
                what = f"--{flag} {given} is for one label per image, and images of {body['dataset']} have several"
                raise UsageError(what, "--class-weights balanced makes up for rare labels")

    def acting(self, method: Method) -> dict[str, Any]:
        """The method's options that can change a number: where clients train alone, those of its local half."""
        return settings_of.values(method.local) if self.single_site else method.settings


def check_two_classes(body: Mapping[str, Any], method: Method) -> None:
    """Refuse what has a meaning for two classes alone. body: of the data's manifest. Raises UsageError."""
    if (why := method.local.needs_two_classes) and len(body["classes"]) != 2:
        what = f"{method.name} is for two classes ({why}), and {body['dataset']} has {len(body['classes'])}"
        raise UsageError(what, "flexfair with --set within=class compares groups in any number of classes")


def check_private(method: Method) -> None:
    """Refuse a method of which --dp-sgd does not cover all that leaves a client. Raises UsageError."""

    def covered(half: Method) -> bool:
        rule = type(half.aggregator)
        measures = (rule.measure_global, rule.measure_local) != (Aggregator.measure_global, Aggregator.measure_local)
        declared = vars(type(half.local)).get("images_in_loss_alone", False)  # of itself: a subclass may do more
        return declared and not measures

    if not covered(method):
        fitting = [name for name, known in METHODS.items() if covered(known)]
        what = f"{method.name} takes more from images than --dp-sgd covers"
        raise UsageError(what, f"methods that fit: {', '.join(fitting)}, and their pairs")


def _read(kind: type[Training], values: dict[str, Any]) -> Training:
    return kind(**_checked(kind, values))


def _checked(kind: type, values: dict[str, Any], without: str = "") -> dict[str, Any]:
    """Values by the name of a field, each of its type. Raises UsageError."""
    known = {name: hint for name, hint in get_type_hints(kind).items() if name != without}
    if odd := sorted(known.keys() ^ values.keys()):
        raise UsageError(f"a plan arrived {'without' if odd[0] in known else 'with an unknown'} {odd[0]!r}", ANOTHER)
    for name, hint in known.items():
        allowed = tuple(
            get_origin(part) or part for part in (get_args(hint) if isinstance(hint, UnionType) else (hint,))
        )
        fits = isinstance(values[name], (*allowed, int) if float in allowed else allowed)
        if not fits or (isinstance(values[name], bool) and bool not in allowed):
            raise UsageError(f"a plan arrived whose {name} is {str(values[name])[:40]!r}", ANOTHER)
    return values
