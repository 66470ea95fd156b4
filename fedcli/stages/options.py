"""The options of every stage: what a command line, a recipe and a Python call may say.

Order is that of help, of a written command line and of what a manifest records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, ClassVar, Literal

from .base import Flag, Options, Source
from .evaluation_options import EvaluateOptions
from .flags import (
    ATTRIBUTE,
    COLUMN,
    INPUT,
    LOCAL,
    NAME,
    WORK,
    Clients,
    Device,
    Dirichlet,
    Jobs,
    On,
    Out,
    Seed,
    Timeout,
    Track,
    Val,
    Work,
)  # isort: skip


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
        LOCAL,
    ] = None
    sample: Annotated[bool, "use a synthetic sample, without a warning", LOCAL] = False
    no_sample: Annotated[bool, "never use a synthetic sample: end with an error instead", LOCAL] = False
    attributes: Annotated[
        Source | None,
        "CSV with attributes of images or patients, such as age, sex, race or scanner, joined by image or patient id",
        Flag("FILE"),
    ] = None
    size: Annotated[int | None, "side of the prepared images in pixels, >= 8"] = None
    fit: Annotated[str, "stretch, or pad to keep the aspect ratio"] = "stretch"
    clahe: Annotated[bool, "even out local contrast"] = False
    scaled_decoding: Annotated[
        bool, "have libjpeg shrink large JPEG files, to no less than twice --size: faster, with slightly other pixels"
    ] = False
    window: Annotated[str | None, "CT: file, brain, subdural, bone or CENTRE/WIDTH; three with commas are channels"] = (
        None
    )
    test: Annotated[float, "share of images in the test part, in [0.01, 0.9]"] = 0.2
    split: Annotated[str | None, "what a split keeps together; default: the dataset's own"] = None
    strict: Annotated[bool, "refuse unreadable images instead of skipping them"] = False
    split_file: Annotated[
        Source | None, "CSV of image ids and parts, or a train.csv beside a test.csv, instead of --split"
    ] = None
    fold: Annotated[
        int | None, "the fold that is the test part, >= 0: 1 to --folds; with --split-file, a number of that file"
    ] = None
    folds: Annotated[int | None, "number of folds, >= 2"] = None
    sample_images: Annotated[int | None, "use so many of the images, drawn by --seed before the split, >= 1"] = None
    stratified: Annotated[bool, "with --sample-images: draw each class in proportion"] = False
    set: Annotated[Mapping[str, object], "this dataset's own option; may be repeated"] = field(
        default_factory=dict, hash=False
    )
    table: Annotated[str | None, "images: the CSV in the folder"] = None
    image_column: Annotated[str | None, "images: files' names", COLUMN] = None
    label_column: Annotated[Sequence[str], "images: classes; with --multi-label it may be repeated", COLUMN] = ()
    multi_label: Annotated[bool, "images: several labels per image, A|B or a column of 0 and 1 for each"] = False
    group: Annotated[Sequence[str], "images: an attribute, such as sex; may be repeated", COLUMN] = ()
    site: Annotated[str | None, "images: hospitals", COLUMN] = None
    patient: Annotated[str | None, "images: patients or lesions", COLUMN] = None
    unknown: Annotated[str | None, "images: values of groups and patients that mean unknown, such as -1,other"] = None
    clients: Clients = None
    dirichlet: Dirichlet = None
    val: Val = 0.0
    corrupt: Annotated[str | None, "partition and corrupt as well", Flag("KIND")] = None
    severity: Annotated[int | None, "strength of the corruption, in [1, 5]; default: 3"] = None
    ratio: Annotated[float | None, "share of clients that are corrupted, in [0, 1]; default: 0.2"] = None
    on: On = ()
    work: Work = WORK
    out: Out = None
    seed: Seed = 0
    jobs: Jobs = 0


@dataclass(frozen=True)
class PartitionOptions(Options):
    """A dataset's training images divided among clients."""

    stage: ClassVar[str] = "partition"
    dataset: Annotated[Source | None, "dataset manifest; default: the newest under --work, - reads stdin", INPUT] = None
    _: KW_ONLY
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
        float | None, "with --by: FedHEAL's clients, evenly over the values, each with this portion of its own"
    ] = None
    fedism: Annotated[
        int | None, "the FedISM authors' two groups; CORRUPTED clients, >= 1, come last", Flag("CORRUPTED")
    ] = None
    fedmrl: Annotated[
        float | None, "FedMRL's shards, by odds of ETA, in [0, 1], for a client's own class", Flag("ETA")
    ] = None
    fedmrl_authors: Annotated[bool, "as FedMRL's authors draw: nearly the same class shares, and shared images"] = False
    clients_file: Annotated[
        Source | None, "who holds which image: a CSV, {client: [id, ...]} as JSON, or FedISM's .npy"
    ] = None
    client_column: Annotated[str | None, "of a CSV; default: client, center, site, hospital or node", COLUMN] = None
    order_file: Annotated[
        Source | None, "the train.csv whose rows an .npy or --fedism means; default: training images by class"
    ] = None
    keep_units: Annotated[bool, "whole patients or lesions to a client, in the random schemes"] = False
    scheme: Annotated[str | None, "any registered scheme by its name, with --set for its options", Flag("NAME")] = None
    set: Annotated[Mapping[str, object], "option of --scheme; may be repeated"] = field(
        default_factory=dict, hash=False
    )
    clients: Clients = None
    hold_out: Annotated[
        str | None,
        "a hospital that trains nothing: all its images are the test images; of an attribute but the dataset's sites "
        "or that of --by: ATTRIBUTE=VALUE",
        Flag("SITE"),
    ] = None
    minimum: Annotated[
        int, "images each client must have, >= 0; a partition that gives fewer is refused, --balanced gives as many"
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
        str | None, "gaussian, motion-blur, ...: a kind of the imagecorruptions package; or labels, or attributes", NAME
    ] = None
    _: KW_ONLY
    noise: Annotated[
        str | None,
        "of labels: symmetric, to any other class, which is the default; pair, to the next class; asymmetric, as "
        "--flip says",
        Flag("KIND", typed="kind"),
    ] = None
    rate: Annotated[float | None, "of labels: chance that a training label is changed, in [0, 1]; default 0.2"] = None
    flip: Annotated[
        Mapping[str, object],
        "of asymmetric labels: the class that is changed, and to which; may be repeated",
        Flag("FROM=TO"),
    ] = field(default_factory=dict, hash=False)
    hide: Annotated[Sequence[str], "of attributes: this one is hidden; may be repeated", Flag("ATTRIBUTE")] = ()
    share: Annotated[float | None, "of attributes: chance that a patient's is hidden, in [0, 1]; default 0.3"] = None
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
class TrainOptions(Options):
    """A method trained on partitioned data."""

    stage: ClassVar[str] = "train"
    method: Annotated[str | None, "method, or base+addon; `fedcli methods` lists all", NAME] = None
    data: Annotated[
        Source | None,
        "corruption, partition or dataset manifest; default: the newest under --work, - reads stdin",
        INPUT,
    ] = None
    _: KW_ONLY
    rounds: Annotated[
        int | None,
        "rounds of federated training, >= 1; default: 20, or up to 50 where clients have so few images that 20 are "
        "under 100 local steps",
    ] = None
    epochs: Annotated[int, "passes over a client's images per round, >= 1"] = 1
    batch_size: Annotated[int, "images per local step, >= 1"] = 32
    optimizer: Annotated[
        str | None,
        "adam (lr 3e-4, weight decay 5e-4), the default, sgd (lr 1e-3, momentum 0.9, weight decay 1e-5) or adamw (lr "
        "1e-3, weight decay 1e-2)",
    ] = None
    lr: Annotated[float | None, "local learning rate; default: the optimizer's"] = None
    momentum: Annotated[float | None, "of sgd; default 0.9"] = None
    weight_decay: Annotated[float | None, "default: the optimizer's"] = None
    nesterov: Annotated[bool, "Nesterov momentum, for sgd"] = False
    clip_norm: Annotated[float, "cut the gradient of every local step at this norm, >= 0; 0 cuts none"] = 0.0
    dp_noise: Annotated[
        float,
        "standard deviation of noise on each client's update, in units of --dp-clip, >= 0: client-level differential "
        "privacy, simulated; 0 adds none",
    ] = 0.0
    dp_sgd: Annotated[
        float,
        "noise of each local step on the sum of images' gradients, in units of --dp-clip, >= 0: sample-level "
        "differential privacy (DP-SGD), simulated; needs a network without batch norm, such as --model cnn-gn; 0 adds "
        "none",
    ] = 0.0
    dp_clip: Annotated[
        float, "cut each client's update (--dp-noise), or each image's gradient (--dp-sgd), at this norm, > 0"
    ] = 1.0
    dp_delta: Annotated[float, "delta of the epsilon that a run with noise states, in (0, 1)"] = 1e-5
    keep_optimizer: Annotated[
        bool, "a client goes on with its optimizer's state of the last round it took part in, instead of a fresh one"
    ] = False
    schedule: Annotated[
        str | None,
        "of the learning rate over the rounds: constant, the default, cosine, or step:ROUND,...:FACTOR, which "
        "multiplies it by FACTOR after each of these rounds",
    ] = None
    warmup: Annotated[int, "rounds over which the learning rate rises in a line, >= 0"] = 0
    loss: Annotated[str, "cross-entropy, or focal:GAMMA"] = "cross-entropy"
    class_weights: Annotated[
        str,
        "how classes count in the loss, from the client's own counts: none, balanced (1 / count) or effective:BETA "
        "(effective numbers)",
    ] = "none"
    sampling: Annotated[
        str,
        "how a client draws images to train on: shuffle, each once, or with replacement, balanced over class, group or "
        "group-class; group:NAME and group-class:NAME say which attribute",
    ] = "shuffle"
    label_smoothing: Annotated[float, "share of the target that all classes get alike, in [0, 1)"] = 0.0
    prior: Annotated[
        str,
        "what is added to the training logits from the client's class counts: none, bsm, fedlc or logit-adjust",
    ] = "none"
    set: Annotated[Mapping[str, object], "an option of the method; may be repeated"] = field(
        default_factory=dict, hash=False
    )
    server_optimizer: Annotated[
        Literal["none", "momentum", "adam", "yogi", "adagrad"],
        "the server takes this optimizer's step along the mean update; short for METHOD+fedavgm, +fedadam, +fedyogi or "
        "+fedadagrad, for methods that average",
    ] = "none"
    participation: Annotated[float, "share of clients in each round, in (0, 1]"] = 1.0
    model: Annotated[
        str | None,
        "cnn, the default, another that `fedcli models` lists, such as timm:NAME, or ./net.py:build",
    ] = None
    weights: Annotated[Source | None, "starting weights: imagenet, pretrained, a file, or a finished run's folder"] = (
        None
    )
    teacher: Annotated[
        Source | None,
        "frozen network of fed-mas and kd: a MoCo-v2 or torchvision ResNet, or a CLIP checkpoint; default: the "
        "starting weights",
        Flag("FILE"),
    ] = None
    freeze_backbone: Annotated[bool, "train the classifier alone, on features computed once"] = False
    then: Annotated[str | None, "a second stage from the finished model: crt", Flag("METHOD")] = None
    personal: Annotated[bool, "also keep and score each client's model as it is after local training"] = False
    single_site: Annotated[bool, "every client trains alone for all rounds, from the same start; nothing is sent"] = (
        False
    )
    bn: Annotated[str, "batch-norm statistics: aggregate, local or freeze"] = "aggregate"
    augment: Annotated[
        Source | None,
        "none, flip, crop or affine-flip, or an albumentations pipeline as A.save() writes it, .yaml or .json; "
        "default: the dataset's",
        Flag("KIND|FILE"),
    ] = None
    eval_every: Annotated[
        int, "score the test set every so many rounds, >= 0, for curves; no model is chosen by it; 0: never"
    ] = 0
    patience: Annotated[int, "stop after so many rounds without a better validation score, >= 0; 0: never"] = 0
    seed: Seed = 0
    device: Device = "cpu"
    precision: Annotated[
        str, "fp32, tf32 on GPUs, bf16 in forward and backward pass, or auto: fp32 or bf16, measured"
    ] = "fp32"
    threads: Annotated[
        int,
        "CPU threads, in [0, 1024]; 0 uses one where clients train side by side or the network is small, else torch's "
        "choice. Runs are equal to the bit where this is equal",
    ] = 0
    engine: Annotated[
        str | None,
        "what runs the clients: in-process, pool:N for N processes on the CPU, streams:N for N clients at once on "
        "a GPU, ray or ray:N for the workers of a ray cluster, socket:DIR for sites that listen in a folder, "
        "nvflare:DIR or flower:DIR for hospitals, flower-secagg:DIR with secure aggregation, the only one that changes "
        "numbers; default: a process on every core for networks "
        "of one thread, else in-process",
        Flag("NAME[:N]", local=True),
    ] = None
    sites: Annotated[
        Sequence[Source], "description of a site, or a folder of them, in place of DATA", Flag("FILE", local=True)
    ] = ()
    timeout: Timeout = 600.0
    jobs: Annotated[int | None, "short for --engine pool:N, >= 1", LOCAL] = None
    at_once: Annotated[int | None, "short for --engine streams:N, >= 1", LOCAL] = None
    min_clients: Annotated[int, "sites that must answer in a round, >= 0, without the absent ones; 0: all", LOCAL] = 0
    checkpoint_every: Annotated[
        int, "rounds between saved states, >= 0; 0: as often as takes less than 2 % of the time"
    ] = 0
    work: Work = WORK
    out: Out = None
    name: Annotated[str | None, "name of the run's folder, in place of one made from its options", LOCAL] = None
    resume: Annotated[
        bool, "go on with an unfinished run; without METHOD: the newest one, or the one in --out", LOCAL
    ] = False
    force: Annotated[bool, "resume even with other values, and record it", LOCAL] = False
    track: Track = None


STAGES: dict[str, type[Options]] = {
    options.stage: options
    for options in (PrepareOptions, PartitionOptions, CorruptOptions, TrainOptions, EvaluateOptions)
}
