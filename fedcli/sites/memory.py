"""What a client keeps between rounds, in files at its site.

    <folder>/<round>.h5   what it kept after that round

The coordinator says after which round it means, so that one that resumes from an older state gets the same bits.
"""

from pathlib import Path

from ..errors import FedcliError
from ..federation import state as states
from ..methods.contract import Tensors

KEPT = 3  # a coordinator that is killed while it writes a state goes on from the one before, two rounds back


def save(folder: Path, round: int, memory: Tensors) -> None:
    """Keep what a client has after this round, and drop what is older than the last KEPT."""
    folder.mkdir(parents=True, exist_ok=True)
    states.write_tensors(folder / f"{round:05d}.h5", memory)
    for path in states.saved(folder)[:-KEPT]:
        path.unlink()


def load(folder: Path, round: int, device: str) -> Tensors:
    """What it kept after this round; nothing for round 0, before its first. Raises FedcliError where it is not here."""
    if not round:
        return {}
    path = folder / f"{round:05d}.h5"
    if not path.is_file():
        rounds = ", ".join(str(int(known.stem)) for known in states.saved(folder)) or "none"
        raise FedcliError(
            f"the client's memory after round {round} is not at this site, which has it of these rounds: {rounds}",
            "start the run again without --resume",
        )
    return states.read_tensors(path, device)
