"""What the probes share: how one is declared, and the steps that every kernel of them is made of.

A probe is a generator of cases under :func:`probe`; its docstring explains it.  A case is a kernel, its
inputs, and what it must write, computed with numpy.  All kernels are one CTA of four warps (or a pair of
such) that walk along the same path, each step a function here::

    global --TMA--> shared      Operand.load          (boxes as wide as the swizzle, one behind the other)
    shared --mma--> tensor      multiply              (one instruction for each step of K)
    global --> tensor           load_cells, fill      (through registers: thread t writes lane t)
    tensor --> global           store_cells           (thread t reads lane t)

between :func:`begin`, which allocates tensor memory and makes the barriers, and :func:`end`, which frees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pyptx import InstructionDescriptor, Kernel, Layout, OperandTile, Tile, b32, b64, kernel, ptx, reg, smem

#: What :func:`fill` writes: a number that no product here comes near.
FILL = -77777.0
#: Most columns that one tcgen05.ld or .st moves here: as many registers of each thread.
_CHUNK = 64


# --- probes and cases -----------------------------------------------------------------------------


@dataclass
class Case:
    """One kernel, and what it must do.

    Attributes:
        label: what sets it apart from the probe's other cases.
        kernel: writes one output.
        inputs: its arrays.
        expected: what the output must hold, as numbers.
        bound: how far from that each number may be; 0 where the result is exact.
    """

    label: str
    kernel: Kernel
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray
    bound: Any = 0.0

    def poisoned(self) -> np.ndarray:
        """Return an array for the output, filled with a pattern that marks elements that are not written."""
        (spec,) = self.kernel.options.specs[self.kernel.options.inputs :]
        return np.full(spec.shape({}), -1, np.int32).view(np.float32 if spec.dtype.kind == "f" else np.uint32)

    def error(self, output: np.ndarray) -> float:
        """Largest error as a fraction of the bound: 0 is exact, above 1 is wrong."""
        found = output.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.abs(found - self.expected) / self.bound
        # Infinities are equal without a difference; what is no number is infinitely wrong.
        return float(
            np.where(found == self.expected, 0, np.nan_to_num(error, nan=np.inf, posinf=np.inf)).max()
        )


@dataclass
class Probe:
    """A primitive, and the cases that show it."""

    name: str
    theme: str
    shows: str
    text: str
    cases: Callable[[], Iterator[Case]] = field(repr=False)


#: All probes by name.
PROBES: dict[str, Probe] = {}


def probe(cases: Callable[[], Iterator[Case]]) -> Callable[[], Iterator[Case]]:
    """Register a generator of cases: its name, and its docstring as what it shows and why."""
    shows, _, text = (cases.__doc__ or "").partition("\n\n")
    name = cases.__name__.replace("_", "-")
    theme = cases.__module__.rpartition(".")[2]
    PROBES[name] = Probe(name, theme, " ".join(shows.split()), " ".join(text.split()), cases)
    return cases


def launched(*inputs: Tile, out: Tile, **options: Any) -> Callable[[Callable[..., None]], Kernel]:
    """``@kernel`` for one CTA of four warps."""
    options = {"block": (128,), "arch": "sm_100a", **options}
    return kernel(in_specs=inputs, out_specs=(out,), **options)


def cells(columns: int, dtype: Any = b32, ctas: int = 1) -> Tile:
    """The specification of an array of cells: 128 lanes, of each of the CTAs."""
    return Tile(128 * ctas, columns, dtype)


# --- the frame of a kernel ------------------------------------------------------------------------


class Stage(NamedTuple):
    """What :func:`begin` sets up: registers of the kernel, and numbers."""

    warp: Any
    #: Whether this is warp 0, of which one thread issues what a single thread issues.
    leads: Any
    #: Address of the first column, lane 0; and the same in the first lane that this warp reaches.
    base: Any
    mine: Any
    #: This thread's row of inputs and outputs: its number, in the second CTA of a pair 128 more.
    row: Any
    #: The CTA's rank in its cluster; None without one.
    rank: Any
    columns: int
    #: cta_group of every tcgen05 instruction.
    group: int


def begin(columns: int, *barriers: Any, arrivals: int | Sequence[int] = 1, pair: bool = False) -> Stage:
    """Allocate tensor memory, initialize barriers, and hand both to all threads, with ``pair`` of both
    CTAs."""
    counts = [arrivals] * len(barriers) if isinstance(arrivals, int) else arrivals
    tid = ptx.special.tid.x()
    warp = tid >> 5
    leads = warp == 0
    group = 2 if pair else 1
    slot = smem.alloc(1, b32)
    with ptx.if_(leads):
        ptx.tcgen05.alloc(slot, columns, group)
        ptx.tcgen05.relinquish_alloc_permit(group)
        with ptx.if_(ptx.warp.elect()):
            for mbar, count in zip(barriers, counts, strict=True):
                ptx.mbarrier.init(mbar, count)
            ptx.fence.mbarrier_init()
    hand_over(pair)
    base = smem.load(b32, slot)
    mine = ptx.tcgen05.address(base, lane=(warp & 3) << 5)
    rank = ptx.cluster.rank() if pair else None
    row = tid + (rank << 7) if pair else tid
    return Stage(warp, leads, base, mine, row, rank, columns, group)


def end(stage: Stage) -> None:
    """Free the tensor memory when every thread's accesses are complete, in both CTAs of a pair."""
    hand_over(stage.group == 2)
    with ptx.if_(stage.leads):
        ptx.tcgen05.dealloc(stage.base, stage.columns, stage.group)


