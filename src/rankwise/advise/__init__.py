"""What to do: for a model as it was trained, by measurement; for the next training, as hypotheses."""

from rankwise.callable_room import make_callable

make_callable(__name__)
