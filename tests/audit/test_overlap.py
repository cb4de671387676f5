import numpy as np
import pytest
from scipy.linalg import subspace_angles

from rankwise.audit.overlap import overlaps
from rankwise.audit.spectra import forms


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def test_overlap_is_the_mean_squared_cosine_of_scipys_principal_angles():
    found = forms(random(3, 6, 30), random(3, 6, 25))
    pairs = {pair.heads: pair for pair in overlaps(found, "QK", pairs_of_model=3)}
    assert set(pairs) == {(0, 1), (0, 2), (1, 2)}
    for (i, j), pair in pairs.items():
        for ours, spaces in ((pair.left, found.left_spaces), (pair.right, found.right_spaces)):
            angles = subspace_angles(spaces.basis(i).numpy(), spaces.basis(j).numpy())
            assert ours == pytest.approx(np.square(np.cos(angles)).mean(), abs=1e-5)


@pytest.mark.parametrize(
    ("heads", "groups", "rank", "dim"), [(12, 12, 8, 96), (12, 3, 8, 96), (6, 6, 20, 24), (8, 1, 16, 20)]
)
@pytest.mark.parametrize("seed", range(3))
def test_random_heads_are_not_called_redundant(heads, groups, rank, dim, seed):
    """Not where heads share keys, nor where two subspaces cannot help but meet."""
    found = forms(random(heads, rank, dim, seed=seed), random(groups, rank, dim, seed=seed + 100))
    pairs = overlaps(found, "QK", pairs_of_model=heads * (heads - 1) // 2)
    assert not any(pair.redundant for pair in pairs)
    assert len(pairs) == 3
    for pair in pairs:
        assert pair.left == pytest.approx(pair.left_random, abs=0.35)


@pytest.mark.parametrize("rotary", [0, 8])
def test_chance_behind_a_shared_map_is_that_of_its_rows(rotary):
    """Latent attention: 64 coordinates of 1024 reach the heads, and of those ``rotary`` reach all heads alike."""
    heads, rank, latent, dim = 12, 16, 64, 1024
    up = random(heads, rank + rotary, latent + rotary)
    up[:, rank:] = 0
    up[:, :rank, latent:] = 0
    up[:, rank:, latent:] = np.eye(rotary)
    up[:, rank:] *= np.sqrt(latent)  # as large as the others
    found = forms(random(heads, rank + rotary, dim), up, None, random(latent + rotary, dim, seed=1))
    pairs = overlaps(found, "QK", pairs_of_model=66, in_common=rotary)
    assert not any(pair.redundant for pair in pairs)
    for pair in pairs:
        assert pair.right > 0.15
        assert pair.left_random == pytest.approx(pair.left, abs=0.02)
        assert pair.right == pytest.approx(pair.right_random, abs=0.1 if rotary == 0 else 0.3)
        assert pair.right < pair.right_random + 0.1


def test_a_copied_head_is_found_and_comes_first():
    left, right = random(6, 8, 90), random(6, 8, 90, seed=1)
    mix = random(8, 8, seed=2)
    left[4], right[4] = mix @ left[1], np.linalg.inv(mix).T @ right[1]  # the same form in other coordinates
    first, *others = overlaps(forms(left, right), "QK", pairs_of_model=15)
    assert first.heads == (1, 4)
    assert first.redundant
    assert first.left == pytest.approx(1, abs=1e-4)
    assert first.right == pytest.approx(1, abs=1e-4)
    assert not any(pair.redundant for pair in others)


def test_a_copy_of_one_side_only_is_not_redundant():
    left, right = random(6, 8, 90), random(6, 8, 90, seed=1)
    left[4] = left[1]
    assert not any(pair.redundant for pair in overlaps(forms(left, right), "QK", pairs_of_model=15))


def test_heads_of_zeros_and_single_heads():
    left, right = random(3, 4, 20), random(3, 4, 20, seed=1)
    left[0] = 0
    pairs = {pair.heads: pair for pair in overlaps(forms(left, right), "QK", pairs_of_model=3)}
    assert (pairs[0, 1].left, pairs[0, 1].redundant) == (0.0, False)
    assert overlaps(forms(left[:1], right[:1]), "QK", pairs_of_model=1) == ()


@pytest.mark.parametrize("groups", [20, 5, 1])
def test_any_pairs_share_what_their_bases_say(groups):
    """Pairs are multiplied in rectangles of many heads; heads may have no dimension at all."""
    left, right = random(20, 6, 40), random(groups, 6, 40, seed=1)
    left[[0, 9]] = 0
    spaces = forms(left, right).right_spaces
    pairs = np.random.default_rng(0).permutation(np.argwhere(np.triu(np.ones((20, 20)), 1)))[:120]
    bases = [spaces.basis(head).double().numpy() for head in range(20)]
    expected = [np.square(bases[i].T @ bases[j]).sum() for i, j in pairs]
    assert spaces.shared(*pairs.T) == pytest.approx(expected, abs=1e-4)
    every = np.argwhere(np.triu(np.ones((20, 20)), 1))
    expected = [np.square(bases[i].T @ bases[j]).sum() for i, j in every]
    assert spaces.shared(*every.T) == pytest.approx(expected, abs=1e-4)
