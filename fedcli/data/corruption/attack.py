"""Attacks: clients whose data are poisoned, or who send another update than that of their training.

Attacks on data change training images of a client, each with the chance `strength`; validation and
test images stay:

    label-flip    the label becomes the next class, of the last one the first; or as --flip says
    image-swap    the image is another one of the client, whose label it does not get
    backdoor      the image gets a chequered square in its lower right corner, and the label of the
                  target class

Attacks on updates change what a client sends at the end of its round. D [T] is the update of the
trained numbers; s is `strength`, and rms the root of the mean of D^2, so that s has no unit:

    scale         s D
    sign-flip     -s D
    noise         D + s rms N, with standard normal numbers N
    constant      s rms, the same for every number

Attacks on all updates of a round see what the honest clients send, and every hostile client sends
the same in place of its own; joint.py has them:

    alie          hides within s standard deviations of the honest updates
    ipm           reverses the mean of the honest updates, times s
    min-max       goes as far from that mean as two honest updates are from each other, times s

Sources: label-flip: Tolpegin, Truex, Gursoy and Liu, ESORICS 2020, arXiv 2007.08432. backdoor: Gu,
Dolan-Gavitt and Garg, "BadNets", 2017, arXiv 1708.06733. scale: Bagdasaryan, Veit, Hua, Estrin and
Shmatikov, AISTATS 2020, arXiv 1807.00459, which multiplies the update of a backdoor. sign-flip,
noise and constant: Li, Xu, Chen, Giannakis and Ling, "RSA", AAAI 2019, arXiv 1811.03761, of models
and without rms; image-swap is ours, a hospital whose table lost its order. The papers' texts were
not at hand.

What is written is a partition: the files of the one it was made from, labels.h5 where labels
change, and in its manifest who attacks how. Pixels are changed where images are loaded, updates
where a client's round ends, or at the server where an attack sees all of them; random numbers
follow from the seed, the client, and the image's id or the round. An attacker is honest in all
else: its batch-norm statistics, and what its method reports beside the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ... import console, labels
from ...errors import FedcliError, UsageError, nearest
from ...seeds import derive
from .. import manifest
from ..pool import LABELS
from . import joint, label_noise, mixture

KEY = "attack"  # of a manifest's body
WORD = "clients"  # in place of a kind of image corruption
STRONGEST = 1e6


@dataclass(frozen=True)
class Attack:
    """The attack of one client, or of all.

    Attributes:
        target: class of a backdoor. patch: side of its square in pixels. flip: class -> class, of
            label-flip.
        client: whose it is.
    """

    kind: str
    strength: float
    seed: int = 0
    target: int = 0
    patch: int = 0
    flip: Mapping[str, str] = field(default_factory=dict)
    client: str = ""

    def drawn(self, ids: np.ndarray) -> np.ndarray:
        """Marks of the images that are changed, bool [N]."""
        draws = []
        for id in ids.tolist():
            stream = np.random.default_rng(derive("attack", self.seed, self.client, id))
            draws.append(stream.random())
        return np.array(draws, dtype=float) < self.strength

    def pixels(self, images: Tensor, ids: np.ndarray) -> Tensor:
        """A client's training images [N, C, H, W] as it trains on them."""
        change = KINDS[self.kind].pixels
        return change(self, images, ids) if change else images

    def stamped(self, images: Tensor) -> Tensor:
        """Copies of images [N, C, H, W] with the square of a backdoor."""
        stamped = images.clone()
        side = torch.arange(self.patch)
        chequers = (side[:, None] + side) % 2  # [P, P]
        stamped[..., -self.patch :, -self.patch :] = 255 * chequers.to(images)
        return stamped

    def update(self, update: Tensor, seed: int, round: int) -> Tensor:
        """The update [T] that a client sends in place of its own, in a run of this seed."""
        scale = self.strength * update.double().square().mean().sqrt()
        stream_seed = derive("attack", self.seed, seed, round, self.client)
        stream = torch.Generator().manual_seed(stream_seed)
        return KINDS[self.kind].update(
            update,
            self.strength,
            scale.to(update.dtype),
            stream,
        )


Draw = torch.Generator


