"""The tutorials and examples of Triton and Gluon, with their own host code, for sm_90 and sm_100.

The source is a checkout of github.com/triton-lang/triton (its folder ``python``); it is run with the triton of
the environment. Verified with the checkout of 2026-04-27 (9d9a2d7ac) and triton 3.9.0; ``tabulate`` must be installed.
Functions of the tutorials are called on small tensors, and the tests of the Gluon tutorials with cases of
their own marks or smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

from tests.libraries._definitions import load
from tests.libraries._gluon_names import restore
from tests.libraries._pytest_cases import Test, bodies
from tests.libraries._triton_driver import kernel, simulated
from tests.libraries.launches import Kernel

__all__ = ["kernels"]

_close = torch.testing.assert_close


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def _vector_add(module: ModuleType, size: int) -> None:
    x, y = _random(size), _random(size)
    _close(module.add(x, y), x + y)


def _softmax(module: ModuleType) -> None:
    x = _random(21, 781)
    _close(module.softmax(x), torch.softmax(x, dim=1))


def _matmul(module: ModuleType, dtype: torch.dtype, activation: str) -> None:
    a, b = _random(130, 96).to(dtype), _random(96, 200).to(dtype)
    expected = a.float() @ b.float()
    if activation:
        expected = torch.nn.functional.leaky_relu(expected, 0.01)
    found = module.matmul(a, b, activation=activation) if activation else module.matmul(a, b)
    _close(found.float(), expected, atol=1e-2, rtol=1e-2)


def _dropout(module: ModuleType) -> None:
    x = _random(1500)
    keep = (torch.rand(1500) > 0.5).to(torch.int32)
    _close(module.dropout(x, x_keep=keep, p=0.5), torch.where(keep != 0, x / 0.5, 0.0))
    first, second = (module.seeded_dropout(x, p=0.5, seed=seed) for seed in (123, 512))
    assert torch.equal(first, module.seeded_dropout(x, p=0.5, seed=123))
    assert not torch.equal(first, second)
    assert torch.all((first == 0) | torch.isclose(first, x / 0.5))
    assert 0.3 < (first != 0).float().mean() < 0.7


def _arcsine(module: ModuleType) -> None:
    x = torch.rand(2000)
    found = torch.zeros(2000)
    module.asin_kernel[(2,)](x, found, 2000, BLOCK_SIZE=1024)
    _close(found, torch.asin(x))


def _groups(module: ModuleType, tma: bool) -> None:
    sizes = [(256, 128, 64), (128, 128, 128), (128, 256, 192)]
    a = [_random(m, k, dtype=torch.float16) for m, n, k in sizes]
    b = [_random(k, n, dtype=torch.float16) for m, n, k in sizes]
    found = (
        module.group_gemm_tma_fn(a, [each.T.contiguous() for each in b])
        if tma
        else module.group_gemm_fn(a, b)
    )
    for left, right, product in zip(a, b, found, strict=True):
        _close(product, left @ right, atol=2e-2, rtol=1e-2)


def _persistent(module: ModuleType, function: str, dtype: torch.dtype, *specialize: bool) -> None:
    a, b = _random(384, 192).to(dtype), _random(320, 192).to(dtype)
    other = b.T if function in ("matmul", "matmul_persistent") else b
    found = getattr(module, function)(a, other, *specialize).float()
    _close(
        found,
        (a.float() @ b.float().T).to(dtype).float(),
        atol=2e-2,
        rtol=1e-2 if dtype.itemsize == 2 else 0.13,
    )


def _dependent(module: ModuleType, pdl: bool) -> None:
    x, y = _random(3000), _random(3000)
    _close(module.add(x, y, launch_pdl=pdl), x + y)


def _plain(folder: Path, arch: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the kernels of the tutorials that have no tests."""

    def file(name: str) -> ModuleType:
        return load(folder / f"{name}.py", f"_sm{arch}")

    half, eight = torch.float16, torch.float8_e4m3fn
    add, multiply = file("01-vector-add"), file("03-matrix-multiplication")
    yield "01 vector add", partial(_vector_add, add, 5000)
    yield "02 softmax", partial(_softmax, file("02-fused-softmax"))
    yield "03 matmul f16", partial(_matmul, multiply, half, "")
    yield "03 matmul f16 leaky_relu", partial(_matmul, multiply, half, "leaky_relu")
    yield "03 matmul f8", partial(_matmul, multiply, torch.float8_e5m2, "")
    yield "04 dropout", partial(_dropout, file("04-low-memory-dropout"))
    yield "05 layer norm", partial(file("05-layer-norm").test_layer_norm, 37, 600, half)
    attention = file("06-fused-attention")
    for specialize in (False, True) if arch == 100 else (False,):
        for causal in (False, True):
            for mode, provider in (("bwd", "triton-fp16"), ("fwd", "triton-fp8")):
                case = (1, 2, 256, 64, causal, specialize, mode, provider)
                name = f"06 attention {mode} {provider} causal={causal} specialize={specialize}"
                yield name, partial(attention.test_op, *case)
    yield "07 libdevice", partial(_arcsine, file("07-extern-functions"))
    grouped = file("08-grouped-gemm")
    yield "08 grouped gemm", partial(_groups, grouped, False)
    yield "08 grouped gemm TMA", partial(_groups, grouped, True)
    persistent = file("09-persistent-matmul")
    for dtype in (half, eight):
        yield f"09 matmul {dtype}", partial(_persistent, persistent, "matmul", dtype)
        yield f"09 matmul_persistent {dtype}", partial(_persistent, persistent, "matmul_persistent", dtype)
        for function in ("matmul_tma", "matmul_tma_persistent", "matmul_descriptor_persistent"):
            for specialize in (False, True):
                if arch == 100 or not specialize or function == "matmul_descriptor_persistent":
                    name = f"09 {function} {dtype} specialize={specialize}"
                    yield name, partial(_persistent, persistent, function, dtype, specialize)
    if arch == 100:
        scaled = file("10-block-scaled-matmul")
        scaled.cublas = None
        for kind in ("nvfp4", "mxfp8"):
            yield f"10 block scaled {kind}", partial(scaled.validate_block_scaled, 256, 256, 512, kind)
    dependent = file("11-programmatic-dependent-launch")
    for pdl in (False, True):
        yield f"11 dependent launch {pdl}", partial(_dependent, dependent, pdl)


