"""Rows through every design: each element once, at any width and any number of rows, and what is recorded."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, ScalarType, SpecError, Tile, bf16, e4m3, f16, f32, kernel, kit, ptx, reg, u32

#: Widths and designs: whole and ragged steps, small pieces, loops, rings, clusters.
STREAMS: list[tuple[int, dict[str, Any]]] = [
    (64, {}),
    (70, {"threads": 4}),
    (257, {"threads": 32, "held": 32}),
    (264, {"threads": 32, "keep": False, "resident": 8}),
    (4096, {"threads": 32, "held": 2}),
    (1030, {"threads": 32, "held": 2, "at_once": 3}),
    (256, {"threads": 32, "teams": 2, "ctas": 2}),
    (264, {"threads": 64, "ctas": 2, "ahead": True}),
    (256, {"threads": 32, "teams": 2, "ctas": 2, "design": "ring", "stages": 2}),
    (264, {"threads": 32, "ctas": 2, "design": "ring", "stages": 3, "store": "bulk"}),
    (512, {"threads": 32, "ctas": 1, "design": "ring", "stages": 2, "store": "bulk", "held": 1}),
    (264, {"threads": 32, "design": "ring", "stages": 1}),
    (264, {"threads": 32, "design": "ring", "stages": 1, "prefetch": 2}),
    (264, {"threads": 32, "design": "ring", "stages": 1, "prefetch": 2, "prefetch_from": 4}),
    (264, {"threads": 32, "ctas": 2, "design": "ring", "stages": 2, "prefetch": 1}),
    (264, {"threads": 32, "teams": 2, "design": "ring", "stages": 1, "store": "bulk"}),
    (512, {"threads": 32, "design": "ring", "stages": 1, "store": "bulk", "held": 1}),
    (272, {"threads": 32, "cluster": 2, "design": "ring", "stages": 1, "store": "bulk"}),
    (2816, {"threads": 32, "ctas": 1, "design": "ring", "stages": 2, "held": 1}),
    (296, {"threads": 32, "cluster": 2}),
    (2096, {"threads": 32, "cluster": 4, "held": 1}),
    (272, {"threads": 32, "cluster": 2, "ctas": 2, "design": "ring", "store": "bulk"}),
]


def plan_for(width: int, types: tuple[ScalarType, ...], tuning: dict[str, Any]) -> kit.RowPlan:
    return kit.RowPlan.make(width, types[:2], types[2:], **tuning)


def sums(width: int, types: tuple[ScalarType, ...], tuning: dict[str, Any]) -> Kernel:
    """D = A + B * w + n[row]; columns[row] counts what each thread says of its columns."""
    plan = plan_for(width, types, tuning)
    a, b, d = types

    @kernel(
        in_specs=(Tile("M", width, a), Tile("M", width, b), Tile(width, f32), Tile("M", f32)),
        out_specs=(Tile("M", width, d), Tile("M", f32)),
        grid=lambda M: plan.grid(M),
        arch="sm_90a",
        **plan.options(),
    )
    def summed(A, B, w, n, D, columns):  # type: ignore[no-untyped-def]
        stream = kit.RowStream(plan, A.extent(0), [A, B], [D])
        weights, numbers = stream.vector(w), stream.numbers(n)
        with stream.rows() as row:
            more = row.number(numbers)
            found = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                column = reg.scalar(f32)
                ptx.inst.cvt.rn.f32.u32(column, piece.column())
                found += piece.keep([column])[0]
            for piece in row.pieces():
                terms = zip(piece.values(0), piece.values(1), piece.vector(weights), strict=True)
                piece.store(0, [x + y * z + more for x, y, z in terms])
            row.store(columns, stream.team.reduce(found, "add"))
        ptx.ret()

    return summed


@pytest.mark.one_in(4)
@pytest.mark.sample(5)
@pytest.mark.parametrize(("width", "tuning"), STREAMS)
@pytest.mark.parametrize("types", [(f32, f32, f32), (bf16, bf16, bf16), (f16, f32, bf16)])
def test_every_element_once(width: int, tuning: dict[str, Any], types: tuple[ScalarType, ...]) -> None:
    kernel, plan = sums(width, types, tuning), plan_for(width, types, tuning)
    for rows in (1, 7):
        rng = np.random.default_rng(rows)
        # Small whole numbers: each result is exact in every type.
        A, B = (rng.integers(-4, 5, (rows, width)).astype(dtype.dtype) for dtype in types[:2])
        w, n = (rng.integers(-4, 5, size).astype(np.float32) for size in (width, rows))
        for schedule in ("late", "random"):
            report = kernel.simulate(A, B, w, n, schedule=schedule)
            assert report.verdict == "clean" and report.holds == "every schedule", str(report)
            D, columns = report.outputs
            exact = A.astype(np.float32) + B.astype(np.float32) * w + n[:, None]
            assert np.array_equal(D.astype(np.float32), exact)
            assert (columns == np.arange(0, width, plan.vector).sum()).all()


def test_results_of_8_bits() -> None:
    plan = kit.RowPlan.make(96, [bf16], [e4m3])

    @kernel(
        in_specs=(Tile("M", 96, bf16),),
        out_specs=(Tile("M", 96, e4m3),),
        grid=lambda M: plan.grid(M),
        arch="sm_90a",
        **plan.options(),
    )
    def narrow(A, D):  # type: ignore[no-untyped-def]
        with kit.RowStream(plan, A.extent(0), [A], [D]).rows() as row:
            for piece in row.pieces():
                piece.store(0, piece.values(0))
        ptx.ret()

    x = np.random.default_rng(0).integers(-8, 9, (5, 96)).astype(bf16.dtype)
    (d,) = narrow.simulate(x).outputs
    assert np.array_equal(d.astype(np.float32), x.astype(np.float32))


def test_derived_values_are_computed_once_for_rows_in_registers() -> None:
    for held, times in ((8, 1), (1, 2)):
        plan = kit.RowPlan.make(1024, [f32], [f32], threads=128, held=held)
        computed = []

        @kernel(
            in_specs=(Tile("M", 1024, f32),),
            out_specs=(Tile("M", 1024, f32),),
            grid=lambda M, plan=plan: plan.grid(M),
            arch="sm_90a",
            **plan.options(),
        )
        def doubled(A, D, *, plan=plan, note=computed.append):  # type: ignore[no-untyped-def]
            def double(piece: kit.Piece) -> list[Any]:
                note(piece.step)
                return [x + x for x in piece.values(0)]

            with kit.RowStream(plan, A.extent(0), [A], [D]).rows() as row:
                twice = row.derive(double)
                for piece in row.pieces():
                    piece.store(0, twice(piece))
                for piece in row.pieces():
                    piece.store(0, twice(piece))
            ptx.ret()

        doubled.ptx(M=1)
        assert sorted(computed) == sorted(list(range(plan.steps)) * times)


def test_rows_beyond_four_gib_have_64_bit_offsets() -> None:
    """The address of a row is a 64-bit product: row 2**20 of 8 KiB is 8 GiB away."""
    text = sums(2048, (f32, f32, f32), {}).ptx(M=1 << 20)
    assert sum("mad.wide.u32" in line and ", 8192," in line for line in text.splitlines()) == 3


def test_a_row_is_loaded_before_the_vectors() -> None:
    """The thread waits for its row first, so the loads of the row come first; then the weights, or late."""
    for tuning, late in (({}, False), ({"keep": False}, True)):
        lines = sums(256, (f32, f32, f32), {"threads": 32, **tuning}).ptx(M=4).splitlines()
        wide = [at for at, line in enumerate(lines) if "ld.global.nc" in line and ".v4" in line]
        of_rows = [at for at in wide if "no_allocate" in lines[at]]
        others = [at for at in wide if at not in of_rows]
        assert len(of_rows) == 4 and len(others) == 2 and max(of_rows) < min(others)
        first_sum = next(at for at, line in enumerate(lines) if "cvt.rn.f32.u32" in line)
        assert (min(others) > first_sum) == late


def test_results_of_one_stage_take_the_place_of_the_row() -> None:
    """So that several CTAs fit on an SM; where the bytes of an element differ, they have a place of their own."""
    tuning: dict[str, Any] = {"threads": 256, "design": "ring", "stages": 1, "store": "bulk"}
    assert plan_for(8192, (f32, f32, f32), tuning).shared_bytes == 2 * 32768
    assert plan_for(8192, (f32, f32, bf16), tuning).shared_bytes == 2 * 32768 + 16384
    assert plan_for(8192, (f32, f32, f32), {**tuning, "held": 1}).shared_bytes == 3 * 32768


def test_l2_gets_the_row_that_a_later_cta_loads() -> None:
    """One prefetch of each input for each copy, guarded by the number of rows."""
    tuning = {"threads": 32, "design": "ring", "stages": 1, "prefetch": 66}
    text = sums(256, (f32, f32, f32), tuning).ptx(M=100)
    assert text.count("cp.async.bulk.prefetch.L2.global") == 2
    assert "cp.async.bulk.prefetch" not in sums(256, (f32, f32, f32), {**tuning, "prefetch": 0}).ptx(M=100)


def test_a_cta_copies_its_rows_before_it_brings_later_ones_into_l2() -> None:
    """A ring is filled without; CTAs of one row begin with a given row."""
    ring = {"threads": 32, "design": "ring", "stages": 2, "ctas": 3, "prefetch": 2}
    text = sums(256, (f32, f32, f32), ring).ptx(M=100)
    copies = [place.start() for place in re.finditer(r"cp\.async\.bulk\.shared", text)]
    assert len(copies) == 4 and text.count("cp.async.bulk.prefetch") == 2
    assert copies[-1] < text.index("cp.async.bulk.prefetch")
    one = {"threads": 32, "design": "ring", "stages": 1, "prefetch": 2, "prefetch_from": 50}
    text = sums(256, (f32, f32, f32), one).ptx(M=100)
    assert re.search(r"setp\.ge\.u32 [^;]*, 50;", text)
    assert text.index("cp.async.bulk.shared") < text.index("cp.async.bulk.prefetch")


@pytest.mark.parametrize("use", ["reduce", "vector", "numbers", "store", "column"])
def test_what_needs_whole_rows(use: str) -> None:
    """Sums, vectors and numbers of rows are refused where a team has a part of one."""
    plan = kit.RowPlan.make(256, [f32], [f32], parts=2)

    @kernel(
        in_specs=(Tile("M", 256, f32), Tile(256, f32), Tile("M", f32)),
        out_specs=(Tile("M", 256, f32),),
        grid=lambda M: plan.grid(M),
        arch="sm_90a",
        **plan.options(),
    )
    def whole(A, w, n, D):  # type: ignore[no-untyped-def]
        stream = kit.RowStream(plan, A.extent(0), [A], [D])
        one = reg.scalar(f32, init=1.0)
        with stream.rows() as row:
            for piece in row.pieces():
                {
                    "reduce": lambda: stream.team.reduce(one, "add"),
                    "vector": lambda: stream.vector(w),
                    "numbers": lambda: stream.numbers(n),
                    "store": lambda: row.store(n, one),
                    "column": piece.column,
                }[use]()
        ptx.ret()

    with pytest.raises(SpecError, match="part"):
        whole.ptx(M=4)


@pytest.mark.parametrize(
    ("width", "types", "tuning", "word"),
    [
        (0, (f32, f32, f32), {}, "width is 0"),
        (64, (e4m3, f32, f32), {}, "dtype"),
        (64, (f32, f32, u32), {}, "dtype"),
        (64, (f32, f32, f32), {"design": "rings"}, "'rings'"),
        (64, (f32, f32, f32), {"store": "bulk"}, "design='ring'"),
        (64, (f32, f32, f32), {"ctas": 0}, "ctas is 0"),
        (64, (f32, f32, f32), {"ahead": True}, "ctas="),
        (64, (f32, f32, f32), {"threads": 32, "design": "ring", "stages": 0}, "at least 2"),
        (64, (f32, f32, f32), {"threads": 32, "design": "ring", "stages": 1, "ctas": 4}, "stages=1"),
        (64, (f32, f32, f32), {"threads": 32, "design": "ring", "stages": 1, "queue": True}, "stages=1"),
        (64, (f32, f32, f32), {"threads": 8, "design": "ring"}, "whole warps"),
        (66, (bf16, bf16, bf16), {"threads": 32, "design": "ring"}, "multiples of 16"),
        (64, (f32, f32, f32), {"at_once": 9}, "at_once is 9"),
        (64, (f32, f32, f32), {"threads": 32, "design": "ring", "prefetch": -1}, "prefetch is -1"),
        (64, (f32, f32, f32), {"threads": 32, "design": "ring", "prefetch_from": -1}, "prefetch_from is -1"),
        (64, (f32, f32, f32), {"design": "ring", "prefetch": 2, "prefetch_from": 9}, "stages=1"),
        (64, (f32, f32, f32), {"threads": 32, "prefetch": 2}, "design='ring'"),
        (64, (f32, f32, f32), {"threads": 32, "teams": 2, "design": "ring", "prefetch": 2}, "one team"),
        (64, (f32, f32, f32), {"load_hint": "evict"}, "load_hint"),
        (64, (f32, f32, f32), {"parts": 3}, "parts is 3"),
        (66, (f32, f32, f32), {"parts": 4}, "divides the width 66"),
        (32, (f32, f32, f32), {"cluster": 8, "threads": 32, "teams": 1}, None),
        (20, (f32, f32, f32), {"cluster": 8, "threads": 32, "teams": 1}, "smaller cluster"),
        (1 << 29, (f32, f32, f32), {}, "2 GiB"),
    ],
)
def test_plans_that_are_refused(
    width: int, types: tuple[ScalarType, ...], tuning: dict[str, Any], word: str | None
) -> None:
    if word is None:
        plan_for(width, types, tuning)
        return
    with pytest.raises(SpecError) as caught:
        plan_for(width, types, tuning)
    assert word in str(caught.value)
