"""How to set heads and ranks: small causal models trained on one's own text at equal budget."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
