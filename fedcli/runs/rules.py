"""Options of a training that may not be combined, a rule each; ranges are with the options."""

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
from ..methods.priors import OF_ALL
from ..methods.registry import METHODS, Method, resolve
from ..models.adapted import ALL, Adapters
from .train_options import TrainOptions

LOSSES = ("cross-entropy", "focal")
# priors, class weights and sampling that several labels have too
ONE_LABEL = ("none", "balanced", "shuffle", "group")
OWN_COUNTS = "--prior logit-adjust uses the class counts of each client alone"
Body = Mapping[str, Any]  # of the manifest of the data


@dataclass(frozen=True)
class Rule:
    """A combination that is refused.

    Attributes:
        culprit: (options, method, body) -> the option or the reason at fault, or True; falsy where
            the rule is kept.
        sentence, hint: of the refusal, with {o.FIELD} of the options, {m.FIELD} of the method,
            {d[KEY]} of the data's body, and {culprit}.
    """

    culprit: Callable[[TrainOptions, Method, Body], Any]
    sentence: str
    hint: str


def changed(options: TrainOptions, *names: str) -> str:
    """The flag of the first of these options that is not as usual."""
    unusual = options.unusual(*names)
    return f"--{unusual[0].typed}" if unusual else ""


def noise(options: TrainOptions) -> str:
    """The flag of differential privacy that is given."""
    return changed(options, "dp_noise", "dp_sgd")


def covered(method: Method) -> bool:
    """Tell whether --dp image covers all that a method takes from images."""
    rule = type(method.aggregator)
    measures_global = rule.measure_global != Aggregator.measure_global
    measures_local = rule.measure_local != Aggregator.measure_local
    # of the class itself: a subclass may do more
    declared = vars(type(method.local)).get("images_in_loss_alone", False)
    return declared and not measures_global and not measures_local


def plain(method: Method) -> str:
    """The method to train in place of one whose clients cannot train alone; "" where they can."""
    if _works_alone(method):
        return ""
    base = resolve("fedavg" if method.code else method.name.partition("+")[0])
    return base.name if _works_alone(base) else "fedavg"


def _works_alone(method: Method) -> bool:
    return method.local.works_without_server and method.aggregator.works_without_server


def takes_prior(options: TrainOptions, method: Method) -> bool:
    """Tell whether nothing corrects for class counts yet, or keeps them private."""
    balanced = method.local.own_prior or isinstance(method.local, BalancedSampling)
    return not balanced and not options.unusual("loss", "class_weights", "sampling", "dp_sgd")


def class_counts_are_known(body: Body) -> bool:
    """Tell whether the manifest of the data has each client's class counts; sites keep theirs."""
    return all("class_counts" in client for client in body["roster"])


def acting(options: TrainOptions, method: Method) -> dict[str, Any]:
    """The method's options that can change a number; without a server, those of its local half."""
    return options_of.values(method.local) if options.single_site else method.settings


def replaced(method: Method) -> list[str]:
    """Names of options that the method replaces by a rule of its own; all but bn are refused."""
    local = method.local
    names = []
    if local.own_prior:
        names.append("prior")
    if local.own_loss:
        names += ["loss", "class_weights", "label_smoothing"]
    if isinstance(local, BalancedSampling):
        names.append("sampling")
    if local.freezes:
        names.append("freeze_backbone")
    if local.own_norms:
        names.append("bn")
    return names


def _without_adapters(
    options: TrainOptions,
    _method: Method,
    _body: Body,
) -> str:
    """An option of adapters where there are none."""
    if options.adapters:
        return ""
    return changed(options, "adapter_layers", "local_adapters")


def _freezes_beside_adapters(
    options: TrainOptions,
    method: Method,
    _body: Body,
) -> str:
    """The method or option beside adapters that freezes the network too."""
    if not options.adapters:
        return ""
    if method.local.freezes:
        return method.name
    return "--freeze-backbone" if options.freeze_backbone else ""


