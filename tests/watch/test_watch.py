"""A watch sees what a head does, alarms at what was planted, and leaves the training as it was."""

import copy
import math
import sys
import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from rankwise.errors import InvalidInputError
from rankwise.measure import effective_rank
from rankwise.nn import LatentAttention, MultiheadAttention, TokenModel
from rankwise.spec import LatentSpec, ModelSpec, TokenInterface
from rankwise.theory.occupancy import hardmax_rank_mean
from rankwise.watch import Thresholds, Watch
from rankwise.watch.readings import gaussian_effective_rank, qk_singular_values
from saved_models import tiny_language_model

TOKENS = 40


def stack(**fields):
    torch.manual_seed(0)
    spec = ModelSpec(dim=16, layers=2, heads=2, rank=8, causal=True, positions="rotary", **fields)
    return TokenModel(TokenInterface(vocabulary=50, outputs=50), spec)


def ids(batch=4, seed=0):
    return torch.randint(50, (batch, TOKENS), generator=torch.Generator().manual_seed(seed))


def test_readings_are_the_measures_of_the_layers_own_matrices():
    model = stack()
    with Watch(model, sequences=4) as watch:
        _, matrices = model(ids(), return_weights=True)
        seen = watch.look()
    assert [(head.layer, head.head) for head in seen.heads] == [
        (f"transformer.blocks.{layer}.attention", head) for layer in range(2) for head in range(2)
    ]
    for number, weights in enumerate(matrices):
        for head in range(2):
            reading = seen.heads[2 * number + head]
            picked = [len(set(one.argmax(-1).tolist())) for one in weights[:, head]]
            assert reading.attention_rank == pytest.approx(sum(picked) / 4)
            rows = torch.special.entr(weights[:, head]).sum(-1)
            assert reading.entropy == pytest.approx(rows.mean().item(), rel=1e-5)
            form = next(
                layer for at, layer in enumerate(model.transformer.attention_layers()) if at == number
            ).qk(head).singular_values().detach()  # fmt: skip
            assert reading.qk_effective == pytest.approx(float(effective_rank(singular_values=form)), rel=1e-4)
    assert seen.heads[0].attention_rank_random == pytest.approx(hardmax_rank_mean(TOKENS, "causal"))
    assert seen.heads[0].entropy_uniform == pytest.approx(sum(math.log(n + 1) for n in range(TOKENS)) / TOKENS)
    assert seen.alarms == ()


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 12), st.integers(1, 12))
def test_singular_values_from_gram_matrices(heads, rank, dim, context):
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(heads, rank, size, generator=generator, dtype=torch.float64) for size in (dim, context))
    exact = torch.linalg.svdvals(q.mT @ k)
    found = qk_singular_values(q, k)
    shared = min(found.shape[1], exact.shape[1])
    torch.testing.assert_close(found[:, :shared], exact[:, :shared], rtol=1e-6, atol=1e-6)
    assert gaussian_effective_rank(dim, context, rank) <= min(rank, dim, context) + 1e-9


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_model_of_transformers_is_watched_and_left_as_it_was(kind):
    model = tiny_language_model(kind).train()
    model.set_attn_implementation("sdpa")
    with Watch(model, sequences=2) as watch:
        model(input_ids=ids())
        seen = watch.look()
    assert len({head.layer for head in seen.heads}) == model.config.num_hidden_layers
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    model.eval().set_attn_implementation("eager")
    with torch.no_grad():
        matrices = model(input_ids=ids()[:2], output_attentions=True).attentions
    first = torch.special.entr(matrices[0][:, 0]).sum(-1).mean().item()
    assert seen.heads[0].entropy == pytest.approx(first, rel=1e-4)


def test_torch_and_latent_layers_are_watched():
    torch.manual_seed(0)
    latent = LatentSpec(
        dim=16, heads=2, q_lora_rank=None, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8
    )  # fmt: skip
    for layer, arguments in (
        (nn.MultiheadAttention(16, 4, dropout=0.5, batch_first=True), 3),
        (nn.MultiheadAttention(16, 4), 3),
        (LatentAttention(latent), 1),
        (MultiheadAttention(16, 4, dropout=0.5), 1),
    ):
        x = torch.randn(5, TOKENS, 16) if getattr(layer, "batch_first", True) else torch.randn(TOKENS, 5, 16)
        with Watch(layer, sequences=3) as watch:
            layer(*[x] * arguments)
            seen = watch.look()
        assert all(1 <= head.attention_rank <= TOKENS for head in seen.heads)
        assert all(head.entropy <= head.entropy_uniform + 1e-6 for head in seen.heads)
        assert layer.training


