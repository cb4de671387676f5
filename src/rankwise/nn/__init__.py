"""Attention in which every size is free, and the modules built from it."""

from rankwise.nn.rotary import rotate, rotation

__all__ = ["rotate", "rotation"]
