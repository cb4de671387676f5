import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.spec import Curriculum, InContextSpec
from rankwise.tasks.in_context import InContext, interleaved, nearest_anchor_values, tree_values

CLASSES = ("linear", "sparse_linear", "relu", "tree", "nearest")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def spec_of(function, **fields):
    sizes = {"nearest": {"anchors": 3}, "sparse_linear": {"sparsity": 2}}.get(function, {})
    return InContextSpec(function=function, **{"dim": 4, "points": 7} | sizes | fields)


@pytest.mark.parametrize("function", CLASSES)
def test_the_variance_is_that_of_the_values(function):
    """So that predicting 0 costs 1 at every position."""
    task = InContext(spec_of(function))
    x, y = task.prompts(20_000, generator(), dtype=torch.float64)
    by_position = y.square().mean(dim=0) / task.spec.variance
    noise = (y.square() / task.spec.variance).std(dim=0) / len(y) ** 0.5
    assert ((by_position - 1).abs() < 5 * noise).all(), by_position
    torch.testing.assert_close(x.mean(), torch.tensor(0.0, dtype=torch.float64), atol=0.01, rtol=0)


@pytest.mark.parametrize("function", CLASSES)
def test_an_answer_costs_what_it_is_off_by_and_only_the_tokens_of_inputs_are_asked(function):
    task = InContext(spec_of(function))
    batch = task.sample(5, generator(), dtype=torch.float64)
    assert batch.tokens.shape == (5, 13, 4)
    prediction = torch.full((5, 13, 1), 1e6, dtype=torch.float64)
    prediction[:, ::2, 0] = batch.targets
    assert task.error(prediction, batch).eq(0).all()
    prediction[2, 4, 0] += 3.0
    assert task.details(prediction, batch)["by_examples"][2, 2] == pytest.approx(9 / task.spec.variance)
    assert task.error(prediction, batch)[2] == pytest.approx(9 / task.spec.variance / 7)
    with pytest.raises(ShapeError, match=r"expected \[batch, tokens, 1\]"):
        task.error(prediction[:, :-1], batch)


def test_tokens_alternate_between_inputs_and_values():
    x, y = torch.randn(2, 3, 4), torch.randn(2, 3)
    tokens = interleaved(x, y).tokens
    assert torch.equal(tokens[:, 0::2], x)
    assert torch.equal(tokens[:, 1::2, 0], y[:, :2])
    assert tokens[:, 1::2, 1:].eq(0).all()


@given(scale=st.floats(-3, 3), seed=st.integers(0, 99))
def test_linear_functions_are_linear_in_every_prompt(scale, seed):
    """Labels are consistent: one w explains all values of a prompt, and w has the asked number of entries."""
    for function, entries in (("linear", 4), ("sparse_linear", 2)):
        x, y = InContext(spec_of(function)).prompts(3, generator(seed), dtype=torch.float64)
        w = torch.linalg.lstsq(x, y[..., None]).solution
        torch.testing.assert_close((x @ w)[..., 0], y, atol=1e-9, rtol=0)
        torch.testing.assert_close((scale * x @ w)[..., 0], scale * y, atol=1e-8, rtol=0)
        assert ((w.abs() > 1e-9).sum(dim=1) == entries).all()


def brute_force_tree(x, coordinates, leaves):
    inner, node = len(coordinates), 0
    while node < inner:
        node = 2 * node + (2 if x[coordinates[node]] > 0 else 1)
    return leaves[node - inner]


@given(depth=st.integers(1, 5), seed=st.integers(0, 99))
def test_trees_agree_with_walking_each_one(depth, seed):
    g = generator(seed)
    x = torch.randn(3, 6, 4, generator=g)
    coordinates = torch.randint(4, (3, 2**depth - 1), generator=g)
    leaves = torch.randn(3, 2**depth, generator=g)
    values = tree_values(x, coordinates, leaves)
    for b in range(3):
        for p in range(6):
            assert values[b, p] == brute_force_tree(x[b, p], coordinates[b], leaves[b])
    scaled = x * torch.rand(3, 6, 1, generator=g).add(0.1)
    assert torch.equal(tree_values(scaled, coordinates, leaves), values)  # only signs matter


