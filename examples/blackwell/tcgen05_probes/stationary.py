"""tcgen05.mma.ws (weight stationary: B stays in the tensor core) and tcgen05.mma.sp (A is sparse)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyptx import InstructionDescriptor, ZeroColumnMask, f32, ptx

from .matrices import blank, encoded, in_cells, integers
from .product import product, tile_of
from .stage import (
    Case,
    Operand,
    Stage,
    barrier,
    begin,
    cell,
    cells,
    completed,
    end,
    hand_over,
    launched,
    load,
    load_cells,
    operand,
    probe,
    store_cells,
)


def spread(product_: np.ndarray) -> np.ndarray:
    """Return the cells of D of .ws: its columns are split into 128 / M parts, which use all 128 lanes."""
    m = product_.shape[0]
    return np.concatenate(np.split(product_, 128 // m, axis=1))


def _wide(found: np.ndarray, columns: int) -> np.ndarray:
    """Return the cells ``found``, with columns of FILL after them up to ``columns``."""
    whole = blank(columns)
    whole[:, : found.shape[1]] = found
    return whole


@probe
def ws_shapes() -> Iterator[Case]:
    """mma.ws: M = 32, 64 or 128, with N = 64, 128 or 256. D uses all 128 lanes.

    ws means weight stationary: B stays in the tensor core while rows of A pass through it, which suits
    products with few rows. With M = 64, the left half of D's columns is in lanes 0 to 63, and the right half
    in lanes 64 to 127. With M = 32, the columns are split into four quarters. So a product of 32 x 256 takes
    64 columns of tensor memory.
    """
    for m, n in ((32, 64), (32, 256), (64, 128), (128, 64)):
        left, right = integers(m, m, 16, "bf16"), integers(n, n, 16, "bf16")
        idesc = InstructionDescriptor("f16", m, n, "bf16", "bf16", "f32", ws=True)

        def issue(t: Stage, a: Operand, b: Operand, idesc: InstructionDescriptor = idesc) -> None:
            ptx.tcgen05.mma_ws(t.base, a.descriptor(), b.descriptor(), idesc, "f16", False)

        expected = _wide(spread(left @ right.T), n)
        yield product(
            f"{m} x {n}", idesc, left, right, swizzles=("32B", "32B"), expected=expected, issue=issue
        )


@probe
def ws_zero_columns() -> Iterator[Case]:
    """The zero-column mask of mma.ws: columns of B count as zero, while B in memory stays unchanged.

    The mask is a pattern of alternating runs of used and skipped columns, here 4 used and 3 skipped. With M =
    64, the two halves of N are in different lanes. For each half the mask has its own start in the pattern,
    and a bit that says whether the pattern begins with skipped columns.
    """
    used, skipped, starts, skip_first = 4, 3, (0, 2, 0, 0), (False, True, False, False)
    mask = ZeroColumnMask(used, skipped, starts, skip_first)
    for m in (64, 128):
        left, right = integers(m, m, 16), integers(9, 64, 16)
        idesc = InstructionDescriptor("f16", m, 64, "f16", "f16", "f32", ws=True)

        def issue(t: Stage, a: Operand, b: Operand, idesc: InstructionDescriptor = idesc) -> None:
            ptx.tcgen05.mma_ws(
                t.base, a.descriptor(), b.descriptor(), idesc, "f16", False, zero_column_mask=mask
            )

        effective = right.copy()
        width = 64 * m // 128  # columns of a part
        for column in range(64):
            part, place = divmod(column, width)
            place = (place + starts[part]) % (used + skipped)
            if place < skipped if skip_first[part] else place >= used:
                effective[column] = 0
        expected = _wide(spread(left @ effective.T), 64)
        yield product(f"M = {m}", idesc, left, right, swizzles=("32B", "32B"), expected=expected, issue=issue)


@probe
def ws_collector() -> Iterator[Case]:
    """collector::b0 to b3: four buffers, each of which can keep one B.

    fill reads B and keeps it in a buffer; use and lastuse multiply with the B in the buffer, which saves
    reads of B. Here two buffers keep two Bs, and each of two As is multiplied with both. As with the
    collector of A, results never depend on it.
    """
    tile_a, moved = tile_of(64, 16, "f16", swizzle="32B")
    tile_b, _ = tile_of(128, 16, "f16", swizzle="32B")
    idesc = InstructionDescriptor("f16", 32, 64, "f16", "f16", "f32", ws=True)

    @launched(operand(tile_a, moved), operand(tile_b, moved), out=cells(64, f32))
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(64, loaded, done)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            desc_a, desc_b = a.descriptor(), b.descriptor()
            for i, use in enumerate(("fill", "lastuse")):
                for buffer in (0, 1):
                    rows = ptx.tcgen05.advance(desc_a, i * 32 * tile_a.span)
                    columns = ptx.tcgen05.advance(desc_b, buffer * 64 * tile_b.span)
                    d = cell(t, column=32 * i + 16 * buffer)
                    ptx.tcgen05.mma_ws(d, rows, columns, idesc, "f16", False, collector=use, buffer=buffer)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    left, right = integers(1, 64, 16), integers(2, 128, 16)
    parts = [spread(left[i : i + 32] @ right[j : j + 64].T) for i in (0, 32) for j in (0, 64)]
    inputs = (encoded(left, "f16"), encoded(right, "f16"))
    yield Case("", kernel, inputs, np.concatenate(parts, axis=1))


@probe
def ws_a_in_tensor_memory() -> Iterator[Case]:
    """mma.ws with A from tensor memory: each part of D's lanes holds its own copy of A.

    With M = 64, lanes 0 to 63 hold the A for the left half of N, and lanes 64 to 127 the A for the right
    half. An ordinary product has the same A in both. Here the two differ, and each half of D is the product
    with its own A.
    """
    m, n, k, at_a = 64, 128, 16, 64
    left, right = integers(1, 128, k, "bf16"), integers(2, n, k, "bf16")
    tile, moved = tile_of(n, k, "bf16", swizzle="32B")
    idesc = InstructionDescriptor("f16", m, n, "bf16", "bf16", "f32", ws=True, a_in_tensor_memory=True)

    @launched(cells(8), operand(tile, moved), out=cells(64, f32))
    def kernel(A, B, D):
        loaded, done = barrier(), barrier()
        t = begin(128, loaded, done)
        b = Operand(tile, B)
        load_cells(t, A, at_a)
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, b)
            a = ptx.addr(cell(t, column=at_a))
            ptx.tcgen05.mma_ws(t.base, a, b.descriptor(), idesc, "f16", False)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    halves = [left[:m] @ right[: n // 2].T, left[m:] @ right[n // 2 :].T]
    inputs = (in_cells(left, "bf16"), encoded(right, "bf16"))
    yield Case("", kernel, inputs, np.concatenate(halves))


# --- sparse A -------------------------------------------------------------------------------------

#: The possible positions of the two elements that a sparse A keeps of every four.
_KEPT = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def sparse(seed: int, rows: int, k: int, element: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A with its zeros, A as stored, and the 4-bit index of each four elements (tf32: each two)."""
    generator = np.random.default_rng(seed)
    dense, stored = np.zeros((rows, k)), integers(seed, rows, k // 2, element)
    if element == "tf32":
        kept = generator.integers(0, 2, (rows, k // 2))
        np.put_along_axis(dense.reshape(rows, k // 2, 2), kept[:, :, None], stored[:, :, None], 2)
        return dense, stored, np.where(kept, 0b1110, 0b0100)
    kept = np.array(_KEPT)[generator.integers(0, len(_KEPT), (rows, k // 4))]
    np.put_along_axis(dense.reshape(rows, k // 4, 4), kept, stored.reshape(rows, k // 4, 2), 2)
    return dense, stored, kept[:, :, 0] | kept[:, :, 1] << 2


def metadata(indices: np.ndarray, wide: bool) -> np.ndarray:
    """Return the indices of one instruction for 128 rows as cells: 128 lanes and 4 columns.

    With elements of one byte, the 16 indices of row r are in lane r, columns 0 and 1. With ``wide`` elements,
    the 8 indices of row r take one half of two cells in column 0; rows r and r + 8 share these two cells.
    """
    found = np.zeros((128, 4), np.uint32)
    for row, line in enumerate(indices):
        for number, index in enumerate(line):
            if wide:
                lane = row // 16 * 16 + row % 8 + 8 * (number // 4)
                column, bit = 0, 16 * (row // 8 % 2) + 4 * (number % 4)
            else:
                lane, column, bit = row, number // 8, 4 * (number % 8)
            found[lane, column] |= np.uint32(int(index) << bit)
    return found


@probe
def sp_mma() -> Iterator[Case]:
    """mma.sp: memory holds two of every four elements of A, and K doubles.

    For every four elements, 4 bits of metadata in tensor memory say which two are stored; for tf32, they say
    which one of two is stored. One instruction takes 32 bytes of a stored row of A, and twice as many bytes
    of B. The threads write the metadata with tcgen05.st before they hand over to the thread that issues. The
    instruction ignores elements of B that would meet a zero of A, so the product equals that of the A with
    its zeros.
    """
    for kind, element, k in (
        ("f16", "f16", 32),
        ("f16", "bf16", 32),
        ("tf32", "tf32", 16),
        ("f8f6f4", "e4m3", 64),
    ):
        dense, stored, indices = sparse(4, 128, k, element)
        right = integers(5, 64, k, element)
        tile_a, moved = tile_of(128, k // 2, element, swizzle="32B")
        tile_b, _ = tile_of(64, k, element, swizzle="64B")
        idesc = InstructionDescriptor(kind, 128, 64, element, element, "f32", sparse=True)

        @launched(operand(tile_a, moved), operand(tile_b, moved), cells(4), out=cells(64, f32))
        def kernel(A, B, E, D, *, tile_a=tile_a, tile_b=tile_b, idesc=idesc):
            loaded, done = barrier(), barrier()
            t = begin(128, loaded, done)
            a, b = Operand(tile_a, A), Operand(tile_b, B)
            load_cells(t, E, 64)
            hand_over()
            with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
                load(loaded, a, b)
                places = cell(t, column=64)
                ptx.tcgen05.mma_sp(t.base, a.descriptor(), b.descriptor(), places, idesc, idesc.kind, False)
                ptx.tcgen05.commit(done)
            completed(done)
            store_cells(t, D)
            end(t)

        cells_of_e = metadata(indices, kind in ("f16", "tf32"))
        inputs = (encoded(stored, element), encoded(right, element), cells_of_e)
        yield Case(element, kernel, inputs, dense @ right.T)


@probe
def ws_sp() -> Iterator[Case]:
    """mma.ws.sp: a sparse A with weight-stationary B.

    Tensor memory holds a copy of the metadata for each part of D's lanes: four copies for M = 32, two for
    M = 64. The same holds for an A in tensor memory. N is 64 or 128.
    """
    for m, n in ((32, 64), (64, 128), (128, 64)):
        k = 32
        dense, stored, indices = sparse(m, m, k, "f16")
        right = integers(n, n, k)
        tile_a, moved = tile_of(m, k // 2, "f16", swizzle="32B")
        tile_b, _ = tile_of(n, k, "f16", swizzle="64B")
        idesc = InstructionDescriptor("f16", m, n, "f16", "f16", "f32", sparse=True, ws=True)
        width = n * m // 128

        @launched(operand(tile_a, moved), operand(tile_b, moved), cells(4), out=cells(width, f32))
        def kernel(A, B, E, D, *, tile_a=tile_a, tile_b=tile_b, idesc=idesc):
            loaded, done = barrier(), barrier()
            t = begin(128, loaded, done)
            a, b = Operand(tile_a, A), Operand(tile_b, B)
            load_cells(t, E, 64)
            hand_over()
            with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
                load(loaded, a, b)
                places = cell(t, column=64)
                ptx.tcgen05.mma_ws_sp(t.base, a.descriptor(), b.descriptor(), places, idesc, "f16", False)
                ptx.tcgen05.commit(done)
            completed(done)
            store_cells(t, D)
            end(t)

        cells_of_e = metadata(np.tile(indices, (128 // m, 1)), wide=True)
        inputs = (encoded(stored, "f16"), encoded(right, "f16"), cells_of_e)
        yield Case(f"{m} x {n}", kernel, inputs, spread(dense @ right.T))


@probe
def sp_selector() -> Iterator[Case]:
    """The sparsity selector: it selects the column of metadata that an instruction with 16-bit types uses.

    Two instructions of K = 32 pass the same metadata address. Their instruction descriptors have selectors 0
    and 1, so each uses another one of the four columns at this address. So a kernel can store the metadata of
    several instructions at once.
    """
    k = 64
    dense, stored, indices = sparse(6, 128, k, "f16")
    right = integers(7, 64, k)
    tile_a, moved = tile_of(128, k // 2, "f16", swizzle="64B")
    tile_b, _ = tile_of(64, k, "f16", swizzle="128B")
    steps = [
        InstructionDescriptor("f16", 128, 64, "f16", "f16", "f32", sparse=True, sparsity_selector=i)
        for i in range(2)
    ]

    @launched(operand(tile_a, moved), operand(tile_b, moved), cells(4), out=cells(64, f32))
    def kernel(A, B, E, D):
        loaded, done = barrier(), barrier()
        t = begin(128, loaded, done)
        a, b = Operand(tile_a, A), Operand(tile_b, B)
        load_cells(t, E, 64)
        hand_over()
        with ptx.if_(t.leads), ptx.if_(ptx.warp.elect()):
            load(loaded, a, b)
            desc_a, desc_b = a.descriptor(), b.descriptor()
            for i, idesc in enumerate(steps):
                at_a = ptx.tcgen05.advance(desc_a, tile_a.k_offset(16 * i))
                at_b = ptx.tcgen05.advance(desc_b, tile_b.k_offset(32 * i))
                places = cell(t, column=64)
                ptx.tcgen05.mma_sp(t.base, at_a, at_b, places, idesc, "f16", i > 0)
            ptx.tcgen05.commit(done)
        completed(done)
        store_cells(t, D)
        end(t)

    columns = [metadata(indices[:, 8 * i : 8 * i + 8], True)[:, :1] for i in range(2)]
    both = np.concatenate([*columns, np.zeros((128, 2), np.uint32)], axis=1)
    yield Case("", kernel, (encoded(stored, "f16"), encoded(right, "f16"), both), dense @ right.T)
