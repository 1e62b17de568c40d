"""tcgen05: allocation, loads, stores, copies, shifts and commits of tensor memory.

Without a wait, the pairs of instructions in :mod:`pyptx.sim.tcgen05.order` are ordered, and a commit is
ordered after the thread's earlier mma, cp and shift. A load is not ordered until a wait covers it; but an
instruction that accesses the load's registers finds the loaded values.  PTX ISA
#tcgen05-memory-consistency-model.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.findings import RULES, Finding
from ...core.tuples import NamedTuple
from ...layout.tensor_memory import fragment
from ..code.propagation import taken
from ..code.semantic import Op, executes
from ..engine.events import AsyncOperation, Engine, Step, StepKind, nothing
from ..engine.stream import FenceKind, GroupKind, SyncKind
from ..engine.waits import Awaited, Condition, StepsDone
from ..memory.access import AccessKind
from ..memory.mbarrier import MBarrier, Signal, SignalOrigin
from ..numbers.extremes import extreme
from ..numbers.single import canonical
from ..tcgen05 import (
    Commit,
    Copy,
    PairRequest,
    cell_at,
    execute_as_pair,
    group_of,
    shift_down,
)
from ..tcgen05.tensor_memory import TensorMemory, find_room
from ..tcgen05.transfers import TensorTransfers
from ..tcgen05.undefined_cells import missing_bits, note_loaded, stored
from ..threads.events import announce_fence, announce_sync
from ..threads.warp import Split
from .mbarrier import live_barrier

if TYPE_CHECKING:
    from ..threads.cta import CTA


def _uniform(s: Split, op: Op, value: Any) -> int:
    values = np.atleast_1d(value)
    if (values != values[0]).any():
        raise s.warp.cta.machine.fault(
            "divergent-collective", f"{op.name}: an operand is not the same in all lanes", s
        )
    return int(values[0])


@executes("tcgen05.alloc", "tcgen05.alloc.exclusive", per="warp", yields=True, collective="warp")
def alloc(s: Split, op: Op, lanes: Any, dst: Any, columns: Any) -> Condition | None:
    group = group_of(s, op)
    cta = s.warp.cta
    address, count, exclusive = _uniform(s, op, dst), _uniform(s, op, columns), _exclusive(op)
    cta.unit(TensorMemory).request(count, exclusive, s)
    announce_sync(s, SyncKind.TENSOR_ALLOCATE, cta.key, lanes=lanes, amount=count)
    tensors = [each.unit(TensorMemory) for each in group]
    storages = [each.storage for each in tensors]
    # Both CTAs of a pair pass the same offset (CUTLASS cute/arch/tmem_allocator_sm100.hpp).
    segment, offset = cta.machine.memory.access(AccessKind.PROBE, op.space, address, 4, s, cta.cluster_memory)
    if segment is not cta.shared:
        where = f"the shared memory of CTA {cta.coordinates}"
        raise cta.machine.fault("out-of-bounds", f"{op.name}: {address:#x} is not in {where}", s)

    def take(first: int) -> None:
        s.op = op
        cta.unit(TensorMemory).allocate(first, count, exclusive, s)
        segment, offset = cta.machine.memory.access(
            AccessKind.WRITE, op.space, address, 4, s, cta.cluster_memory
        )
        segment.words(4)[int(offset) // 4] = first

    def room() -> int | None:
        return find_room(storages, count, exclusive) if all(each.may_allocate for each in tensors) else None

    return execute_as_pair(
        group,
        PairRequest(s, op.name, f"of {count} columns to offset {int(offset):#x}", take),
        room,
        lambda: (
            f"{count} columns of tensor memory; allocated: "
            + "; ".join(dict.fromkeys(storage.describe() for storage in storages))
        ),
    )


def _exclusive(op: Op) -> bool:
    return "exclusive" in op.chosen


@executes("tcgen05.dealloc", "tcgen05.dealloc.exclusive", per="warp", yields=True, collective="warp")
def dealloc(s: Split, op: Op, lanes: Any, address: Any, columns: Any) -> Condition | None:
    """Free columns of tensor memory. With a CTA pair, wait until the peer CTA executes its dealloc too.

    The manual allows this wait but does not promise it. The simulator always waits, so it finds kernels that
    rely on a dealloc without a wait.
    """
    group = group_of(s, op)
    tensor = s.warp.cta.unit(TensorMemory)
    where, count = _uniform(s, op, address), _uniform(s, op, columns)
    first = tensor.check_free(where, count, _exclusive(op), s)
    for each in group:
        each.unit(TensorMemory).announce_free(first, count, s)
    announce_sync(s, SyncKind.TENSOR_FREE, s.cta_key, lanes=lanes, amount=count)
    request = PairRequest(s, op.name, f"of {count} columns at {where:#x}", tensor.free)
    return execute_as_pair(group, request, lambda: first, lambda: "")


@executes("tcgen05.relinquish_alloc_permit", per="warp", yields=True, collective="warp")
def relinquish(s: Split, op: Op, lanes: Any) -> Condition | None:
    tensor = s.warp.cta.unit(TensorMemory)
    announce_sync(s, SyncKind.TENSOR_FREE, s.cta_key, lanes=lanes)
    request = PairRequest(s, op.name, "", lambda _: tensor.relinquish())
    return execute_as_pair(group_of(s, op), request, lambda: 0, lambda: "")


# --- commit, cp, shift --------------------------------------------------------------------------


@executes("tcgen05.commit", per="lane")
def commit(s: Split, op: Op, lane: int, mbar: int, mask: int | None = None) -> None:
    group_of(s, op)
    cta = s.warp.cta
    if mask is None:
        barriers = [live_barrier(s, op, mbar)]
    else:
        barriers = [_barrier_of(s, op, mbar, rank) for rank in range(32) if mask >> rank & 1]
    operation = cta.machine.operation(s, Engine.MMA, group=GroupKind.TCGEN05_COMMIT)
    mine = cta.unit(TensorMemory).issued_by(s.warp.index, lane)
    restricted = "restrict" in op.chosen
    before = mine.reading() if restricted else mine.tracked()
    origin = SignalOrigin() if restricted else Commit(mine, mine.commits + 1)
    signals = [
        Step(operation, StepKind.SIGNAL, nothing, before, Signal(barrier, arrivals=1, origin=origin))
        for barrier in barriers
    ]
    if not restricted:
        mine.commit(signals)
    cta.machine.issue(cta, signals)
    for barrier, signal in zip(barriers, signals, strict=True):
        rank = barrier.address >> 24
        if rank != cta.rank:
            cta.cluster.ctas[rank].unit(TensorMemory).concern([signal])


def _barrier_of(s: Split, op: Op, address: int, rank: int) -> MBarrier:
    """Return the mbarrier of the cluster's CTA ``rank`` at the shared-memory offset in ``address``."""
    cta = s.warp.cta
    _, offset = cta.machine.memory.access(AccessKind.PROBE, op.space, address, 8, s, cta.cluster_memory)
    there = cta.cluster_memory.get(rank)
    if there is None:
        why = (
            f"the CTA of rank {rank} has exited"
            if rank in cta.cluster_memory.ended
            else f"no CTA has rank {rank}"
        )
        raise cta.machine.fault("out-of-bounds", f"{op.name}: {why} in the cluster", s)
    found = there.barriers.get(int(offset))
    if found is None:
        raise cta.machine.fault(
            "mbarrier-misuse", f"{op.name}: no mbarrier was initialized at {address:#x} of rank {rank}", s
        )
    return found


