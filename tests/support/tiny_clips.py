"""Tiny CLIP networks, and open_clip's own beside them.

open_clip takes seconds to import and only one worker needs it, so it is imported inside functions.
"""

import torch
from torch import nn

from fedcli.data import transforms
from fedcli.models import Inputs, build, clip

NAMES = ["NOT Glaucoma", "Glaucoma"]
SEED = torch.Generator().manual_seed


def tiny(name="clip-tiny", **rest):
    inputs = {"channels": 3, "classes": 2, "size": 32, "names": NAMES}
    inputs |= {key: rest.pop(key) for key in list(rest) if key in ("attributes", *inputs)}
    return build(name, Inputs(**inputs), **{"seed": 0} | rest).eval()


def prompts(net, count=2):
    net.head = net.make_prompts(count)
    net.tokens = True


def images(side, channels=3, count=3):
    """In [0, 1], as the toolkit has them before normalisation."""
    return torch.rand(count, channels, side, side, generator=SEED(5))


def fed(unit):
    return transforms.to_input(unit, channels=unit.shape[1])


def theirs(name):
    """open_clip's whole network with random weights and random batch-norm statistics."""
    import open_clip

    shape = clip.SHAPES[name]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = open_clip.CLIP(
            shape.width,
            open_clip.CLIPVisionCfg(**shape.vision),
            open_clip.CLIPTextCfg(**shape.text),
            quick_gelu=True,
        )
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.running_mean, -0.5, 0.5)
                nn.init.uniform_(module.running_var, 0.5, 2)
                nn.init.uniform_(module.weight, 0.5, 1.5)
    return net.eval()


def saved(net, path, change=lambda tensors: None):
    tensors = dict(net.state_dict())
    change(tensors)
    torch.save(tensors, path)
    return str(path)
