"""Hostile clients of a round whose attack needs the updates of the honest ones."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from ..data.corruption.attack import KINDS
from ..data.shard import Shard
from ..methods.contract import ClientUpdates
from .client import ClientReport


def collude(
    theta: Tensor,
    updates: ClientUpdates,
    reports: Sequence[ClientReport],
    shards: Mapping[str, Shard],
) -> None:
    """Replace the models of hostile clients in the table of the round, in place, by what their
    attack makes of the honest clients' updates.

    Clients that did not train, as their rule had not selected them, neither attack nor count.
    Where all are hostile, their own updates stand for the honest ones.

    theta: [P], broadcast. reports: [K], in the order of the table.
    """
    attacks = {}
    for row, report in enumerate(reports):
        if report.steps:
            attacks[row] = shards[report.client].attack
    hostile = [row for row, attack in attacks.items() if attack]
    if not hostile:
        return
    attack = attacks[hostile[0]]  # of one kind and strength, as a partition has one attack
    assert attack
    joint = KINDS[attack.kind].joint
    if joint is None:
        return
    honest = [row for row, attack in attacks.items() if attack is None] or hostile
    trained = updates.layout.trainable
    start = theta[:trained]  # [T]
    models = updates.theta[honest, :trained]  # [H, T]
    moved = (models - start).double()
    sent = joint(moved, attack.strength)  # [T]
    updates.theta[hostile, :trained] = start + sent.to(start)
