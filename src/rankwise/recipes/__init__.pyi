from .points import Point as Point
from .points import lines_of as lines_of
from .recipe import Reproduced as Reproduced
from .registry import FIGURES as FIGURES
from .registry import TRAINED as TRAINED
from .registry import computed_recipe as computed_recipe
from .registry import trained_recipe as trained_recipe
