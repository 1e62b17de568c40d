"""Which tile and cluster ``gemm_blockwise.py`` should use for a problem, by arithmetic.

``choose(M, N, K)`` returns the options with the smallest predicted time; ``candidates`` has all of them, best
first.  The model is that of ``gemm_choice.py`` for one kernel:

* **Rounds** of tiles: as many as clusters of this size are on the machine at the same time.
* **A stage**, 128 of K, takes as long as the slowest of: the tensor cores, which wait for the promotion of
  each 64 rows unless the next products are ``ahead`` or two other warpgroups multiply; the loads from L2,
  which a cluster divides among the CTAs that share an operand; what an SM takes in, which no cluster divides;
  and, up to 128 rows, what follows one after the other in a warpgroup: its products, the wait for them, their
  promotion.
* **Around the stages** of a tile: its epilogue and a round trip, half of which the other warpgroup's products
  hide with ``ahead``; the first load; with ``split`` the exchange; what a cluster's CTAs wait for each other.
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
#: Registers of a thread for sums and totals where products run ahead; less where three warpgroups multiply.
SUMS = {64: 192, 128: 192, 192: 128, 256: 192}
#: Clocks that a block costs a warpgroup beside its products: wait, scales, and one fma for each number.
PROMOTION = 200
#: The same with ``ahead``, beside the promotion or the products, whichever is longer.
AHEAD = 60
#: Clocks for which the tensor cores wait at each 64 rows of a stage, unless the next products are ahead or
#: two other warpgroups multiply.
PAUSE = 15
#: What is left with ``ahead`` of the time around a tile's stages.
APART = 0.45
#: Clocks that a tile of a cluster of two costs, of four twice as many, if the products are ahead.
TOGETHER = 1000
INTAKE = 58  # bytes per clock that an SM takes in from L2
#: Bytes per second of L2 at least, of which CTAs side by side ask for the same: tiles of 128 x 128 without
#: clusters, which are bound by what an SM takes in, load 12e12; of 64 x 64 with 128 rows 14e12.
L2_BYTES = 14e12
TILES = [
    *((64, BN) for BN in (32, 48, 64, 96, 112, 128, 192)),
    *((128, BN) for BN in (32, 48, 64, 96, 128, 192)),
    (192, 128),
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
    """Options for ``build_gemm_blockwise``, and the predicted seconds."""

    tile: tuple[int, int]
    cluster: tuple[int, int]
    seconds: float
    split: int = 1
    resident: int = 1
    ahead: bool = False


def sets_of(tile, ahead):
    """Return how many numbers a thread holds for each number of D: a total and, of one block of K, its sum.

    With ``ahead`` there are two accumulators of sums: those of a warpgroup's two halves in tiles of 256 rows,
    otherwise a second one.
    """
    return 3 if ahead and tile[0] < 256 else 2


def fits_ahead(tile):
    """Return whether a thread has registers for what a tile needs if products run ahead."""
    BM, BN = tile
    blocks = 2 if BM == 256 else 1
    return sets_of(tile, True) * blocks * BN // 2 <= SUMS[BM]


def predict(M, N, K, *, tile, cluster=(1, 1), split=1, resident=1, ahead=False, out_type=bf16):
    """Return the :class:`Choice` for a tile and a cluster.

    Raises:
        SpecError: the tile does not fit an SM.
    """
    (BM, BN), (CM, CN) = tile, cluster
    beside = kit.StagedScales(tile).stage_bytes
    sets = sets_of(tile, ahead)
    made = plan(e4m3, out_type, tile, split=split, resident=resident, beside=beside, sets=sets)
    ctas = split if split > 1 else CM * CN
    blocks = math.ceil(math.ceil(K / BLOCK) / split)
    tiles = math.ceil(M / (BM * CM)) * math.ceil(N / (BN * CN))
    rounds = math.ceil(tiles / (usable_sms(ctas) * resident // ctas))
    together = min(resident, math.ceil(tiles * ctas / SMS))  # CTAs that an SM has at the same time
    busy = min(1.0, tiles * ctas / SMS)  # the share of the SMs that load at the same time
    tensor = 2 * BM * BN * BLOCK / machine.FLOPS_PER_CLOCK
    chain = 0
    if BM <= 128:
        own = tensor / made.warpgroups
        chain = max(PROMOTION, own) + AHEAD if ahead else PROMOTION + own
    if not ahead and made.warpgroups < 3:
        tensor += PAUSE * BM / 64
    loaded = (BM / CN + BN / CM) * BLOCK  # bytes that L2 delivers for each CTA
    from_l2 = loaded * SMS * busy * machine.CLOCK / L2_BYTES
    stage = max(chain, together * max(tensor, from_l2, (BM + BN) * BLOCK / INTAKE))
    around = machine.ROUND_TRIP + BM * BN / split * out_type.nbytes / machine.EPILOGUE
    around += machine.exchange(tile, split)
    if ahead:
        around = around * APART + TOGETHER * math.log2(ctas)
    clocks = rounds * (blocks * stage + around) + machine.STAGE_LATENCY
    moved = (M + N) * K + M * N * out_type.nbytes
    memory = moved / min(machine.MEMORY_BYTES, machine.SM_BYTES * SMS * busy)
    coupled = 0.0
    if M <= BLOCK:
        streamed = rounds * blocks * machine.MEMORY_LATENCY / made.stages + around
        memory = max(memory, streamed / machine.CLOCK)
        coupled = machine.coupling(CM * CN)
    seconds = machine.LAUNCH + max(clocks / machine.CLOCK, memory) + coupled
    return Choice(tile, cluster, seconds, split, resident, ahead)


def candidates(M, N, K, *, out_type=bf16, one_block=False, may_split=True, ahead=None):
    """Return all options as :class:`Choice`, the fastest predicted first.

    Args:
        M, N, K: sizes.
        out_type: of D.
        one_block: whether a tile has to lie in one block of 128 columns, as with scales in registers, which
            cannot be split either.
        may_split: whether K may be split.
        ahead: whether products run ahead of promotions; None: as is faster.
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
        # 256 x 96 ahead took 1.18 to 1.24 times what 256 x 128 took, for 4096 rows.
        fits = not one_block and split == 1 and BM <= 128 and fits_ahead((BM, BN))
        for runs_ahead in (False, True)[: 1 + fits]:
            if ahead not in (None, runs_ahead):
                continue
            # A tile may not fit an SM, or not several times.
            with contextlib.suppress(SpecError):
                options = {"cluster": (CM, CN), "split": split, "resident": resident, "ahead": runs_ahead}
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
                f"split {choice.split}, {choice.resident} on an SM" + ", ahead" * choice.ahead
            )


if __name__ == "__main__":
    main()
