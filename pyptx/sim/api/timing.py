"""Times a launch: how long it takes on a GPU, and what its warps and units do in that time.

Owns :class:`LaunchTimer`. A probe runs the first wave up to its first loads, to find what clusters share.
Then the clusters of one position of the chip run event by event (:mod:`pyptx.sim.clock`), and stand for all.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...core.errors import SpecError
from ...core.findings import Finding, Verdict, verdict_of
from ...core.records import dataclass
from ...core.source import SourceLocation
from ...isa import Target
from ...timeline import Cause, Timeline
from ...timing.constants import Gpu
from ..clock.costs import Costs
from ..clock.counters import WORDS
from ..clock.figures import Figures
from ..clock.freed import costs_without, figures_without
from ..clock.lengths import Share, busiest, differ, lengths_of, samples
from ..clock.machine import TimedMachine
from ..clock.overlap import overlap_loss
from ..clock.placement import Placement, confine, place
from ..clock.sharing import sweeps_of
from ..clock.stalls import Place, Stall
from ..clock.steady import Period, find_period
from ..clock.stored import first_stored
from ..clock.traffic import Traffic, alike_of, equal_of, merged_of, traffic_of
from ..clock.units import Contention, L2State
from ..code.idle import Values
from ..engine.work import Copy
from ..sanitizer.garbage import fewer_collections
from ..threads.grid import Grid
from ..threads.warp import Split
from .arguments import Mapped, bases_of
from .options import LaunchOptions
from .runs import Request, fill, programs_of
from .timeline import DEFAULT_EVENTS, TimelineRecorder

__all__ = ["LaunchTimer", "Timing"]

#: Multiprocessors of a TPC.
_TPC = 2
#: Loads of each CTA that the probe looks at.
_PROBED = 8
#: Largest change of the share of missing bytes that needs no second run.
_SETTLED = 0.02
#: Share of the time since the first instruction with work for memory below which that holds up nothing.
_IDLE = 0.5
#: Share of the time with work for the fabric, or for memory, from which on it does.
_BUSY = 0.8
#: A run goes on to its end if less than this share of what was done is left.
_WORTHWHILE = 0.5
#: It also does if so few periods are left: the last ones may be shorter, such as those of narrow tiles. Few
#: exact ones suffice: they begin when all code that multiplies or loads has run.
_FEW, _FEW_EXACT = 16, 2
#: Share of the time so far in which there have been stores: those of one tile alone show no period. Exact
#: periods need less.
_SPAN, _SPAN_EXACT = 0.6, 0.4
#: Share of a tile that edges of the outputs may lack.
_PARTIAL = 0.02
#: Clusters of which none has ended in so many cycles count as equally long.
_LASTS = 20_000.0
#: How many times as long as the shortest one a cluster may be.
_LONGEST = 512.0
#: Least mean work, over that of the busiest position, that stored bytes can show.
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of a launch at one frequency.

    Attributes:
        cycles: cycles of the multiprocessors from the start of the kernel to its end.
        mhz: their frequency.
        placement: how the launch lies on the chip.
        traffic: what it loads.
        stored: bytes that all clusters store.
        flops: floating-point operations of the tensor cores, of all clusters.
        operands: bytes that the tensor core of a multiprocessor reads from shared memory, per cycle.
        evenness: mean work of the places of clusters, over that of the busiest one.
        busy: share of the time in which each unit of the busiest multiprocessor worked.
        stalls: where each warp of a position waited, longest first.
        lives: for how many cycles each of them lived, in all clusters that ran.
        findings: why the run ended early, if it did. What a kernel does wrong and a GPU forgives is not here.
    """

    cycles: float
    mhz: float
    placement: Placement
    traffic: Traffic
    stored: float
    flops: float
    operands: float
    evenness: float
    busy: Mapping[str, float]
    stalls: tuple[Stall, ...]
    lives: Mapping[Place, float]
    findings: tuple[Finding, ...]

    @property
    def nanoseconds(self) -> float:
        """The time in ns."""
        return self.cycles / self.mhz * 1000

    @property
    def verdict(self) -> Verdict:
        """``clean``, or why the launch did not end."""
        return verdict_of(self.findings)