def _unchanged(update: Tensor, s: float, scale: Tensor, stream: Draw) -> Tensor:
    return update


@dataclass(frozen=True)
class AttackKind:
    """A kind of attack: its usual strength, and what it changes.

    Attributes:
        most: its largest strength: 1 where that is the chance that an image is changed.
        labels: (attack, labels [N], ids [N], names of classes) -> labels [N].
        pixels: (attack, training images [N, C, H, W], ids [N]) -> images.
        update: (D [T], s, s rms, random stream) -> what is sent [T].
        joint: (updates of the H honest clients [H, T], s) -> what each hostile client sends [T].
        own: names of options that this kind alone has.
    """

    usual: float
    most: float = STRONGEST
    labels: Callable[[Attack, np.ndarray, np.ndarray, list[str]], np.ndarray] | None = None
    pixels: Callable[[Attack, Tensor, np.ndarray], Tensor] | None = None
    update: Callable[[Tensor, float, Tensor, Draw], Tensor] = _unchanged
    joint: Callable[[Tensor, float], Tensor] | None = None
    own: tuple[str, ...] = ()


def _flipped(
    attack: Attack,
    y: np.ndarray,
    ids: np.ndarray,
    classes: list[str],
) -> np.ndarray:
    kind = "asymmetric" if attack.flip else "pair"
    how = (kind, attack.strength)
    new_classes = label_noise.targets(kind, classes, attack.flip)
    return label_noise.flipped(
        y,
        ids.tolist(),
        how,
        new_classes,
        attack.seed,
        attack.client,
    )


def _swapped(attack: Attack, images: Tensor, ids: np.ndarray) -> Tensor:
    """Each drawn image becomes that of the next one in a random circle of all that are drawn."""
    circle = np.flatnonzero(attack.drawn(ids))
    stream = np.random.default_rng(derive("image swap", attack.seed, attack.client))
    stream.shuffle(circle)
    rows = np.arange(len(ids))
    rows[circle] = np.roll(circle, 1)
    return images[torch.from_numpy(rows).to(images.device)]


def _patched(attack: Attack, images: Tensor, ids: np.ndarray) -> Tensor:
    has_patch = torch.from_numpy(attack.drawn(ids)).to(images.device)
    return torch.where(
        has_patch[:, None, None, None],
        attack.stamped(images),
        images,
    )


def _poisoned(
    attack: Attack,
    y: np.ndarray,
    ids: np.ndarray,
    classes: list[str],
) -> np.ndarray:
    return np.where(attack.drawn(ids), attack.target, y)


def _noised(update: Tensor, s: float, scale: Tensor, stream: Draw) -> Tensor:
    noise = torch.randn(len(update), generator=stream)
    return update + scale * noise.to(update)


def _scaled(update: Tensor, s: float, scale: Tensor, stream: Draw) -> Tensor:
    return s * update


def _reversed(update: Tensor, s: float, scale: Tensor, stream: Draw) -> Tensor:
    return -s * update


def _constant(update: Tensor, s: float, scale: Tensor, stream: Draw) -> Tensor:
    return scale.expand_as(update)


KINDS = {
    "label-flip": AttackKind(1.0, 1.0, labels=_flipped, own=("flip",)),
    "image-swap": AttackKind(1.0, 1.0, pixels=_swapped),
    "backdoor": AttackKind(0.5, 1.0, labels=_poisoned, pixels=_patched, own=("target", "patch")),
    "scale": AttackKind(10.0, update=_scaled),
    "sign-flip": AttackKind(1.0, update=_reversed),
    "noise": AttackKind(10.0, update=_noised),
    "constant": AttackKind(10.0, update=_constant),
    "alie": AttackKind(1.5, joint=joint.alie),
    "ipm": AttackKind(0.5, joint=joint.ipm),
    "min-max": AttackKind(1.0, joint=joint.min_max),
}
BACKDOOR = "backdoor"


