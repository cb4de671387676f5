"""Attention in which every size is free, and the modules built from it."""

from rankwise.nn.attention import MultiheadAttention
from rankwise.nn.cache import TokenCache
from rankwise.nn.factored import FactoredMatrix
from rankwise.nn.generalized import AdditiveScore, BilinearScore, GeneralizedHeads
from rankwise.nn.latent import LatentAttention
from rankwise.nn.norms import UnitNorm
from rankwise.nn.rotary import rotate, rotation
from rankwise.nn.tokens import TokenModel
from rankwise.nn.transformer import Transformer

__all__ = [
    "AdditiveScore",
    "BilinearScore",
    "FactoredMatrix",
    "GeneralizedHeads",
    "LatentAttention",
    "MultiheadAttention",
    "TokenCache",
    "TokenModel",
    "Transformer",
    "UnitNorm",
    "rotate",
    "rotation",
]
