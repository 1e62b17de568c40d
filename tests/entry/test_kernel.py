"""``@kernel``: specs, specialization, what is checked before anything runs, and running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import sim
from pyptx.core.errors import (
    OperandError,
    PyptxError,
    SharedMemoryError,
    SimulationError,
    SpecError,
    TargetError,
)
from pyptx.core.types import b32, bf16, f32, s32, u8, u32, u64
from pyptx.dsl import Layout, Reg, Scalar, Tile, TileParam, ptx, reg, smem
from pyptx.entry import Kernel, kernel
from pyptx.entry.specialize import tensor_map
from pyptx.toolchain import Tool

pytestmark = pytest.mark.smoke

BLOCK = 64


def scaled_add(name: str | None = None, **options: Any) -> Kernel:
    """z = x * alpha + y, for the first n elements."""

    @kernel(
        in_specs=(Tile("N", f32), Tile("N", f32), Scalar(f32), Scalar(u32)),
        out_specs=(Tile("N", f32),),
        grid=lambda N: -(-N // BLOCK),
        block=BLOCK,
        name=name,
        **options,
    )
    def axpy(x: TileParam, y: TileParam, alpha: Reg, n: Reg, z: TileParam, *, TWICE: bool = False) -> None:
        i = ptx.special.ctaid.x() * BLOCK + ptx.special.tid.x()
        with ptx.if_(i < n):
            offset = reg.scalar(u64)
            ptx.inst.mul.wide.u32(offset, i, 4)
            a, b = reg.scalar(f32), reg.scalar(f32)
            ptx.inst.ld.global_.f32(a, ptx.addr(x.ptr + offset))
            ptx.inst.ld.global_.f32(b, ptx.addr(y.ptr + offset))
            total = a * alpha + b
            if TWICE:
                total += total
            ptx.inst.st.global_.f32(ptx.addr(z.ptr + offset), total)

    return axpy


@contextmanager
def refused(error: type[PyptxError], *fragments: str) -> Iterator[None]:
    """The block raises ``error`` at its line that is marked ``# refused``."""
    with pytest.raises(error) as caught:
        yield
    for fragment in fragments:
        assert fragment in str(caught.value), str(caught.value)
    location = caught.value.location
    assert location is not None and location.text.endswith("# refused"), location


def numbers(count: int, dtype: Any = np.float32) -> Any:
    return np.arange(count, dtype=dtype)


# --- text and assembly ----------------------------------------------------------------------------


def test_the_text_has_the_kernels_options(ptxas: Tool) -> None:
    text = scaled_add(name="add_them", min_ctas_per_sm=2).ptx(N=100)
    assert ".visible .entry add_them(" in text
    assert ".reqntid 64, 1, 1\n.minnctapersm 2\n{" in text
    assert ".maxnreg 64" in scaled_add(max_registers=64).ptx(N=100)
    assert ".target sm_90a" in scaled_add(arch="sm_90a").ptx(N=100)


@pytest.mark.parametrize(
    "options", [{"min_ctas_per_sm": 2}, {"max_registers": 64}, {"arch": "sm_90a"}], ids=str
)
def test_it_assembles(options: dict[str, Any], ptxas: Tool) -> None:
    k = scaled_add(**options)
    assembly = k.assemble(N=100)
    assert assembly.spills == 0 and not assembly.warnings
    assert assembly.resources[0].function == "axpy"
    assert k.assemble(N=100) is assembly


def test_sass(nvdisasm: Tool) -> None:
    assert "FFMA" in scaled_add().sass(N=100) or "FMUL" in scaled_add().sass(N=100)


def test_module_printed_and_lines() -> None:
    k = scaled_add()
    module, printed = k.module(N=100), k.printed(N=100)
    assert module.entry("axpy").source is not None and printed.text == k.ptx(N=100)
    line = next(n for n, text in enumerate(printed.text.splitlines(), 1) if "mul.wide" in text)
    source = printed.source_of(line)
    assert source is not None and source.text == "ptx.inst.mul.wide.u32(offset, i, 4)"


def test_the_version_is_the_smallest() -> None:
    @kernel(block=32)
    def empty() -> None:
        ptx.ret()

    @kernel(block=32, arch="sm_90")
    def older() -> None:
        ptx.fence.proxy_async()

    assert empty.module().version == (8, 6)
    assert older.module().version == (8, 0)


