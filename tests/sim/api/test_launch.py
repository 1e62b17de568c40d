"""Launching: arguments and extents that fit, errors for those that do not, reports, schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import ir, sim
from pyptx.core.errors import SimulationError, SpecError
from pyptx.layout import TensorMap
from tests.sim.build import Kernel

pytestmark = pytest.mark.smoke

STORE = Kernel(".reg u32 t\nmov.u32 t, %tid.x\nst.global.u32 [out], t\nret", "out:u64 n:u32")
OUT = np.zeros(4, np.uint32)


@pytest.mark.parametrize(("args", "said"), [
    ((OUT,), "1 arguments were given, but kernel takes 2: out, n"),
    ((OUT, 1, 2), "3 arguments were given"),
    ((OUT, OUT), "an array was given for parameter n, which has 4 bytes"),
    ((OUT, 1 << 32), "does not fit parameter n"),
    ((OUT, -(1 << 31) - 1), "does not fit parameter n"),
    ((OUT, 1.5), "1.5 was given for the integer parameter n"),
    ((OUT, "1"), "'1' was given for parameter n"),
    ((OUT, TensorMap.tiled(OUT, box=(4,))), "a tensor map was given for parameter n, which has 4 bytes"),
    (([OUT, TensorMap.tiled(OUT, box=(4,))], 1), "for the integer parameter out"),
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


@pytest.mark.parametrize(("options", "said"), [
    ({"grid": 2.5}, "grid: expected one to three positive integers.* got 2.5"), ({"grid": None}, "grid: .* None"),
    ({"grid": (1, 70_000)}, "outside 1"), ({"block": (1, 1, 1024)}, "outside 1"), ({"smem": 1.5}, "dynamic_smem"),
    ({"timeout": "2"}, "timeout is '2'"), ({"timeout": -1}, "timeout is -1"), ({"timeout": float("nan")}, "nan"),
    ({"max_steps": "2"}, "max_steps is '2'"), ({"max_steps": 0}, "at least 1"), ({"memory": "x"}, "memory is 'x'"),
    ({"schedule": None}, "schedule is None"), ({"schedule": ["eager"]}, "schedule is \\['eager'"),
    ({"seed": [1]}, "seed is \\[1\\]"), ({"seed": 1.5}, "seed is 1.5"), ({"seeds": -1}, "seeds is -1"),
    ({"progress": 3}, "progress is 3: expected a function"),
    ({"sanitize": "stric"}, "sanitize is 'stric': expected True, 'strict' or False"), ({"sanitize": 3}, "sanitize is"),
    ({"uninitialized": [9]}, "uninitialized contains 9, but there are 2 arguments"), ({"uninitialized": "x"}, "a list of pos"),
    ({"uninitialized": [-1]}, "at least 0"), ({"uninitialized": [1]}, "uninitialized names argument 1, which is 1: expected an array"),
    ({"uninitialized": 0}, "a list of positions"), ({"outputs": [2]}, "outputs contains 2, but there are 2 arguments"),
])  # fmt: skip
def test_every_option_is_held_against_what_it_can_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        STORE.run(OUT, 1, **options)
    assert caught.value.location is not None and caught.value.location.file.endswith("build.py")
    if not {"grid", "block", "smem", "uninitialized", "outputs"} & set(options):
        stream = sim.Stream().launch(sim.load(STORE.module), grid=1, block=1, args=[OUT, 1])
        with pytest.raises(SpecError, match=said):
            stream.run(**options)


@pytest.mark.parametrize("args", [None, 3, "ab", b"ab"])
def test_arguments_are_a_list(args: Any) -> None:
    with pytest.raises(SpecError, match="args is .*: expected a list with one argument for each parameter"):
        sim.load(STORE.module).launch(grid=1, block=1, args=args)
    with pytest.raises(SpecError, match="entry is 3"):
        sim.load(STORE.module).launch(3, grid=1, block=1, args=[OUT, 1])  # type: ignore[arg-type]


def test_numbers_of_numpy_are_options() -> None:
    options = {"schedule": "random", "seed": np.int64(2), "max_steps": np.int32(99), "sanitize": False}
    report = STORE.run(OUT, 1, block=np.int64(4), **options)
    assert report.verdict == "clean" and report.schedule == "random (seed 2)"


def test_more_parameters_than_an_entry_has() -> None:
    text = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .b8 x[1000000000000]) { ret; }"
    with pytest.raises(SpecError, match="1000000000000 bytes; an entry has at most 32764"):
        sim.load(text).launch(grid=1, block=1, args=[b""])


def test_an_output_that_the_kernel_does_not_write_is_a_finding() -> None:
    """How much of it, and where it begins; not of an array whose contents count."""
    out = np.zeros((3, 4), np.uint32)
    report = STORE.run(out, 1, block=1, outputs=[0])
    (found,) = report.findings
    assert (found.rule.name, report.verdict) == ("unwritten-output", "review")
    assert found.message == (
        "out: 11 of 12 elements were never written completely (44 of 48 bytes), the first at [0, 1]"
    )
    part = Kernel("st.global.u8 [out+15], 1\nret", "out:u64")
    assert "(47 of 48 bytes), the first at [0, 0]" in part.run(out, outputs=[0]).findings[0].message
    for options in ({}, {"uninitialized": [0]}):
        assert STORE.run(out, 1, block=1, **options).verdict == "clean"
    whole = Kernel(
        ".reg u32 t\n.reg u64 o a\nmov.u32 t, %tid.x\nmul.wide.u32 o, t, 4\nadd.u64 a, out, o\n"
        "st.global.u32 [a], t\nret",
        "out:u64",
    )
    whole.clean(out, block=12, outputs=[0])
    whole.clean(np.zeros((2, 8), np.uint32)[:1, :4], block=4, outputs=[0])
    report = whole.run(out, block=11, outputs=[0], schedule="sampled")
    assert [f.rule.name for f in report.findings] == ["unwritten-output"]
    # The error is what counts where the run ended early.
    assert [f.rule.name for f in whole.run(out, block=13, outputs=[0]).findings] == ["out-of-bounds"]


@pytest.mark.parametrize("name, words", [("complex64", 2), ("complex128", 4)])
def test_complex_arrays(name: str, words: int) -> None:
    kernel = Kernel(
        "st.global.f32 [out], 0f3FC00000\nret" if words == 2 else "st.global.u32 [out+12], 0x3ff00000\nret",
        "out:u64",
    )
    out = np.zeros(2, name)
    kernel.clean(out, block=1)
    assert out.tolist() == [1.5 if words == 2 else 1j, 0]


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
    with pytest.raises(
        SimulationError, match="232449 bytes of shared memory, but sm_100a has at most 232448"
    ):
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
    assert "review: [undefined-load]" in text and "remedy:" in text


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


@pytest.mark.full
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
    kernel.clean(out, grid=1500, block=1024, timeout=60)
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
    with pytest.raises(SpecError, match="15 bytes were given for parameter s, which has 16"):
        kernel.run(bytes(15), np.zeros(2, np.uint64))
