"""Zero-shot CLIP, against open_clip's own network."""

import pytest
import torch
import torch.nn.functional as F
from conftest import play, toy_net
from tiny_clips import NAMES, fed, images, saved, theirs, tiny
from torch.testing import assert_close

from fedcli.errors import FedcliError, UsageError
from fedcli.methods import resolve


@pytest.mark.parametrize("name", ["clip-tiny", "clip-tiny-rn"])
def test_logits_are_those_of_the_whole_network_on_the_sentences(name, tmp_path):
    import open_clip

    whole = theirs(name)
    weights = saved(whole, tmp_path / "clip.pt")
    extend = resolve("zero-shot").local.extend
    net = tiny(name, weights=weights, extend=extend)
    unit = images(net.side)
    with torch.no_grad():
        texts = whole.encode_text(
            open_clip.tokenize([f"a photo of a {label}." for label in NAMES]), normalize=True
        )
        x = net.backbone.tower._prepared(fed(unit))
        logits = whole.logit_scale.exp() * whole.encode_image(x, normalize=True) @ texts.T
        assert_close(net(fed(unit)), logits, atol=1e-3, rtol=1e-3)
        assert F.softmax(logits, 1).std() > 0


def test_nothing_changes():
    states = [play("zero-shot", rounds=n) for n in (1, 2)]
    assert states[0].theta.numel() == 1
    assert torch.equal(states[0].theta, states[1].theta)


def test_random_weights_are_said_and_other_networks_and_volumes_refused():
    local = resolve("zero-shot").local
    net = tiny(extend=local.extend)
    assert "chance" in local.warning(net, 1)
    net.start = "openai"
    assert not local.warning(net, 1)
    with pytest.raises(UsageError, match="needs a CLIP network"):
        local.extend(toy_net())
    with pytest.raises((UsageError, FedcliError), match="volumes"):
        tiny(channels=16, extend=local.extend)
