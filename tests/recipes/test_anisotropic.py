import numpy as np
import pytest

from rankwise.errors import InvalidInputError
from rankwise.recipes import anisotropic
from rankwise.recipes.anisotropic import PRESETS, describe_data, draw, lines_of, needed_rank, reading
from rankwise.spec import TaskSpec
from recipe_rows import rows_of


@pytest.fixture
def file(tmp_path):
    """Five hundred vectors in ten dimensions, of which three matter."""
    scale = np.array([1.0, 1.0, 1.0] + [0.01] * 7)
    np.save(tmp_path / "words.npy", np.random.default_rng(0).standard_normal((500, 10)) * scale)
    return tmp_path / "words.npy"


@pytest.mark.parametrize("preset", list(PRESETS))
def test_the_grid(preset, file):
    settings = PRESETS[preset]
    runs = list(anisotropic.sweep(preset).expand())
    ranks = [round(share * settings.dim) for share in settings.shares]
    assert [(run.task.alpha, run.model.rank) for run in runs] == [(a, r) for a in settings.alphas for r in ranks]
    assert {(run.model.layers, run.model.heads) for run in runs} == {(1, 4)}
    more = list(anisotropic.sweep(preset, vectors=file).expand())
    assert [run.id for run in more[: len(runs)]] == [run.id for run in runs]
    assert {(run.task.distribution, run.model.dim) for run in more[len(runs) :]} == {("rows", 10)}
    assert {run.model.rank for run in more[len(runs) :]} <= set(range(1, 11))


def test_a_moved_file_is_the_same_runs_a_changed_one_is_not(file, tmp_path):
    def ids(path):
        return [run.id for run in anisotropic.sweep("smoke", vectors=path).expand()]

    other = tmp_path / "elsewhere.npy"
    other.write_bytes(file.read_bytes())
    assert ids(other) == ids(file)
    np.save(other, np.load(file) + 1e-3)
    assert ids(other) != ids(file)


def test_a_file_that_cannot_be_drawn_from_is_refused_before_training(tmp_path):
    np.save(tmp_path / "zero.npy", np.eye(5)[[0, 1, 2, 3, 3]] * np.array([[1], [1], [1], [1], [0]]))
    with pytest.raises(InvalidInputError, match="1 zero rows"):
        anisotropic.sweep("smoke", vectors=tmp_path / "zero.npy")


def test_the_data_is_described_by_its_covariance(file):
    uniform = describe_data(TaskSpec(name="farthest", dim=16, points=8))
    assert (uniform["data"], uniform["effective_dim"]) == ("alpha = 0", pytest.approx(16, rel=0.01))
    falling = describe_data(TaskSpec(name="farthest", dim=16, points=8, distribution="power_law", alpha=1.0))
    assert 1 < falling["effective_dim"] < 12
    assert falling["linear_error"] < uniform["linear_error"]
    run = next(run for run in anisotropic.sweep("smoke", vectors=file).expand() if run.task.distribution == "rows")
    words = describe_data(run.task)
    assert (words["data"], words["effective_dim"]) == ("words", pytest.approx(3, abs=0.2))


def fixed(needs_share_of_effective):
    """Errors that fall linearly to 0 at twice the needed rank, which is a share of d_eff or of d."""
    effective = {0.0: 32.0, 0.5: 24.0, 1.0: 16.0, 2.0: 8.0}

    def error(run):
        whole = effective[run.task.alpha] if needs_share_of_effective else 32.0
        return max(0.001, 0.8 * (1 - run.model.rank / whole))

    def extra(run):
        return {
            "data": f"alpha = {run.task.alpha:g}",
            "effective_dim": effective[run.task.alpha],
            "linear_error": 0.8,
        }

    return lines_of(rows_of("anisotropic", anisotropic.sweep("laptop"), error, extra))


def test_the_needed_rank_is_found_between_ranks_and_what_it_follows_is_said():
    by_effective, by_dim = fixed(True), fixed(False)
    assert list(by_effective) == ["alpha = 0", "alpha = 0.5", "alpha = 1", "alpha = 2"]
    assert needed_rank(by_effective["alpha = 0"]) == pytest.approx(16)
    assert needed_rank(by_effective["alpha = 2"]) == pytest.approx(4)
    assert needed_rank(by_effective["alpha = 0.5"]) == pytest.approx(12)
    assert needed_rank(by_effective["alpha = 0"], level=2.0) is None
    assert reading(by_effective).endswith(
        "rank / d varies by a factor 4 and rank / d_eff by 1: by this measure the need follows d_eff more closely."
    )
    assert "the need follows d more closely" in reading(by_dim)
    low = {rank: mean for rank, mean in by_effective["alpha = 2"].items() if rank >= 8}
    high = {rank: mean for rank, mean in by_effective["alpha = 0"].items() if rank <= 8}
    assert "alpha = 2 (d_eff = 8): rank 8 has less than half the linear error already." in reading({"alpha = 2": low})
    assert "alpha = 0 (d_eff = 32): no rank up to 8 reaches half the linear error." in reading({"alpha = 0": high})


def test_the_picture_shows_both_axes():
    against_d, against_effective = draw(fixed(True), "title").axes
    assert against_d.get_xlabel() == "rank / d"
    assert len(against_effective.containers) == 4
    assert [label.get_text() for label in against_d.get_xticklabels()] == ["1/16", "1/8", "1/4", "1/2", "1"]


def test_seeds_of_one_kind_of_data_are_averaged_though_their_covariance_was_rounded_elsewhere():
    def extra(run):
        return {"data": "words", "effective_dim": 3.0 - 1e-15 * run.seed, "linear_error": 0.5}

    rows = rows_of("anisotropic", anisotropic.sweep("smoke", seeds=3), lambda run: 0.1 + 0.4 * run.seed, extra)
    (line,) = lines_of(rows).values()
    assert {(round(mean.error, 12), mean.seeds % 3) for mean in line.values()} == {(0.5, 0)}
