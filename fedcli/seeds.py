"""One seed per named event, so no random stream has to be saved or replayed."""

import hashlib


def derive(*names: object) -> int:
    """Return a 63-bit seed for an event such as ("shuffle", run_seed, round, client, epoch).

    The first word says what the numbers are for. Adding an event never shifts another.
    """
    text = "\x1f".join(map(str, names)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def seed_torch(seed: int) -> None:
    """Seed torch's global streams on the devices in use.

    torch.manual_seed() also queues a call, with the whole stack as text, for every kind of device
    that is not in use.
    """
    import torch

    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