def test_an_oversized_parameter_list_needs_a_newer_version() -> None:
    count = 40
    source = f"def many({', '.join(f'a{i}' for i in range(count))}): pass"
    scope: dict[str, Any] = {}
    exec(source, scope)
    tile = Tile(64, 64, bf16, Layout.TMA_NONE, tma_box=(8, 64))
    assert kernel(in_specs=(tile,) * count, arch="sm_90")(scope["many"]).module().version == (8, 1)


# --- specialization -------------------------------------------------------------------------------


def test_specializations_are_recorded_once() -> None:
    calls: list[int] = []

    @kernel(in_specs=(Tile("N", f32),))
    def k(x: TileParam, *, STAGES: int = 4, flag: object = None) -> None:
        calls.append(STAGES)

    first = k.specialize(N=4)
    assert k.specialize(N=4) is first and k.specialize(N=4, STAGES=4) is first
    assert k.specialize(N=np.int64(4)) is first
    assert k.specialize(N=8) is not first and k.specialize(N=4, STAGES=2) is not first
    # Equal values of different types are different constants.
    assert len({id(k.specialize(N=4, flag=v)) for v in (1, True, 1.0)}) == 3
    assert calls == [4, 2, 4, 4, 4]  # N is not read


def test_a_scalar_never_compiles_anew() -> None:
    k = scaled_add()
    x = numbers(8)
    k(x, x, 1.0, 8)
    k(x, x, 2.5, 3)
    assert len(k._specializations) == 1


def test_dims_may_be_constants_of_the_kernel() -> None:
    seen: list[object] = []

    @kernel(in_specs=(Tile("M", "K", f32),), grid=lambda M: M)
    def k(x: TileParam, *, K: int) -> None:
        seen.append((K, x.shape))

    k.ptx(M=3, K=5)
    assert seen == [(5, (3, 5))]


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        (5, (5, 1, 1)),
        ((5, 6), (5, 6, 1)),
        (lambda M, N: (M, N, 2), (3, 4, 2)),
        (lambda d: (d["N"], d["T"]), (4, 9, 1)),
        (lambda N, T: N * T, (36, 1, 1)),
        (lambda N, extra=7: N * extra, (28, 1, 1)),
        (lambda **d: d["M"], (3, 1, 1)),
    ],
)
def test_grids(grid: Any, expected: tuple[int, int, int]) -> None:
    @kernel(in_specs=(Tile("M", "N", f32),), grid=grid)
    def k(x: TileParam, *, T: int = 9) -> None:
        pass

    assert k.specialize(M=3, N=4).launch.grid == expected


def test_other_options_may_be_functions() -> None:
    @kernel(
        block=lambda WARPS: 32 * WARPS,
        smem=lambda STAGES: STAGES * 1024,
        cluster=lambda d: d["WARPS"],
        grid=4,
    )
    def k(*, WARPS: int = 2, STAGES: int = 60) -> None:
        smem.store(smem.base(), 0, u32)

    special = k.specialize()
    assert (special.launch.block, special.launch.cluster) == ((64, 1, 1), (2, 1, 1))
    assert (special.launch.dynamic_smem, special.static_smem) == (60 * 1024, 0)
    assert k.specialize(STAGES=4).launch.dynamic_smem == 0


def test_unknown_and_missing_keywords() -> None:
    @kernel(in_specs=(Tile("M", "K", f32),))
    def k(x: TileParam, *, STAGES: int, MODE: int = 0) -> None:
        pass

    with refused(SpecError, "'STAGE'", "M, K, STAGES, MODE"):
        k.ptx(M=1, K=1, STAGE=4)  # refused
    with refused(SpecError, "did you mean 'sanitize'"):
        k.simulate(M=1, K=1, STAGES=4, sanitise=False)  # refused
    with refused(SpecError, "'STAGES'", "no value"):
        k.ptx(M=1, K=1)  # refused
    with refused(SpecError, "dims K of x", ".ptx(K=...)"):
        k.module(M=1, STAGES=1)  # refused
    with refused(SpecError, "hashable", "[1]"):
        k.specialize(M=1, K=1, STAGES=[1])  # refused
    with refused(SpecError, "M is 0", "positive"):
        k.ptx(M=0, K=1, STAGES=1)  # refused
    with refused(SpecError, "M is 1.5"):
        k.ptx(M=1.5, K=1, STAGES=1)  # refused


