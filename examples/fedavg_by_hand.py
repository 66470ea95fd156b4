"""FedAvg in plain PyTorch, from top to bottom: four clients hold scanned digits and train one model
together.

Run it with `python examples/fedavg_by_hand.py`. A test compares it, bit by bit, with what fedcli
computes. Source: McMahan et al., AISTATS 2017, arXiv 1602.05629, Algorithm 1.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from fedcli.seeds import derive  # a seed for each named event

ROUNDS, LR, BATCH, SEED = 5, 0.1, 32, 0
CLIENTS = ["north", "south", "east", "west"]


def network() -> nn.Module:
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 8 * 8, 10),
    )


def train_locally(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    client: str,
    round: int,
) -> None:
    """One client's turn: one pass over its own images in batches, in an order of its own."""
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, fused=True)
    stream = torch.Generator().manual_seed(derive("shuffle", SEED, round, client, 0))
    for batch in torch.randperm(len(y), generator=stream).split(BATCH):
        optimizer.zero_grad()
        F.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()


def federated_averaging(net: nn.Module, images: dict[str, tuple[Tensor, Tensor]]) -> Tensor:
    """Train for ROUNDS rounds; images: client -> (x [n, 1, 8, 8], y [n]). Returns the global model
    as a vector [P].
    """
    theta = nn.utils.parameters_to_vector(net.parameters()).detach()  # [P] the global model
    n = torch.tensor(
        [len(y) for _, y in images.values()], dtype=torch.float64
    )  # [K] images of each client
    weights = (n / n.sum()).float()  # [K] n_k / n
    for round in range(1, ROUNDS + 1):
        local_models = []
        for client, (x, y) in images.items():
            nn.utils.vector_to_parameters(
                theta.clone(), net.parameters()
            )  # the server sends the global model
            train_locally(net, x, y, client, round)
            local_models.append(
                nn.utils.parameters_to_vector(net.parameters()).detach()
            )  # the client sends its own
        theta = weights @ torch.stack(local_models)  # the server averages: [K] @ [K, P] -> [P]
    nn.utils.vector_to_parameters(theta.clone(), net.parameters())
    return theta


def digits() -> tuple[dict[str, tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
    """Every client's training images, and the test images of all."""
    x, y = load_digits(return_X_y=True)
    images = torch.from_numpy(x).float().reshape(-1, 1, 8, 8) / 16
    labels = torch.from_numpy(y).long()
    test, train = slice(0, 400), torch.arange(400, len(labels))
    parts = train.tensor_split([200, 500, 900])  # 200, 300, 400 and 497 images
    return {client: (images[p], labels[p]) for client, p in zip(CLIENTS, parts)}, (
        images[test],
        labels[test],
    )


if __name__ == "__main__":
    clients, (x_test, y_test) = digits()
    model = network()
    federated_averaging(model, clients)
    print(
        f"{(model(x_test).argmax(1) == y_test).float().mean():.1%} of the test images are "
        "classified correctly"
    )
