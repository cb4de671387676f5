"""Trained models with a smaller cache or smaller heads, what that costs, and how they are loaded.

``load_reduced`` is imported when it is asked for: reading a report needs no torch.
"""

import lazy_loader

from rankwise.callable_package import make_callable

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
make_callable(__name__)
