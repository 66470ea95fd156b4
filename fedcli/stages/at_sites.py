"""Evaluation over sites: a finished run's models are sent to them, and counts come back."""

from collections.abc import Mapping
from pathlib import Path

import torch

from .. import sites as _sites  # noqa: F401 - names its engines
from ..data import manifest
from ..errors import FedcliError, UsageError
from ..federation.engines import remote
from ..federation.state import read_tensors
from ..metrics.tallies import Answer
from ..models.layout import Layout
from ..runs.assembly import assemble, open_parent
from ..runs.configuration import Execution
from ..runs.finished import model_file
from ..runs.resources import be_deterministic
from ..runs.train import plan_of
from ..scores import federated
from .evaluation_options import EvaluateOptions


def evaluate(run: Path, options: EvaluateOptions, out: Path | None) -> Path:
    """Score a run by what its sites answer and return the path of scores.json. Raises FedcliError, UsageError."""
    engine = Execution(options.device, engine=options.engine, timeout=options.timeout)
    reached = remote(options.engine)
    if reached is None:
        raise UsageError(f"--engine {options.engine!r} reaches no sites", "write for example --engine socket:DIR")
    if given := [name for name in ("shots", "corrupt", "severity", "export", "metric") if getattr(options, name)]:
        raise UsageError(f"--{given[0]} needs the test images, which are at their sites", f"leave --{given[0]} out")
    path = manifest.find(run, "run")
    body = manifest.verify(path, "run").body
    plan, data, begun = plan_of(path.parent)
    be_deterministic(options.device, begun["threads"], plan.precision)  # part of what names the run at its sites
    method = plan.check()
    federation = assemble(data, plan, method, open_parent(plan, method), options.device)
    kept = sorted(int(file.stem) for file in (path.parent / "models").glob("[0-9]*.h5"))
    personal = body["model"]["personal_models"] or plan.training.bn == "local"
    rounds = kept[-1:] if personal else kept  # a site keeps what is a client's own for the last rounds only
    kind, where = reached
    with kind.open(federation, where, engine) as sites:

        def ask(round: int) -> Mapping[str, Answer]:
            theta = _model(model_file(path.parent, round), federation.layout)
            return sites.tallies(round, theta, federation.data.roster)  # type: ignore[attr-defined]

        return federated.evaluate(path, ask, rounds=rounds, by=list(options.by), out=out)


def _model(path: Path, layout: Layout) -> torch.Tensor:
    """The model of a round [P] from its file. Raises FedcliError where it is of another network."""
    tensors = read_tensors(path)
    names = {name: f"model/{name}" for name in layout.shapes}
    if lacking := [
        name for name, key in names.items() if key not in tensors or tensors[key].shape != layout.shapes[name]
    ]:
        raise FedcliError(f"{path} lacks {lacking[0]}", "train the run again")
    return torch.cat([tensors[key].reshape(-1) for key in names.values()])
