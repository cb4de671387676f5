"""Layers that search by an address, against the iteration that they write down, its limit and brute force."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from rankwise.errors import InvalidInputError
from rankwise.nn.addresses import address_search, turned_addresses

STEPS = ((30.0, 8.0), (20.0, 4.0))


def points(batch, count, dim, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(batch, count, dim, generator=generator, dtype=dtype), dim=-1)


def iterated_by_hand(x, rank, steps):
    """One sequence x [N, D], one point and one partner at a time."""
    z = [row[:rank].clone() for row in x]
    for turn, push in steps:
        mean = sum(z) / len(z)
        z = [
            z[i]
            + sum(
                (turn * (x[i, rank:] @ x[j, rank:]) - push * (z[i] @ z[j])) * (z[j] - mean) / len(z)
                for j in range(len(z))
            )
            for i in range(len(z))
        ]
    return torch.stack(z)


def test_the_iteration_is_the_sum_it_says():
    x = points(2, 5, 7)
    expected = torch.stack([iterated_by_hand(one, 3, STEPS) for one in x])
    torch.testing.assert_close(turned_addresses(x, 3, STEPS), expected)


@given(dim=st.integers(2, 9), data=st.data(), layers=st.integers(1, 4), count=st.integers(2, 6))
def test_layers_of_soft_heads_compute_the_iteration_and_search_by_it(dim, data, layers, count):
    rank = data.draw(st.integers(1, dim - 1))
    x = points(3, count, dim)
    steps = [(3.0, 1.0 / layer) for layer in range(1, layers)]
    z = turned_addresses(x, rank, steps)
    answers = 2.0 * torch.softmax(-5.0 * z @ z.mT, dim=-1) @ x
    if steps:
        answers[..., :rank] = 0.0
    model = address_search(dim, rank, steps, 5.0, gain=2.0, scale=1e-6, dtype=torch.float64)
    torch.testing.assert_close(model(x), answers, atol=2e-4, rtol=0)


def test_what_a_softmax_adds_to_the_iteration_shrinks_with_its_scale():
    x = points(8, 16, 24)
    exact, *coarser = (
        address_search(24, 4, STEPS, 10.0, scale=scale, dtype=torch.float64)(x) for scale in (1e-7, 1e-4, 2e-4)
    )
    small, twice = ((answers - exact).norm() for answers in coarser)
    assert 1.8 < twice / small < 2.2, "the first term left out is of the first order"


def test_the_stack_has_the_heads_of_the_figure_and_nothing_else():
    model = address_search(64, 8, STEPS, 10.0)
    assert (model.spec.layers, model.spec.heads, model.spec.rank, model.spec.value_rank) == (3, 8, 8, None)
    assert (model.spec.feedforward, model.spec.residual) == (0, "learned")
    assert sum(parameter.numel() for parameter in model.parameters()) == 3 * (4 * 64 * 64 + 1)


def test_many_small_steps_turn_addresses_to_the_leading_eigenvectors():
    """Without the push, Z becomes G^k Z: its columns span what the leading eigenvectors of the centred G do."""
    x = points(1, 6, 40)[0]
    rest = x[:, 2:]
    gram = rest @ rest.T @ (torch.eye(6, dtype=x.dtype) - torch.full((6, 6), 1 / 6, dtype=x.dtype))
    turned = turned_addresses(x[None], 2, [(30.0, 0.0)] * 150)[0]
    turned = torch.linalg.qr(turned).Q
    values, vectors = torch.linalg.eig(gram)
    leading = vectors.real[:, values.real.argmax()]
    inside = turned @ (turned.T @ leading)
    torch.testing.assert_close(inside, leading, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 8}, "rank: expected less than dim=8"),
        ({"rank": 0}, "rank"),
        ({"beta": 0.0}, "beta: expected a finite number above 0, got 0"),
        ({"gain": -1.0}, "gain: expected a finite number above 0, got -1"),
        ({"scale": float("nan")}, "scale: expected a finite number above 0, got nan"),
    ],
)
def test_numbers_that_describe_no_search_are_named(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        address_search(**{"dim": 8, "rank": 2, "steps": STEPS, "beta": 1.0} | changes)
