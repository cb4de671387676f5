"""Tasks: data with a known best answer, and the trivial predictors that put every error in proportion."""

from rankwise.tasks.baselines import Baselines, Estimate, LinearPredictor, fit_linear
from rankwise.tasks.batch import Batch, TokenBatch, squared_error
from rankwise.tasks.in_context import InContext
from rankwise.tasks.neighbors import BiasedNearestNeighbor, FarthestNeighbor, NearestNeighbor, NeighborTask
from rankwise.tasks.points import Gaussian, Orthogonal, PointLaw, PowerLaw, Rows, Uniform
from rankwise.tasks.task import Task

__all__ = [
    "Baselines",
    "Batch",
    "BiasedNearestNeighbor",
    "Estimate",
    "FarthestNeighbor",
    "Gaussian",
    "InContext",
    "LinearPredictor",
    "NearestNeighbor",
    "NeighborTask",
    "Orthogonal",
    "PointLaw",
    "PowerLaw",
    "Rows",
    "Task",
    "TokenBatch",
    "Uniform",
    "fit_linear",
    "squared_error",
]