@pytest.mark.parametrize("tensor", [False, True])
def test_outputs_begin_poisoned_and_say_what_was_not_written(tensor: bool) -> None:
    def array(count: int) -> Any:
        if not tensor:
            return numbers(count)
        return pytest.importorskip("torch").arange(count).float()

    report = scaled_add().simulate(array(128), array(128), 2.0, 100)
    (found,) = report.findings
    assert (found.rule.name, report.verdict) == ("unwritten-output", "review")
    assert "z: 28 of 128 elements were never written" in found.message and "[100]" in found.message
    (out,) = report.outputs
    assert np.array_equal(np.asarray(out)[:100], 3 * numbers(100)) and np.isnan(np.asarray(out)[100:]).all()
    assert scaled_add().simulate(array(128), array(128), 2.0, 128).verdict == "clean"


def test_a_recorded_kernel_is_not_held_against_its_target_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object) -> list[Exception]:
        raise AssertionError("each instruction was checked at its call")

    monkeypatch.setattr(sim.api.launch, "unavailable", refused)
    with pytest.raises(AssertionError, match="at its call"):
        sim.load(scaled_add().module(N=128)).launch(grid=2, block=BLOCK)
    assert scaled_add().simulate(numbers(128), numbers(128), 2.0, 128).verdict == "clean"


def test_an_array_given_for_an_output_keeps_what_is_not_written() -> None:
    out = np.full(128, 7, np.float32)
    report = scaled_add().simulate(numbers(128), numbers(128), 2.0, 100, out=out)
    assert report.verdict == "clean" and (out[100:] == 7).all()


def test_a_gradient_would_be_lost() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(64, requires_grad=True), torch.ones(64)
    with refused(SpecError, "x requires a gradient", "x.detach()", "k.differentiable"):
        scaled_add()(x, y, 2.0, 64)  # refused
    with refused(SpecError, "y requires a gradient"):
        scaled_add().simulate(y, x, 2.0, 64)  # refused
    with torch.no_grad():
        assert (scaled_add()(x, y, 2.0, 64) == 3).all()
    with torch.inference_mode():
        assert (scaled_add()(x, y, 2.0, 64) == 3).all()
    assert (scaled_add()(x.detach(), y, 2.0, 64) == 3).all()


def test_extents_that_cannot_be() -> None:
    def nothing() -> None:
        pass

    with refused(SpecError, "grid is (0, 1)"):
        kernel(grid=(0, 1))(nothing).ptx()  # refused
    with refused(SpecError, "2048 threads", "1024"):
        kernel(block=(1024, 2))(nothing).ptx()  # refused
    with refused(SpecError, "grid (3, 1, 1)", "whole clusters of (2, 1, 1)"):
        kernel(grid=3, cluster=2)(nothing).ptx()  # refused
    with refused(SpecError, "block (1, 1, 128)", "(1024, 1024, 64)"):
        kernel(block=(1, 1, 128))(nothing).ptx()  # refused
    with refused(SpecError, "grid (1, 70000, 1)", "65535"):
        kernel(grid=(1, 70_000))(nothing).ptx()  # refused
    with refused(SpecError, "grid is 2.5"):
        kernel(grid=lambda: 2.5)(nothing).ptx()  # refused
    with refused(SpecError, "grid is a function of 'Q'"):
        kernel(grid=lambda Q, R: Q)(nothing).ptx()  # refused
    with refused(SpecError, "block is 'x'"):
        kernel(block="x")(nothing).ptx()  # type: ignore[call-overload]  # refused
    with refused(SpecError, "smem is 1.5"):
        kernel(smem=lambda: 1.5)(nothing).ptx()  # type: ignore[arg-type,return-value]  # refused


def test_shared_memory_past_the_limit() -> None:
    @kernel(smem=227 * 1024 + 1)
    def k() -> None:
        pass

    with refused(SharedMemoryError, "232449", "232448"):
        k.ptx()  # refused


