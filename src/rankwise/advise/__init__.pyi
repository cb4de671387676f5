from .advice import Advice as Advice
from .advice import advice_document as advice_document
from .advice import advise as advise
from .advice import resources_of as resources_of
from .inputs import situation as situation
from .removal import taken_away as taken_away
from .resources import Resources as Resources
from .statement import Statement as Statement
