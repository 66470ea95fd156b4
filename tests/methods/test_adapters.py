"""Adapters beside frozen layers, and the average of their products."""

import copy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tables_of_numbers import rows as number_rows
from torch import nn
from torch.testing import assert_close

from fedcli.methods.adapters import Factors, Roles, product_mean, roles
from fedcli.models.adapted import Adapted
from fedcli.models.network import Groups, exchange

SHARES = torch.tensor(number_rows("1.0 0.0 0.0; 0.0 0.0 1.0; 0.2 0.5 0.3"))  # [B, G]
S = torch.tensor(number_rows("0.5 0.1; 0.3 0.7; -1.0 2.0"))  # [G, r]


def layer(kind, base=None, singular=S, alpha=3.0, trained=True):
    """An adapter of rank 2, its A no longer 0 where it was trained."""
    start = {"lora": None, "svd": singular[0], "fair": singular}[kind]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        groups = Groups() if kind == "fair" else None
        adapted = Adapted(base or nn.Linear(4, 5), 2, alpha, start, groups)
        if trained:
            nn.init.normal_(adapted.A)
    return adapted


def conv():
    return nn.Conv2d(4, 5, 1, bias=False)


def images(base=None):
    rng = torch.Generator().manual_seed(5)
    return (
        torch.randn(3, 4, 2, 6, generator=rng)
        if isinstance(base, nn.Conv2d)
        else torch.randn(3, 7, 4, generator=rng)
    )


def by_hand(adapted, x, w):
    """The formula in float64, image by image: W0 x + s x A diag(w) B."""
    weight, a, b = (
        t.detach().double().numpy() for t in (adapted.weight.flatten(1), adapted.A, adapted.B)
    )
    bias = 0 if adapted.bias is None else adapted.bias.detach().double().numpy()
    channels_last = x.movedim(1, -1) if adapted.kernel[1:] else x
    rows = [
        v @ (weight.T + 1.5 * a @ np.diag(d) @ b) + bias
        for v, d in zip(channels_last.double().numpy(), w)
    ]
    return np.moveaxis(np.stack(rows), -1, 1) if adapted.kernel[1:] else np.stack(rows)


@pytest.mark.parametrize("base", [None, conv()])
@pytest.mark.parametrize("kind", ["lora", "svd", "fair"])
def test_each_image_is_seen_through_its_own_singular_values(kind, base):
    adapted = layer(kind, base)
    if kind == "fair":
        adapted.groups.shares = SHARES
    svd = S[:1].expand(3, 2).numpy()
    lora = np.ones((3, 2))
    fair = (SHARES @ S).numpy()
    w = {"lora": lora, "svd": svd, "fair": fair}[kind]
    x = images(base)
    assert_allclose(adapted(x).detach(), by_hand(adapted, x, w), rtol=1e-4, atol=1e-5)


def test_the_slabs_of_a_volume_share_its_singular_values():
    """Two slabs each: images 0 and 1 are of the first volume."""
    adapted = layer("fair")
    x = torch.cat([images(), images().flip(0)])
    adapted.groups.shares = SHARES
    w = (SHARES @ S).repeat_interleave(2, 0).numpy()
    assert_allclose(adapted(x).detach(), by_hand(adapted, x, w), rtol=1e-4, atol=1e-5)


def test_batches_that_do_not_fit_their_shares_are_refused():
    adapted = layer("fair")
    adapted.groups.shares = SHARES[:2]
    with pytest.raises(ValueError, match="3 images do not match 2 group shares"):
        adapted(images())


