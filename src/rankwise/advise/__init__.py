"""What to change: need, plateau, costs, suggestions."""

from rankwise.callable_room import make_callable

make_callable(__name__)
