from .document import NOT_PROVED as NOT_PROVED
from .document import BudgetSearch as BudgetSearch
from .document import Choice as Choice
from .document import read_choice as read_choice
from .presets import pick_preset as pick_preset
from .search import planned_runs as planned_runs
from .search import search_shapes as search_shapes
from .shapes import ShapeBudget as ShapeBudget
