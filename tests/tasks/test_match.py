import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.spec import MatchSpec
from rankwise.tasks.match import Match


def brute_force(name, numbers, modulus):
    others = 1 if name == "match2" else 2
    return [any((x + sum(rest)) % modulus == 0 for rest in itertools.product(numbers, repeat=others)) for x in numbers]


@given(
    name=st.sampled_from(["match2", "match3"]),
    modulus=st.integers(2, 40),
    data=st.data(),
)
def test_targets_agree_with_trying_every_pair_and_triple(name, modulus, data):
    numbers = data.draw(st.lists(st.integers(0, modulus - 1), min_size=2, max_size=7))
    task = Match(MatchSpec(name=name, points=len(numbers), modulus=modulus))
    assert task.target(torch.tensor([numbers]))[0].tolist() == brute_force(name, numbers, modulus)


@pytest.mark.parametrize("name", ["match2", "match3"])
@pytest.mark.parametrize("points", [8, 32])
def test_the_default_modulus_makes_about_half_of_the_answers_yes(name, points):
    batch = Match(MatchSpec(name=name, points=points)).sample(2000, torch.Generator().manual_seed(0))
    assert 0.4 < batch.targets.mean() < 0.6


def test_errors_count_wrong_answers_and_bits_are_those_of_a_coin():
    task = Match(MatchSpec(name="match2", points=6))
    batch = task.sample(3, torch.Generator().manual_seed(0))
    right = (2 * batch.targets - 1)[..., None] * 50
    assert task.error(right, batch).eq(0).all()
    right[1, 2] *= -1
    assert task.error(right, batch).tolist() == pytest.approx([0, 1 / 6, 0])
    assert task.loss(torch.zeros(3, 6, 1), batch).tolist() == pytest.approx([1.0] * 3)
    assert task.details(right, batch)["yes"].tolist() == pytest.approx(batch.targets.mean(dim=1).tolist())
    with pytest.raises(ShapeError, match=r"expected \[batch, points, 1\]"):
        task.error(right[..., 0], batch)


def test_numbers_outside_the_modulus_are_refused():
    with pytest.raises(InvalidInputError, match="expected 0 to 4"):
        Match(MatchSpec(name="match2", points=2, modulus=5)).target(torch.tensor([[0, 5]]))
    with pytest.raises(InvalidInputError, match="modulus: expected at most 65536"):
        MatchSpec(name="match2", points=2, modulus=10**6)
