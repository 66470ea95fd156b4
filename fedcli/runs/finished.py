"""A finished run, opened again: its settings, its data and the models it kept."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from .. import extensions, models
from ..data import manifest
from ..data import shard as load
from ..data.shard import Shard, Shards
from ..errors import FedcliError
from ..federation.client_state import ClientState
from ..federation.state import Tensors, read_tensors, write_tensors
from ..methods import METHODS, Method
from ..methods.contract import Local
from ..methods.helpers import is_frozen
from ..methods.mixins import GroupViews, views_of
from ..models.adapted import PAIR
from ..models.layout import Layout
from .features import FeatureTables, fed_features, folder_for
from .initial import data_of, of_one_site
from .own_code import method_of, model_of
from .resources import be_deterministic
from .rules import adapted

# parts of a client's memory: a whole model, tensors that it keeps, and what --bn local keeps
PERSONAL = ("model", "own", "statistics")
KEPT = 5  # models of the last rounds that a run keeps, for means over them
BEST = "best"  # in place of a round: the best model on the validation parts, where clients have any


@dataclass(frozen=True)
class FinishedRun:
    """A run as evaluation sees it.

    Attributes:
        rounds: rounds whose model was kept, rising.
        images: the manifest of the data.
        adapt: changes a loaded model before it answers for a shard, see
            scores/deploy/adaptation.py.
    """

    path: Path
    manifest: manifest.Manifest
    data: Shards
    rounds: list[int]
    net: models.Network
    layout: Layout
    device: str
    method: Method = METHODS["fedavg"]
    images: Path | None = None
    adapt: Callable[[models.Network, Shard, Local], None] | None = None
    features: FeatureTables | None = None  # of a frozen network


def open_run(
    path: Path,
    device: str = "cpu",
    images: Path | None = None,
) -> FinishedRun:
    """Open a run after checking every hash above it. Raises FedcliError, HashError, UsageError.

    images: where the run's own are at their sites, the partition or corruption of one of them.
    """
    be_deterministic(device, 0)
    path = manifest.find(path, "run")
    verified = manifest.verify(path, "run")
    model = verified.body["model"]
    data_path = of_one_site(path, images) if images else data_of(path)
    data = load.load(
        data_path,
        channels=model["channels"],
        augment="none",
        device=device,
    )
    if not len(data.test["clean"]):
        raise FedcliError(
            f"{data_path} holds no test image", "prepare or partition again with a test part"
        )
    models_kept = [Path(name).stem for name in verified.files if name.startswith("models/")]
    rounds = sorted(int(stem) for stem in models_kept if stem.isdigit())
    with extensions.named_by(path):
        method = adapted(method_of(verified), verified.options)
        net = _built(verified, data, method, seed=0).to(device)
    if "frozen" in models_kept:
        _load_frozen(net, path.parent / "models" / "frozen.h5", model["frozen"])
    layout = Layout(net, tuple(model["personal"]))
    tables = None
    if is_frozen(net) and not net.tokens:
        tables = FeatureTables(net, folder_for(data_path))
    return FinishedRun(
        path,
        verified,
        data,
        rounds,
        net,
        layout,
        device,
        method,
        data_path,
        features=tables,
    )


def _built(
    verified: manifest.Manifest,
    data: Shards,
    method: Method,
    seed: int,
) -> models.Network:
    """The network of a run with the weights of a seed."""
    model = verified.body["model"]
    classes = data.classes
    inputs = models.Inputs(
        model["channels"],
        len(classes),
        model["size"],
        classes,
        data.attributes,
    )
    teacher = None
    if model["teacher_width"]:
        teacher = models.AbsentTeacher(model["teacher_width"])
    return models.build(
        model_of(verified),
        inputs,
        seed=seed,
        precision=model["precision"],
        teacher=teacher,
        freeze=verified.options.get("freeze_backbone") is True,
        extend=method.extend,
    )


def starting_network(run: FinishedRun) -> models.Network | None:
    """The network as it was before the first round; None where it began with given weights."""
    options = run.manifest.options
    if options.get("weights") or manifest.parent(run.path, "run"):
        return None
    seed = options.get("seed", 0)
    with extensions.named_by(run.path):
        return _built(run.manifest, run.data, run.method, seed).to(run.device)


def save_model(
    path: Path,
    layout: Layout,
    theta: torch.Tensor,
    clients: Mapping[str, ClientState],
    counts: dict[str, int],
) -> None:
    """Write the global model by tensor name, and what each client keeps of its own.

    counts: images of every client, in roster order. Where tensors never leave the
    clients, the global model holds mean_own(), which is for scoring only and is sent to nobody.
    """
    model = layout.named(theta, mean_own(layout, clients, counts))
    tensors = {f"model/{name}": tensor for name, tensor in model.items()}
    for row, client in enumerate(counts):  # in roster order: equal bytes
        memory = clients.get(client, {})
        for name in PERSONAL:
            if name in memory:
                tensors[f"clients/{row}/{name}"] = memory[name]
    path.parent.mkdir(exist_ok=True)
    write_tensors(path, tensors)


def mean_own(
    layout: Layout, clients: Mapping[str, ClientState], counts: dict[str, int]
) -> torch.Tensor | None:
    """The mean by image count of the numbers [Q] that stay at clients; None without any.

    A second pair of adapters adds nothing in it: the model of all is the one without it, also where
    sites keep all such pairs.
    """
    tensors = {}
    for client in counts:
        memory = clients.get(client, {})
        if "own" in memory:
            tensors[client] = memory["own"]
    if not tensors:
        others = [name for name in layout.own_shapes if f".{PAIR}." not in name]
        return None if others or not layout.own_shapes else layout.own_start
    mean = _mean(tensors, counts)
    start = 0
    for name, shape in layout.own_shapes.items():
        end = start + shape.numel()
        if name.endswith(f".{PAIR}.A"):
            mean[start:end] = 0
        start = end
    return mean


def _mean(tensors: Tensors, counts: dict[str, int]) -> torch.Tensor:
    """The mean by image count, summed in the order of the tensors."""
    total = torch.zeros(())
    for client, tensor in tensors.items():
        total = counts[client] * tensor + total
    images = sum(counts[client] for client in tensors)
    return total / images


def save_frozen(path: Path, tensors: Tensors) -> None:
    """Write what never trains, once for the run."""
    path.parent.mkdir(exist_ok=True)
    write_tensors(path, {f"model/{name}": tensor for name, tensor in tensors.items()})


def _load_frozen(net: models.Network, path: Path, names: list[str]) -> None:
    stored = read_tensors(path)
    expected = net.state_dict()
    tensors = {}
    for name in names:
        tensor = stored.get(f"model/{name}")
        if tensor is None or name not in expected or tensor.shape != expected[name].shape:
            raise FedcliError(
                f"{path} does not fit its run's network (first: {name})", "train the run again"
            )
        tensors[name] = tensor
    net.load_state_dict(tensors, strict=False)


def model_file(folder: Path, round: int | str) -> Path:
    """Where a run folder keeps the model of a round, or BEST."""
    stem = BEST if round == BEST else f"{round:05d}"
    return folder / "models" / f"{stem}.h5"


def load_model(
    run: FinishedRun,
    round: int | str,
    client: str | None = None,
) -> None:
    """Put the global model of a round, or BEST, into run.net; with a client, its tensors too."""
    path = model_file(run.path.parent, round)
    tensors = read_tensors(path, run.device)
    run.layout.load(joined(path, tensors, run.layout.shapes))
    if run.layout.own_shapes:
        run.layout.load_own(joined(path, tensors, run.layout.own_shapes))
    if client is None:
        return
    prefix = f"clients/{run.data.roster.index(client)}/"
    memory = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            memory[name.removeprefix(prefix)] = tensor
    load_personal(run.layout, memory)


def joined(
    path: Path,
    tensors: Tensors,
    shapes: dict[str, torch.Size],
) -> torch.Tensor:
    """The tensors of a model file as one vector. Raises FedcliError for one that is not usable."""
    parts = []
    for name, shape in shapes.items():
        tensor = tensors.get(f"model/{name}")
        if tensor is None or tensor.shape != shape:
            text = f"{path} has no {name} of shape {tuple(shape)}"
            raise FedcliError(text, "train the run again")
        parts.append(tensor.reshape(-1))
    flat = torch.cat(parts)
    if not flat.isfinite().all():
        raise FedcliError(
            f"{path} holds numbers that are not finite",
            "its training diverged, or somebody changed the file: train again, perhaps with a "
            "lower --lr",
        )
    return flat


def load_personal(layout: Layout, memory: Tensors) -> None:
    """Put the tensors that a client keeps over the model that is in the network."""
    if "statistics" in memory:
        layout.buffers.copy_(memory["statistics"])
    if "model" in memory:
        layout.load(memory["model"])
    if "own" in memory:
        layout.load_own(memory["own"])


def load_mean_personal(run: FinishedRun, round: int | str) -> bool:
    """Put the mean by image count of the clients' whole personal models into run.net.

    Returns False where there are none.
    """
    load_model(run, round)  # for what is no part of a whole model: the mean of what clients keep
    tensors = read_tensors(model_file(run.path.parent, round), run.device)
    models_of = {}
    counts = {}
    for row, client in enumerate(run.data.roster):
        model = tensors.get(f"clients/{row}/model")
        if model is not None:
            models_of[client] = model
            counts[client] = len(run.data.train[client])
    if models_of:
        run.layout.load(_mean(models_of, counts))
    return bool(models_of)


def has_personal_models(run: FinishedRun) -> bool:
    """Tell whether clients keep tensors, so that their models differ from the global one."""
    local_norms = run.manifest.options.get("bn") == "local"
    return local_norms or run.manifest.body["model"]["personal_models"]


def trains_alone(run: FinishedRun) -> bool:
    """Tell whether every client trained alone, so that the global model is the untrained start."""
    return run.manifest.options.get("single_site", False)


def has_own_tests(data: Shards) -> bool:
    """Tell whether every test image is in exactly one client's own test part."""
    indices = np.concatenate([data.client_test[client] for client in data.roster])
    test = next(iter(data.test.values()))
    is_complete = len(indices) == len(test)
    distinct = np.unique(indices)
    return is_complete and len(distinct) == len(indices)


