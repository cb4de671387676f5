"""Frozen, keyword-only descriptions: of an attention layer, a model, a task, a run, a sweep."""

from rankwise.spec.attention import AttentionSpec, RotarySpec, heads_for_budget
from rankwise.spec.canonical import canonical_json, derived_seed, plain, run_id
from rankwise.spec.document import read_document, to_document, write_document
from rankwise.spec.fields import Words
from rankwise.spec.images import CLASSES, SIDES, ImagesSpec
from rankwise.spec.in_context import Curriculum, InContextSpec
from rankwise.spec.interface import TokenInterface
from rankwise.spec.latent import LatentSpec
from rankwise.spec.match import MatchSpec
from rankwise.spec.model import ModelSpec
from rankwise.spec.neighbors import NeighborSpec
from rankwise.spec.optim import LrMultipliers, OptimSpec
from rankwise.spec.read import from_plain, parse_json, parse_toml, read_spec
from rankwise.spec.run import RunSpec
from rankwise.spec.select import SelectSpec
from rankwise.spec.strict_json import parse_json_object, read_json_object
from rankwise.spec.sweep import Axis, SweepSpec, vary
from rankwise.spec.task import TaskSpec, register_task
from rankwise.spec.text import TextSpec
from rankwise.spec.vectors import VectorFile, content_sha256
from rankwise.spec.write import to_json, to_toml

__all__ = [
    "CLASSES",
    "SIDES",
    "AttentionSpec",
    "Axis",
    "Curriculum",
    "ImagesSpec",
    "InContextSpec",
    "LatentSpec",
    "LrMultipliers",
    "MatchSpec",
    "ModelSpec",
    "NeighborSpec",
    "OptimSpec",
    "RotarySpec",
    "RunSpec",
    "SelectSpec",
    "SweepSpec",
    "TaskSpec",
    "TextSpec",
    "TokenInterface",
    "VectorFile",
    "Words",
    "canonical_json",
    "content_sha256",
    "derived_seed",
    "from_plain",
    "heads_for_budget",
    "parse_json",
    "parse_json_object",
    "parse_toml",
    "plain",
    "read_document",
    "read_json_object",
    "read_spec",
    "register_task",
    "run_id",
    "to_document",
    "to_json",
    "to_toml",
    "vary",
    "write_document",
]
