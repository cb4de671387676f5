"""Frozen, keyword-only descriptions: of an attention layer, a model, a task, a run, a sweep."""

from rankwise.spec.attention import AttentionSpec, RotarySpec, heads_for_budget
from rankwise.spec.latent import LatentSpec
from rankwise.spec.model import ModelSpec

__all__ = ["AttentionSpec", "LatentSpec", "ModelSpec", "RotarySpec", "heads_for_budget"]
