"""Options of a training that may not go together, a line each; ranges are with the options themselves."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import models
from .. import options as options_of
from ..data.transforms import check_augment
from ..errors import UsageError, nearest
from ..federation import sampling
from ..federation.training import number, steps
from ..labels import is_multi_label
from ..methods.contract import Aggregator
from ..methods.losses import CLASS_WEIGHTS
from ..methods.mixins import BalancedSampling, ContinuesRun, LearnsFromTeacher, LinearHeadOnly
from ..methods.registry import METHODS, Method, resolve
from ..models.adapted import Adapters
from .train_options import TrainOptions

LOSSES = ("cross-entropy", "focal")
ONE_LABEL = (
    "none",
    "balanced",
    "shuffle",
    "group",
)  # priors, class weights and sampling that several labels have too
Body = Mapping[str, Any]  # of the manifest of the data


@dataclass(frozen=True)
class Rule:
    """A combination that is refused.

    Attributes:
        found: (options, method, body) -> what is wrong, falsy where nothing is.
        sentence, hint: of the refusal, with {o.FIELD} of the options, {m.FIELD} of the method, {d[KEY]} of the data's
            body, and {found}.
    """

    found: Callable[[TrainOptions, Method, Body], Any]
    sentence: str
    hint: str


def changed(options: TrainOptions, *names: str) -> str:
    """The flag of the first of these options that is not as usual."""
    return next((f"--{option.typed}" for option in options.unusual(*names)), "")


def noise(options: TrainOptions) -> str:
    """The flag of differential privacy that is given."""
    return changed(options, "dp_noise", "dp_sgd")


def covered(method: Method) -> bool:
    """Tell whether --dp-sgd covers all that a method takes from images."""
    rule = type(method.aggregator)
    measures = (rule.measure_global, rule.measure_local) != (
        Aggregator.measure_global,
        Aggregator.measure_local,
    )
    declared = vars(type(method.local)).get(
        "images_in_loss_alone", False
    )  # of itself: a subclass may do more
    return declared and not measures


def plain(method: Method) -> str:
    """The method that stands for one whose clients cannot train alone; "" for one whose clients can."""
    if method.local.works_without_server and method.aggregator.works_without_server:
        return ""
    base = resolve("fedavg" if method.code else method.name.partition("+")[0])
    return (
        base.name
        if base.local.works_without_server and base.aggregator.works_without_server
        else "fedavg"
    )


def takes_prior(options: TrainOptions, method: Method) -> bool:
    """Tell whether nothing in options and method corrects for class counts yet, or keeps them private."""
    balanced = method.local.own_prior or isinstance(method.local, BalancedSampling)
    return not balanced and not options.unusual("loss", "class_weights", "sampling", "dp_sgd")


def acting(options: TrainOptions, method: Method) -> dict[str, Any]:
    """The method's options that can change a number: where clients train alone, those of its local half."""
    return options_of.values(method.local) if options.single_site else method.settings


def replaced(method: Method) -> list[str]:
    """Names of options in whose place the method has something of its own; all but bn are refused."""
    local = method.local
    own = {
        ("prior",): local.own_prior,
        ("loss", "class_weights", "label_smoothing"): local.own_loss,
        ("sampling",): isinstance(local, BalancedSampling),
        ("freeze_backbone",): local.freezes,
        ("bn",): local.own_norms,
    }
    return [name for names, replaces in own.items() if replaces for name in names]


def _one_label(options: TrainOptions, method: Method) -> str:
    texts = method.head == "prompts" and models.describe(options.model).kind == "clip"
    why = method.local.needs_one_label or method.aggregator.needs_one_label
    return why or "on a CLIP network it chooses one of the class texts by a softmax" * texts


