"""What can be computed instead of quoted. Every module here loads with numpy and scipy alone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
