"""Sites whose answers are only seen in sums; Flower's own protocol is played by tests/consortium."""

import h5py
import numpy as np
from site_federation import through_bytes

from fedcli.sites.transport import secagg
from fedcli.sites.transport.relay import MASKED, SUM


class Added:
    """A transport which adds what the sites answer by Flower's whole numbers, without masks.

    seen: of each sum, what the coordinator learns.
    """

    def __init__(self, sites):
        self.sites = sites
        self.seen = []

    def __call__(self, messages, timeout):
        answers = {}
        for client, message in messages:
            scalars, arrays = through_bytes(message)
            question = {**scalars, MASKED: len(messages)} if SUM in scalars else scalars
            answer = through_bytes(self.sites[client].answer(question, arrays))
            answers[client] = ((scalars, arrays), answer)
        if SUM not in scalars:
            return [(client, answer) for client, (_, answer) in answers.items()]
        try:
            added = []
            for message, answer in answers.values():
                added.append(secagg.parts_of(message, answer, len(answers)))
        except ValueError as error:
            return [(client, str(error)) for client in answers]
        mean = quantized_mean(added, scalars[SUM]["largest"])
        summed = []
        for client, (message, answer) in answers.items():
            arrays = secagg.result_of(message, mean, len(answers))
            summed.append((client, (answer[0], arrays)))
        self.seen.append(arrays)
        return summed


def quantized_mean(added, largest):
    """The weighted mean of (parts, images) as flwr 1.42 computes it, with random rounding."""
    levels = 2 ** secagg.bits(len(added))
    step = 2 * secagg.RANGE / levels
    random = np.random.default_rng(5)
    total_ratio = 0
    totals = [0] * len(added[0][0])
    for parts, images in added:
        ratio = round(images / largest * levels)
        total_ratio += ratio
        for place, part in enumerate(parts):
            clipped = np.clip(part * (ratio / levels), -secagg.RANGE, secagg.RANGE)
            whole = (clipped + secagg.RANGE) / step
            up = np.ceil(whole)
            up -= random.random(up.shape) < up - whole
            totals[place] = (totals[place] + up.astype(np.int64)) % 2**secagg.BITS
    assert total_ratio % 2**secagg.BITS == total_ratio
    means = []
    for total in totals:
        means.append((total * step - len(added) * secagg.RANGE) * (levels / total_ratio))
    return means


def model(run, round=1):
    tensors = {}

    def read(name, item):
        if isinstance(item, h5py.Dataset):
            tensors[name] = item[()]

    with h5py.File(run.parent / f"models/{round:05d}.h5") as file:
        file.visititems(read)
    return tensors
