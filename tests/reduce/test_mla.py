"""The form of DeepSeek-V2: exact where nothing is dropped, and loaded by the stock class without our code."""

import subprocess
import sys

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.reduce import load_reduced
from rankwise.reduce.calibration import collect
from rankwise.reduce.cutting import cut_model, find_metrics
from rankwise.reduce.mla_modules import mla_plan, require_mla
from rankwise.reduce.mla_shape import MlaShape, best_shape, mla_directions
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.reduction import Texts, reduce_model
from rankwise.reduce.sites import attention_sites
from reduce_models import causal_model, pieces
from saved_models import saved, tiny_language_model, tokens

TEXTS = Texts(MaskedPieces(tokens(4), ("a",)), None, MaskedPieces(tokens(6, seed=1), ("b",)))

ALONE = """
import sys, torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()
ids = load_file(sys.argv[2])["ids"]
with torch.no_grad():
    whole = model(input_ids=ids).logits
    first = model(input_ids=ids[:, :5], use_cache=True)
    rest = model(input_ids=ids[:, 5:], past_key_values=first.past_key_values, use_cache=True)
layer = first.past_key_values.layers[0]
cached = torch.tensor(layer.keys.shape[-1] + layer.values.shape[-1])
assert type(model).__name__ == "DeepseekV2ForCausalLM" and "rankwise" not in sys.modules
save_file({"whole": whole, "cached": torch.cat([first.logits, rest.logits], 1), "numbers": cached}, sys.argv[3])
"""


def layers(running, slow):
    sites = attention_sites(running).sites
    samples = collect(running, sites, pieces(), gradients=True)
    metrics = find_metrics(running.model, sites, samples, "fisher")
    return [mla_directions(site, metric, slow) for site, (metric,) in zip(sites, metrics, strict=True)]


@pytest.mark.parametrize("name", ["llama", "llama-biased"])
def test_all_slots_and_no_dropped_rotation_are_the_original(name):
    running = causal_model(name)
    for layer in running.model.model.layers:
        if layer.self_attn.q_proj.bias is not None:
            layer.self_attn.q_proj.bias.data.zero_()
    found = layers(running, slow=0)
    heads, rank = found[0].site.k.index.shape
    shape = MlaShape((heads,) * (rank // 2), 0, heads * rank)
    assert best_shape(found, 0, 2 * heads * rank) == shape
    with torch.no_grad():
        wanted = running(tokens(2)).logits
        with cut_model(running.model, [mla_plan(running.model, layer, shape) for layer in found]):
            torch.testing.assert_close(running(tokens(2)).logits, wanted, rtol=0, atol=2e-4)


def test_at_position_zero_dropped_rotations_change_nothing():
    """Rotation by position 0 is the identity: with all slots and the whole latent, one token gives the original."""
    running = causal_model("llama")
    found = layers(running, slow=2)
    shape = best_shape(found, 2, found[0].site.cached_numbers)
    assert shape.cached == found[0].site.cached_numbers
    with torch.no_grad():
        wanted = running(tokens(3, 12)).logits
        with cut_model(running.model, [mla_plan(running.model, layer, shape) for layer in found]):
            told = running(tokens(3, 12)).logits
    torch.testing.assert_close(told[:, 0], wanted[:, 0], rtol=0, atol=2e-4)
    assert (told - wanted).abs().max() > 1e-3  # later tokens feel it


def test_the_stock_class_loads_it_without_our_code(tmp_path):
    folder, out = saved(tiny_language_model("llama"), tmp_path / "model"), tmp_path / "out"
    options = ReductionOptions(keep=0.5, form="mla", heal_tokens=500)
    report = reduce_model(folder, options, lambda running: TEXTS, out=out)
    assert report.cache_numbers.after == report.cache_numbers.before / 2
    assert report.generation.cache_bytes.after == report.generation.cache_bytes.before / 2
    from safetensors.torch import load_file, save_file

    ids = TEXTS.evaluation.tokens
    save_file({"ids": ids}, tmp_path / "ids.safetensors")
    files = [str(out), str(tmp_path / "ids.safetensors"), str(tmp_path / "said.safetensors")]
    subprocess.run([sys.executable, "-c", ALONE, *files], check=True, timeout=120)
    said = load_file(tmp_path / "said.safetensors")
    loss = torch.nn.functional.cross_entropy(said["whole"][:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert float(loss) == pytest.approx(report.cost.loss, abs=1e-4)
    torch.testing.assert_close(said["cached"], said["whole"], rtol=0, atol=1e-4)
    assert int(said["numbers"]) * 2 == report.cache_numbers.after  # two layers
    with torch.no_grad():
        torch.testing.assert_close(load_reduced(out)(input_ids=ids).logits, said["whole"], rtol=0, atol=1e-5)
    assert "transformers.AutoModelForCausalLM" in (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("gpt2", "GPT2LMHeadModel"), ("qwen3", "Qwen3ForCausalLM"), ("llama-biased", "biases on queries")],
)
def test_models_that_it_cannot_hold_are_refused_with_the_reason(name, reason):
    running = causal_model(name)
    with pytest.raises(InvalidInputError, match=reason):
        require_mla(running.model, attention_sites(running).sites)
