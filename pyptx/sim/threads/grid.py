"""The CTAs of one launch: their program, the clusters that have not started, and the launch's counts.

A launch may be one of several in a stream. Without programmatic dependent launch it starts when all earlier
ones have completed. A ``dependent`` launch may start when every CTA of the previous launch has executed
``griddepcontrol.launch_dependents`` or ended. Its ``griddepcontrol.wait`` waits for the completion of the
previous launch only.

Source: PTX ISA, `#parallel-synchronization-and-communication-instructions-griddepcontrol`_ and
`#parallel-synchronization-and-communication-instructions-clusterlaunchcontrol-try-cancel`_.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...ir import Launch
from ..code.program import SHARED_START, EntryProgram
from ..engine.accounts import LaunchAccount
from ..engine.stream import Life, LifeKind
from ..memory.access import StateSpace
from ..memory.segments import Segment
from .assignment import Assignment
from .multiprocessor import REGISTERS, Demand, Multiprocessors

if TYPE_CHECKING:
    from .cta import CTA
    from .machine_state import MachineState

__all__ = ["Grid"]

#: Bytes of workspace that a cooperative launch has for the barrier of its grid.
_WORKSPACE = 4096
#: Registers of a thread are allocated in multiples of this number.
_REGISTER_STEP = 8


def _allocated(warps: int, registers: int) -> int:
    """Return what warps take whose threads have so many registers: warps get multiples of a step."""
    return 32 * warps * -(-registers // _REGISTER_STEP) * _REGISTER_STEP


class Grid:
    """The CTAs of one launch.

    ``number`` is the launch's position in its stream; ``before`` is the previous one. With an ``assignment``,
    only its clusters start, and their requests get what it says. Without one, the schedule decides when a
    cluster starts, and a request gets the first cluster that has not started.
    """

    def __init__(
        self,
        machine: MachineState,
        program: EntryProgram,
        launch: Launch,
        params: Segment,
        *,
        before: Grid | None = None,
        dependent: bool = False,
        assignment: Assignment | None = None,
    ) -> None:
        self.machine, self.program, self.launch, self.params = machine, program, launch, params
        self.before, self.dependent = before, dependent
        self.number: int = 0 if before is None else before.number + 1
        self.const = Segment("constant memory", StateSpace.CONST, 0, program.image.const, tracked=False)
        self.shared_bytes = program.shared_bytes(launch.dynamic_smem)
        self.shared_parts = program.shared_parts(self.shared_bytes + SHARED_START - program.shared_start)
        x, y, z = launch.block
        self.threads = x * y * z
        x, y, z = launch.grid
        self.ctas = x * y * z
        x, y, z = launch.cluster
        self.cluster_size = x * y * z
        self.explicit_cluster = (
            launch.cluster != (1, 1, 1) or program.function.directive("explicitcluster") is not None
        )
        warps = -(-self.threads // 32)
        self.demand = Demand(32 * warps, self.shared_bytes + SHARED_START, self._registers(warps))
        #: Bytes of the host's memory that one CTA takes.
        self.held = program.host_bytes(warps, self.shared_bytes)
        #: Numbers of the clusters that have not started, and that start unless a request cancels them.
        self.waiting: Sequence[int] = range(self.ctas // self.cluster_size)
        #: The clusters that the assignment keeps for requests, by the cluster and the request's position.
        self._kept: dict[tuple[int, int], int] | None = None
        if assignment is not None:
            self.waiting, self._kept = assignment.starting, assignment.grants
        #: What each request got, by the same; None for a refusal.
        self.answers: dict[tuple[int, int], int | None] = {}
        self._requests: dict[int, int] = {}
        #: Number of live CTAs, and number of those that have not yet allowed dependent launches to start.
        self.live = self.holding = 0
        self.started = False
        #: True if the CTAs cancel launches of other clusters: the time at which clusters start then matters.
        self.gives_away = program.cancels_launches
        self.account = LaunchAccount(self.number, program.function.name)
        #: The texts that the kernel printed, in order.
        self.printed: list[str] = []
        self._workspace: int | None = None

    def _registers(self, warps: int) -> int:
        """Return the registers that one CTA takes; 0 (no limit) if the kernel does not state a number."""
        function = self.program.function
        most = function.directive("maxnreg")
        if most is None:
            return 0
        taken = _allocated(warps, most[0])
        together = function.directive("minnctapersm")
        return taken if together is None else min(taken, REGISTERS // max(1, together[0]))

    def allot(self, registers: int) -> None:
        """Let each thread take so many registers, unless the kernel states a number."""
        if not self.demand.registers:
            warps = self.demand.threads // 32
            self.demand = replace(self.demand, registers=_allocated(warps, registers))

    # --- life ---------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """True if all CTAs have ended and no operation of them is in flight."""
        return not self.waiting and not self.live

    @property
    def kept(self) -> int:
        """Number of clusters that an assignment keeps for requests, and that no request has got."""
        return 0 if self._kept is None else len(self._kept)

    @property
    def outside(self) -> int:
        """Number of clusters that have neither started nor been canceled."""
        return len(self.waiting) + self.kept

    @property
    def lets_go(self) -> bool:
        """True if a dependent launch may start: every CTA of this launch has allowed it or has ended."""
        return self.started and not self.outside and not self.holding

    def life(self) -> Life:
        """Return the event record with which observers learn that the launch begins or ends."""
        return Life(LifeKind.GRID, self.number, self.ctas, self.program.function.name)

    def entered(self) -> None:
        """Count one more running CTA."""
        self.live += 1
        self.holding += 1

    def left(self, cta: CTA) -> None:
        """Count a CTA that has ended. Its end also allows dependent launches to start."""
        self.live -= 1
        self.let_go(cta)

    def let_go(self, cta: CTA) -> None:
        """Allow dependent launches to start: a thread executed ``griddepcontrol.launch_dependents``."""
        if cta.holds:
            cta.holds = False
            self.holding -= 1

    def request(self, cluster: int) -> tuple[int, int]:
        """Begin a request of cluster number ``cluster``; return the cluster and the request's position."""
        place = self._requests.get(cluster, 0)
        self._requests[cluster] = place + 1
        return cluster, place

    def steal(self, request: tuple[int, int]) -> tuple[int, int, int] | None:
        """Cancel a cluster for a request.

        Returns the coordinates of the first CTA of the canceled cluster, or None if there is none.
        """
        canceled: int | None = None
        if self._kept is not None:
            canceled = self._kept.pop(request, None)
        elif self.waiting:
            canceled = self.waiting[0]
            self.waiting = self.waiting[1:]
        self.answers[request] = canceled
        if canceled is None:
            return None
        place = self.place_of(canceled)
        x, y, z = (place * size for place, size in zip(place, self.launch.cluster, strict=True))
        return x, y, z

    def place_of(self, cluster: int) -> tuple[int, int, int]:
        """Return the coordinates of cluster number ``cluster`` in the grid of clusters."""
        across, down = (self.launch.grid[axis] // self.launch.cluster[axis] for axis in (0, 1))
        return cluster % across, cluster // across % down, cluster // (across * down)

    @property
    def workspace(self) -> int:
        """Address of the workspace of the grid's barrier; 0 if not all CTAs can run at once."""
        if self._workspace is None:
            self._workspace = 0
            if self._fits_whole():
                data = np.zeros(_WORKSPACE, np.uint8)
                self._workspace = self.machine.memory.map_global("the grid's workspace", data).base
        return self._workspace

    def _fits_whole(self) -> bool:
        if self.ctas * self.held > self.machine.limits.memory and self.ctas > self.cluster_size:
            return False
        return self.resident() == self.ctas

    def resident(self) -> int:
        """Return how many of the CTAs can be resident at the same time, on multiprocessors that are empty."""
        empty = Multiprocessors(self.machine.target)
        clusters = self.ctas // self.cluster_size
        count = 0
        while count < clusters and empty.place(self.demand, self.cluster_size):
            count += 1
        return count * self.cluster_size
