"""A model's configuration as ``transformers`` knows it: with every default its class leaves unsaid; no code is run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


def completed_config(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The configuration with everything its class leaves unsaid; None where ``transformers`` does not know it."""
    known = known_config(config)
    try:
        return None if known is None else dict(known.to_dict())
    except Exception:  # values that the class kept without a look, and cannot spell
        return None


def known_config(config: Mapping[str, Any]) -> Any | None:
    """An instance of the configuration's class; None without the extra, and where the class refuses it."""
    try:
        from transformers import AutoConfig
    except ImportError:
        return None
    left_out = ("model_type", "auto_map", "quantization_config")
    stated = {key: value for key, value in config.items() if key not in left_out}
    try:
        with without_remarks():
            return AutoConfig.for_model(str(config.get("model_type")), **stated)
    except Exception:  # what the class says about a configuration that is not its own
        return None


@contextmanager
def without_remarks() -> Iterator[None]:
    """No remarks of ``transformers``, no warnings."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
