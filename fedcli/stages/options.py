"""The options of every stage: what a command line, a recipe and a Python call may say.

Order is that of help, of a written command line and of what a manifest records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, ClassVar

from ..common_options import (
    INPUT,
    NAME,
    WORK,
    Clients,
    Dirichlet,
    Jobs,
    On,
    Out,
    Seed,
    Val,
    Work,
)
from ..data.prepare_options import PrepareOptions as PrepareOptions
from ..options import COMMON, Flag, Options, Source
from ..runs.train_options import TrainOptions as TrainOptions
from ..scores.evaluation_options import EvaluateOptions

SCHEME = Flag(marks=("scheme",))
SCHEME_FILE = Flag(access="reads", marks=("scheme",))


@dataclass(frozen=True)
class PartitionOptions(Options):
    """A dataset's training images divided among clients."""

    stage: ClassVar[str] = "partition"
    dataset: Annotated[
        Source | None, "dataset manifest; default: the newest under --work, - reads stdin", INPUT
    ] = None
    _: KW_ONLY
    merge: Annotated[
        Sequence[str],
        "join this dataset with the others; each is divided among its own clients and "
        "becomes a value of the attribute dataset; NAME= names it; may be repeated",
        Flag("[NAME=]MANIFEST", access="reads"),
    ] = ()
    classes_table: Annotated[
        Source | None,
        "with --merge: CSV with the columns dataset, class and joined; an empty cell leaves a "
        "class out; default: classes of equal names",
        Flag("FILE", access="reads"),
    ] = None
    clients_of: Annotated[
        Mapping[str, object], "with --merge: clients of a dataset, such as usps=2; may be repeated"
    ] = field(default_factory=dict, hash=False)
    dirichlet: Annotated[Dirichlet, COMMON] = None
    balanced: Annotated[bool, "with --dirichlet: clients of equal size", SCHEME] = False
    iid: Annotated[bool, "every client a random share", SCHEME, COMMON] = False
    shards: Annotated[int | None, "label shards per client, >= 1", SCHEME] = None
    by: Annotated[
        Sequence[str],
        "an attribute; may be repeated",
        Flag("ATTRIBUTE", marks=("scheme",)),
        COMMON,
    ] = ()
    shares: Annotated[
        Sequence[str],
        "with --by: what share of each value's images a client, or an equal number of clients "
        "together, gets, such as 0.9,0.1; given once for each such row, or one row for all its "
        "rotations",
        Flag("SHARE,...", marks=("scheme",)),
    ] = ()
    portion: Annotated[
        float | None,
        (
            "with --by: FedHEAL's clients, evenly over the values, each with this portion of "
            "its value's images"
        ),
        SCHEME,
    ] = None
    fedism: Annotated[
        int | None,
        "the FedISM authors' two groups; CORRUPTED clients, >= 1, come last",
        Flag("CORRUPTED", marks=("scheme",)),
    ] = None
    fedmrl: Annotated[
        float | None,
        "FedMRL's shards, by odds of ETA, in [0, 1], for a client's own class; or authors, as its "
        "authors draw: nearly the same class shares, and shared images",
        Flag("ETA|authors", marks=("scheme",)),
    ] = None
    fedmrl_authors: Annotated[
        bool,
        "as FedMRL's authors draw: nearly the same class shares, and shared images",
        Flag(typed="authors", marks=("scheme",), within="fedmrl"),
    ] = False
    clients_file: Annotated[
        Source | None,
        "the images of each client: a CSV, {client: [id, ...]} as JSON, or FedISM's .npy",
        SCHEME_FILE,
        COMMON,
    ] = None
    client_column: Annotated[
        str | None,
        "of a CSV; default: client, center, site, hospital or node",
        Flag("COLUMN", marks=("scheme",)),
    ] = None
    order_file: Annotated[
        Source | None,
        (
            "the train.csv to whose rows an .npy or --fedism refers; default: training "
            "images by class"
        ),
        SCHEME_FILE,
    ] = None
    keep_units: Annotated[
        bool, "give whole patients or lesions to a client, in the random schemes", SCHEME
    ] = False
    scheme: Annotated[
        str | None,
        "any registered scheme by its name, with --set for its options",
        Flag("NAME", marks=("scheme",)),
        COMMON,
    ] = None
    set: Annotated[Mapping[str, object], "option of --scheme; may be repeated", SCHEME] = field(
        default_factory=dict, hash=False
    )
    clients: Annotated[Clients, COMMON] = None
    hold_out: Annotated[
        str | None,
        "a hospital left out of training, whose images are the test images; of an attribute other "
        "than the dataset's sites or --by: ATTRIBUTE=VALUE",
        Flag("SITE"),
        COMMON,
    ] = None
    without: Annotated[
        Sequence[str],
        "a hospital that is left out, in training and among the test images; of another "
        "attribute: ATTRIBUTE=VALUE; of --clients-file also a client; may be repeated",
        Flag("SITE"),
    ] = ()
    minimum: Annotated[
        int,
        "images each client must have, >= 0; a partition that gives fewer is refused, --balanced "
        "gives as many",
    ] = 0
    val: Annotated[Val, COMMON] = 0.0
    seed: Annotated[Seed, COMMON] = 0
    materialize: Annotated[bool, "write one file per client, to send to a site"] = False
    work: Work = WORK
    out: Out = None


