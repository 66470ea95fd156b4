"""fedcli: fair federated learning on medical images, from raw files to a comparison of methods.

    dataset = fedcli.prepare("isic2018", raw="ISIC")
    clients = fedcli.partition(dataset, by="center")
    noisy = fedcli.corrupt(clients, "gaussian", ratio=0.2)
    run = fedcli.train("fedheal", noisy, rounds=20)
    fedcli.evaluate(run, by=["sex"]).to_frame()
    fedcli.report([run]).to("markdown")
    fedcli.predictions(run)
    fedcli.predict(run, ["new.png"]).to_frame()
    fedcli.sweep(["fedavg", "fedheal"], noisy, seeds=3, rounds=20)
    fedcli.compare(["fedavg", "fedheal"])
    fedcli.plot("curves", run)
    fedcli.reproduce("fedheal-table2", scale="smoke")

Arguments are the flags of the commands of the same names, and `help(fedcli.train)` shows them. What
a stage gives back is a path with its manifest; a stage whose result is already there is not run
again. Results show themselves as tables.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import FedcliError as FedcliError  # what a program catches: .sentence and .hint
from .leaves import is_installed

if TYPE_CHECKING:
    from .commands.listing import ls
    from .reproduction.rebuild import reproduce
    from .reproduction.sweep import sweep
    from .stages.audit import audit
    from .stages.compare import compare
    from .stages.corrupt import corrupt
    from .stages.evaluate import evaluate
    from .stages.partition import partition
    from .stages.plot import plot
    from .stages.predict import predict
    from .stages.predictions import predictions
    from .stages.prepare import prepare
    from .stages.report import report
    from .stages.train import estimate, train

__all__ = [
    "audit",
    "compare",
    "corrupt",
    "estimate",
    "evaluate",
    "ls",
    "partition",
    "plot",
    "predict",
    "predictions",
    "prepare",
    "report",
    "reproduce",
    "sweep",
    "train",
]
ELSEWHERE = {  # than in stages.NAME
    "estimate": "stages.train",
    "ls": "commands.listing",
    "reproduce": "reproduction.rebuild",
    "sweep": "reproduction.sweep",
}
__version__ = "0.1.0"

# silent until a program configures logging
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    """A stage, imported when it is first asked for: torch takes seconds."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{ELSEWHERE.get(name, f'stages.{name}')}"
    if not is_installed(module):
        raise AttributeError(f"{__name__}.{name} needs {module}, which is not installed")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    """For completion in notebooks: the stages that are not imported yet, too."""
    return sorted({*globals(), *__all__})
