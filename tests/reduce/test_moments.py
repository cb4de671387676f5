"""Second moments and scores from weights, against the model's own queries and keys."""

import pytest
import torch

from rankwise.models.files.source import open_model
from rankwise.models.layouts import load_layer, place
from rankwise.models.running.model import running_from
from rankwise.reduce.cutting import module_names
from rankwise.reduce.moments import MomentSums, logits_from_weights, weight_moments
from saved_models import saved, tokens
from tiny_models import tiny_model


def prepared(name, tmp_path, **changes):
    model = tiny_model(name, **changes)
    source = open_model(saved(model, tmp_path / "m"))
    running = running_from(model, objective="embedding")
    weights = [load_layer(source, ref) for ref in place(source).layers]
    return running, dict(zip(module_names(running, [one.ref for one in weights]), weights, strict=True))


NAMES = ["bert", "gpt2", "llama-biased", "gemma2", "gpt-neox", "qwen2", "mistral", "t5", "distilbert"]


@pytest.mark.parametrize("name", NAMES)
def test_weights_predict_the_models_own_logits(name, tmp_path):
    running, weights = prepared(name, tmp_path)
    worst = []
    running.watch(
        tokens(),
        lambda call: worst.append(float((logits_from_weights(weights[call.name], call) - call.logits()).abs().max())),
    )
    assert len(worst) == len(weights)
    assert max(worst) < 1e-4


@pytest.mark.parametrize("name", ["llama-biased", "bert", "gpt-neox"])
def test_moments_are_means_over_what_the_model_multiplies(name, tmp_path):
    running, weights = prepared(name, tmp_path)
    sums = {path: MomentSums(one) for path, one in weights.items()}
    calls = []
    for part in tokens(texts=3).split(1):
        running.watch(part, lambda call: (sums[call.name].add(call), calls.append(call)))
    path, one = next(iter(weights.items()))
    found, ref = sums[path].moments(), one.ref
    mine = [call for call in calls if call.name == path]
    values = torch.cat([call.values for call in mine]).repeat_interleave(ref.group, 1)
    mixed = torch.cat([call.probabilities for call in mine]).double() @ values.double()
    for g in range(ref.kv_heads):
        own = mixed[:, g * ref.group : (g + 1) * ref.group].flatten(0, 2)
        torch.testing.assert_close(found.values[g], own.mT @ own / len(own), rtol=1e-4, atol=1e-6)
    if ref.rope is None:
        q, k = (torch.cat([getattr(call, side) for call in mine]).double() for side in ("queries", "keys"))
        k = k - k.mean(2, keepdim=True)
        for g in range(ref.kv_heads):
            own = q[:, g * ref.group : (g + 1) * ref.group].flatten(0, 2)
            torch.testing.assert_close(found.queries[g], own.mT @ own / len(own) * ref.group, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(found.keys[g], k[:, g].flatten(0, 1).mT @ k[:, g].flatten(0, 1) / 36)
    else:
        # all pairs together are the whole rotating part of the logits, every row centred over what it sees
        places = [place for pair in ref.rope.pairs() for place in pair]
        for g in range(ref.kv_heads):
            total = 0.0
            for call in mine:
                k = call.keys[:, g, :, places].double()
                for head in range(g * ref.group, (g + 1) * ref.group):
                    scores = (call.queries[:, head][:, :, places].double() @ k.mT)[0]
                    for row in range(12):
                        seen = scores[row, : row + 1]
                        total += float((seen - seen.mean()).square().sum()) / 78
            assert float(found.pairs[g].sum()) == pytest.approx(total / 3, rel=1e-4)


def test_weights_alone_are_isotropic_inputs_behind_the_norm(tmp_path):
    _, weights = prepared("llama-biased", tmp_path)
    one = next(iter(weights.values()))
    found = weight_moments(one)
    gain = torch.from_numpy(one.query_norm.gain).double()
    draw = torch.randn(200_000, len(gain), generator=torch.Generator().manual_seed(0), dtype=torch.float64) * gain
    k = draw @ torch.from_numpy(one.k[1].copy()).double().mT
    torch.testing.assert_close(found.keys[1], k.mT @ k / len(k), rtol=0.05, atol=0.05)
    q = [
        draw @ torch.from_numpy(one.q[h].copy()).double().mT + torch.from_numpy(one.q_bias[h].copy()) for h in (3, 4, 5)
    ]
    expected = sum(head.mT @ head for head in q) / len(draw)
    torch.testing.assert_close(found.queries[1], expected, rtol=0.05, atol=0.1)
