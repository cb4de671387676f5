import math
from copy import deepcopy

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.special import betaln, gammaln
from torch import nn
from torch.nn.functional import normalize

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import AdditiveScore, BilinearScore, GeneralizedHeads


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=generator(seed))


def randomized(module, seed=100):
    with torch.no_grad():
        for offset, parameter in enumerate(module.parameters()):
            parameter.copy_(random(*parameter.shape, seed=seed + offset))
    return module


def oracle(module, queries, points, phi_of_head):
    """``sum_h V_h X phi_h(K_h^T X, y)``, one example, query, head and point at a time."""
    output = torch.zeros_like(queries)
    for b in range(queries.shape[0]):
        for q, y in enumerate(queries[b]):
            for h in range(module.heads):
                weights = phi_of_head(h, [module.keys[h].T @ x for x in points[b]], y)
                for weight, x in zip(weights, points[b], strict=True):
                    value = module.value_scale[h] * x if module.value_weight is None else module.value_weight[h] @ x
                    output[b, q] += weight * value
    return output


SIZES = {
    "batch": st.integers(1, 3),
    "queries": st.integers(1, 3),
    "points": st.integers(1, 4),
    "dim": st.integers(1, 5),
    "rank": st.integers(1, 6),
    "heads": st.integers(1, 4),
    "values": st.sampled_from(["scaled_identity", "full"]),
}


@settings(max_examples=30)
@given(**SIZES, width=st.integers(1, 5), pooled=st.booleans())
def test_additive_score_against_loops(batch, queries, points, dim, rank, heads, values, width, pooled):
    phi = AdditiveScore(dim, rank, heads, width, pooled=pooled, dtype=torch.float64)
    module = randomized(GeneralizedHeads(dim, rank, heads, phi, values=values, dtype=torch.float64))
    y, x = random(batch, queries, dim, seed=1), random(batch, points, dim, seed=2)

    def score(h, keys, query):
        mean = phi.pooled_weight[h].T @ torch.stack(keys).mean(0) if pooled else 0.0
        hidden = [phi.key_weight[h].T @ k + phi.query_weight[h].T @ query + phi.bias[h] + mean for k in keys]
        return torch.stack([phi.score_weight[h] @ each.tanh() for each in hidden]).softmax(0)

    torch.testing.assert_close(module(y, x), oracle(module, y, x, score), rtol=1e-10, atol=1e-10)


@settings(max_examples=30)
@given(**SIZES, scores=st.sampled_from(["softmax", "hardmax"]))
def test_bilinear_score_against_loops(batch, queries, points, dim, rank, heads, values, scores):
    phi = BilinearScore(dim, rank, heads, scores=scores, dtype=torch.float64)
    module = randomized(GeneralizedHeads(dim, rank, heads, phi, values=values, dtype=torch.float64))
    y, x = random(batch, queries, dim, seed=1), random(batch, points, dim, seed=2)

    def score(h, keys, query):
        logits = torch.stack([k @ phi.query_weight[h].T @ query for k in keys]) / rank**0.5
        if scores == "softmax":
            return logits.softmax(0)
        return torch.eye(len(keys), dtype=torch.float64)[max(range(len(keys)), key=lambda n: logits[n].item())]

    torch.testing.assert_close(module(y, x), oracle(module, y, x, score), rtol=1e-10, atol=1e-10)


@settings(max_examples=15)
@given(**SIZES)
def test_one_callable_a_head_equals_one_for_all(batch, queries, points, dim, rank, heads, values):
    slopes = [0.5 + h for h in range(heads)]

    def shared(keys, y):
        assert keys.shape == (batch, queries, heads, points, rank)
        assert y.shape == (batch, queries, heads, dim)
        slope = torch.tensor(slopes, dtype=torch.float64)[:, None]
        return (slope * keys.square().sum(-1) * y.sum(-1, keepdim=True)).softmax(-1)

    def alone(slope):
        return lambda keys, y: (slope * keys.square().sum(-1) * y.sum(-1, keepdim=True)).softmax(-1)

    together = randomized(GeneralizedHeads(dim, rank, heads, shared, values=values, dtype=torch.float64))
    listed = GeneralizedHeads(dim, rank, heads, [alone(s) for s in slopes], values=values, dtype=torch.float64)
    listed.load_state_dict(together.state_dict())
    y, x = random(batch, queries, dim, seed=1), random(batch, points, dim, seed=2)
    torch.testing.assert_close(together(y, x), listed(y, x), rtol=1e-12, atol=1e-12)


