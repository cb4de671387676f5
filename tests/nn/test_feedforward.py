import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.nn.cpu import blocked_relu
from rankwise.nn.feedforward import FeedForward
from rankwise.spec import ModelSpec


def module(activation="relu", bias=True):
    torch.manual_seed(0)
    return FeedForward(
        ModelSpec(dim=5, heads=1, rank=1, feedforward=13, activation=activation, bias=bias), dtype=torch.float64
    )


@settings(max_examples=30)
@given(batch=st.integers(1, 3), tokens=st.integers(1, 9), block=st.integers(1, 12))
def test_blocks_change_neither_output_nor_gradients(batch, tokens, block):
    layer = module()
    x = torch.randn(batch, tokens, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    plain = torch.nn.Sequential.forward(layer, x)
    expected = torch.autograd.grad(plain.square().sum(), [x, *layer.parameters()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocked_relu, "TOKENS_AT_ONCE", block)
        output = layer(x)
        grads = torch.autograd.grad(output.square().sum(), [x, *layer.parameters()])
    torch.testing.assert_close(output, plain)
    for ours, theirs in zip(grads, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("activation", "bias"), [("gelu", True), ("relu", False)])
def test_other_forms_are_plain(activation, bias):
    layer, x = module(activation, bias), torch.randn(2, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(layer(x), torch.nn.Sequential.forward(layer, x))
    assert layer(x).requires_grad


def test_inference_needs_no_gradient():
    layer, x = module(), torch.randn(2, 3, 5, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), torch.nn.Sequential.forward(layer, x))


def test_second_derivatives_exist_where_they_are_asked_for():
    layer, x = module(), torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda inputs: layer(inputs, twice_differentiable=True), (x,))
    first = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
