"""The one error a user sees: a sentence, a hint and an exit code."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

SPACE = "free some space, raise the limit on it, or give --work on another disk"
MEMORY = "give the process more memory (ulimit -v), or try fewer --jobs or a smaller --batch-size"
# torch on a CPU and on a GPU, Python
SHORT = "can't allocate memory", "out of memory", "can't start new thread"
ACCESS = "ask its owner for access, or give another folder for results, by --work or --out"
NO_ROOM = errno.ENOSPC, errno.EDQUOT, errno.EFBIG  # the disk's, the user's, the process's
REFUSED = errno.EACCES, errno.EPERM, errno.EROFS


class FedcliError(Exception):
    """Something the user can mend. `hint` says how; `code` is the exit code."""

    code = 1

    def __init__(self, sentence: str, hint: str = ""):
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


class UsageError(FedcliError):
    """An option or argument that cannot mean anything."""

    code = 2


class HashError(FedcliError):
    """A file is not the one its manifest was written for."""

    code = 3


class LimitError(FedcliError):
    """A score is beyond a limit that was asked for."""

    code = 4


def of_system(error: BaseException) -> FedcliError | None:
    """The system's refusal in a sentence: memory, a full disk, a limit, a folder; None for any
    other error.
    """
    if isinstance(error, RuntimeError) and any(text in str(error) for text in SHORT):
        return FedcliError(f"too little memory: {str(error).splitlines()[0]}", MEMORY)
    if not isinstance(error, OSError):
        return None
    hint = ""
    if error.errno in NO_ROOM:
        hint = SPACE
    elif error.errno in REFUSED:
        hint = ACCESS
    name = error.filename
    if error.errno == errno.ENOSPC:
        writing = f" while writing {name}" if name else ""
        return FedcliError(f"no space left on the device{writing}", hint)
    if isinstance(error, FileExistsError | NotADirectoryError) and name and not Path(name).is_dir():
        return FedcliError(f"{name} is no folder, and a folder is needed there", hint)
    end = f": {name}" if name else ""
    return FedcliError(f"{error.strerror or error}{end}", hint)


def sentence(error: FedcliError | OSError) -> str:
    """The words of a warning about an error that was caught."""
    return (of_system(error) or error).args[0]


def nearest(
    word: str,
    names: Iterable[str],
    listed: Iterable[str] | None = None,
) -> str:
    """A hint that names the closest of some names, or all of them (where given, the listed ones)
    when none is close.
    """
    names = sorted(names)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if not close:
        by_lower = {name.lower(): name for name in names}
        close = [by_lower[name] for name in get_close_matches(word.lower(), by_lower, 1, 0.6)]
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names if listed is None else sorted(listed)) or 'none'}"
