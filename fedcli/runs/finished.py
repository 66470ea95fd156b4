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
from ..methods.mixins import GroupViews, views_of
from ..models.layout import Layout
from .features import FeatureTables, fed_features, folder_for, is_frozen
from .initial import data_of, of_one_site
from .own_code import method_of, model_of
from .resources import be_deterministic
from .rules import adapted

PERSONAL = (
    "model",
    "own",
    "statistics",
)  # of a client's memory: a whole model, tensors it keeps, --bn local
KEPT = 5  # models of the last rounds that a run keeps, for means over them
BEST = "best"  # in place of a round: the model that was best on validation, kept where clients have such a part


@dataclass(frozen=True)
class Run:
    """A run as evaluation sees it.

    Attributes:
        rounds: rounds whose model was kept, rising.
        images: the manifest of the data.
        adapt: changes a loaded model before it answers for a shard, see scores/deploy/adaptation.py.
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


def open_run(path: Path, device: str = "cpu", images: Path | None = None) -> Run:
    """Open a run after checking every hash above it. Raises FedcliError, HashError, UsageError.

    images: where the run's own are at their sites, the partition or corruption of one of them.
    """
    be_deterministic(device, 0)
    path = manifest.find(path, "run")
    verified = manifest.verify(path, "run")
    model = verified.body["model"]
    above = of_one_site(path, images) if images else data_of(path)
    data = load.load(above, channels=model["channels"], augment="none", device=device)
    if not len(data.test["clean"]):
        raise FedcliError(
            f"{above} holds no test image", "prepare or partition again with a test part"
        )
    kept = [Path(name).stem for name in verified.files if name.startswith("models/")]
    rounds = sorted(int(stem) for stem in kept if stem.isdigit())
    with extensions.named_by(path):
        method = adapted(method_of(verified), verified.options)
        net = _built(verified, data, method, seed=0).to(device)
    if "frozen" in kept:
        _load_frozen(net, path.parent / "models" / "frozen.h5", model["frozen"])
    return Run(
        path,
        verified,
        data,
        rounds,
        net,
        Layout(net, tuple(model["personal"])),
        device,
        method,
        above,
        features=FeatureTables(net, folder_for(above))
        if is_frozen(net) and not net.tokens
        else None,
    )


def _built(verified: manifest.Manifest, data: Shards, method: Method, seed: int) -> models.Network:
    """The network of a run with the weights of a seed."""
    model = verified.body["model"]
    return models.build(
        model_of(verified),
        models.Inputs(
            model["channels"], len(data.classes), model["size"], data.classes, data.attributes
        ),
        seed=seed,
        precision=model["precision"],
        teacher=models.Absent(model["teacher_width"]) if model["teacher_width"] else None,
        freeze=verified.options.get("freeze_backbone") is True,
        extend=method.extend,
    )


def starting_network(run: Run) -> models.Network | None:
    """The network as it was before the first round; None where it began with other weights than those of its seed."""
    if run.manifest.options.get("weights") or manifest.parent(run.path, "run"):
        return None
    with extensions.named_by(run.path):
        return _built(run.manifest, run.data, run.method, run.manifest.options.get("seed", 0)).to(
            run.device
        )


def save_model(
    path: Path,
    layout: Layout,
    theta: torch.Tensor,
    clients: Mapping[str, ClientState],
    counts: dict[str, int],
) -> None:
    """Write the global model by tensor name, and what each client keeps of its own.

    counts: images of every client, in roster order. Where tensors never leave the clients, the global
    model holds their mean by image count, which is for scoring only and is sent to nobody.
    """
    rows = {client: row for row, client in enumerate(counts)}
    clients = {
        client: clients[client] for client in counts if client in clients
    }  # in roster order: equal bytes
    own = {f"clients/{rows[c]}/{k}": m[k] for c, m in clients.items() for k in PERSONAL if k in m}
    path.parent.mkdir(exist_ok=True)
    named = layout.named(theta, mean_own(clients, counts))
    write_tensors(path, {**{f"model/{k}": v for k, v in named.items()}, **own})


def mean_own(clients: Mapping[str, ClientState], counts: dict[str, int]) -> torch.Tensor | None:
    """Numbers that clients keep to themselves [Q], in the mean by image count; None where nobody keeps anything."""
    having = [c for c in counts if "own" in clients.get(c, {})]
    return _mean({c: clients[c]["own"] for c in having}, counts) if having else None


def _mean(tensors: Tensors, counts: dict[str, int]) -> torch.Tensor:
    """By image count, summed in the order of the tensors."""
    total = torch.zeros(())
    for client, tensor in tensors.items():
        total = counts[client] * tensor + total
    return total / sum(counts[client] for client in tensors)


def save_frozen(path: Path, tensors: Tensors) -> None:
    """Write what never trains, once for the run."""
    path.parent.mkdir(exist_ok=True)
    write_tensors(path, {f"model/{name}": tensor for name, tensor in tensors.items()})


def _load_frozen(net: models.Network, path: Path, names: list[str]) -> None:
    tensors = {name.removeprefix("model/"): tensor for name, tensor in read_tensors(path).items()}
    known = net.state_dict()
    if wrong := [
        k for k in names if k not in tensors or k not in known or known[k].shape != tensors[k].shape
    ]:
        raise FedcliError(
            f"{path} does not fit its run's network (first: {wrong[0]})", "train the run again"
        )
    net.load_state_dict({name: tensors[name] for name in names}, strict=False)


def model_file(folder: Path, round: int | str) -> Path:
    """Where a run folder keeps the model of a round, or BEST."""
    return folder / "models" / (f"{BEST}.h5" if round == BEST else f"{round:05d}.h5")


def load_model(run: Run, round: int | str, client: str | None = None) -> None:
    """Put the global model of a round, or BEST, into run.net; with a client, its own tensors over it."""
    path = model_file(run.path.parent, round)
    tensors = read_tensors(path, run.device)

    def joined(shapes: dict[str, torch.Size]) -> torch.Tensor:
        for name, shape in shapes.items():
            if f"model/{name}" not in tensors or tensors[f"model/{name}"].shape != shape:
                raise FedcliError(
                    f"{path} lacks {name} of shape {tuple(shape)}", "train the run again"
                )
        flat = torch.cat([tensors[f"model/{name}"].reshape(-1) for name in shapes])
        if not flat.isfinite().all():
            hint = "its training diverged, or somebody changed the file: train again, perhaps with a lower --lr"
            raise FedcliError(f"{path} holds numbers that are not finite", hint)
        return flat

    run.layout.load(joined(run.layout.shapes))
    if run.layout.own_shapes:
        run.layout.load_own(joined(run.layout.own_shapes))
    if client is not None:
        prefix = f"clients/{run.data.roster.index(client)}/"
        load_personal(
            run.layout,
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)},
        )


def load_personal(layout: Layout, kept: Tensors) -> None:
    """Put what a client keeps of its own over the model that is in the network."""
    if "statistics" in kept:
        layout.buffers.copy_(kept["statistics"])
    if "model" in kept:
        layout.load(kept["model"])
    if "own" in kept:
        layout.load_own(kept["own"])


def load_mean_personal(run: Run, round: int | str) -> bool:
    """Put the mean of the clients' whole personal models, by image count, into run.net; False where there are none."""
    load_model(run, round)  # for what is no part of a whole model: the mean of what clients keep
    tensors = read_tensors(model_file(run.path.parent, round), run.device)
    names = {client: f"clients/{row}/model" for row, client in enumerate(run.data.roster)}
    models_of = {client: tensors[name] for client, name in names.items() if name in tensors}
    if models_of:
        run.layout.load(
            _mean(models_of, {client: len(run.data.train[client]) for client in models_of})
        )
    return bool(models_of)


