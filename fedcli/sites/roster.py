"""Which sites a federation has, as an exported job names them."""

from collections.abc import Sequence
from pathlib import Path

from ..data import manifest
from ..errors import FedcliError
from ..runs import folder as folders
from .description import check_same, read

OF_DATA = "sites", "corruption", "partition"


def names(paths: Sequence[Path]) -> list[str]:
    """The sites in their order: of descriptions or folders of them; or of one manifest, run, or a run's settings.

    Raises FedcliError.
    """
    data = _data(paths[0]) if len(paths) == 1 else None
    if data:
        return [entry["client"] for entry in manifest.read(data, *OF_DATA).body["roster"]]
    files = [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    if not files:
        raise FedcliError(f"no description of a site in {', '.join(map(str, paths))}", "see `fedcli site describe`")
    descriptions = [read(file) for file in files]
    check_same(descriptions)
    return [description["client"] for description in descriptions]


def _data(path: Path) -> Path | None:
    """The manifest of the data that a path means; None where it is neither data nor a run."""
    folder = path if path.is_dir() else path.parent
    if path.is_dir() or path.name in ("settings.json", "run.json"):
        if (folder / "settings.json").is_file():
            return folder / folders.asked(folder)["data_path"]
        if (folder / "run.json").is_file():
            return manifest.parent(folder / "run.json", *OF_DATA)
    known = [folder / f"{kind}.json" for kind in OF_DATA]
    return next((file for file in known if file.is_file() and path in (folder, file)), None)
