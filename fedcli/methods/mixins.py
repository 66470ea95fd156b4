"""Requests of few methods to the engine: small classes that a half inherits beside Local or
Aggregator.

The engine asks isinstance() and never for a method's name. They stand together here, and not in the
files of their methods, so that the engine imports no method.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from .contract import Aggregator, Local, Network, Shard, Tensors


class BalancedSampling:
    """Marks a Local whose epoch draws class by class, as many images as the client has, instead of
    each image once.
    """


class LearnsFromTeacher:
    """Marks a Local for which a frozen network given with --teacher has a meaning."""


class GroupViews:
    """A Local under which test images may be shown to the network in several ways.

    Attributes:
        views: their names. The first makes the main scores and may use the images' groups; for the
            others every group of the shard is unknown.
    """

    views: tuple[str, ...]

    def set_groups(
        self,
        net: Network,
        shard: Shard,
        images: Tensor,
        view: str,
    ) -> None:
        """Set net.groups as this view asks, before a forward pass over test images.

        images: [B] their indices in shard.
        """
        raise TypeError(f"{type(self).__name__} has no set_groups()")


class WeighsGroups:
    """A half whose weights come from the groups of training images' patients, so that a run warns
    of small groups.

    Attributes:
        by_class: they come from the pairs of group and class.
    """

    by_class: bool = False

    def group_attribute(self, net: Network) -> str:
        """The attribute whose values are the groups, "" where it uses none.

        Raises UsageError where the dataset has no such one.
        """
        raise TypeError(f"{type(self).__name__} has no group_attribute()")


class SubsetTraining:
    """An Aggregator that says which models it will keep, so that no other client has to train."""

    @property
    def trains_subset(self) -> bool:
        """True where it does so under its options."""
        return True

    def select_clients(self, columns: Tensors, rows: Tensor) -> Tensor:
        """On the server, before any client trains: the participants that are to train, bool [K].

        columns: [K, ...] reported by measure_global(). rows: [K] in the roster. The others' models
        are never looked at: they have weight 0.
        """
        raise TypeError(f"{type(self).__name__} has no select_clients()")


@dataclass(frozen=True)
class ClientPart:
    """A client's own part of a round, for a rule that needs no more than sums over the clients."""

    round: int  # t, from 1
    clients: int  # K, participants
    base: Tensor  # n_k / n over the participants, a float64 scalar
    columns: Tensors  # what the client's hooks put into its report
    memory: Tensors  # what the client keeps between rounds; weight() may add to it


class WeighsBySums:
    """An Aggregator whose weights need sums of numbers over the clients, and no client's own.

    Under secure aggregation each client computes its weight itself: for every sum the clients give
    number(), of which all of them learn the sum, and then their models are averaged by weight().
    aggregate() is the same rule for a server that sees the numbers.
    """

    @property
    def sums(self) -> int:
        """The number of sums that come before the average; 0 where its options need more."""
        return 1

    def number(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        """At the client: its numbers >= 0, float64 of any shape, in the sum that follows these."""
        raise TypeError(f"{type(self).__name__} has no number()")

    def weight(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        """At the client: its weight, a float64 scalar >= 0; the average divides by their sum."""
        return self.number(client, ()) / sums[0]


class StartsFromRun:
    """Marks an Aggregator that means nothing without a finished run of the same clients."""


class ContinuesRun(StartsFromRun):
    """Marks the Aggregator of a second stage, as after --then: the last weights of the run that it
    starts from are in memory["start_weights"] [N].
    """


class LinearHeadOnly:
    """Marks a half that works with a linear classifier alone, or puts another in its place."""


class ScoredModel:
    """An Aggregator whose model that is scored and kept is not the one that travels."""

    def scored(self, theta: Tensor, memory: Tensors) -> Tensor:
        """The model that is scored and kept [P], from the one that travels [P]."""
        raise TypeError(f"{type(self).__name__} has no scored()")


class Histograms:
    """An Aggregator whose state is worth a picture in the record of some rounds."""

    def histograms(self, memory: Tensors) -> Tensors:
        """After aggregate: name -> counts int64 [N, bins] of shares in each client's state.

        The bins (low, high] of [0, 1] are equal; no name where there is nothing to count.
        """
        raise TypeError(f"{type(self).__name__} has no histograms()")


def sums_of(rule: Aggregator) -> int:
    """The number of sums that the weights of a rule need; 0 where they need more, or none."""
    return rule.sums if isinstance(rule, WeighsBySums) else 0


def views_of(local: Local) -> tuple[str, ...]:
    """The ways in which test images are shown; one without a name for most methods."""
    return local.views if isinstance(local, GroupViews) else ("",)


def scored_model(rule: Aggregator, theta: Tensor, memory: Tensors) -> Tensor:
    """The model [P] that is scored and kept, for the one that travels [P]."""
    return rule.scored(theta, memory) if isinstance(rule, ScoredModel) else theta
