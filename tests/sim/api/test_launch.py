"""Launching: arguments and extents that fit, errors for those that do not, reports, schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import ir, sim
from pyptx.core.errors import SimulationError, SpecError
from pyptx.layout import TensorMap
from tests.sim.build import Kernel

STORE = Kernel(".reg u32 t\nmov.u32 t, %tid.x\nst.global.u32 [out], t\nret", "out:u64 n:u32")
OUT = np.zeros(4, np.uint32)


@pytest.mark.parametrize(("args", "said"), [
    ((OUT,), "1 arguments given; kernel has 2: out, n"),
    ((OUT, 1, 2), "3 arguments given"),
    ((OUT, OUT), "an array for parameter n, which has 4 bytes"),
    ((OUT, 1 << 32), "does not fit parameter n"),
    ((OUT, -(1 << 31) - 1), "does not fit parameter n"),
    ((OUT, 1.5), "1.5 for the integer parameter n"),
    ((OUT, "1"), "'1' for parameter n"),
    ((TensorMap.tiled(OUT, box=(4,)), 1), "a tensor map for parameter out, which has 8 bytes"),
    ((OUT[::-1], 1), "strides of at least 0"),
    ((np.broadcast_to(OUT, (2, 4)), 1), "read-only"),
    ((np.array(["x"]), 1), "no PTX type"),
])  # fmt: skip
def test_arguments_that_do_not_fit(args: tuple[Any, ...], said: str) -> None:
    with pytest.raises(SpecError, match=said.replace("(", "\\(")):
        STORE.run(*args)


@pytest.mark.parametrize(("options", "said"), [
    ({"block": 0}, "positive"), ({"block": (2, 2, 2, 2)}, "one to three"), ({"grid": (1, -1)}, "positive"),
    ({"block": (32, 33)}, "1056 threads; a CTA has at most 1024"), ({"schedule": "lazy"}, "unknown schedule 'lazy'"),
    ({"schedule": "starve:alu"}, "unknown schedule"),
])  # fmt: skip
def test_launch_options_that_do_not_fit(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        STORE.run(OUT, 1, **options)


def test_block_and_directives() -> None:
    exact = Kernel("ret", directives=(ir.Directive("reqntid", (64, 1, 1)),))
    exact.clean(block=64)
    with pytest.raises(SpecError, match="reqntid"):
        exact.run(block=32)
    most = Kernel("ret", directives=(ir.Directive("maxntid", (64,)),))
    most.clean(block=(16, 4))
    with pytest.raises(SpecError, match="maxntid"):
        most.run(block=(16, 5))


def test_shared_memory_beyond_the_target() -> None:
    kernel = Kernel(".shared b8 fixed[1024] 16\n.shared b8 dyn[] 16\nret")
    kernel.clean(smem=232_448 - 1024)
    with pytest.raises(SimulationError, match="232449 bytes of shared memory; sm_100a has at most 232448"):
        kernel.run(smem=232_448 - 1023)


def test_which_entry() -> None:
    function = STORE.module.functions[0]
    module = ir.Module((8, 6), "sm_100a", (ir.Function("a"), ir.Function("b", params=function.params)))
    loaded = sim.load(module)
    assert loaded.launch("a", grid=1, block=1).verdict == "clean"
    with pytest.raises(SpecError, match="no entry 'c'; the module has"):
        loaded.launch("c", grid=1, block=1)
    with pytest.raises(SpecError):
        loaded.launch(grid=1, block=1)
    with pytest.raises(SpecError, match="sim.load takes"):
        sim.load(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [7, -7, np.int8(-7), np.uint64(1 << 40), np.float32(1.5)])
def test_scalars_become_their_bytes(value: Any) -> None:
    kernel = Kernel("st.global.b64 [out], n\nret", "out:u64 n:b64")
    out = np.zeros(1, np.uint64)
    if isinstance(value, np.float32):
        with pytest.raises(SpecError):
            kernel.run(out, value)
        kernel = Kernel("st.global.b32 [out], n\nret", "out:u64 n:b32")
    kernel.clean(out, value, block=1)
    expected = value.view(np.uint32) if isinstance(value, np.float32) else int(value) % 2**64
    assert out[0] == expected


def test_a_module_is_loaded_once_and_launched_often() -> None:
    """Launches do not see each other: shared memory, barriers and findings are new each time."""
    kernel = Kernel(
        """
        .shared b8 tile[8] 8
        .reg u32 x
        .reg pred p
        setp.ne.u32 p, n, 0
        @p st.shared.u32 [tile], 5
        ld.shared.u32 x, [tile] // read
        st.global.u32 [out], x
        ret
        """,
        "out:u64 n:u32",
    )
    out = np.zeros(1, np.uint32)
    for _ in range(3):
        kernel.clean(out, 1, block=1)
        assert out[0] == 5
        report = kernel.run(out, 0, block=1)
        assert [f.rule.name for f in report.findings] == ["uninitialized-read"]


def test_one_finding_per_line_and_rule() -> None:
    kernel = Kernel(
        """
        .shared b8 tile[256] 8
        .reg u32 t x a
        mov.u32 t, %tid.x
        mov.u32 a, tile
        mad.lo.u32 a, t, 4, a
        ld.shared.u32 x, [a] // first
        ld.shared.u32 x, [a] // second
        ret
        """
    )
    report = kernel.run(block=64, grid=4)
    lines = [f.location.line for f in report.findings if f.location is not None]
    assert lines == [kernel.line("first"), kernel.line("second")]
    text = str(report)
    assert "error: [uninitialized-read]" in text and "remedy:" in text


def test_check_raises_what_the_report_says() -> None:
    out = np.zeros(1, np.uint32)
    assert STORE.run(out, 1, block=1).check().verdict == "clean"
    report = Kernel("st.global.u32 [out+4], 1 // bad\nret", "out:u64").run(out, block=1)
    with pytest.raises(SimulationError, match="out-of-bounds") as error:
        report.check()
    assert error.value.report is report  # type: ignore[attr-defined]
    stopped = Kernel(".reg u32 i\nmov.u32 i, 0\nL:\nadd.u32 i, i, 1\nbra L").run(block=1, max_steps=100)
    with pytest.raises(SimulationError, match="incomplete"):
        stopped.check()


def test_a_schedule_repeats_with_its_seed() -> None:
    """The order in which warps take a ticket: the same for a seed, different for some."""
    kernel = Kernel(
        """
        .shared b8 next[8] 8
        .reg u32 t w a x
        .reg u64 o
        .reg pred p q
        mov.u32 t, %tid.x
        mov.u32 a, next
        setp.eq.u32 p, t, 0
        @p st.shared.u32 [a], 0
        bar.sync 0
        and.b32 x, t, 31
        setp.eq.u32 p, x, 0
        shr.u32 w, t, 5
        @!p bra END
        atom.shared.add.u32 x, [a], 1
        mad.wide.u32 o, x, 4, out
        st.global.u32 [o], w
        END:
        ret
        """,
        "out:u64",
    )

    def order(schedule: str, seed: int) -> tuple[int, ...]:
        out = np.full(8, 99, np.uint32)
        report = kernel.clean(out, block=256, schedule=schedule, seed=seed)
        assert report.schedule == (f"random (seed {seed})" if schedule == "random" else schedule)
        return tuple(out.tolist())

    assert all(order("random", seed) == order("random", seed) for seed in range(5))
    assert len({order("random", seed) for seed in range(5)}) > 1
    assert all(
        sorted(order(schedule, 0)) == list(range(8)) for schedule in ("eager", "late", "starve:ld", "random")
    )


def test_ctas_that_follow_others_in_their_place_see_their_own_numbers() -> None:
    """More CTAs than run at once, of several warps: the later ones get the storage of earlier ones."""
    kernel = Kernel(
        """
        .reg u32 c t n
        .reg u64 o
        mov.u32 c, %ctaid.x
        mov.u32 t, %tid.x
        mov.u32 n, %ntid.x
        mad.lo.u32 t, c, n, t
        mad.wide.u32 o, t, 4, out
        st.global.u32 [o], c
        ret
        """,
        "out:u64",
    )
    out = np.full((1500, 1024), -1, np.int32)
    kernel.clean(out, grid=1500, block=1024)
    assert (out == np.arange(1500)[:, None]).all()


def test_structs_go_by_value() -> None:
    kernel = Kernel(
        """
        .reg u32 a
        .reg u64 b
        mov.u64 b, s
        ld.param.u32 a, [b]
        ld.param.u64 b, [b+8]
        st.global.u32 [out], a
        st.global.u64 [out+8], b
        ret
        """,
        "s:b8[16]@8 out:u64",
    )
    kind = np.dtype([("a", "<u4"), ("_", "<u4"), ("b", "<u8")])
    value = np.array((7, 0, 1 << 40), kind)[()]
    for given in (value, value.tobytes()):
        out = np.zeros(2, np.uint64)
        kernel.clean(given, out)
        assert out.tolist() == [7, 1 << 40]
    with pytest.raises(SpecError, match="15 bytes for parameter s, which has 16"):
        kernel.run(bytes(15), np.zeros(2, np.uint64))