def issue(s: Split, group: tuple[CTA, ...], steps: list[Step]) -> None:
    """Put the steps of an operation in flight that uses the tensor memory of the CTAs in ``group``."""
    cta = s.warp.cta
    cta.machine.issue(cta, steps)
    for each in group:
        each.unit(TensorMemory).concern(steps, own=each is cta)


@executes("tcgen05.cp", per="lane")
def cp(s: Split, op: Op, lane: int, address: int, descriptor: int) -> None:
    group = group_of(s, op)
    cta, chosen = s.warp.cta, op.chosen
    operation = cta.machine.operation(s, Engine.CP, takes_padding=True, group=GroupKind.TCGEN05_COMMIT)
    shape = chosen["shape"]
    work = Copy(group, address, descriptor, shape, chosen.get("multicast"), chosen.get("src_fmt"))
    mine = cta.unit(TensorMemory).issued_by(s.warp.index, lane)
    read = Step(operation, StepKind.READ, lambda: work.read(operation), [])
    before, assumed = mine.before_copy(refresh=shape == "4x256b")
    write = Step(operation, StepKind.WRITE, lambda: work.write(operation), [read, *before], assumed=assumed)
    mine.copy(write)
    issue(s, group, [read, write])


@executes("tcgen05.shift", per="lane")
def shift(s: Split, op: Op, lane: int, address: int) -> None:
    group = group_of(s, op)
    cta = s.warp.cta
    operation = cta.machine.operation(s, Engine.MMA, group=GroupKind.TCGEN05_COMMIT)
    mine = cta.unit(TensorMemory).issued_by(s.warp.index, lane)
    step = Step(operation, StepKind.SHIFT, lambda: shift_down(group, address, operation), mine.before_shift())
    mine.shift(step)
    issue(s, group, [step])


