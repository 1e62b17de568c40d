"""What arithmetic allows the products of this folder on a B200: tiles, rounds, traffic, and the most TFLOP/s.

A bound, not a prediction: launches, set-up, epilogues that nothing hides and the power limit come on top.  No
kernel here was measured on a B200.  Every published figure of a kernel with the same tiles lies below its
bound (the tests compare them).

The columns:

- tile: rows and columns of D, and of K in a stage, of a CTA or of a pair of CTAs;
- tiles, rounds: tiles of D, and how many of them each group of multiprocessors computes one after the other;
- even: the share of time in which a tensor core can have work, by the rounds alone;
- loads GB: bytes of A and B that the copies of all tiles load into shared memory; those of a multicast once;
- rate: bytes that a multiprocessor loads per clock of its tensor core;
- port: the share of the port of shared memory that the products' operands take;
- in flight, needed: KiB of the ring, and KiB that must be on their way to load at that rate;
- rounds us, fabric, HBM: microseconds that the rounds, the loads and the memory need at least;
- at most: TFLOP/s by the longest of them;
- by: what that is. In a round: the tensor cores, the rows of the copies' boxes, or the waiting of a kernel
  that does not load beside its products;
- published: TFLOP/s of others' kernel with the same tiles and the same technique.

    python examples/blackwell/bounds.py                            # every kernel, 4096 and 8192 cubed
    python examples/blackwell/bounds.py --clock 1.38 --size 16384  # at the clock of a long run
    python examples/blackwell/bounds.py --choose 4096 4096 4096    # tiles of a persistent kernel, best first
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gemm_highperf_blackwell as gemm
import gemm_tiles
from ladder import v1a, v1b, v2a, v2b, v3, v4, v5, v6, v7

# --- a B200, as others have measured it ---------------------------------------------------------------

MULTIPROCESSORS = 148
CLOCK = 1.93  # GHz of a short run; 1.32 to 1.41 in a long one, by the power limit
ROWS = 128  # rows of A that a CTA multiplies: the lanes of tensor memory
PORT = 128  # bytes per clock that products read of shared memory
SHARED = 227 * 1024  # bytes of a CTA
COLUMNS = 512  # of tensor memory
FABRIC = 19e12  # bytes per second into the shared memory of all multiprocessors
ONE_LOADS = 158e9  # bytes per second into the shared memory of one, and
FIRST_BYTES = 345e-9  # seconds until the first bytes come from L2, if the fabric is idle
LATENCY = 0.8e-6  # the same in a busy kernel, until a product can read them
ROW = 1.0  # clocks of the copy engine for a row of a box
HBM = 7.2e12  # bytes per second
PRODUCT_LATENCY = 136  # clocks from the last product of a stage to its completion on the mbarrier


def cdiv(a, b):
    """Return a / b, rounded up."""
    return -(-a // b)


@dataclass(frozen=True)
class Tiling:
    """How a kernel cuts a product into tiles and stages.

    Attributes:
        rows, columns: of the tile of D of a CTA, or of a pair.
        depth: columns of A and B in a stage.
        stages: of the ring.
        ctas: 1, or 2 for pairs.
        nbytes: bytes of an element of A and B; ``out_nbytes`` of D.
        row_bytes: bytes of a row of a copy's box.
        overlap: whether copies of a stage run beside the products of another one.
        resident: CTAs that share a multiprocessor.
        sharing: pairs side by side that load A once for all of them, by multicast.
        split: returns for M and N the number of whole tiles, and that of halves of the last round.
        published: M = N = K, and TFLOP/s that others measured for a kernel with these tiles.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    ctas: int = 1
    nbytes: int = 2
    out_nbytes: int = 2
    row_bytes: int = 128
    overlap: bool = True
    resident: int = 1
    sharing: int = 1
    split: object = None
    published: dict = field(default_factory=dict)

    @property
    def stage_bytes(self):
        """Bytes of a stage in the shared memory of a CTA."""
        return self.loaded(self.columns)

    def loaded(self, columns):
        """Return the bytes that a CTA loads for a stage of a tile of so many columns."""
        return self.depth * self.nbytes * (ROWS + columns // self.ctas)

    def port_clocks(self, columns):
        """Return the clocks in which the port of shared memory gives the operands of a stage."""
        return self.loaded(columns) / PORT

    def product_clocks(self, columns):
        """Return the clocks of the products of a stage: 32 bytes of K take half as many clocks as columns."""
        return max(self.depth * self.nbytes / 32 * columns / 2, self.port_clocks(columns))


@dataclass(frozen=True)
class Bound:
    """What a product of one size costs at least; times in seconds."""

    tiles: int
    rounds: float
    even: float
    loads: int
    rate: float
    port: float
    needed: float
    computing: float
    fabric: float
    hbm: float
    limit: str
    flops: int

    @property
    def seconds(self):
        return max(self.computing, self.fabric, self.hbm)

    @property
    def by(self):
        """What takes the longest."""
        times = {self.limit: self.computing, "fabric": self.fabric, "HBM": self.hbm}
        return max(times, key=times.get)

    @property
    def tflops(self):
        return self.flops / self.seconds / 1e12


def stage_clocks(tiling, columns, clock):
    """Return the clocks between two stages of a multiprocessor's tiles, and what takes them."""
    products, nbytes = tiling.product_clocks(columns), tiling.loaded(columns)
    rows = nbytes / tiling.row_bytes * ROW
    clocks = {"tensor": tiling.resident * products, "rows": tiling.resident * rows}
    if not tiling.overlap:
        copies = max(rows, nbytes / ONE_LOADS * clock * 1e9)
        clocks["waiting"] = FIRST_BYTES * clock * 1e9 + copies + products + PRODUCT_LATENCY
    longest = max(clocks, key=clocks.get)
    return clocks[longest], longest


def bound(tiling, M, N, K, clock=CLOCK):
    """Return the bound of a product of M x N x K; the clock in GHz."""
    groups = MULTIPROCESSORS // tiling.ctas * tiling.resident
    groups -= groups % tiling.sharing
    tiles = cdiv(M, tiling.rows) * cdiv(N, tiling.columns * tiling.sharing) * tiling.sharing
    whole, halves = tiling.split(M, N) if tiling.split else (tiles, 0)
    half = tiling.columns // 2
    steps = cdiv(K, tiling.depth)
    rounds = cdiv(whole, groups)
    clocks, limit = stage_clocks(tiling, tiling.columns, clock)
    clocks *= rounds
    if halves:
        clocks += cdiv(halves, groups) * stage_clocks(tiling, half, clock)[0]
        rounds += cdiv(halves, groups) / 2
    loads = steps * tiling.ctas * (whole * tiling.stage_bytes + halves * tiling.loaded(half))
    # Of the rows of A, each pair that shares them loads its part.
    loads -= steps * tiling.ctas * whole * tiling.depth * tiling.nbytes * (ROWS - ROWS // tiling.sharing)
    products = tiling.product_clocks(tiling.columns)
    rate = tiling.stage_bytes / products
    fabric = FABRIC / MULTIPROCESSORS / (clock * 1e9)  # bytes per clock and multiprocessor
    return Bound(
        tiles=tiles,
        rounds=rounds,
        even=tiles / (groups * rounds),
        loads=loads,
        rate=rate,
        port=tiling.port_clocks(tiling.columns) / products,
        needed=min(rate, fabric) * LATENCY * clock * 1e9,
        computing=clocks * steps / (clock * 1e9),
        fabric=loads / FABRIC,
        hbm=((M + N) * K * tiling.nbytes + M * N * tiling.out_nbytes) / HBM,
        limit=limit,
        flops=2 * M * N * K,
    )


# --- the kernels ----------------------------------------------------------------------------------------

_GEMM = Tiling(gemm.BM, gemm.BN, gemm.BK, gemm.STAGE_BYTES // (gemm.A_STAGE + gemm.B_STAGE), out_nbytes=4)
_PAIR = replace(
    _GEMM,
    rows=gemm.PAIR_M,
    ctas=2,
    stages=gemm.STAGE_BYTES // (gemm.A_STAGE + gemm.B_HALF_STAGE),
)
_TILES = replace(_PAIR, stages=gemm_tiles.stages_of(256, 256)[0], out_nbytes=2)


def _rung(module, tile, stages, **more):
    ctas = 2 if tile is v5 else 1
    published = {4096: module.PUBLISHED} if hasattr(module, "PUBLISHED") else {}
    return Tiling(tile.BM, tile.BN, tile.BK, stages, ctas=ctas, published=published, **more)


def _tilus(published, stages=1, ctas=1, **more):
    return Tiling(128 * ctas, 256, 64, stages, ctas=ctas, published={8192: published}, **more)


#: Tilus' versions have the largest tiles of the spaces that its texts tune over; two CTAs of a version with
#: 256 columns of tensor memory and less than half of the shared memory share a multiprocessor.
KERNELS = {
    "gemm": _GEMM,
    "gemm-2sm": replace(_PAIR, stages=gemm.STAGES_2SM),
    "persistent": _PAIR,
    "launch-control": _PAIR,
    "persistent-1sm": _GEMM,
    "tiles": _TILES,
    "tiles-two-pairs": replace(_TILES, sharing=2),
    "v1a": _rung(v1a, v1a, 1, row_bytes=2 * v1a.SLAB, overlap=False),
    "v1b": _rung(v1b, v1a, 1, row_bytes=2 * v1a.SLAB, overlap=False),
    "v2a": _rung(v2a, v1a, 1, overlap=False),
    "v2b": _rung(v2b, v1a, 1, overlap=False),
    "v3": _rung(v3, v3, v3.STAGES),
    "v4": _rung(v4, v4, v4.STAGES),
    "v5": _rung(v5, v5, v5.STAGES),
    "v6": _rung(v6, v5, v5.STAGES),
    "v7": _rung(v7, v5, v7.STAGES, split=v7.split),
    "tilus-v0": _tilus(491, overlap=False, resident=2),
    "tilus-v1": _tilus(454, overlap=False, resident=2),
    "tilus-v2": _tilus(1103, stages=4),
    "tilus-v3": _tilus(1351, stages=4),
    "tilus-v4": _tilus(1416, stages=4),
    "tilus-v5": _tilus(1506, stages=4),
    "tilus-v6": _tilus(1610, stages=6, ctas=2),
    "cutile": Tiling(128, 256, 64, 4),
}

TRAFFIC = ("tile", "tiles", "rounds", "even", "loads GB", "rate", "port", "in flight", "needed")
TIMES = ("rounds us", "fabric", "HBM", "at most", "by", "published")


def traffic(tiling, found):
    """Return the cells of ``TRAFFIC``, as texts."""
    return (
        f"{tiling.rows}x{tiling.columns}x{tiling.depth}",
        str(found.tiles),
        f"{found.rounds:g}",
        f"{found.even:.1%}",
        f"{found.loads / 1e9:.2f}",
        f"{found.rate:.0f}",
        f"{found.port:.0%}",
        f"{tiling.stages * tiling.stage_bytes * tiling.resident / 1024:.0f}",
        f"{found.needed / 1024:.0f}",
    )


def times(found, published):
    """Return the cells of ``TIMES``, as texts."""
    return (
        f"{found.computing * 1e6:.1f}",
        f"{found.fabric * 1e6:.1f}",
        f"{found.hbm * 1e6:.1f}",
        f"{found.tflops:.0f}",
        found.by,
        "-" if published is None else f"{published:g}",
    )


def candidates(nbytes=2, staging=2 * 16384):
    """Yield tilings of a persistent kernel: one CTA or a pair, 64 to 256 columns, all stages that fit."""
    for ctas in (1, 2):
        for columns in (64, 128, 192, 256):
            each = Tiling(ROWS * ctas, columns, 128 // nbytes, 1, ctas=ctas, nbytes=nbytes, out_nbytes=4)
            yield replace(each, stages=(SHARED - staging - 1024) // each.stage_bytes)


def ranked(M, N, K, clock=CLOCK, nbytes=2):
    """Return the tilings of a persistent kernel, best first; of equal ones that with fewer loads."""
    bounds = [(bound(each, M, N, K, clock), each) for each in candidates(nbytes)]
    bounds.sort(key=lambda pair: (pair[0].seconds, pair[0].loads))
    return [each for _, each in bounds]


def show(title, heads, rows):
    """Print a table: names, and the cells of each."""
    lines = [(title, *heads), *((name, *cells) for name, cells in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        aligned = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print("  ".join((first.ljust(widths[0]), *aligned)))
    print()


def report(M, N, K, clock, tilings):
    """Print traffic and times of named tilings for a product."""
    bounds = [(name, tiling, bound(tiling, M, N, K, clock)) for name, tiling in tilings]
    show(f"{M}x{N}x{K}", TRAFFIC, [(name, traffic(tiling, found)) for name, tiling, found in bounds])
    published = [tiling.published.get(M) if M == N == K else None for _, tiling, _ in bounds]
    rows = [(name, times(found, each)) for (name, _, found), each in zip(bounds, published, strict=True)]
    show(f"at {clock:g} GHz", TIMES, rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, nargs="+", default=[4096, 8192], help="M = N = K")
    parser.add_argument("--clock", type=float, default=CLOCK, help="GHz of a multiprocessor")
    parser.add_argument(
        "--choose", type=int, nargs=3, metavar=("M", "N", "K"), help="rank tiles for a product"
    )
    options = parser.parse_args(arguments)
    if options.choose:
        best = ranked(*options.choose, options.clock)
        report(*options.choose, options.clock, [(f"{each.ctas} SM, {each.columns}", each) for each in best])
        return
    for size in options.size:
        report(size, size, size, options.clock, KERNELS.items())


if __name__ == "__main__":
    main()
