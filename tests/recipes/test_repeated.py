import pytest

from rankwise.recipes import repeated
from rankwise.recipes.repeated import PRESETS, draw, points_of, reading
from recipe_rows import trained


@pytest.mark.parametrize("preset", list(PRESETS))
def test_runs_differ_in_how_many_sequences_are_different_and_in_nothing_else(preset):
    settings = PRESETS[preset]
    for layers in settings.layers:
        own = [run for run in repeated.sweep(preset).expand() if run.model.layers == layers]
        authors = [run for run in own if run.protocol == "paper"]
        assert [run.optim.examples for run in authors] == [*settings.different, None]
        assert len({run.model for run in authors}) == 1
        assert {run.optim.steps * run.optim.batch for run in own} == {settings.sequences}
        for run in authors:
            passes, rest = divmod(run.optim.epoch_steps * run.optim.batch, run.optim.examples or 1)
            assert (passes >= 1, rest) == (True, 0), "an epoch's mean error is one over all of the sequences"


@pytest.mark.parametrize("layers", [1, 3])
def test_the_laptop_size_has_as_many_parameters_a_target_as_the_paper(layers):
    def of(preset, different):
        runs = repeated.sweep(preset).expand()
        (run,) = (run for run in runs if (run.model.layers, run.optim.examples) == (layers, different))
        return run.parameters() / (different * run.task.points)

    assert of("laptop", 3072) == pytest.approx(of("paper", 25_600), rel=0.1)


def measured(run):
    if run.protocol == "capacity":
        return trained(run, 0.3, train_min=0.3)
    known = 0.5 if run.optim.examples is None else run.optim.examples / 100_000
    return trained(run, 0.5 if run.optim.examples is None else 0.6, train_min=known)


def test_reading_and_picture_from_fixed_numbers():
    points = points_of(repeated.rows([measured(run) for run in repeated.sweep("laptop").expand()]))
    assert len(points) == 10
    one, three = reading(points).split("\n")
    assert one.startswith("1 layer: 768 sequences 1,024 times: 0.00768 on them, 0.6 on new ones; 3,072 sequences 256")
    assert three.endswith("fresh sequences: 0.5; fresh sequences, capacity: 0.3.")
    left, _ = draw(points, {"zero": 1.0}, "title").axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["768", "3,072", "12,288", "all fresh"]
    new, known, best = (container.lines[0] for container in left.containers)
    assert list(known.get_ydata()) == [0.00768, 0.03072, 0.12288]
    assert list(new.get_ydata()) == [0.6, 0.6, 0.6, 0.5]
    assert list(best.get_ydata()) == [0.3]
    of_known = left.containers[1].lines[2][0].get_segments()
    assert [upper[1] - lower[1] for lower, upper in of_known] == [0.0] * 3, "one seed: no bar of the held-out error"


def test_sequences_that_come_again_are_never_called_fresh():
    """A store that is still being trained may lack the runs on fresh sequences."""
    again = [run for run in repeated.sweep("smoke").expand() if run.optim.examples is not None]
    (axes,) = draw(points_of(repeated.rows([measured(run) for run in again])), {"zero": 1.0}, "title").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["256"]
