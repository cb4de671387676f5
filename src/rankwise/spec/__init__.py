"""Frozen, keyword-only descriptions: of an attention layer, a model, a task, a run, a sweep."""

from rankwise.spec.attention import AttentionSpec, RotarySpec, heads_for_budget
from rankwise.spec.canonical import canonical_json, derived_seed, plain, run_id
from rankwise.spec.latent import LatentSpec
from rankwise.spec.model import ModelSpec
from rankwise.spec.optim import LrMultipliers, OptimSpec
from rankwise.spec.read import from_plain, parse_json, parse_toml, read_spec
from rankwise.spec.run import RunSpec
from rankwise.spec.sweep import Axis, SweepSpec, vary
from rankwise.spec.task import TaskSpec
from rankwise.spec.vectors import VectorFile
from rankwise.spec.write import to_json, to_toml

__all__ = [
    "AttentionSpec",
    "Axis",
    "LatentSpec",
    "LrMultipliers",
    "ModelSpec",
    "OptimSpec",
    "RotarySpec",
    "RunSpec",
    "SweepSpec",
    "TaskSpec",
    "VectorFile",
    "canonical_json",
    "derived_seed",
    "from_plain",
    "heads_for_budget",
    "parse_json",
    "parse_toml",
    "plain",
    "read_spec",
    "run_id",
    "to_json",
    "to_toml",
    "vary",
]
