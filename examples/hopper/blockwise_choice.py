"""Which tile and cluster ``gemm_blockwise.py`` should use for a problem, by arithmetic.

``choose(M, N, K)`` returns the options with the smallest predicted time; ``candidates`` has all of them, best
first.  The model is that of ``gemm_choice.py`` for one kernel:

* **Rounds** of tiles: as many as clusters of this size are on the machine at the same time.
* **A stage**, 128 of K, takes as long as the slowest of: the tensor cores; the loads from L2, which a cluster
  divides among the CTAs that share an operand; what an SM takes in, which no cluster divides; and, up to 128
  rows, what follows one after the other in a warpgroup: its products, the wait for them, their promotion.
* **Around the stages** of a tile: its epilogue and a round trip; the first load; with ``split`` the exchange.
* **Memory**: each operand and the output once.  With few rows nothing is in L2 already: a place of the ring
  then serves one stage in the time in which a busy memory answers, and what couples the CTAs of a cluster is
  not hidden.  So deep rings win, tiles for all SMs, and parts of K where there are not enough tiles.

It ranks; in absolute terms it is optimistic.  The constants are those of ``gemm_choice.py``.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from pathlib import Path
from typing import NamedTuple

from pyptx import SpecError, bf16, e4m3, kit

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import gemm_choice as machine
from gemm_options import SMS, plan, usable_sms

BLOCK = 128  # elements of K, and of N, that share a scale
#: Clocks that a block costs a warpgroup beside its products: wait, scales, and one fma for each number.
PROMOTION = 200
INTAKE = 64  # bytes per clock that an SM takes in from L2
#: Bytes per second of L2 with few rows, at least: 128 CTAs of 64 x 64, without clusters, load 117 MB in the
#: 17.1 us that DeepGEMM takes for 128 x 4096 x 7168; its 12.4 us for 128 x 7168 x 2048 leave 8 for loads.
FEW_ROWS_L2_BYTES = 14e12
TILES = [
    *((64, BN) for BN in (32, 48, 64, 96, 112, 128, 192)),
    *((128, BN) for BN in (32, 48, 64, 96, 128, 192)),
    *((256, BN) for BN in (64, 96, 128)),
]
CLUSTERS = [(1, 2), (2, 1), (1, 1), (1, 4), (2, 2)]
#: Splits of K and CTAs on an SM, one of both 1, with the clusters that they leave.
SHARED = [
    *((1, 1, cluster) for cluster in CLUSTERS),
    *((split, 1, (1, 1)) for split in (2, 4)),
    (1, 2, (1, 1)),
]


class Choice(NamedTuple):
    """A tile and a cluster for ``build_gemm_blockwise``, the predicted seconds, split and CTAs on an SM."""

    tile: tuple[int, int]
    cluster: tuple[int, int]
    seconds: float
    split: int = 1
    resident: int = 1


def predict(M, N, K, *, tile, cluster=(1, 1), split=1, resident=1, out_type=bf16):
    """Return the :class:`Choice` for a tile and a cluster.

    Raises:
        SpecError: the tile does not fit an SM.
    """
    (BM, BN), (CM, CN) = tile, cluster
    beside = kit.StagedScales(tile).stage_bytes
    made = plan(e4m3, out_type, tile, split=split, resident=resident, beside=beside, sets=2)
    ctas = split if split > 1 else CM * CN
    blocks = math.ceil(math.ceil(K / BLOCK) / split)
    tiles = math.ceil(M / (BM * CM)) * math.ceil(N / (BN * CN))
    rounds = math.ceil(tiles / (usable_sms(ctas) * resident // ctas))
    together = min(resident, math.ceil(tiles * ctas / SMS))  # CTAs that an SM has at the same time
    busy = min(1.0, tiles * ctas / SMS)  # the share of the SMs that load at the same time
    tensor = 2 * BM * BN * BLOCK / machine.FLOPS_PER_CLOCK
    chain = PROMOTION + tensor / made.warpgroups if BM <= 128 else 0
    loaded = (BM / CN + BN / CM) * BLOCK  # bytes that L2 delivers for each CTA
    l2_bytes = FEW_ROWS_L2_BYTES if M <= BLOCK else machine.L2_BYTES
    from_l2 = loaded * SMS * busy * machine.CLOCK / l2_bytes
    stage = max(chain, together * max(tensor, from_l2, (BM + BN) * BLOCK / INTAKE))
    around = machine.ROUND_TRIP + BM * BN / split * out_type.nbytes / machine.EPILOGUE
    around += machine.exchange(tile, split)
    clocks = rounds * (blocks * stage + around) + machine.STAGE_LATENCY
    moved = (M + N) * K + M * N * out_type.nbytes
    memory = moved / min(machine.MEMORY_BYTES, machine.SM_BYTES * SMS * busy)
    coupled = 0.0
    if M <= BLOCK:
        streamed = rounds * blocks * machine.MEMORY_LATENCY / made.stages + around
        memory = max(memory, streamed / machine.CLOCK)
        coupled = machine.coupling(CM * CN)
    seconds = machine.LAUNCH + max(clocks / machine.CLOCK, memory) + coupled
    return Choice(tile, cluster, seconds, split, resident)


def candidates(M, N, K, *, out_type=bf16, one_block=False, may_split=True):
    """Return all options as :class:`Choice`, the fastest predicted first.

    Args:
        M, N, K: sizes.
        out_type: of D.
        one_block: whether a tile has to lie in one block of 128 columns, as with scales in registers, which
            cannot be split either.
        may_split: whether K may be split.
    """
    for name, value in (("M", M), ("N", N), ("K", K)):
        if type(value) is not int or value < 1:
            raise SpecError(f"{name} = {value!r}: expected a positive whole number")
    found = []
    for (BM, BN), (split, resident, (CM, CN)) in itertools.product(TILES, SHARED):
        if (
            (BM > 64 and BM >= 2 * M)
            or (BN > 32 and BN >= 2 * N)
            or (CM > 1 and M <= BM)
            or (CN > 1 and N <= BN)
            or (one_block and (BLOCK % BN or split > 1))
            or (split > 1 and (not may_split or M > BLOCK or 4 * split > -(-K // BLOCK)))
        ):
            continue
        # A tile may not fit an SM, or not several times.
        with contextlib.suppress(SpecError):
            options = {"cluster": (CM, CN), "split": split, "resident": resident}
            found.append(predict(M, N, K, tile=(BM, BN), **options, out_type=out_type))
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
            print(
                f"  {choice.seconds * 1e6:7.1f} us  tile {choice.tile}, cluster {choice.cluster}, "
                f"split {choice.split}, {choice.resident} on an SM"
            )


if __name__ == "__main__":
    main()
