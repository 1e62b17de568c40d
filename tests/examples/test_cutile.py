"""cuTile's matmul: right for every type, any sizes and paddings, for every schedule; the figure's counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import ScalarType, SpecError, bf16, e4m3, f16, f32, kit
from pyptx.toolchain import Tool
from tests.counting import calls_in

from .loading import load_example

cutile = load_example("blackwell/cutile/matmul_mma_sync.py")

tcgen05 = load_example("blackwell/cutile/matmul_tcgen05.py")
harness = cutile.harness
TF32 = cutile.TF32_ROUNDING

CASES = [(dtype, *shape) for dtype, shapes in cutile.SHAPES.items() for shape in shapes]
#: For f32: several tiles, K of several slices, a last band of swizzle_2d that is lower.
CASES += [(f32, 330, 100, 132), (f32, 300, 65, 97)]
TYPES = [f16, bf16, f32]


def check(kernel: Any, M: int, N: int, K: int, dtype: ScalarType = f16, **options: Any) -> None:
    report, error = harness.simulated(kernel, M, N, K, dtype, TF32, sanitize="strict", **options)
    assert report.verdict == "clean", str(report)
    assert report.holds == "every schedule", str(report)
    assert error <= 1


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("dtype", "M", "N", "K"), CASES)
def test_right(dtype: ScalarType, M: int, N: int, K: int) -> None:
    check(cutile.build_matmul(N, K, dtype), M, N, K, dtype)


@pytest.mark.full
@pytest.mark.one_in(14)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("schedule", ["late", "random"])
def test_other_schedules_and_targets(dtype: ScalarType, schedule: str, arch: str) -> None:
    N, K = 72, 3 * 128 // dtype.nbytes + 8
    check(cutile.build_matmul(N, K, dtype, arch=arch), 70, N, K, dtype, schedule=schedule, seed=1)


@pytest.mark.full
@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        (f16, {"stages": 3}),
        (f16, {"tile": (64, 128, 64), "warps": (2, 4), "stages": 4}),
        (f16, {"tile": (64, 64, 64), "warps": (4, 1)}),
        (bf16, {"tile": (128, 128, 64), "warps": (2, 4), "group_size_m": 1}),
        (f32, {"stages": 4}),
        (f32, {"tile": (64, 64, 32), "warps": (2, 2)}),
        (f32, {"tile": (128, 32, 32), "warps": (4, 1), "stages": 4}),
    ],
)
def test_options(dtype: ScalarType, options: dict[str, Any]) -> None:
    M, N, K = 150, 136, 264
    check(cutile.build_matmul(N, K, dtype, **options), M, N, K, dtype)


@pytest.mark.full
def test_m_is_a_run_time_size() -> None:
    kernel = cutile.build_matmul(40, 36, f32)
    assert {kernel.ptx(M=M) for M in (1, 32, 4096)} == {kernel.ptx(M=7)}
    for M in (1, 33):
        check(kernel, M, 40, 36, f32)


@pytest.mark.full
@pytest.mark.parametrize("dtype", TYPES)
def test_paddings(dtype: ScalarType) -> None:
    """Past the end of K zeros add nothing, NaNs spoil every sum; past M and N nothing shows."""
    ragged, whole = 128 // dtype.nbytes + 4, 2 * 128 // dtype.nbytes
    for padding in kit.Padding:
        check(cutile.build_matmul(36, whole, dtype, padding=padding), 40, 36, whole, dtype)
    a, b = harness.make_inputs(40, 36, ragged, dtype)
    (c,) = cutile.build_matmul(36, ragged, dtype, padding=kit.Padding.NAN).simulate(a, b).outputs
    assert np.isnan(c.astype(np.float32)).all()
    with pytest.raises(SpecError, match=r"padding=kit\.Padding\.ZERO"):
        cutile.build_matmul(36, ragged, dtype, padding=kit.Padding.UNDETERMINED)


def test_an_all_zero_output_is_wrong() -> None:
    """The bounds can fail."""
    for dtype in TYPES:
        a, b = harness.make_inputs(64, 64, 64, dtype)
        assert harness.worst_error(a, b, np.zeros((64, 64), a.dtype), TF32) > 10
        right = (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)
        assert harness.worst_error(a, b, right, TF32) <= 1


@pytest.mark.full
def test_tf32_is_rounded_to_nearest() -> None:
    """One product of each element: 1 + 3 * 2**-12 is nearer to 1 + 2**-10 than to 1; a tie goes away from zero."""
    a, b = np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)
    np.fill_diagonal(a, 1 + 3 * 2.0**-12)
    np.fill_diagonal(b, -(1 + 2.0**-11))
    (c,) = cutile.build_matmul(32, 32, f32).simulate(a, b).outputs
    assert np.array_equal(np.diag(c), np.full(32, -((1 + 2.0**-10) ** 2), np.float32))


# --- with tensor memory -------------------------------------------------------------------------------

BLACKWELL = [(dtype, *shape) for dtype, shapes in tcgen05.SHAPES.items() for shape in shapes]
#: Tiles in two bands, the last one lower.
BLACKWELL += [(f16, 1200, 300, 72), (f32, 1200, 300, 36)]


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("dtype", "M", "N", "K"), BLACKWELL)
def test_tcgen05_is_right(dtype: ScalarType, M: int, N: int, K: int) -> None:
    kernel = tcgen05.build_matmul(N, K, dtype)
    report, error = harness.simulated(kernel, M, N, K, dtype, tcgen05.TF32_ROUNDING, sanitize="strict")
    assert report.verdict == "clean", str(report)
    assert report.holds == "every schedule", str(report)
    assert error <= 1


@pytest.mark.full
@pytest.mark.one_in(10)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("schedule", ["late", "random"])
@pytest.mark.parametrize("stages", [2, 3])
def test_tcgen05_under_other_schedules(dtype: ScalarType, schedule: str, stages: int) -> None:
    N, K = 72, 5 * 128 // dtype.nbytes + 8
    kernel = tcgen05.build_matmul(N, K, dtype, stages=stages)
    report, error = harness.simulated(
        kernel, 70, N, K, dtype, tcgen05.TF32_ROUNDING, sanitize="strict", schedule=schedule, seed=1
    )
    assert report.verdict == "clean", str(report)
    assert error <= 1


@pytest.mark.full
def test_tcgen05_cuts_tf32() -> None:
    """The upper 19 bits: 1 + 3 * 2**-12 becomes 1, where cvt.rna gives 1 + 2**-10."""
    a, b = np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)
    np.fill_diagonal(a, 1 + 3 * 2.0**-12)
    np.fill_diagonal(b, -(1 + 2.0**-10 + 2.0**-11))
    (c,) = tcgen05.build_matmul(32, 32, f32).simulate(a, b).outputs
    assert np.array_equal(np.diag(c), np.full(32, -(1 + 2.0**-10), np.float32))


@pytest.mark.full
@pytest.mark.parametrize("dtype", TYPES)
def test_paddings_of_tcgen05(dtype: ScalarType) -> None:
    ragged, whole = 128 // dtype.nbytes + 4, 2 * 128 // dtype.nbytes
    for padding in kit.Padding:
        kernel = tcgen05.build_matmul(36, whole, dtype, padding=padding)
        report, error = harness.simulated(kernel, 40, 36, whole, dtype, tcgen05.TF32_ROUNDING)
        assert report.verdict == "clean" and error <= 1, str(report)
    a, b = harness.make_inputs(40, 36, ragged, dtype)
    (c,) = tcgen05.build_matmul(36, ragged, dtype, padding=kit.Padding.NAN).simulate(a, b).outputs
    assert np.isnan(c.astype(np.float32)).all()
    with pytest.raises(SpecError, match=r"padding=kit\.Padding\.ZERO"):
        tcgen05.build_matmul(36, ragged, dtype, padding=kit.Padding.UNDETERMINED)


@pytest.mark.one_in(6)
@pytest.mark.full
@pytest.mark.parametrize("arch", tcgen05.TARGETS)
@pytest.mark.parametrize(
    ("dtype", "N", "K"), [(f16, 8192, 8192), (bf16, 8106, 8134), (f16, 8105, 8131), (f32, 8105, 8131)]
)
def test_tcgen05_assembles(arch: str, dtype: ScalarType, N: int, K: int, ptxas: Tool, nvdisasm: Tool) -> None:
    kernel = tcgen05.build_matmul(N, K, dtype, arch=arch)
    assembly = kernel.assemble(M=8192)
    assert not assembly.spills and not assembly.warnings and not assembly.notes
    sass = kernel.sass(M=8192)
    # One instruction for each product, without a loop over lanes.
    assert sass.count("UTCHMMA") == 4 and "BRA.U.ANY" not in sass


def test_refusals_of_tcgen05() -> None:
    with pytest.raises(SpecError, match="expected f16, bf16 or f32"):
        tcgen05.build_matmul(64, 64, e4m3)
    with pytest.raises(SpecError, match="2 to 4, each takes 48 KB"):
        tcgen05.build_matmul(64, 64, stages=5)


# --- the figure -------------------------------------------------------------------------------------


def test_the_figure() -> None:
    """Four tiles of a 4x4 grid: a row needs 4 + 16 blocks, a square of 2x2 needs 8 + 8."""
    order = kit.tile_order
    linear = cutile.tiles_in_order(lambda bid: order.row_major(bid, 4, 4), 4)
    swizzled = cutile.tiles_in_order(lambda bid: order.swizzle_2d_from_bid(4, 4, 1, 1, 2, bid), 4)
    assert cutile.blocks_read(linear, 4) == (4, 16)
    assert cutile.blocks_read(swizzled, 4) == (8, 8)


# --- the text, and its machine code -----------------------------------------------------------------


@pytest.mark.full
@pytest.mark.one_in(20)
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_120", "sm_120a", "sm_121f"])
@pytest.mark.parametrize(
    ("dtype", "N", "K"), [(f16, 8192, 8192), (bf16, 8106, 8134), (f16, 8105, 8131), (f32, 8105, 8131)]
)
def test_assembles_without_spills_or_warnings(
    arch: str, dtype: ScalarType, N: int, K: int, ptxas: Tool
) -> None:
    kernel = cutile.build_matmul(N, K, dtype, arch=arch)
    assembly = kernel.assemble(M=8192)
    assert not assembly.spills and not assembly.warnings and not assembly.notes
    # 99 KB are the most that a CTA of sm_120 has.
    assert kernel.specialize(M=8192).launch.dynamic_smem <= 99 * 1024


@pytest.mark.one_in(4)
@pytest.mark.full
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("module", [cutile, tcgen05], ids=["mma.sync", "tcgen05"])
def test_text_does_not_grow_with_the_problem(module: Any, dtype: ScalarType) -> None:
    """And recording takes as many calls of Python as some 35 ms have on the machine that these tests ran on."""
    kernels = [module.build_matmul(8192, K, dtype) for K in (512, 8192, 65536)]
    counts = [calls_in(lambda kernel=kernel: kernel.ptx(M=8192)) for kernel in kernels]  # type: ignore[misc]
    assert len({kernel.ptx(M=8192).count("\n") for kernel in kernels}) == 1
    assert counts[-1] < 250_000


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("tk = 32 elements of f16: expected 64", {"tile": (128, 256, 32)}),
        ("tm = 40 for 2 warps: expected a multiple of 32", {"tile": (40, 256, 64)}),
        ("expected rows of 32, 64 or 128 bytes", {"tile": (128, 512, 64)}),
        ("stages = 1: expected 2 or more", {"stages": 1}),
        ("stages = 2: expected 2 or more, and 4", {"tile": (256, 64, 64), "warps": (4, 1)}),
        ("expected f16, bf16 or f32", {"dtype": e4m3}),
    ],
)
def test_refusals(words: str, given: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=words):
        cutile.build_matmul(256, 256, **given)


# --- on a GPU ---------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "M", "N", "K"), CASES)
def test_a_gpu_gives_what_the_simulator_gives(dtype: ScalarType, M: int, N: int, K: int) -> None:
    """The text for sm_80 on whatever GPU there is; the simulator's sums are those of Hopper's tensor cores."""
    torch = pytest.importorskip("torch")
    arch = "sm_120" if torch.cuda.get_device_capability()[0] == 12 else "sm_80"
    kernel = cutile.build_matmul(N, K, dtype, arch=arch)
    a, b = harness.make_inputs(M, N, K, dtype)
    kind = {f16: torch.float16, bf16: torch.bfloat16, f32: torch.float32}[dtype]

    def tensor(array: np.ndarray[Any, Any]) -> Any:
        return torch.from_numpy(array.view(f"i{array.itemsize}").copy()).view(kind).cuda()

    c = torch.full((M, N), float("nan"), dtype=kind, device="cuda")
    kernel(tensor(a), tensor(b), out=c)
    found = c.cpu().view(getattr(torch, f"int{8 * a.itemsize}")).numpy().view(a.dtype)
    assert harness.worst_error(a, b, found, TF32) <= 1
    if torch.cuda.get_device_capability() == (9, 0):
        (expected,) = kernel.simulate(a, b).outputs
        assert np.array_equal(found, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("M", "N", "K"), [(1024, 1024, 1024), (1000, 1111, 777), (2048, 4104, 520)])
def test_the_host_function(name: str, M: int, N: int, K: int) -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(M, K, device="cuda", dtype=getattr(torch, name))
    b = torch.randn(K, N, device="cuda", dtype=getattr(torch, name))
    c = cutile.cutile_matmul(a, b)
    assert c.shape == (M, N) and c.dtype == a.dtype
    precision = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-9}[name]
    expected = a.double() @ b.double()
    torch.testing.assert_close(c.double(), expected, rtol=2 * precision, atol=2 * precision * K**0.5)
    with pytest.raises(SpecError, match="expected both"):
        cutile.cutile_matmul(a, b.double())