def _untrained_part(
    options: TrainOptions,
    method: Method,
    _body: Body,
) -> str:
    """The option that freezes a part of the network, where the method changes all of it."""
    if not method.local.all_weights:
        return ""
    if options.freeze_backbone:
        return "--freeze-backbone"
    return "--adapters" if options.adapters else ""


def _assumes_one_rate(
    options: TrainOptions,
    method: Method,
    _body: Body,
) -> str:
    """The method or option that leaves the backbone no learning rate of its own."""
    if options.backbone == 1:
        return ""
    local = method.local
    if local.one_rate or method.aggregator.one_rate or local.freezes:
        return method.name
    if options.adapters:
        return "--adapters"
    return "--freeze-backbone" if options.freeze_backbone else ""


def _prompts_lack_linear_head(
    _options: TrainOptions,
    method: Method,
    _body: Body,
) -> bool:
    if not method.adapters or method.adapters.kind != "prompt":
        return False
    local = method.local
    linear_only = isinstance(local, LinearHeadOnly) or isinstance(method.aggregator, LinearHeadOnly)
    return linear_only or local.head != "linear"


def _prior_of_method(options: TrainOptions, method: Method, _body: Body) -> str:
    """The way out where --prior is given and the method has one of its own."""
    if options.prior in (None, "none") or not method.local.own_prior:
        return ""
    if "prior" in method.settings and options.prior != OF_ALL:
        return f"write --set prior={options.prior}"
    return "leave --prior out"


def _loss_of_method(options: TrainOptions, method: Method, _body: Body) -> str:
    """An option of the loss where the method has a loss of its own."""
    if not method.local.own_loss:
        return ""
    return changed(options, "label_smoothing", "class_weights", "loss")


def _server_option(options: TrainOptions, method: Method, _body: Body) -> str:
    """An option of the server where there is none."""
    if options.single_site:
        used = acting(options, method)
        for name in options.set:
            if name not in used:
                return name
    return ""


def _untrained_backbone(
    options: TrainOptions,
    method: Method,
    _body: Body,
) -> str:
    """The reason that the backbone, which a second stage needs, does not train."""
    if not options.then:
        return ""
    if options.freeze_backbone:
        return "--freeze-backbone"
    if options.adapters:
        return "--adapters"
    if method.local.freezes or isinstance(method.aggregator, ContinuesRun):
        return method.name
    return ""


def _other_than_two_classes(
    _options: TrainOptions,
    method: Method,
    body: Body,
) -> str:
    reason = method.local.needs_two_classes
    count = len(body["classes"])
    if not reason or count == 2:
        return ""
    return f"({reason}), and {body['dataset']} has {count}"


def _needs_one_label(options: TrainOptions, method: Method, _body: Body) -> str:
    """The reason why the method needs one label per image."""
    reason = method.local.needs_one_label or method.aggregator.needs_one_label
    if reason:
        return reason
    if method.head == "prompts" and models.describe(options.model).kind == "clip":
        return "on a CLIP network it chooses one of the class texts by a softmax"
    return ""


def _option_of_one_label(
    options: TrainOptions,
    _method: Method,
    _body: Body,
) -> str:
    for option in options.unusual("prior", "class_weights", "sampling"):
        value = getattr(options, option.name)
        if value.partition(":")[0] not in ONE_LABEL:
            return f"--{option.typed} {value}"
    return ""


def _takes_several_labels(method: Method) -> bool:
    return not (method.local.needs_one_label or method.aggregator.needs_one_label)