def test_a_bilinear_score_makes_the_ordinary_head():
    dim, heads, rank = 12, 3, 4
    torch_layer = randomized(nn.MultiheadAttention(dim, heads, bias=False, batch_first=True, dtype=torch.float64))
    phi = BilinearScore(dim, rank, heads, dtype=torch.float64)
    module = GeneralizedHeads(dim, rank, heads, phi, values="full", dtype=torch.float64)
    query, key, value = (weight.view(heads, rank, dim) for weight in torch_layer.in_proj_weight.chunk(3))
    out = torch_layer.out_proj.weight.view(dim, heads, rank).transpose(0, 1)
    with torch.no_grad():
        module.keys.copy_(key.mT)
        phi.query_weight.copy_(query.mT)
        module.value_weight.copy_(out @ value)
    y, x = random(2, 5, dim, seed=1), random(2, 7, dim, seed=2)
    expected, weights = torch_layer(y, x, x, average_attn_weights=False)
    torch.testing.assert_close(module(y, x), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(module.weights(y, x).transpose(1, 2), weights, rtol=0, atol=1e-12)


def test_hardmax_breaks_ties_by_the_lowest_index_and_refuses_nan():
    module = GeneralizedHeads(3, 2, 1, BilinearScore(3, 2, 1, scores="hardmax"))
    x = torch.ones(1, 4, 3)
    assert module.weights(torch.ones(1, 1, 3), x)[0, 0, 0].tolist() == [1, 0, 0, 0]
    with pytest.raises(InvalidInputError, match="NaN among the scores"):
        module(torch.full((1, 1, 3), torch.nan), x)


def test_starts_as_an_average_of_points_seen_through_orthonormal_keys():
    module = GeneralizedHeads(6, 2, 4, lambda keys, y: torch.full(keys.shape[:-1], 0.2), values="full")
    torch.testing.assert_close(module.keys.mT @ module.keys, torch.eye(2).expand(4, 2, 2))
    x = random(3, 5, 6, dtype=torch.float32)
    output = module(random(3, 2, 6, dtype=torch.float32), x)
    torch.testing.assert_close(output, x.mean(1, keepdim=True).expand(3, 2, 6))


def test_modules_in_a_list_are_trained_and_moved():
    class Sharp(nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = nn.Parameter(torch.ones(()))

        def forward(self, keys, y):
            return (self.slope * keys[..., 0]).softmax(-1)

    phi = [Sharp(), lambda keys, y: keys[..., 0].softmax(-1), Sharp()]
    module = GeneralizedHeads(3, 1, 3, phi).double()
    assert phi[0].slope.dtype == torch.float64
    assert {id(p) for p in module.parameters()} >= {id(phi[0].slope), id(phi[2].slope)}
    module(random(1, 1, 3), random(1, 4, 3)).sum().backward()
    assert phi[2].slope.grad.abs() > 0


def test_a_module_list_is_one_a_head_and_narrow_types_work():
    class First(nn.Module):
        def forward(self, keys, y):
            return torch.eye(keys.shape[-2], dtype=keys.dtype)[0].expand(keys.shape[:-1])

    module = GeneralizedHeads(3, 2, 2, nn.ModuleList([First(), First()]), dtype=torch.bfloat16)
    x = random(2, 4, 3, dtype=torch.float32).bfloat16()
    assert torch.equal(module(x[:, :1], x), x[:, :1])
    copy = deepcopy(module)
    assert copy.phi[0] is copy.phi_modules[0]
    assert copy.phi[0] is not module.phi[0]


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (lambda keys, y: keys[..., 0].exp() + 1, "expected weights on the simplex .* sums from"),
        (lambda keys, y: torch.cat((keys[..., :1, 0] * 0 - 1, keys[..., 1:, 0] * 0 + 1), -1), "smallest weight of -1"),
        (lambda keys, y: keys[..., 0] * torch.nan, "expected weights on the simplex"),
        (lambda keys, y: keys.softmax(-2), r"phi: expected weights \[2, 1, 2, 3\], one a point, got \[2, 1, 2, 3, 2\]"),
        ([lambda keys, y: y.softmax(-1)] * 2, r"phi: expected weights \[2, 1, 3\], one a point, got \[2, 1, 4\]"),
        ([AdditiveScore(4, 2, 2)] * 2, "pass it alone, not in a list"),
        (BilinearScore(4, 2, 3), r"phi: expected keys \[..., 3, N, R\]"),
    ],
)
def test_what_phi_returns_is_checked(phi, message):
    module = GeneralizedHeads(4, 2, 2, phi)
    with pytest.raises(InvalidInputError, match=message):
        module(torch.ones(2, 1, 4), torch.ones(2, 3, 4))


