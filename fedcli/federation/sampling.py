"""Drawing of a client's images for its local steps: each once, or evenly from classes or groups.

Source: drawing groups, or the pairs of group and class, equally often is the baseline of Sagawa et
al., ICLR 2020, arXiv 1911.08731, section 3.2, and Idrissi et al., CLeaR 2022, arXiv 2110.14503; one
of MEDFAIR's (Zong, Yang and Hospedales, ICLR 2023, arXiv 2210.01725). A client draws as many images
as it has, with replacement: one of its classes, groups or pairs at random, each alike, then one of
the images in it. A class or group that it does not have is not drawn. An image without a value of
the attribute is drawn as often as if images were drawn alike. A group of one image repeats it.
"""

from collections.abc import Mapping

from torch import Tensor

from ..data.shard import Shard
from ..errors import UsageError, nearest

SAMPLINGS = "shuffle", "class", "group", "group-class"


def check(sampling: str, attributes: Mapping[str, list[str]] | None = None) -> None:
    """Raise UsageError for an unknown sampling, or one by an attribute that does not exist.

    attributes: of the dataset, None where that is not known yet.
    """
    kind, colon, name = sampling.partition(":")
    if kind not in SAMPLINGS or bool(colon) != bool(name):
        named = "group and group-class may name an attribute: group:sex"
        hint = f"{nearest(kind, SAMPLINGS)} ({named})"
        raise UsageError(f"--sampling {sampling!r} is unknown", hint)
    if name and not kind.startswith("group"):
        raise UsageError(
            f"--sampling {kind} has no attribute", f"write --sampling {kind}, or group-class:{name}"
        )
    if attributes is not None and kind.startswith("group"):
        attribute(sampling, attributes)


def attribute(sampling: str, attributes: Mapping[str, list[str]]) -> str:
    """The attribute of the groups, by default the dataset's first; "" without groups."""
    kind, _, name = sampling.partition(":")
    if not kind.startswith("group"):
        return ""
    if not attributes:
        raise UsageError(
            f"--sampling {kind} needs a group attribute, and this dataset has none",
            "--sampling class",
        )
    if name and name not in attributes:
        raise UsageError(
            f"--sampling {sampling}: no attribute {name!r}", f"known: {', '.join(attributes)}"
        )
    return name or next(iter(attributes))


def strata(
    sampling: str,
    shard: Shard,
    attributes: Mapping[str, list[str]],
) -> Tensor | None:
    """The equally likely part of each image, int64 [N], -1 for none.

    None where each image is drawn once.
    """
    kind = sampling.partition(":")[0]
    if kind == "shuffle":
        return None
    if kind == "class":
        return shard.y
    groups = shard.groups[attribute(sampling, attributes)]
    if kind == "group":
        return groups
    pairs = groups * shard.classes + shard.y
    return pairs.where(groups >= 0, -1)
