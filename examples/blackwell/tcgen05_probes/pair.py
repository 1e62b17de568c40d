"""CTA pairs: cta_group::2.

The CTAs with ranks 2i and 2i + 1 of a cluster are a pair.  One thread of one CTA, by convention the CTA with
the even rank (the leader), issues instructions for both.  Both tensor cores work on one product.  Each reads
operands from its own shared memory, at the same offsets, and writes its part of D to its own tensor memory,
at the same address::

                 N = 128                        CTA 0                     CTA 1
             +-------+-------+        A         rows 0 to 127             rows 128 to 255
    M = 256  | CTA 0         | 128    B         columns 0 to 63           columns 64 to 127
             +               +        D         rows 0 to 127, all of N   rows 128 to 255, all of N
             | CTA 1         | 128    barrier   loaded: bytes of both     -
             +-------+-------+                  done: by multicast        done: by multicast

Each CTA loads its own operands.  The leader's barrier counts the bytes of both CTAs, since only the leader
must know that they have arrived.  When the product is complete, a multicast commit signals a barrier in each
CTA. Every tcgen05 instruction of the kernel names cta_group::2, including alloc and dealloc, which a warp of
each CTA executes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pyptx import InstructionDescriptor, OperandTile, b32, f32, ptx, reg, u8, u16, u32

from .matrices import bound, encoded, in_cells, integers, normal
from .product import tile_of
from .scales import SCALES, laid_out, scale_codes
from .stage import (
    FILL,
    Case,
    Operand,
    Stage,
    barrier,
    begin,
    cell,
    cells,
    completed,
    end,
    fill,
    hand_over,
    launched,
    load_cells,
    multiply,
    operand,
    probe,
    store_cells,
)

_PAIR = {"grid": (2,), "cluster": (2,)}


def _leader(mbar: Any) -> Any:
    """Return the address of the same barrier in the pair's even CTA: the address with bit 24 cleared.

    Bit 24 of a shared address is the lowest bit of the CTA's rank.
    """
    return mbar.addr & 0xFEFFFFFF


def load_halves(
    t: Stage, loaded: Any, *operands: Operand, column: Any = 0, whole: Sequence[Operand] = ()
) -> None:
    """Load the CTA's rows of each matrix in ``operands``, and all rows of each matrix in ``whole``.

    One thread of each CTA calls this function.  The leader's barrier counts all bytes.  The function does not
    wait.  Bytes of the other CTA may arrive before the leader expects them: then the pending byte count is
    negative, and the phase stays incomplete until the leader arrives.
    """
    with ptx.if_(t.rank == 0):
        nbytes = sum(matrix.tile.nbytes for matrix in (*operands, *whole))
        ptx.mbarrier.arrive_expect_tx(loaded, 2 * nbytes)
    everyones = _leader(loaded)
    for matrix in operands:
        row = t.rank * matrix.boxes.shape[0]
        matrix.load(everyones, row=row, column=column, cta_group=2)
    for matrix in whole:
        matrix.load(everyones, cta_group=2)


def commit_both(done: Any, mask: int = 0b11) -> None:
    """Commit, and signal the barrier at the offset of ``done`` in every CTA of the mask."""
    ctas = reg.scalar(u16, init=mask)
    ptx.tcgen05.commit(done, multicast=ctas, cta_group=2)


def paired(
    label: str,
    idesc: InstructionDescriptor,
    left: np.ndarray,
    right: np.ndarray,
    *,
    swizzle: str = "64B",
    bound_: Any = 0.0,
    expected: np.ndarray | None = None,
    issue: Callable[[Stage, Operand, Operand], None] | None = None,
) -> Case:
    """Return the case of one product of a CTA pair. The output has the even CTA's lanes first."""
    tile_a, moved = tile_of(left.shape[0] // 2, left.shape[1], idesc.a_type, swizzle=swizzle)
    tile_b, _ = tile_of(right.shape[0] // 2, right.shape[1], idesc.b_type, swizzle=swizzle)
    multiply_ = issue or (lambda t, a, b: multiply(t.base, a, b, idesc))
    columns = idesc.n
    specs = [operand(tile, moved, across=2) for tile in (tile_a, tile_b)]

    @launched(*specs, out=cells(columns, f32, ctas=2), **_PAIR)
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(columns, loaded, done, pair=True)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        fill(t)
        hand_over(pair=True)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load_halves(t, loaded, a, b)
            with ptx.if_(t.rank == 0):
                ptx.mbarrier.wait(loaded, 0)
                multiply_(t, a, b)
                commit_both(done)
        completed(done)
        store_cells(t, D)
        end(t)

    inputs = (encoded(left, idesc.a_type), encoded(right, idesc.b_type))
    product = left @ right.T if expected is None else expected
    return Case(label, kernel, inputs, product, bound_)


def _descriptor(m: int, n: int, kind: str = "f16", element: str = "bf16", **options: Any):
    return InstructionDescriptor(kind, m, n, element, element, "f32", cta_group=2, **options)


@probe
def pair_alloc() -> Iterator[Case]:
    """alloc and dealloc with cta_group::2: a warp of each CTA executes them; both get the same columns.

    Each instruction may block until the other CTA executes it too. A cluster barrier synchronizes the
    accesses of both CTAs before dealloc; after dealloc a CTA may end at once. ld and st have no cta_group,
    because a thread can access only the tensor memory of its own CTA. Here each CTA writes and reads its own
    cells.
    """

    @launched(cells(64, ctas=2), out=cells(64, ctas=2), **_PAIR)
    def kernel(C, D):
        t = begin(512, pair=True)
        load_cells(t, C, 448)
        store_cells(t, D, 448)
        end(t)

    source = np.arange(256 * 64, dtype=np.uint32).reshape(256, 64)
    yield Case("", kernel, (source,), source)


@probe
def pair_mma_256() -> Iterator[Case]:
    """mma of a pair with M = 256: each CTA has half of A, half of B, and 128 rows of D.

    Each tensor core uses only its own half of A, but every row of D needs all of B. Each CTA loads half of
    B's columns, and the hardware supplies both halves to both tensor cores. This is the advantage of pairs: a
    pair loads B once for 256 rows. N is a multiple of 16, up to 256. The issuing CTA passes its descriptors:
    their addresses contain no rank, and mean the same offset in each CTA.
    """
    for kind, element, n, k in (
        ("f16", "bf16", 128, 64),
        ("f16", "f16", 256, 32),
        ("f8f6f4", "e4m3", 64, 64),
    ):
        left, right = integers(1, 256, k, element), integers(2, n, k, element)
        yield paired(f"{element}, N = {n}", _descriptor(256, n, kind, element), left, right)
    left, right = normal(3, 256, 64, "bf16"), normal(4, 128, 64, "bf16")
    idesc = _descriptor(256, 128)
    yield paired("normal numbers", idesc, left, right, swizzle="128B", bound_=bound(left, right))


def folded(product: np.ndarray) -> np.ndarray:
    """Return the cells of both CTAs with M = 128.

    In each CTA, the left half of its 64 rows of D is in lanes 0 to 63, the right half in lanes 64 to 127.
    """
    found = np.full((256, product.shape[1]), FILL)
    half = product.shape[1] // 2
    for cta, rows in enumerate(np.split(product, 2)):
        found[128 * cta : 128 * cta + 64, :half] = rows[:, :half]
        found[128 * cta + 64 : 128 * cta + 128, :half] = rows[:, half:]
    return found


@probe
def pair_mma_128() -> Iterator[Case]:
    """mma of a pair with M = 128: the 64 rows of D in each CTA use all 128 lanes.

    The left half of D's columns is in lanes 0 to 63, the right half in lanes 64 to 127. So N = 128 takes 64
    columns of tensor memory, and all four warps of each CTA share the epilogue. The other columns keep their
    values.
    """
    for n in (64, 128, 256):
        left, right = integers(1, 128, 32, "bf16"), integers(n, n, 32, "bf16")
        yield paired(f"N = {n}", _descriptor(128, n), left, right, expected=folded(left @ right.T))


@probe
def pair_a_in_tensor_memory() -> Iterator[Case]:
    """A of a pair from tensor memory: each CTA holds its own rows of A, at the same address.

    With M = 256, row m of the CTA's part is in lane m. The threads of each CTA write that CTA's part. A
    cluster barrier, with fences on both sides, synchronizes them with the issuing thread.
    """
    n, k, at_a = 64, 32, 64
    left, right = integers(1, 256, k, "bf16"), integers(2, n, k, "bf16")
    tile, moved = tile_of(n // 2, k, "bf16", swizzle="64B")
    idesc = _descriptor(256, n, a_in_tensor_memory=True)

    @launched(cells(k // 2, ctas=2), operand(tile, moved, across=2), out=cells(n, f32, ctas=2), **_PAIR)
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(128, loaded, done, pair=True)
        b = Operand(tile, B)
        load_cells(t, A, at_a)
        hand_over(pair=True)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load_halves(t, loaded, b)
            with ptx.if_(t.rank == 0):
                ptx.mbarrier.wait(loaded, 0)
                desc_b = b.descriptor()
                for step in range(0, k, idesc.k):
                    a = ptx.addr(cell(t, column=at_a + step // 2))
                    at_b = ptx.tcgen05.advance(desc_b, tile.k_offset(step))
                    ptx.tcgen05.mma(t.base, a, at_b, idesc, "f16", step > 0, 2)
                commit_both(done)
        completed(done)
        store_cells(t, D)
        end(t)

    inputs = (in_cells(left, "bf16"), encoded(right, "bf16"))
    yield Case("", kernel, inputs, left @ right.T)


@probe
def pair_disable_output_lane() -> Iterator[Case]:
    """disable-output-lane of a pair: the mask takes eight registers, four for each CTA.

    Bit 0 of the first register is lane 0 of the even CTA; bit 0 of the fifth is lane 0 of the odd CTA.
    """
    words = (0x1, 0, 0xF0F0F0F0, 0, 0xFFFFFFFF, 0, 0, 0x80000001)
    left, right = integers(1, 256, 16, "bf16"), integers(2, 64, 16, "bf16")
    idesc = _descriptor(256, 64)

    def issue(t: Stage, a: Operand, b: Operand) -> None:
        lanes = [reg.scalar(b32, init=word) for word in words]
        multiply(t.base, a, b, idesc, disable_output_lane=lanes)

    expected = left @ right.T
    expected[np.array([words[lane // 32] >> lane % 32 & 1 for lane in range(256)], bool)] = FILL
    yield paired("", idesc, left, right, swizzle="32B", expected=expected, issue=issue)


@probe
def pair_commit() -> Iterator[Case]:
    """commit.multicast::cluster: a mask selects the CTAs in which the commit signals a barrier.

    The barrier has the same offset in each CTA. The leader issues two products. After the first, it commits
    with mask 0b10, which signals only the odd CTA. After the second, it commits with mask 0b01, which signals
    only the even CTA; this commit covers both products, since a commit covers all earlier mma. Each CTA waits
    for its own barrier and stores the columns of one product.
    """
    tile_a, moved = tile_of(128, 32, "bf16", swizzle="64B")
    tile_b, _ = tile_of(32, 32, "bf16", swizzle="64B")
    idesc = _descriptor(256, 64)
    specs = [operand(tile, moved, across=2) for tile in (tile_a, tile_b)]

    @launched(*specs, out=cells(64, f32, ctas=2), **_PAIR)
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(128, loaded, done, pair=True)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load_halves(t, loaded, a, b)
            with ptx.if_(t.rank == 0):
                ptx.mbarrier.wait(loaded, 0)
                multiply(cell(t, column=64), a, b, idesc)
                commit_both(done, 0b10)
                multiply(t.base, a, b, idesc)
                multiply(t.base, a, b, idesc, add=True)
                commit_both(done, 0b01)
        completed(done)
        # The even CTA stores columns 0 to 63, the odd one 64 to 127.
        store_cells(t._replace(mine=t.mine + (t.rank << 6)), D)
        end(t)

    left, right = integers(1, 256, 32), integers(2, 64, 32)
    product = left @ right.T
    expected = np.concatenate([2 * product[:128], product[128:]])
    yield Case("", kernel, (encoded(left, "bf16"), encoded(right, "bf16")), expected)


@probe
def pair_frees_a_stage() -> Iterator[Case]:
    """A loop over K by a pair: the multicast commit frees the stage in both CTAs.

    Both CTAs load each slice into their own stage. The leader waits for the bytes of both CTAs and issues the
    mma. Its commit arrives at `read` in both CTAs, and then each CTA refills its own stage. A GEMM on two
    CTAs has this loop.
    """
    slices, step = 4, 32
    tile_a, moved = tile_of(128, step, "bf16", swizzle="64B")
    tile_b, _ = tile_of(64, step, "bf16", swizzle="64B")
    idesc = _descriptor(256, 128)
    specs = [operand(tile, moved, along=slices * step, across=2) for tile in (tile_a, tile_b)]

    @launched(*specs, out=cells(128, f32, ctas=2), **_PAIR)
    def kernel(A, B, D):
        loaded, read, done = barrier(), barrier(), barrier()
        t = begin(128, loaded, read, done, pair=True)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            phase = reg.scalar(u32, init=0)
            with ptx.for_(0, slices * step, step) as k:
                load_halves(t, loaded, a, b, column=k)
                with ptx.if_(t.rank == 0):
                    ptx.mbarrier.wait(loaded, phase)
                    multiply(t.base, a, b, idesc, add=k != 0)
                    commit_both(read)
                ptx.mbarrier.wait(read, phase)
                phase ^= 1
            with ptx.if_(t.rank == 0):
                commit_both(done)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(3, 256, slices * step, "bf16"), integers(4, 128, slices * step, "bf16")
    yield Case("", kernel, (encoded(left, "bf16"), encoded(right, "bf16")), left @ right.T)


@probe
def pair_cp() -> Iterator[Case]:
    """cp with cta_group::2: one thread issues it, and each CTA copies from its own shared memory.

    The leader issues one 128x128b for both CTAs. The source has the same offset in each CTA, and the
    destination has the same address; the copied data differ.
    """
    tile = OperandTile(128, 16, 8, "K", "none")

    @launched(operand(tile, u8, across=2), out=cells(4, ctas=2), **_PAIR)
    def kernel(S, D):
        loaded, done = barrier(), barrier()
        t = begin(32, loaded, done, pair=True)
        source = Operand(tile, S)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load_halves(t, loaded, source)
            with ptx.if_(t.rank == 0):
                ptx.mbarrier.wait(loaded, 0)
                ptx.tcgen05.cp(t.base, source.descriptor(), "128x128b", cta_group=2)
                commit_both(done)
        completed(done)
        store_cells(t, D)
        end(t)

    source = np.random.default_rng(5).integers(0, 256, (256, 16)).astype(np.uint8)
    yield Case("", kernel, (source,), source.view("<u4"))


def _scaled(idesc: InstructionDescriptor, tiles: Sequence[OperandTile], copy_b: tuple[str, str]):
    """Return the kernel of a block-scaled product. ``copy_b`` is the shape of the cp of B's scales."""
    tile_a, tile_b, tile_sb = tiles
    halves = [operand(tile, u8, across=2) for tile in (tile_a, tile_b, SCALES)]
    at_a, at_b = 256, 260

    @launched(*halves, operand(tile_sb, u8), out=cells(idesc.n, f32, ctas=2), **_PAIR)
    def kernel(A, B, SA, SB, D):
        loaded, done = barrier(), barrier()
        t = begin(512, loaded, done, pair=True)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        scales_a, scales_b = Operand(SCALES, SA), Operand(tile_sb, SB)
        fill(t)
        hand_over(pair=True)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load_halves(t, loaded, a, b, scales_a, whole=(scales_b,))
            with ptx.if_(t.rank == 0):
                ptx.mbarrier.wait(loaded, 0)
                sfa, sfb = cell(t, column=at_a), cell(t, column=at_b)
                ptx.tcgen05.cp(sfa, scales_a.descriptor(), "32x128b", "warpx4", 2)
                ptx.tcgen05.cp(sfb, scales_b.descriptor(), *copy_b, 2)
                multiply(t.base, a, b, idesc, scale_a=sfa, scale_b=sfb, scale_vec="4X")
                commit_both(done)
        completed(done)
        store_cells(t, D)
        end(t)

    return kernel


@probe
def pair_scales() -> Iterator[Case]:
    """Block scales of a pair: each CTA holds the scales of its own rows of A, and of all columns of B.

    The kind is mxf4nvf4. One tcgen05.cp with cta_group::2 copies in both CTAs, each from its own shared
    memory. Each CTA loads the scales of its half of A, and all scales of B, since it multiplies its rows with
    all of B. With M = 128, the two halves of D's columns are in different lanes, and so are the scales of B:
    the scales of the first half are in the lower two quarters of the lanes, those of the second half in the
    upper two. The copy 64x128b.warpx2::01_23 writes this layout.
    """
    for m, n, copy_b in ((256, 128, ("32x128b", "warpx4")), (128, 256, ("64x128b", "warpx2::01_23"))):
        left, right = integers(1, m, 64, "e2m1"), integers(2, n, 64, "e2m1")
        tiles = [OperandTile(rows // 2, 64, 4, "K", "32B") for rows in (m, n)]
        tiles.append(OperandTile(n // 4, 16, 8, "K", "none"))  # 32 rows of 16 bytes for 128 columns of B
        idesc = InstructionDescriptor(
            "mxf4nvf4", m, n, "e2m1", "e2m1", "f32", scale_type="ue4m3", cta_group=2
        )
        codes_a, factors_a = scale_codes(5, m, 4, "ue4m3")
        codes_b, factors_b = scale_codes(6, n, 4, "ue4m3")
        inputs = (
            encoded(left, "e2m1", pairs=True),
            encoded(right, "e2m1", pairs=True),
            np.concatenate([laid_out(half, 0) for half in np.split(codes_a, 2)]),
            np.concatenate([laid_out(part, 0) for part in np.split(codes_b, n // 128)]),
        )
        product = (left * factors_a.repeat(16, 1)) @ (right * factors_b.repeat(16, 1)).T
        expected = product if m == 256 else folded(product)
        yield Case(f"{m} x {n}", _scaled(idesc, tiles, copy_b), inputs, expected)
