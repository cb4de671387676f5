"""Tasks: data with a known best answer, and the trivial predictors that put every error in proportion."""

from rankwise.tasks.baselines import Baselines, LinearPredictor, fit_linear
from rankwise.tasks.batch import Batch, TokenBatch, squared_error
from rankwise.tasks.from_spec import build_task, levels_of
from rankwise.tasks.images import ImagePatches
from rankwise.tasks.in_context import InContext
from rankwise.tasks.linear_scores import linear_scores_error
from rankwise.tasks.match import Match
from rankwise.tasks.neighbors import BiasedNearestNeighbor, FarthestNeighbor, NearestNeighbor, NeighborTask
from rankwise.tasks.points import Gaussian, Orthogonal, PointLaw, PowerLaw, Rows, Uniform
from rankwise.tasks.select import Select
from rankwise.tasks.task import Task
from rankwise.tasks.text import Text

__all__ = [
    "Baselines",
    "Batch",
    "BiasedNearestNeighbor",
    "FarthestNeighbor",
    "Gaussian",
    "ImagePatches",
    "InContext",
    "LinearPredictor",
    "Match",
    "NearestNeighbor",
    "NeighborTask",
    "Orthogonal",
    "PointLaw",
    "PowerLaw",
    "Rows",
    "Select",
    "Task",
    "Text",
    "TokenBatch",
    "Uniform",
    "build_task",
    "fit_linear",
    "levels_of",
    "linear_scores_error",
    "squared_error",
]
