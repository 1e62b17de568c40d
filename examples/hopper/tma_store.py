"""A TMA store of results from registers to global memory: the outer product ``D[i, j] = x[i] * y[j]``.

A CTA computes 64 rows and 256 columns of D, in boxes of 64x32 f32 numbers.  The boxes alternate between two
stages of shared memory: the threads write one stage while the TMA engine still reads the other::

            columns ->   0..31    32..63   64..95   96..127               a box in shared memory
            +---------+--------+--------+--------+--------+               row: 128 bytes, 8 pieces of 16
    64 rows |   box   | stage 0| stage 1| stage 0| stage 1| ...       0   | 0 1 2 3 4 5 6 7 |
            +---------+--------+--------+--------+--------+           1   | 1 0 3 2 5 4 7 6 |
                                                                      2   | 2 3 0 1 6 7 4 5 |
    128 threads, each writes half a row of a box: 4 pieces           ...    piece p is at p ^ (row & 7)

    for each box:
      one thread    wait_group.read 1     only the last store may still read shared memory; the store
                                          before it, which used this stage, has finished its reads
      all           barrier               now all threads may write the stage
      all           st.shared.v4          registers -> the stage, swizzled
      all           fence.proxy.async     makes the writes of st visible to the engine
      all           barrier               now all threads have written
      one thread    tensor store of the box, commit_group

* The swizzle makes ``st.shared`` fast: without it, all rows of a box begin in the same bank.  The tensor map
  names the swizzle too, so the engine reverses it.
* Bulk groups belong to a thread: the thread that commits a group must wait for it. * After
``wait_group.read`` the engine has read shared memory.  Then the threads may reuse it, or the CTA may end. *
Edges need no code for the store: the engine does not write elements outside of D.  Loads need guards.

``python examples/hopper/tma_store.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import numpy as np

from pyptx import Layout, Scalar, Tile, bench, f32, kernel, ptx, reg, smem, u32

ROWS, COLUMNS = 64, 32  # extents of a box; 32 columns of f32 are 128 bytes, the span of the swizzle
BOXES = 8  # boxes that a CTA stores, one after the other
STAGES = 2
THREADS = 2 * ROWS
EACH = COLUMNS // 2  # columns that a thread computes


@kernel(
    in_specs=(Tile("M", f32), Tile("N", f32), Scalar(u32), Scalar(u32)),
    out_specs=(Tile("M", "N", f32, Layout.TMA_128B, tma_box=(ROWS, COLUMNS)),),
    grid=lambda M, N: (-(-N // (BOXES * COLUMNS)), -(-M // ROWS)),
    block=(THREADS,),
    arch="sm_90a",
)
def outer(X, Y, rows, columns, D):
    tid = ptx.special.tid.x()
    box = smem.alloc((ROWS, COLUMNS), f32, swizzle="128B", stages=STAGES)
    first_row = ptx.special.ctaid.y() * ROWS
    first_column = ptx.special.ctaid.x() * (BOXES * COLUMNS)
    own_row, own_column = tid >> 1, (tid & 1) * EACH
    engine = tid == 0

    def four_of_y(first):
        """Load ``Y[first : first + 4]``, or zeros past the end of Y."""
        values = reg.array(f32, 4)
        for value in values:
            value.set(0.0)
        # N is a multiple of 4 (a row's pitch is a multiple of 16 bytes): all four elements are inside, or
        # none.
        ptx.inst.ld.global_.v4.f32(values, Y.at(first), pred=first < columns)
        return values

    row = first_row + own_row
    x = reg.scalar(f32, init=0.0)
    ptx.inst.ld.global_.f32(x, X.at(row), pred=row < rows)
    # The thread's first piece in stage 0: its row, and its piece XOR its row.
    place = box[0].addr + own_row * (4 * COLUMNS) + own_column * 4
    place ^= (own_row & 7) << 4

    with ptx.for_(0, BOXES) as number:
        stage = number & 1
        column = first_column + number * COLUMNS
        pieces = [[x * y for y in four_of_y(column + own_column + i)] for i in range(0, EACH, 4)]

        ptx.cp.async_.bulk.wait_group(STAGES - 1, read=True, pred=engine)
        ptx.bar.sync(0)
        target = place + stage * box.stage_bytes
        for i, piece in enumerate(pieces):
            ptx.inst.st.shared.v4.f32(ptx.addr(target ^ (16 * i)), piece)
        ptx.fence.proxy_async("shared::cta")
        ptx.bar.sync(0)
        with ptx.if_(engine):
            ptx.cp.async_.bulk.tensor_2d(dst=D.tma_desc(), src=box[stage], coord=(column, first_row))
            ptx.cp.async_.bulk.commit_group()
    # The CTA may end, and give up its shared memory, only after the engine has read it.
    ptx.cp.async_.bulk.wait_group(0, read=True, pred=engine)
    ptx.ret()


def hopper():
    """Return torch if it sees a GPU that runs sm_90a, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0) else None


def measure(torch, M, N):
    """Time the kernel and ``torch.outer``. The work is to write D."""

    def inputs(copy):
        return torch.randn(M, device="cuda"), torch.randn(N, device="cuda"), M, N

    result = bench(
        {"torch": lambda x, y, M, N: torch.outer(x, y), "pyptx": outer},
        inputs,
        reference=lambda x, y, M, N: torch.outer(x, y),
        bytes=4 * M * N,
    )
    result.show()
    return result


def main():
    rng = np.random.default_rng(0)
    # Shapes: whole boxes, edges in both dimensions, less than a box.
    for rows, columns in ((64, 256), (200, 300), (65, 1028), (3, 4)):
        x, y = (rng.standard_normal(n).astype(np.float32) for n in (rows, columns))
        for schedule in ("eager", "late"):
            d = np.full((rows, columns), np.nan, np.float32)
            report = outer.simulate(x, y, rows, columns, out=d, schedule=schedule)
            right = report.verdict == "clean" and np.array_equal(d, np.outer(x, y))
            print(f"simulator, {(rows, columns)}, {schedule}: {'right' if right else 'WRONG'}")
            assert right, str(report)
    torch = hopper()
    if torch is None:
        print("GPU: none that runs sm_90a")
        return
    x, y = torch.randn(4001, device="cuda"), torch.randn(3004, device="cuda")
    right = torch.equal(outer(x, y, 4001, 3004), torch.outer(x, y))
    print(f"{torch.cuda.get_device_name()}, (4001, 3004): {'right' if right else 'WRONG'}")
    assert right
    measure(torch, 16384, 16384)


if __name__ == "__main__":
    main()
