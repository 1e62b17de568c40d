"""Rows from a queue: each row once for any numbers of rows, CTAs and stages, and the counter is zero again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, SpecError, Tile, f32, kernel, kit, ptx, reg, sim

RING: dict[str, Any] = {"threads": 32, "design": "ring", "queue": True}


def doubled(width: int, **tuning: Any) -> Kernel:
    """D = 2 * A + n[row], and how often each row was computed."""
    plan = kit.RowPlan.make(width, [f32], [f32], **{**RING, **tuning})

    @kernel(
        in_specs=(Tile("M", width, f32), Tile("M", f32)),
        out_specs=(Tile("M", width, f32), Tile("M", f32)),
        grid=lambda M: plan.grid(M),
        arch="sm_90a",
        **plan.options(),
    )
    def doubled(A, n, D, sums, queue):  # type: ignore[no-untyped-def]
        stream = kit.RowStream(plan, A.extent(0), [A], [D], queue=queue)
        numbers = stream.numbers(n)
        with stream.rows() as row:
            more = row.number(numbers)
            total = reg.scalar(f32, init=0.0)
            for piece in row.pieces():
                for x in piece.values(0):
                    total += x
            for piece in row.pieces():
                piece.store(0, [x + x + more for x in piece.values(0)])
            row.store(sums, stream.team.reduce(total, "add"))
        ptx.ret()

    return doubled


@pytest.mark.one_in(6)
@pytest.mark.full
@pytest.mark.sample(6)
@pytest.mark.parametrize("store", ["direct", "bulk"])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("ctas", [1, 3])
@pytest.mark.parametrize("width", [160, 1536])
def test_every_row_once(width: int, ctas: int, stages: int, store: str) -> None:
    """Fewer rows than stages, as many, one more, and several rounds; held rows and others."""
    made = doubled(width, ctas=ctas, stages=stages, store=store, held=8 if width == 160 else 1)
    for rows in (1, ctas * stages, ctas * stages + 1, 23):
        A = np.random.default_rng(rows).integers(-4, 5, (rows, width)).astype(np.float32)
        n = np.arange(rows, dtype=np.float32)
        for schedule, seed in (("late", 0), ("random", 1), ("random", 2)):
            report = made.simulate(A, n, schedule=schedule, seed=seed)
            assert report.verdict == "clean", str(report)
            D, sums = report.outputs
            assert np.array_equal(D, 2 * A + n[:, None]) and np.array_equal(sums, A.sum(axis=1))
            # Which CTA takes a row is the only thing that competes.
            assert all(each.what.startswith("atom.relaxed.gpu.global.inc") for each in report.competing)


@pytest.mark.parametrize("rows", [1, 4, 9])
def test_the_counter_is_zero_again(rows: int) -> None:
    """So the kernel may be launched again with the same workspace."""
    made, A = doubled(128, ctas=2, stages=2), np.ones((rows, 128), np.float32)
    n, D, sums = np.zeros(rows, np.float32), np.empty_like(A), np.empty(rows, np.float32)
    plan = kit.RowPlan.make(128, [f32], [f32], **RING, ctas=2, stages=2)
    counter = np.zeros(1, np.uint32)
    for _ in range(2):
        D[:] = np.nan
        report = sim.load(made.module(M=rows)).launch(
            grid=plan.grid(rows),
            block=32,
            dynamic_smem=plan.shared_bytes + 512,
            args=[A, n, D, sums, counter, rows],
            schedule="random",
        )
        assert report.verdict == "clean" and counter[0] == 0 and (D == 2).all()


@pytest.mark.parametrize(
    "tuning", [{"design": "registers", "ctas": 2}, {"teams": 2}, {"cluster": 2, "stages": 2}]
)
def test_designs_without_a_queue(tuning: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="queue=True is for"):
        kit.RowPlan.make(256, [f32], [f32], **{**RING, **tuning})


def test_sums_of_columns_need_an_order() -> None:
    plan = kit.RowPlan.make(256, [f32], [f32], **RING)
    with pytest.raises(SpecError, match="from run to run"):
        kit.column_registers(plan)


def test_a_stream_without_the_workspace() -> None:
    plan = kit.RowPlan.make(256, [f32], [f32], **RING)
    options = plan.options()
    del options["workspaces"]

    @kernel(in_specs=(Tile(4, 256, f32),), out_specs=(Tile(4, 256, f32),), grid=4, arch="sm_90a", **options)
    def forgotten(A, D):  # type: ignore[no-untyped-def]
        kit.RowStream(plan, 4, [A], [D])
        ptx.ret()

    with pytest.raises(SpecError, match="queue=True"):
        forgotten.ptx()
