"""A recipe of three cells on scanned digits, and the published number of one of them."""

from pathlib import Path

TINY = """
title = "Three rows on scanned digits"
published = "tiny.json"
seeds = [0, 1]
[data.noise]
dataset = "toy"
partition = { dirichlet = 1.0, clients = 2 }
[smoke.prepare]
size = 8
[smoke.train]
rounds = 2
[[row]]
name = "FedAvg"
method = "fedavg"
[[row]]
name = "q-FFL"
method = "qffl"
vary = { "set.q" = [0.5, 1] }
[[column]]
name = "clean ACC"
score = "versions/clean/balanced_accuracy"
"""
PUBLISHED = '{"rows": {"FedAvg": {"clean ACC": {"mean": 97.0, "std": 0.5}}}}'


def write(folder: Path, text: str = TINY) -> None:
    """tiny.toml and its published/tiny.json."""
    (folder / "tiny.toml").write_text(text)
    (folder / "published").mkdir()
    (folder / "published/tiny.json").write_text(PUBLISHED)
