"""Which tile and cluster ``gemm_blockwise.py`` should use for a problem, by arithmetic.

``choose(M, N, K)`` returns the options with the smallest predicted time; ``candidates`` has all of them, best
first.  The model is that of ``gemm_choice.py`` for one kernel:

* **Rounds** of tiles: as many as clusters of this size are on the machine at the same time.
* **A stage**, 128 of K, takes as long as the slower of the tensor cores and the loads from L2, which a
  cluster divides among the CTAs that share an operand.  A tile of 64 rows has one consumer warpgroup, whose
  promotion nothing overlaps.
* **Around the stages** of a tile: its epilogue and a round trip; the first load.
* **Memory**: each operand and the output once.

It ranks; in absolute terms it is optimistic.  The constants are those of ``gemm_choice.py``.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import NamedTuple

from pyptx import SpecError, bf16

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import gemm_choice as machine
from gemm_options import SMS, usable_sms

BLOCK = 128  # elements of K, and of N, that share a scale
#: Clocks that a block costs a warpgroup beside its products: wait, scales, and one fma for each number.
PROMOTION = 200
TILES = [
    *((64, BN) for BN in (32, 64, 128, 192)),
    *((128, BN) for BN in (32, 48, 64, 96, 128, 192)),
    *((256, BN) for BN in (64, 96, 128)),
]
CLUSTERS = [(1, 2), (2, 1), (1, 1), (1, 4), (2, 2)]


class Choice(NamedTuple):
    """A tile and a cluster for ``build_gemm_blockwise``, and the predicted seconds."""

    tile: tuple[int, int]
    cluster: tuple[int, int]
    seconds: float


def predict(M, N, K, *, tile, cluster=(1, 1), out_type=bf16):
    """Return the :class:`Choice` for a tile and a cluster."""
    (BM, BN), (CM, CN) = tile, cluster
    ctas = CM * CN
    tiles = math.ceil(M / (BM * CM)) * math.ceil(N / (BN * CN))
    rounds = math.ceil(tiles / (usable_sms(ctas) // ctas))
    busy = min(1.0, tiles * ctas / SMS)  # the share of the SMs that load at the same time
    tensor = 2 * BM * BN * BLOCK / machine.FLOPS_PER_CLOCK + (PROMOTION if BM == 64 else 0)
    loaded = (BM / CN + BN / CM) * BLOCK  # bytes that L2 delivers for each CTA
    stage = max(tensor, loaded * SMS * busy * machine.CLOCK / machine.L2_BYTES)
    around = machine.ROUND_TRIP + BM * BN * out_type.nbytes / machine.EPILOGUE
    clocks = rounds * (math.ceil(K / BLOCK) * stage + around) + machine.STAGE_LATENCY
    moved = (M + N) * K + M * N * out_type.nbytes
    memory = moved / min(machine.MEMORY_BYTES, machine.SM_BYTES * SMS * busy)
    return Choice(tile, cluster, machine.LAUNCH + max(clocks / machine.CLOCK, memory))


def candidates(M, N, K, *, out_type=bf16, one_block=False):
    """Return all options as :class:`Choice`, the fastest predicted first.

    Args:
        M, N, K: sizes.
        out_type: of D.
        one_block: whether a tile has to lie in one block of 128 columns.
    """
    for name, value in (("M", M), ("N", N), ("K", K)):
        if type(value) is not int or value < 1:
            raise SpecError(f"{name} = {value!r}: expected a positive whole number")
    found = [
        predict(M, N, K, tile=(BM, BN), cluster=(CM, CN), out_type=out_type)
        for (BM, BN), (CM, CN) in itertools.product(TILES, CLUSTERS)
        if not (
            (BM > 64 and BM >= 2 * M)
            or (BN > 32 and BN >= 2 * N)
            or (CM > 1 and M <= BM)
            or (CN > 1 and N <= BN)
            or (one_block and BLOCK % BN)
        )
    ]
    return sorted(found, key=lambda choice: choice.seconds)


def choose(M, N, K, **problem):
    """Return the :class:`Choice` with the smallest predicted time; see :func:`candidates`."""
    return candidates(M, N, K, **problem)[0]


def main():
    """Print the choices for some sizes of language models, and the next two."""
    sizes = [(4096, 7168, 2048), (4096, 4096, 7168), (4096, 7168, 16384), (4096, 24576, 1536)]
    for shape in [*sizes, (128, 7168, 2048), (128, 4096, 7168), (8192, 8192, 8192), (64, 7168, 2048)]:
        print(" x ".join(map(str, shape)))
        for choice in candidates(*shape)[:3]:
            print(f"  {choice.seconds * 1e6:7.1f} us  tile {choice.tile}, cluster {choice.cluster}")


if __name__ == "__main__":
    main()
