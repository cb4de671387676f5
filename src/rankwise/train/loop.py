"""One run, pure: spec in, result out; and the same as a worker runs it, with checkpoints."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from rankwise.spec import RunSpec, derived_seed, from_plain
from rankwise.tasks import Batch, TokenBatch, build_task
from rankwise.train.build import DTYPES, build_model
from rankwise.train.checkpoint import State, find_checkpoint, write_checkpoint
from rankwise.train.contract import Diverged, Stopped, WorkerContext
from rankwise.train.device import device_name, pick_device
from rankwise.train.memory import keep_freed_memory
from rankwise.train.optimizers import build_optimizers, set_lr
from rankwise.train.probe import Snapshot, attention_table, probe_steps, snapshot
from rankwise.train.result import RunResult, TrainingCurve
from rankwise.train.schedule import lr_factor

CHECKPOINT_EVERY = 30.0
"""Seconds: what a killed worker loses at most."""

_EXPLODED = 1e6
"""A loss this many times the first one has left for good, even where normalisation keeps it finite."""


def train(run: RunSpec) -> RunResult:
    """Train ``run`` from beginning to end. Raises ``Diverged``."""
    training = Training(run)
    while not training.done:
        training.advance()
    return training.result()


def run_entry(spec: Mapping[str, Any], context: WorkerContext) -> dict[str, Any]:
    """``train`` for a worker: continues from the checkpoint there is, and keeps the promises of ``train.contract``.

    The last checkpoint stays: it holds the trained weights.
    """
    keep_freed_memory()
    run = from_plain(RunSpec, spec)
    training = Training(run)
    saved = find_checkpoint(context.checkpoint_dir, run.id)
    if saved is not None:
        training.restore(saved.state)
        # A kill between the file and the note of it leaves a row that names no checkpoint, or one that is gone.
        context.checkpointed(saved.path, saved.sha256, training.step)
        context.continued(saved.state.values["seconds"])
    next_checkpoint = time.monotonic() + CHECKPOINT_EVERY
    while not training.done:
        stop = context.should_stop()
        if stop or time.monotonic() >= next_checkpoint:
            _write(training, context)
            next_checkpoint = time.monotonic() + CHECKPOINT_EVERY
        if stop:
            raise Stopped
        training.advance()
        context.report(training.progress())
    if saved is None or saved.state.step < training.step:
        _write(training, context)
    return training.result().to_json()


def _write(training: Training, context: WorkerContext) -> None:
    path, sha256 = write_checkpoint(context.checkpoint_dir, training.state())
    context.checkpointed(path, sha256, training.step)


class Training:
    """A run at some step. ``advance`` makes the next one; ``state`` and ``restore`` are exact to the last bit."""

    def __init__(self, run: RunSpec) -> None:
        self.run = run
        self.step = 0
        self.stopped_early = False
        self._began = time.monotonic()
        self._seconds_before = 0.0
        self._device = pick_device(run.device)
        self._dtype = DTYPES[run.dtype]
        self._task = build_task(run.task)
        self.model = build_model(run, self._device)
        self._parameters = list(self.model.parameters())
        self._optimizers = build_optimizers(self.model, run.optim)
        self._data = torch.Generator().manual_seed(derived_seed(run.id, "data"))
        held_out = torch.Generator().manual_seed(derived_seed(run.id, "validation"))
        # Narrower numbers are rounded from float32, so that every dtype sees the same examples.
        self._drawn_in = self._dtype if self._dtype == torch.float64 else torch.float32
        sizes = (run.optim.validation_batches, run.optim.validation_batch)
        drawn = self._task.held_out(*sizes, held_out, dtype=self._drawn_in)
        self._held_out = [batch.to(self._device, self._dtype) for batch in drawn]
        self._curve: dict[str, list[Any]] = {"steps": [], "train": [], "validation": [], "validation_se": []}
        self._epoch_loss = 0.0
        self._train_min: float | None = None
        self._first_loss: float | None = None
        self._best = math.inf
        self._waited = 0
        self._probe_steps = probe_steps(run.optim.steps)
        self._probed: list[int] = []
        self._snapshots: list[Snapshot] = []
        self._probe()

    @property
    def done(self) -> bool:
        """All steps made, or no improvement for ``patience`` epochs."""
        return self.stopped_early or self.step >= self.run.optim.steps

    def advance(self) -> None:
        """One optimiser step on the next batch, and the validation when an epoch ends with it."""
        optim = self.run.optim
        if optim.examples is not None and self.step * optim.batch % optim.examples == 0:
            self._data.manual_seed(derived_seed(self.run.id, "data"))
        batch = self._task.training_batch(optim.batch, self._data, step=self.step, dtype=self._drawn_in)
        loss = self._accumulate_gradients(batch.to(self._device, self._dtype))
        norm = self._gradient_norm()
        self._require_sane(loss, norm)
        if optim.clip is not None:
            clip_grads_with_norm_(self._parameters, optim.clip, norm)
        set_lr(self._optimizers, optim.lr * lr_factor(optim, self.step))
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        self._epoch_loss += loss
        if self.step % optim.epoch_steps == 0 or self.step == optim.steps:
            self._close_epoch()
        if self.done or self.step in self._probe_steps:
            self._probe()

    def validate(self) -> tuple[float, float]:
        """Mean error on the held-out examples, and the standard error of that mean."""
        with torch.no_grad():
            predicted = [self._task.error(self.model(*batch.inputs), batch).double() for batch in self._held_out]
        errors = torch.cat(predicted)
        return float(errors.mean()), float(errors.std()) / math.sqrt(len(errors)) if len(errors) > 1 else 0.0

    def details(self) -> dict[str, Any]:
        """The task's further numbers on the held-out examples: means, and standard errors under ``NAME_se``."""
        found: list[dict[str, Tensor]] = []
        with torch.no_grad():
            for batch in self._held_out:
                one = self._task.details(self.model(*batch.inputs), batch)
                if not one:  # nothing to tell of any batch: do not run the model over the others
                    return {}
                found.append(one)
        table: dict[str, Any] = {}
        for name in found[0]:
            values = torch.cat([one[name].double() for one in found])
            table[name] = values.mean(dim=0).tolist()
            if len(values) > 1:
                table[f"{name}_se"] = (values.std(dim=0) / math.sqrt(len(values))).tolist()
        return table

    def progress(self) -> dict[str, Any]:
        """What a person who waits wants to know."""
        validated = self._curve["validation"]
        error = {"error": validated[-1]} if validated else {}
        return {"step": self.step, "of": self.run.optim.steps, **error}

    def result(self) -> RunResult:
        """The outcome of a run that is done."""
        assert self.done
        assert self._train_min is not None
        curve = {name: tuple(self._curve[name]) for name in ("steps", "train", "validation")}
        return RunResult(
            error=self._curve["validation"][-1],
            error_se=self._curve["validation_se"][-1],
            train_min=self._train_min,
            steps=self.step,
            sequences=self.step * self.run.optim.batch,
            parameters=self.run.parameters(),
            stopped_early=self.stopped_early,
            curve=TrainingCurve(**curve),
            versions=_versions(),
            threads=torch.get_num_threads(),
            device=device_name(self._device),
            seconds=self._seconds(),
            details=self.details(),
            attention=attention_table(self.run.task.tokens, self._probed, self._snapshots) if self._probed else None,
        )

    def state(self) -> State:
        """Weights, optimisers, generator, metrics: all that the next step depends on."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for index, optimizer in enumerate(self._optimizers):
            for parameter, entries in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{index}.{parameter}.{key}": value for key, value in entries.items()}
        tensors["generator.data"] = self._data.get_state()
        values = {
            "curve": {name: list(entries) for name, entries in self._curve.items()},
            "epoch_loss": self._epoch_loss,
            "train_min": self._train_min,
            "first_loss": self._first_loss,
            "best": None if self._best == math.inf else self._best,
            "waited": self._waited,
            "stopped_early": self.stopped_early,
            "seconds": self._seconds(),
        }
        if self._probed:
            values |= {"probed": list(self._probed), "snapshots": list(self._snapshots)}
        return State(run_id=self.run.id, step=self.step, tensors=tensors, values=values)

    def restore(self, state: State) -> None:
        """Go on from ``state``."""
        self.model.load_state_dict(_under("model.", state.tensors))
        for index, optimizer in enumerate(self._optimizers):
            entries: dict[int, dict[str, Tensor]] = {}
            for name, tensor in _under(f"optimizer.{index}.", state.tensors).items():
                parameter, _, key = name.partition(".")
                entries.setdefault(int(parameter), {})[key] = tensor
            optimizer.load_state_dict(optimizer.state_dict() | {"state": entries})
        self._data.set_state(state.tensors["generator.data"])
        values = state.values
        self.step = state.step
        self._curve = {name: list(values["curve"][name]) for name in self._curve}
        self._epoch_loss = values["epoch_loss"]
        self._train_min = values["train_min"]
        self._first_loss = values["first_loss"]
        self._best = math.inf if values["best"] is None else values["best"]
        self._waited = values["waited"]
        self.stopped_early = values["stopped_early"]
        self._probed, self._snapshots = list(values.get("probed", ())), list(values.get("snapshots", ()))
        self._seconds_before, self._began = values["seconds"], time.monotonic()

    def _probe(self) -> None:
        if self.run.probe is not None and self.step not in self._probed:
            self._probed.append(self.step)
            self._snapshots.append(snapshot(self.model, self._held_out[0].part(slice(self.run.probe))))

    def _accumulate_gradients(self, batch: Batch | TokenBatch) -> float:
        """Leave the gradient of the batch's mean loss in the parameters; the mean loss itself."""
        total = 0.0
        for piece in _pieces(batch, self.run.optim.micro_batch or len(batch)):
            errors = self._task.loss(self.model(*piece.inputs), piece)
            loss = errors.mean() * (len(piece) / len(batch))
            loss.backward()
            total += loss.item()
        return total

    def _gradient_norm(self) -> Tensor:
        return get_total_norm([p.grad for p in self._parameters if p.grad is not None])

    def _require_sane(self, loss: float, norm: Tensor) -> None:
        if not math.isfinite(loss):
            raise Diverged(self.step, f"the loss is {loss}")
        if not math.isfinite(norm.item()):
            raise Diverged(self.step, f"the norm of the gradient is {norm.item()}")
        if self._first_loss is None:
            self._first_loss = loss
        elif loss > _EXPLODED * self._first_loss:
            raise Diverged(self.step, f"the loss is {loss:.3g}, it began at {self._first_loss:.3g}")

    def _close_epoch(self) -> None:
        optim = self.run.optim
        error, standard_error = self.validate()
        if not math.isfinite(error):
            raise Diverged(self.step, f"the validation error is {error}")
        steps = self.step % optim.epoch_steps or optim.epoch_steps
        train = self._epoch_loss / steps
        # A cut-off last epoch has the noise of few batches, of which a minimum would take the luckiest.
        if self._train_min is None or (steps == optim.epoch_steps and train < self._train_min):
            self._train_min = train
        entry = {"steps": self.step, "train": train, "validation": error, "validation_se": standard_error}
        for name, value in entry.items():
            self._curve[name].append(value)
        self._epoch_loss = 0.0
        if error < self._best:
            self._best, self._waited = error, 0
        else:
            self._waited += 1
        self.stopped_early = optim.patience is not None and self._waited >= optim.patience and self.step < optim.steps

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._began


def _pieces(batch: Batch | TokenBatch, size: int) -> Iterator[Batch | TokenBatch]:
    for start in range(0, len(batch), size):
        yield batch.part(slice(start, start + size))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "torch": torch.__version__}
    try:
        return found | {"rankwise": version("rankwise")}
    except PackageNotFoundError:  # run from a source tree
        return found