@pytest.mark.parametrize("values", ["scaled_identity", "full"])
def test_empty_inputs_have_empty_outputs(values):
    module = GeneralizedHeads(4, 2, 3, BilinearScore(4, 2, 3), values=values)
    assert module(torch.ones(0, 5, 4), torch.ones(0, 6, 4)).shape == (0, 5, 4)
    assert module(torch.ones(2, 0, 4), torch.ones(2, 6, 4)).shape == (2, 0, 4)


def test_the_simplex_check_can_be_turned_off():
    module = GeneralizedHeads(4, 2, 1, lambda keys, y: torch.ones(keys.shape[:-1]), check_simplex=False)
    torch.testing.assert_close(module(torch.ones(2, 1, 4), torch.ones(2, 3, 4)), torch.full((2, 1, 4), 3.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 0}, "rank: expected at least 1, got 0"),
        ({"heads": 2.0}, "heads: expected a whole number"),
        ({"values": "ful"}, "did you mean 'full'"),
        ({"phi": [torch.softmax]}, "one for each of the 2 heads, got 1"),
        ({"phi": "softmax"}, "phi: expected a callable or a list of 2 callables, got 'softmax'"),
    ],
)
def test_nonsense_is_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        GeneralizedHeads(**{"dim": 3, "rank": 1, "heads": 2, "phi": torch.softmax} | arguments)


@pytest.mark.parametrize(
    ("queries", "points"), [((2, 3), (2, 4, 3)), ((2, 1, 3), (2, 4, 5)), ((1, 1, 3), (2, 4, 3)), ((2, 1, 3), (2, 0, 3))]
)
def test_shapes_that_do_not_fit_are_refused(queries, points):
    with pytest.raises(ShapeError, match="GeneralizedHeads: expected"):
        GeneralizedHeads(3, 1, 1, AdditiveScore(3, 1, 1))(torch.zeros(queries), torch.zeros(points))


# The lower bound on nearest-neighbour search between two orthonormal points, and heads trained against it.


def lower_bound(dim, rank, heads, values="scaled_identity", degrees=4001):
    """``1/2 sum over odd l of eta_l^2 max(0, 1 - H M_l / N(d, l))``; the tail counts with the last degree's share."""
    odd = np.arange(1, degrees, 2)
    log_n = np.log(2 * odd + dim - 2) + gammaln(odd + dim - 2) - gammaln(odd + 1) - gammaln(dim - 1)
    energy = np.exp(log_n + 2 * (betaln(dim / 2, odd / 2) - np.log(np.pi)))
    seen = sum(
        np.where(j >= 0, np.exp(gammaln(rank + np.abs(j)) - gammaln(np.abs(j) + 1) - gammaln(rank)), 0.0)
        for j in ([odd] if values == "scaled_identity" else [odd - 2, odd, odd + 2])
    )
    unseen = np.maximum(0, 1 - heads * seen / np.exp(log_n))
    return 0.5 * (energy @ unseen + (1 - energy.sum()) * unseen[-1])


def best_sign(cosine, height):
    """E[sgn<w,y> | <k,w>, y] for w uniform on the sphere in dimension 3, height = <k,y>."""
    threshold = cosine * height / ((1 - cosine**2) * (1 - height**2)) ** 0.5
    return threshold.clip(-1, 1).arcsin() * 2 / torch.pi


