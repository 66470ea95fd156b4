"""Flags that several stages have, each declared once, and what stands for the value of a flag in
help.
"""

from collections.abc import Sequence
from typing import Annotated

from .options import Flag, Source

MACHINE = "Machine"
REAL_SITES = "Real sites"
OUTPUT = "Output"
HEADINGS = (  # of options in help, in their order
    "Training",
    "Optimizer",
    "Rare classes",
    "Method",
    "Network",
    "Data",
    "Privacy",
    REAL_SITES,
    MACHINE,
    OUTPUT,
)
SHOWN_FIRST = {  # command -> its most used options in the order of its help; others as declared
    "train": (
        "rounds",
        "epochs",
        "lr",
        "model",
        "weights",
        "prior",
        "seeds",
        "device",
        "resume",
        "set",
        "name",
        "over",
    )
}
NAME = Flag(argument=True)
LOCAL = Flag(local=True)
INPUT = Flag(argument=True, local=True, access="reads")
ON_MACHINE = Flag(local=True, panel=MACHINE)
TO_OUTPUT = Flag(local=True, panel=OUTPUT)
EXECUTION = Flag(local=True, panel=MACHINE, marks=("again", "second"))
AT_SITES = Flag(local=True, panel=REAL_SITES, marks=("again", "second"))
RESULTS = Flag(
    local=True,
    panel=OUTPUT,
    access="results",
    marks=("again", "second"),
)
WRITTEN = Flag(local=True, panel=OUTPUT, access="writes", marks=("again",))
RUNS = Flag("RUN", argument=True, local=True, access="reads")
COLUMN = Flag("COLUMN")
ATTRIBUTE = Flag("ATTRIBUTE")
WORK = "fedcli-work"
FAMILIES = {  # what methods are meant for, in the order of `fedcli methods`
    "hospital": "hospitals that the shared model serves badly",
    "noise": "hospitals with noisy images or labels",
    "hostile": "hospitals that are hostile or broken",
    "domain": "hospitals whose images look different, as from another scanner",
    "rare": "rare classes",
    "groups": "groups of patients, such as by sex or age",
    "personal": "a model for each hospital in addition to the shared one",
    "drift": "hospitals with different classes, whose models drift apart; and plain baselines",
    "large": "large pretrained networks, with few trained parameters",
}

Work = Annotated[Source, "folder of all results", RESULTS]
Out = Annotated[Source | None, "folder of this result; default: a name under --work", WRITTEN]
Seed = Annotated[int, "seed of every random number of this stage"]
Seeds = Annotated[
    str | None,
    "how many seeds, or which ones: 0,1, or 7, (with the comma) for one; default: a recipe's own, "
    "else 0",
    Flag("N|SEED,..."),
]
Jobs = Annotated[int, "processes, >= 0; 0 uses every core", ON_MACHINE]
Device = Annotated[str, "cpu, cuda or cuda:N", Flag(local=True, panel=MACHINE, marks=("second",))]
Timeout = Annotated[
    float, "seconds to wait for a site that sends no heartbeat, >= 0; 0: no limit", AT_SITES
]
Wait = Annotated[
    bool, "wait if another process makes the same result, instead of failing", EXECUTION
]
Clients = Annotated[int | None, "number of clients, >= 1", Flag(marks=("later", "scheme"))]
Dirichlet = Annotated[
    float | None,
    "label skew: a Dirichlet(ALPHA) draw per class",
    Flag("ALPHA", marks=("later", "scheme")),
]
Val = Annotated[
    float,
    "share of each client's training images kept for validation, in [0, 0.9]",
    Flag(marks=("later",)),
]
On = Annotated[
    Sequence[str],
    "corrupt this client instead of a share; may be repeated",
    Flag("CLIENT", marks=("later", "corruption")),
]
Track = Annotated[
    str | None,
    "also send curves, scores and the page to tensorboard or mlflow: to files under --work, or to "
    "the :DIR or :URI that follows",
    Flag(
        "NAME[:WHERE]",
        local=True,
        panel=OUTPUT,
        access="writes",
        marks=("again", "second", "at_hand"),
    ),
]
Groups = Annotated[
    Sequence[str],
    "an attribute, or several crossed: 'race*sex'; may be repeated; default: each attribute",
    Flag("ATTRIBUTE", panel="Data"),
]
Shots = Annotated[
    str | None,
    "show the mean recall of the head (classes with more than UPPER training images "
    "of all clients), the tail (fewer than LOWER) and the medium ones between; "
    "700,70 as in the Fed-MAS paper suits thousands of images: if a group is empty, "
    "a note suggests thresholds that fill it",
    Flag("UPPER,LOWER", panel="Data", marks=("images",)),
]