def make_attack(
    source: Path,
    attack: Attack,
    to: manifest.Destination,
    clients: int,
    on: Sequence[str] = (),
) -> Path:
    """Have clients of a partition attack; returns the path of the new partition.json.

    clients: their number, the last in the roster; on: their names instead. Raises FedcliError,
        UsageError.
    """
    source, body = mixture.partition_of(
        source,
        "have clients attack",
        "clients attack",
    )
    kind = KINDS[attack.kind]
    _check_source(source, body, kind)
    roster = mixture.clients_of(body, on)
    if not 1 <= clients <= len(roster):
        sentence = f"--clients {clients}, but there are 1 to {len(roster)}"
        raise UsageError(sentence, "--clients 1 is the last client")
    attackers = mixture.chosen(body, mixture.Who(clients / len(roster), on))
    if kind.joint and len(attackers) == len(roster):
        sentence = f"{attack.kind} is made of what the honest clients send, and no client is honest"
        raise UsageError(sentence, f"--clients {len(roster) - 1} at most, or --kind sign-flip")
    attack = checked(attack, body["classes"], min(body["size"]))
    facts = {name: getattr(attack, name) for name in ("kind", "strength", "seed", *kind.own)}
    facts["clients"] = attackers
    new_body = {**body, KEY: facts}

    def write(target: Path) -> manifest.Body:
        attacks = of_body(new_body)
        if not kind.labels:
            when = "at the end of each round" if kind.most > 1 else "with its training images"
            names = ", ".join(attackers)
            console.say(f"{attack.kind} of strength {attack.strength:g} {when}: {names}")
            return new_body

        def change(name: str, y: np.ndarray, ids: np.ndarray) -> np.ndarray:
            assert kind.labels
            return kind.labels(attacks[name], y, ids, body["classes"])

        hows = dict.fromkeys(attackers, (attack.kind, attack.strength))
        return label_noise.write_labels(
            target / LABELS,
            source,
            new_body,
            hows,
            change,
        )

    return mixture.make_changed(source, attack.kind, {KEY: facts}, to, write)


def _check_source(source: Path, body: manifest.Body, kind: AttackKind) -> None:
    if KEY in body:
        raise FedcliError(f"{source} has attackers already", "start from the partition above it")
    if kind.labels and "label_noise" in body:
        raise FedcliError(f"{source} has noisy labels already", "start from the partition above it")
    if labels.is_multi_label(body) and kind.most == 1:
        hint = "attack updates instead, such as --kind sign-flip"
        raise FedcliError(f"{source} has several labels per image", hint)


def checked(attack: Attack, classes: list[str], size: int) -> Attack:
    """The attack with its usual patch. Raises UsageError for what no attack is."""
    if attack.kind not in KINDS:
        raise UsageError(f"unknown attack {attack.kind!r}", nearest(attack.kind, KINDS))
    kind = KINDS[attack.kind]
    if not 0 < attack.strength <= kind.most:
        strength = f"{attack.strength:g}, not in (0, {kind.most:g}]"
        sentence = f"the strength of {attack.kind} is {strength}"
        raise UsageError(sentence, f"--strength {kind.usual:g} is usual")
    patch = attack.patch or max(2, size // 8)
    if not (1 <= patch <= size and 0 <= attack.target < len(classes)):
        sentence = f"a patch of {patch} px, class {attack.target}"
        raise UsageError(sentence, f"up to {size} px and {len(classes)} classes")
    label_noise.check_flip(attack.flip, classes)
    return replace(attack, patch=patch)


def of_body(body: manifest.Body) -> dict[str, Attack]:
    """Client -> its attack, as a manifest's body says; {} where nobody attacks. Raises FedcliError,
    UsageError."""
    facts = dict(body.get(KEY, {}))
    clients = facts.pop("clients", [])
    if not clients:
        return {}
    options = Attack.__match_args__[:-1]
    roster = mixture.clients_of(body)
    unknown = [name for name in facts if name not in options]
    unknown += [name for name in clients if name not in roster]
    if unknown:
        names = f"names {unknown[0]!r}, which is no option and no client"
        raise FedcliError(f"the attack of the partition {names}", "attack again")
    attack = checked(Attack(**facts), body["classes"], min(body["size"]))
    return {client: replace(attack, client=client) for client in clients}


def is_joint(body: manifest.Body) -> bool:
    """Tell whether clients attack by what the others of the round send."""
    return any(KINDS[attack.kind].joint for attack in of_body(body).values())
