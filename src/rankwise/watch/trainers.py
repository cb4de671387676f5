"""The watch inside ``transformers.Trainer`` and Lightning: thin adapters, imported where those are."""

from __future__ import annotations

from typing import Any

from rankwise.errors import MissingExtraError
from rankwise.watch.watch import Watch


def watch_trainer(trainer: Any, **options: Any) -> Watch:
    """Watch the model of a ``transformers.Trainer`` from now on; ``options`` are those of ``Watch``.

    Numbers go where the trainer's own go (``trainer.log``: TensorBoard, wandb, its history), unless a ``log`` is given.
    """
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise MissingExtraError("audit", "watching transformers.Trainer") from None
    watch = Watch(trainer.model, **{"log": lambda scalars, step: trainer.log(dict(scalars)), **options})

    class WatchCallback(TrainerCallback):  # type: ignore[misc]
        """Steps the watch after every optimiser step; the history stays when the training ends."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Count the step; every so many steps the heads are measured."""
            watch.step()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Remove the hooks."""
            watch.close()

    trainer.add_callback(WatchCallback())
    return watch


def lightning_callback(**options: Any) -> Any:
    """For ``lightning.Trainer(callbacks=[lightning_callback()])``; ``options`` are those of ``Watch``.

    Numbers go to the trainer's loggers unless a ``log`` is given. The watch is the callback's ``watch``.
    """
    try:
        from lightning.pytorch.callbacks import Callback  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingLightningError from None

    class WatchCallback(Callback):  # type: ignore[misc]
        """Steps the watch after every batch."""

        watch: Watch | None = None

        def on_train_start(self, trainer: Any, module: Any) -> None:
            """The model is known from here on."""

            def log(scalars: Any, step: int) -> None:
                for logger in trainer.loggers:
                    logger.log_metrics(dict(scalars), step=step)

            self.watch = Watch(module, **{"log": log, **options})

        def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
            """Count the step; every so many steps the heads are measured."""
            assert self.watch is not None
            self.watch.step()

        def on_train_end(self, trainer: Any, module: Any) -> None:
            """Remove the hooks; the history stays."""
            if self.watch is not None:
                self.watch.close()

    return WatchCallback()


class MissingLightningError(ImportError):
    """Lightning is a choice of the user's, not an extra of rankwise."""

    def __init__(self) -> None:
        super().__init__("watching Lightning needs it to be installed: pip install lightning")
