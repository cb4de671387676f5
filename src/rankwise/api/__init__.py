"""The Python API: what the commands do, for objects in memory, with results to look at.

``import rankwise`` gives the same names: ``rankwise.audit(model)``.
"""

from rankwise.api.advising import Advising, advise
from rankwise.api.auditing import Audit, audit
from rankwise.api.needing import Need, need
from rankwise.api.result import Result

__all__ = ["Advising", "Audit", "Need", "Result", "advise", "audit", "need"]
