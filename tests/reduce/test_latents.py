"""Latents in every decoder: nothing is lost in full, the cache holds latents, and decoding with it changes nothing."""

import pytest
import torch
from transformers import DynamicCache

from rankwise.reduce.calibration import collect
from rankwise.reduce.cost import cost_of, measure_pieces
from rankwise.reduce.cutting import budget, cut_model, cut_to, find_directions, modules_of
from rankwise.reduce.latent_cache import LatentCache, cache_bytes, use_latent_cache
from rankwise.reduce.linear_modules import replaced
from rankwise.reduce.methods import METHODS
from rankwise.reduce.sites import attention_sites
from reduce_models import DECODERS, causal_model, pieces
from saved_models import tokens


def directions(running, method="fisher"):
    sites = attention_sites(running).sites
    samples = collect(running, sites, pieces(), gradients=True)
    return sites, find_directions(running.model, sites, samples, method)


@pytest.mark.parametrize("name", DECODERS)
def test_in_full_a_latent_changes_nothing(name):
    running = causal_model(name)
    sites, found = directions(running)
    wanted = running(tokens(2)).logits
    with cut_model(running.model, cut_to(running.model, found, total=budget(sites, 1.0))):
        torch.testing.assert_close(running(tokens(2)).logits, wanted, rtol=0, atol=2e-4)
    torch.testing.assert_close(running(tokens(2)).logits, wanted, rtol=0, atol=0)  # and goes as it came


@pytest.mark.parametrize("name", DECODERS)
def test_cached_decoding_equals_recomputation_with_a_smaller_cache(name):
    running = causal_model(name)
    sites, found = directions(running)
    model, ids = running.model, tokens(2, 14)
    with torch.no_grad():
        before = cache_bytes(model(input_ids=ids, use_cache=True).past_key_values)
        replaced(model, modules_of(model, cut_to(model, found, total=budget(sites, 0.5))))
        use_latent_cache(model, sites)
        whole = model(input_ids=ids, use_cache=False).logits
        output = model(input_ids=ids[:, :5], use_cache=True)
        cache, steps = output.past_key_values, [output.logits]
        for at in range(5, 14):
            steps.append(model(input_ids=ids[:, at : at + 1], past_key_values=cache, use_cache=True).logits)
    assert isinstance(cache, LatentCache)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-4)
    assert cache.get_seq_length() == 14
    rotations = sum(layer.values.numel() for layer in cache.layers if sites[0].kind == "joint") * 4
    assert cache.bytes() - rotations <= 0.5 * before + 2 * 14 * 4


def test_generation_makes_the_cache_and_beams_reorder_it():
    running = causal_model("llama")
    sites, found = directions(running)
    model = running.model
    replaced(model, modules_of(model, cut_to(model, found, total=budget(sites, 0.5))))
    use_latent_cache(model, sites)
    for beams in (1, 3):
        options = {"max_new_tokens": 6, "do_sample": False, "num_beams": beams, "pad_token_id": 0, "eos_token_id": None}
        with_cache = model.generate(tokens(2, 5), return_dict_in_generate=True, **options)
        without = model.generate(tokens(2, 5), use_cache=False, **options)
        assert isinstance(with_cache.past_key_values, LatentCache)
        assert not isinstance(with_cache.past_key_values, DynamicCache)
        assert torch.equal(with_cache.sequences, without)


def test_planted_rank_is_found_by_every_method():
    """Keys and values of 5 dimensions need a latent of 5."""
    running = causal_model("llama")
    generator = torch.Generator().manual_seed(3)
    for layer in running.model.model.layers:
        down = torch.randn(5, 42, generator=generator)
        for part in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            part.weight.data.copy_(torch.randn(16, 5, generator=generator) @ down * 0.05)
    original = measure_pieces(running, pieces(seed=1))
    for method in METHODS:
        _, found = directions(running, method)
        with cut_model(running.model, cut_to(running.model, found, rank=5)):
            assert abs(cost_of(measure_pieces(running, pieces(seed=1)), original).cost) < 1e-4
        with cut_model(running.model, cut_to(running.model, found, rank=2)):
            assert abs(cost_of(measure_pieces(running, pieces(seed=1)), original).cost) > 1e-3
