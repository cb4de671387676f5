"""What rank given vectors need: measured."""

import lazy_loader

from rankwise.callable_package import make_callable

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
make_callable(__name__)
