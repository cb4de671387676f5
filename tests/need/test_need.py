"""The need: about k for data of dimension k, the worst case for isotropic data, learning where the SVD falls short."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from rankwise.errors import InvalidInputError
from rankwise.need.curves import rank_grid, smallest_rank
from rankwise.need.document import NeedSource, read_need
from rankwise.need.forms import Form, balanced_form, intrinsic_dimension, moments, pca_form, random_form
from rankwise.need.isotropic import isotropic_error, isotropic_need
from rankwise.need.measurement import STAGES, NeedSettings, measure_need
from rankwise.need.report import need_report
from rankwise.need.retrieval import NestedRetrieval, Pool, draw_candidates, pair_scores, retrieve
from rankwise.need.training import Trainer

QUICK = NeedSettings(steps=0, questions=1500)


def gaussian(rows, dim, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


def embedded(rows, flat, dim, seed=0):
    """Isotropic vectors of ``flat`` dimensions, turned into R^dim."""
    turn = torch.linalg.qr(gaussian(dim, dim, seed + 1)).Q[:flat]
    return gaussian(rows, flat, seed) @ turn


@pytest.mark.parametrize(("flat", "dim"), [(2, 10), (4, 24), (12, 40)])
def test_data_of_dimension_k_need_about_k(flat, dim):
    found = measure_need(embedded(3000, flat, dim), settings=QUICK)
    assert isotropic_need(flat, 16, 0.1) - 1 <= found.need <= flat
    assert found.need_low <= found.need <= found.need_high <= flat
    assert found.participation_ratio.keys == pytest.approx(flat, rel=0.05)
    assert found.need_random > flat
    assert found.need_isotropic == isotropic_need(dim, 16, 0.1) > flat


@settings(max_examples=4)
@given(st.integers(2, 6), st.integers(0, 4), st.integers(0, 100))
def test_any_subspace_is_found_whole(flat, more, seed):
    found = measure_need(embedded(400, flat, flat + more + 1, seed), settings=replace(QUICK, target=0.02))
    assert found.need <= flat


def test_noise_off_the_subspace_is_not_needed():
    keys = embedded(3000, 6, 32) + 0.02 * gaussian(3000, 32, 9)
    assert 5 <= measure_need(keys, settings=QUICK).need <= 6


def test_isotropic_data_agree_with_the_theory():
    found = measure_need(gaussian(6000, 12), settings=NeedSettings(steps=40, questions=4000))
    assert found.need >= found.need_isotropic - 1
    isotropic = {point.rank: point for point in found.isotropic}
    for kind in ("best", "svd", "pca", "random"):
        for point in found.curves[kind]:
            worst = isotropic[point.rank]
            half = (point.error_high - point.error_low) / 2
            assert abs(point.error - worst.error) <= 2.5 * half + 4 * worst.standard_error, (kind, point.rank)
            assert point.error >= worst.bound


def test_two_keys_agree_with_the_closed_form():
    found = measure_need(gaussian(5000, 8), settings=replace(QUICK, candidates=2, questions=4000))
    for point in found.curves["pca"]:
        assert abs(point.error - isotropic_error(8, point.rank, 2).value) < 0.04


def test_training_beats_the_svd_on_clusters():
    centres = gaussian(30, 32, 3)
    which = torch.randint(30, (4000,), generator=torch.Generator().manual_seed(4))
    keys = normalize(centres[which] + 0.5 * gaussian(4000, 32, 5) * torch.logspace(0, -1.5, 32))
    training, validation, test = (Pool(part, part, own=True) for part in keys.split([2000, 1000, 1000]))
    asked, held_out = (draw_candidates(pool, 16, 2000, torch.Generator().manual_seed(1)) for pool in (validation, test))
    svd = balanced_form(moments(training.queries, training.keys))
    found, origin = Trainer(training, validation, asked, svd, candidates=16, steps=100, seed=0).best(4)
    assert origin == "trained"
    errors = [
        retrieve(held_out, test.queries @ form.left, test.keys @ form.right).error for form in (found, svd.first(4))
    ]
    assert errors[0] < 0.9 * errors[1]


def test_queries_that_ask_about_few_directions_lower_the_need():
    keys = gaussian(3000, 20)
    queries = gaussian(3000, 20, 1) * torch.tensor([1.0] * 3 + [1e-3] * 17)
    found = measure_need(keys, queries, settings=QUICK)
    assert found.need == 3
    assert found.need_pca > 10  # which does not know the queries
    assert not found.own_queries


def test_the_same_seed_gives_the_same_measurement():
    keys = gaussian(500, 6)
    first, second = (measure_need(keys, settings=replace(QUICK, steps=8)) for _ in range(2))
    assert first == second


def test_rotation_and_scale_change_nothing_that_matters():
    keys = embedded(1500, 5, 12) * torch.logspace(0, -0.5, 12)
    turned = 7 * keys @ torch.linalg.qr(gaussian(12, 12, 8)).Q
    plain, other = (measure_need(vectors, settings=QUICK) for vectors in (keys, turned))
    assert plain.need == other.need
    assert plain.participation_ratio.keys == pytest.approx(other.participation_ratio.keys, rel=1e-4)


def test_few_vectors_leave_fewer_candidates_and_say_so():
    found = measure_need(gaussian(30, 4), settings=QUICK)
    assert found.candidates == 5
    assert any("choose among 5 keys, not 16" in note for note in found.notes)
    with pytest.raises(InvalidInputError, match="candidates: expected at most 5"):
        measure_need(gaussian(30, 4), settings=replace(QUICK, candidates=16))


def test_dot_takes_lengths_into_account():
    keys = gaussian(2000, 8) * torch.exp(2 * gaussian(2000, 1, 6))
    errors = [
        measure_need(keys, settings=replace(QUICK, similarity=kind)).curves["svd"][2].error
        for kind in ("cosine", "dot")
    ]
    assert errors[0] != pytest.approx(errors[1], abs=0.01)


def test_a_need_of_equal_keys_is_read_back(tmp_path):
    report = need_report([measure_need(torch.ones(40, 4), settings=QUICK)], QUICK, NeedSource(kind="drawn"))
    assert report.most_demanding.participation_ratio.keys == 0
    report.write(tmp_path / "need.json")
    assert read_need(tmp_path / "need.json") == report


def test_equal_keys_count_as_one_answer():
    keys = torch.eye(4).repeat(50, 1)
    found = measure_need(keys, settings=QUICK)
    assert "196 of 200 keys repeat another one" in found.notes[0]
    assert measure_need(gaussian(200, 4), settings=QUICK).notes == ()
    assert (found.curves["best"][-1].form, found.curves["best"][-1].recall) == ("inner product", 1)


@pytest.mark.parametrize(
    ("keys", "queries", "message"),
    [
        (gaussian(1, 8), None, "at least 20 vectors"),
        (gaussian(100, 8), gaussian(100, 9), "dimension 8, got 9"),
        (gaussian(100, 8), gaussian(3, 8), "queries: expected at least 20"),
        (torch.zeros(100, 8), None, "got 100 of zeros"),
        (torch.cat([gaussian(50, 8), torch.zeros(2, 8)]), None, "got 2 of zeros; drop them or use --similarity dot"),
        (torch.full((100, 8), torch.nan), None, "finite"),
        (torch.full((100, 8), torch.inf), None, "finite"),
        (torch.ones(100, 8, dtype=torch.int64), None, "floating point"),
        (gaussian(100, 8)[0], None, "dim"),
        (gaussian(100, 1), None, "dim of at least 2"),
    ],
)
def test_what_cannot_be_measured_is_refused(keys, queries, message):
    with pytest.raises(ValueError, match=message):
        measure_need(keys, queries, settings=QUICK)


@pytest.mark.parametrize(
    "wrong", [{"target": 0}, {"target": 1.0}, {"candidates": 1}, {"similarity": "l2"}, {"heads": 0}, {"steps": -1}]
)
def test_settings_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        NeedSettings(**wrong)


def test_huge_and_tiny_lengths_are_directions_all_the_same():
    keys = embedded(600, 3, 6)
    same = measure_need(keys, settings=QUICK)
    for scale in (1e30, 1e-38):
        found = measure_need(keys.double() * scale, settings=QUICK)
        assert found.need == same.need


def test_the_svd_form_is_the_best_for_scores():
    """No rank-2 form among many perturbed ones keeps score differences better; full rank keeps them exactly."""
    queries, keys = gaussian(800, 5) * torch.logspace(0, -1, 5), gaussian(800, 5, 1) @ gaussian(5, 5, 2)
    form = balanced_form(moments(queries, keys))

    def loss(left, right):
        apart = keys - keys.mean(0)
        return float(((queries @ apart.mT - queries @ left @ (apart @ right).mT) ** 2).mean())

    assert loss(form.left, form.right) < 1e-8
    best = loss(form.first(2).left, form.first(2).right)
    assert best < loss(*[pca_form(moments(queries, keys)).first(2).left] * 2)
    for seed in range(20):
        noise = 0.03 * gaussian(5, 4, seed)
        assert best < loss(form.first(2).left + noise[:, :2], form.first(2).right + noise[:, 2:])


def test_candidate_sets_hold_different_keys_and_never_the_query():
    vectors = gaussian(40, 3)
    asked = draw_candidates(Pool(vectors, vectors, own=True), 39, 200, torch.Generator().manual_seed(0))
    for query, sets in zip(asked.asked.tolist(), asked.members, strict=True):
        for members in sets:
            assert sorted({*members.tolist(), query}) == list(range(40))
    exact = retrieve(asked, vectors, vectors)
    assert exact.error == 0
    assert bool((exact.found == 1).all())


def test_a_random_key_has_error_one():
    vectors = gaussian(3000, 10)
    asked = draw_candidates(Pool(vectors, vectors, own=True), 8, 6000, torch.Generator().manual_seed(0))
    found = retrieve(asked, gaussian(3000, 10, 1), gaussian(3000, 10, 2))
    assert found.error == pytest.approx(1, abs=0.03)
    assert float(found.found.mean()) == pytest.approx(1 / 8, abs=0.02)


def test_intrinsic_dimension_ignores_the_mean():
    assert intrinsic_dimension(gaussian(20_000, 6) + 100) == pytest.approx(6, rel=0.01)


@pytest.mark.parametrize("candidates", [16, 300])
def test_distances_that_are_too_many_to_keep_are_found_again(candidates, monkeypatch):
    vectors = gaussian(2000, 6)
    pool = Pool(vectors, vectors, own=True)
    questions = draw_candidates(pool, candidates, 100, torch.Generator().manual_seed(1))

    def trainer():
        return Trainer(pool, pool, questions, Form(torch.eye(6), torch.eye(6)), candidates, steps=8, seed=0)

    kept, again = trainer(), trainer()
    forms = kept._snapshots(3)
    assert kept._kept is not None
    monkeypatch.setattr("rankwise.need.training._KEPT_DISTANCES", 0)
    found = again._snapshots(3)
    assert again._kept is None
    for one, other in zip(forms, found, strict=True):
        if candidates <= 256:
            assert torch.equal(one.left, other.left)
        torch.testing.assert_close(one.left, other.left, rtol=1e-3, atol=1e-4)


def test_rank_grid_and_bisection():
    assert rank_grid(50) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 50]
    assert rank_grid(2) == [1, 2]
    for threshold in range(1, 21):
        assert smallest_rank(lambda rank, least=threshold: 1.0 if rank < least else 0.0, 20, 0.5) == threshold


def test_scores_that_grow_by_ranks_equal_those_of_each_rank_alone():
    vectors = gaussian(300, 12)
    pool = Pool(vectors, vectors, own=True)
    asked = draw_candidates(pool, 5, 1000, torch.Generator().manual_seed(0))
    growing = NestedRetrieval(asked, vectors, vectors)
    for rank in (7, 2, 12, 3, 7):
        alone = retrieve(asked, vectors[:, :rank], vectors[:, :rank])
        assert growing.at(rank).error == pytest.approx(alone.error, abs=1e-6)


@pytest.mark.parametrize("keys", [40, 4000])
def test_pair_scores_looked_up_or_computed_together_are_the_products(keys):
    queries, vectors = gaussian(50, 6), gaussian(keys, 6, 1)
    asked, members = torch.arange(50).repeat(2), torch.randint(keys, (100, 3))
    expected = (vectors[members] * queries[asked].unsqueeze(1)).sum(-1)
    torch.testing.assert_close(pair_scores(queries, vectors, asked, members), expected)


def test_an_offset_far_beyond_the_spread_changes_no_answer():
    keys = embedded(3000, 5, 16).double()
    far = keys + 1e4
    dot = replace(QUICK, similarity="dot")
    assert measure_need(far, keys, settings=dot).need == measure_need(keys, keys, settings=dot).need
    # directions around an offset differ in 5 dimensions, and along it by their squared distance
    assert measure_need(far, settings=QUICK).need <= 6


def clusters(rows):
    """Vectors whose cluster decides who is near: the SVD weighs directions that do not tell clusters apart."""
    which = torch.randint(30, (rows,), generator=torch.Generator().manual_seed(4))
    return gaussian(30, 32, 3)[which] + 0.5 * gaussian(rows, 32, 5) * torch.logspace(0, -1.5, 32)


@pytest.mark.parametrize(("keys", "trainings"), [(embedded(2000, 5, 12), 1), (clusters(4000), 2)])
def test_forms_are_trained_only_where_that_could_lower_the_need(monkeypatch, keys, trainings):
    trained_at = []
    snapshots = Trainer._snapshots
    monkeypatch.setattr(Trainer, "_snapshots", lambda self, rank: trained_at.append(rank) or snapshots(self, rank))
    found = measure_need(keys, settings=NeedSettings(steps=60, questions=2000))
    assert trained_at[0] == found.need_svd - 1
    assert (len(trained_at) == 1) if trainings == 1 else (len(trained_at) >= trainings)
    assert len(set(trained_at)) == len(trained_at)
    assert found.need <= found.need_svd
    assert max(trained_at) < found.need_svd


def test_progress_counts_to_its_total():
    told = []
    measure_need(gaussian(200, 4), settings=QUICK, progress=lambda *said: told.append(said))
    assert [done for _, done, _ in told] == list(range(1, STAGES + 1))
    assert {total for *_, total in told} == {STAGES}


def test_coordinates_that_no_vector_has_cost_nothing_and_change_nothing():
    """Twenty vectors of 8192 numbers: forms are found among the vectors, not in matrices of 8192 x 8192."""
    keys = torch.randn(20, 12, generator=torch.Generator().manual_seed(0))
    settings = NeedSettings(steps=0)
    narrow = measure_need(keys, settings=settings)
    wide = measure_need(torch.cat([keys, torch.zeros(20, 8180)], dim=1), settings=settings)
    for rank in (1, 2, 3, 4, 6):
        (ours,), (theirs,) = ([point for point in one.curves["svd"] if point.rank == rank] for one in (wide, narrow))
        assert ours.error == pytest.approx(theirs.error, abs=1e-6)
    assert wide.participation_ratio.keys == pytest.approx(narrow.participation_ratio.keys, rel=1e-6)


def test_a_random_form_of_few_vectors_keeps_all_of_them_in_full():
    vectors = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    form = random_form(vectors, torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        vectors @ form.left @ form.right.mT @ vectors.mT, vectors @ vectors.mT, rtol=1e-4, atol=1e-4
    )
    shares = (vectors @ form.first(10).left).square().sum(1) / vectors.square().sum(1)
    assert 0.05 < float(shares.mean()) < 0.5  # about a quarter
