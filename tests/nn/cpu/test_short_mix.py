"""The training kernels for short sequences: the plain formula, and its gradients by finite differences."""

import pytest
import torch

from rankwise.nn import MultiheadAttention
from rankwise.nn.cpu import short_mix
from rankwise.nn.cpu.short_mix import ProductMix, ShortMix


def plain_mix(queries, keys, values):
    weights = torch.einsum("bihr,bjhr->bhij", queries, keys).softmax(-1)
    return torch.einsum("bhij,bjhv->bihv", weights, values)


def inputs(*, rank, batch=5, queries=3, keys=4, heads=2):
    generator = torch.Generator().manual_seed(0)

    def draw(tokens):
        drawn = torch.randn(batch, tokens, heads, rank, generator=generator, dtype=torch.float64)
        return drawn.requires_grad_()

    return draw(queries), draw(keys), draw(keys)


@pytest.mark.parametrize("in_cache", [1, 48, 2**17])
@pytest.mark.parametrize("rank", [1, 3])
def test_products_are_the_formula_however_it_is_cut_into_pieces(monkeypatch, in_cache, rank):
    monkeypatch.setattr(short_mix, "_IN_CACHE", in_cache)
    given = inputs(rank=rank)
    torch.testing.assert_close(ProductMix.apply(*given), plain_mix(*given))
    assert torch.autograd.gradcheck(ProductMix.apply, given)


def test_turned_products_are_the_formula():
    given = inputs(rank=3)
    torch.testing.assert_close(ShortMix.apply(*given, None), plain_mix(*given))
    assert torch.autograd.gradcheck(lambda *tensors: ShortMix.apply(*tensors, None), given)


def test_products_bear_scores_far_beyond_what_exp_can_hold():
    queries, keys, values = (x.detach() for x in inputs(rank=1))
    queries = (1e6 * queries).requires_grad_()
    mixed = ProductMix.apply(queries, keys, values)
    torch.testing.assert_close(mixed, plain_mix(queries, keys, values))
    mixed.sum().backward()
    assert queries.grad.isfinite().all()


def test_products_bear_an_empty_batch():
    given = inputs(rank=2, batch=0)
    assert ProductMix.apply(*given).shape == (0, 3, 2, 2)


@pytest.mark.parametrize(
    ("heads", "rank", "kernel"), [(16, 1, "ProductMix"), (16, 2, "ProductMix"), (6, 2, "ShortMix")]
)
def test_a_layer_trains_the_same_with_and_without_its_kernel(heads, rank, kernel):
    """Asking for the weights takes the plain path."""
    layer = MultiheadAttention(8, heads, rank, temperature="learned", dtype=torch.float64)
    x = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    fast, plain = layer(x), layer(x, return_weights=True)[0]
    assert f"{kernel}Backward" in functions_behind(fast)
    assert f"{kernel}Backward" not in functions_behind(plain)
    torch.testing.assert_close(fast, plain)
    direction = torch.randn_like(fast)
    for ours, theirs in zip(gradients(layer, fast, direction), gradients(layer, plain, direction), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("heads", "rank"), [(16, 1), (2, 2)])
def test_the_transforms_of_torch_func_work_at_every_size(heads, rank):
    """Gradients an example by vmap are those of one example after the other."""
    layer = MultiheadAttention(8, heads, rank, dtype=torch.float64)
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}
    x = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def loss(parameters, example):
        return torch.func.functional_call(layer, parameters, (example[None],)).square().sum()

    together = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)["q_weight"]
    for mine, example in zip(together, x, strict=True):
        (apart,) = torch.autograd.grad(layer(example[None]).square().sum(), [layer.q_weight])
        torch.testing.assert_close(mine, apart)


def test_short_formats_keep_the_products_that_add_up_in_longer_ones():
    given = [x.detach().repeat(1, 1, 8, 1).bfloat16() for x in inputs(rank=2)]
    assert not short_mix.products_pay(*given)
    assert short_mix.products_pay(*(x.float() for x in given))


def gradients(layer, output, direction):
    return torch.autograd.grad(output, list(layer.parameters()), direction, materialize_grads=True)


def functions_behind(output):
    found, waiting = set(), [output.grad_fn]
    while waiting:
        function = waiting.pop()
        if function is not None and function not in found:
            found.add(function)
            waiting += [parent for parent, _ in function.next_functions]
    return {function.name() for function in found}