# --- loads and stores ---------------------------------------------------------------------------


class _Access(NamedTuple):
    """The cells of tensor memory that a tcgen05 load or store accesses, as ``[registers, threads]``.

    ``rows``: all lanes of tensor memory that the access uses.
    ``windows``: the ranges of columns that the access uses, each as first column and width.

    Columns count from the first column of the access.
    """

    rows: Any
    lanes: NDArray[np.int64]
    columns: NDArray[np.int64]
    windows: tuple[tuple[int, int], ...]

    @property
    def nbytes(self) -> int:
        """Number of bytes of the cells, without the second cells that packed halves use."""
        return 4 * self.lanes.size

    def check(self, s: Split, kind: AccessKind, first: int, operation: AsyncOperation) -> None:
        """Check the access. The caller follows unwritten cells that it loads to their use."""
        tensor = s.warp.cta.unit(TensorMemory)
        for start, width in self.windows:
            tensor.check(kind, self.rows, first + start, width, operation, used=False)


def _access(s: Split, op: Op, address: Any, lanes: Any, split: Any, packed: bool) -> tuple[_Access, int]:
    """Return the cells that a tcgen05 load or store accesses, and its first column of tensor memory."""
    lane, first = cell_at(s.warp.cta, _uniform(s, op, address), s)
    quarter = 32 * (s.warp.index % 4)
    if lane < 32 and quarter:
        lane = _in_quarter(s, lane, quarter)
    key = (quarter, lane, s.mask)
    known = op.cache.get(key)
    if known is None:
        known = op.cache[key] = _planned(s, op, lane, lanes, split, packed)
    return known, first


def _in_quarter(s: Split, lane: int, quarter: int) -> int:
    """Report an address in the first quarter of the lanes. Return the lane in the warp's own quarter.

    The hardware always uses the warp's own quarter of the lanes. Kernels in production on B200s (DeepGEMM's
    epilogues) pass an address in the first quarter in all warps. The manual requires an address in the warp's
    own lanes.
    """
    s.warp.cta.machine.report(
        Finding(
            RULES["tensor-memory-lane"],
            f"lane {lane} in warp {s.warp.index}, which can access only lanes {quarter}..{quarter + 31}: "
            f"used as lane {quarter + lane}",
            s.location,
            s.description(),
        )
    )
    return quarter + lane


def _planned(s: Split, op: Op, lane: int, lanes: Any, split: Any, packed: bool) -> _Access:
    shape = op.chosen["shape"]
    num = int(op.chosen["num"][1:])
    each = 2 if packed else 1
    offset = None if split is None else int(split)
    cells, columns = fragment(shape, num, None if offset is None else 0)
    height = int(cells.max()) + 1
    quarter = 32 * (s.warp.index % 4)
    if not quarter <= lane or lane + height > quarter + 32:
        raise s.warp.cta.machine.fault(
            "tensor-memory",
            f"{op.name} at lane {lane}: warp {s.warp.index} can access only lanes {quarter}..{quarter + 31}",
            s,
        )
    width = each * (int(columns.max()) + 1)
    windows: tuple[tuple[int, int], ...] = ((0, width),)
    columns = columns * each
    if offset is not None:
        # Two accesses: the lower half of the warp at the address, the upper half `offset` columns further.
        columns = columns + offset * (np.arange(32) >= 16)
        windows = ((0, width), (offset, width))
    rows: Any = slice(lane, lane + height)
    if len(lanes) < 32:
        # A warp with fewer threads touches only its threads' cells.
        cells, columns = cells[:, lanes], columns[:, lanes]
        rows = np.unique(cells) + lane
    return _Access(rows, cells + lane, columns, windows)


