"""The default engine: every client in this process, one after another, on one network."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ...data.shard import Shard
from ...errors import FedcliError
from ...methods.registry import Method
from ...models.layout import Layout
from ...models.network import Network
from ..client import Absent, ClientReport, ClientTask, Training, run_client
from ..graphs import local_steps
from ..steps import Steps


class Engine(Protocol):
    """Runs the tasks of a round, wherever that may be; reports come in the order of the tasks.

    Only where the federation can do without some clients may an engine say that one is absent.
    """

    def __call__(self, tasks: list[ClientTask], /) -> Iterable[ClientReport | Absent]: ...


@dataclass(frozen=True)
class InProcess:
    """Runs tasks one after another; one network is reused by every client.

    steps: takes their local steps; made where none are given, such as those that others of this
        network use.
    """

    method: Method
    net: Network
    layout: Layout
    shards: dict[str, Shard]
    training: Training
    # client -> its validation part, where there is one
    val: dict[str, Shard] = field(default_factory=dict)
    # (device, threads, processes that share it) -> the same clients in another process; can be
    # pickled
    remake: "Callable[[str, int, int], InProcess] | None" = None
    steps: Steps = None  # type: ignore[assignment]  # never None afterwards

    def __post_init__(self) -> None:
        if not self.steps:
            steps = local_steps(
                self.method,
                self.net,
                self.layout,
                self.training.optimizer,
            )
            object.__setattr__(self, "steps", steps)

    def __call__(self, tasks: list[ClientTask]) -> Iterable[ClientReport]:
        return map(self.run_one, tasks)

    def run_one(self, task: ClientTask) -> ClientReport:
        """The report of one client. An unexpected error gets a note that names client and round."""
        try:
            shard = self.shards[task.client]
            val = self.val.get(task.client)
            return run_client(
                self.method,
                self.net,
                self.layout,
                shard,
                task,
                self.training,
                val,
                self.steps,
            )
        except FedcliError:
            raise
        except Exception as error:
            error.add_note(
                f"while training client {task.client} in round {task.round} of {task.rounds}"
            )
            raise
