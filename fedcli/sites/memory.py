"""Memory of a client between rounds, in files at its site.

    <folder>/<round>.h5   what it kept after that round

The coordinator says after which round it means, so that one that resumes from an older state gets the same bits.
"""

from pathlib import Path

from ..errors import FedcliError
from ..federation import state as states
from ..methods.contract import Tensors

KEPT = 3  # a coordinator that is killed while it writes a state goes on from the one before, two rounds back


def save(folder: Path, round: int, memory: Tensors, after: int = 0) -> None:
    """Keep what a client has after this round, and drop what is older than the last KEPT.

    after: the round that the coordinator meant, which it will mean again if this answer comes too late.
    """
    folder.mkdir(parents=True, exist_ok=True)
    states.write_tensors(folder / f"{round:05d}.h5", memory)
    for path in states.saved(folder)[:-KEPT]:
        if int(path.stem) != after:
            path.unlink()


def load(folder: Path, round: int, device: str) -> Tensors:
    """The memory after this round; nothing for round 0, before its first. Raises FedcliError where it is not here."""
    if not round:
        return {}
    path = folder / f"{round:05d}.h5"
    if not path.is_file():
        rounds = ", ".join(str(int(known.stem)) for known in states.saved(folder)) or "none"
        what = f"the client's memory after round {round} is not at this site, which has it of these rounds: {rounds}"
        raise FedcliError(what, "start the run again without --resume")
    return states.read_tensors(path, device)


def newest(folder: Path, round: int, device: str) -> Tensors:
    """The memory it kept when a round was over, whether it took part in it or not; nothing where it keeps nothing.

    Raises FedcliError where only later rounds are here.
    """
    known = states.saved(folder)
    before = [path for path in known if int(path.stem) <= round]
    return load(folder, int(before[-1].stem) if before else round if known else 0, device)
