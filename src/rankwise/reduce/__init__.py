"""Trained models with a smaller cache or smaller heads, what that costs, and how they are loaded."""

from rankwise.reduce.saved import load_reduced

__all__ = ["load_reduced"]
