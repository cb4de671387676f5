import numpy as np
import pytest

from rankwise.errors import InvalidInputError
from rankwise.recipes.anisotropic import FIGURE, describe_data
from rankwise.spec import NeighborSpec
from recipe_rows import points_from


@pytest.fixture
def file(tmp_path):
    """Five hundred vectors in ten dimensions, of which three matter."""
    scale = np.array([1.0, 1.0, 1.0] + [0.01] * 7)
    np.save(tmp_path / "words.npy", np.random.default_rng(0).standard_normal((500, 10)) * scale)
    return tmp_path / "words.npy"


@pytest.mark.parametrize("preset", list(FIGURE.presets))
def test_the_grid(preset, file):
    settings = FIGURE.presets[preset]
    runs = list(FIGURE.sweep(preset, seeds=1).expand())
    ranks = [round(share * settings.dim) for share in settings.shares]
    assert [(run.task.alpha, run.model.rank) for run in runs] == [(a, r) for a in settings.alphas for r in ranks]
    assert {(run.model.layers, run.model.heads) for run in runs} == {(1, 4)}
    more = list(FIGURE.sweep(preset, seeds=1, vectors=file).expand())
    assert [run.id for run in more[: len(runs)]] == [run.id for run in runs]
    assert {(run.task.distribution, run.model.dim) for run in more[len(runs) :]} == {("rows", 10)}
    assert {run.model.rank for run in more[len(runs) :]} <= set(range(1, 11))


def test_a_moved_file_is_the_same_runs_a_changed_one_is_not(file, tmp_path):
    def ids(path):
        return [run.id for run in FIGURE.sweep("smoke", vectors=path).expand()]

    other = tmp_path / "elsewhere.npy"
    other.write_bytes(file.read_bytes())
    assert ids(other) == ids(file)
    np.save(other, np.load(file) + 1e-3)
    assert ids(other) != ids(file)


def test_a_file_that_cannot_be_drawn_from_is_refused_before_training(tmp_path):
    np.save(tmp_path / "zero.npy", np.eye(5)[[0, 1, 2, 3, 3]] * np.array([[1], [1], [1], [1], [0]]))
    with pytest.raises(InvalidInputError, match="1 zero rows"):
        FIGURE.sweep("smoke", vectors=tmp_path / "zero.npy")


def test_the_data_is_described_by_its_covariance(file):
    uniform, linear = describe_data(NeighborSpec(name="farthest", dim=16, points=8))
    assert uniform == pytest.approx(16, rel=0.01)
    falling, easier = describe_data(
        NeighborSpec(name="farthest", dim=16, points=8, distribution="power_law", alpha=1.0)
    )
    assert 1 < falling < 12
    assert easier < linear
    run = next(run for run in FIGURE.sweep("smoke", vectors=file).expand() if run.task.distribution == "rows")
    assert FIGURE.columns(run) == {"data": "words"}
    assert describe_data(run.task)[0] == pytest.approx(3, abs=0.2)


EFFECTIVE = {0.0: 32.0, 0.5: 24.0, 1.0: 16.0, 2.0: 8.0}


def fixed(*, follows_effective, **options):
    """Errors that fall linearly to 0 at twice the needed rank, which is a share of d_eff or of d."""

    def measured(run):
        whole = EFFECTIVE[run.task.alpha] if follows_effective else 32.0
        relative = max(0.001, 1 - run.model.rank / whole)
        return {"effective_dim": EFFECTIVE[run.task.alpha] - 1e-15 * run.seed, "of_linear": relative}

    return points_from(FIGURE, "laptop", lambda run: 0.5, measured, **options)


def test_what_the_needed_rank_follows_is_said():
    lines = FIGURE.reading(FIGURE.presets["laptop"], fixed(follows_effective=True))
    assert lines[0] == "alpha = 0: rank 16 has half the linear error, 0.50 of the participation ratio."
    assert lines[-1].endswith(
        "rank / participation ratio by 1: by this measure the need follows the participation ratio more closely."
    )
    assert "follows d more" in FIGURE.reading(FIGURE.presets["laptop"], fixed(follows_effective=False))[-1]
    low = fixed(follows_effective=True, only=("rank=2,4",))
    assert "half the linear error is not crossed" in FIGURE.reading(FIGURE.presets["laptop"], low)[0]


def test_the_picture_shows_both_axes():
    against_d, against_effective = FIGURE.picture(FIGURE.presets["laptop"], fixed(follows_effective=True)).draw().axes
    assert against_d.get_xlabel() == "rank / d"
    _, labels = against_effective.get_legend_handles_labels()
    assert labels[0] == "alpha = 0, $d_{eff}$ = 32"
    assert len(labels) == 4
    assert [label.get_text() for label in against_d.get_xticklabels()] == ["1/16", "1/8", "1/4", "1/2", "1"]
