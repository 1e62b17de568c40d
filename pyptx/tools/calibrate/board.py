"""The board's meter: the energy that it has drawn so far, and the power that it may draw, by NVML.

Owns :class:`Meter`.
"""

from __future__ import annotations

import time

from ...core.errors import SpecError
from ..bench.readings import energy_counter, power_limit

__all__ = ["Meter"]

#: Seconds between two looks at a counter, and after which a counter that stands still does not work.
_LOOK, _LONGEST = 0.001, 2.0


class Meter:
    """Reads the energy of a GPU.

    Args:
        uuid: the GPU's, as NVML has it.

    Raises:
        SpecError: there is no NVML, or this GPU counts no energy.
    """

    def __init__(self, uuid: str) -> None:
        read, limit = energy_counter(uuid), power_limit(uuid)
        if read is None or limit is None:
            raise SpecError(
                "power cannot be read: that needs NVML, and a GPU that counts its energy",
                hint="pip install nvidia-ml-py",
            )
        self._read, self.limit = read, limit

    def step(self) -> tuple[float, float]:
        """Wait for the next step of the counter; return the time in s and the energy in J.

        Between two steps, the power is known exactly, though the counter moves in steps of many ms.
        """
        begin, before = time.monotonic(), self._read()
        while (now := time.monotonic()) - begin < _LONGEST:
            found = self._read()
            if found is not None and before is not None and found > before:
                return now, found
            time.sleep(_LOOK)
        raise SpecError("the GPU's counter of energy stands still")

    def watts(self, seconds: float) -> float:
        """Return the mean power of the next seconds, about so many."""
        begin, joules = self.step()
        time.sleep(seconds)
        end, more = self.step()
        return (more - joules) / (end - begin)
