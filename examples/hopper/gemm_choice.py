"""Which tile, cluster, roles and split ``gemm.py`` should use for a problem, by arithmetic.

``choose(M, N, K)`` returns the options with the smallest predicted time; ``candidates`` has all of them, best
first, with what bounds each, for a comparison with a search on silicon.  The model has five parts:

* **Rounds.** A kernel with ``tiles`` tiles of clusters and room for ``clusters`` of them takes
  ``ceil(tiles / clusters)`` rounds; a round takes as long as a CTA needs for its tile.  With tiles of two
  widths a kernel takes as long as its busiest cluster (``gemm_widths``).
* **A stage** takes as long as the slowest of: the tensor cores (4096 FLOP per clock and SM on 16-bit types),
  their reads of shared memory (128 bytes per clock: ``64 + BN`` rows of 32 bytes for each wgmma), and the
  loads from L2, which multicast divides among the CTAs that share an operand.
* **Around the stages**: the fill of the ring, and the epilogue, which ping-pong consumers hide behind the
  other warpgroup's products, and deferred stores behind the next tile's; with ``split`` the exchange of sums
  through shared memory.
* **Memory**, where one row of tiles reads B once: the bytes in flight, which the rings of all CTAs have; too
  few CTAs, in all or in the last round; after the loads the last tile's epilogue and exchange; and what a
  cluster costs that shares operands: none of its CTAs is faster than its slowest, and a place of the ring
  waits for all of them.
* **Power.** Joules for each FLOP, and for each byte that is moved from L2 and from memory, take at least
  ``joules / watts``. The clock falls with the power that a kernel draws: a weighted sum, in which power
  weighs more where a product runs again and again than in a burst.

The constants are published or measured ones of an H200; the weights of a burst and the exchange of ``split``
were fitted to 12 shapes with 4 to 24 choices each, of which the choice costs at most 0.4% over the best, and
``PINGPONG`` to four squares more; the weights under load that lasts to 15 choices of four squares, which they
predict within 2%. What a cluster costs is from one shape, 64 x 6144 x 4096: tiles of 64 x 64 take 23.3 us
without clusters, 24.6 in clusters of two and 25.3 of four, and 64 x 96 split over two CTAs, which share no
operand, 23.3.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from pathlib import Path
from typing import NamedTuple

from pyptx import SpecError, bf16, f32

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

from gemm_options import SMS, plan, usable_sms
from gemm_widths import balanced, widths_of

CLOCK = 1.755e9  # Hz that an H200 holds in a burst
FLOPS_PER_CLOCK = 8192  # and SM, for elements of one byte; half of it for two bytes, a quarter for four
PORT = 128  # bytes per clock that the tensor cores read from an SM's shared memory
L2_BYTES = 9.2e12  # per second, all SMs together
L2_SIZE = 50e6 * 2 / 3  # what stays in L2
MEMORY_BYTES = 4.2e12  # per second
SM_BYTES = 70e9  # per second: what one SM gets from memory, at most
MEMORY_LATENCY = 3000  # clocks until a busy memory answers: a place of the ring serves one stage in that time
EXCHANGE = 2  # bytes per clock that an SM adds up from the shared memories of a cluster
LAST_EXCHANGE = 16  # the same with one row of tiles: 64 x 96 split over two keeps up with 64 x 64
BURST = (0.9, 0.27)  # the weights of clock and power in a burst
SUSTAINED = (0.8, 0.435)  # and under load that lasts
PINGPONG = 0.984  # what ping-pong consumers take of a burst's time, from the second round on
COUPLING = 1.0e-6  # seconds that doubling a cluster costs where memory is the bound
LAUNCH = 3.0e-6  # seconds: launch, set-up, first load, last store
STAGE_LATENCY = 1300  # clocks from the first load of a tile to its first product, if nothing hides it
ROUND_TRIP = 300  # clocks that a tile costs at least between two main loops
SECOND_LOOP = 500  # the same, where the kernel has tiles of two widths
EPILOGUE = 24  # bytes of D that an SM converts, stages and stores per clock
WATTS = 690
IDLE_WATTS = 120
JOULES_PER_FLOP = 0.55e-12  # of 16-bit types with normally distributed inputs; half of it for 8-bit ones
JOULES_PER_L2_BYTE = 25e-12
JOULES_PER_MEMORY_BYTE = 40e-12

TILES = [
    *(
        (BM, BN)
        for BM in (64, 128, 256)
        for BN in (32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)
    ),
    (192, 128),
    (192, 160),
    (192, 192),
]
CLUSTERS = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)]
BALANCED = 8  # how many of the best options are tried with tiles of two widths
BAND = 64  # rows up to which several CTAs on an SM are considered
#: Consumers, and whether they defer the store of a tile.
ROLES = (("cooperative", False), ("cooperative", True), ("pingpong", False))
#: Splits of K with clusters that share operands, of which one is 1, and CTAs on an SM.
SHARED = [
    *((1, cluster, 1) for cluster in CLUSTERS),
    *((split, (1, 1), 1) for split in (2, 4, 8)),
    *((split, (1, 1), 2) for split in (1, 2, 4)),
]


class Choice(NamedTuple):
    """Options for ``build_gemm`` with their prediction: seconds, and the seconds that each bound asks for."""

    options: dict
    seconds: float
    bounds: dict


def exchange(tile, split, rate=EXCHANGE):
    """Return the clocks in which a cluster exchanges a tile's sums, at ``rate`` bytes per clock."""
    return tile[0] * tile[1] * 4 * (split - 1) / split / rate + 1000 if split > 1 else 0