_LOW = np.uint32(0xFFFF)


@executes(
    "tcgen05.ld.32x32b",
    "tcgen05.ld.16x64b",
    "tcgen05.ld.16x128b",
    "tcgen05.ld.16x256b",
    "tcgen05.ld.16x32bx2",
    per="warp",
    collective="warp",
    deferred=True,
    held=("r",),
)
def ld(s: Split, op: Op, lanes: Any, address: Any, split: Any = None) -> None:
    packed = "pack" in op.chosen
    access, first = _access(s, op, address, lanes, split, packed)
    operation = s.warp.cta.machine.operation(s, Engine.LD, group=GroupKind.TCGEN05_LD)
    tensor, frame = s.warp.cta.unit(TensorMemory), s.frame
    cells, threads = tensor.cells, lanes.copy()
    where = _registers(op.dests["r"], lanes)

    def read() -> None:
        access.check(s, AccessKind.READ, first, operation)
        columns = access.columns + first
        words = cells[access.lanes, columns]
        if packed:
            words = words & _LOW | cells[access.lanes, columns + 1] << np.uint32(16)
        frame.u32[where] = words
        found = missing_bits(tensor, access.lanes, columns, packed=packed)
        note_loaded(operation, tensor, frame, op.dests["r"], threads, access.lanes, found)

    _load(s, op, Step(operation, StepKind.READ, read, [], nbytes=access.nbytes), "r")


@executes(
    "tcgen05.ld.red.32x32b",
    "tcgen05.ld.red.16x32bx2",
    per="warp",
    collective="warp",
    deferred=True,
    held=("r", "redval"),
)
def ld_red(s: Split, op: Op, lanes: Any, address: Any, split: Any = None) -> None:
    """Load each thread's registers, and return the minimum or maximum of the values that it loaded."""
    access, first = _access(s, op, address, lanes, split, False)
    operation = s.warp.cta.machine.operation(s, Engine.LD, group=GroupKind.TCGEN05_LD)
    tensor, frame = s.warp.cta.unit(TensorMemory), s.frame
    cells, threads = tensor.cells, lanes.copy()
    where, reduced = _registers(op.dests["r"], lanes), _registers((op.dests["redval"],), lanes)
    chosen = op.chosen

    def read() -> None:
        access.check(s, AccessKind.READ, first, operation)
        columns = access.columns + first
        words = cells[access.lanes, columns]
        frame.u32[where] = words
        frame.u32[reduced] = _extreme(words, chosen)
        bits, _ = missing_bits(tensor, access.lanes, columns, packed=False)
        note_loaded(operation, tensor, frame, op.dests["r"], threads, access.lanes, (bits, columns))
        # The extreme depends on all registers of a thread: its origin is the first undefined one's.
        first_bad = np.argmax(bits != 0, axis=0)[None], np.arange(len(threads))[None]
        found = bits[first_bad], columns[first_bad]
        note_loaded(operation, tensor, frame, (op.dests["redval"],), threads, access.lanes[first_bad], found)

    _load(s, op, Step(operation, StepKind.READ, read, [], nbytes=access.nbytes), "r", "redval")


def _extreme(words: NDArray[np.uint32], chosen: dict[str, str]) -> NDArray[np.uint32]:
    """Return the minimum or maximum of the registers of each thread; ``words`` is ``[register, thread]``."""
    largest = chosen["redOp"] == "max"
    if chosen["type"] != "f32":
        values = words.view(np.int32 if chosen["type"] == "s32" else np.uint32)
        found: NDArray[Any] = values.max(0) if largest else values.min(0)
        return found.view(np.uint32)
    floats = (words & np.uint32(0x7FFFFFFF) if "abs" in chosen else words).view(np.float32)
    result = reduce(partial(extreme, largest, "NaN" in chosen), floats)
    return np.asarray(canonical(result)).view(np.uint32)


