"""Secure aggregation by Flower's SecAgg+: the server learns the weighted mean of the sites' updates, and none of them.

Source: SecAgg+ is Bell, Bonawitz, Gascon, Lepoint and Raykova, Secure Single-Server Aggregation with (Poly)Logarithmic
Overhead, CCS 2020, as flwr implements it (SecAggPlusWorkflow, secaggplus_mod). Masks are made where a site's SuperNode
runs, so that an update leaves the hospital masked; those of all sites cancel in the sum. It protects against a server
that reads what it receives, not against one that hands out keys of its own, which flwr does not sign, or that asks for
sums over different sites and subtracts. How we differ: flwr draws masks from a generator whose seed has 32 bits, which
can be searched; here they are AES-256 in counter mode under the whole key, see masks().

What is added are updates, quantized to RANGE at a step of about 16 / 2^30 before they are weighted by training images,
with noise of a step from the rounding: no seed makes the same bits again. Every site of a round is needed.
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
BITS, MOST_BITS = 32, 30  # of a sum, and of a quantized number
LOST = "see the logs of the SuperNodes; start what ended again, then go on with --resume"
GENERATOR = "pseudo_rand_gen"
HALVES = (  # of flwr's protocol, at a site and at the server
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)
FAILED = "secure aggregation ended without a sum"


def update_of(question: Message, answer: Message, largest: int) -> list[np.ndarray]:
    """A site's part of the sum: its update float64 [P]; its loss, and whether it says one, [2].

    Raises ValueError where it cannot be part of one; the text may leave the site.
    """
    (scalars, arrays), before = answer, question[1]["theta"]
    if "error" in scalars:
        raise ValueError(scalars["error"])
    if set(arrays) != {"theta", "loss"}:
        other = min(set(arrays) - {"theta", "loss"})
        raise ValueError(
            f"this method reports {other!r} beside its model, which the sum does not carry"
        )
    update = arrays["theta"].astype(np.float64) - before
    if not np.isfinite(update).all() or np.abs(update).max(initial=0) > RANGE:
        raise ValueError(
            f"its update has numbers beyond {RANGE:g}, which the sum does not carry: lower --lr"
        )
    if scalars["n"] > largest:
        raise ValueError("it has more training images than the coordinator knows of")
    loss = float(arrays["loss"])  # NaN where noise protects the update
    known = math.isfinite(loss)
    return [
        update,
        np.array(
            [min(max(loss, 0.0), LARGEST_LOSS) / LARGEST_LOSS if known else 0.0, float(known)]
        ),
    ]


def mean_of(added: list[np.ndarray]) -> Arrays:
    """From the weighted mean of what sites added: the update float64 [P], and the mean loss of those that say one."""
    update, (loss, known) = added
    mean = loss / known * LARGEST_LOSS if known > 1e-6 else math.nan
    return {"update": update, "loss": np.array(mean, np.float32)}


def gathered(waiting: Mapping[str, Question], question: Question) -> dict[str, Question]:
    """The questions of one sum by client, without those of a sum that was given up."""
    of = _sum_of(question)
    return {client: other for client, other in waiting.items() if _sum_of(other) == of} | {
        question.client: question
    }


def _sum_of(question: Question) -> tuple[Any, Any]:
    return question.message[0].get("run"), question.message[0].get("round")


def bits(clients: int) -> int:
    """Of a quantized number, so that the sum over the clients has 32."""
    return min(MOST_BITS, BITS - math.ceil(math.log2(clients)))


def masks(seed: bytes, span: int, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """In place of flwr's pseudo_rand_gen(): whole numbers in [0, span), a power of two up to 2^32, int64."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = hashlib.sha256(
        seed
    ).digest()  # each seed is of one round and one pair of sites, so no counter is used twice
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    drawn = (np.frombuffer(stream.update(bytes(4 * math.prod(shape))), "<u4") for shape in shapes)
    return [
        numbers.astype(np.int64).reshape(shape) % span
        for numbers, shape in zip(drawn, shapes, strict=True)
    ]


def use_own_masks() -> None:
    """Let both halves of flwr's protocol draw masks(). Raises FedcliError for a flwr that draws them elsewhere."""
    for name in HALVES:
        module = import_module(name)
        if not hasattr(module, GENERATOR):
            raise FedcliError(
                f"{name} of this Flower has no {GENERATOR}", "pip install 'fedcli[flower]'"
            )
        setattr(module, GENERATOR, masks)


