"""Heads of encoders, cut apart: nothing is lost in full, planted ranks are found, padding does not count."""

import pytest
import torch

from rankwise.reduce.calibration import collect
from rankwise.reduce.cost import cost_of, embed, measure_pieces
from rankwise.reduce.cutting import budget, cut_model, cut_ranks, cut_to, find_directions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.sites import attention_sites
from rankwise.reduce.summary import parameter_count
from reduce_models import ENCODERS, encoder, pieces
from saved_models import tokens


def directions(running, method="fisher"):
    sites = attention_sites(running).sites
    return sites, find_directions(running.model, sites, collect(running, sites, pieces(), gradients=True), method)


@pytest.mark.parametrize("name", ENCODERS)
def test_in_full_nothing_is_lost_and_half_is_smaller(name):
    running = encoder(name)
    sites, found = directions(running)
    original = measure_pieces(running, pieces(seed=1))
    before = parameter_count(running.model)
    with cut_model(running.model, cut_to(running.model, found, total=budget(sites, 1.0))):
        assert cost_of(measure_pieces(running, pieces(seed=1)), original).cost < 1e-6
    cuts = cut_to(running.model, found, total=budget(sites, 0.5))
    with cut_model(running.model, cuts):
        cost = cost_of(measure_pieces(running, pieces(seed=1)), original)
        assert parameter_count(running.model) < before
    assert 1e-6 < cost.cost < 1
    assert sum(sum(cut_ranks(cut)) for cut in cuts) == budget(sites, 0.5)


def test_heads_of_different_planted_ranks_get_their_own():
    """Keys of head h have rank h + 1, values rank 5 - h: the allocation finds both, and nothing is lost."""
    running = encoder("bert")
    planted_ranks = (1, 2, 3, 4, 5, 5, 4, 3, 2, 1)
    generator = torch.Generator().manual_seed(0)
    for layer in running.model.encoder.layer:
        block = layer.attention.self
        for linear, rank in ((block.key, lambda head: head + 1), (block.value, lambda head: 5 - head)):
            for head in range(5):
                rows = slice(8 * head, 8 * head + 8)
                left = torch.randn(8, rank(head), generator=generator)
                linear.weight.data[rows] = left @ torch.randn(rank(head), 40, generator=generator) * 0.2
                linear.bias.data[rows] = 0
    _, found = directions(running)
    original = measure_pieces(running, pieces(seed=1))
    cuts = cut_to(running.model, found, total=2 * 2 * 15)
    with cut_model(running.model, cuts):
        assert cost_of(measure_pieces(running, pieces(seed=1)), original).cost < 1e-5
    for cut in cuts:
        assert all(abs(found - planted) <= 1 for found, planted in zip(cut_ranks(cut), planted_ranks, strict=True))


def test_padding_changes_nothing():
    running = encoder("bert")
    short = tokens(2, 7)
    padded = torch.cat([short, torch.zeros(2, 3, dtype=torch.int64)], 1)
    real = torch.arange(10).expand(2, 10) < 7
    with torch.no_grad():
        wanted = embed(running, MaskedPieces(short, ("x",)))
        torch.testing.assert_close(embed(running, MaskedPieces(padded, ("x",), real)), wanted, rtol=0, atol=1e-5)
    sites = attention_sites(running).sites
    both = (MaskedPieces(short, ("x",)), MaskedPieces(padded, ("x",), real))
    ours, theirs = (collect(running, sites, one, gradients=True)[0] for one in both)
    torch.testing.assert_close(ours.x, theirs.x, rtol=0, atol=1e-2)
    torch.testing.assert_close(ours.queries, theirs.queries, rtol=0, atol=1e-4)
    for name in ("key_products", "value_products", "slopes", "means", "keys", "values"):
        slopes = name in ("key_products", "value_products", "slopes")
        one, other = (
            getattr(samples.heads, name).float() * (samples.g_size if slopes else 1.0) for samples in (ours, theirs)
        )
        torch.testing.assert_close(one, other, rtol=0, atol=2e-3 * float(one.abs().max()))


def test_products_are_slopes_of_the_embedding_by_the_error():
    """``<E, M>`` is what the embedding's product with the probe loses, to first order, by finite differences."""
    running, texts = encoder("bert"), pieces(1)
    sites = attention_sites(running).sites
    found = collect(running, sites, texts, gradients=True)[1]
    generator = torch.Generator().manual_seed(0)
    probes = [torch.randn(1, 40, generator=torch.Generator().manual_seed(0)) for _ in range(1)]
    head, error = 2, 1e-3 * torch.randn(8, 8, generator=generator)
    rows = slice(8 * head, 8 * head + 8)
    values = running.model.encoder.layer[1].attention.self.value
    sums = found.heads
    around_zero = sums.value_products[0, head].float() + torch.outer(
        sums.slopes[0, 40:][rows], sums.means[0, 40:][rows]
    )
    with torch.no_grad():
        before = embed(running, texts)
        values.bias[rows] += error @ values.bias[rows]
        values.weight[rows] += error @ values.weight[rows]
        change = ((embed(running, texts) - before) * probes[0]).sum()
    assert float((error * around_zero).sum() * found.g_size) == pytest.approx(float(change), rel=0.03)


def test_a_saturated_head_keeps_its_keys():
    """A head whose softmax sees one token has no gradient, and is not cut for that."""
    running = encoder("bert")
    block = running.model.encoder.layer[0].attention.self
    sharp = slice(0, 8)
    for linear in (block.query, block.key):
        linear.weight.data[sharp] *= 60
    sites, found = directions(running)
    fisher = [float(one.spectrum.sum()) for one in found[0].found[:5]]
    assert fisher[0] > max(fisher[1:])
    products = collect(running, sites, pieces(), gradients=True)[0].heads.key_products.float()
    slopes = products.square().mean((0, 2, 3))
    assert slopes[0] < slopes[1:].max()
