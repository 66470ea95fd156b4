"""Additions to a client's training logits that make up for its own class counts.

Every prior is a vector [C]; the classifier is used without it when it predicts. n_k are the
client's images of class k, n is their sum.

                  in the training logits      a class the client has no image of
    bsm           log(n_k / n)                a share of 1e-12: its logit is lowered by 27.6
    logit-adjust  tau log(n_k / n), tau = 1   taken out: -inf
    fedlc         -tau n_k^(-1/4), tau = 1/2  1e-8 images: lowered by 100 tau; or taken out

Source: the files of these names say where each comes from; the floors are those of arXiv
2406.19112's code. A class that is taken out has probability 0 in training, so neither its row of
the classifier nor the features move for it.
"""

import torch
from torch import Tensor

PRIORS = ("none", "bsm", "fedlc", "logit-adjust")

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
    if kind == "logit-adjust":
        strength = 1.0 if tau is None else tau
        scaled = strength * share.log()
        return scaled.masked_fill(n == 0, -torch.inf).float()  # tau = 0 would leave 0 * -inf
    raise ValueError(f"no prior is called {kind!r}")