_GEMM = {"M": 208, "N": 416, "K": 304}
_CUBE = {"M": 256, "N": 256, "K": 256}
_BLOCK = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
_SUM = {"xnumel": 200, "ynumel": 300}
_SCALED = {"M": 256, "N": 256, "K": 512}

_TESTS = [
    Test("gluon/01-intro", "test_copy_scalar", 1, {}),
    Test("gluon/01-intro", "test_memcpy", 2, {}),
    Test("gluon/02-layouts", "test_memcpy_1d", 1, {"xnumel": 1000}),
    Test("gluon/02-layouts", "test_memcpy_2d", 2, {"xnumel": 100, "ynumel": 300}),
    Test("gluon/02-layouts", "test_memcpy_2d_inout", 2, {"xnumel": 150, "ynumel": 200}),
    Test("gluon/03-async-copy", "test_memcpy_1d_cpasync", 2, {}),
    Test("gluon/03-async-copy", "test_elementwise_add", 1, _SUM),
    Test("gluon/03-async-copy", "test_elementwise_add_cpasync", 2, _SUM),
    Test("gluon/03-async-copy", "test_elementwise_add_pipelined", 2, {"ynumel": 300, "xnumel": 100}),
    Test("gluon/04-tma", "test_memcpy_1d_tma", 2, {}),
    Test("gluon/04-tma", "test_elementwise_add_pipelined", 3, {"ynumel": 320, "xnumel": 100}),
    Test("gluon/05-wgmma", "test_small_mma", 4, {"INSTR_SHAPE_N": 16, "num_warps": 4}),
    Test("gluon/05-wgmma", "test_blocked_matmul", 4, _GEMM),
    Test("gluon/05-wgmma", "test_blocked_matmul_pipelined", 3, _GEMM),
    Test("gluon/06-tcgen05", "test_tmem_example_kernel", 3, {}),
    Test("gluon/06-tcgen05", "test_small_mma", 6, {}),
    Test("gluon/06-tcgen05", "test_blocked_matmul", 4, _GEMM),
    Test("gluon/06-tcgen05", "test_blocked_matmul_pipelined", 3, _GEMM),
    Test("gluon/07-persistence", "test_pipelined_matmul", 2, _GEMM),
    Test("gluon/07-persistence", "test_persistent_matmul", 3, _GEMM),
    Test("gluon/07-persistence", "test_persistent_matmul_pipelined", 3, {**_GEMM, **_BLOCK, "num_buffers": 3}),
    Test("gluon/08-warp-specialization", "test_elementwise_add_warp_specialized", 3, {"xnumel": 100, "ynumel": 320}),
    Test("gluon/08-warp-specialization", "test_matmul_warp_specialized", 4, _GEMM),
    Test("gluon/09-tma-gather-scatter", "test_async_gather", 3, {"X_MAX": 256, "Y_MAX": 256}),
    Test("gluon/09-tma-gather-scatter", "test_async_scatter", 3, {"X_MAX": 256, "Y_MAX": 256}),
    Test("gluon/09-tma-gather-scatter", "test_matmul_fused_gather_scatter", 3, _CUBE),
    Test("gluon/10-tcgen05-copy", "test_tcgen05_copy_nvmma_shared", 4, {}),
    Test("gluon/10-tcgen05-copy", "test_matmul_accumulate", 2, _CUBE),
    Test("gluon/11-tcgen05-mma-scaled", "test_simple_mma_scaled", 3, _SCALED),
    Test("gluon/11-tcgen05-mma-scaled", "test_mma_scaled_contig", 3, _SCALED),
    Test("gluon/11-tcgen05-mma-scaled", "test_mma_scaled_packed_block", 3, _SCALED),
    Test("gluon/11-tcgen05-mma-scaled", "test_mma_scaled_tcgen05_copy", 4, _SCALED),
    Test("gluon/11-tcgen05-mma-scaled", "test_mma_scaled_pipelined", 6, {"M": 300, "N": 260, "K": 640}),
    Test("gluon/12-cluster-launch-control", "test_op", 2, {"M": 400, "N": 600, "K": 200}),
    Test("gluon/13-conv-im2col", "test_tma_im2col_simple", 1, {}),
    Test("gluon/13-conv-im2col", "test_tma_im2col_padded", 1, {}),
    Test("gluon/13-conv-im2col", "test_tma_im2col_offset", 1, {}),
    Test("gluon/13-conv-im2col", "test_tma_im2col_multi_batch", 1, {}),
    Test("gluon/13-conv-im2col", "test_tma_im2col_multi_batch_padded", 1, {}),
    Test("gluon/13-conv-im2col", "test_conv2d_tma_im2col", 4, {}),
    Test("gluon/14-multicta", "test_multicta_softmax_f32", 2, {"M": 8, "N": 512}),
    Test("gluon/14-multicta", "test_two_cta_tcgen05", 1, {}),
    Test("gluon/14-multicta", "test_tma_multicast_copy", 1, {}),
    Test("gluon/14-multicta", "test_tma_tcgen05", 1, {}),
    Test("gluon/14-multicta", "test_matmul_multicta", 1, {}),
    Test("../examples/gluon/01-attention-forward", "test_op", 4, {"Z": 1, "H": 1, "N_CTX": 512}),
    Test("../examples/gluon/02-conv-fprop", "test_op", 2, {"N": 1, "Ci": 96, "H": 8, "W": 8, "Co": 96}),
    Test("../examples/gluon/02-conv-dgrad", "test_op", 2, {"N": 1, "Ci": 96, "H": 8, "W": 8, "Co": 96}),
    Test("../examples/gluon/02-conv-wgrad", "test_op", 2, {"N": 1, "Ci": 96, "H": 8, "W": 8, "Co": 96}),
    Test("../examples/gluon/03-matmul-multicta", "test_matmul_matches_torch", 6, {}),
    Test("../examples/gluon/04-2cta-block-scale-matmul", "test_mma_scaled_warp_specialized", 6, {"M": 256, "N": 256, "K": 640}),
]  # fmt: skip


def kernels(source: Path | None) -> Iterator[Kernel]:
    """The tutorials of a checkout, for each target."""
    assert source is not None, "--source is needed: the folder python of a checkout of Triton"
    restore()
    for arch in (90, 100):
        with simulated(arch):
            folder = source / "tutorials"
            fixtures = {"fresh_knobs": lambda: None}
            found = [*_plain(folder, arch), *bodies(folder, _TESTS, f"_sm{arch}", fixtures)]
        for name, body in found:
            yield kernel(name, arch, body)