def test_an_error_in_the_body_is_at_its_line_and_nothing_is_cached() -> None:
    @kernel
    def k() -> None:
        x = reg.scalar(u32)
        ptx.inst.add.f32(x, x, x)  # refused

    for _ in range(2):
        with refused(OperandError, "%x"):
            k.ptx()
    assert not len(k._specializations)


def test_an_architecture_that_lacks_the_instruction() -> None:
    @kernel(arch="sm_90a")
    def k() -> None:
        ptx.tcgen05.wait_ld()  # refused

    with refused(TargetError, "tcgen05.wait::ld", "sm_90a"):
        k.ptx()
    with refused(TargetError, "sm_999"):
        kernel(arch="sm_999")(lambda: None)  # refused


@pytest.mark.parametrize(
    ("box", "what"),
    [((128, 128), "256 bytes"), ((257, 64), "257"), ((128, 4), "8 bytes"), ((0, 64), "0")],
    ids=str,
)
def test_a_box_that_tma_refuses(box: tuple[int, int], what: str) -> None:
    @kernel(in_specs=(Tile("M", "K", bf16, Layout.TMA_128B, tma_box=box),))
    def k(A: TileParam) -> None:
        pass

    with refused(SpecError, "tensor map of A", what):
        k.ptx(M=256, K=256)  # refused


def test_strides_that_tma_refuses() -> None:
    @kernel(in_specs=(Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(128, 64)),))
    def k(A: TileParam) -> None:
        pass

    with refused(SpecError, "tensor map of A", "multiple of 16"):
        k.ptx(M=256, K=100)  # refused


# --- the decorated function -----------------------------------------------------------------------


def test_functions_that_do_not_match_their_specs() -> None:
    def two(a: object, b: object) -> None:
        pass

    def starred(*a: object) -> None:
        pass

    def named(*, out: int = 0) -> None:
        pass

    with refused(SpecError, "2 positional parameters (a, b)", "1 in_specs and 0 out_specs"):
        kernel(in_specs=(Tile(8, f32),))(two)  # refused
    with refused(SpecError, "*a"):
        kernel()(starred)  # refused
    with refused(SpecError, "'out'", "rename"):
        kernel()(named)  # refused
    with refused(SpecError, "an output is a Tile", "Scalar(u32)"):
        kernel(in_specs=(Tile(8, f32),), out_specs=(Scalar(u32),))(two)  # type: ignore[arg-type]  # refused
    with refused(SpecError, "a Tile or a Scalar", "f32"):
        kernel(in_specs=(f32, f32))(two)  # type: ignore[arg-type]  # refused
    with refused(SpecError, "max_registers is 0"):
        kernel(in_specs=(Tile(8, f32),) * 2, max_registers=0)(two)  # refused


def test_a_kernel_looks_like_its_function() -> None:
    k = scaled_add()
    assert isinstance(k, Kernel) and k.__name__ == "axpy" and "axpy" in repr(k)  # type: ignore[attr-defined]
    assert k.__wrapped__ is k.function  # type: ignore[attr-defined]


# --- arguments ------------------------------------------------------------------------------------


def test_arrays_that_do_not_fit() -> None:
    k = scaled_add()
    x, y = numbers(8), numbers(8)
    with refused(SpecError, "4 inputs (x, y, alpha, n), got 2", "out="):
        k(x, y)  # refused
    with refused(SpecError, "x is of type list", "expected an array"):
        k([1.0], y, 1.0, 8)  # refused
    with refused(SpecError, "x has dtype f64, expected f32"):
        k(numbers(8, np.float64), y, 1.0, 8)  # refused
    with refused(SpecError, "y has shape (2, 4)", "expected 1"):
        k(x, y.reshape(2, 4), 1.0, 8)  # refused
    with refused(SpecError, "N is 8 by dimension 0 of x and 9 by dimension 0 of y"):
        k(x, numbers(9), 1.0, 8)  # refused
    with refused(SpecError, "N is 7 by the keyword and 8"):
        k(x, y, 1.0, 8, N=7)  # refused
    with refused(SpecError, "x is not contiguous", "ascontiguousarray"):
        k(numbers(16)[::2], y, 1.0, 8)  # refused
    with refused(SpecError, "x starts at", "multiple of 16"):
        k(numbers(9)[1:], y, 1.0, 8)  # refused
    with refused(SpecError, "1 outputs, got 2"):
        k(x, y, 1.0, 8, out=(x, y))  # refused
    with refused(SpecError, "z has dtype s32, expected f32"):
        k(x, y, 1.0, 8, out=numbers(8, np.int32))  # refused
    with refused(SpecError, "N is 8", "4 by dimension 0 of z"):
        k.simulate(x, y, 1.0, 8, out=numbers(4))  # refused
    with refused(SpecError, "'M'"):
        k(x, y, 1.0, 8, M=3)  # refused
    with refused(SpecError, "stream="):
        k(x, y, 1.0, 8, stream=7)  # refused
    assert not any("sim" in special.loaded for special in k._specializations.recorded())


