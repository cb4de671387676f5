"""What trained weights do, measured after training: models come back from the checkpoints that their runs left.

Nothing is added to a run for it: whatever a figure wants to know, models that are already trained can answer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rankwise.errors import StorageError
from rankwise.estimate import Estimate
from rankwise.sweep.trained import TrainedRun
from rankwise.tasks import NeighborTask
from rankwise.train import Training, read_checkpoint

_NUMBERS_AT_ONCE = 2**24


def trained_model(trained: TrainedRun) -> nn.Module:
    """The model of a finished run with its last weights."""
    run, path = trained.run, trained.weights
    state = None if path is None else read_checkpoint(path.parent, run.id)
    if state is None or state.step != trained.result["steps"]:
        where = "the store" if path is None else str(path)
        raise StorageError(
            f"{where}: expected the weights of run {run.id}, got none that are whole; "
            f"train it again in another store (--store)"
        )
    training = Training(run)
    training.restore(state)
    return training.model.eval()


@torch.no_grad()
def error_of(model: nn.Module, task: NeighborTask, examples: int, heads: int = 1, seed: int = 0) -> Estimate:
    """The error of ``model`` on ``examples`` fresh examples of a self-attention task, the same for every model.

    ``heads`` bounds how many examples are held at once: short sequences keep all scores of all heads.
    """
    generator = torch.Generator().manual_seed(seed)
    at_once = max(1, _NUMBERS_AT_ONCE // (heads * task.points * (task.points + task.dim)))
    errors: list[Tensor] = []
    for done in range(0, examples, at_once):
        batch = task.sample(min(at_once, examples - done), generator)
        errors.append(task.error(model(batch.points), batch).double())
    return Estimate.over(torch.cat(errors).tolist())
