"""``pyptx.bench``: measures how long GPU functions take, after it has verified their outputs.

``verify`` compares outputs with a reference before any function is timed, ``measure`` times the functions
run by run, ``sustained`` back to back for seconds, ``device`` is the GPU as the measurement uses it,
``readings`` reads clocks, power and energy, and ``result`` is what the caller gets.
"""

from .device import Device, TorchDevice
from .measure import bench
from .readings import Reading, Readings
from .result import BenchResult, Draw, Timing

__all__ = ["BenchResult", "Device", "Draw", "Reading", "Readings", "Timing", "TorchDevice", "bench"]
