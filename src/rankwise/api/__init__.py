"""The Python API: what the commands do, for objects in memory, with results to look at.

``import rankwise`` gives the same names: ``rankwise.audit(model)``.
"""

from rankwise.api.advising import Advising, advise
from rankwise.api.auditing import Auditing, audit
from rankwise.api.comparing import Comparing
from rankwise.api.needing import Needing, need
from rankwise.api.reducing import Reducing, reduce
from rankwise.api.result import Result
from rankwise.reduce import load_reduced

__all__ = [
    "Advising",
    "Auditing",
    "Comparing",
    "Needing",
    "Reducing",
    "Result",
    "advise",
    "audit",
    "load_reduced",
    "need",
    "reduce",
]