NO_PRIVATE = ", ".join(name for name, method in METHODS.items() if covered(method))
SEVERAL_LABELS = ", ".join(m.name for m in METHODS.values() if _takes_several_labels(m))
UNCOVERED = Rule(
    lambda _o, m, _d: not covered(m),
    "{m.name} takes more from images than --dp image covers",
    f"methods that fit: {NO_PRIVATE}, and their pairs",
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
        "{culprit} simulates noise, whose seed the server knows",
        "a site's policy.toml adds its own",
    ),
    Rule(
        lambda o, *_: str(o.data or "").isdigit() and not Path(o.data).exists(),
        "no such manifest: {o.data}",
        "several seeds are written --seeds 3, or --seeds 0,{o.data}",
    ),
    Rule(
        lambda o, *_: o.single_site and o.data and not Path(o.data).exists(),
        "no such manifest: {o.data}",
        "--single-site takes no client: each one trains by itself; leave the word out, "
        "or give a partition",
    ),
    Rule(
        lambda o, *_: o.local_adapters == ALL and o.data and not Path(o.data).exists(),
        "no such manifest, and no value of --local-adapters: {o.data}",
        "write --local-adapters all, or low-rank adapters: --local-adapters lora:4 or svd-lora:4",
    ),
    Rule(
        lambda o, *_: o.momentum and o.optimizer != "sgd",
        "momentum needs the optimizer sgd",
        "write --optimizer sgd:momentum={o.momentum}, or with --over add --optimizer sgd",
    ),
    Rule(
        lambda o, *_: o.nesterov and not o.momentum,
        "nesterov needs a momentum",
        "write --optimizer sgd:momentum=0.9,nesterov",
    ),
    Rule(
        _assumes_one_rate,
        "{culprit} leaves the backbone no learning rate of its own",
        "leave backbone={o.backbone} of --optimizer out",
    ),
    Rule(
        lambda o, *_: not noise(o) and changed(o, "dp_clip", "dp_delta"),
        "{culprit} has no effect without noise",
        "write --dp client:20 for clients, or --dp image:1 for single images",
    ),
    Rule(
        lambda o, *_: o.dp_sgd and o.dp_noise,
        "--dp client and --dp image are two accounts, of a client and of an image",
        "give one of them",
    ),
    Rule(
        lambda o, *_: o.dp_sgd and changed(o, "prior", "class_weights", "sampling"),
        "{culprit} reads the client's labels, which --dp image does not cover",
        "leave {culprit} out",
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
        _untrained_part,
        "{m.name} changes all weights of the network, and {culprit} freezes most of them",
        "leave {culprit} out",
    ),
    Rule(
        _without_adapters,
        "{culprit} needs adapters",
        "add --adapters lora:8",
    ),
    Rule(
        _freezes_beside_adapters,
        "{culprit} freezes the network itself, so --adapters cannot be used",
        "leave one of them out",
    ),
    Rule(
        _prompts_lack_linear_head,
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
        _prior_of_method,
        "{m.name} corrects for class counts itself, so --prior {o.prior} has no place",
        "{culprit}",
    ),
    Rule(
        lambda o, *_: o.prior == OF_ALL and o.single_site,
        "--prior {o.prior} needs the class counts of all clients, and --single-site sends nothing",
        OWN_COUNTS,
    ),
    Rule(
        _loss_of_method,
        "{m.name} has its own loss, so {culprit} cannot be used",
        "leave {culprit} out",
    ),
    Rule(
        lambda o, *_: o.single_site and o.dp_noise,
        "--dp client is on what clients send, and --single-site sends nothing",
        "leave one out",
    ),
    Rule(
        lambda o, m, d: o.dp_sgd and UNCOVERED.culprit(o, m, d), UNCOVERED.sentence, UNCOVERED.hint
    ),
    Rule(
        lambda o, *_: o.dp_sgd and o.precision != "fp32",
        "--dp image computes in fp32, not in {o.precision}",
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
        "{m.name} needs what clients send, so its clients cannot train alone",
        "fedcli train {culprit} --single-site trains them by themselves",
    ),
    Rule(
        _server_option,
        "{culprit} is an option of the server, which --single-site does not use",
        "leave it out",
    ),
    Rule(
        lambda o, *_: o.then and o.single_site,
        "--then {o.then} needs one model of all clients",
        "leave --then or --single-site out",
    ),
    Rule(
        lambda o, *_: o.then and noise(o),
        "--then {o.then} adds no noise, so the epsilon of {culprit} would not hold",
        "leave one of them out",
    ),
    Rule(
        _untrained_backbone,
        "--then {o.then} needs a backbone that {culprit} does not train",
        "leave one of them out",
    ),
)
OF_ONE_LABEL = (
    Rule(
        _other_than_two_classes,
        "{m.name} is for two classes {culprit}",
        "flexfair with --set within=class compares groups in any number of classes",
    ),
    Rule(
        lambda o, _, d: o.prior == OF_ALL and not class_counts_are_known(d),
        "--prior {o.prior} needs the class counts of all clients, which stay at the sites",
        OWN_COUNTS,
    ),
)
OF_SEVERAL_LABELS = (
    Rule(
        _needs_one_label,
        "{m.name} needs one label per image ({culprit}), and images of {d[dataset]} have several",
        f"methods that take several: {SEVERAL_LABELS}",
    ),
    Rule(
        _option_of_one_label,
        "{culprit} is for one label per image, and images of {d[dataset]} have several",
        "--class-weights balanced makes up for rare labels",
    ),
)


