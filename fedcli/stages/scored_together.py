"""Several runs scored side by side, each in a process of its own, as train does with several
methods; their scores have the same bytes as one after another.
"""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from .. import console, models
from ..bench.measuring import threads
from ..data import manifest
from ..errors import FedcliError
from ..runs.resources import side_by_side
from ..scores import own_metrics
from ..scores.evaluate import evaluate
from ..scores.evaluation_options import EvaluateOptions
from ..system import processes

CPU = "cpu"
FEW = 20_000  # answers of models, which take no longer than processes need to start


@dataclass(frozen=True)
class Work:
    """The scoring of a run: what it is asked for, as another process can be told."""

    options: EvaluateOptions
    metrics: Sequence[str]  # those of one's own
    threads: int  # of torch


def score(runs: Sequence[Path], options: EvaluateOptions) -> None:
    """Score runs that have no scores yet, as many at once as there are cores and memory for.

    One that fails, or that can only be scored in this process, is left as it is.
    """
    names = {path: _name(path) for path in runs if _needs_one_core(path)}
    count = side_by_side(len(names))
    if count < 2 or sum(map(_answers, names)) < FEW:
        return
    work = Work(options, own_metrics.names(), torch.get_num_threads())
    tasks = [(path, work) for path in names]
    messages = processes.one_each(
        _score,
        tasks,
        [CPU] * count,
        preload=__name__,
    )
    ended = 0
    warned: set[str] = set()
    with closing(messages):
        for (path, _), message in messages:
            name = names[path]
            if not isinstance(message, processes.Ended):
                done, total = message
                console.status(f"[{ended}/{len(names)}] {name}: scoring {done}/{total}")
                continue
            ended += 1
            if message.value is None:
                continue  # whoever needs it scores it again, and learns why
            console.say(f"[{ended}/{len(names)}] {name}: scored")
            for warning in message.value:
                if warning not in warned:
                    console.warn(warning)
                warned.add(warning)


def _score(
    path: Path,
    work: Work,
    slot: str,  # noqa: ARG001  # every process has the CPU
    report: Callable[[int, int], None],
) -> list[str] | None:
    """The warnings of scoring a run in this process; None where it failed."""
    with suppress(Exception):  # it is met again where the run is scored by itself
        with (
            threads(work.threads),
            own_metrics.asked_for(work.metrics),
            console.warnings_kept() as warnings,
            console.muted(report),
        ):
            evaluate(path, work.options)
        return warnings
    return None


def _name(path: Path) -> str:
    run = manifest.read(path, "run")
    return f"{run.body['label']} · seed {run.options.get('seed')}"


def _answers(path: Path) -> int:
    """The least number of test images that the models of a run answer, each counted per model."""
    models_kept = [name for name in manifest.read(path, "run").files if name.startswith("models/")]
    dataset = manifest.parent(path, "dataset")
    images = manifest.read(dataset).body["split"]["test"] if dataset else 0
    return images * len(models_kept)


def _needs_one_core(path: Path) -> bool:
    """Tell whether the network of a run is so small that it needs no more than a core."""
    with suppress(FedcliError):
        return models.describe(manifest.read(path, "run").options["model"]).threads == 1
    return False
