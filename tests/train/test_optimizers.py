import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rankwise.errors import InvalidInputError
from rankwise.nn import TokenModel, Transformer
from rankwise.spec import LrMultipliers, ModelSpec, OptimSpec, TokenInterface
from rankwise.train.build import module_of
from rankwise.train.optimizers import Muon, build_optimizers, orthogonalized, role_of, set_lr

FULL = ModelSpec(
    dim=6,
    heads=2,
    rank=4,
    layers=2,
    feedforward=7,
    temperature="learned",
    qk_norm=True,
    positions="additive",
    max_points=3,
    residual="learned",
)
BARE = {"norm": "none", "residual": "none", "bias": False}


def seeded(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=50)
@given(heads=st.integers(1, 3), rows=st.integers(1, 9), columns=st.integers(1, 9), seed=st.integers(0, 99))
def test_each_head_is_orthogonalised_apart_and_singular_values_come_near_one(heads, rows, columns, seed):
    stack = seeded(heads, rows, columns, seed=seed)
    found = orthogonalized(stack)
    for matrix, result in zip(stack, found, strict=True):
        torch.testing.assert_close(orthogonalized(matrix), result)
        u, s, v = torch.linalg.svd(matrix, full_matrices=False)
        shares = torch.linalg.svdvals(result)
        assert shares.max() < 1.25
        if s.min() > 0.02 * s.max():
            assert shares.min() > 0.5
            # the same singular vectors: what remains is diagonal in their bases
            inside = u.mT @ result @ v.mT
            torch.testing.assert_close(inside, torch.diag(inside.diagonal()), atol=2e-2, rtol=0)


def test_zeros_stay_zero():
    assert not orthogonalized(torch.zeros(2, 3, 4)).any()


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (4, 4)])
def test_muon_agrees_with_torchs_on_single_matrices(shape):
    """PyTorch's rounds to bfloat16 on the way, hence the tolerance: a few parts in a hundred of a step."""
    start = seeded(*shape)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    our_muon = Muon([{"params": [ours]}], lr=0.1, momentum=0.9, weight_decay=0.01)
    their_muon = torch.optim.Muon(
        [theirs], lr=0.1, momentum=0.9, weight_decay=0.01, adjust_lr_fn="match_rms_adamw", nesterov=True
    )
    for step in range(4):
        ours.grad = seeded(*shape, seed=step + 1)
        theirs.grad = ours.grad.clone()
        our_muon.step()
        their_muon.step()
    assert (ours - start).abs().max() > 0.05
    torch.testing.assert_close(ours, theirs, atol=6e-3, rtol=0)


def test_muon_moves_parameters_of_one_shape_as_it_would_move_each_alone():
    shapes = [(3, 4, 7), (3, 4, 7), (7, 5), (3, 4, 7), (7, 5)]
    together = [nn.Parameter(seeded(*shape, seed=i)) for i, shape in enumerate(shapes)]
    alone = [nn.Parameter(p.detach().clone()) for p in together]
    one = Muon([{"params": together}], lr=0.1, weight_decay=0.01)
    many = [Muon([{"params": [p]}], lr=0.1, weight_decay=0.01) for p in alone]
    for step in range(3):
        for i, (a, b) in enumerate(zip(together, alone, strict=True)):
            a.grad = seeded(*shapes[i], seed=10 * step + i)
            b.grad = a.grad.clone()
        together[1].grad = alone[1].grad = None  # an unused parameter stays where it is
        one.step()
        for optimizer in many:
            optimizer.step()
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)
    assert torch.equal(together[1], seeded(*shapes[1], seed=1))


def test_every_parameter_has_a_role_and_its_own_learning_rate():
    multipliers = LrMultipliers(
        query_key=1, output_value=2, temperature=3, feedforward=4, norm=5, positions=6, interface=7
    )
    model = TokenModel(TokenInterface(features=3, outputs=2), FULL)
    for kind in ("adamw", "muon"):
        optimizers = build_optimizers(
            model, OptimSpec(optimizer=kind, lr=1, steps=1, batch=1, lr_multipliers=multipliers)
        )
        set_lr(optimizers, 0.5)
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        rates = {id(p): group["lr"] for group in groups for p in group["params"]}
        assert len(rates) == len(list(model.parameters()))
        for name, parameter in model.named_parameters():
            assert rates[id(parameter)] == 0.5 * getattr(multipliers, role_of(name))
    names = {role_of(name) for name, _ in model.named_parameters()}
    assert names == set(LrMultipliers.__dataclass_fields__)


def test_muon_takes_matrices_and_leaves_tables_of_biases_to_adamw():
    model = Transformer(FULL)
    muon, adamw = build_optimizers(model, OptimSpec(optimizer="muon", lr=1, steps=1, batch=1))
    assert isinstance(muon, Muon)
    assert isinstance(adamw, torch.optim.AdamW)
    by_muon = {id(p) for group in muon.param_groups for p in group["params"]}
    names = {name.rpartition(".")[2] for name, p in model.named_parameters() if id(p) in by_muon}
    assert names == {"q_weight", "k_weight", "v_weight", "o_weight", "weight"}
    assert all(p.ndim >= 2 for group in muon.param_groups for p in group["params"])
    kept = {name for name, p in model.named_parameters() if id(p) not in by_muon}
    assert {"positions", "blocks.0.attention.q_bias", "blocks.0.attention.log_beta"} <= kept


def test_generalised_heads_have_roles_too():
    model = module_of(ModelSpec(dim=4, heads=2, rank=1, generalized=3, **BARE))
    assert {role_of(name) for name, _ in model.named_parameters()} == {"query_key", "output_value"}
    (adamw,) = build_optimizers(model, OptimSpec(lr=1, steps=1, batch=1))
    assert sum(len(group["params"]) for group in adamw.param_groups) == len(list(model.parameters()))


def test_a_parameter_of_no_known_role_is_refused():
    with pytest.raises(InvalidInputError, match="'mystery'"):
        role_of("mystery")
