"""A model as a user has it: a path, a name on the hub, or a module in memory; and what it is run on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import InvalidInputError, ShapeError

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from rankwise.models import Pieces, RunningModel


def in_memory(model: object) -> bool:
    """Whether ``model`` is a module and not the path or name of one."""
    if isinstance(model, str | Path):
        return False
    if hasattr(model, "state_dict"):
        return True
    raise InvalidInputError(f"model: expected a path, a name on the hub or a torch module, got {type(model).__name__}")


def running(model: nn.Module | str | Path, tokenizer: Any, *, download: bool = False) -> RunningModel:
    """The model ready to be run and watched; of a module in memory a copy, so that it stays as it is."""
    from rankwise.models import load_running, local_model, running_copy

    if in_memory(model):
        return running_copy(model, tokenizer=tokenizer)
    return load_running(local_model(model, download=download))  # type: ignore[arg-type]


def pieces_of(
    model: RunningModel,
    text: str | Path | Sequence[str | Path] | None,
    tokens: Tensor | str | Path | None,
    *,
    length: int | None,
    limit: int,
) -> Pieces:
    """Token ids [pieces, length], and where they come from."""
    from rankwise.cli.reading_texts import read_pieces
    from rankwise.models import Pieces

    if tokens is not None and not isinstance(tokens, str | Path):
        if text is not None:
            raise InvalidInputError("expected one of text, records and tokens, got several")
        given = _checked_ids(tokens, model.vocabulary)
        return Pieces(tokens=given[:limit], sources=("tokens in memory",), used=min(1.0, limit / len(given)))
    files = () if text is None else (text,) if isinstance(text, str | Path) else tuple(text)
    ids = None if tokens is None else Path(tokens)
    return read_pieces(model, tuple(Path(file) for file in files), ids, length=length, limit=limit)


def _checked_ids(tokens: torch.Tensor, vocabulary: int) -> torch.Tensor:
    import torch

    ids = torch.as_tensor(tokens)
    if ids.ndim != 2 or ids.is_floating_point() or ids.shape[1] < 2:
        raise ShapeError(f"tokens: expected ids [texts, tokens >= 2], got {ids.dtype} {list(ids.shape)}")
    if int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        raise InvalidInputError(
            f"tokens: expected ids from 0 to {vocabulary - 1}, the model's vocabulary, got {int(ids.min())} to "
            f"{int(ids.max())}"
        )
    return ids.long()