def test_scalars_that_do_not_fit() -> None:
    k = scaled_add()
    x, y = numbers(8), numbers(8)
    with refused(SpecError, "alpha is '1'", "Scalar(f32)"):
        k(x, y, "1", 8)  # refused
    with refused(SpecError, "n is -1", "0..4294967295"):
        k(x, y, 1.0, -1)  # refused
    with refused(SpecError, "n is 4294967296"):
        k(x, y, 1.0, 1 << 32)  # refused
    with refused(SpecError, "n is 8.0", "integer"):
        k(x, y, 1.0, 8.0)  # refused


def test_a_fixed_dim() -> None:
    @kernel(in_specs=(Tile(4, "N", s32),))
    def k(x: TileParam) -> None:
        pass

    with refused(SpecError, "dimension 0 is 5, expected 4"):
        k(np.zeros((5, 3), np.int32))  # refused


def test_untyped_tiles_take_any_type_of_their_width() -> None:
    @kernel(in_specs=(Tile("N", b32),), out_specs=(Tile("N", b32),), block=8)
    def copy(x: TileParam, y: TileParam) -> None:
        offset = reg.scalar(u64)
        ptx.inst.mul.wide.u32(offset, ptx.special.tid.x(), 4)
        word = reg.scalar(b32)
        ptx.inst.ld.global_.b32(word, ptx.addr(x.ptr + offset))
        ptx.inst.st.global_.b32(ptx.addr(y.ptr + offset), word)

    for dtype in (np.float32, np.int32, np.uint32):
        x = numbers(8, dtype)
        y = copy(x)
        assert y.dtype == np.uint32 and y.tobytes() == x.tobytes()
    with refused(SpecError, "dtype u8, expected b32"):
        copy(numbers(8, np.uint8))  # refused


# --- running --------------------------------------------------------------------------------------


def test_a_call_simulates_arrays_in_host_memory() -> None:
    k = scaled_add()
    x, y = numbers(100), numbers(100)[::-1].copy()
    z = k(x, y, 2.0, 100)
    assert z.dtype == np.float32 and np.array_equal(z, x * 2 + y)
    assert np.array_equal(k(x, y, np.float64(2), np.uint8(100), TWICE=True), 2 * (x * 2 + y))
    out = np.full(100, -1, np.float32)
    assert k(x, y, 3.0, 60, out=out) is out
    assert np.array_equal(out[:60], (x * 3 + y)[:60]) and (out[60:] == -1).all()


def test_simulate_reports() -> None:
    k = scaled_add()
    x = numbers(100)
    for schedule in ("eager", "late", "random"):
        report = k.simulate(x, x, 1.0, 100, schedule=schedule, seed=3)
        assert report.verdict == "clean" and report.findings == []
        assert np.array_equal(report.outputs[0], 2 * x)
    assert k.simulate(x, x, 1.0, 100, max_steps=1).verdict == "incomplete"


def test_a_failing_simulation_raises() -> None:
    @kernel(out_specs=(Tile(4, f32),), block=4)
    def k(z: TileParam) -> None:
        ptx.inst.st.global_.f32(ptx.addr(z.ptr, 1 << 20), 0.0)  # refused

    with pytest.raises(SimulationError) as caught:
        k()
    assert "out-of-bounds" in str(caught.value)
    assert k.simulate().verdict == "error"


