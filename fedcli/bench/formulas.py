"""What a method's formula costs besides plain training, as passes of the network: the yardstick of the bench.

    step      forward and backward over a batch, in each local step
    look      forward alone over a batch, in each local step
    gradient  forward and backward over all images of a client, once in its round, on the fixed view
    forward   forward alone over all of them, likewise

A half that is not in its table costs nothing that a formula gives; `fedcli bench` refuses it.
"""

from .. import methods
from ..errors import UsageError
from ..methods import METHODS, Method
from ..methods.contract import Aggregator, Local

PASSES = "step", "look", "gradient", "forward"

LOCAL: dict[type[Local], dict[str, int]] = {
    methods.fedavg.Plain: {"step": 1},
    methods.adv.Adversarial: {"step": 1},
    methods.apfl.Mixed: {"step": 2},
    methods.bsm.BalancedSoftmax: {"step": 1},
    methods.ditto.TwoTracks: {"step": 2},
    methods.fedala.AdaptiveStart: {"step": 1, "gradient": 1},
    methods.fedbn.OwnNorms: {"step": 1},
    methods.feddecorr.Decorrelated: {"step": 1},
    methods.feddg.Episodic: {"step": 2},
    methods.feddyn.Dynamic: {"step": 1},
    methods.fediic.TwoContrasts: {"step": 2, "forward": 1},
    methods.fedgamma.ControlledSharp: {"step": 2},
    methods.fedgela.FixedSimplex: {"step": 1},
    methods.fedism.Sharp: {"step": 2},
    methods.fedlc.Calibrated: {"step": 1},
    methods.fedlesam.AwayFromTheGlobalPath: {"step": 1},
    methods.fedminmax.Projected: {"step": 1, "forward": 1},
    methods.fedmrl.FairProx: {"step": 1, "forward": 2},
    methods.fednoro.LearnsFromGlobal: {"step": 1, "look": 1, "forward": 1},
    methods.fedproc.ContrastFirst: {"step": 1, "forward": 1},
    methods.fedproto.NearPrototypes: {"step": 1, "forward": 1},
    methods.fedprox.Prox: {"step": 1},
    methods.fedrod.TwoPredictors: {"step": 1},
    methods.fedrs.Restricted: {"step": 1},
    methods.fedrep.HeadFirst: {"step": 1, "gradient": 1},
    methods.fedrep.OwnHead: {"step": 1},
    methods.fedsam.Momentous: {"step": 2},
    methods.fedsam.Perturbed: {"step": 2},
    methods.fedsmoo.SmoothAndConsistent: {"step": 2},
    methods.fairfb.TowardParity: {"step": 1, "forward": 1},
    methods.flexfair.NearTheMean: {"step": 1, "forward": 1},
    methods.gifair.SpreadOfGroups: {"step": 1, "forward": 1},
    methods.group_dro.Exponential: {"step": 1, "forward": 1},
    methods.harmofl.Harmonised: {"step": 2},
    methods.ldam.Margins: {"step": 1},
    methods.local_finetune.BodyOnly: {"step": 1, "gradient": 1},
    methods.local_finetune.Tuned: {"step": 1, "gradient": 1},
    methods.logit_adjust.Adjusted: {"step": 1},
    methods.moon.Contrast: {"step": 1, "look": 2},
    methods.pfedme.Envelope: {"step": 5},
    methods.propfair.Proportional: {"step": 1},
    methods.reweigh.Reweighed: {"step": 1},
    methods.scaffold.Controlled: {"step": 1},
}
AGGREGATOR: dict[type[Aggregator], dict[str, int]] = {  # besides the local half's
    methods.fedavg.Mean: {},
    methods.fedavg.WeightedMean: {},
    methods.afl.Agnostic: {"forward": 1},
    methods.creff.FederatedFeatures: {"forward": 1},
    methods.fairfed.ByGap: {"forward": 1},
    methods.fedce.Contribution: {"forward": 1},
    methods.feddisco.ByDiscrepancy: {},
    methods.fedexp.Extrapolated: {},
    methods.fedfv.Projected: {"forward": 1},
    methods.fedmgda.MinNorm: {},
    methods.fedga.Gap: {"forward": 2},
    methods.fedheal.Harmonized: {},
    methods.fedism.BySharpness: {"gradient": 1, "forward": 1},
    methods.fednoro.DistanceAware: {},
    methods.fednova.Normalized: {},
    methods.gifair.SpreadOfClients: {"forward": 1},
    methods.fedopt.Adagrad: {},
    methods.fedopt.Adam: {},
    methods.fedopt.Momentum: {},
    methods.fedopt.Yogi: {},
    methods.fedmrl.AgentsAndMap: {},
    methods.qffl.QFair: {"forward": 1},
    methods.term.Tilted: {"forward": 1},
}
UNKNOWN: dict[type[Local] | type[Aggregator], str] = {  # no formula gives their cost, for this reason
    methods.crt.Retrained: "it continues a finished run",
    methods.crt.PreviousWeights: "it continues a finished run",
    methods.fairlora.ByGroup: "little of the network trains",
    methods.fairlora.GroupMean: "little of the network trains",
    methods.fedmas.Distilled: "it has a teacher",
    methods.fedmas.Rescue: "it has a teacher",
    methods.fedotp.Transported: "little of the network trains",
    methods.lora.FactorMean: "little of the network trains",
    methods.lora.LowRank: "little of the network trains",
    methods.lora.SingularValues: "little of the network trains",
    methods.promptfl.Prompted: "little of the network trains",
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