def test_without_shares_every_image_has_the_mean_singular_values():
    adapted = layer("fair")
    x = images()
    adapted.groups.shares = torch.full((3, 3), 1 / 3)
    uniform = adapted(x)
    adapted.groups.shares = None
    assert_close(adapted(x), uniform)
    expected = by_hand(adapted, x, [S.mean(0).numpy()] * 3)
    assert_allclose(adapted(x).detach(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("base", [None, conv()])
@pytest.mark.parametrize("kind", ["lora", "svd", "fair"])
def test_it_changes_nothing_before_it_is_trained(kind, base):
    base = base or nn.Linear(4, 5)
    x = images(base)
    plain = copy.deepcopy(base)
    result = layer(kind, base, trained=False)(x)
    assert torch.equal(result, plain(x))


@pytest.mark.parametrize("kind", ["lora", "svd", "fair"])
def test_the_first_step_moves_a_alone(kind):
    adapted = layer(kind, trained=False)
    if kind == "fair":
        adapted.groups.shares = SHARES
    adapted(images()).square().sum().backward()
    assert adapted.A.grad.abs().min() > 0
    assert not adapted.B.grad.any()
    assert adapted.S is None or not adapted.S.grad.any()
    assert adapted.weight.grad is None
    assert adapted.bias.grad is None


def same_factors(source, target):
    target.A = source.A
    target.B = source.B
    return target


def test_singular_values_of_1_are_lora():
    plain = layer("lora")
    x = images()
    singular = torch.ones(3, 2)
    target = layer("fair", singular=singular)
    ones = same_factors(plain, target)
    ones.groups.shares = SHARES
    assert_close(ones(x), plain(x))


def test_one_group_is_svd_lora():
    svd = layer("svd")
    x = images()
    target = layer("fair", singular=S[:1])
    fair = same_factors(svd, target)
    fair.groups.shares = torch.ones(3, 1)
    assert_close(fair(x), svd(x))
    fair.groups.shares = None
    assert_close(fair(x), svd(x))


def test_the_layer_keeps_its_name_and_its_numbers_and_is_frozen():
    body = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)), conv())
    before = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    for name in ("1.0", "2"):
        base = body.get_submodule(name)
        exchange(body, name, Adapted(base, 2, 1.0))
    after = body.state_dict()
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor)
    result = {name for name, p in body.named_parameters() if p.requires_grad}
    assert result == {
        "0.weight",
        "0.bias",
        "1.0.A",
        "1.0.B",
        "2.A",
        "2.B",
    }


@pytest.mark.parametrize("kwargs", [{"groups": 2}, {"padding_mode": "reflect", "padding": 1}])
def test_a_convolution_of_several_groups_or_other_padding_is_refused(kwargs):
    with pytest.raises(TypeError, match="not a convolution of one group"):
        base = nn.Conv2d(4, 4, 3, **kwargs)
        Adapted(base, 2, 1.0)


@pytest.mark.parametrize(
    "kwargs", [{}, {"stride": 2, "padding": 1}, {"padding": "same", "dilation": 2}]
)
@pytest.mark.parametrize("singular", [None, torch.tensor([1.0, 0.5])])
def test_a_convolution_with_its_adapter_is_the_convolution_of_their_sum(kwargs, singular):
    generator = torch.Generator().manual_seed(0)
    base = nn.Conv2d(3, 4, (3, 2), **kwargs)
    adapted = Adapted(base, 2, 1.0, singular)
    with torch.no_grad():
        adapted.A.copy_(torch.randn(adapted.A.shape, generator=generator))
        w = torch.ones(2) if singular is None else singular
        sum_ = base.weight + 0.5 * ((adapted.A * w) @ adapted.B).T.view_as(base.weight)
        x = torch.randn(2, 3, 7, 7, generator=generator)
        stride = base.stride
        padding = base.padding
        dilation = base.dilation
        expected = torch.nn.functional.conv2d(x, sum_, base.bias, stride, padding, dilation)
        assert_close(adapted(x), expected)


class Named:
    """The part of a layout that roles() reads: S has as many groups as ranks, B is square."""

    shapes = {
        "x.A": (3, 2),
        "x.B": (2, 2),
        "x.S": (2, 2),
        "y.A": (2, 2),
        "y.B": (2, 2),
        "head.AB": (2, 2),
    }


