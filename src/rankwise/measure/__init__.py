"""What a matrix's rank is, by every definition in use, each under its own name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
