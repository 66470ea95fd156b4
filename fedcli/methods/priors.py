"""Additions to a client's training logits that make up for class counts.

Every prior is a vector [C]; the classifier is used without it when it predicts. n_k are the
training images of class k, n is their sum: those of the client, or of all clients together.

                      in the training logits      a class without an image
    bsm               log(n_k / n)                a share of 1e-12: its logit is lowered by 27.6
    logit-adjust      tau log(n_k / n), tau = 1   taken out: -inf
    logit-adjust-all  log(n_k / n), of all        taken out: -inf
    fedlc             -tau n_k^(-1/4), tau = 1/2  1e-8 images: lowered by 100 tau; or taken out

Source: the files of these names say where each comes from; the floors are those of arXiv
2406.19112's code. logit-adjust-all is Menon et al., "Long-tail learning via logit adjustment",
arXiv 2007.07314, Eq. 10, whose shares are those of one whole training set. A class that is taken
out has probability 0 in training, so neither its row of the classifier nor the features move for
it.
"""

import torch
from torch import Tensor

OF_ALL = "logit-adjust-all"  # the one whose counts are those of all clients
PRIORS = ("none", "bsm", "fedlc", "logit-adjust", OF_ALL)
COUNTS_OF_ALL = "prior_class_counts"  # what the server then sends beside the model: int64 [C]

FLOOR = 1e-12  # share of an absent class
ABSENT = 1e-8  # images of an absent class


def offset(
    kind: str,
    counts: Tensor,
    *,
    tau: float | None = None,
    absent: str = "floor",
) -> Tensor:
    """float32 [C] to be added to the logits of the training loss, from class counts [C].

    One count at least is not 0.
    tau: strength of fedlc and logit-adjust; None for their defaults.
    absent: of fedlc, "floor" or "mask", which takes absent classes out.
    """
    n = counts.double()
    share = n / n.sum()
    if kind == "bsm":
        return (share + FLOOR).log().float()
    if kind == "fedlc":
        strength = 0.5 if tau is None else tau
        powers = n.clamp_min(ABSENT).pow(-0.25)
        margin = -strength * powers
        if absent == "mask":
            margin = margin.masked_fill(n == 0, -torch.inf)
        return margin.float()
    if kind in ("logit-adjust", OF_ALL):
        strength = 1.0 if tau is None else tau
        scaled = strength * share.log()  # Eq. 10
        return scaled.masked_fill(n == 0, -torch.inf).float()  # tau = 0 would leave 0 * -inf
    raise ValueError(f"no prior is called {kind!r}")