def test_factors_are_found_by_name_and_not_by_shape():
    expected = [Roles("x.A", "x.B", "x.S"), Roles("y.A", "y.B", "")]
    assert roles(Named) == expected


def factors(models, groups, *, inputs=6, rank=3, outputs=5, seed=0):
    rng = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=rng)  # noqa: E731
    return Factors(
        draw(models, inputs, rank),
        0.5 + draw(models, groups, rank).abs(),
        draw(models, rank, outputs),
    )


def products(models, weights):
    """sum over models of weights[k, g] A_k diag(S_kg) B_k: [G, in, out] in float64."""
    return np.einsum(
        "kg,kir,kgr,kro->gio",
        weights,
        *(t.double().numpy() for t in (models.A, models.S, models.B)),
    )


def rebuilt(a, s, b):
    return np.einsum("ir,gr,ro->gio", a.numpy(), s.numpy(), b.numpy())


def test_one_model_comes_back_as_it_was_but_for_its_basis():
    factor = factors(1, 1)
    by_group = torch.ones(1, 1).double()
    weights = torch.ones(1).double()
    averaged, (lost, whole) = product_mean(factor, weights, by_group)
    weights = np.ones((1, 1))
    expected = products(factor, weights)
    assert_allclose(rebuilt(*averaged), expected, rtol=1e-9, atol=1e-9)
    assert abs(lost) < 1e-9 * whole
    other = factor.A[0].numpy()
    assert not np.allclose(averaged[0].numpy(), other)


def test_the_true_average_is_found_where_its_rank_allows():
    """Models that share B have an average of rank r; factor-wise averaging of A and S separately is another matrix."""
    models = factors(3, 1)
    weights = torch.tensor([0.5, 0.3, 0.2]).double()
    models = Factors(models.A, models.S, models.B[:1].expand(3, -1, -1))
    by_group = weights[:, None]
    averaged, (lost, whole) = product_mean(models, weights, by_group)
    true = products(models, weights[:, None].numpy())
    assert_allclose(rebuilt(*averaged), true, rtol=1e-9, atol=1e-9)
    assert abs(lost) < 1e-9 * whole
    parts = (t.double().numpy() for t in (models.A, models.S, models.B))
    a, s, b = (np.tensordot(weights.numpy(), t, 1) for t in parts)
    result = a @ np.diag(s[0]) @ b
    assert not np.allclose(result, true[0], rtol=0.05)


def test_beyond_that_it_is_the_nearest_matrix_of_rank_r():
    models = factors(3, 1)
    weights = torch.tensor([0.5, 0.3, 0.2]).double()
    by_group = weights[:, None]
    averaged, (lost, whole) = product_mean(models, weights, by_group)
    true = products(models, weights[:, None].numpy())[0]
    u, sigma, v = np.linalg.svd(true)
    expected = u[:, :3] * sigma[:3] @ v[:3]
    assert_allclose(rebuilt(*averaged)[0], expected, rtol=1e-8, atol=1e-8)
    expected = pytest.approx((sigma[3:] ** 2).sum())
    assert float(lost) == expected
    expected = pytest.approx((sigma**2).sum())
    assert float(whole) == expected


def test_groups_keep_their_mean_and_lose_what_is_off_the_diagonal():
    factor = factors(1, 4)
    by_group = torch.ones(1, 4).double()
    weights = torch.ones(1).double()
    averaged, (lost, whole) = product_mean(factor, weights, by_group)
    weights = np.ones((1, 4))
    true = products(factor, weights)
    again = rebuilt(*averaged)
    assert_allclose(again.mean(0), true.mean(0), rtol=1e-8, atol=1e-8)
    expected = pytest.approx(((true - again) ** 2).sum())
    assert float(lost) == expected
    assert float(lost) > 1e-3 * float(whole)
    expected = pytest.approx((true**2).sum())
    assert float(whole) == expected


