"""The options of prepare: checked when they are made, completed by the card of a dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from ..common_options import (
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
from ..errors import UsageError
from ..options import COMMON, Flag, Options, Source, left_open

POOL = Flag(marks=("pool",))
PIXELS = Flag(marks=("pool", "pixels"))
OWN = Flag(marks=("own",))
OWN_COLUMN = Flag("COLUMN", marks=("own",))
CORRUPTION = Flag(marks=("later", "corruption"))


@dataclass(frozen=True)
@left_open
class PrepareOptions(Options):
    """A raw folder to a pool of uint8 images, and on request to a partition and a corruption of it.

    What is open is None until the card of the dataset fills it in, see preparation/request.py;
    readers of datasets get the options so completed.
    """

    stage: ClassVar[str] = "prepare"
    name: Annotated[str, "dataset; `fedcli datasets` lists all", NAME]
    _: KW_ONLY
    raw: Annotated[
        Source | None,
        "folder of the dataset as downloaded; default: $FEDCLI_RAW/NAME, raw/NAME or "
        "NAME; if none of them exists, a synthetic sample",
        Flag(local=True, access="reads"),
        COMMON,
    ] = None
    sample: Annotated[
        bool | None,
        "use a synthetic sample, without a warning; or never: end with an error instead",
        Flag(local=True, typed="sample/--no-sample"),
    ] = None
    attributes: Annotated[
        Source | None,
        "CSV with attributes of images or patients, such as age, sex, race or scanner, joined by "
        "image or patient id",
        Flag("FILE", access="reads"),
        COMMON,
    ] = None
    size: Annotated[
        int,
        "side of the prepared images in pixels, in [8, 4096]",
        Flag(open=True, marks=("pool",)),
        COMMON,
    ] = 0
    fit: Annotated[
        Literal["stretch", "pad"],
        "how an image is brought to --size: stretch, or pad to keep the aspect ratio; settings "
        "follow a colon: clahe evens out local contrast, scaled-decoding lets libjpeg shrink large "
        "JPEG files to no less than twice --size (faster, with slightly different pixels); such as "
        "pad:clahe",
        Flag("NAME[:PART,...]", marks=("pool", "pixels")),
    ] = "stretch"
    clahe: Annotated[
        bool, "even out local contrast", Flag(marks=("pool", "pixels"), within="fit")
    ] = False
    scaled_decoding: Annotated[
        bool,
        "let libjpeg shrink large JPEG files, to no less than twice --size: faster, with "
        "slightly different pixels",
        Flag(recorded="on", marks=("pool", "pixels"), within="fit"),
    ] = False
    window: Annotated[
        str | None,
        "CT: file, brain, subdural, bone or CENTRE/WIDTH; three with commas are channels",
        PIXELS,
    ] = None
    test: Annotated[float, "share of images in the test part, in [0.01, 0.9]", POOL] = 0.2
    split: Annotated[
        str,
        "a way to divide into train and test that `fedcli datasets NAME` lists; default: the "
        "dataset's own",
        Flag(open=True, marks=("pool",)),
    ] = ""
    strict: Annotated[bool, "refuse unreadable images instead of skipping them", POOL] = False
    split_file: Annotated[
        Source | None,
        "CSV of image ids and parts, or a train.csv next to a test.csv, instead of --split",
        Flag(access="reads"),
    ] = None
    fold: Annotated[
        int,
        "the fold to test on, >= 0: 1 to --folds; with --split-file, a number in that file",
        Flag(open=True, marks=("pool",)),
    ] = 1
    folds: Annotated[int, "number of folds, in [2, 100]", Flag(open=True, marks=("pool",))] = 5
    sample_images: Annotated[
        int | None,
        "use so many of the images, drawn by --seed before the split, >= 1; 2000:stratified keeps "
        "the proportions of the classes",
        POOL,
    ] = None
    stratified: Annotated[
        bool,
        "keep the proportions of the classes",
        Flag(marks=("pool",), within="sample-images"),
    ] = False
    set: Annotated[Mapping[str, object], "this dataset's own option; may be repeated", COMMON] = (
        field(default_factory=dict, hash=False)
    )
    table: Annotated[
        str | None,
        "images: the CSV or Excel workbook in the folder; behind it :encoding=NAME, of the CSV and "
        "of --attributes, such as encoding=cp1252 from Excel; default: utf-8",
        Flag("TABLE[:PART]", marks=("own",)),
    ] = None
    image_column: Annotated[str | None, "images: files' names", OWN_COLUMN] = None
    label_column: Annotated[
        Sequence[str], "images: classes; with --multi-label it may be repeated", OWN_COLUMN
    ] = ()
    multi_label: Annotated[
        bool, "images: several labels per image, A|B or a column of 0 and 1 for each", OWN
    ] = False
    group: Annotated[
        Sequence[str], "images: an attribute, such as sex; may be repeated", OWN_COLUMN
    ] = ()
    site: Annotated[str | None, "images: hospitals", OWN_COLUMN] = None
    patient: Annotated[str | None, "images: patients or lesions", OWN_COLUMN] = None
    age: Annotated[
        str | None, "images: ages in years, which become the bands of the attribute age", OWN_COLUMN
    ] = None
    sex: Annotated[str | None, "images: the attribute sex", OWN_COLUMN] = None
    map: Annotated[
        Sequence[str],
        "images: words in a column of classes or groups that mean another, such as "
        "sex:weiblich=female,W=female; may be repeated",
        Flag("COLUMN:OLD=NEW,...", marks=("own",)),
    ] = ()
    encoding: Annotated[
        str | None, "of the CSV; default: utf-8", Flag(marks=("own",), within="table")
    ] = None
    unknown: Annotated[
        str | None, "images: values of groups and patients that mean unknown, such as -1,other", OWN
    ] = None
    clients: Annotated[Clients, COMMON] = None
    dirichlet: Annotated[Dirichlet, COMMON] = None
    val: Annotated[Val, COMMON] = 0.0
    corrupt: Annotated[
        str | None, "partition and corrupt as well", Flag("KIND", marks=("later",)), COMMON
    ] = None
    severity: Annotated[
        int | None, "strength of the corruption, in [1, 5]; default: 3", CORRUPTION, COMMON
    ] = None
    ratio: Annotated[
        float | None,
        "share of clients that are corrupted, in [0, 1]; default: 0.2",
        CORRUPTION,
        COMMON,
    ] = None
    on: On = ()
    work: Work = WORK
    out: Out = None
    seed: Annotated[Seed, POOL, COMMON] = 0
    jobs: Jobs = 0

    @cached_property
    def own(self) -> dict[str, Any]:
        """The options that only this dataset has, of flags and of --set.

        Raises UsageError for one that is given in both ways.
        """
        typed = {}
        for option in self.marked("own"):
            value = getattr(self, option.name)
            if value:
                typed[option.key] = _text(value)
        if self.map:
            typed["map"] = ";".join(self.map)
        if self.label_column and not self.multi_label:
            if len(self.label_column) > 1:
                sentence = "--label-column is given several times"
                raise UsageError(sentence, "--multi-label takes a column for each label")
            typed["label-column"] = self.label_column[0]  # which may have a comma in it
        for option in self.marked("own"):
            if option.key in typed and option.key in self.set:
                sentence = f"--{option.typed} and --set {option.key} exclude each other"
                raise UsageError(sentence, "give one of them")
        return {**self.set, **typed}

    @classmethod
    def of_record(cls, name: str, recorded: Mapping[str, Any]) -> Self:
        """The options by which a dataset was prepared, as its manifest records them."""
        pool = [option.name for option in cls.marked("pool")]
        values = {key: recorded[key] for key in pool if key in recorded}
        return cls(name).completed(recorded.get("own", {}), **values)

    def completed(
        self,
        dataset_options: Mapping[str, Any],
        **values: Any,
    ) -> Self:
        """These options with all options of the dataset, and with other values of these fields."""
        typed = {option.name: option.default for option in self.marked("own")}
        completed = replace(self, **{**typed, **values}, set=dataset_options)
        vars(completed)["own"] = dict(
            dataset_options
        )  # not as texts: a card's defaults may be numbers
        return completed


def _text(value: str | bool | Sequence[str]) -> str:
    """A flag as an option of a dataset has it.

    Between names are commas; a name that has a comma of its own is in quotes.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes"
    return ",".join(_quoted(name) for name in value)


def _quoted(name: str) -> str:
    if "," not in name and '"' not in name:
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
