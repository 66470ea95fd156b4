"""A method in a file, as somebody outside the package writes one."""

from fedcli import extensions

RULE = '''
"""A rule that goes a share of the way to the mean."""

from dataclasses import dataclass
from typing import Annotated

from fedcli.methods.contract import Aggregator
from fedcli.methods.fedavg import Plain
from fedcli.methods.helpers import average
from fedcli.methods.registry import register


@dataclass(frozen=True)
class Part(Aggregator):
    """Part of the way."""

    share: Annotated[float, "share of the way, in (0, 1]"] = 0.5

    def aggregate(self, theta, updates, memory):
        return theta.lerp(average(updates.theta, updates.base), self.share), updates.base


register("part-way", Plain(), Part(), label="PartWay", about="part of the way")
'''


def written(folder, text, name="mine.py"):
    """The file, which the tests that write it name as a command would."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    extensions.allow([path])
    return path
