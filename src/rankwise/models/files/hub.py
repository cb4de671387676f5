"""A model by its name on the Hugging Face hub: fetched only when asked for, and never anything that could be executed.

The hub's own client does it, and keeps what it fetched: the same name again needs no network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rankwise.errors import InvalidInputError, MissingExtraError

_SCHEME = re.compile(r"hf:/{1,2}")  # a Path makes one slash of two
_NAME = re.compile(
    r"(?P<model>[\w.-]+(/[\w.-]+)?)(@(?P<revision>[\w./-]+?))?(/(?P<file>[\w./-]+\.(gguf|safetensors)))?"
)
_CONFIG = ["*.json"]
_TOKENIZER = ["vocab.txt", "merges.txt", "*.jinja", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"]
_WEIGHTS = ["*.safetensors"]
_BELOW = ["*/*.safetensors"]
"""Weights in folders of their own are the same model in another form."""


def local_model(model: Path | str, *, download: bool = False, config_only: bool = False) -> Path:
    """Where ``model`` is on this machine: its path, or the copy of a model of the hub.

    - ``model``: A path, ``owner/name`` or ``hf://owner/name``; with ``@revision``, and ``/file.gguf`` for one file.
    - ``download``: Whether a name that is no path may be fetched.
    - ``config_only``: Leave out weights and tokenizer.
    """
    path = Path(model)
    scheme = _SCHEME.match(str(model))
    if scheme is None and path.exists():
        return path
    wanted = str(model)[scheme.end() :] if scheme else str(model)
    name = None if wanted.startswith(".") or ".." in wanted else _NAME.fullmatch(wanted)
    if scheme and name is None:
        raise InvalidInputError(f"{model}: expected hf://owner/name, hf://owner/name@revision or a file in it")
    if not download or name is None:
        hub = name is not None and (scheme or name["model"].count("/") == 1)
        hint = "; to fetch it from the Hugging Face hub, ask for it with --download" if hub else ""
        raise InvalidInputError(f"{model}: expected a model's folder or file, got no such path{hint}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingExtraError("audit", "downloading a model") from None
    patterns = [name["file"], *_CONFIG] if name["file"] else _CONFIG + ([] if config_only else _WEIGHTS + _TOKENIZER)
    with _hub_errors(name["model"], name["revision"]):
        folder = Path(
            snapshot_download(
                name["model"],
                revision=name["revision"],
                allow_patterns=patterns,
                ignore_patterns=None if name["file"] else _BELOW,
            )
        )
    found = folder / name["file"] if name["file"] else folder
    if not found.exists():
        raise InvalidInputError(f"{model}: expected {name['file']} in it, got no such file")
    return found


@contextmanager
def without_network() -> Iterator[None]:
    """Nothing inside asks the hub, as if it were offline; afterwards its client is as it was."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _hub_errors(name: str, revision: str | None) -> Iterator[None]:
    """What the hub refuses, as a message that says what to do."""
    from huggingface_hub import constants, errors

    try:
        yield
    except errors.GatedRepoError:
        raise InvalidInputError(
            f"{name}: expected a model that may be fetched, got a gated one; accept its terms at "
            f"{constants.ENDPOINT}/{name}, then log in: hf auth login"
        ) from None
    except errors.RepositoryNotFoundError:
        raise InvalidInputError(
            f"{name}: expected a model on the Hugging Face hub, got none of that name; check it, or log in if the "
            f"model is private: hf auth login"
        ) from None
    except errors.RevisionNotFoundError:
        raise InvalidInputError(
            f"{name}: expected a revision of it, got {revision!r}, which it does not have"
        ) from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        raise InvalidInputError(
            f"{name}: expected an answer of {constants.ENDPOINT}, got none, and there is no copy from before; go "
            f"online (HF_HUB_OFFLINE must not be set), or give the path of a local copy"
        ) from None
    except Exception as error:  # whatever else its client raises: a full disk, a broken answer
        said = " ".join(str(error).split())
        raise InvalidInputError(f"{name}: expected a model on the Hugging Face hub, got: {said[:400]}") from None
