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
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...errors import FedcliError
from .frames import Arrays, Message
from .relay import SUM, Question, answered

RANGE = 8.0  # an update's numbers must be within
LARGEST_LOSS = 64.0  # losses are cut there, and sent as a share of it
BITS = 32  # of a sum
MOST_BITS = 30  # of a quantized number
LOST = "see the logs of the SuperNodes; start what ended again, then go on with --resume"
GENERATOR = "pseudo_rand_gen"
HALVES = (  # of flwr's protocol, at a site and at the server
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)
FAILED = "secure aggregation ended without a sum"


def update_of(
    question: Message,
    answer: Message,
    largest: int,
) -> list[np.ndarray]:
    """A site's part of the sum: its update float64 [P]; its loss, and whether it says one, [2].

    largest: training images of a site. Raises ValueError where it cannot be part of a sum; the
    text may leave the site.
    """
    scalars, arrays = answer
    if "error" in scalars:
        raise ValueError(scalars["error"])
    if arrays.keys() != {"theta", "loss"}:
        name = min(arrays.keys() - {"theta", "loss"})
        raise ValueError(
            f"this method reports {name!r} beside its model, which the sum does not carry"
        )
    update = arrays["theta"].astype(np.float64) - question[1]["theta"]
    if not np.isfinite(update).all() or np.abs(update).max(initial=0) > RANGE:
        raise ValueError(
            f"its update has numbers beyond {RANGE:g}, which the sum does not carry: lower --lr"
        )
    if scalars["n"] > largest:
        raise ValueError("it has more training images than the coordinator knows of")
    loss = float(arrays["loss"])
    if not math.isfinite(loss):  # NaN where noise protects the update
        return [update, np.zeros(2)]
    share = min(max(loss, 0.0), LARGEST_LOSS) / LARGEST_LOSS
    return [update, np.array([share, 1.0])]


def mean_of(parts: list[np.ndarray]) -> Arrays:
    """From the weighted mean of the parts of sites: the update float64 [P], and the mean loss.

    The loss is of those sites that say one; NaN where none does.
    """
    update, (loss, weight) = parts
    mean = loss / weight * LARGEST_LOSS if weight > 1e-6 else math.nan
    return {"update": update, "loss": np.array(mean, np.float32)}


def gathered(waiting: Mapping[str, Question], question: Question) -> dict[str, Question]:
    """The questions of one sum by client, without those of a sum that was given up."""
    of_sum = {}
    for client, other in waiting.items():
        if _sum_of(other) == _sum_of(question):
            of_sum[client] = other
    of_sum[question.client] = question
    return of_sum


def _sum_of(question: Question) -> tuple[Any, Any]:
    """The run and the round of a sum."""
    scalars, _ = question.message
    return scalars.get("run"), scalars.get("round")


def bits(clients: int) -> int:
    """The bits of a quantized number with which the sum over the clients has 32."""
    return min(MOST_BITS, BITS - math.ceil(math.log2(clients)))


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
    parts = update_of(question, answer, question[0][SUM]["largest"])
    scalars, _ = answer
    result = FitRes(
        Status(Code.OK, ""),
        ndarrays_to_parameters(parts),
        int(scalars["n"]),
        {"scalars": json.dumps(scalars)},
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
    workflow = SecAggPlusWorkflow(
        1.0,
        1.0,
        max_weight=float(scalars[SUM]["largest"]),
        clipping_range=RANGE,
        quantization_range=2 ** bits(len(questions)),
        modulus_range=2**BITS,
    )
    workflow(sum_round, legacy)
    sentence = "; ".join([FAILED, *sum_round.errors.values()])
    for node, question in questions.items():
        if sum_round.mean is None:
            question.fail(sentence, LOST)
        else:
            question.answer((sum_round.scalars[node], mean_of(sum_round.mean)))


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
