"""``pyptx.bench``: measures how long GPU functions take, after it has verified their outputs.

``verify`` compares outputs with a reference before any function is timed, ``measure`` runs and times the
functions, ``device`` is the GPU as the measurement uses it, ``readings`` reads clocks and power, and
``result`` is what the caller gets.
"""

from .device import Device, TorchDevice
from .measure import bench
from .readings import Reading, Readings
from .result import BenchResult, Timing

__all__ = ["BenchResult", "Device", "Reading", "Readings", "Timing", "TorchDevice", "bench"]
