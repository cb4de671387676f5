"""Directions of a vector: identity in full, optimal when cut, allocated best."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.reduce.allocation import allocated_ranks, uniform_ranks
from rankwise.reduce.bottleneck import RIDGE, Metric, bottleneck
from rankwise.reduce.methods.fisher import fisher_metric
from rankwise.reduce.methods.text_fisher import text_fisher_metric
from rankwise.reduce.methods.vectors import ModelVectors, TextSums


def moment(n, seed):
    root = torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return root @ root.mT


@given(st.integers(2, 7), st.integers(0, 10**6))
def test_nothing_is_lost_in_full_and_the_dropped_eigenvalues_are_lost_when_cut(n, seed):
    mean = torch.arange(n, dtype=torch.float64)
    spread, importance = moment(n, seed), moment(n, seed + 1)
    found = bottleneck(Metric(mean, spread, importance))
    torch.testing.assert_close(found.up @ found.down, torch.eye(n, dtype=torch.float64), rtol=0, atol=1e-6)
    metric = importance + RIDGE * importance.diagonal().mean() * torch.eye(n, dtype=torch.float64)
    for rank in range(1, n):
        rest = torch.eye(n, dtype=torch.float64) - found.up[:, :rank] @ found.down[:rank]
        lost = torch.trace(rest.mT @ metric @ rest @ spread)
        torch.testing.assert_close(lost, found.spectrum[rank:].sum(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(found.shift(rank), rest @ mean, rtol=0, atol=1e-6)


@given(st.integers(0, 10**6))
def test_no_random_directions_lose_less(seed):
    spread, importance = moment(5, seed), moment(5, seed + 1)
    found = bottleneck(Metric(torch.zeros(5), spread, importance))
    generator = torch.Generator().manual_seed(seed)
    for _ in range(20):
        down = torch.randn(2, 5, generator=generator, dtype=torch.float64)
        up = spread @ down.mT @ torch.linalg.inv(down @ spread @ down.mT)  # the best rebuild of these directions
        rest = torch.eye(5, dtype=torch.float64) - up @ down
        assert torch.trace(rest.mT @ importance @ rest @ spread) >= found.spectrum[2:].sum() * (1 - 1e-3)


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=4), min_size=1, max_size=3), st.data())
def test_allocation_is_the_best_of_all(values, data):
    spectra = [torch.tensor(sorted(one, reverse=True)) for one in values]
    total = data.draw(st.integers(len(spectra), sum(map(len, spectra))))
    ranks = allocated_ranks(spectra, total)
    choices = itertools.product(*(range(1, len(one) + 1) for one in spectra))
    kept = [sum(float(one[:rank].sum()) for one, rank in zip(spectra, ranks, strict=True)) for ranks in choices
            if sum(ranks) == total]  # fmt: skip
    assert sum(ranks) == sum(uniform_ranks(spectra, total)) == total
    assert sum(float(one[:rank].sum()) for one, rank in zip(spectra, ranks, strict=True)) == pytest.approx(max(kept))


def test_a_share_that_leaves_nothing_is_refused():
    with pytest.raises(InvalidInputError, match="leaves 2 to 6"):
        allocated_ranks([torch.ones(3), torch.ones(3)], 1)


def vectors(x, g):
    n = x.shape[1]
    return ModelVectors(torch.eye(n), torch.zeros(n), (n,), x.half(), g.half()[None])


def test_flip_flop_keeps_independent_moments():
    """Where x and g are independent the pair is already right, up to a factor."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor([2.0, 1.0, 0.5])
    x = torch.randn(40_000, 3, generator=generator) * sizes
    g = torch.randn(40_000, 3, generator=generator) * sizes.flip(0)
    metric = fisher_metric(vectors(x, g))
    spread, importance = metric.spread / metric.spread[1, 1], metric.importance / metric.importance[1, 1]
    torch.testing.assert_close(spread, torch.diag(sizes**2).double(), rtol=0, atol=0.12)
    torch.testing.assert_close(importance, torch.diag(sizes.flip(0) ** 2).double(), rtol=0, atol=0.12)


def test_two_losses_at_the_same_tokens_are_twice_as_many_tokens():
    generator = torch.Generator().manual_seed(0)
    x, g = torch.randn(5000, 3, generator=generator), torch.randn(2, 5000, 3, generator=generator)
    once = fisher_metric(vectors(torch.cat([x, x]), g.flatten(0, 1)))
    both = fisher_metric(ModelVectors(torch.eye(3), torch.zeros(3), (3,), x.half(), g.half()))
    torch.testing.assert_close(both.spread, once.spread, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(both.importance, once.importance, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(both.mean, once.mean, rtol=1e-4, atol=1e-6)


def test_flip_flop_finds_what_few_sensitive_tokens_need():
    """One token in twenty has a gradient, and varies along another axis than all others."""
    generator = torch.Generator().manual_seed(0)
    sensitive = torch.rand(20_000, 1, generator=generator) < 0.05
    noise = torch.randn(20_000, 2, generator=generator)
    x = torch.where(sensitive, noise * torch.tensor([0.1, 1.0]), noise * torch.tensor([1.0, 0.1]))
    g = torch.randn(20_000, 2, generator=generator) * torch.where(sensitive, 10.0, 0.01)
    plain, flipped = (bottleneck(fisher_metric(vectors(x, g), flips)).down[0].abs() for flips in (0, 2))
    assert plain[0] > 0.9  # most of the variance
    assert flipped[1] > 0.9  # what the loss feels


def test_whole_texts_give_the_two_moments_that_made_them():
    """Matrices ``A Z B`` of white Z have the moments ``A A^T`` and ``B^T B``, up to a factor between the two."""
    generator = torch.Generator().manual_seed(0)
    left, right = torch.diag(torch.tensor([2.0, 1.0, 0.5])), torch.tensor([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0, 0, 2]])
    products = left @ torch.randn(20_000, 3, 3, generator=generator) @ right
    nothing = torch.zeros(20_000, 3)
    tokens = (torch.eye(3), torch.eye(3))
    metric = text_fisher_metric(TextSums(products, nothing, nothing, tokens), torch.zeros(3), 1.0)
    wanted = torch.kron((left @ left.mT).double(), (right.mT @ right).double())
    torch.testing.assert_close(torch.kron(metric.importance, metric.spread), wanted, rtol=0, atol=0.3)


def test_scores_count_where_gradients_vanish():
    """Without gradients the metric is that of the scores alone: queries times keys, at the price that is asked."""
    keys, queries = moment(4, 1).float(), moment(4, 2).float()
    nothing = torch.zeros(5, 4)
    silent = torch.zeros(4, 4)
    texts = TextSums(torch.zeros(5, 4, 4), nothing, nothing, (silent, silent), (keys, queries), 0.5)
    metric = text_fisher_metric(texts, torch.zeros(4), 0.1)
    wanted = 0.5 * torch.kron(queries, keys).double()
    torch.testing.assert_close(torch.kron(metric.importance, metric.spread), wanted, rtol=2e-2, atol=2e-2)
