"""Tensor copies of PTX 9.4: those with masks of 16 and 32 bits are what they are with any mask.

Not modeled are reports of validity, overrides of a map's fields, and the im2col orders along W.
"""

from __future__ import annotations

from ..code.semantic import executes
from .bulk_copy import load_box, load_pixels

_LOAD = "cp.async.bulk.tensor.load"

executes(f"{_LOAD}.wide_multicast", per="lane")(load_box)
executes(f"{_LOAD}.gather4.wide_multicast", per="lane", traits="tile::gather4")(load_box)
executes(f"{_LOAD}.im2col.wide_multicast", per="lane", traits="im2col")(load_pixels)
