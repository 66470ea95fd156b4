"""Secure aggregation by Flower's SecAgg+.

The server learns the weighted mean of the sites' updates, and none of them.

Source: SecAgg+ is Bell, Bonawitz, Gascon, Lepoint and Raykova, Secure Single-Server Aggregation
with (Poly)Logarithmic Overhead, CCS 2020, as flwr implements it (SecAggPlusWorkflow,
secaggplus_mod). Masks are made where a site's SuperNode runs, so that an update leaves the hospital
masked; those of all sites cancel in the sum. It protects against a server that reads what it
receives, not against one that hands out keys of its own, which flwr does not sign, or that asks for
sums over different sites and subtracts. How we differ: flwr draws masks from a generator whose seed
has 32 bits, which can be searched; here they are AES-256 in counter mode under the whole key, see
masks().

What is added are updates, quantized to RANGE at a step of about 16 / 2^30 before they are weighted
by training images, with noise of a step from the rounding: no seed makes the same bits again. Every
site of a round is needed.

Rules whose weights need sums of numbers (mixins.WeighsBySums) have further sums, one after another:
of numbers, which are exact, see digits(), then of updates that each site has weighed itself, and of
these weights, by which the sum is divided.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...errors import FedcliError
from .frames import Arrays, Message
from .relay import (
    LOSS,
    NUMBER,
    NUMBERS,
    PLACES,
    SUM,
    TOTAL,
    UPDATE,
    WEIGHT,
    Question,
    answered,
)

RANGE = 8.0  # an update's numbers must be within
LARGEST_LOSS = 64.0  # losses are cut there, and sent as a share of it
BITS = 32  # of a sum
MOST_BITS = 30  # of a quantized number
DIGIT = 8  # bits
LOST = "see the logs of the SuperNodes; start what ended again, then go on with --resume"
GENERATOR = "pseudo_rand_gen"
HALVES = (  # of flwr's protocol, at a site and at the server
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)
FAILED = "secure aggregation ended without a sum"


def parts_of(
    question: Message,
    answer: Message,
    clients: int,
) -> tuple[list[np.ndarray], int]:
    """A site's part of the sum that a question asks for, and the images by which it is weighed.

    clients: of the sum. Raises ValueError where it cannot be part of a sum; the text may leave the
    site.
    """
    scalars, arrays = answer
    if "error" in scalars:
        raise ValueError(scalars["error"])
    largest = question[0][SUM]["largest"]
    if NUMBER in arrays:
        return [digits(arrays[NUMBER], clients)], largest
    if WEIGHT not in arrays:
        return update_of(question, answer, largest), int(scalars["n"])
    weight = arrays[WEIGHT].reshape(1)
    share = scalars["n"] / largest
    loss = share * _loss_part(arrays)
    return [_checked(arrays[UPDATE]), weight, loss], largest


def update_of(
    question: Message,
    answer: Message,
    largest: int,
) -> list[np.ndarray]:
    """A site's part of the sum: its update float64 [P]; its loss, and whether it says one, [2].

    largest: training images of a site. Raises ValueError as parts_of() does.
    """
    scalars, arrays = answer
    if arrays.keys() != {"theta", "loss"}:
        name = min(arrays.keys() - {"theta", "loss"})
        raise ValueError(
            f"this method reports {name!r} in addition to its model, which the sum does not carry"
        )
    update = arrays["theta"].astype(np.float64) - question[1]["theta"]
    if scalars["n"] > largest:
        raise ValueError("it has more training images than the coordinator knows of")
    return [_checked(update), _loss_part(arrays)]


def _checked(update: np.ndarray) -> np.ndarray:
    """The update. Raises ValueError where it is beyond the range of a sum."""
    if not np.isfinite(update).all() or np.abs(update).max(initial=0) > RANGE:
        raise ValueError(
            f"its update has numbers beyond {RANGE:g}, which the sum does not carry: lower --lr"
        )
    return update


def _loss_part(arrays: Arrays) -> np.ndarray:
    """The loss as a share of LARGEST_LOSS, and 1; zeros [2] where there is none."""
    loss = float(arrays[LOSS])
    if not math.isfinite(loss):  # NaN where noise protects the update
        return np.zeros(2)
    share = min(max(loss, 0.0), LARGEST_LOSS) / LARGEST_LOSS
    return np.array([share, 1.0])


def digits(numbers: np.ndarray, clients: int) -> np.ndarray:
    """Numbers >= 0 [M] by their digits [M, 64], the lowest first, which quantization keeps exact.

    A number's own digits would show, in their sums over the clients, where these carry over.
    Therefore a random multiple of 256 is moved from each digit to the next.
    """
    bytes_of_number = 2 * PLACES // DIGIT
    largest_carry = 2 ** (bits(clients) - DIGIT - 2)
    rows = []
    for number in numbers.tolist():
        whole = int(math.ldexp(number, PLACES))
        row = np.frombuffer(whole.to_bytes(bytes_of_number, "little"), np.uint8).astype(np.int64)
        random = np.frombuffer(secrets.token_bytes(4 * len(row)), np.uint32)
        carried = random[1:].astype(np.int64) % largest_carry
        row[:-1] += carried * 2**DIGIT
        row[1:] -= carried
        rows.append(row)
    return np.array(rows) * _step(clients)


def _step(clients: int) -> float:
    """The difference between two neighbouring numbers in a sum."""
    return 2 * RANGE / 2 ** bits(clients)


def total_of(mean: np.ndarray, clients: int) -> np.ndarray:
    """The sum of the sites' numbers, float64 [M], from the mean of their digits()."""
    sums_of_digits = np.rint(mean * clients / _step(clients)).astype(np.int64)
    totals = []
    for row in sums_of_digits.tolist():
        whole = sum(digit << (DIGIT * place) for place, digit in enumerate(row))
        totals.append(whole / 2**PLACES)
    return np.array(totals)


