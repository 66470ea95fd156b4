"""`fedcli site`, which lies about a round of training as the word in a file says; without the file it is honest.

python lying_site.py FILE site --client NAME ...
"""

import sys
from pathlib import Path

import numpy as np

from fedcli.commands.app import main
from fedcli.sites.site import Site


def lied(how, scalars, arrays):
    """The answer as the site gives it instead."""
    if how == "count":
        return scalars | {"n": 10**9}, arrays
    if how == "negative":
        return scalars | {"n": -1}, arrays
    if how == "steps":
        return scalars | {"steps": scalars["steps"] + 1}, arrays
    if how == "shape":
        return scalars, arrays | {"theta": arrays["theta"][:-1]}
    if how == "nan":
        return scalars, arrays | {"theta": np.full_like(arrays["theta"], np.nan)}
    if how == "columns":
        return scalars, arrays | {f"columns/c{k}": np.zeros(1, np.float32) for k in range(10**5)}
    if how == "forgotten":
        return scalars | {"kept": False}, arrays
    raise ValueError(how)


def lie(file):
    plain = Site.answer

    def answer(self, scalars, arrays):
        answered = plain(self, scalars, arrays)
        if scalars.get("ask") == "train" and "error" not in answered[0] and file.exists():
            return lied(file.read_text().strip(), *answered)
        return answered

    Site.answer = answer


if __name__ == "__main__":
    lie(Path(sys.argv.pop(1)))
    main()
