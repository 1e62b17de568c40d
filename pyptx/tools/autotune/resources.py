"""What a kernel takes of a multiprocessor: the filter before a measurement, and a rank without one.

Owns the assembly of all candidates by ptxas, the tests whether a candidate fits at all, and the occupancy,
from the limits of the target. Source: CUDA C++ Programming Guide, technical specifications per compute
capability.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ...core.errors import AssembleError, ToolNotFoundError
from ...core.records import dataclass
from ...ir import Launch
from ...isa import Target, target
from ...toolchain import Resources, assemble, find_ptxas
from .candidates import Candidate, State

__all__ = ["Fit", "assemble_all", "drop_unfit", "fit", "rank"]

#: 32-bit registers of a multiprocessor; a warp gets them in units of 256.
_REGISTERS, _UNIT = 65_536, 256
#: Shared memory of a CTA that the system takes, and the unit of allocation, in bytes.
_SYSTEM, _SHARED_UNIT = 1024, 128


#: Where :meth:`.Kernel.assemble` keeps what ptxas made of the text with lines.
_HELD = ("ptxas", True)


@dataclass(frozen=True)
class Fit:
    """How a launch fills the GPU.

    Attributes:
        ctas: CTAs that fit on one multiprocessor at a time; 0 if not even one does.
        limit: what limits them: ``"registers"``, ``"shared memory"``, ``"threads"`` or ``"CTAs"``.
        waves: how often the GPU is filled until all CTAs have run.
        filled: share of the places of all waves that CTAs take, 0 to 1.
        warps: warps on a multiprocessor.
    """

    ctas: int
    limit: str
    waves: int
    filled: float
    warps: int


def fit(launch: Launch, resources: Resources, of: Target, multiprocessors: int | None = None) -> Fit:
    """Return how a launch of a kernel with these resources fills a GPU of the target."""
    threads = math.prod(launch.block)
    warps = -(-threads // 32)
    of_warp = -(-max(resources.registers, 1) * 32 // _UNIT) * _UNIT
    shared = resources.shared + launch.dynamic_smem + _SYSTEM
    shared = -(-shared // _SHARED_UNIT) * _SHARED_UNIT
    room = {
        "registers": _REGISTERS // of_warp // warps,
        "shared memory": (of.shared_limit + _SYSTEM) // shared,
        "threads": of.threads_per_sm // (warps * 32),
        "CTAs": of.ctas_per_sm,
    }
    limit = min(room, key=lambda name: room[name])
    ctas = room[limit]
    count = math.prod(launch.grid)
    places = ctas * (multiprocessors or of.multiprocessors)
    waves = -(-count // places) if places else 0
    return Fit(ctas, limit, waves, count / (waves * places) if waves else 0.0, ctas * warps)


def assemble_all(candidates: Sequence[Candidate], step: Callable[[Candidate], None]) -> bool:
    """Run ptxas on the text of every candidate, as many at a time as the machine has cores.

    A text that ptxas refuses drops its candidate. ``step`` is called after each. Returns False if there is no
    ptxas; then no candidate has an assembly.
    """
    try:
        tool = find_ptxas()
    except ToolNotFoundError:
        return False

    def one(candidate: Candidate) -> None:
        assert candidate.special is not None
        held = candidate.special.loaded
        try:
            if _HELD not in held:
                held[_HELD] = assemble(candidate.special.lined, ptxas=tool)
            candidate.assembly = held[_HELD]
        except AssembleError as error:
            candidate.drop(State.REFUSED, error.summary)

    pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="pyptx.autotune ptxas")
    try:
        for candidate, _ in zip(candidates, pool.map(one, candidates), strict=True):
            step(candidate)
    finally:
        pool.shutdown(cancel_futures=True)
    return True


def resources_of(candidate: Candidate) -> Resources | None:
    """Return what ptxas says of the candidate's kernel; None without an assembly."""
    if candidate.assembly is None or candidate.special is None:
        return None
    entry = candidate.special.entry
    return next((each for each in candidate.assembly.resources if each.function == entry), None)


def _fit_of(candidate: Candidate, multiprocessors: int | None = None) -> Fit | None:
    resources = resources_of(candidate)
    if resources is None or candidate.special is None or candidate.kernel is None:
        return None
    return fit(candidate.special.launch, resources, target(candidate.kernel.options.arch), multiprocessors)


def drop_unfit(candidates: Sequence[Candidate]) -> None:
    """Drop candidates that do not fit on a multiprocessor, and those that spill if others do not."""
    for candidate in candidates:
        found = _fit_of(candidate) if candidate.ready else None
        if found is not None and found.ctas == 0:
            assert candidate.special is not None
            resources = resources_of(candidate)
            assert resources is not None
            launch = candidate.special.launch
            candidate.drop(
                State.TOO_LARGE,
                f"not one CTA fits on a multiprocessor ({found.limit}): {math.prod(launch.block)} threads of "
                f"{resources.registers} registers, {resources.shared + launch.dynamic_smem} bytes of shared "
                "memory",
            )
    ready = [each for each in candidates if each.ready and each.assembly is not None]
    known = [(each.number, resources_of(each)) for each in ready]
    spills = {number: resources.spills for number, resources in known if resources is not None}
    if spills and not all(spills.values()):
        for candidate in ready:
            if spills.get(candidate.number):
                candidate.drop(
                    State.SPILLS, f"{spills[candidate.number]} bytes are spilled, others spill none"
                )


def rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates in the order of what their resources promise, the best first.

    First come those with fewer bytes spilled; then those of which ptxas says less (``setmaxnreg`` ignored,
    ``wgmma`` serialized); then those whose waves of CTAs leave fewer places of the GPU empty, in steps of 5
    percent; then those with more warps on a multiprocessor. It is no measurement.
    """

    def key(candidate: Candidate) -> tuple[float, ...]:
        resources, found = resources_of(candidate), _fit_of(candidate)
        if resources is None or found is None or candidate.assembly is None:
            return (candidate.number,)
        coded = sum(1 for note in candidate.assembly.notes if note.code)
        empty = round((1 - found.filled) * 20)
        return (resources.spills, coded, empty, -found.warps, candidate.number)

    return sorted(candidates, key=key)