def test_orthogonal_factors_keep_every_group():
    """One against the others' direction as well."""
    factor = factors(1, 4)
    factor.S[:, 3] *= -1
    a = torch.linalg.qr(factor.A[0])[0]
    b = torch.linalg.qr(factor.B[0].T)[0].T
    factor = Factors(a[None], factor.S, b[None])
    by_group = torch.ones(1, 4).double()
    weights = torch.ones(1).double()
    averaged, (lost, whole) = product_mean(factor, weights, by_group)
    weights = np.ones((1, 4))
    expected = products(factor, weights)
    assert_allclose(rebuilt(*averaged), expected, atol=1e-5)
    assert abs(lost) < 1e-9 * whole


def test_the_factors_keep_their_usual_size():
    """Rows of B as long as a fresh N(0, 1) row is on average; S as large as the models' own."""
    models = factors(3, 2)
    weights = torch.tensor([0.5, 0.3, 0.2]).double()
    by_group = weights[:, None].expand(-1, 2)
    _, s, b = product_mean(models, weights, by_group)[0]
    expected = [5**0.5] * 3
    assert_allclose(b.norm(dim=1), expected)
    assert 0.3 < float(s.abs().mean() / models.S.abs().mean()) < 3


def test_plain_lora_has_singular_values_of_1_afterwards():
    models = factors(3, 1)
    weights = torch.tensor([0.5, 0.3, 0.2]).double()
    ones = Factors(models.A, torch.ones_like(models.S), models.B)
    by_group = weights[:, None]
    result = product_mean(ones, weights, by_group)[0][1]
    expected = np.ones((1, 3))
    assert_allclose(result, expected)


@pytest.mark.parametrize(("inputs", "outputs"), [(2, 5), (6, 2), (1, 1)])
def test_a_layer_narrower_than_its_adapter_is_no_problem(inputs, outputs):
    models = factors(3, 2, inputs=inputs, outputs=outputs)
    weights = torch.tensor([0.5, 0.3, 0.2]).double()
    by_group = weights[:, None].expand(-1, 2)
    (a, s, b), _ = product_mean(models, weights, by_group)
    expected = ((inputs, 3), (2, 3), (3, outputs))
    assert (a.shape, s.shape, b.shape) == expected
    result = rebuilt(a, s, b).mean(0)
    expected = products(models, weights[:, None].expand(-1, 2).numpy()).mean(0)
    assert_allclose(result, expected, atol=1e-6)


def test_adapters_that_never_moved_still_change_nothing_and_can_learn():
    still = factors(2, 2)
    still = Factors(torch.zeros_like(still.A), still.S, still.B)
    half = torch.full((2,), 0.5).double()
    by_group = half[:, None].expand(-1, 2)
    (a, s, b), (lost, whole) = product_mean(still, half, by_group)
    assert not a.any()
    assert (s > 0).all()
    assert (b.norm(dim=1) > 1).all()
    assert float(lost) == float(whole) == 0


@pytest.mark.parametrize("base", [None, conv()])
def test_it_computes_low_where_the_network_does(base):
    adapted = layer("fair", base)
    adapted.groups.shares = SHARES
    x = images(base)
    with torch.autocast("cpu", torch.bfloat16):
        low = adapted(x)
    assert low.dtype == torch.bfloat16
    assert not torch.equal(low.float(), adapted(x))
    assert_close(low.float(), adapted(x), atol=0.3, rtol=0.05)


def test_singular_values_have_the_mean_size_of_those_of_the_models():
    """Sizes 1, 3, 2 and 6 have the mean 3, which all of the average have; the rest of its size is in A."""
    ones = torch.eye(2).expand(2, 2, 2)
    models = Factors(ones, torch.tensor([[[1.0, 3.0]], [[2.0, -6.0]]]), ones)
    weights = torch.tensor([0.5, 0.5])
    by_group = weights[:, None]
    (_, s, _), _ = product_mean(models, weights, by_group)
    expected = pytest.approx([3.0, 3.0])
    assert s.abs().flatten().tolist() == expected
