"""Attention in which every size is free, and the modules built from it."""

from rankwise.nn.attention import MultiheadAttention
from rankwise.nn.factored import FactoredMatrix
from rankwise.nn.rotary import rotate, rotation

__all__ = ["FactoredMatrix", "MultiheadAttention", "rotate", "rotation"]
