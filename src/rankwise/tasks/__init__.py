"""Tasks: data with a known best answer, and the trivial predictors that put every error in proportion."""

from rankwise.tasks.baselines import Baselines, Estimate, LinearPredictor, fit_linear
from rankwise.tasks.batch import Batch, squared_error
from rankwise.tasks.neighbors import BiasedNearestNeighbor, FarthestNeighbor, NearestNeighbor, NeighborTask
from rankwise.tasks.points import Gaussian, Orthogonal, PointLaw, PowerLaw, Rows, Uniform

__all__ = [
    "Baselines",
    "Batch",
    "BiasedNearestNeighbor",
    "Estimate",
    "FarthestNeighbor",
    "Gaussian",
    "LinearPredictor",
    "NearestNeighbor",
    "NeighborTask",
    "Orthogonal",
    "PointLaw",
    "PowerLaw",
    "Rows",
    "Uniform",
    "fit_linear",
    "squared_error",
]
