"""The smallest kernel: ``C = A + B``, one element per thread, on any length.

    element i = ctaid.x * 128 + tid.x;  threads past the end do nothing

``python examples/hopper/vector_add.py`` runs it in the simulator, and on a Hopper GPU if there is one.
The length is a run-time scalar, so one compiled kernel computes every length that has the same grid.
"""

from __future__ import annotations

import numpy as np

from pyptx import Scalar, Tile, f32, kernel, ptx, reg, u32

THREADS = 128


@kernel(
    in_specs=(Tile("N", f32), Tile("N", f32), Scalar(u32)),
    out_specs=(Tile("N", f32),),
    grid=lambda N: (-(-N // THREADS),),
    block=(THREADS,),
    arch="sm_90a",
)
def vector_add(A, B, n, C):
    i = ptx.special.ctaid.x() * THREADS + ptx.special.tid.x()
    inside = i < n
    with ptx.if_(inside):
        a, b = reg.scalar(f32), reg.scalar(f32)
        ptx.inst.ld.global_.f32(a, A.at(i))
        ptx.inst.ld.global_.f32(b, B.at(i))
        ptx.inst.st.global_.f32(C.at(i), a + b)
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
    for n in (1, 127, 128, 1000):
        a, b = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
        right = np.array_equal(vector_add(a, b, n), a + b)
        print(f"simulator, {n} elements: {'right' if right else 'WRONG'}")
        assert right
    torch = hopper()
    if torch is None:
        print("GPU: none that runs sm_90a")
        return
    a, b = (torch.randn(1_000_003, device="cuda") for _ in range(2))
    right = torch.equal(vector_add(a, b, a.numel()), a + b)
    print(f"{torch.cuda.get_device_name()}, {a.numel()} elements: {'right' if right else 'WRONG'}")
    assert right


if __name__ == "__main__":
    main()