def check(options: TrainOptions) -> Method:
    """The method, resolved. Raises UsageError for values that are refused, alone or together."""
    _check_named(options)
    method = method_of(options)
    refuse(RULES, options, method)
    if options.augment:
        check_augment(str(options.augment))
    return method


def method_of(options: TrainOptions) -> Method:
    """The method that options name, with its options and its adapters. Raises UsageError."""
    return adapted(resolve(options.method or "", dict(options.set)), options.decided())


def adapted(method: Method, options: Mapping[str, Any]) -> Method:
    """The method with the adapters of options as they are recorded. Raises UsageError."""
    kind = options.get("adapters")
    if not kind:
        return method
    layers = options.get("adapter_layers", "")
    local = options_of.text(options.get("local_adapters", ""))
    return replace(method, adapters=Adapters.of(kind, layers, local))


def check_labels(options: TrainOptions, method: Method, body: Body) -> None:
    """Refuse a method that is defined for one label per image, or for two classes, alone.

    body: of the data's manifest. Raises UsageError.
    """
    rules = OF_SEVERAL_LABELS if is_multi_label(body) else OF_ONE_LABEL
    refuse(rules, options, method, body)


def refuse(
    rules: Iterable[Rule],
    options: TrainOptions,
    method: Method,
    body: Body | None = None,
) -> None:
    """Raise UsageError for the first of these rules that the options break."""
    for rule in rules:
        culprit = rule.culprit(options, method, body or {})
        if culprit:
            values = {"o": options, "m": method, "d": body, "culprit": culprit}
            raise UsageError(rule.sentence.format(**values), rule.hint.format(**values))


def _check_named(options: TrainOptions) -> None:
    """Raise UsageError for a schedule, a loss, class weights or sampling that do not exist."""
    sampling.check(options.sampling)
    if options.schedule not in (None, "constant", "cosine"):
        steps(options.schedule)
    loss = options.loss
    gamma = _number_in("--loss", loss, LOSSES, "focal", "focal:2")
    if gamma is not None and not 0 < number(gamma) < math.inf:
        raise UsageError(
            f"--loss {loss}: {gamma!r} is not a number above 0", "write for example focal:2"
        )
    weights = options.class_weights
    example = "effective:0.999"
    beta = _number_in(
        "--class-weights",
        weights,
        CLASS_WEIGHTS,
        "effective",
        example,
    )
    if beta is not None and not 0 <= number(beta) < 1:
        raise UsageError(f"--class-weights {weights}: {beta!r} is not in [0, 1)", example)


def _number_in(
    flag: str, value: str, names: Iterable[str], with_number: str, example: str
) -> str | None:
    """The number, as text, in a value such as focal:2; None for a value without one.

    with_number: the one name that has a number. Raises UsageError for another name.
    """
    name, colon, number_text = value.partition(":")
    takes_number = name == with_number
    if name not in names or takes_number != bool(colon):
        hint = f"{with_number} needs a number: {example}"
        if name not in names:
            hint = f"{nearest(name, names)} ({hint})"
        elif not takes_number:
            hint = f"{name} takes no number; {hint}"
        raise UsageError(f"{flag} {value!r} is unknown", hint)
    return number_text if takes_number else None
