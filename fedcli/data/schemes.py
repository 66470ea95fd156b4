"""Ways to divide images among clients: labels and attributes in, row numbers out.

Sources, and where we differ:
    dirichlet           Yurochkin et al. 2019, arXiv 1905.12022, class by class. A class is cut by systematic sampling:
                        a client gets its share rounded up or down (the usual floor gives the last client the rest).
    dirichlet-balanced  The usual recipe closes clients that hold N/K images and redraws until each has ten, which need
                        not end. We draw the plain [K, C] table once, scale its rows and columns in turn (Sinkhorn) to
                        the wanted client sizes and the class counts, and round it so that both hold exactly. The sizes
                        are even up to one image or, with a minimum, the plain ones shrunk to lift the small ones to it.
    shards              McMahan et al. 2017, arXiv 1602.05629, section 3; shards even up to one image.
    shares              A table of which part of each attribute value's images a client gets, class by class: how we
                        read the skin-tone clients of Fed-MAS, whose files are not public.
    fedism              Wu et al., arXiv 2503.09587, as their released code draws it: the clean group and the corrupted
                        group (the last clients) get the same part of every class, Dirichlet within a group, all from
                        numpy's RandomState(2024). Without validation images the class counts give their 20 clients.

    domains             FedHEAL (arXiv 2405.16585): clients divided evenly among the domains, each with the same portion of
                        its domain and no image twice. From its released code: a client that misses a class gets one
                        image of it from the whole domain, perhaps another client's too, in place of a spare one.
    fedmrl              FedMRL (arXiv 2407.05800, Eq. 11): each class in 200 shards, each given to a client with odds of eta
                        for the client's own class and a number from N(0.5, 1) for any other. The paper does not say
                        which class is a client's own; here they take turns, in random order. Odds are cut to [0, 1]
                        and drawn once per client and class, and every shard goes to exactly one client.
    fedmrl-authors      As its released code draws instead: each client, from each class, 200 times five images (in a
                        class of n < 200, n times). No class is a client's own and clients share images, so that a
                        client has n (1 - (1 - 5/n)^min(200, n)) of n images, and all clients are nearly alike.
"""

from itertools import pairwise

import numpy as np

FEDISM_SEED = 2024  # of the authors' released partitions
FEDMRL_SHARDS, FEDMRL_DRAW = 200, 5
SCALINGS = 100  # Sinkhorn rounds; what is left after them, the rounding mends