def mean_of(parts: list[np.ndarray]) -> Arrays:
    """From the weighted mean of the parts of sites: the update float64 [P], and the mean loss.

    The loss is of those sites that say one; NaN where none does.
    """
    update, *weight_of_sites, (loss, weight) = parts
    for (total,) in weight_of_sites:  # of sites that weighed their updates
        update = update / total
    mean = loss / weight * LARGEST_LOSS if weight > 1e-6 else math.nan
    return {UPDATE: update, LOSS: np.array(mean, np.float32)}


def result_of(question: Message, parts: list[np.ndarray], clients: int) -> Arrays:
    """The arrays of the answer to a question about a sum, from the mean of the sites' parts."""
    if question[0][SUM]["of"] == NUMBERS:
        return {TOTAL: total_of(parts[0], clients)}
    return mean_of(parts)


def gathered(waiting: Mapping[str, Question], question: Question) -> dict[str, Question]:
    """The questions of one sum by client, without those of a sum that was given up."""
    of_sum = {}
    for client, other in waiting.items():
        if _sum_of(other) == _sum_of(question):
            of_sum[client] = other
    of_sum[question.client] = question
    return of_sum


def _sum_of(question: Question) -> tuple[Any, Any, Any]:
    """The run and the round of a sum, and its place in the round."""
    scalars, _ = question.message
    return scalars.get("run"), scalars.get("round"), scalars[SUM]


def bits(clients: int) -> int:
    """The bits of a quantized number with which the sum over the clients is below 2^32.

    Equal to it, as that of four clients' largest weights with 30 bits, it would be 0.
    """
    return min(MOST_BITS, BITS - clients.bit_length())


def masks(
    seed: bytes,
    span: int,
    shapes: Sequence[tuple[int, ...]],
) -> list[np.ndarray]:
    """Whole numbers in [0, span), int64, in place of flwr's pseudo_rand_gen().

    span: a power of two up to 2^32.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # each seed is of one round and one pair of sites, so no counter is used twice
    key = hashlib.sha256(seed).digest()
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    arrays = []
    for shape in shapes:
        zeros = bytes(4 * math.prod(shape))
        numbers = np.frombuffer(stream.update(zeros), "<u4").astype(np.int64)
        arrays.append(numbers.reshape(shape) % span)
    return arrays


def use_own_masks() -> None:
    """Let both halves of flwr's protocol draw masks().

    Raises FedcliError for a flwr that draws them elsewhere.
    """
    for name in HALVES:
        module = import_module(name)
        if not hasattr(module, GENERATOR):
            raise FedcliError(
                f"{name} of this Flower has no {GENERATOR}", "pip install 'fedcli[flower]'"
            )
        setattr(module, GENERATOR, masks)


def masked_answer(message: Any, context: Any) -> Any:
    """A site's part of the sum as Flower wants it, which secaggplus_mod then masks."""
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_STATE
    from flwr.compat.common import recorddict_compat as compat

    question = _question_of(compat.recorddict_to_fitins(message.content, keep_input=True))
    client, path = site_of(context)
    state = context.state.config_records[RECORD_KEY_STATE]
    keys = set(state["public_keys_dict:K"])  # of all sites that share masks
    answer = answered(client, path, question, masked=len(keys))
    parts, images = parts_of(question, answer, len(keys))
    scalars, _ = answer
    status = Status(Code.OK, "")
    parameters = ndarrays_to_parameters(parts)
    numbers = {"scalars": json.dumps(scalars)}
    result = FitRes(
        status,
        parameters,
        images,
        numbers,
    )
    return compat.fitres_to_recorddict(result, keep_input=False)


