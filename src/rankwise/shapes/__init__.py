"""The shapes of real models: what was published, and where a user's config stands among it. No torch here."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
