"""Attacks: who changes what, and that nothing else changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import ROSTER, make_chain, play, toy_federation, toy_shards
from tables_of_numbers import rows as number_rows
from torch.testing import assert_close

from fedcli.data import manifest, shard
from fedcli.data.corruption.attack import KINDS, Attack, make_attack, of_body
from fedcli.data.manifest import Destination
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.engines import open_engine
from fedcli.methods import resolve

IDS = np.array([f"img-{i}" for i in range(40)])


def attacked(tmp_path, kind, strength=1.0, **options):
    """Clean and attacked shards of a partition whose last client attacks."""
    source = make_chain(tmp_path / "work")
    attack = Attack(kind, strength, **options)
    work = tmp_path / "work"
    path = make_attack(source, attack, Destination(work, None, ["attack"]), 1)
    return shard.load(source), shard.load(path), path


def images(part):
    return part.images[part.rows]


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_attacker_is_changed_and_only_in_what_its_kind_changes(tmp_path, kind):
    clean, other, _ = attacked(tmp_path, kind)
    *honest, attacker = clean.roster
    for name in honest:
        expected = images(other.train[name])
        part = clean.train[name]
        assert torch.equal(images(part), expected)
        assert other.train[name].attack is None
        assert torch.equal(clean.train[name].y, other.train[name].y)
    before = clean.train[attacker]
    after = other.train[attacker]
    expected = not torch.equal(before.y, after.y)
    assert (kind in ("label-flip", "backdoor")) == expected
    expected = not torch.equal(images(before), images(after))
    assert (kind in ("image-swap", "backdoor")) == expected
    assert after.attack.kind == kind
    assert list(after.ids) == list(before.ids)
    expected = images(other.test["clean"])
    part = clean.test["clean"]
    assert torch.equal(images(part), expected)


def test_a_backdoor_stamps_the_images_it_relabels(tmp_path):
    clean, other, _ = attacked(tmp_path, "backdoor", 0.5, target=2, patch=3, seed=4)
    attacker = clean.roster[-1]
    before = clean.train[attacker]
    after = other.train[attacker]
    marked = torch.from_numpy(after.attack.drawn(after.ids))
    assert 0 < marked.sum() < len(marked)
    assert (after.y[marked] == 2).all()
    expected = before.y[~marked]
    assert torch.equal(after.y[~marked], expected)
    assert (
        images(after)[marked][..., -3:, -3:]
        .eq(torch.tensor(number_rows("0 255 0; 255 0 255; 0 255 0")))
        .all()
    )
    result = images(after)[..., :-3, :]
    expected = images(before)[..., :-3, :]
    assert torch.equal(result, expected)


def test_swapped_images_stay_at_the_client_and_none_keeps_its_own():
    attack = Attack("image-swap", 1.0, client="a")
    rows = torch.arange(40)[:, None, None, None]
    swapped = attack.pixels(rows, IDS).flatten()
    assert sorted(swapped.tolist()) == list(range(40))
    assert not (swapped == rows.flatten()).any()


def test_updates_by_hand():
    """D = (3, -4) has rms 5 / sqrt(2)."""
    update = torch.tensor([3.0, -4.0])
    rms = 12.5**0.5

    def sent(kind, strength):
        return Attack(kind, strength, client="a").update(update, 0, 1).tolist()

    assert sent("scale", 10.0) == [30.0, -40.0]
    assert sent("sign-flip", 2.0) == [-6.0, 8.0]
    expected = pytest.approx([2 * rms] * 2)
    assert sent("constant", 2.0) == expected
    assert sent("label-flip", 1.0) == [
        3.0,
        -4.0,
    ]


def test_noise_has_its_size_and_another_draw_in_each_round():
    update = torch.ones(10_000)
    noisy, repeated, later = (
        Attack("noise", 3.0, client="a").update(update, 0, t) for t in (1, 1, 2)
    )
    assert torch.equal(noisy, repeated)
    assert not torch.equal(noisy, later)
    result = (noisy - update).std().item()
    expected = pytest.approx(3, rel=0.05)
    assert result == expected


def hostile(kind, strength):
    return {
        name: replace(part, attack=Attack(kind, strength, client=name))
        for name, part in toy_shards().items()
    }


def test_a_sign_flip_of_everyone_turns_the_round_around_but_for_its_statistics():
    start = play("fedavg", rounds=0).theta
    usual = play("fedavg", rounds=1).theta
    shards = hostile("sign-flip", 1.0)
    flipped = play("fedavg", rounds=1, shards=shards).theta
    trained = toy_federation(resolve("fedavg")).layout.trainable
    result = (flipped - start)[:trained]
    expected = (start - usual)[:trained]
    assert_close(result, expected, rtol=1e-3, atol=1e-6)
    assert torch.equal(flipped[trained:], usual[trained:])


def test_engines_send_the_same_and_a_client_alone_attacks_nobody():
    shards = hostile("noise", 2.0)
    federation = toy_federation(resolve("fedavg"), shards=shards, rounds=2)
    start = federation.first()  # of a network that has not played
    with open_engine("pool:2", federation.clients, 4) as pool:
        played = [federation.play(start, ROSTER, engine) for engine in (None, pool)]
    assert torch.equal(played[0].state.theta, played[1].state.theta)
    task = replace(federation.tasks(start, ROSTER, {})[0], part="alone")
    with_attack = federation.clients.run_one(task).theta
    expected = toy_federation(resolve("fedavg"), rounds=2).clients.run_one(task).theta
    assert torch.equal(with_attack, expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "bomb"}, "unknown attack 'bomb'"),
        ({"strength": -1}, "not in"),
        ({"target": 99}, "class 99"),
        ({"clients": ["nobody"]}, "'nobody', which is no option and no client"),
        ({"more": 1}, "'more', which is no option"),
    ],
)
def test_a_manifest_that_names_no_attack_is_refused(tmp_path, changed, message):
    _, _, path = attacked(tmp_path, "backdoor", 0.5)
    body = manifest.read(path).body
    with pytest.raises(FedcliError, match=message):
        of_body({**body, "attack": {**body["attack"], **changed}})


def test_what_is_attacked_once_is_not_attacked_again(tmp_path):
    _, _, path = attacked(tmp_path, "scale")
    with pytest.raises(FedcliError, match="has attackers already"):
        attack = Attack("scale", 2.0)
        work = tmp_path / "work"
        make_attack(path, attack, Destination(work, None, ["attack"]), 1)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.joint])
def test_an_attack_on_honest_updates_needs_an_honest_client(tmp_path, kind):
    source = make_chain(tmp_path)
    to = Destination(tmp_path, None, ["attack"])
    everyone = len(ROSTER)
    for count, on in ((everyone, ()), (1, ROSTER)):
        with pytest.raises(UsageError, match=f"{kind} is made of .* no client is honest") as error:
            make_attack(source, Attack(kind, 1.0), to, count, on)
        assert f"--clients {everyone - 1} at most" in error.value.hint
    assert make_attack(source, Attack(kind, 1.0), to, everyone - 1).is_file()
    assert make_attack(source, Attack("sign-flip", 1.0), to, everyone).is_file()