def site_of(context: Any) -> tuple[str, Path]:
    """The name of a SuperNode's site, and the socket of its process, from its configuration."""
    config = context.node_config
    return str(config.get("client")), Path(str(config.get("socket")))


def add_up(grid: Any, context: Any, questions: Mapping[int, Question]) -> None:
    """At the server: let the sites add their updates, and answer each question with the mean.

    questions: by node.
    """
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.server import LegacyContext
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

    question, *_ = questions.values()
    scalars, _ = question.message
    sum_round = _SumRound(grid, questions)
    clients = SimpleNamespace(num_available=lambda: len(questions))
    legacy = LegacyContext(context, strategy=sum_round, client_manager=clients)
    config = ConfigRecord({Key.CURRENT_ROUND: int(scalars["round"])})
    legacy.state.config_records[MAIN_CONFIGS_RECORD] = config
    legacy.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    largest = float(scalars[SUM]["largest"])
    levels = 2 ** bits(len(questions))
    workflow = SecAggPlusWorkflow(
        1.0,
        1.0,
        max_weight=largest,
        clipping_range=RANGE,
        quantization_range=levels,
        modulus_range=2**BITS,
    )
    workflow(sum_round, legacy)
    sentence = "; ".join([FAILED, *sum_round.errors.values()])
    for node, question in questions.items():
        if sum_round.mean is None:
            question.fail(sentence, LOST)
        else:
            arrays = result_of(question.message, sum_round.mean, len(questions))
            question.answer((sum_round.scalars[node], arrays))


class _SumRound:
    """A round of a sum: the strategy that the workflow asks, and the grid that it sends by."""

    def __init__(self, grid: Any, questions: Mapping[int, Question]):
        self.grid = grid
        self.questions = questions
        self.mean: list[np.ndarray] | None = None
        self.scalars: dict[int, dict[str, Any]] = {}  # of each site's answer, by node
        self.errors: dict[
            str, str
        ] = {}  # site -> a sentence on the answer that its node did not give

    def configure_fit(self, *_: Any) -> list[tuple[Any, Any]]:
        tasks = []
        for node, question in self.questions.items():
            tasks.append((SimpleNamespace(node_id=node), _fit_of(question.message)))
        return tasks

    def aggregate_fit(
        self, round: int, results: Iterable[tuple[Any, Any]], failures: Any
    ) -> tuple[None, dict]:
        from flwr.common import parameters_to_ndarrays

        for proxy, result in results:
            self.scalars[proxy.node_id] = json.loads(result.metrics["scalars"])
            self.mean = parameters_to_ndarrays(result.parameters)
        return None, {}

    def send_and_receive(
        self,
        messages: Iterable[Any],
        **more: Any,
    ) -> list[Any]:
        replies = list(self.grid.send_and_receive(messages, **more))
        for reply in replies:
            if reply.has_error():
                client = self.questions[reply.metadata.src_node_id].client
                self.errors[client] = f"{client}: {error_of(reply)[:300]}"
        return replies


def error_of(reply: Any) -> str:
    """A sentence on the error in place of a reply."""
    return f"Flower reports: {reply.error.reason or reply.error.code}"


def _fit_of(message: Message) -> Any:
    from flwr.common import FitIns, ndarrays_to_parameters

    scalars, arrays = message
    config = {"scalars": json.dumps(scalars), "names": json.dumps(list(arrays))}
    return FitIns(ndarrays_to_parameters(list(arrays.values())), config)


def _question_of(fit: Any) -> Message:
    from flwr.common import parameters_to_ndarrays

    names = json.loads(fit.config["names"])
    arrays = dict(zip(names, parameters_to_ndarrays(fit.parameters), strict=True))
    return json.loads(fit.config["scalars"]), arrays