def alone_logits(
    data: Shards, shard: Shard, logits_of: Callable[[str, Shard], np.ndarray]
) -> list[np.ndarray]:
    """Logits [N, C] on a test set by clients that train alone.

    One table, in which every image is shown to the client whose own test part it is in; where there
    are no such parts, a table of each client, in roster order.

    logits_of: (client, shard) -> [len(shard), C].
    """
    if not has_own_tests(data):
        return [logits_of(client, shard) for client in data.roster]
    tests = {client: indices for client, indices in data.client_test.items() if len(indices)}
    tables = [logits_of(client, part(shard, indices)) for client, indices in tests.items()]
    whole = np.empty((len(shard), tables[0].shape[1]), np.float32)  # [N, C]
    for indices, table in zip(tests.values(), tables):
        whole[indices] = table
    return [whole]


def part(shard: Shard, places: np.ndarray) -> Shard:
    """The images at some places of a shard, as a shard."""
    indices = torch.from_numpy(places)
    groups = {}
    for name, values in shard.groups.items():
        groups[name] = values[indices.to(values.device)]
    row_index = indices.to(shard.rows.device)
    label_index = indices.to(shard.y.device)
    return replace(
        shard,
        rows=shard.rows[row_index],
        y=shard.y[label_index],
        ids=shard.ids[places],
        groups=groups,
        derived={},
    )


