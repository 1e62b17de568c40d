"""A copy by the TMA engine: global -> shared -> global memory, a 64x64 bf16 tile per CTA.

    one thread:  expect bytes -> TMA load -> wait on the mbarrier -> TMA store -> wait for the bulk group

No register holds data.  The tile is in shared memory with a 128-byte swizzle; both tensor maps name this
swizzle, so the store reverses the permutation of the load.  Edges need no code: a load fills the part of the
box outside the tensor with zeros and still counts the bytes of the whole box, and a store does not write this
part.

``python examples/hopper/tma_copy.py`` runs it in the simulator, and on a Hopper GPU if there is one.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pyptx import Layout, Tile, bf16, kernel, ptx, smem

ROWS = COLUMNS = 64
TILE = (ROWS, COLUMNS)


@kernel(
    in_specs=(Tile("M", "N", bf16, Layout.TMA_128B, tma_box=TILE),),
    out_specs=(Tile("M", "N", bf16, Layout.TMA_128B, tma_box=TILE),),
    grid=lambda M, N: (-(-N // COLUMNS), -(-M // ROWS)),
    block=(32,),
    arch="sm_90a",
)
def tma_copy(A, B):
    tile = smem.alloc(TILE, bf16, swizzle="128B")
    arrived = smem.alloc(8, align=8)
    x = ptx.special.ctaid.x() * COLUMNS
    y = ptx.special.ctaid.y() * ROWS
    with ptx.if_(ptx.warp.elect()):
        ptx.mbarrier.init(arrived, 1)
        ptx.fence.mbarrier_init()
        ptx.mbarrier.arrive_expect_tx(arrived, ROWS * COLUMNS * 2)
        ptx.cp.async_.bulk.tensor_2d(dst=tile, src=A.tma_desc(), coord=(x, y), mbar=arrived)
        ptx.mbarrier.wait(arrived, 0)
        # The load and the store both access the tile through the async proxy: no proxy fence is needed.
        ptx.cp.async_.bulk.tensor_2d(dst=B.tma_desc(), src=tile, coord=(x, y))
        ptx.cp.async_.bulk.commit_group()
        ptx.cp.async_.bulk.wait_group(0)
    ptx.ret()


def hopper():
    """Return torch if it sees a GPU that runs sm_90a, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0) else None


def main():
    rng = np.random.default_rng(0)
    for shape in ((64, 64), (200, 136), (8, 1024)):
        a = rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
        right = np.array_equal(tma_copy(a), a)
        print(f"simulator, {shape}: {'right' if right else 'WRONG'}")
        assert right
    torch = hopper()
    if torch is None:
        print("GPU: none that runs sm_90a")
        return
    a = torch.randn(4000, 4008, device="cuda", dtype=torch.bfloat16)
    right = torch.equal(tma_copy(a), a)
    print(f"{torch.cuda.get_device_name()}, {tuple(a.shape)}: {'right' if right else 'WRONG'}")
    assert right


if __name__ == "__main__":
    main()