def nearest_of_two(batch, dim, rng):
    """Orthonormal pairs, queries on the sphere, and the nearest of each pair."""
    first, second, queries = normalize(torch.randn(3, batch, 1, dim, generator=rng), dim=-1)
    second = normalize(second - (first * second).sum(-1, keepdim=True) * first, dim=-1)
    points = torch.cat((first, second), dim=1)
    nearest = (queries @ points.mT).argmax(-1)[..., None].expand(-1, -1, dim)
    return queries, points, points.gather(1, nearest)


@torch.no_grad()
def held_out_error(module, dim, seed=12345, chunks=16, chunk=2**16):
    """Mean squared error a query on a million fresh examples, and its standard error."""
    rng = generator(seed)
    errors = []
    for _ in range(chunks):
        queries, points, targets = nearest_of_two(chunk, dim, rng)
        errors.append((module(queries, points) - targets).double().square().sum(-1).flatten())
    every = torch.cat(errors)
    return every.mean().item(), (every.std() / len(every) ** 0.5).item()


def trained(dim, rank, heads, values, *, steps, batch, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        phi = AdditiveScore(dim, rank, heads, width=32, pooled=True)
        module = GeneralizedHeads(dim, rank, heads, phi, values=values)
    optimizer = torch.optim.Adam(module.parameters(), betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=steps, pct_start=0.1)
    rng = generator(seed)
    for _ in range(steps):
        queries, points, targets = nearest_of_two(batch, dim, rng)
        loss = (module(queries, points) - targets).square().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return module


def test_the_bound_has_three_witnesses():
    """The series, the conditional variance by quadrature, and the closed form 1 - 2/pi agree for (3, 1, 1)."""
    nodes, shares = np.polynomial.legendre.leggauss(400)  # <k,w> and <k,y> are uniform on [-1, 1] in dimension 3
    sign = best_sign(torch.from_numpy(nodes)[:, None], torch.from_numpy(nodes)).numpy()
    variance = 0.5 * (1 - shares @ sign**2 @ shares / 4)
    assert variance == pytest.approx(1 - 2 / math.pi, abs=1e-4)
    assert lower_bound(3, 1, 1) == pytest.approx(1 - 2 / math.pi, abs=1e-8)


def test_the_best_phi_attains_the_bound():
    def phi(keys, y):
        cosine = (keys[..., 0, 0] - keys[..., 1, 0]) / 2**0.5
        sign = best_sign(cosine, y[..., 0])
        return torch.stack((1 + sign, 1 - sign), dim=-1) / 2

    module = GeneralizedHeads(3, 1, 1, phi)
    with torch.no_grad():
        module.keys.copy_(torch.eye(3)[:, :1])
    error, standard_error = held_out_error(module, 3)
    assert error == pytest.approx(lower_bound(3, 1, 1), abs=4 * standard_error)
    assert standard_error < 1e-3


def test_trained_heads_come_within_three_percent_of_the_bound_and_not_below():
    bound = lower_bound(3, 1, 1)
    error, standard_error = held_out_error(trained(3, 1, 1, "scaled_identity", steps=1000, batch=1024), 3)
    assert bound - 4 * standard_error <= error <= 1.03 * bound


@pytest.mark.parametrize(
    ("dim", "rank", "heads", "values"),
    [
        (2, 1, 1, "scaled_identity"),
        (3, 1, 2, "scaled_identity"),
        (3, 2, 1, "scaled_identity"),
        (4, 1, 1, "scaled_identity"),
        (4, 2, 2, "scaled_identity"),
        (3, 1, 2, "full"),
        (4, 1, 1, "full"),
        (4, 2, 2, "full"),
    ],
)
def test_trained_heads_never_fall_below_the_bound(dim, rank, heads, values):
    bound = lower_bound(dim, rank, heads, values)
    error, standard_error = held_out_error(trained(dim, rank, heads, values, steps=120, batch=512), dim, chunks=2)
    assert bound > 0.03
    assert bound - 4 * standard_error <= error < 0.45  # below the 1/2 of predicting the mean: they did learn