@torch.inference_mode()
def predict(
    run: FinishedRun,
    round: int | str,
    shard: Shard,
    client: str | None = None,
    view: str | None = None,
) -> np.ndarray:
    """Logits float32 [N, C] of a kept round's model, or BEST, on a shard's fixed view.

    view: as of logits().
    """
    load_model(run, round, client)
    if run.adapt:
        run.adapt(run.net, shard, run.method.local)
    return logits_of_loaded(run, shard, view)


@torch.inference_mode()
def logits_of_loaded(
    run: FinishedRun,
    shard: Shard,
    view: str | None = None,
) -> np.ndarray:
    """Logits float32 [N, C] of the model that is in run.net; a frozen network's features are those
    that are kept.

    view: as of logits().
    """
    if run.adapt or run.features is None:
        return logits(run.net, shard, run.method.local, view)
    shard = run.features.shard(shard)
    with fed_features(run.net):
        return logits(run.net, shard, run.method.local, view)


@torch.inference_mode()
def logits(
    net: models.Network,
    shard: Shard,
    local: Local,
    view: str | None = None,
) -> np.ndarray:
    """Logits float32 [N, C] in eval mode.

    view: the method's first by default; any other is shown no image's group.
    """
    first_view = views_of(local)[0]
    if view is None:
        view = first_view
    if view != first_view:
        unknown = {name: torch.full_like(values, -1) for name, values in shard.groups.items()}
        shard = replace(shard, groups=unknown, derived={})
    batches = list(_passed(net, net, shard, local, view))
    return torch.cat(batches).float().cpu().numpy()


def features(run: FinishedRun, shard: Shard) -> Iterator[torch.Tensor]:
    """The features of each batch in eval mode [B, ..., width], by the method's first view.

    They are read where a file has them.
    """
    net = run.net
    local = run.method.local
    view = views_of(local)[0]
    if run.features is None or not run.features.has(shard):
        yield from _passed(net, net.features, shard, local, view)
        return
    shard = run.features.shard(shard)
    with fed_features(net):
        yield from _passed(net, net.features, shard, local, view)


def _passed(
    net: models.Network,
    forward: Callable[[torch.Tensor], torch.Tensor],
    shard: Shard,
    local: Local,
    view: str,
) -> Iterator[torch.Tensor]:
    net.eval()
    for batch in shard.in_order():
        if isinstance(local, GroupViews):
            local.set_groups(net, shard, batch.at, view)
        yield forward(batch.x)
