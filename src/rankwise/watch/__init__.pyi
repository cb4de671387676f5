from .observation import Alarm as Alarm
from .observation import HeadReading as HeadReading
from .observation import Observation as Observation
from .observation import Thresholds as Thresholds
from .watch import Watch as Watch
