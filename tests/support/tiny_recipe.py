"""A small recipe as text."""

TINY = """
title = "tiny"
seeds = [0, 1]
[data.plain]
dataset = "toy"
partition = { dirichlet = 1.0, clients = 2, seed = "{seed}" }
[data.noise]
title = "Noise"
dataset = "toy"
partition = { dirichlet = 1.0, clients = 2 }
corrupt = { kind = "gaussian", ratio = 0.5 }
[train]
rounds = 7
batch-size = 64
model = "resnet18"
weights = "imagenet"
[smoke.train]
batch_size = 128
[[row]]
name = "FedAvg"
method = "fedavg"
train = { lr = 1e-3 }
[[row]]
name = "FedISM+"
method = "fedism-plus"
set = { state = "loss" }
data = ["noise"]
corrupt = { ratio = 0.25 }
vary = { "set.q" = [0.5, 1] }
[[column]]
name = "accuracy"
data = "plain"
score = "versions/clean/accuracy"
"""


def write(folder, text):
    path = folder / "tiny.toml"
    path.write_text(text)
    return path