def test_a_tree_is_homogeneous_in_its_signs_and_has_at_most_its_leaves():
    _, y = InContext(spec_of("tree", depth=2, points=200)).prompts(4, generator())
    assert all(len(prompt.unique()) <= 4 for prompt in y)


def test_relu_networks_are_positively_homogeneous_and_not_linear():
    task = InContext(spec_of("relu", hidden=6))
    x = torch.randn(3, 7, 4, generator=generator())
    one, two, opposite = (task._values(c * x, 4, generator(1)) for c in (1, 2, -1))
    torch.testing.assert_close(two, 2 * one)
    assert (opposite + one).abs().max() > 0.1


def test_the_nearest_anchor_by_hand():
    x = torch.tensor([[[0.0, 0.0], [4.0, 0.0], [1.0, 1.0], [3.0, -1.0], [2.0, 0.0]]])
    values = nearest_anchor_values(x, torch.tensor([[5.0, 7.0]]))
    assert values.tolist() == [[5.0, 7.0, 5.0, 7.0, 5.0]]  # of a tie the first


@pytest.mark.parametrize(
    ("function", "steps", "stages"),
    [
        ("linear", (0, 1999, 2000, 29_999, 30_000, 500_000), ((5, 11), (5, 11), (6, 13), (19, 39), (20, 41), (20, 41))),
        ("tree", (0, 1999, 2000, 29_999, 30_000), ((5, 26), (5, 26), (6, 31), (19, 96), (20, 101))),
    ],
)
def test_the_curriculum_is_the_published_one(function, steps, stages):
    spec = InContextSpec.published(function)
    assert [spec.stage(step) for step in steps] == list(stages)
    assert spec.stage(None) == (spec.dim, spec.points)


def test_what_the_curriculum_has_not_reached_is_zero_and_sparse_weights_lie_in_what_it_has():
    curriculum = Curriculum(dims_start=2, points_start=3, every=10)
    task = InContext(spec_of("sparse_linear", sparsity=2, curriculum=curriculum))
    x, y = task.prompts(50, generator(), step=10, dtype=torch.float64)
    assert x.shape == (50, 5, 4)
    assert x[..., 3:].eq(0).all()
    assert x[..., :3].ne(0).all()
    weights = torch.linalg.lstsq(x[..., :3], y[..., None]).solution
    assert ((weights.abs() > 1e-9).sum(dim=1) == 2).all()
    assert task.training_batch(2, generator(), step=0, dtype=torch.float32).tokens.shape == (2, 5, 4)
    assert task.held_out(2, 3, generator(), dtype=torch.float32)[1].tokens.shape == (3, 13, 4)


def test_prompts_are_a_function_of_the_generator():
    task = InContext(spec_of("linear"))
    one, again, other = (task.sample(4, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(one.tokens, again.tokens)
    assert not torch.equal(one.targets, other.targets)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"function": "linear", "sparsity": 2}, "sparsity: expected none for function = 'linear'"),
        ({"function": "sparse_linear", "sparsity": 9}, "sparsity: expected at most dim = 4, got 9"),
        ({"function": "nearest", "anchors": 7}, "anchors: expected fewer than points = 7"),
        ({"function": "tree", "depth": 40}, "depth: expected at most 16"),
        ({"function": "linear", "curriculum": Curriculum(dims_start=9, points_start=3)}, "curriculum.dims_start"),
        ({"function": "cubic"}, "function: expected one of"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_name(fields, words):
    with pytest.raises(InvalidInputError, match=words):
        InContextSpec(dim=4, points=7, **fields)