def masked_answer(message: Any, context: Any) -> Any:
    """At a site, within secaggplus_mod: what is to be masked, as Flower wants it."""
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_STATE
    from flwr.compat.common import recorddict_compat as compat

    fit = compat.recorddict_to_fitins(message.content, keep_input=True)
    question = _question_of(fit)
    client, path = (
        str(context.node_config.get("client")),
        Path(str(context.node_config.get("socket"))),
    )
    keys = context.state.config_records[RECORD_KEY_STATE][
        "public_keys_dict:K"
    ]  # of all sites that share masks
    answer = answered(client, path, question, masked=len(set(keys)))
    content = update_of(question, answer, question[0][SUM]["largest"])
    metrics = {"scalars": json.dumps(answer[0])}
    result = FitRes(
        Status(Code.OK, ""), ndarrays_to_parameters(content), int(answer[0]["n"]), metrics
    )
    return compat.fitres_to_recorddict(result, keep_input=False)


def add_up(grid: Any, context: Any, questions: Mapping[int, Question]) -> None:
    """At the server: let the sites add their updates, and answer each question with the mean. questions: by node."""
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.server import LegacyContext
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

    scalars = next(iter(questions.values())).message[0]
    round, strategy, watched = int(scalars["round"]), _Strategy(questions), _Watched(grid)
    legacy = LegacyContext(
        context,
        strategy=strategy,
        client_manager=SimpleNamespace(num_available=lambda: len(questions)),
    )
    legacy.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: round})
    legacy.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    SecAggPlusWorkflow(
        1.0,
        1.0,
        max_weight=float(scalars[SUM]["largest"]),
        clipping_range=RANGE,
        quantization_range=2 ** bits(len(questions)),
        modulus_range=2**BITS,
    )(watched, legacy)
    why = "; ".join(f"{questions[node].client}: {error}" for node, error in watched.errors.items())
    for node, question in questions.items():
        if strategy.mean is None:
            question.fail(f"{FAILED}; {why}" if why else FAILED, LOST)
        else:
            question.answer((strategy.scalars[node], mean_of(strategy.mean)))


class _Strategy:
    """The strategy that the workflow asks of Flower: the tasks of the sites, and where the mean goes."""

    def __init__(self, questions: Mapping[int, Question]):
        self.questions = questions
        self.mean: list[np.ndarray] | None = None
        self.scalars: dict[int, dict[str, Any]] = {}  # of each site's answer, by node

    def configure_fit(self, *_: Any) -> list[tuple[Any, Any]]:
        return [
            (SimpleNamespace(node_id=node), _fit_of(q.message))
            for node, q in self.questions.items()
        ]

    def aggregate_fit(
        self, round: int, results: Iterable[tuple[Any, Any]], failures: Any
    ) -> tuple[None, dict]:
        from flwr.common import parameters_to_ndarrays

        for proxy, result in results:
            self.scalars[proxy.node_id] = json.loads(result.metrics["scalars"])
            self.mean = parameters_to_ndarrays(result.parameters)
        return None, {}


class _Watched:
    """A grid that remembers why a node did not answer."""

    def __init__(self, grid: Any):
        self.grid = grid
        self.errors: dict[int, str] = {}

    def send_and_receive(self, messages: Iterable[Any], **more: Any) -> list[Any]:
        replies = list(self.grid.send_and_receive(messages, **more))
        for reply in replies:
            if reply.has_error():
                why = str(reply.error.reason or reply.error.code)
                self.errors[reply.metadata.src_node_id] = f"Flower reports: {why}"[:300]
        return replies


def _fit_of(message: Message) -> Any:
    from flwr.common import FitIns, ndarrays_to_parameters

    scalars, arrays = message
    config = {"scalars": json.dumps(scalars), "names": json.dumps(list(arrays))}
    return FitIns(ndarrays_to_parameters(list(arrays.values())), config)


def _question_of(fit: Any) -> Message:
    from flwr.common import parameters_to_ndarrays

    arrays: Arrays = dict(
        zip(json.loads(fit.config["names"]), parameters_to_ndarrays(fit.parameters), strict=True)
    )
    return json.loads(fit.config["scalars"]), arrays
