"""Resume at any step: stopped at every k of a 30-step run, weights, optimiser, RNG and metrics are bit-equal to the
straight run's."""

import pytest

from rankwise.spec import plain
from rankwise.train.checkpoint import read_checkpoint
from rankwise.train.contract import Stopped
from rankwise.train.loop import Training, run_entry, train
from training_runs import Context, assert_same_state, finished, thirty_steps


@pytest.mark.parametrize(("optimizer", "stops"), [("muon", range(30)), ("adamw", (0, 1, 13, 28, 29))])
def test_stopped_at_every_step_and_resumed_a_run_ends_in_the_same_bits(tmp_path, optimizer, stops):
    """Muon's run has AdamW in it too, so it is the one stopped everywhere."""
    run = thirty_steps(optimizer)
    straight = finished(run)
    for k in stops:
        directory = tmp_path / str(k)
        directory.mkdir()
        with pytest.raises(Stopped):
            run_entry(plain(run), Context(directory, k))
        context = Context(directory)
        result = run_entry(plain(run), context)
        assert result == straight.result().to_json()
        resumed = Training(run)
        resumed.restore(read_checkpoint(directory, run.id))
        assert_same_state(resumed.state(), straight.state())
        assert context.reports[0]["step"] == k + 1  # it went on, it did not begin again


def test_interrupted_at_every_single_step_of_one_run(tmp_path):
    run = thirty_steps()
    stops = 0
    while True:
        try:
            result = run_entry(plain(run), Context(tmp_path, 1))
            break
        except Stopped:
            stops += 1
    assert stops == 29  # the last attempt ends with the run
    assert result == train(run).to_json()