def iid(images: int, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle and deal out, even up to one."""
    owner = np.empty(images, np.int64)
    owner[rng.permutation(images)] = np.arange(images) % clients
    return _split(owner, clients)


def dirichlet(y: np.ndarray, clients: int, alpha: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Give each class to the clients in shares drawn from Dir(alpha); a client may stay empty."""
    owner = np.empty(len(y), np.int64)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        owner[rows] = _cut(rng.dirichlet(np.full(clients, alpha)), len(rows), rng)
    return _split(owner, clients)


def dirichlet_balanced(
    y: np.ndarray, clients: int, alpha: float, rng: np.random.Generator, minimum: int | None = None
) -> list[np.ndarray]:
    """Dirichlet class shares under chosen client sizes.

    minimum: images each client has at least, sizes else following the plain draw; None makes them even up to one.
    """
    labels, counts = np.unique(y, return_counts=True)  # [C]
    table = rng.dirichlet(np.full(clients, alpha), len(labels)).T * counts  # [K, C] expected images of the plain draw
    sizes = _sizes(table.sum(1), len(y), minimum)  # [K]
    table = np.maximum(table, 1e-9)  # a zero could never be scaled up
    for _ in range(SCALINGS):
        table *= counts / table.sum(0)
        table *= (sizes / table.sum(1))[:, None]
    owner = np.empty(len(y), np.int64)
    for label, given in zip(labels, _whole_table(table, sizes, counts).T, strict=True):
        owner[rng.permutation(np.flatnonzero(y == label))] = np.repeat(np.arange(clients), given)
    return _split(owner, clients)


def label_shards(y: np.ndarray, clients: int, shards_per_client: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Sort by class, cut into clients x shards_per_client shards, deal these out at random."""
    shards = clients * shards_per_client
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    owner = np.empty(len(y), np.int64)
    owner[order] = (rng.permutation(shards) // shards_per_client)[np.arange(len(y)) * shards // len(y)]
    return _split(owner, clients)


def by_attribute(values: np.ndarray) -> list[np.ndarray]:
    """One client per value; rows with value -1 (unknown) go to nobody."""
    return _split(values, int(values.max(initial=-1)) + 1)


def attribute_shares(
    values: np.ndarray, y: np.ndarray, shares: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Give client k the share shares[k, v] of the images with attribute value v, in every class alike.

    shares: [K, V], columns sum to one. Rows with value -1 (unknown) go to nobody.
    """
    owner = np.full(len(y), -1, np.int64)
    for value, column in enumerate(shares.T):
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero((values == value) & (y == label)))
            owner[rows] = _cut(column, len(rows), rng)
    return _split(owner, len(shares))


def domain_clients(
    domains: np.ndarray, y: np.ndarray, clients: int, portion: float, rng: np.random.Generator
) -> list[np.ndarray]:
    """clients / D clients per domain, in the domains' order, each with int(portion * images of the domain).

    domains: int [N], -1 (unknown) goes to nobody.
    """
    count = int(domains.max()) + 1
    parts = []
    for domain in range(count):
        rows = rng.permutation(np.flatnonzero(domains == domain))
        size = int(portion * len(rows) + 1e-9)
        drawn = [rows[k * size : (k + 1) * size] for k in range(clients // count)]
        parts += [np.sort(_cover(part, rows, y, rng)) for part in drawn]
    return parts


def _cover(part: np.ndarray, rows: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """part with one image of each class it misses, in place of an image whose class it has twice."""
    part = part.copy()
    for label in np.setdiff1d(y[rows], y[part]):
        spare = np.flatnonzero(np.bincount(y[part])[y[part]] > 1)
        if len(spare):
            part[rng.choice(spare)] = rng.choice(rows[y[rows] == label])
    return part


def fedism(y: np.ndarray, clients: int, corrupted: int, alpha: float, seed: int = FEDISM_SEED) -> list[np.ndarray]:
    """The FedISM authors' two groups, in the order of their draws; the last `corrupted` clients are to be corrupted."""
    stream = np.random.RandomState(seed)
    clean = clients - corrupted
    owner = np.empty(len(y), np.int64)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        first = int(np.round(clean / clients * len(rows)))  # half to even, as they have it
        p_clean, p_corrupted = stream.dirichlet(np.full(clean, alpha)), stream.dirichlet(np.full(corrupted, alpha))
        owner[rows[:first]] = stream.choice(clean, first, p=p_clean)
        owner[rows[first:]] = clean + stream.choice(corrupted, len(rows) - first, p=p_corrupted)
    return _split(owner, clients)


def fedmrl(y: np.ndarray, clients: int, eta: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Shards of each class by odds of eta, in [0, 1], for a client's own class; a client may stay empty."""
    labels = np.unique(y)
    own = rng.permutation(len(labels))[np.arange(clients) % len(labels)]  # [H] place of each client's own class
    odds = np.clip(rng.normal(0.5, 1, (clients, len(labels))), 0, 1)  # [H, C] Eq. 11
    odds[np.arange(clients), own] = eta
    odds[:, odds.sum(0) == 0] = 1
    owner = np.empty(len(y), np.int64)
    for place, label in enumerate(labels):
        rows = rng.permutation(np.flatnonzero(y == label))
        shards = min(FEDMRL_SHARDS, len(rows))
        to = rng.choice(clients, shards, p=odds[:, place] / odds[:, place].sum())  # [S]
        owner[rows] = to[np.arange(len(rows)) * shards // len(rows)]
    return _split(owner, clients)


def fedmrl_authors(y: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Each client's own draws, without regard to the others'; within a draw no image comes twice."""
    of_class = [np.flatnonzero(y == label) for label in np.unique(y)]
    return [np.sort(np.concatenate([_drawn(rows, rng) for rows in of_class])) for _ in range(clients)]


def _drawn(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What is drawn at least once."""
    times, each = min(FEDMRL_SHARDS, len(rows)), min(FEDMRL_DRAW, len(rows))
    return np.unique(np.concatenate([rng.choice(rows, each, replace=False) for _ in range(times)]))


def hold_out(y: np.ndarray, unit: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """bool [N]: the validation images, a share of the units, whole, from every class alike.

    Units stand in line, class by class, and are taken at even steps from a random start. Their number is
    rounded half up, but one is always left to train on.
    """
    _, first, back = np.unique(unit, return_index=True, return_inverse=True)
    order = rng.permutation(len(first))
    order = order[np.argsort(y[first][order], kind="stable")]  # a unit counts for the class of its first image
    count = min(int(share * len(order) + 0.5), len(order) - 1)
    taken = np.zeros(len(order), bool)
    taken[order[(_steps(count, rng) * len(order)).astype(np.int64)]] = True
    return taken[back]


def _split(owner: np.ndarray, clients: int) -> list[np.ndarray]:
    """Rising rows of each client from each row's owner; -1 is nobody."""
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(clients + 1))
    return [order[a:b] for a, b in pairwise(ends)]


def _steps(count: int, rng: np.random.Generator) -> np.ndarray:
    """Rising numbers [count] in [0, 1), evenly spaced from a random start."""
    below_one = np.nextafter(1, 0)  # where the sum would be rounded up
    return np.minimum((np.arange(count) + rng.random()) / max(count, 1), below_one)


def _cut(shares: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rising owners [count]; each client's number is its share of count, rounded up or down at random."""
    edges = np.cumsum(shares)
    return np.searchsorted(edges / edges[-1], _steps(count, rng), side="right")


def _sizes(plain: np.ndarray, total: int, minimum: int | None) -> np.ndarray:
    """Client sizes [K]: the plain ones, shrunk to lift each to the minimum; all even for None."""
    least = total / len(plain) if minimum is None else minimum
    spare = np.maximum(plain - least, 0)
    spare = spare if spare.any() else np.ones(len(plain))
    wanted = least + spare * (total - len(plain) * least) / spare.sum()
    return _whole(wanted, total, np.full(len(plain), total))


def _whole(wanted: np.ndarray, total: int, limit: np.ndarray) -> np.ndarray:
    """Whole numbers [K] in proportion to wanted, none above its limit, that sum to total; largest remainders first."""
    exact = wanted * (total / wanted.sum())
    whole = np.minimum(np.floor(exact + 1e-9).astype(np.int64), limit)
    while left := total - whole.sum():
        free = np.flatnonzero(whole < limit)
        whole[free[np.argsort((whole - exact)[free], kind="stable")][:left]] += 1
    return whole


def _whole_table(table: np.ndarray, sizes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Whole numbers [K, C] near table with row sums `sizes` and column sums `counts`.

    Class by class, a client is given what its running total lacks, so that rounding errors do not add up.
    """
    until = np.cumsum(table, axis=1)
    until[:, -1] = sizes
    out = np.zeros(table.shape, np.int64)
    for c, count in enumerate(counts):
        given = out.sum(1)
        out[:, c] = _whole(np.maximum(until[:, c] - given, 1e-9), count, sizes - given)
    return out
