"""The common parts of the probes: the declaration of a probe, and the steps of the kernels.

A probe is a generator of cases with the decorator :func:`probe`; its docstring explains the instruction that
it shows.  A case is a kernel, its inputs, and the expected output, which numpy computes.  Every kernel runs
on one CTA of four warps (or on a pair of such CTAs) and consists of these steps, each of which is a function
here::

    global --TMA--> shared      Operand.load          (boxes as wide as the swizzle, one after the other)
    shared --mma--> tensor      multiply              (one instruction for each step of K)
    global --> tensor           load_cells, fill      (through registers: thread t writes lane t)
    tensor --> global           store_cells           (thread t reads lane t)

:func:`begin` comes first: it allocates tensor memory and initializes the barriers.  :func:`end` comes last:
it frees the tensor memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pyptx import InstructionDescriptor, Kernel, Layout, OperandTile, Tile, b32, b64, kernel, ptx, reg, smem

#: The value that :func:`fill` writes. It is far from every product in the probes.
FILL = -77777.0
#: The largest number of columns (registers of each thread) that one tcgen05.ld or .st moves here.
_CHUNK = 64


# --- probes and cases -----------------------------------------------------------------------------


@dataclass
class Case:
    """One kernel with its inputs and its expected output.

    Attributes:
        label: name that distinguishes the case from the probe's other cases.
        kernel: the kernel, which has one output.
        inputs: the kernel's input arrays.
        expected: the expected numbers in the output.
        bound: the largest allowed error of each number; 0 if the result must be exact.
    """

    label: str
    kernel: Kernel
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray
    bound: Any = 0.0

    def poisoned(self) -> np.ndarray:
        """Return an output array filled with a pattern that shows which elements the kernel did not write."""
        (spec,) = self.kernel.options.specs[self.kernel.options.inputs :]
        return np.full(spec.shape({}), -1, np.int32).view(np.float32 if spec.dtype.kind == "f" else np.uint32)

    def error(self, output: np.ndarray) -> float:
        """Return the largest error as a fraction of the bound: 0 is exact, above 1 is wrong."""
        found = output.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.abs(found - self.expected) / self.bound
        # Equal infinities have no error, although their difference is NaN; any other NaN counts as infinite.
        return float(
            np.where(found == self.expected, 0, np.nan_to_num(error, nan=np.inf, posinf=np.inf)).max()
        )


@dataclass
class Probe:
    """One primitive (such as an instruction or an option), its explanation, and the cases that show it."""

    name: str
    theme: str
    shows: str
    text: str
    cases: Callable[[], Iterator[Case]] = field(repr=False)


#: All probes by name.
PROBES: dict[str, Probe] = {}


def probe(cases: Callable[[], Iterator[Case]]) -> Callable[[], Iterator[Case]]:
    """Register a generator of cases as a probe with the function's name.

    The first paragraph of the docstring says what the probe shows; the rest explains it.
    """
    shows, _, text = (cases.__doc__ or "").partition("\n\n")
    name = cases.__name__.replace("_", "-")
    theme = cases.__module__.rpartition(".")[2]
    PROBES[name] = Probe(name, theme, " ".join(shows.split()), " ".join(text.split()), cases)
    return cases


def launched(*inputs: Tile, out: Tile, **options: Any) -> Callable[[Callable[..., None]], Kernel]:
    """Return ``@kernel`` with the options of the probes: one CTA of four warps, and sm_100a."""
    options = {"block": (128,), "arch": "sm_100a", **options}
    return kernel(in_specs=inputs, out_specs=(out,), **options)


def cells(columns: int, dtype: Any = b32, ctas: int = 1) -> Tile:
    """Return the specification of an array of cells: 128 lanes for each CTA, and ``columns`` columns."""
    return Tile(128 * ctas, columns, dtype)


# --- the frame of a kernel ------------------------------------------------------------------------


class Stage(NamedTuple):
    """The values that :func:`begin` sets up: registers of the kernel, and Python numbers."""

    #: The warp's number in the CTA.
    warp: Any
    #: Predicate: true in warp 0. One thread of this warp issues the instructions that a single thread issues.
    leads: Any
    #: Address of lane 0, first column of the allocation.
    base: Any
    #: Address of the first lane that this warp can access, first column of the allocation.
    mine: Any
    #: This thread's row of inputs and outputs: the thread's number, plus 128 in the second CTA of a pair.
    row: Any
    #: The CTA's rank in its cluster; None without a cluster.
    rank: Any
    #: Number of allocated columns.
    columns: int
    #: cta_group of every tcgen05 instruction.
    group: int


def begin(columns: int, *barriers: Any, arrivals: int | Sequence[int] = 1, pair: bool = False) -> Stage:
    """Allocate tensor memory, initialize barriers, and make both visible to all threads.

    With ``pair``, these are the threads of both CTAs.  ``arrivals`` is the expected count of each barrier.
    """
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
    """Wait until the accesses of all threads (in both CTAs of a pair) are complete; free tensor memory."""
    hand_over(stage.group == 2)
    with ptx.if_(stage.leads):
        ptx.tcgen05.dealloc(stage.base, stage.columns, stage.group)


def hand_over(pair: bool = False) -> None:
    """Hand tensor memory from one thread to another: a barrier with a tcgen05 fence on both sides.

    Before the call, the threads must wait for asynchronous operations that the fences do not order.  With
    ``pair`` the barrier is that of the cluster, for the threads of both CTAs.
    """
    ptx.tcgen05.fence_before_thread_sync()
    if pair:
        ptx.cluster.sync()
    else:
        ptx.bar.sync(0)
    ptx.tcgen05.fence_after_thread_sync()


def cell(stage: Stage, lane: int = 0, column: int = 0) -> Any:
    """Return the address of a cell, relative to the start of the allocation."""
    return ptx.tcgen05.address(stage.base, lane=lane, column=column)


def barrier() -> Any:
    """Allocate the 8 bytes of an mbarrier in shared memory."""
    return smem.alloc(1, b64)


def commit_and_wait(done: Any, phase: int = 0) -> None:
    """Wait until all mma, cp and shift that this thread issued so far are complete. For one thread."""
    ptx.tcgen05.commit(done)
    completed(done, phase)


def completed(done: Any, phase: int = 0) -> None:
    """Wait for a commit (or for arrivals) on an mbarrier. Then this thread may access the results.

    Any thread may call this function.  A wait distinguishes only the current phase and the phase before,
    because it compares parities.  A thread that is two phases late takes one for the other.  If several
    commits signal one barrier, every thread must wait for each of them; otherwise each commit needs its own
    barrier.
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
    """Return the specification of a matrix in global memory whose boxes make ``tile``.

    The matrix is ``[rows, K]`` if K-major, ``[K, rows]`` if MN-major.  Elements smaller than a byte are
    passed as bytes.  The matrix may be larger than the tile: its inner extent is ``along`` elements, and its
    outer extent is ``across`` times that of the tile.
    """
    outer, inner = (tile.rows, tile.k) if tile.major == "K" else (tile.k, tile.rows)
    width = (along or inner) * tile.element_bits // 8 // dtype.nbytes
    box = (outer, tile.span // dtype.nbytes)
    return Tile(outer * across, width, dtype, _LAYOUTS[tile.swizzle], tma_box=box)


class Operand:
    """A matrix in shared memory: its boxes, one after the other, and its descriptor."""

    def __init__(self, tile: OperandTile, matrix: Any) -> None:
        outer, inner = matrix.spec.tma_box
        self.tile, self.matrix, self.inner = tile, matrix, inner
        self.boxes = smem.alloc(
            (outer, inner),
            matrix.dtype,
            swizzle=tile.swizzle,
            align=128,  # TMA requires 128 bytes; a swizzle may require more
            stages=tile.nbytes // (outer * tile.span),
            name=matrix.name.lower(),
        )

    def load(self, loaded: Any, row: Any = 0, column: Any = 0, **options: Any) -> None:
        """Load the boxes of the tile at ``row``, ``column`` with TMA; ``loaded`` counts their bytes."""
        for number, box in enumerate(self.boxes):
            coord = (column + number * self.inner, row)
            ptx.cp.async_.bulk.tensor_2d(
                dst=box, src=self.matrix.tma_desc(), coord=coord, mbar=loaded, **options
            )

    def descriptor(self) -> Any:
        """Return the shared-memory descriptor of the start of the matrix."""
        return ptx.tcgen05.smem_descriptor(self.boxes[0], self.tile)


def load(loaded: Any, *operands: Operand) -> None:
    """Load operands into shared memory and wait for them. For one thread.

    The completion of a TMA load orders its writes before the reads of the tensor core, so no fence is needed.
    """
    ptx.mbarrier.arrive_expect_tx(loaded, sum(matrix.tile.nbytes for matrix in operands))
    for matrix in operands:
        matrix.load(loaded)
    ptx.mbarrier.wait(loaded, 0)


def multiply(
    d: Any, a: Operand, b: Operand, idesc: InstructionDescriptor, add: Any = False, **options: Any
) -> None:
    """Compute D = A @ B.T, or D += A @ B.T if ``add``, with one ``tcgen05.mma`` for each step of K.

    The first instruction overwrites D unless ``add`` is true; all others add to D.
    """
    desc_a, desc_b = a.descriptor(), b.descriptor()
    for k in range(0, b.tile.k, idesc.k):
        step_a = ptx.tcgen05.advance(desc_a, a.tile.k_offset(k)) if k else desc_a
        step_b = ptx.tcgen05.advance(desc_b, b.tile.k_offset(k)) if k else desc_b
        ptx.tcgen05.mma(d, step_a, step_b, idesc, idesc.kind, True if k else add, idesc.cta_group, **options)


# --- cells and registers --------------------------------------------------------------------------


def _row(stage: Stage, matrix: Any) -> Any:
    """Return the address of this thread's row of ``matrix`` in global memory."""
    row = matrix.ptr + 0
    ptx.inst.mad.wide.u32(row, stage.row, matrix.shape[1] * matrix.dtype.nbytes, row)
    return row


def _chunks(columns: int) -> Iterator[tuple[int, int]]:
    """Split columns into pieces whose widths are powers of two; yield the first column and width of each."""
    first = 0
    while first < columns:
        width = min(_CHUNK, 1 << (columns - first).bit_length() - 1)
        yield first, width
        first += width


def fill(stage: Stage, word: int | None = None) -> None:
    """Write :data:`FILL`, or ``word``, to every cell of this warp's lanes, and wait for these stores."""
    bits = int(np.float32(FILL).view(np.uint32)) if word is None else word
    value = reg.scalar(b32, init=bits)
    for first, width in _chunks(stage.columns):
        ptx.tcgen05.st(ptx.addr(stage.mine, first), [value] * width)
    ptx.tcgen05.wait_st()


def load_cells(stage: Stage, matrix: Any, column: int = 0) -> None:
    """Write a matrix of 32-bit words to tensor memory, and wait. Thread t writes row t to lane t."""
    row = _row(stage, matrix)
    for first, width in _chunks(matrix.shape[1]):
        words = reg.array(b32, width)
        for i in range(0, width, 4):
            ptx.load(b32, ptx.addr(row, 4 * (first + i)), space="global", out=words[i : i + 4], vector=4)
        ptx.tcgen05.st(ptx.addr(stage.mine, column + first), words)
    ptx.tcgen05.wait_st()


def store_cells(stage: Stage, matrix: Any, column: int = 0) -> None:
    """Store tensor memory to a matrix of 32-bit words. Thread t stores lane t to row t."""
    row = _row(stage, matrix)
    for first, width in _chunks(matrix.shape[1]):
        words = reg.array(b32, width)
        ptx.tcgen05.ld(words, ptx.addr(stage.mine, column + first))
        ptx.tcgen05.wait_ld()  # before any thread may free or overwrite the columns
        store_row(row, words, first)


def store_row(row: Any, words: Any, first: int = 0) -> None:
    """Store registers to consecutive words of global memory, the first to word ``first`` of the row."""
    step = min(4, len(words))
    for i in range(0, len(words), step):
        ptx.store(ptx.addr(row, 4 * (first + i)), words[i : i + step], space="global")


def store_registers(stage: Stage, matrix: Any, words: Any) -> None:
    """Store this thread's registers to its row of a matrix of 32-bit words."""
    store_row(_row(stage, matrix), words)
