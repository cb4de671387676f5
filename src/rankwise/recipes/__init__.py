"""One file per figure: which runs it needs, what they cost, how it is drawn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
