"""Watching a training: what every head's attention is like, step by step, beside random attention."""

from rankwise.watch.observation import Alarm, HeadReading, Observation, Thresholds
from rankwise.watch.watch import Watch

__all__ = ["Alarm", "HeadReading", "Observation", "Thresholds", "Watch"]