NO_PRIVATE = "methods that fit: " + ", ".join(
    name for name, method in METHODS.items() if covered(method)
)
UNCOVERED = Rule(
    lambda o, m, _: not covered(m),
    "{m.name} takes more from images than --dp-sgd covers",
    f"{NO_PRIVATE}, and their pairs",
)
RULES = (
    Rule(
        lambda o, *_: o.name is not None and o.out,
        "--name and --out exclude each other",
        "give one of them",
    ),
    Rule(
        lambda o, *_: o.precision == "tf32" and o.device == "cpu",
        "--precision tf32 is a mode of NVIDIA's GPUs",
        "add --device cuda, or leave it out",
    ),
    Rule(
        lambda o, *_: o.sites and o.data,
        "DATA and --sites exclude each other",
        "give the descriptions alone: images stay there",
    ),
    Rule(
        lambda o, *_: o.sites and noise(o),
        "{found} simulates noise, whose seed the server knows",
        "a site's policy.toml adds its own",
    ),
    Rule(
        lambda o, *_: o.single_site and o.data and not Path(o.data).exists(),
        "no such manifest: {o.data}",
        "--single-site takes no client: each one trains by itself; leave the word out, or give a partition",
    ),
    Rule(
        lambda o, *_: o.momentum and o.optimizer != "sgd",
        "--momentum belongs to sgd",
        "add --optimizer sgd",
    ),
    Rule(
        lambda o, *_: o.nesterov and not o.momentum,
        "--nesterov is a kind of momentum",
        "add --optimizer sgd --momentum 0.9",
    ),
    Rule(
        lambda o, *_: not noise(o) and changed(o, "dp_clip", "dp_delta"),
        "{found} belongs to --dp-noise or --dp-sgd",
        "add --dp-noise 20 for clients, or --dp-sgd 1 for single images",
    ),
    Rule(
        lambda o, *_: o.dp_sgd and o.dp_noise,
        "--dp-sgd and --dp-noise are two accounts, of an image and of a client",
        "give one of them",
    ),
    Rule(
        lambda o, *_: o.dp_sgd and changed(o, "prior", "class_weights", "sampling"),
        "{found} reads the client's labels, which --dp-sgd does not cover",
        "leave {found} out",
    ),
    Rule(
        lambda o, m, _: m.local.model and m.local.model != models.describe(o.model).kind,
        "{m.name} fine-tunes a CLIP network, which {o.model} is not",
        "--model clip-vit-b16 --weights openai, or --model clip-tiny to try it",
    ),
    Rule(
        lambda o, m, _: m.local.freezes and o.freeze_backbone,
        "{m.name} freezes its network itself",
        "leave --freeze-backbone out",
    ),
    Rule(
        lambda o, *_: not o.adapters and changed(o, "adapter_layers", "local_adapters"),
        "{found} needs adapters",
        "add --adapters lora:8",
    ),
    Rule(
        lambda o, m, _: (
            o.adapters and (m.name if m.local.freezes else "--freeze-backbone" * o.freeze_backbone)
        ),
        "{found} freezes the network itself, so --adapters has no place",
        "leave one of them out",
    ),
    Rule(
        lambda o, m, _: (
            m.adapters
            and m.adapters.kind == "prompt"
            and (
                m.local.head != "linear"
                or any(isinstance(half, LinearHeadOnly) for half in (m.local, m.aggregator))
            )
        ),
        "{m.name} needs a linear classifier, which prompts replace",
        "--adapters lora keeps it",
    ),
    Rule(
        lambda o, *_: o.local_adapters and o.single_site,
        "--local-adapters keeps from the server what --single-site never sends",
        "leave one of them out",
    ),
    Rule(
        lambda o, m, _: o.local_adapters and m.families[:1] == ("personal",),
        "{m.name} has its own rule for what stays at a client",
        "leave --local-adapters out",
    ),
    Rule(
        lambda o, m, _: o.participation < 1 and m.aggregator.full_participation,
        "{m.name} needs every client in every round",
        "leave --participation at 1, or use another server rule",
    ),
    Rule(
        lambda o, m, _: (
            o.prior not in (None, "none")
            and m.local.own_prior
            and (f"write --set prior={o.prior}" if "prior" in m.settings else "leave --prior out")
        ),
        "{m.name} corrects for class counts itself, so --prior {o.prior} has no place",
        "{found}",
    ),
    Rule(
        lambda o, m, _: m.local.own_loss and changed(o, "label_smoothing", "class_weights", "loss"),
        "{m.name} has a loss of its own, so {found} has no place",
        "leave {found} out",
    ),
    Rule(
        lambda o, *_: o.single_site and o.dp_noise,
        "--dp-noise is on what clients send, and --single-site sends nothing",
        "leave one out",
    ),
    Rule(lambda o, m, d: o.dp_sgd and UNCOVERED.found(o, m, d), UNCOVERED.sentence, UNCOVERED.hint),
    Rule(
        lambda o, *_: o.dp_sgd and o.precision != "fp32",
        "--dp-sgd computes in fp32, not in {o.precision}",
        "leave --precision out",
    ),
    Rule(
        lambda o, m, _: isinstance(m.local, BalancedSampling) and o.sampling != "shuffle",
        "{m.name} draws its classes equally often itself",
        "leave --sampling out",
    ),
    Rule(
        lambda o, m, _: o.teacher and not isinstance(m.local, LearnsFromTeacher),
        "{m.name} learns from no teacher",
        "leave --teacher out, or train fed-mas or kd",
    ),
    Rule(
        lambda o, m, _: o.single_site and plain(m),
        "{m.name} lives on what clients send, so its clients cannot train alone",
        "fedcli train {found} --single-site trains them by themselves",
    ),
    Rule(
        lambda o, m, _: (
            o.single_site and next((name for name in o.set if name not in acting(o, m)), "")
        ),
        "{found} is an option of the server, which --single-site never asks",
        "leave it out",
    ),
    Rule(
        lambda o, *_: o.then and o.single_site,
        "--then {o.then} needs one model of all clients",
        "leave --then or --single-site out",
    ),
    Rule(
        lambda o, *_: o.then and noise(o),
        "--then {o.then} adds no noise, so the epsilon of {found} would not hold",
        "leave one of them out",
    ),
    Rule(
        lambda o, m, _: (
            o.then
            and (
                "--freeze-backbone"
                if o.freeze_backbone
                else "--adapters"
                if o.adapters
                else m.name
                if isinstance(m.aggregator, ContinuesRun) or m.local.freezes
                else ""
            )
        ),
        "--then {o.then} needs a backbone that {found} does not train",
        "leave one of them out",
    ),
)
OF_ONE_LABEL = (
    Rule(
        lambda o, m, d: (
            (why := m.local.needs_two_classes)
            and (n := len(d["classes"])) != 2
            and f"({why}), and {d['dataset']} has {n}"
        ),
        "{m.name} is for two classes {found}",
        "flexfair with --set within=class compares groups in any number of classes",
    ),
)
OF_SEVERAL_LABELS = (
    Rule(
        lambda o, m, _: _one_label(o, m),
        "{m.name} needs one label per image ({found}), and images of {d[dataset]} have several",
        "methods that take several: "
        + ", ".join(
            m.name
            for m in METHODS.values()
            if not (m.local.needs_one_label or m.aggregator.needs_one_label)
        ),
    ),
    Rule(
        lambda o, *_: next(
            (
                f"--{option.typed} {getattr(o, option.name)}"
                for option in o.unusual("prior", "class_weights", "sampling")
                if getattr(o, option.name).partition(":")[0] not in ONE_LABEL
            ),
            "",
        ),
        "{found} is for one label per image, and images of {d[dataset]} have several",
        "--class-weights balanced makes up for rare labels",
    ),
)


