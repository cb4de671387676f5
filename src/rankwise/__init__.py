"""rankwise: how much rank does an attention head need, and how many heads?

The rooms, and the one way imports point::

    errors < estimate, progress < spec < nn, tasks, theory, measure < shapes < train, models
           < sweep, audit, need, reduce < report, advise < recipes < cli

Importing ``rankwise`` imports none of them, so that ``rankwise --help`` answers at once.
"""

__version__ = "0.1.0"
