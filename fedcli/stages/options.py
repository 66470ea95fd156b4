"""The options of every stage: what a command line, a recipe and a Python call may say.

Order is that of help, of a written command line and of what a manifest records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, ClassVar, Literal

from ..common_options import (
    ATTRIBUTE,
    COLUMN,
    INPUT,
    LOCAL,
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
from ..options import Flag, Options, Source
from ..runs.train_options import TrainOptions
from ..scores.evaluation_options import EvaluateOptions


@dataclass(frozen=True)
class PrepareOptions(Options):
    """A raw folder to a pool of uint8 images, and on request to a partition and a corruption of it."""

    stage: ClassVar[str] = "prepare"
    name: Annotated[str, "dataset; `fedcli datasets` lists all", NAME]
    _: KW_ONLY
    raw: Annotated[
        Source | None,
        "folder of the dataset as downloaded; default: $FEDCLI_RAW/NAME, raw/NAME or NAME, and where none of them is "
        "there a synthetic sample",
        Flag(local=True, access="reads"),
    ] = None
    sample: Annotated[bool, "use a synthetic sample, without a warning", LOCAL] = False
    no_sample: Annotated[bool, "never use a synthetic sample: end with an error instead", LOCAL] = (
        False
    )
    attributes: Annotated[
        Source | None,
        "CSV with attributes of images or patients, such as age, sex, race or scanner, joined by image or patient id",
        Flag("FILE", access="reads"),
    ] = None
    size: Annotated[int | None, "side of the prepared images in pixels, in [8, 4096]"] = None
    fit: Annotated[Literal["stretch", "pad"], "stretch, or pad to keep the aspect ratio"] = (
        "stretch"
    )
    clahe: Annotated[bool, "even out local contrast"] = False
    scaled_decoding: Annotated[
        bool,
        "have libjpeg shrink large JPEG files, to no less than twice --size: faster, with slightly other pixels",
    ] = False
    window: Annotated[
        str | None,
        "CT: file, brain, subdural, bone or CENTRE/WIDTH; three with commas are channels",
    ] = None
    test: Annotated[float, "share of images in the test part, in [0.01, 0.9]"] = 0.2
    split: Annotated[
        str | None,
        "a way to divide into train and test that `fedcli datasets NAME` lists; default: the dataset's own",
    ] = None
    strict: Annotated[bool, "refuse unreadable images instead of skipping them"] = False
    split_file: Annotated[
        Source | None,
        "CSV of image ids and parts, or a train.csv beside a test.csv, instead of --split",
        Flag(access="reads"),
    ] = None
    fold: Annotated[
        int | None,
        "the fold that is the test part, >= 0: 1 to --folds; with --split-file, a number of that file",
    ] = None
    folds: Annotated[int | None, "number of folds, in [2, 100]"] = None
    sample_images: Annotated[
        int | None, "use so many of the images, drawn by --seed before the split, >= 1"
    ] = None
    stratified: Annotated[bool, "with --sample-images: draw each class in proportion"] = False
    set: Annotated[Mapping[str, object], "this dataset's own option; may be repeated"] = field(
        default_factory=dict, hash=False
    )
    table: Annotated[str | None, "images: the CSV or Excel workbook in the folder"] = None
    image_column: Annotated[str | None, "images: files' names", COLUMN] = None
    label_column: Annotated[
        Sequence[str], "images: classes; with --multi-label it may be repeated", COLUMN
    ] = ()
    multi_label: Annotated[
        bool, "images: several labels per image, A|B or a column of 0 and 1 for each"
    ] = False
    group: Annotated[
        Sequence[str], "images: an attribute, such as sex; may be repeated", COLUMN
    ] = ()
    site: Annotated[str | None, "images: hospitals", COLUMN] = None
    patient: Annotated[str | None, "images: patients or lesions", COLUMN] = None
    age: Annotated[
        str | None, "images: ages in years, which become the bands of the attribute age", COLUMN
    ] = None
    sex: Annotated[str | None, "images: the attribute sex", COLUMN] = None
    map: Annotated[
        Sequence[str],
        "images: words in a column of classes or groups that mean another, such as sex:weiblich=female,W=female; may "
        "be repeated",
        Flag("COLUMN:OLD=NEW,..."),
    ] = ()
    encoding: Annotated[
        str | None, "images: encoding of the CSV, such as cp1252 from Excel; default: utf-8"
    ] = None
    unknown: Annotated[
        str | None, "images: values of groups and patients that mean unknown, such as -1,other"
    ] = None
    clients: Clients = None
    dirichlet: Dirichlet = None
    val: Val = 0.0
    corrupt: Annotated[str | None, "partition and corrupt as well", Flag("KIND")] = None
    severity: Annotated[int | None, "strength of the corruption, in [1, 5]; default: 3"] = None
    ratio: Annotated[
        float | None, "share of clients that are corrupted, in [0, 1]; default: 0.2"
    ] = None
    on: On = ()
    work: Work = WORK
    out: Out = None
    seed: Seed = 0
    jobs: Jobs = 0


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
        "join this dataset with the others; each is divided among clients of its own and is a value of the attribute "
        "dataset; NAME= before it names it; may be repeated",
        Flag("[NAME=]MANIFEST", access="reads"),
    ] = ()
    classes_table: Annotated[
        Source | None,
        "with --merge: CSV with the columns dataset, class and joined; an empty cell leaves a class out; default: "
        "classes of equal names",
        Flag("FILE", access="reads"),
    ] = None
    clients_of: Annotated[
        Mapping[str, object], "with --merge: clients of a dataset, such as usps=2; may be repeated"
    ] = field(default_factory=dict, hash=False)
    dirichlet: Dirichlet = None
    balanced: Annotated[bool, "with --dirichlet: clients of equal size"] = False
    iid: Annotated[bool, "every client a random share"] = False
    shards: Annotated[int | None, "label shards per client, >= 1"] = None
    by: Annotated[Sequence[str], "an attribute; may be repeated", ATTRIBUTE] = ()
    shares: Annotated[
        Sequence[str],
        "with --by: what share of each value's images a client, or an equal number of clients together, gets, such as "
        "0.9,0.1; given once for each such row, or one row for all its rotations",
        Flag("SHARE,..."),
    ] = ()
    portion: Annotated[
        float | None,
        "with --by: FedHEAL's clients, evenly over the values, each with this portion of its own",
    ] = None
    fedism: Annotated[
        int | None,
        "the FedISM authors' two groups; CORRUPTED clients, >= 1, come last",
        Flag("CORRUPTED"),
    ] = None
    fedmrl: Annotated[
        float | None,
        "FedMRL's shards, by odds of ETA, in [0, 1], for a client's own class",
        Flag("ETA"),
    ] = None
    fedmrl_authors: Annotated[
        bool, "as FedMRL's authors draw: nearly the same class shares, and shared images"
    ] = False
    clients_file: Annotated[
        Source | None,
        "which client has which image: a CSV, {client: [id, ...]} as JSON, or FedISM's .npy",
        Flag(access="reads"),
    ] = None
    client_column: Annotated[
        str | None, "of a CSV; default: client, center, site, hospital or node", COLUMN
    ] = None
    order_file: Annotated[
        Source | None,
        "the train.csv whose rows an .npy or --fedism means; default: training images by class",
        Flag(access="reads"),
    ] = None
    keep_units: Annotated[bool, "whole patients or lesions to a client, in the random schemes"] = (
        False
    )
    scheme: Annotated[
        str | None, "any registered scheme by its name, with --set for its options", Flag("NAME")
    ] = None
    set: Annotated[Mapping[str, object], "option of --scheme; may be repeated"] = field(
        default_factory=dict, hash=False
    )
    clients: Clients = None
    hold_out: Annotated[
        str | None,
        "a hospital left out of training, whose images are the test images; of an attribute other than the dataset's "
        "sites or --by: ATTRIBUTE=VALUE",
        Flag("SITE"),
    ] = None
    without: Annotated[
        Sequence[str],
        "a hospital that is left out, in training and among the test images; of another attribute: ATTRIBUTE=VALUE; of "
        "--clients-file also a client; may be repeated",
        Flag("SITE"),
    ] = ()
    minimum: Annotated[
        int,
        "images each client must have, >= 0; a partition that gives fewer is refused, --balanced gives as many",
    ] = 0
    val: Val = 0.0
    seed: Seed = 0
    materialize: Annotated[bool, "write one file per client, to send to a site"] = False
    work: Work = WORK
    out: Out = None


@dataclass(frozen=True)
class CorruptOptions(Options):
    """The images of some clients corrupted, and a copy of the whole test set; or labels of some clients changed."""

    stage: ClassVar[str] = "corrupt"
    partition: Annotated[
        Source | None,
        "partition manifest, or a corruption manifest to add to; default: the newest partition under --work, - reads "
        "stdin",
        INPUT,
    ] = None
    kind: Annotated[
        str | None,
        "gaussian, motion-blur, ...: a kind of the imagecorruptions package; or labels, or attributes",
        NAME,
    ] = None
    _: KW_ONLY
    noise: Annotated[
        str | None,
        "of labels: symmetric, to any other class, which is the default; pair, to the next class; asymmetric, as "
        "--flip says",
        Flag("KIND", typed="kind"),
    ] = None
    rate: Annotated[
        float | None, "of labels: chance that a training label is changed, in [0, 1]; default 0.2"
    ] = None
    flip: Annotated[
        Mapping[str, object],
        "of asymmetric labels: the class that is changed, and to which; may be repeated",
        Flag("FROM=TO"),
    ] = field(default_factory=dict, hash=False)
    hide: Annotated[
        Sequence[str], "of attributes: this one is hidden; may be repeated", Flag("ATTRIBUTE")
    ] = ()
    share: Annotated[
        float | None, "of attributes: chance that a patient's is hidden, in [0, 1]; default 0.3"
    ] = None
    match: Annotated[
        str | None,
        "in place of a kind: Gaussian noise that makes these clients as noisy as this one",
        Flag("CLIENT"),
    ] = None
    severity: Annotated[int, "strength of the corruption, in [1, 5]"] = 3
    ratio: Annotated[float, "share of clients that are corrupted, in [0, 1]"] = 0.2
    on: On = ()
    client: Annotated[
        Sequence[str],
        "corrupt this client in a kind and severity of its own; may be repeated; default severity: 3; of labels "
        "KIND:RATE",
        Flag("NAME=KIND:SEVERITY"),
    ] = ()
    seed: Seed = 0
    work: Work = WORK
    out: Out = None
    jobs: Jobs = 0


@dataclass(frozen=True)
class AttackOptions(Options):
    """Clients whose training data are poisoned, or who send false updates."""

    stage: ClassVar[str] = "attack"
    partition: Annotated[
        Source | None, "partition manifest; default: the newest under --work, - reads stdin", INPUT
    ] = None
    _: KW_ONLY
    kind: Annotated[
        str | None,
        "of data: label-flip, image-swap or backdoor; of updates: scale, sign-flip, noise or constant",
        Flag("NAME"),
    ] = None
    clients: Annotated[int, "number of attackers, the last of the roster, >= 1"] = 1
    on: Annotated[
        Sequence[str], "this client attacks instead; may be repeated", Flag("CLIENT")
    ] = ()
    strength: Annotated[
        float | None,
        "of data: chance that a training image is changed, default 1, of backdoor 0.5; of updates: their factor, "
        "default 10, of sign-flip 1",
    ] = None
    flip: Annotated[
        Mapping[str, object],
        "of label-flip: the class that is changed, and to which, in place of each to the next; may be repeated",
        Flag("FROM=TO"),
    ] = field(default_factory=dict, hash=False)
    target: Annotated[
        str | None, "of backdoor: class of images with the patch; default: the first", Flag("CLASS")
    ] = None
    patch: Annotated[
        int, "of backdoor: side of the patch in pixels, >= 0; 0: an eighth of the image's"
    ] = 0
    seed: Seed = 0
    work: Work = WORK
    out: Out = None


STAGES: dict[str, type[Options]] = {
    options.stage: options
    for options in (
        PrepareOptions,
        PartitionOptions,
        CorruptOptions,
        AttackOptions,
        TrainOptions,
        EvaluateOptions,
    )
}
