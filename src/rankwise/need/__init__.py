"""What rank given vectors need: measured."""

from rankwise.callable_room import make_callable

make_callable(__name__)
