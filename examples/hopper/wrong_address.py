"""A kernel with a wrong address, and the tools that report its Python line.

``D = 2 * A``, one element per thread. The load is guarded by ``inside``; the author forgot it for the store,
which is in a helper:

    element i = ctaid.x * 128 + tid.x;  1000 elements, 1024 threads: the last 24 store past the end

The simulator reports the wrong stores on any machine:  ``python examples/hopper/wrong_address.py``.
On a Hopper GPU, compute-sanitizer names the same line, and ncu counts by Python lines:

    compute-sanitizer --report-api-errors no python examples/hopper/wrong_address.py
    ncu --section SourceCounters --import-source yes --page source --print-source cuda,sass --csv python ...
"""

from __future__ import annotations

import os

import numpy as np

from pyptx import Tile, f32, kernel, ptx, reg, u64

THREADS = 128
LENGTH = 1000


def store(array, offset, value):
    """Store ``value`` at ``offset`` bytes into ``array``. Records two instructions."""
    ptx.inst.st.global_.f32(ptx.addr(array.ptr + offset), value)


@kernel(
    in_specs=(Tile(LENGTH, f32),),
    out_specs=(Tile(LENGTH, f32),),
    grid=(-(-LENGTH // THREADS),),
    block=(THREADS,),
    arch="sm_90a",
)
def double(A, D):
    i = ptx.special.ctaid.x() * THREADS + ptx.special.tid.x()
    inside = i < LENGTH
    offset = reg.scalar(u64)
    ptx.inst.mul.wide.u32(offset, i, 4)
    a = reg.scalar(f32, init=0.0)
    ptx.inst.ld.global_.f32(a, ptx.addr(A.ptr + offset), pred=inside)
    store(D, offset, a + a)  # forgotten: inside
    ptx.ret()


def main():
    report = double.simulate(np.ones(LENGTH, np.float32))
    print(report)
    found = report.findings[0].location
    right = (found.function, found.caller.function) == ("store", "double")
    print(f"simulator: names {found.short}, which is {'right' if right else 'WRONG'}")
    assert right
    # Without torch's cache, each tensor is its own allocation, and compute-sanitizer knows where it ends.
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0):
        double(torch.ones(LENGTH, device="cuda"))
        torch.cuda.synchronize()
        print("GPU: the kernel ran without an error; compute-sanitizer would report the wrong addresses")


if __name__ == "__main__":
    main()