@dataclass(frozen=True)
class CorruptOptions(Options):
    """The images of some clients corrupted, and a copy of the whole test set; or labels of some
    clients changed, attributes hidden, or clients made hostile.
    """

    stage: ClassVar[str] = "corrupt"
    partition: Annotated[
        Source | None,
        "partition manifest, or a corruption manifest to add to; default: the newest partition "
        "under --work, - reads stdin",
        INPUT,
    ] = None
    kind: Annotated[
        str | None,
        "gaussian, hair, ...: a kind that `fedcli corruptions` lists, or ./mine.py:NAME; or "
        "labels, attributes or clients",
        NAME,
    ] = None
    _: KW_ONLY
    change: Annotated[
        str | None,
        "for labels: symmetric, to any other class, which is the default; pair, to the "
        "next class; asymmetric, by --flip; for clients, on data: label-flip, image-swap "
        "or backdoor; on updates: scale, sign-flip, noise or constant, or alie, ipm or "
        "min-max, which see the updates of all clients",
        Flag("KIND", typed="kind"),
    ] = None
    rate: Annotated[
        float | None,
        "for labels: chance that a training label is changed, in [0, 1]; default 0.2",
        COMMON,
    ] = None
    flip: Annotated[
        Mapping[str, object],
        "for asymmetric labels, and clients that flip labels: the class that is changed, "
        "and to which; may be repeated",
        Flag("FROM=TO"),
    ] = field(default_factory=dict, hash=False)
    clients: Annotated[
        int | None,
        "for clients: number of hostile ones, the last of the roster, >= 1; default 1",
    ] = None
    strength: Annotated[
        float | None,
        "for clients: chance that a training image is changed, default 1, for backdoor "
        "0.5; or factor of the update, default 10, for sign-flip and min-max 1, for ipm "
        "0.5, for alie 1.5",
    ] = None
    target: Annotated[
        str | None,
        "for backdoor: class of images with the patch; default: the first",
        Flag("CLASS"),
    ] = None
    patch: Annotated[
        int, "for backdoor: side of the patch in pixels, >= 0; 0: an eighth of the image's"
    ] = 0
    hide: Annotated[
        Sequence[str], "of attributes: this one is hidden; may be repeated", Flag("ATTRIBUTE")
    ] = ()
    share: Annotated[
        float | None,
        ("for attributes: chance that a patient's attribute is hidden, in [0, 1]; default 0.3"),
    ] = None
    match: Annotated[
        str | None,
        "instead of a kind: change these clients' images until they are as noisy as this "
        "client's, or match it in --quality",
        Flag("CLIENT"),
    ] = None
    quality: Annotated[
        str,
        "with --match: noise, sharpness (by a blur), contrast or brightness",
        Flag("MEASURE"),
    ] = "noise"
    severity: Annotated[int, "strength of the corruption, in [1, 5]", COMMON] = 3
    ratio: Annotated[float, "share of clients that are corrupted, in [0, 1]", COMMON] = 0.2
    on: Annotated[On, COMMON] = ()
    client: Annotated[
        Sequence[str],
        "corrupt this client with its own kind and severity; may be repeated; default "
        "severity: 3; for labels KIND:RATE",
        Flag("NAME=KIND:SEVERITY"),
        COMMON,
    ] = ()
    seed: Annotated[Seed, COMMON] = 0
    work: Work = WORK
    out: Out = None
    jobs: Jobs = 0


STAGES: dict[str, type[Options]] = {
    options.stage: options
    for options in (
        PrepareOptions,
        PartitionOptions,
        CorruptOptions,
        TrainOptions,
        EvaluateOptions,
    )
}