class LaunchTimer:
    """Times one launch at any frequency. The probe of its first wave runs once.

    Args:
        request: the checked launch. Its arrays have any contents, unless the kernel's control depends on
            them.
        gpu: the constants.
        costs: the cost of a block of code.
        unknown: addresses, on the host, of arrays whose contents are not known.
        zeroed: such addresses of workspaces that are zero when the launch begins.
        assumed: True if these arrays hold zeros, since their contents are not known: products add nothing.
        timeout: seconds, from now on, after which a run ends as incomplete.
        l2: what L2 holds before the launch.
        registers: 32-bit registers of a thread, as ptxas chose them; None if they are not known.

    Raises:
        SpecError: the GPU does not run the kernel's target.
    """

    def __init__(
        self,
        request: Request,
        gpu: Gpu,
        costs: Costs,
        *,
        unknown: frozenset[int] = frozenset(),
        zeroed: frozenset[int] = frozenset(),
        assumed: bool = False,
        timeout: float | None = None,
        l2: L2State = "rotating",
        registers: int | None = None,
    ) -> None:
        self._began = time.monotonic()
        self._gpu, self._costs, self._l2 = gpu, costs, l2
        # What this launch never writes, another one or CTAs elsewhere may have written.
        self._request = replace(request, uninitialized=frozenset(), outputs=frozenset())
        self._registers, self._zeroed, self._assumed = registers, zeroed, assumed
        self._options = LaunchOptions.of({"timeout": timeout, "sanitize": False})
        # Outputs of a launch whose arrays have contents are those of any other run.
        decide = Values.DECIDING if unknown else Values.ALL
        values = Values.ZEROS if assumed else decide
        prepared, faults = programs_of(
            [request], self._options, self._began, interleaved=True, waits=True, values=values
        )
        self._fault = faults.get(0)
        program = prepared[0]
        if program is None:
            return
        self._program = program
        # Runs must not see what the runs before have left in variables, and callers none of them.
        self._variables = [(each.data, each.data.copy()) for each in program.image.stored]
        _check_target(program.target, gpu)
        figures = Figures(gpu, gpu.value("sm.clock_max_mhz"))
        first = self._machine(figures, Contention(sharers=1), _PROBED)
        del first.residency.multiprocessors.all[figures.sms :]
        mapped = self._fill(first)
        spaces = [each.segment for (address, _), each in mapped.items() if address in zeroed]
        self._spaces = frozenset(each.base for each in spaces)
        self._words = frozenset(each.base for each in spaces if each.size in WORDS)
        bases = [(address, each.segment.base) for (address, _), each in mapped.items()]
        alike = unknown if assumed else frozenset()
        self._alike = frozenset(base for address, base in bases if address in alike)
        self._hidden = frozenset(base for address, base in bases if address in (unknown | zeroed) - alike)
        self._written = bases_of(mapped, [request.args[place] for place in request.uninitialized])
        self._placement = place(first, first.grids[0], gpu.series("gpc.sizes"))
        self._run_clusters(first, range(self._placement.positions), 1)
        self._first, self._starters = first.loads, first.loading
        pairs = [_TPC] * math.ceil(figures.sms / _TPC)
        self._merged = merged_of(first.loads, first.loaders, pairs)
        groups = [int(size) for size in gpu.series("gpc.sizes")]
        self._coalesced = merged_of(first.loads, first.loaders, groups)
        self._met = 1.0
        # CTAs of one multiprocessor drift apart.
        placement = self._placement
        self._drifts = placement.together > 1 and placement.clusters > placement.positions
        if self._coalesced and self._drifts:
            # They do not if all multiprocessors load the same.
            whole = alike_of(first.loads, first.loaders, groups)
            met = whole + (self._coalesced - whole) * gpu.value("l2.coalesced_share")
            self._met = met / self._coalesced
        self._equal = equal_of(first.loads)
        self._sizes = {each.segment.base: each.segment.size for each in mapped.values()}
        # What share of the loads of later waves waits for memory, once the first run has settled.
        self._later: float | None = None
        # Which arrays the launch stores is not known yet.
        self._expected = self._traffic(((load, 1.0) for load in first.loads), self._sizes)
        self._placement = replace(self._placement, share=self._share(figures, first.grids[0]))

    def _share(self, figures: Figures, grid: Grid) -> Share | None:
        """Return what the position runs that ends last; None if all clusters are equally long.

        Clusters that take numbers from a counter, or the places of others, make their work even themselves.
        """
        placement = self._placement
        extents = [many // size for many, size in zip(grid.launch.grid, grid.launch.cluster, strict=True)]
        places = samples(extents)
        if self._spaces or grid.gives_away or not 1 < len(places) <= placement.positions:
            return None
        # In which wave a sample runs is no property of it.
        contention = replace(self._contention(rested=True), later=1.0)
        machine = self._machine(figures, contention, None, _seen_enough)
        mapped = self._fill(machine)
        numbers = [int(np.ravel_multi_index(place, extents, order="F")) for place in places]
        # Callers find in the arrays that they give what the launch stores, and nothing of these clusters.
        others = self._hidden | self._alike | self._written
        given = [each.segment.data for each in mapped.values() if each.segment.base not in others]
        kept = [(data, data.copy()) for data in given]
        self._run_clusters(machine, numbers, placement.positions)
        for data, before in kept:
            data[...] = before
        # The first CTA of each cluster, by its number in the grid.
        corners = [np.multiply(place, grid.launch.cluster) for place in places]
        ctas = [(0, int(np.ravel_multi_index(corner, grid.launch.grid, order="F"))) for corner in corners]
        lived = machine.stalls.lengths
        ended = [lived[cta] for cta in ctas if cta in lived and cta not in machine.residency.live]
        if machine.ended_by is not None or len(ended) < len(places) or not differ(ended):
            return None
        lengths = lengths_of(extents, dict(zip(places, ended, strict=True)))
        return None if lengths is None else busiest(lengths, placement.positions, placement.together)

    def _fill(self, machine: TimedMachine) -> Mapped:
        """Give ``machine`` the launch and its arrays."""
        mapped = fill(machine, [self._request], [self._program], None)
        for (address, _), each in mapped.items():
            if address in self._zeroed:
                each.segment.data[:] = 0
        if self._assumed:
            machine.assume_zeros()
        if self._registers is not None:
            machine.grids[0].allot(self._registers)
        return mapped

    def _run_clusters(self, machine: TimedMachine, clusters: Sequence[int], positions: int) -> None:
        """Run clusters that stand for so many positions, with what is known of the arrays."""
        machine.hide(self._hidden, self._written, self._alike)
        machine.count(self._words, positions)
        machine.wait_by_flags(self._spaces)
        machine.grids[0].waiting = clusters
        with fewer_collections():
            machine.run()
        for data, before in self._variables:
            data[...] = before

    def _machine(
        self,
        figures: Figures,
        contention: Contention,
        probe: int | None,
        enough: Callable[[TimedMachine], bool] | None = None,
        without: str | None = None,
    ) -> TimedMachine:
        return TimedMachine(
            self._program.target,
            self._options.limits,
            figures,
            costs_without(self._costs, without),
            contention,
            probe=probe,
            enough=enough,
            started=self._began,
            together=1 if probe is not None else self._placement.together * self._placement.size,
        )

    def _contention(self, *, rested: bool) -> Contention:
        placement = self._placement
        return Contention(
            sharers=placement.positions * placement.size,
            missing=self._expected.missing,
            later=self._waits_later(self._expected) if self._later is None else self._later,
            merged=self._merged,
            coalesced=self._coalesced,
            met=self._met,
            drifts=self._drifts,
            rested=rested,
            l2=self._l2,
            kept=self._expected.kept,
            equal=self._equal,
            spanned=sum(self._sizes.values()),
        )

    def _waits_later(self, expected: Traffic) -> float:
        return expected.later(self._placement.waves, in_step=not self._drifts)

    def _traffic(
        self,
        loads: Iterable[tuple[Copy, float]],
        stored: Collection[int],
        nanoseconds: float = math.inf,
        own: Sequence[Copy] = (),
    ) -> Traffic:
        capacity = self._gpu.value("l2.soft_capacity_bytes")
        drift = self._gpu.value("l2.drift_root_ns") / math.sqrt(nanoseconds)
        before = stored if self._l2 == "warm" else None
        sweeps = sweeps_of(zip(self._starters, self._first, strict=True), own) if own else ()
        return traffic_of(self._first, loads, self._placement, self._sizes, capacity, drift, before, sweeps)

    def restart(self) -> None:
        """Let the timeout count from now on."""
        self._began = time.monotonic()

    def at(self, mhz: float, *, rested: bool = True, without: str | None = None) -> Timing:
        """Return the time of the launch if the multiprocessors run at ``mhz``.

        Args:
            mhz: their frequency.
            rested: True if the chip has been idle before the launch.
            without: a unit of :data:`~pyptx.sim.clock.freed.UNITS` that has no limit.
        """
        figures = figures_without(self._gpu, mhz, without)
        if self._fault is not None:
            nowhere = Placement(1, 1, 1, 1)
            return Timing(0.0, mhz, nowhere, Traffic(0, 0), 0.0, 0.0, 0.0, 1.0, {}, (), {}, (self._fault,))
        placement = self._placement
        while True:
            timed, rest = self._run(figures, rested=rested, without=without)
            end = rest.end or timed.end
            traffic = self._traffic(
                rest.loads_of(timed), timed.store_places, end / figures.ghz, timed.first_loads
            )
            expected, self._expected = self._expected, traffic
            wrong = max(abs(traffic.missing - expected.missing), abs(traffic.kept - expected.kept))
            # Another share changes the time only where it keeps memory busy, now or with that share, or where
            # what memory fills into L2 keeps the fabric busy. Nothing is busy while the launch starts.
            lasted, whole = (max(1.0, each - figures.start) for each in (timed.end, end))
            busy, reads = timed.shares(lasted), traffic.fetched / figures.memory / whole
            filled = wrong * figures.fill > _SETTLED and busy["fabric"] > _BUSY
            if wrong <= _SETTLED or (max(reads, busy["HBM"]) < _IDLE and not filled):
                break
        if self._later is None:  # Other clocks, and other limits, must not change what happens.
            self._later = self._waits_later(expected)
        once = sum(load.nbytes for load in timed.loads)
        again = traffic.loaded * timed.again / once if once else 0.0
        shares = timed.shares(timed.end)
        longer = 1.0 + overlap_loss(self._gpu, shares)
        return Timing(
            ((rest.end or timed.end) + timed.backlog) * longer,
            mhz,
            placement,
            replace(traffic, again=again),
            rest.stored(timed) * placement.clusters / len(placement.own),
            timed.flops * rest.flops * placement.times,
            timed.operand_bytes / placement.size / timed.end / longer,
            rest.evenness(timed),
            {name: share / longer for name, share in shares.items()},
            timed.stalls.stalls(),
            timed.stalls.lives,
            () if timed.ended_by is None else (timed.ended_by,),
        )

    def timeline(self, mhz: float, events: int = DEFAULT_EVENTS, *, rested: bool = True) -> Timeline:
        """Return what the clusters of one position do, with times in ns, if the frequency is ``mhz``.

        Args:
            mhz: frequency of the multiprocessors.
            events: the most events that are kept.
            rested: True if the chip has been idle before the launch.

        Raises:
            SpecError: the launch cannot run.
        """
        if self._fault is not None:
            raise SpecError(f"there is no timeline: {self._fault}")
        figures, name = Figures(self._gpu, mhz), self._request.function.name
        recorders: list[TimelineRecorder] = []

        def observed(machine: TimedMachine) -> None:
            recorder = TimelineRecorder(machine, events, _Times(machine))
            machine.observe(recorder)
            ns = 1 / figures.ghz

            def held(
                s: Split, op: str, at: SourceLocation | None, cause: Cause, begin: float, end: float
            ) -> None:
                recorder.held(s.warp.cta.key, s.warp.index, op, at, cause, begin * ns, end * ns)

            machine.stalls.told = held
            recorders.append(recorder)

        timed, rest = self._run(figures, rested=rested, observed=observed)
        placement = self._placement
        notes = [str(finding) for finding in timed.grids[0].account.findings]
        if rest.end:
            notes.append(f"the launch goes on like this until {rest.end / figures.ghz / 1000:.1f} us")
        title = f"{name} on {self._gpu.title} at {mhz:.0f} MHz, predicted"
        if placement.positions > 1:
            title += f" for one of {placement.positions} equal positions"
        return recorders[0].timeline(title, notes)

    def _run(
        self,
        figures: Figures,
        *,
        rested: bool,
        without: str | None = None,
        observed: Callable[[TimedMachine], None] | None = None,
    ) -> tuple[TimedMachine, _Rest]:
        """Run the clusters of one position; ``observed`` is called before with the machine."""
        placement = self._placement
        others = self._hidden | self._alike | self._written
        rest = _Rest(placement, self._sizes, frozenset(self._sizes) - others)
        timed = self._machine(figures, self._contention(rested=rested), None, rest.follows, without)
        if observed is not None:
            observed(timed)
        confine(timed, placement.size)
        self._fill(timed)
        self._run_clusters(timed, list(placement.own), placement.positions)
        timed.leave_waits()
        return timed, rest


class _Times:
    """The times of a timed machine in ns, for a timeline."""

    def __init__(self, machine: TimedMachine) -> None:
        self._machine, self._ghz = machine, machine.figures.ghz

    def now(self) -> float:
        return self._machine.moment / self._ghz

    def block_began(self) -> float:
        return self._machine.block_began / self._ghz


class _Rest:
    """What is left of a launch when it has become periodic.

    Args:
        placement: where its clusters run.
        sizes: the bytes of each array, by its address.
        given: the arrays with contents: what is stored into them, the caller wants to have whole.

    Attributes:
        end: when the launch ends; 0 if it ran to its end.
        flops: how many times the operations that had been done the whole launch does.
    """

    def __init__(self, placement: Placement, sizes: Mapping[int, int], given: frozenset[int]) -> None:
        self._placement, self._bases, self._sizes, self._given = placement, sorted(sizes), sizes, given
        self.end, self.flops, self._own = 0.0, 1.0, 0.0
        # The loads of the last periods, and how often they happen in all.
        self._again, self._times = slice(0), 1.0

    def follows(self, machine: TimedMachine) -> bool:
        """True if the rest of the launch follows from what ``machine`` has done."""
        times = machine.store_times
        # Of clusters that are not equally long, the last ones do not show what the next ones take.
        if self._placement.share is not None:
            return False
        # What is left of the outputs says how much work is left, unless contents decide what is done, or sums
        # are stored part by part. Until L2 is full, stores pass faster than afterwards.
        if machine.steered or machine.adds or not times or not self._given.isdisjoint(self._stored(machine)):
            return False
        since = max(min(times), machine.filled)
        # The pace of memory changes as L2 fills and as CTAs come apart.
        held_up = machine.shares(machine.now)["HBM"] > _BUSY
        known, amounts = math.inf if held_up else machine.known, [copy.nbytes for copy in machine.stores]
        period = find_period(times, amounts, since, known=known)
        if period is not None:
            amounts = first_stored(machine.stores)
            period = find_period(times, amounts, since, known=known)
        if period is None:
            return False
        last = max(times)
        begun = min((each for each in times if each >= since), default=last)
        if last - begun < (_SPAN_EXACT if period.exact else _SPAN) * machine.now:
            return False
        own = self._own = self._own_bytes(machine, period)
        left = own - period.stored
        few = _FEW_EXACT if period.exact else _FEW
        if left < max(_WORTHWHILE * period.stored, few * period.nbytes):
            return False
        self.end = period.end + left / period.rate + machine.figures.store_latency
        inside = [each for each in machine.work_done if period.begin <= each[0] <= period.end]
        (begun, _, loads), (ended, _, further) = inside[0], inside[-1]
        span = (ended - begun) * period.rate
        # Operations for each stored byte, by a line through all stores: a period may begin and end anywhere
        # in a tile.
        flops = np.array([each[1] for each in machine.work_done], float)
        slope = np.polyfit(np.cumsum(amounts, dtype=float), flops, 1)[0]
        self.flops = float(slope) * own / max(1, machine.flops)
        self._again, self._times = slice(loads, further), 1.0 + left / span
        return True

    def loads_of(self, machine: TimedMachine) -> Iterator[tuple[Copy, float]]:
        """Return the loads of the position, and how often each happens.

        What was loaded before the last periods, such as vectors that a CTA keeps, is not loaded again.
        """
        again = self._again
        for load in machine.loads[: again.stop] if self.end else machine.loads:
            yield load, 1.0
        for load in machine.loads[again] if self.end else ():
            yield load, self._times - 1.0

    def stored(self, machine: TimedMachine) -> float:
        """Return the bytes that the position stores in all."""
        return self._own if self.end else machine.stored

    def evenness(self, machine: TimedMachine) -> float:
        """Return the mean work of the places of clusters over that of the position's.

        Of clusters that run one after the other, by their number. Of clusters that all run at once, by the
        bytes that they store, if every byte of the outputs is stored once: if the mean comes out below a
        half, several clusters store the same bytes.
        """
        waves, share = self._placement.waves, self._placement.share
        if share is not None:
            return share.evenness
        if waves > 1:
            return waves / math.ceil(waves)
        own = self.stored(machine) * self._placement.positions
        mean = self._stored_arrays(machine) / own if own else 1.0
        return mean if _HALF < mean < 1 else 1.0

    def _own_bytes(self, machine: TimedMachine, period: Period) -> float:
        """Return the bytes that the position stores in all."""
        placement, total = self._placement, self._stored_arrays(machine)
        if placement.clusters > placement.positions * placement.together:
            return total * len(placement.own) / placement.clusters
        if not period.nbytes:
            return total / placement.positions
        left = total / placement.positions - period.base
        return period.base + math.ceil(left / period.nbytes - _PARTIAL) * period.nbytes

    def _stored_arrays(self, machine: TimedMachine) -> float:
        """Return the bytes of the arrays into which the position stores."""
        return float(sum(self._sizes[base] for base in self._stored(machine)))

    def _stored(self, machine: TimedMachine) -> set[int]:
        """Return the arrays into which the position stores, by their addresses."""
        return {self._bases[bisect_right(self._bases, place) - 1] for place in machine.store_places}


def _seen_enough(machine: TimedMachine) -> bool:
    """True if clusters count as equally long, or one may wait for others that do not run."""
    lived, live = machine.stalls.lengths, machine.residency.live
    shortest = min((cycles for cta, cycles in lived.items() if cta not in live), default=0.0)
    return machine.now - machine.figures.start > max(_LASTS, _LONGEST * shortest)


def _check_target(target: Target, gpu: Gpu) -> None:
    own = int(gpu.target[3:].rstrip("af"))
    if target.number == own if target.suffix else target.number <= own:
        return
    raise SpecError(
        f"the kernel is for {target.name}, but the {gpu.title} is {gpu.target}",
        hint="build the kernel for this target, or predict for another GPU",
    )
