"""``pyptx.bench``: how long GPU functions take, measured so that the numbers can be believed.

``measure`` is the loop, ``verify`` holds outputs against a reference before anything is timed, ``device`` is
the GPU as the loop needs it, ``readings`` its clocks and power, ``result`` what is returned.
"""

from .device import Device, TorchDevice
from .measure import bench
from .readings import Reading, Readings
from .result import BenchResult, Timing

__all__ = ["BenchResult", "Device", "Reading", "Readings", "Timing", "TorchDevice", "bench"]
