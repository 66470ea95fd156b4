import pytest
import torch
import torch.nn.functional as F
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods.losses import class_weights, weighted_cross_entropy

DRAW = torch.Generator().manual_seed(0)
LOGITS = torch.randn(7, 4, generator=DRAW)
Y = torch.tensor([0, 1, 2, 3, 0, 0, 2])
W = torch.tensor([1.0, 2.0, 0.5, 3.0])


@pytest.mark.parametrize("weights", [None, W])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_without_a_focus_it_is_torchs_cross_entropy(weights, smoothing):
    expected = F.cross_entropy(LOGITS, Y, weights, label_smoothing=smoothing)
    assert_close(weighted_cross_entropy(LOGITS, Y, weights, smoothing), expected)


def test_the_focal_loss_by_hand():
    """p = 0.8 and 0.1 of the true class: 0.04 * 0.2231 and 0.81 * 2.3026; with weights 1 and 3 their weighted mean."""
    logits = torch.tensor(rows("0.8 0.2; 0.9 0.1")).log()
    losses = torch.tensor([0.2**2, 0.9**2]) * -torch.tensor([0.8, 0.1]).log()
    y = torch.tensor([0, 1])
    assert_close(weighted_cross_entropy(logits, y, gamma=2.0), losses.mean())
    weights = torch.tensor([1.0, 3.0])
    weighted = weighted_cross_entropy(logits, y, weights, gamma=2.0)
    expected = (losses[0] + 3 * losses[1]) / 4
    assert_close(weighted, expected)


def test_a_class_taken_out_of_the_softmax_takes_no_part_in_smoothing():
    masked = LOGITS.clone()
    masked[:, 3] = -torch.inf
    y = Y.clamp_max(2)
    masked.requires_grad_()
    loss = weighted_cross_entropy(masked, y, smoothing=0.2, gamma=0.5)
    logits = LOGITS[:, :3]
    expected = weighted_cross_entropy(logits, y, smoothing=0.2, gamma=0.5)
    assert_close(loss, expected)
    loss.backward()
    assert masked.grad.isfinite().all()


def test_a_certain_image_has_a_finite_gradient_under_any_focus():
    for gamma in (0.5, 2.0):
        logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
        weighted_cross_entropy(logits, torch.tensor([0]), gamma=gamma).backward()
        assert logits.grad.isfinite().all()


def test_class_weights_by_hand():
    counts = torch.tensor([6, 0, 3])
    assert class_weights("none", counts) is None
    expected = pytest.approx([2 / 3, 0, 4 / 3])
    assert class_weights("balanced", counts).tolist() == expected
    raw = [(1 - 0.5) / (1 - 0.5**n) for n in (6, 3)]
    expected = pytest.approx([2 * raw[0] / sum(raw), 0, 2 * raw[1] / sum(raw)])
    assert class_weights("effective:0.5", counts).tolist() == expected
