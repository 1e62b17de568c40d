"""A few rows times a weight matrix, a memory-bound kernel: ``D[M, N] = X[M, K] @ W[N, K].T`` for M = 1..16.

The time is that of reading W once.  So nothing is staged: each lane loads 16 bytes of W and of X straight
into the registers of ``mma``, whose 16 x 8 tile has the rows of X as its M and 8 rows of W as its N::

    X    16 rows       lane 4g + t loads 16 bytes of row g (and g + 8)      D    16 rows of X
         x 64 bytes    +----+----+----+----+                                     x 8 rows of W
                       | t0 | t1 | t2 | t3 |  row g                              in 4 registers of a lane
                       +----+----+----+----+
    W    8 rows        | t0 | t1 | t2 | t3 |  row g: lane 4g + t loads the same bytes of K
         x 64 bytes    +----+----+----+----+

An ``mma`` wants other elements of K in a lane: 4 bytes here, 4 bytes further on.  The order of K does not
matter for a product as long as it is the same in W and X, so lane t takes its 16 bytes as two steps of K.
The 16 bytes of W are the operands of two ``mma`` as they are, without a move.

A CTA has 8, 16 or 32 rows of W.  Its warps divide K, each takes ``unroll`` pieces of 64 bytes at a time, and
loads the next ones before it multiplies (two sets of registers).  At the end the warps' sums are added
through shared memory.

* Lanes whose row of X does not exist keep zeros.  Rows behind the last one of W load the last row; their sums
  are not stored.
* Behind the last whole turn of K, pieces outside of K are zeros, in W and in X.

Order of sums: ``mma`` adds 32 bytes of K at a time to one f32 accumulator, in order of a warp's pieces; then
the warps' sums are added in order of the warps. Equal inputs give equal bits.

``python examples/hopper/gemv.py`` assembles and simulates it anywhere, and measures it on a Hopper GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pyptx import SpecError, Tile, b32, bf16, e4m3, e5m2, f16, f32, kernel, ptx, reg, s32, smem, u64

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for programs that load this file from elsewhere

import gemm_harness as harness

ROWS, MOST = 8, 16  # rows of W and of X in one mma
PIECE = 64  # bytes of a row that four lanes load together
VECTOR = 16  # bytes of a lane
LONG = 24 << 10  # bytes of a row: measured on an H200, K = 8192 and 14336 in 16-bit types are on either side


def build_gemv(
    M, N, K, *, dtype=bf16, out_type=None, warps=16, tiles=1, unroll=None, evict_first=True, resident=None
):
    """Build the kernel; call it with X[M, K] and W[N, K].

    Args:
        M: 1 to 16.
        N: any number.
        K: elements of a row, a multiple of 16 bytes.
        dtype: type of X and W: bf16, f16, e4m3 or e5m2.
        out_type: type of D: f32, bf16 or f16; default: that of X, bf16 for 8-bit types.
        warps: warps of a CTA, which divide K.
        tiles: tiles of 8 rows of W for each warp, 1, 2 or 4, which share what the warp reads of X.
        unroll: pieces of 64 bytes that a warp has in flight for each row, twice that with the next ones;
            default: 4 with all registers of an SM for one CTA if rows are long, else 8 and many CTAs.
        evict_first: W is read once, so let it leave L2 first.
        resident: number of CTAs for which an SM must have registers. With None ptxas may delay loads to save
            registers for more CTAs.

    Raises:
        SpecError: an option out of range.
    """
    out_type = out_type or (dtype if dtype.nbytes == 2 else bf16)
    if unroll is None:
        unroll, resident = (4, resident or 1) if K * dtype.nbytes >= LONG else (8, resident)
    for name, value, choices in (
        ("dtype", dtype, (bf16, f16, e4m3, e5m2)),
        ("out_type", out_type, (f32, bf16, f16)),
        ("M", M, range(1, MOST + 1)),
        ("warps", warps, (1, 2, 4, 8, 16, 32)),
        ("tiles", tiles, (1, 2, 4)),
        ("unroll", unroll, (1, 2, 4, 8)),
    ):
        if value not in choices:
            raise SpecError(f"{name} = {value!r}: expected one of {', '.join(map(str, choices))}")
    each = VECTOR // dtype.nbytes
    if type(N) is not int or N < 1 or type(K) is not int or K < 1 or K % each:
        raise SpecError(f"N = {N}, K = {K}: expected positive numbers, and K a multiple of {each}, 16 bytes")
    turn = warps * unroll * PIECE  # bytes of K that the CTA takes in one turn
    turns, rest = divmod(K * dtype.nbytes, turn)
    rows = ROWS * tiles
    shape = "m16n8k16" if dtype.nbytes == 2 else "m16n8k32"
    threads = 32 * warps
    halves = -(-M // 8)  # rows of X that a lane loads

    @kernel(
        in_specs=(Tile(M, K, dtype), Tile(N, K, dtype)),
        out_specs=(Tile(M, N, out_type),),
        grid=(-(-N // rows),),
        block=(threads,),
        arch="sm_90a",
        min_ctas_per_sm=resident,
    )
    def gemv(X, W, D):
        tid = ptx.special.tid.x()
        warp, lane = tid >> 5, tid & 31
        group, within = lane >> 2, lane & 3
        first = ptx.special.ctaid.x() * rows
        sums = smem.alloc(warps * 8 * halves * rows, f32, name="sums")

        # --- where this lane reads: 16 bytes of its rows, at its warp's first piece
        offset = reg.scalar(u64)
        ptx.inst.mul.wide.u32(offset, warp * unroll * 4 + within, VECTOR)
        at_w = [W.at(ptx.min(first + (group + ROWS * tile), N - 1), 0).base + offset for tile in range(tiles)]
        at_x = [X.at(ptx.min(group + 8 * half, M - 1), 0).base + offset for half in range(halves)]
        has_row = [group + 8 * half < M for half in range(halves)]
        sources = [*at_w, *at_x]
        policy = ptx.cache.policy("evict_first") if evict_first else None

        def vectors():
            """Declare the registers of one turn: for each piece one vector of each source."""
            made = [[reg.array(b32, 4) for _ in sources] for _ in range(unroll)]
            for piece in made:
                for words in piece[tiles:]:
                    for word in words:
                        word.set(0)  # a row of X that does not exist
            return made

        def load(pieces, further=0, more=None, left=None):
            """Load one turn, ``further`` bytes behind the sources' places.

            ``more`` guards all loads; ``left``, bytes to the end of K, those of each piece.
            """
            for i, piece in enumerate(pieces):
                inside = more if left is None else left > i * PIECE
                for number, (words, source) in enumerate(zip(piece, sources, strict=True)):
                    if left is not None:
                        for word in words:
                            word.set(0)
                    pred, hints = inside, {"l1": "no_allocate", "cache_hint": policy}
                    if number >= tiles:
                        row = has_row[number - tiles]
                        pred, hints = row if inside is None else row & inside, {}
                    place = ptx.addr(source, further + i * PIECE)
                    ptx.load(b32, place, space="global", vector=4, nc=True, out=words, pred=pred, **hints)

        zero = reg.scalar(b32, init=0)
        accs = [ptx.mma.fragment("d", shape, f32) for _ in range(tiles)]
        for acc in accs:
            for value in acc:
                value.set(0.0)

        def multiply(pieces):
            for piece in pieces:
                weights, (x, *below) = piece[:tiles], piece[tiles:]
                y = below[0] if below else [zero] * 4
                for step in (0, 2):
                    a = [x[step], y[step], x[step + 1], y[step + 1]]
                    for acc, words in zip(accs, weights, strict=True):
                        ptx.mma(acc, a, words[step : step + 2], acc, shape=shape, atype=dtype, btype=dtype)

        # --- whole turns: the loads of one are in flight while the one before is multiplied
        now, coming = vectors(), vectors()
        if turns:
            load(now)
            with ptx.for_(0, turns // 2 * 2, 2) as number:
                load(coming, turn)
                multiply(now)
                load(now, 2 * turn, more=None if turns % 2 else number < turns - 2)
                multiply(coming)
                for source in sources:
                    source += 2 * turn
            if turns % 2:
                multiply(now)
        if rest:
            # Bytes from this lane's first piece to the end of K, or less than 1.
            left = rest - (warp * (unroll * PIECE) + within * VECTOR).view(s32)
            load(now, turns % 2 * turn, left=left)
            multiply(now)

        # --- the warps' sums, as [warp][row of X][row of W]
        for tile, acc in enumerate(accs):
            origin = acc.origin()
            for i, value in enumerate(acc):
                if acc.row(i) < 8 * halves:
                    row = (warp * (8 * halves) + origin.row + acc.row(i)) * rows
                    smem.store(sums.at(row + origin.column + (acc.column(i) + ROWS * tile)), value)
        ptx.bar.sync(0)
        with ptx.for_(tid, M * rows, threads) as number:
            m, n = number >> (rows.bit_length() - 1), number & (rows - 1)
            total = smem.load(f32, sums.at(number))
            for other in range(1, warps):
                total += smem.load(f32, sums.at(number + other * (8 * halves * rows)))
            place, inside = D.at(m, first + n), first + n < N
            if out_type is f32:
                ptx.inst.st.global_.f32(place, total, pred=inside)
            else:
                ptx.inst.st.global_.b16(place, ptx.cvt(total, out_type, rounding="rn"), pred=inside)
        ptx.ret()

    return gemv


# --- the program: verify anywhere, measure on a GPU ----------------------------------------------


def make_inputs(M, N, K, seed=0, *, dtype=bf16):
    """Return X[M, K] and W[N, K] with random, normally distributed numbers."""
    return harness.make_inputs(M, N, K, seed, a_type=dtype)


def simulated(kernel, shape, *, dtype=bf16, out_type=None, **run):
    """Run a product in the simulator; return the report and the error as a fraction of the bound."""
    x, w = make_inputs(*shape, dtype=dtype)
    out_type = out_type or (dtype if dtype.nbytes == 2 else bf16)
    d = np.full((x.shape[0], w.shape[0]), np.nan, harness.NUMPY[out_type])
    report = kernel.simulate(x, w, out=d, sanitize="strict", **run)
    exact, magnitude = harness.reference(x, w)
    return report, harness.worst_error(exact, harness.bound(magnitude, x.shape[1], x.dtype), d)


def measure(torch, shape, build=build_gemv, **options):
    """Time the kernel that ``build`` makes and ``torch.matmul`` in bf16. The work is to read W once."""
    from pyptx import bench

    M, N, K = shape

    def inputs(copy):
        return tuple(torch.randn(rows, K, device="cuda", dtype=torch.bfloat16) for rows in (M, N))

    result = bench(
        {"torch": lambda x, w: torch.matmul(x, w.T), "pyptx": build(M, N, K, **options)},
        inputs,
        reference=lambda x, w: x.float() @ w.float().T,
        rtol=2.0**-7,
        atol=1e-5 * K,
        bytes=2 * (N * K + M * K + M * N),
    )
    print(f"\nD[{M}, {N}] = X[{M}, {K}] @ W[{N}, {K}].T in bf16")
    result.show()
    return result


def program(build, cases, rows=(1, 8, 16)):
    """Run ``cases``, shapes and options, in the simulator; measure layers on a Hopper GPU.

    Ends the program with an error if a product is wrong.
    """
    good = True
    for shape, options in cases:
        kernel = build(*shape, **options)
        kinds = {name: options[name] for name in ("dtype", "out_type") if name in options}
        report, error = simulated(kernel, shape, **kinds)
        assembly = kernel.assemble()
        right = report.verdict == "clean" and report.holds == "every schedule" and error <= 1
        right &= not (assembly.spills or assembly.warnings or assembly.notes)
        good &= right
        print(
            f"{' x '.join(map(str, shape))} {options}: error/bound {error:.4f}, {'ok' if right else report}"
        )
    torch, why = harness.hopper()
    if torch is None:
        print(f"The kernel was not launched on a GPU: {why}. The simulator has run all of it.")
    else:
        for M in rows:
            for N, K in ((6144, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (7168, 18432)):
                measure(torch, (M, N, K), build=build)
    if not good:
        sys.exit("some products are wrong")
    print("All products are right.")


def main():
    program(
        build_gemv,
        [
            ((1, 40, 1032), {}),
            ((13, 70, 2600), {"tiles": 4, "warps": 4, "dtype": f16}),
            ((3, 17, 5136), {"dtype": e4m3, "unroll": 2}),
        ],
    )


if __name__ == "__main__":
    main()
