"""The options of reproduce, which plays the cells of recipes."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

from ..common_options import WORK, Seeds, Wait, Work
from ..options import COMMON, Flag, Options

Raw = Annotated[
    Sequence[str],
    "folder of a dataset as downloaded; may be repeated",
    Flag("[NAME=]DIR", access="reads"),
]
File = Annotated[
    Sequence[str],
    "a file that the recipe asks for, such as a teacher; may be repeated",
    Flag("NAME=PATH", access="reads"),
]
Scale = Annotated[
    Literal["paper", "small", "smoke"],
    "paper as published, small for hours on a laptop, smoke for seconds on synthetic samples; "
    "with --raw, smoke too prepares the whole folder, which may take minutes or more",
]
Only = Annotated[
    Sequence[str], "the row of this name, or cells with this text; may be repeated", Flag("TEXT")
]
Part = Annotated[
    str,
    "play this part of the cells alone, such as 3/8, the third of eight that take about as long; "
    "the last part to end writes the table",
    Flag("I/N"),
]
Jobs = Annotated[
    int | None,
    "cells at a time, each in a process, in [1, 256]; default: one per core where networks are "
    "small, else 1, or with cuda as --at-once says",
]
AtOnce = Annotated[
    int | None,
    "cells at a time on each GPU, in [1, 64], fewer where its memory holds fewer; default: 1",
]
Device = Annotated[str, "cpu, cuda (all GPUs) or cuda:N"]
Precision = Annotated[
    Literal["fp32", "tf32", "bf16", "auto"] | None,
    "precision of every training; default: as the recipe says",
]


@dataclass(frozen=True)
class ReproduceOptions(Options):
    """The cells of a recipe at a scale, trained and scored."""

    stage: ClassVar[str] = "reproduce"
    panel: ClassVar[str] = ""
    recipe: Annotated[
        str | None,
        "name of a recipe or of a paper, or a recipe's file; default: the list",
        Flag(argument=True, access="reads"),
    ] = None
    _: KW_ONLY
    raw: Annotated[Raw, COMMON] = ()
    file: File = ()
    scale: Annotated[Scale, COMMON] = "paper"
    seeds: Annotated[Seeds, COMMON] = None
    only: Annotated[Only, COMMON] = ()
    cells: Part = ""
    jobs: Annotated[Jobs, COMMON] = None
    at_once: AtOnce = None
    device: Annotated[Device, COMMON] = "cpu"
    precision: Precision = None
    work: Work = WORK
    wait: Wait = False
