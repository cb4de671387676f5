"""What the heads of a trained model are: the ranks of their weights, and of their attention on texts."""

from rankwise.callable_room import make_callable

make_callable(__name__)
