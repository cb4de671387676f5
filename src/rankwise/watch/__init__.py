"""Watching a training: what every head's attention is like, step by step, beside random attention."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