def test_planted_collapse_and_saturation_give_their_alarms():
    model = stack()
    first, second = model.transformer.attention_layers()
    with torch.no_grad():
        first.q_weight[1] = first.q_weight[1, :1] * torch.randn(8, 1) * 30  # rank 1, and sharp
        second.q_weight[0] *= 1e4
        second.k_weight[0] *= 1e4
    told = []
    with Watch(model, on_alarm=told.append, thresholds=Thresholds(collapse=0.2)) as watch:
        model(ids())
        seen = watch.look()
    kinds = {(alarm.kind, alarm.layer.split(".")[2], alarm.head) for alarm in seen.alarms}
    assert ("collapse", "0", 1) in kinds
    assert ("saturation", "1", 0) in kinds
    assert ("collapse", "0", 0) not in kinds
    assert told == [seen]
    assert str(seen.alarms[0]).startswith(("collapse: transformer", "saturation: transformer"))


def train(model, watch=None, steps=5):
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        rows = ids(seed=step)
        output = nn.functional.dropout(model(rows), 0.1)  # what the random state decides
        nn.functional.cross_entropy(output[:, :-1].flatten(0, 1), rows[:, 1:].flatten()).backward()
        optimizer.step()
        if watch is not None:
            watch.step()


def test_a_watched_training_is_bit_equal_and_logged():
    plain = stack()
    watched = copy.deepcopy(plain)
    logged = {}
    train(plain)
    with Watch(watched, every=2, log=lambda scalars, step: logged.setdefault(step, dict(scalars))) as watch:
        train(watched, watch)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    assert sorted(logged) == [0, 2, 4]
    assert len(logged[0]) == 1 + 3 * 4
    assert logged[0]["rankwise/attention_rank/transformer.blocks.0.attention/head0"] > 0
    assert len(watch.rows) == 3 * 4
    assert not any(module._forward_pre_hooks for module in watched.modules())


def test_a_writer_gets_every_scalar():
    written = []

    class Writer:
        def add_scalar(self, tag, scalar_value, global_step):
            written.append((tag, global_step))

    model = stack()
    with Watch(model, log=Writer()) as watch:
        model(ids())
        watch.step()
    assert len(written) == 13
    assert {step for _, step in written} == {0}


def test_what_cannot_be_watched_is_said():
    with pytest.raises(InvalidInputError, match="got none in Linear"):
        Watch(nn.Linear(2, 2))
    with pytest.raises(InvalidInputError, match="got no inputs"):
        Watch(stack()).look()
    with pytest.raises(InvalidInputError, match="collapse: expected a share"):
        Thresholds(collapse=2.0)


def test_the_trainer_of_transformers_logs_what_is_watched(tmp_path):
    pytest.importorskip("accelerate", reason="transformers.Trainer needs accelerate")
    from transformers import Trainer, TrainingArguments

    from rankwise.watch.trainers import watch_trainer

    model = tiny_language_model("llama")
    rows = [{"input_ids": row, "labels": row} for row in ids(8)]
    arguments = TrainingArguments(
        str(tmp_path), max_steps=4, per_device_train_batch_size=2, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    watch = watch_trainer(trainer, every=2)
    trainer.train()
    assert [seen.step for seen in watch.history] == [0, 2]
    assert sum("rankwise/alarms" in entry for entry in trainer.state.log_history) == 2


def test_lightning_is_asked_for_by_name(monkeypatch):
    from rankwise.watch.trainers import lightning_callback

    monkeypatch.setitem(sys.modules, "lightning.pytorch.callbacks", None)
    with pytest.raises(ImportError, match="pip install lightning"):
        lightning_callback()


def test_the_callback_follows_the_calls_of_lightning(monkeypatch):
    """Lightning itself is no dependency: an imitation of what it calls and offers."""
    from rankwise.watch.trainers import lightning_callback

    imitation = types.ModuleType("lightning.pytorch.callbacks")
    imitation.Callback = object
    monkeypatch.setitem(sys.modules, "lightning.pytorch.callbacks", imitation)
    logged = []
    logger = types.SimpleNamespace(log_metrics=lambda scalars, step: logged.append((step, scalars)))
    trainer, model = types.SimpleNamespace(loggers=[logger]), stack()
    callback = lightning_callback(every=2)
    callback.on_train_start(trainer, model)
    for batch in range(3):
        model(ids())
        callback.on_train_batch_end(trainer, model, None, None, batch)
    callback.on_train_end(trainer, model)
    assert [step for step, _ in logged] == [0, 2]
    assert len(callback.watch.history) == 2