def test_outputs_start_unwritten() -> None:
    """What a kernel reads from an output that it has not written is no value."""

    @kernel(out_specs=(Tile(4, f32),))
    def k(z: TileParam) -> None:
        x = reg.scalar(f32)
        ptx.inst.ld.global_.f32(x, ptx.addr(z.ptr))
        ptx.inst.st.global_.f32(ptx.addr(z.ptr), x)

    assert k.simulate().verdict == "error"
    assert k.simulate(out=np.zeros(4, np.float32)).verdict == "clean"


def test_several_outputs_and_none() -> None:
    @kernel(in_specs=(Scalar(u32),), out_specs=(Tile("N", u32), Tile("N", u8)), block=1)
    def two(n: Reg, a: TileParam, b: TileParam) -> None:
        ptx.inst.st.global_.u32(ptx.addr(a.ptr), n)
        ptx.inst.st.global_.u8(ptx.addr(b.ptr), n)

    @kernel(block=1)
    def none() -> None:
        ptx.bar.sync()

    a, b = two(513, N=1)
    assert (a.tolist(), b.tolist()) == ([513], [1])
    assert none() is None


def tma_copy(arch: str) -> Kernel:
    """Tiles of 8 x 64 through shared memory, both ways by TMA; the output's pointer is a parameter too."""

    @kernel(
        in_specs=(Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(8, 64)),),
        out_specs=(Tile("M", "K", bf16, Layout.TMA_128B, tma_box=(8, 64)),),
        grid=lambda M, K: (M // 8, K // 64),
        block=32,
        arch=arch,
        extern_smem=True,
    )
    def copy(A: TileParam, D: TileParam) -> None:
        tile = smem.alloc((8, 64), bf16, swizzle="128B")
        loaded = smem.alloc(1, u64)
        row, column = ptx.special.ctaid.x() * 8, ptx.special.ctaid.y() * 64
        first = ptx.special.tid.x() == 0
        with ptx.if_(first):
            ptx.mbarrier.init(loaded, 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(loaded, tile.nbytes)
            ptx.cp.async_.bulk.tensor_2d(dst=tile, src=A.tma_desc(), coord=(column, row), mbar=loaded)
            ptx.mbarrier.wait(loaded, 0)
            ptx.cp.async_.bulk.tensor_2d(dst=D.tma_desc(), src=tile, coord=(column, row))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)
            with ptx.if_((row | column) == 0):
                ptx.inst.st.global_.b16(ptx.addr(D.ptr), 0x4000)

    return copy


def test_tensor_maps_go_by_value() -> None:
    copy = tma_copy("sm_100a")
    x = numbers(16 * 128).reshape(16, 128).astype(ml_dtypes.bfloat16)
    for schedule in ("eager", "late"):
        report = copy.simulate(x, schedule=schedule)
        assert report.verdict == "clean", report
        assert report.outputs[0][0, 0] == 2 and report.outputs[0].tobytes()[2:] == x.tobytes()[2:]
    assert copy.assemble(M=16, K=128).spills == 0