def hand_over(pair: bool = False) -> None:
    """A barrier across which tensor memory passes from one thread to another: a fence on both sides of it.

    What was issued asynchronously must be known to be complete before, or be ordered by the fences
    themselves.  ``pair``: a barrier of the cluster, for the threads of both CTAs.
    """
    ptx.tcgen05.fence_before_thread_sync()
    if pair:
        ptx.cluster.sync()
    else:
        ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()


def cell(stage: Stage, lane: int = 0, column: int = 0) -> Any:
    """The address of a cell of the allocation."""
    return ptx.tcgen05.address(stage.base, lane=lane, column=column)


def barrier() -> Any:
    """8 bytes for an mbarrier."""
    return smem.alloc(1, b64)


def commit_and_wait(done: Any, phase: int = 0) -> None:
    """For one thread: wait until what it issued so far is complete."""
    ptx.tcgen05.commit(done)
    completed(done, phase)


def completed(done: Any, phase: int = 0) -> None:
    """For any thread: wait for a commit (or arrivals), then touch what was handed over.

    A barrier is asked for the phase that is under way or the one before: a thread that comes two phases late
    cannot tell them apart.  Where several commits follow each other, every thread waits for each, or each has
    a barrier of its own.
    """
    ptx.mbarrier.wait(done, phase)
    ptx.tcgen05.fence_after_thread_sync()


# --- operands in shared memory --------------------------------------------------------------------

_LAYOUTS = {
    "none": Layout.TMA_NONE,
    "32B": Layout.TMA_32B,
    "64B": Layout.TMA_64B,
    "128B": Layout.TMA_128B,
}