def check(options: TrainOptions) -> Method:
    """The method, resolved. Raises UsageError for values that cannot mean anything, alone or together."""
    _check_named(options)
    method = adapted(resolve(options.method or "", dict(options.set)), options.decided())
    refuse(RULES, options, method)
    if options.augment:
        check_augment(str(options.augment))
    return method


def adapted(method: Method, options: Mapping[str, Any]) -> Method:
    """The method with the adapters of options as they are recorded. Raises UsageError."""
    if not options.get("adapters"):
        return method
    layers, local = options.get("adapter_layers", ""), options.get("local_adapters", False)
    return replace(method, adapters=Adapters.of(options["adapters"], layers, local))


def check_labels(options: TrainOptions, method: Method, body: Body) -> None:
    """Refuse a method that is defined for one label per image, or for two classes, alone.

    body: of the data's manifest. Raises UsageError.
    """
    refuse(OF_SEVERAL_LABELS if is_multi_label(body) else OF_ONE_LABEL, options, method, body)


def refuse(
    rules: Iterable[Rule], options: TrainOptions, method: Method, body: Body | None = None
) -> None:
    """Raise UsageError for the first of these rules that the options break."""
    for rule in rules:
        if found := rule.found(options, method, body or {}):
            values = {"o": options, "m": method, "d": body, "found": found}
            raise UsageError(rule.sentence.format(**values), rule.hint.format(**values))


def _check_named(options: TrainOptions) -> None:
    """Raise UsageError for a schedule, a loss, class weights or sampling that are not one of the known ones."""
    sampling.check(options.sampling)
    if options.schedule not in (None, "constant", "cosine"):
        steps(options.schedule)
    for flag, said, known, with_number, example in (
        ("--loss", options.loss, LOSSES, "focal", "focal:2"),
        ("--class-weights", options.class_weights, CLASS_WEIGHTS, "effective", "effective:0.999"),
    ):
        name, colon, given = said.partition(":")
        if name not in known or (name == with_number) != bool(colon):
            hint = f"{nearest(name, known)}; {with_number} has a number: {example}"
            raise UsageError(f"{flag} {said!r} is unknown", hint)
        if name == "focal" and not 0 < number(given) < math.inf:
            raise UsageError(
                f"{flag} {said}: {given!r} is not a number above 0", f"write for example {example}"
            )
        if name == "effective" and not 0 <= number(given) < 1:
            raise UsageError(f"{flag} {said}: {given!r} is not in [0, 1)", example)
