"""Step 8, clusters: two CTAs share the rows of B, and each loads half of them for both.

The kernel of this step is ``gemm_highperf_hopper.py``, which is read on its own: step 7, for a cluster of two
CTAs that computes 256x256 of D.  A CTA loads its own 128 rows of A and 128 of the 256 rows of B, and the
multicast copy writes these into the shared memory of both::

    loads of a stage, for 256x256 of D      step 7: 2 x (128 + 256) rows = 96 KiB
                                            step 8: 2 x (128 + 128) rows = 64 KiB

At 790 TFLOP/s step 7 pulls 9.3 TB/s out of L2, as much as an H200's L2 has been seen to deliver; step 8 pulls
6.2.  Bytes that do not move cost no energy either, and at a large size the power limit decides the clock.

What comes after it is ``gemm.py``: the same roles for other tiles, clusters and types, ping-pong consumers
that hide the epilogue of one tile behind the products of another, and the choice among all these.

Run it: ``python examples/hopper/ladder/step8_cluster.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyptx import bf16

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gemm_highperf_hopper import build_gemm
from ladder_parts import program


def build_cluster(M, N, K, *, clusters=66):
    """Build the kernel: M and N are multiples of 256, K of 64; ``clusters`` pairs of CTAs share the tiles."""
    return build_gemm(M, N, K, clusters=clusters, out_dtype=bf16)


SHAPES = [(256, 256, 64), (512, 512, 192)]

if __name__ == "__main__":
    program(build_cluster, SHAPES, simulated={"clusters": 1})
