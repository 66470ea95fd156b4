"""What a method's formula costs besides plain training, as passes of the network: the yardstick of the bench.

    step      forward and backward over a batch, in each local step
    look      forward alone over a batch, in each local step
    gradient  forward and backward over all images of a client, once in its round, on the fixed view
    forward   forward alone over all of them, likewise

A half that is not in its table costs nothing that a formula gives; `fedcli bench` refuses it.
"""

from ..errors import UsageError
from ..methods import (
    METHODS,
    Method,
    adv,
    afl,
    apfl,
    bsm,
    creff,
    crt,
    ditto,
    fairfed,
    fairlora,
    fedala,
    fedavg,
    fedbn,
    fedce,
    feddecorr,
    feddisco,
    feddyn,
    fedexp,
    fedfv,
    fedga,
    fedheal,
    fediic,
    fedism,
    fedlc,
    fedlesam,
    fedmas,
    fedmgda,
    fedminmax,
    fedmrl,
    fednova,
    fedopt,
    fedotp,
    fedproc,
    fedproto,
    fedprox,
    fedrep,
    fedrod,
    fedrs,
    fedsam,
    group_dro,
    ldam,
    local_finetune,
    logit_adjust,
    lora,
    moon,
    pfedme,
    promptfl,
    propfair,
    qffl,
    reweigh,
    scaffold,
    term,
)  # fmt: skip
from ..methods.contract import Aggregator, Local

PASSES = "step", "look", "gradient", "forward"

LOCAL: dict[type[Local], dict[str, int]] = {
    fedavg.Plain: {"step": 1},
    adv.Adversarial: {"step": 1},
    apfl.Mixed: {"step": 2},
    bsm.BalancedSoftmax: {"step": 1},
    ditto.TwoTracks: {"step": 2},
    fedala.AdaptiveStart: {"step": 1, "gradient": 1},
    fedbn.OwnNorms: {"step": 1},
    feddecorr.Decorrelated: {"step": 1},
    feddyn.Dynamic: {"step": 1},
    fediic.TwoContrasts: {"step": 2, "forward": 1},
    fedism.Sharp: {"step": 2},
    fedlc.Calibrated: {"step": 1},
    fedlesam.AwayFromTheGlobalPath: {"step": 1},
    fedminmax.Projected: {"step": 1, "forward": 1},
    fedmrl.FairProx: {"step": 1, "forward": 2},
    fedproc.ContrastFirst: {"step": 1, "forward": 1},
    fedproto.NearPrototypes: {"step": 1, "forward": 1},
    fedprox.Prox: {"step": 1},
    fedrod.TwoPredictors: {"step": 1},
    fedrs.Restricted: {"step": 1},
    fedrep.HeadFirst: {"step": 1, "gradient": 1},
    fedrep.OwnHead: {"step": 1},
    fedsam.Momentous: {"step": 2},
    fedsam.Perturbed: {"step": 2},
    group_dro.Exponential: {"step": 1, "forward": 1},
    ldam.Margins: {"step": 1},
    local_finetune.BodyOnly: {"step": 1, "gradient": 1},
    local_finetune.Tuned: {"step": 1, "gradient": 1},
    logit_adjust.Adjusted: {"step": 1},
    moon.Contrast: {"step": 1, "look": 2},
    pfedme.Envelope: {"step": 5},
    propfair.Proportional: {"step": 1},
    reweigh.Reweighed: {"step": 1},
    scaffold.Controlled: {"step": 1},
}
AGGREGATOR: dict[type[Aggregator], dict[str, int]] = {  # besides the local half's
    fedavg.Mean: {},
    fedavg.WeightedMean: {},
    afl.Agnostic: {"forward": 1},
    creff.FederatedFeatures: {"forward": 1},
    fairfed.ByGap: {"forward": 1},
    fedce.Contribution: {"forward": 1},
    feddisco.ByDiscrepancy: {},
    fedexp.Extrapolated: {},
    fedfv.Projected: {"forward": 1},
    fedmgda.MinNorm: {},
    fedga.Gap: {"forward": 2},
    fedheal.Harmonized: {},
    fedism.BySharpness: {"gradient": 1, "forward": 1},
    fednova.Normalized: {},
    fedopt.Adagrad: {},
    fedopt.Adam: {},
    fedopt.Momentum: {},
    fedopt.Yogi: {},
    fedmrl.AgentsAndMap: {},
    qffl.QFair: {"forward": 1},
    term.Tilted: {"forward": 1},
}
UNKNOWN: dict[type[Local] | type[Aggregator], str] = {  # no formula gives their cost, for this reason
    crt.Retrained: "it continues a finished run",
    crt.PreviousWeights: "it continues a finished run",
    fairlora.ByGroup: "little of the network trains",
    fairlora.GroupMean: "little of the network trains",
    fedmas.Distilled: "it has a teacher",
    fedmas.Rescue: "it has a teacher",
    fedotp.Transported: "little of the network trains",
    lora.FactorMean: "little of the network trains",
    lora.LowRank: "little of the network trains",
    lora.SingularValues: "little of the network trains",
    promptfl.Prompted: "little of the network trains",
}


def formula(method: Method) -> dict[str, int]:
    """The passes of a method's two halves together, by kind. Raises UsageError where they are not known."""
    local, rule = type(method.local), type(method.aggregator)
    if local not in LOCAL or rule not in AGGREGATOR:
        reason = UNKNOWN.get(local) or UNKNOWN.get(rule) or "it has no entry in the table of costs"
        hint = f"methods that can be: {', '.join(measurable())}"
        raise UsageError(f"{method.name} cannot be timed against a formula: {reason}", hint)
    return {kind: LOCAL[local].get(kind, 0) + AGGREGATOR[rule].get(kind, 0) for kind in PASSES}


def measurable() -> list[str]:
    """Methods whose cost follows from their formula."""
    return [n for n, m in METHODS.items() if type(m.local) in LOCAL and type(m.aggregator) in AGGREGATOR]