def from_memory(ctas):
    """Return the bytes per second that memory delivers to a number of CTAs.

    SMs that could just take in what memory delivers do not keep it busy all the time: between the two bounds
    lies a curve, 13% below memory's for 64 SMs, 3% for 96 and 1% for 132.
    """
    return (MEMORY_BYTES**-4 + (SM_BYTES * min(SMS, max(1, ctas))) ** -4) ** -0.25


def coupling(ctas):
    """Return the seconds that a cluster costs where memory is the bound: none is faster than its slowest."""
    return COUPLING * math.log2(ctas)


def predict(
    M,
    N,
    K,
    *,
    tile,
    cluster=(1, 1),
    consumers="cooperative",
    split=1,
    resident=1,
    deferred=False,
    widths=None,
    a_type=bf16,
    out_type=bf16,
    batch=1,
    sustained=False,
):
    """Return the :class:`Choice` for some options.

    Raises:
        SpecError: the tile does not fit an SM.
    """
    pingpong = consumers == "pingpong"
    made = plan(a_type, out_type, tile, pingpong=pingpong, split=split, deferred=deferred, resident=resident)
    (BM, BN), (CM, CN) = tile, cluster
    nbytes = a_type.nbytes
    size = split if split > 1 else CM * CN
    tiles = math.ceil(M / (BM * CM)) * math.ceil(N / (BN * CN)) * batch
    slots = usable_sms(size) * resident // size  # clusters at the same time
    busiest = math.ceil(tiles / slots)  # tiles of the busiest cluster
    if widths is not None:
        laid_out = widths_of(N, math.ceil(M / (BM * CM)), BN, widths, CN)
        tiles, busiest = laid_out.tiles, laid_out.busiest(slots) / (BN * CN)
    rounds = math.ceil(tiles / slots)
    together = min(resident, math.ceil(tiles * size / SMS))  # CTAs that an SM has at the same time
    stages = math.ceil(math.ceil(K / made.k) / split)
    busy = min(1.0, tiles * size / SMS)  # the share of the SMs that load at the same time

    # --- a stage: 128 bytes of K
    tensor = 2 * BM * BN * made.k * nbytes / FLOPS_PER_CLOCK
    port = (BM // 64) * 4 * (64 + BN) * 32 / PORT
    loaded = (BM / CN + BN / CM) * 128  # bytes that L2 delivers for each CTA
    from_l2 = loaded / (L2_BYTES / CLOCK / SMS / busy)
    stage = max(tensor, port, from_l2) * together

    # --- a tile
    epilogue = BM * BN / split * out_type.nbytes / EPILOGUE
    exchange_clocks = exchange(tile, split)
    hidden = rounds > 1 and (pingpong or deferred)
    around = ROUND_TRIP + (0 if hidden else epilogue) + (0 if widths is None else SECOND_LOOP)
    clocks = busiest * stages * stage + rounds * (around + exchange_clocks) + STAGE_LATENCY
    clocks += epilogue if hidden else 0

    # --- memory: every operand once, and again for each band of tiles that does not stay in L2
    operands = (M + N) * K * nbytes * batch
    output = M * N * out_type.nbytes * batch
    at_once = SMS * BM * BN / split
    side = math.sqrt(at_once)
    again = 1 if operands / batch < L2_SIZE else max(1.0, 0.5 * math.sqrt(M * N) / (4 * side))
    moved = operands * again + output
    delivered = tiles * size * stages * loaded
    flops = 2 * M * N * K * batch
    joules = (
        flops * JOULES_PER_FLOP * (0.5 if nbytes == 1 else 2 if a_type is f32 else 1)
        + delivered * JOULES_PER_L2_BYTE
        + moved * JOULES_PER_MEMORY_BYTE
    )
    memory = moved / min(MEMORY_BYTES, SM_BYTES * SMS * busy)
    if M <= BM:  # one row of tiles: nothing is in L2 already
        full, rest = divmod(tiles, slots)
        each = moved / tiles
        memory = full * slots * each / from_memory(slots * size) + rest * each / from_memory(rest * size)
        streamed = rounds * stages * MEMORY_LATENCY / made.stages + exchange_clocks
        last = STAGE_LATENCY + epilogue + exchange(tile, split, LAST_EXCHANGE)
        memory = max(memory + last / CLOCK, streamed / CLOCK) + coupling(CM * CN)
    bounds = {
        "clock": clocks / CLOCK,
        "memory": memory,
        "power": joules / (WATTS - IDLE_WATTS),
    }
    lasting = sustained and M > BM
    by_clock, by_power = SUSTAINED if lasting else BURST
    computed = by_clock * bounds["clock"] + by_power * bounds["power"]
    if pingpong and rounds > 1 and not lasting:
        computed *= PINGPONG
    bound = max(computed, bounds["memory"])
    if sustained and not lasting:
        bound = max(bound, bounds["power"])
    options = {
        "tile": tile,
        **({"split": split} if split > 1 else {"cluster": cluster}),
        "consumers": consumers,
        **({"deferred": True} if deferred else {}),
        **({"widths": widths} if widths is not None else {}),
        **({"resident": resident} if resident > 1 else {}),
    }
    return Choice(options, LAUNCH + bound, bounds)


def candidates(M, N, K, *, majors=("K", "K"), batch=1, **problem):
    """Return all options that the kernel has for a problem as :class:`Choice`, the fastest predicted first.

    Args:
        M, N, K, batch: sizes.
        majors: those of A and B, as in ``build_gemm``.
        problem: ``a_type``, ``out_type`` and ``sustained`` of :func:`predict`.
    """
    for name, value in (("M", M), ("N", N), ("K", K), ("batch", batch)):
        if type(value) is not int or value < 1:
            raise SpecError(f"{name} = {value!r}: expected a positive whole number")
    least_a, least_b = (64 if major == "MN" else 8 for major in majors)
    found = []
    wide = problem.get("out_type", bf16) is f32
    shared = SHARED if M <= BAND else [each for each in SHARED if each[2] == 1]
    for (BM, BN), (consumers, deferred), (split, (CM, CN), resident) in itertools.product(
        TILES, ROLES, shared
    ):
        if (
            (BM > 64 and BM >= 2 * M)
            or (BN > 32 and BN >= 2 * N)
            or (CM > 1 and M <= BM)
            or (CN > 1 and N <= BN)
            or BM % (CN * least_a)
            or BN % (CM * least_b)
            or (deferred and (wide or split > 1))
            or (split > 1 and (consumers == "pingpong" or 4 * split > -(-K // 64)))
        ):
            continue
        options = {"tile": (BM, BN), "cluster": (CM, CN), "consumers": consumers, "split": split}
        options |= {"resident": resident} if resident > 1 else {}
        options |= {"deferred": True} if deferred else {}
        # A tile may not fit an SM with these roles.
        with contextlib.suppress(SpecError):
            found.append(predict(M, N, K, batch=batch, **options, **problem))
    found.sort(key=_order)
    if not wide and batch == 1 and majors[1] == "K":
        found += _of_two_widths(M, N, K, found, problem)
    return sorted(found, key=_order)


def _order(choice):
    """Sort by seconds; of equally fast choices the one with the fewest joules comes first."""
    return choice.seconds, choice.bounds["power"]


def _of_two_widths(M, N, K, found, problem):
    """Return the first choices with tiles of two widths, where these balance the clusters' work."""
    lasting = problem.get("sustained", False)
    suited = (
        choice
        for choice in found
        if "cluster" in choice.options
        and "resident" not in choice.options
        and (lasting or choice.options["consumers"] == "pingpong" or "deferred" in choice.options)
        and choice.options["tile"][0] * choice.options["cluster"][0] < M
    )
    more = []
    for choice in itertools.islice(suited, BALANCED):
        (BM, BN), (CM, CN) = choice.options["tile"], choice.options["cluster"]
        made = plan(
            problem.get("a_type", bf16),
            problem.get("out_type", bf16),
            (BM, BN),
            pingpong=choice.options["consumers"] == "pingpong",
            deferred="deferred" in choice.options,
        )
        box = made.span // problem.get("out_type", bf16).nbytes
        slots = usable_sms(CM * CN) // (CM * CN)
        widths = balanced(N, math.ceil(M / (BM * CM)), BN, slots, box, CN)
        if widths is not None:
            more.append(predict(M, N, K, **{**choice.options, "widths": widths}, **problem))
    return more


def choose(M, N, K, **problem):
    """Return the options of ``build_gemm`` with the smallest predicted time; see :func:`candidates`.

    With ``sustained`` it is the time under load that lasts, where few joules often win.
    """
    return candidates(M, N, K, **problem)[0].options


def main():
    """Print the choices for square products and for those of language models."""
    shapes = [(n, n, n) for n in (1024, 2048, 4096, 6144, 8192, 16384)]
    models = [(6144, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (7168, 18432)]
    shapes += [(M, *model) for M in (64, 1024, 8192) for model in models]
    for shape in shapes:
        for sustained in (False, True):
            best = candidates(*shape, sustained=sustained)[0]
            bound = max(best.bounds, key=best.bounds.get)
            rate = 2 * math.prod(shape) / best.seconds / 1e12
            print(
                f"{' x '.join(map(str, shape)):>20}  {'sustained' if sustained else 'burst':<9}"
                f"  {best.seconds * 1e6:8.1f} us  {rate:5.0f} TFLOP/s  {bound:<6}  {best.options}"
            )


if __name__ == "__main__":
    main()
