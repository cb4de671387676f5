import pytest
import torch

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import TokenModel, Transformer
from rankwise.nn.latent import LatentAttention
from rankwise.spec import ModelSpec, TokenInterface

FEATURES = TokenInterface(features=3, outputs=2, causal=True)
IDS = TokenInterface(vocabulary=7, outputs=5)
POOLED = TokenInterface(features=3, outputs=4, pooled=True)


def model_spec(**fields):
    whole = {"dim": 6, "layers": 2, "heads": 2, "rank": 3, "feedforward": 8, "norm_place": "pre"}
    return ModelSpec(**whole | fields)


def tokens_for(interface, batch=2, tokens=5):
    g = torch.Generator().manual_seed(0)
    if interface.vocabulary is not None:
        return torch.randint(interface.vocabulary, (batch, tokens), generator=g)
    return torch.randn(batch, tokens, interface.features, generator=g)


@pytest.mark.parametrize("interface", [FEATURES, IDS, POOLED])
@pytest.mark.parametrize("latent", [None, 4])
def test_parameters_are_counted_without_building(interface, latent):
    spec = model_spec(kv_lora_rank=latent, positions="additive", max_points=5)
    model = TokenModel(interface, spec)
    assert sum(p.numel() for p in model.parameters()) == spec.parameters() + interface.parameters(6)
    shape = model(tokens_for(interface)).shape
    assert shape == ((2, 4) if interface.pooled else (2, 5, interface.outputs))


@pytest.mark.parametrize("latent", [None, 4])
def test_a_causal_model_does_not_see_later_tokens(latent):
    torch.manual_seed(0)
    model = TokenModel(FEATURES, model_spec(causal=True, kv_lora_rank=latent))
    tokens = tokens_for(FEATURES)
    changed = tokens.clone()
    changed[:, 3:] += 1.0
    torch.testing.assert_close(model(tokens)[:, :3], model(changed)[:, :3])
    assert (model(tokens)[:, 3:] - model(changed)[:, 3:]).abs().max() > 1e-3


@pytest.mark.parametrize("latent", [None, 4])
def test_returned_weights_are_those_used_and_their_rows_sum_to_one(latent):
    torch.manual_seed(0)
    model = TokenModel(POOLED, model_spec(kv_lora_rank=latent))
    output, weights = model(tokens_for(POOLED), return_weights=True)
    torch.testing.assert_close(output, model(tokens_for(POOLED)))
    assert [layer.shape for layer in weights] == [(2, 2, 5, 5)] * 2
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(2, 2, 5))


def test_pooled_answers_do_not_depend_on_the_order_without_positions():
    torch.manual_seed(0)
    model = TokenModel(POOLED, model_spec())
    tokens = tokens_for(POOLED)
    torch.testing.assert_close(model(tokens), model(tokens.flip(1)))


def test_wrong_tokens_are_refused():
    with pytest.raises(ShapeError, match="expected ids"):
        TokenModel(IDS, model_spec())(torch.zeros(2, 5))
    with pytest.raises(ShapeError, match="features=3"):
        TokenModel(FEATURES, model_spec())(torch.zeros(2, 5, 4))


def test_latent_attention_stands_in_every_layer_and_attends_to_its_own_tokens():
    model = Transformer(model_spec(kv_lora_rank=4, positions="rotary", rope_head_dim=2, init="identity"))
    assert [type(layer) for layer in model.attention_layers()] == [LatentAttention] * 2
    assert [layer.out.weight.eq(0).all().item() for layer in model.attention_layers()] == [True, False]
    with pytest.raises(InvalidInputError, match="tokens attend to themselves"):
        model(torch.zeros(1, 2, 6), torch.zeros(1, 3, 6))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kv_lora_rank": 4, "qk_norm": True}, "qk_norm: expected False with latent attention"),
        ({"kv_lora_rank": 4, "kv_heads": 1}, "kv_heads: expected None with latent attention"),
        ({"kv_lora_rank": 4, "positions": "rotary"}, "rope_head_dim: expected a number exactly when"),
        ({"rope_head_dim": 2}, "rope_head_dim: expected none without kv_lora_rank"),
        ({"kv_lora_rank": 0}, "kv_lora_rank: expected at least 1"),
    ],
)
def test_shapes_that_latent_attention_cannot_have(fields, words):
    with pytest.raises(InvalidInputError, match=words):
        model_spec(**fields)
