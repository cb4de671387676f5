"""Many runs: plan them, hand them to an engine, keep what comes back. Importing this imports nothing else."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
