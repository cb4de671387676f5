"""The shapes of real models: what was published, and where a user's config stands among it. No torch here."""

from rankwise.shapes.config import read_config, shape_of_config
from rankwise.shapes.published import published_shapes
from rankwise.shapes.shape import LatentShape, ModelShape

__all__ = ["LatentShape", "ModelShape", "published_shapes", "read_config", "shape_of_config"]
