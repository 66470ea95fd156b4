"""The options of a training: resolved, they are the plan of a run and its record."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from ..common_options import (
    AT_SITES,
    EXECUTION,
    INPUT,
    MACHINE,
    NAME,
    OUTPUT,
    REAL_SITES,
    WORK,
    Device,
    Out,
    Seed,
    Timeout,
    Track,
    Wait,
    Work,
)
from ..errors import UsageError
from ..federation.training import METHOD, NETWORK, Training
from ..options import COMMON, Flag, Source, left_open, recorded

# the hint where options that were sent cannot be read
ANOTHER = "both sides need the same version of fedcli"
ROUNDS = 20  # by default
OFF = None, False, 0, "", "none"  # values of an option that does nothing
BELONGS = {  # options that do nothing unless one of others is on
    "dp_clip": ("dp_noise", "dp_sgd"),
    "dp_delta": ("dp_noise", "dp_sgd"),
    "nesterov": ("momentum",),
    "adapter_layers": ("adapters",),
    "local_adapters": ("adapters",),
}
OF_METHOD = Flag(panel=METHOD)
SECOND = Flag(marks=("second",))
AGAIN = Flag(local=True, marks=("again",))


@dataclass(frozen=True)
@left_open
class TrainOptions(Training):
    """A method trained on partitioned data. What is open is None until stages.train fills it in."""

    stage: ClassVar[str] = "train"
    method: Annotated[str | None, "method, or base+addon; `fedcli methods` lists all", NAME] = None
    data: Annotated[
        Source | None,
        "corruption, partition or dataset manifest; default: the newest under --work, - reads "
        "stdin",
        INPUT,
    ] = None
    _: KW_ONLY
    rounds: Annotated[
        int,
        "rounds of federated training, >= 1; default: 20, or up to 50 if clients have so "
        "few images that 20 are under 100 local steps; 100:patience=5 stops after five rounds "
        "without a better validation score",
        Flag(open=True),
        COMMON,
    ] = ROUNDS
    participation: Annotated[float, "share of clients in each round, in (0, 1]"] = 1.0
    augment: Annotated[
        Source | None,
        "none, flip, crop or affine-flip, or an albumentations pipeline as A.save() writes it, "
        ".yaml or .json; default: the dataset's",
        Flag("KIND|FILE", access="reads"),
    ] = None
    eval_every: Annotated[
        int,
        "score the test set every so many rounds, >= 0, for curves; no model is chosen by it; 0: "
        "never",
        Flag(marks=("second", "watching")),
    ] = 0
    patience: Annotated[
        int,
        "rounds without a better validation score, after which a run stops, >= 0; 0: never",
        Flag(within="rounds"),
    ] = 0
    seed: Annotated[Seed, SECOND] = 0
    set: Annotated[
        Mapping[str, object], "an option of the method; may be repeated", OF_METHOD, COMMON
    ] = field(default_factory=dict, hash=False)
    model: Annotated[
        str,
        "cnn, the default, another that `fedcli models` lists, such as timm:NAME, or "
        "./net.py:build",
        Flag(panel=NETWORK, open=True, marks=("second",)),
        COMMON,
    ] = "cnn"
    weights: Annotated[
        Source | None,
        "starting weights: imagenet, pretrained, a file, or a finished run's folder",
        Flag(panel=NETWORK, access="reads"),
        COMMON,
    ] = None
    teacher: Annotated[
        Source | None,
        "frozen network of fed-mas and kd: a MoCo-v2 or torchvision ResNet, or a CLIP checkpoint; "
        "default: the starting weights",
        Flag("FILE", panel=NETWORK, access="reads"),
    ] = None
    freeze_backbone: Annotated[
        bool,
        "train the classifier alone, on features computed once",
        Flag(panel=NETWORK, label="frozen backbone"),
    ] = False
    adapters: Annotated[
        str,
        "freeze the network and train adapters in it, and its classifier: lora, "
        "lora:RANK, lora:RANK:ALPHA, svd-lora, or prompt:WORDS for a CLIP network; then "
        ":layers=NAMES, the layers that get low-rank adapters, by the ends of their "
        "names, such as lora:8:layers=qkv,proj; default: all",
        Flag("KIND", panel=NETWORK, label="adapters {}", recorded="on"),
    ] = ""
    adapter_layers: Annotated[
        str,
        "layers that get low-rank adapters, by the ends of their names, such as qkv,proj; default: "
        "all",
        Flag(
            typed="layers",
            panel=NETWORK,
            label="on {}",
            recorded="on",
            within="adapters",
        ),
    ] = ""
    local_adapters: Annotated[
        str,
        "adapters that stay at each client: lora:RANK and the like, a second pair in "
        "addition to the shared ones of --adapters; or all, the ones of --adapters",
        Flag(
            "KIND|all",
            panel=NETWORK,
            label="local adapters {}",
            recorded="on",
            alone="all",
            follows="all|(svd-)?lora(:.*)?",
        ),
    ] = ""
    then: Annotated[
        str | None,
        "a second stage from the finished model: crt or ccvr",
        Flag("METHOD", panel=METHOD, recorded=False),
    ] = None
    single_site: Annotated[
        bool,
        "every client trains alone for all rounds, from the same start; nothing is sent",
        Flag(panel=METHOD, label="single-site"),
    ] = False
    device: Annotated[Device, COMMON] = "cpu"
    precision: Annotated[
        Literal["fp32", "tf32", "bf16", "auto"],
        "fp32, tf32 on GPUs, bf16 in forward and backward pass, or auto: the fastest, measured",
        Flag(panel=MACHINE, marks=("second",)),
    ] = "fp32"
    threads: Annotated[
        int,
        "CPU threads, in [0, 1024]; 0 uses one if clients train side by side or the "
        "network is small, else torch's choice. Two runs are equal to the bit only with "
        "the same number",
        Flag(panel=MACHINE, recorded=False, marks=("second",)),
    ] = 0
    engine: Annotated[
        str | None,
        "what runs the clients: in-process, pool:N for N processes on the CPU, streams:N for N "
        "clients at once on a GPU, ray or ray:N for the workers of a ray cluster, socket:DIR for "
        "sites that listen in a folder, nvflare:DIR or flower:DIR for hospitals, flower-secagg:DIR "
        "with secure aggregation, the only one that changes numbers; default: a process on every "
        "core for networks of one thread, else in-process",
        Flag("NAME[:N]", local=True, panel=MACHINE, access="trusts", marks=("again", "second")),
    ] = None
    sites: Annotated[
        Sequence[Source],
        "description of a site, or a folder of them, instead of DATA",
        Flag("FILE", local=True, panel=REAL_SITES, access="reads"),
    ] = ()
    timeout: Timeout = 600.0
    jobs: Annotated[
        int | None,
        "clients at a time, >= 1: short for --engine pool:N, or streams:N on a GPU; where several "
        "runs are trained, runs at a time",
        EXECUTION,
    ] = None
    min_clients: Annotated[
        int, "smallest number of sites that must answer in a round, >= 0; 0: all", AT_SITES
    ] = 0
    checkpoint_every: Annotated[
        int,
        "rounds between saved states, >= 0; 0: as often as fits into 2 % of the time",
        # it decides no byte, but may be in a recipe
        Flag(panel=MACHINE, recorded=False, marks=("again", "second")),
    ] = 0
    work: Work = WORK
    out: Out = None
    name: Annotated[
        str | None,
        "name of the run's folder, instead of a name made from its options",
        Flag(local=True, panel=OUTPUT),
        COMMON,
    ] = None
    resume: Annotated[
        bool,
        "continue an unfinished run; without METHOD: the newest one, or the one in --out",
        AGAIN,
        COMMON,
    ] = False
    force: Annotated[
        bool,
        "resume although options differ, and record that they do",
        AGAIN,
    ] = False
    wait: Wait = False
    track: Track = None

    def decided(self) -> dict[str, Any]:
        """Every option that decides the bytes of a run, as a record or a message holds it."""
        values = self.record(recorded(TrainOptions))
        values["settings"] = dict(values.pop("set"))
        return values

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The options of which decided() gave these values.

        Raises UsageError where one is missing, unknown or of no type.
        """
        values = dict(values)
        declared = recorded(TrainOptions)
        for option in declared:
            if option.flag.recorded == "on":
                values.setdefault(option.name, option.default)
        names = {option.name for option in declared}
        names.remove("set")
        names.add("settings")
        differing = sorted(names ^ values.keys())
        if differing:
            name = differing[0]
            fault = "without" if name in names else "with an unknown"
            raise _unreadable(f"{fault} {name!r}")
        for option in declared:
            value = values.get(option.name)
            if isinstance(value, str) and option.kind in (bool, int, float):
                raise _unreadable(f"with {option.name} {value!r:.60}, which is a text")
        settings = values.pop("settings")
        if not isinstance(settings, dict):
            raise _unreadable(f"with settings {settings!r:.60}")
        for option in declared:
            if option.flag.open and values[option.name] is None:
                raise _unreadable(f"without a value of {option.name}")
        try:
            return cls(**values, set=settings)
        except UsageError as error:
            raise UsageError(f"options received: {error.sentence}", ANOTHER) from None


def used(options: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded options that did something in a run: not those that are off, nor those that
    belong to one that is off.
    """
    on = {name: value for name, value in options.items() if name == "seed" or value not in OFF}
    idle = [name for name, owners in BELONGS.items() if on.keys().isdisjoint(owners)]
    return {name: value for name, value in on.items() if name not in idle}


def _unreadable(fault: str) -> UsageError:
    return UsageError(f"options received {fault}", ANOTHER)
