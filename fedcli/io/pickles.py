"""Pickles of other programs, read without trusting them.

A pickle can run any program. Whoever reads one here has an unpickler that knows a few names alone,
as Python's manual advises, each for something that keeps what it is given and does nothing.
"""

import pickletools
from pathlib import Path

from ..errors import FedcliError

UNTRUSTED = "do not use a file from a source you do not trust; nothing of it was run"


def check_operations(path: Path, data: bytes, noun: str) -> None:
    """Refuse operations that would take much memory or look names up elsewhere than in find_class.

    noun: what the file holds, as "a pickle". Raises FedcliError, and what a damaged pickle leads
    to.
    """
    for operation, argument, _ in pickletools.genops(data):
        # PUT would take that much memory
        if "PUT" in operation.name and not 0 <= int(argument or 0) <= len(data):
            counts = f"counts {argument} values in {len(data)} bytes"
            raise FedcliError(f"{path} holds {noun} that {counts}", UNTRUSTED)
        if operation.name.startswith("EXT"):
            sentence = f"{path} holds {noun} with the operation {operation.name}"
            raise FedcliError(sentence, UNTRUSTED)


def damaged(path: Path, error: Exception) -> FedcliError:
    """The error for a pickle that cannot be read, whatever of a dozen types it led to."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    sentence = f"{path} is truncated or damaged: {reason}"
    return FedcliError(sentence, "download it again")
