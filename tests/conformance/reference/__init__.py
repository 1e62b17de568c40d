"""What cases must give, computed without the simulator: from the manual, in numpy and Python's integers.

Nothing here uses what the simulator uses for the same purpose: layouts, walks and sums are written down a second
time, element by element.  What the manual leaves open and an H200 decides (the bits of a barrier's state, the fill of
a tensor's outside, how tf32 is rounded) is said where it is used.
"""

from __future__ import annotations

from .expected import Expected

__all__ = ["Expected"]
