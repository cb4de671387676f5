from .document import Reduction as Reduction
from .document import read_reduction as read_reduction
from .options import ReductionOptions as ReductionOptions
from .pieces import MaskedPieces as MaskedPieces
from .pieces import read_records as read_records
from .reduction import Texts as Texts
from .reduction import reduce_model as reduce_model
from .saved import load_reduced as load_reduced