def operand(tile: OperandTile, dtype: Any, *, along: int | None = None, across: int = 1) -> Tile:
    """The specification of a matrix in global memory whose boxes make ``tile``.

    K-major: ``[rows, K]``; MN-major: ``[K, rows]``.  Elements smaller than a byte are passed as bytes.  The
    matrix may be larger than the tile: ``along`` elements of the inner extent, ``across`` times the outer
    one.
    """
    outer, inner = (tile.rows, tile.k) if tile.major == "K" else (tile.k, tile.rows)
    width = (along or inner) * tile.element_bits // 8 // dtype.nbytes
    box = (outer, tile.span // dtype.nbytes)
    return Tile(outer * across, width, dtype, _LAYOUTS[tile.swizzle], tma_box=box)


class Operand:
    """A matrix in shared memory: boxes one behind the other, and the descriptor that says so."""

    def __init__(self, tile: OperandTile, matrix: Any) -> None:
        outer, inner = matrix.spec.tma_box
        self.tile, self.matrix, self.inner = tile, matrix, inner
        self.boxes = smem.alloc(
            (outer, inner),
            matrix.dtype,
            swizzle=tile.swizzle,
            align=128,  # what TMA asks for where a swizzle asks for less
            stages=tile.nbytes // (outer * tile.span),
            name=matrix.name.lower(),
        )

    def load(self, loaded: Any, row: Any = 0, column: Any = 0, **options: Any) -> None:
        """One TMA copy for each box, all counted on ``loaded``; the tile begins at ``row``, ``column``."""
        for number, box in enumerate(self.boxes):
            coord = (column + number * self.inner, row)
            ptx.cp.async_.bulk.tensor_2d(
                dst=box, src=self.matrix.tma_desc(), coord=coord, mbar=loaded, **options
            )

    def descriptor(self) -> Any:
        """The descriptor of its beginning."""
        return ptx.tcgen05.smem_descriptor(self.boxes[0], self.tile)


def load(loaded: Any, *operands: Operand) -> None:
    """For one thread: bring operands into shared memory, and wait for them.

    The completion of a TMA load orders its writes for the tensor core: no fence is due.
    """
    ptx.mbarrier.arrive_expect_tx(loaded, sum(matrix.tile.nbytes for matrix in operands))
    for matrix in operands:
        matrix.load(loaded)
    ptx.mbarrier.wait(loaded, 0)


def multiply(
    d: Any, a: Operand, b: Operand, idesc: InstructionDescriptor, add: Any = False, **options: Any
) -> None:
    """D = A @ B.T, plus D where ``add``: one ``tcgen05.mma`` for each step of K.

    Only the first of them may ignore what D holds.
    """
    desc_a, desc_b = a.descriptor(), b.descriptor()
    for k in range(0, b.tile.k, idesc.k):
        step_a = ptx.tcgen05.advance(desc_a, a.tile.k_offset(k)) if k else desc_a
        step_b = ptx.tcgen05.advance(desc_b, b.tile.k_offset(k)) if k else desc_b
        ptx.tcgen05.mma(d, step_a, step_b, idesc, idesc.kind, True if k else add, idesc.cta_group, **options)


# --- cells and registers --------------------------------------------------------------------------


def _row(stage: Stage, matrix: Any) -> Any:
    """Address of this thread's row."""
    row = matrix.ptr + 0
    ptx.inst.mad.wide.u32(row, stage.row, matrix.shape[1] * matrix.dtype.nbytes, row)
    return row


def _chunks(columns: int) -> Iterator[tuple[int, int]]:
    """First column and width of each piece, the widths powers of two."""
    first = 0
    while first < columns:
        width = min(_CHUNK, 1 << (columns - first).bit_length() - 1)
        yield first, width
        first += width


def fill(stage: Stage, word: int | None = None) -> None:
    """Every cell gets :data:`FILL`, or ``word``. Complete when it returns, for this warp."""
    bits = int(np.float32(FILL).view(np.uint32)) if word is None else word
    value = reg.scalar(b32, init=bits)
    for first, width in _chunks(stage.columns):
        ptx.tcgen05.st(ptx.addr(stage.mine, first), [value] * width)
    ptx.tcgen05.wait_st()


def load_cells(stage: Stage, matrix: Any, column: int = 0) -> None:
    """Write a matrix of 32-bit words into tensor memory: thread t its row t. Complete when it returns."""
    row = _row(stage, matrix)
    for first, width in _chunks(matrix.shape[1]):
        words = reg.array(b32, width)
        for i in range(0, width, 4):
            ptx.load(b32, ptx.addr(row, 4 * (first + i)), space="global", out=words[i : i + 4], vector=4)
        ptx.tcgen05.st(ptx.addr(stage.mine, column + first), words)
    ptx.tcgen05.wait_st()


def store_cells(stage: Stage, matrix: Any, column: int = 0) -> None:
    """Write tensor memory to a matrix of 32-bit words: thread t its row t."""
    row = _row(stage, matrix)
    for first, width in _chunks(matrix.shape[1]):
        words = reg.array(b32, width)
        ptx.tcgen05.ld(words, ptx.addr(stage.mine, column + first))
        ptx.tcgen05.wait_ld()  # before any thread may free or overwrite the columns
        store_row(row, words, first)


def store_row(row: Any, words: Any, first: int = 0) -> None:
    """Registers to consecutive words of global memory."""
    step = min(4, len(words))
    for i in range(0, len(words), step):
        ptx.store(ptx.addr(row, 4 * (first + i)), words[i : i + step], space="global")


def store_registers(stage: Stage, matrix: Any, words: Any) -> None:
    """This thread's registers to its row of a matrix of 32-bit words."""
    store_row(_row(stage, matrix), words)
