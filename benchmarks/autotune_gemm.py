"""Tune the Hopper GEMM over 50 configurations, of which two hang and one traps.

47 configurations are those of the example: depth of the ring, order of the tiles, clusters that share the
tiles, and epilogue. Two wait for an mbarrier that no thread completes, and one executes `trap`. The program
prints what became of each, how long the tuning took, and what is left of it for the second call and for the
next process. Without a Hopper GPU it prints the reason and ends.

    python benchmarks/autotune_gemm.py [--size 4096]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

from _examples import load_example

import pyptx
from pyptx import Tile, b64, bf16, kernel, kit, ptx, smem

EXAMPLE = load_example("hopper/gemm_highperf_hopper.py")
ORDERS = [
    getattr(kit.tile_order, name) for name in ("row_major", "snake", "grouped", "boustrophedon", "hilbert")
]

#: stages, order, clusters, epilogue, fault
ROWS = [
    *(
        [stages, order, clusters, "tma", ""]
        for stages in (2, 3, 4)
        for order in ORDERS
        for clusters in (33, 64, 66)
    ),
    *([stages, kit.tile_order.boustrophedon, 66, "direct", ""] for stages in (3, 4)),
]
for place, fault in ((5, "hang"), (20, "trap"), (35, "hang with 3 arrivals")):
    ROWS.insert(place, [4, kit.tile_order.row_major, 66, "tma", fault])
assert len(ROWS) == 50


def build_faulty(M, N, K, fault):
    """A kernel with the arguments of the GEMM that never ends, or breaks the context."""

    @kernel(
        in_specs=(Tile(M, K, bf16), Tile(N, K, bf16)),
        out_specs=(Tile(M, N, bf16),),
        grid=132,
        block=128,
        arch="sm_90a",
        name="hang" if fault.startswith("hang") else fault,
    )
    def faulty(A, B, D):
        barrier = smem.alloc(1, b64)
        with ptx.if_(ptx.special.tid.x() == 0):
            ptx.mbarrier.init(barrier, 2 if fault == "hang" else 3)
            ptx.mbarrier.arrive(barrier)
        ptx.bar.sync(0)
        if fault == "trap":
            ptx.trap()
        else:
            ptx.mbarrier.wait(barrier, 0)  # the second arrival never comes
        ptx.ret()

    return faulty


@pyptx.autotune("stages, order, clusters, epilogue, fault", ROWS, deadline=2.0)
def build_gemm(M, N, K, *, stages, order, clusters, epilogue, fault):
    if fault:
        return build_faulty(M, N, K, fault)
    return EXAMPLE.build_gemm(
        M, N, K, stages=stages, clusters=clusters, order=order, epilogue=epilogue, out_dtype=bf16
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=4096, help="M = N = K, a multiple of 256")
    size = parser.parse_args().size
    torch, why = EXAMPLE.hopper()
    if torch is None:
        print(f"not measured: {why}")
        return
    with tempfile.TemporaryDirectory() as folder:
        run(torch, size, folder)


def run(torch, size, folder):
    os.environ["PYPTX_CACHE_DIR"] = folder  # nothing is known of an earlier run
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    gemm = build_gemm(size, size, size)
    started = time.perf_counter()
    d = gemm(a, b)
    torch.cuda.synchronize()
    first = time.perf_counter() - started
    (tuning,) = gemm.tunings
    tuning.show()
    started = time.perf_counter()
    gemm(a, b)
    torch.cuda.synchronize()
    second = time.perf_counter() - started
    build_gemm._kernels.clear()  # as in the next process
    again = build_gemm(size, size, size)
    started = time.perf_counter()
    again(a, b)
    torch.cuda.synchronize()
    stored = time.perf_counter() - started
    assert again.tunings[0].stored and again.tunings[0].configuration == tuning.configuration
    states = [row["state"] for row in tuning.rows()]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    print(
        f"\nfirst call {first:.1f} s, second {1e3 * second:.1f} ms, first of the next process {stored:.1f} s"
    )
    print(f"{counts}, {tuning.restarts} restarts of the worker")
    torch.testing.assert_close(d.float(), a.float() @ b.float().T, rtol=2.0**-7, atol=1e-5 * size)
    compare = {
        "torch": lambda a, b: a @ b.T,
        "tuned": tuning.kernel,
        "example": EXAMPLE.build_gemm(size, size, size, out_dtype=bf16),
    }
    pyptx.bench(
        compare,
        (a, b),
        reference=lambda a, b: a.float() @ b.float().T,
        rtol=2.0**-7,
        atol=1e-5 * size,
        flops=2 * size**3,
    ).show()


if __name__ == "__main__":
    main()