def slabs(rows: int, columns: int, arch: str) -> Kernel:
    """A's columns in slabs of eight, two of them loaded by one copy: D[slab, row, column of the slab]."""
    count = columns // 8
    view: dict[str, Any] = {"tma_shape": (count, rows, 8), "tma_strides": (16, 2 * columns, 2)}

    @kernel(
        in_specs=(Tile(rows, columns, bf16, Layout.TMA_NONE, tma_box=(2, rows, 8), **view),),
        out_specs=(Tile(-(-count // 2) * 2, rows, 8, bf16, Layout.TMA_NONE, tma_box=(2, rows, 8)),),
        grid=-(-count // 2),
        block=32,
        arch=arch,
    )
    def unfold(A: TileParam, D: TileParam) -> None:
        box = smem.alloc((2, rows, 8), bf16, align=128)
        loaded = smem.alloc(1, u64)
        slab = ptx.special.ctaid.x() * 2
        with ptx.if_(ptx.special.tid.x() == 0):
            ptx.mbarrier.init(loaded, 1)
            ptx.mbarrier.arrive_expect_tx(loaded, box.nbytes)
            ptx.cp.async_.bulk.tensor_3d(dst=box, src=A.tma_desc(), coord=(0, 0, slab), mbar=loaded)
            ptx.mbarrier.wait(loaded, 0)
            ptx.cp.async_.bulk.tensor_3d(dst=D.tma_desc(), src=box, coord=(0, 0, slab))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    return unfold


def unfolded(x: np.ndarray) -> np.ndarray:
    """What ``slabs`` returns: an odd number of slabs gets one of zeros."""
    rows, columns = x.shape
    padded = np.zeros((rows, -(-columns // 16) * 16), x.dtype)
    padded[:, :columns] = x
    return padded.reshape(rows, -1, 8).transpose(1, 0, 2)


@pytest.mark.parametrize("promotion", ["none", "256B"])
def test_the_granularity_of_l2_fetches_reaches_the_map(promotion: str) -> None:
    spec = Tile(64, 64, bf16, Layout.TMA_128B, tma_box=(8, 64), tma_promotion=promotion)
    made = tensor_map("X", spec, 0, shape=(64, 64), dtype=bf16)
    assert made.driver_arguments().l2_promotion == {"none": 0, "256B": 3}[promotion]


def test_a_tensor_map_of_another_shape() -> None:
    x = numbers(16 * 40).reshape(16, 40).astype(ml_dtypes.bfloat16)
    assert slabs(16, 40, "sm_90a")(x).tobytes() == unfolded(x).tobytes()


def test_prepare_checks_the_arguments_and_needs_a_gpu() -> None:
    k = scaled_add()
    with refused(SpecError, "axpy takes 4 inputs"):
        k.prepare(1)  # refused
    with refused(SpecError, "axpy.prepare needs arrays on a GPU"):
        k.prepare(numbers(8), numbers(8), 1.0, 8)  # refused


# --- torch ----------------------------------------------------------------------------------------


def test_cpu_tensors() -> None:
    torch = pytest.importorskip("torch")
    k = scaled_add()
    x = torch.arange(70, dtype=torch.float32)
    z = k(x, x, 1.0, 70)
    assert isinstance(z, torch.Tensor) and torch.equal(z, 2 * x)
    z = k(x, x.numpy(), 2.0, 70, out=np.empty(70, np.float32))
    assert isinstance(z, np.ndarray) and np.array_equal(z, 3 * x.numpy())
    with refused(SpecError, "x has dtype f16, expected f32"):
        k(x.half(), x, 1.0, 70)  # refused
    with refused(SpecError, "x is not contiguous", "contiguous()"):
        k(x[::2], x[:35].clone(), 1.0, 35)  # refused


def test_arrays_in_different_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA tensor is imitated: what counts is where describe() finds the arrays."""
    import dataclasses

    from pyptx.core.arrays import describe
    from pyptx.entry import arguments

    on_gpu = numbers(8)

    def imitation(value: object) -> Any:
        info = describe(value)
        return dataclasses.replace(info, device="cuda", device_index=1) if value is on_gpu else info

    monkeypatch.setattr(arguments, "describe", imitation)
    k = scaled_add()
    with refused(SpecError, "different devices", "x on cpu:0", "y on cuda:1"):
        k(numbers(8), on_gpu, 1.0, 8)  # refused
    with refused(SpecError, "host memory", "tensor.cpu()"):
        k.simulate(on_gpu, on_gpu, 1.0, 8, out=on_gpu)  # refused


@pytest.mark.gpu
def test_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")
    k = scaled_add(arch="sm_90a")
    x = torch.arange(1000, dtype=torch.float32, device="cuda")
    y = torch.ones_like(x)
    z = k(x, y, 2.0, 1000)
    assert z.device == x.device and torch.equal(z, 2 * x + 1)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        k(x, y, 3.0, 500, out=z)
    k(x, y, 4.0, 10, out=z, stream=stream)
    stream.synchronize()
    assert torch.equal(z[:10], 4 * x[:10] + 1) and torch.equal(z[10:500], 3 * x[10:500] + 1)
    with refused(SpecError, "different devices"):
        k(x, y.cpu(), 1.0, 1000)  # refused


@pytest.mark.gpu
def test_tensor_maps_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(64, 256, dtype=torch.bfloat16, device="cuda")
    copied = tma_copy("sm_90a")(x)
    assert copied[0, 0] == 2 and torch.equal(copied.view(-1)[1:], x.view(-1)[1:])


@pytest.mark.gpu
def test_a_tensor_map_of_another_shape_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")
    k = slabs(16, 40, "sm_90a")
    for _ in range(2):  # with the driver's map, and with the plan's
        x = torch.randn(16, 40, device="cuda").bfloat16()
        expected = unfolded(x.float().cpu().numpy())
        assert np.array_equal(k(x).float().cpu().numpy(), expected)


# --- one recording for several dims -----------------------------------------------------------------


def rows_of(read: list[int], **options: Any) -> Kernel:
    """B = A + A, a CTA for each row; ``read`` gets the rows of each recording that reads them."""

    @kernel(
        in_specs=(Tile("M", "N", f32),),
        out_specs=(Tile("M", "N", f32),),
        **{"grid": lambda M: M, "block": lambda N: N, **options},
    )
    def double(A: TileParam, B: TileParam, *, CHECKED: bool = False) -> None:
        read.append(A.shape[0] if CHECKED else A.shape[1])
        row, column = ptx.special.ctaid.x(), ptx.special.tid.x()
        x = reg.scalar(f32)
        ptx.inst.ld.global_.f32(x, A.at(row, column))
        ptx.inst.st.global_.f32(B.at(row, column), x + x)

    return double


def test_dims_that_the_body_does_not_read_share_a_recording() -> None:
    recorded: list[int] = []
    k = rows_of(recorded)
    for rows, columns in ((4, 32), (8, 32), (4, 64), (5, 32), (7, 64), (4, 32)):
        x = numbers(rows * columns).reshape(rows, columns)
        assert np.array_equal(k(x), x + x)
        assert k.specialize(M=rows, N=columns).launch.grid == (rows, 1, 1)
    assert recorded == [32, 64]
    first, other = k.specialize(M=4, N=32), k.specialize(M=8, N=32)
    assert first is not other and first.module is other.module and first.printed is other.printed
    assert k.assemble(M=4, N=32) is k.assemble(M=9, N=32)


def test_dims_that_the_body_reads_have_a_recording_each() -> None:
    recorded: list[int] = []
    k = rows_of(recorded)
    for rows in (4, 5, 4):
        x = numbers(rows * 32).reshape(rows, 32)
        assert np.array_equal(k(x, CHECKED=True), x + x)
    assert recorded == [4, 5]
    k(x)
    assert recorded == [4, 5, 32]  # another constant


@pytest.mark.parametrize("option", ["block", "smem"])
def test_dims_that_options_of_the_text_read_have_a_recording_each(option: str) -> None:
    recorded: list[int] = []
    functions: dict[str, Any] = {"block": lambda M: 8 * M, "smem": lambda dims: 16 * dims["M"]}
    k = rows_of(recorded, **{"block": 32, option: functions[option]})
    texts = {k.ptx(M=rows, N=32) for rows in (4, 8, 4)}
    assert len(recorded) == 2 and len(texts) == 2


def test_a_constant_with_the_name_of_a_dim_is_read() -> None:
    @kernel(in_specs=(Tile("M", f32),), out_specs=(Tile("M", f32),), grid=lambda M: M)
    def fill(A: TileParam, B: TileParam, *, M: int) -> None:
        ptx.inst.st.global_.u32(B.at(0), M)

    assert fill.specialize(M=4).recorded is not fill.specialize(M=5).recorded


def test_the_limits_of_other_dims_are_checked() -> None:
    k = rows_of([], grid=lambda M: (1, M))
    assert k.specialize(M=65535, N=32).launch.grid == (1, 65535, 1)
    with refused(SpecError, "grid (1, 65536, 1) is outside"):
        k.specialize(M=65536, N=32)  # refused


@pytest.mark.parametrize("value", [1e39, -1e39, 10**400, -(10**400), np.float64(3.5e38)])
def test_numbers_that_a_float_type_has_not(value: Any) -> None:
    from pyptx.entry.arguments import check_scalar

    with pytest.raises(SpecError, match=r"x is .*: Scalar\(f32\) has no number that large"):
        check_scalar("x", Scalar(f32), value)


def test_numbers_that_a_float_type_has() -> None:
    from pyptx.entry.arguments import check_scalar

    for value in (3.4e38, float("inf"), -float("inf"), 1e-46, np.float32("inf"), 2**100):
        assert check_scalar("x", Scalar(f32), value) == value
    assert np.isnan(check_scalar("x", Scalar(f32), float("nan")))
