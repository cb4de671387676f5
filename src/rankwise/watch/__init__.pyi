from .document import WatchReport as WatchReport
from .document import read_watch as read_watch
from .observation import Alarm as Alarm
from .observation import HeadReading as HeadReading
from .observation import Observation as Observation
from .observation import Thresholds as Thresholds
from .watch import Watch as Watch