def has_personal_models(run: Run) -> bool:
    """Tell whether clients keep tensors of their own, so that their models differ from the global one."""
    return (
        run.manifest.options.get("bn") == "local" or run.manifest.body["model"]["personal_models"]
    )


def trains_alone(run: Run) -> bool:
    """Tell whether every client trained alone, so that there is no global model but the untrained start."""
    return run.manifest.options.get("single_site", False)


def has_own_tests(data: Shards) -> bool:
    """Tell whether every test image is in exactly one client's own test part."""
    at = np.concatenate([data.client_test[client] for client in data.roster])
    return len(at) == len(next(iter(data.test.values()))) and len(np.unique(at)) == len(at)


def alone_logits(
    data: Shards, shard: Shard, logits_of: Callable[[str, Shard], np.ndarray]
) -> list[np.ndarray]:
    """Logits [N, C] on a test set by clients that train alone: one table, in which every image is shown to the client
    whose own test part it is in; where there are no such parts, a table of each client, in roster order.

    logits_of: (client, shard) -> [len(shard), C].
    """
    if not has_own_tests(data):
        return [logits_of(client, shard) for client in data.roster]
    own = {client: at for client, at in data.client_test.items() if len(at)}
    tables = [logits_of(client, part(shard, at)) for client, at in own.items()]
    out = np.empty((len(shard), tables[0].shape[1]), np.float32)  # [N, C]
    out[np.concatenate(list(own.values()))] = np.concatenate(tables)
    return [out]


def part(shard: Shard, places: np.ndarray) -> Shard:
    """Some places of a shard as one of its own."""
    at = torch.from_numpy(places)
    rows, y = shard.rows[at.to(shard.rows.device)], shard.y[at.to(shard.y.device)]
    groups = {name: values[at.to(values.device)] for name, values in shard.groups.items()}
    return replace(shard, rows=rows, y=y, ids=shard.ids[places], groups=groups, derived={})


@torch.inference_mode()
def predict(
    run: Run, round: int | str, shard: Shard, client: str | None = None, view: str | None = None
) -> np.ndarray:
    """Logits float32 [N, C] of a kept round's model, or BEST, on a shard's fixed view, as the method's view asks."""
    load_model(run, round, client)
    if run.adapt:
        run.adapt(run.net, shard, run.method.local)
    if run.adapt or run.features is None:
        return logits(run.net, shard, run.method.local, view)
    shard = run.features.shard(shard)
    with fed_features(run.net):
        return logits(run.net, shard, run.method.local, view)


@torch.inference_mode()
def logits(net: models.Network, shard: Shard, local: Local, view: str | None = None) -> np.ndarray:
    """Logits float32 [N, C] in eval mode; view None takes the method's first, any other is shown no image's group."""
    view = views_of(local)[0] if view is None else view
    if view != views_of(local)[0]:
        unknown = {name: torch.full_like(values, -1) for name, values in shard.groups.items()}
        shard = replace(shard, groups=unknown, derived={})
    return torch.cat(list(_passed(net, net, shard, local, view))).float().cpu().numpy()


def features(run: Run, shard: Shard) -> Iterator[torch.Tensor]:
    """The features of each batch in eval mode [B, ..., width], by the method's first view; read where they are kept."""
    net, local = run.net, run.method.local
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