def _registers(dests: Any, lanes: Any) -> Any:
    """Return the index with which numpy selects these registers of these lanes in the frame's 32-bit rows."""
    targets = np.array([d.row for d in dests])
    if len(lanes) < 32:
        return (targets[:, None], lanes)
    whole = len(targets) == targets[-1] - targets[0] + 1 and (np.diff(targets) == 1).all()
    return slice(targets[0], targets[-1] + 1) if whole else targets


def _load(s: Split, op: Op, step: Step, *names: str) -> None:
    rows = frozenset(place.row for name in names for place in np.ravel(op.dests[name]).tolist())
    s.warp.unit(TensorTransfers).load(s, step, rows)
    s.warp.cta.machine.issue(s.warp.cta, [step])


@executes(
    "tcgen05.st.32x32b",
    "tcgen05.st.16x64b",
    "tcgen05.st.16x128b",
    "tcgen05.st.16x256b",
    per="warp",
    collective="warp",
    undefined=taken("r"),
)
def st(s: Split, op: Op, lanes: Any, address: Any, values: Any) -> None:
    _store(s, op, lanes, address, None, values)


@executes("tcgen05.st.16x32bx2", per="warp", collective="warp", undefined=taken("r"))
def st_twice(s: Split, op: Op, lanes: Any, address: Any, split: Any, values: Any) -> None:
    _store(s, op, lanes, address, split, values)


def _store(s: Split, op: Op, lanes: Any, address: Any, split: Any, values: Any) -> None:
    unpacked = "unpack" in op.chosen
    access, first = _access(s, op, address, lanes, split, unpacked)
    cta = s.warp.cta
    operation = cta.machine.operation(s, Engine.ST, group=GroupKind.TCGEN05_ST)
    tensor = cta.unit(TensorMemory)
    cells, undefined = tensor.cells, stored(s, op)
    # The instruction reads its registers at issue: a later write to them does not change the stored values.
    held = np.array(values, np.uint32)

    def write() -> None:
        access.check(s, AccessKind.WRITE, first, operation)
        columns = access.columns + first
        if unpacked:
            # Each 16 bits go to one cell; the cell's upper half becomes zero.
            cells[access.lanes, columns] = held & _LOW
            cells[access.lanes, columns + 1] = held >> np.uint32(16)
        else:
            cells[access.lanes, columns] = held
        if undefined is not None:
            undefined.write(tensor, access.lanes, columns, 0xFFFF if unpacked else 0xFFFFFFFF)
            if unpacked:
                undefined.write(tensor, access.lanes, columns + 1, 0xFFFF0000)

    step = Step(operation, StepKind.WRITE, write, [], nbytes=access.nbytes)
    s.warp.unit(TensorTransfers).store(step)
    cta.machine.issue(cta, [step])


# --- waits and fences ---------------------------------------------------------------------------


@executes("tcgen05.wait", per="warp", yields=True, collective="warp")
def wait(s: Split, op: Op, lanes: Any) -> StepsDone | None:
    loads = op.chosen["op"] == "wait::ld"
    pending = s.warp.unit(TensorTransfers).in_flight(loads=loads)
    group, frozen = GroupKind.TCGEN05_LD if loads else GroupKind.TCGEN05_ST, lanes.copy()

    def leave() -> None:
        s.op = op
        announce_sync(s, SyncKind.GROUP_WAIT, group, lanes=frozen)

    if not pending:
        leave()
        return None
    what = "tcgen05.ld" if loads else "tcgen05.st"
    return StepsDone(what, pending, leave, awaited=Awaited.TENSOR_MEMORY)


@executes("tcgen05.fence", fidelity="ordering", per="warp")
def fence(s: Split, op: Op, lanes: Any) -> None:
    """Execute ``tcgen05.fence``: order operations of synchronized threads as if one thread issued them."""
    after = op.chosen["op"] == "fence::after_thread_sync"
    announce_fence(s, op, lanes, FenceKind.TCGEN05_AFTER if after else FenceKind.TCGEN05_BEFORE)
    tensor = s.warp.cta.unit(TensorMemory)
    released = tensor.released
    if after:
        if released.in_flight():
            for lane in lanes.tolist():
                tensor.issued_by(s.warp.index, lane).learn(released)
        return
    for lane in lanes.tolist():
        if (s.warp.index, lane) in tensor.issued:
            released.learn(tensor.issued_by(s.warp.index, lane))
