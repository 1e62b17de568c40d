"""Tests of Triton and Gluon, with their own references, for sm_90 and sm_100.

The source is a checkout of github.com/triton-lang/triton (its folder ``python``); it is run with the triton of
the environment. Verified with the checkout of 2026-04-27 (9d9a2d7ac) and triton 3.9.0. The cases are drawn from the
marks of each test, some with smaller shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.libraries._gluon_names import restore
from tests.libraries._pytest_cases import Test, bodies
from tests.libraries._triton_driver import kernel, simulated
from tests.libraries.launches import Kernel

__all__ = ["kernels"]

_CORE = "gluon/test_core"
_DESCRIPTORS = "unit/language/test_tensor_descriptor"
_PRODUCTS = "unit/language/test_matmul"
_ROLES = "unit/language/test_warp_specialization"
_TILE = {"M": 256, "N": 256, "K": 256, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128}
_ROLE = {
    "M": 256,
    "N": 256,
    "K": 192,
    "BLOCK_SIZE_N": 128,
    "BLOCK_SIZE_K": 64,
    "num_stages": 2,
    "num_warps": 4,
}
_BOTH = {"a_use_tma": True, "b_use_tma": True}
_ROWS = {"M": 512, "N": 256, "HEAD_DIM": 64, "BLOCK_M": 128, "num_stages": 2, "num_warps": 4}

_TESTS = [
    Test(_CORE, "test_copy_kernel", 3),
    Test(_CORE, "test_copy_kernel_multi_cta"),
    Test(_CORE, "test_tma"),
    Test(_CORE, "test_tma_im2col", 2),
    Test(_CORE, "test_gluon_tma_round_f32_to_tf32"),
    Test(_CORE, "test_tma_multicast_copy", 3),
    Test(_CORE, "test_tma_gather_scatter_multi_cta", 3),
    Test(_CORE, "test_tcgen05_mma_multicast_commit", 3, {"ctas_per_cga": [2, 1]}),
    Test(_CORE, "test_tcgen05_mma_multicast_commit", 2, {"ctas_per_cga": [2, 4]}),
    Test(_CORE, "test_tcgen05_mma_scaled_direct_multicast_barrier"),
    Test(_CORE, "test_async_copy_mbarrier"),
    Test(_CORE, "test_device_tma_load"),
    Test(_CORE, "test_device_tma_store"),
    Test(_CORE, "test_warpgroup_mma", 2),
    Test(_CORE, "test_tma_mma_shared_inputs", 3, {"ctas_per_cga": [1, 1], "two_ctas": False}),
    Test(_CORE, "test_tma_mma_shared_inputs", 4, {"ctas_per_cga": [2, 1]}),
    Test(_CORE, "test_mma_shared_inputs", 8, {"ctas_per_cga": [1, 1], "two_ctas": False, "swizzling_a": 128, "swizzling_b": 64}),
    Test(_CORE, "test_mma_shared_inputs", 4, {"ctas_per_cga": [2, 1], "swizzling_a": 32, "swizzling_b": 128}),
    Test(_CORE, "test_math_fast_expf"),
    Test(_CORE, "test_math_fast_dividef"),
    Test(_CORE, "test_tmem_copy_2d"),
    Test(_CORE, "test_tmem_subslice_block_m_64"),
    Test(_CORE, "test_block_m_64_mma"),
    Test(_CORE, "test_slice_reinterpret"),
    Test(_CORE, "test_tma_slice"),
    Test(_CORE, "test_tmem_copy_no_scales", 4),
    Test(_CORE, "test_2d_tensor_early_return"),
    Test(_CORE, "test_padded_shared_layout_subslice", 2),
    Test(_CORE, "test_float2", 4),
    Test(_CORE, "test_mma_v2", 3),
    Test(_CORE, "test_dot_fma"),
    Test(_CORE, "test_dot3d_fma"),
    Test(_CORE, "test_tcgen05_mma_scaled_minimal"),
    Test(_CORE, "test_coalesced_layout"),
    Test(_CORE, "test_convert_auto_layout_to_coalesced_layout"),
    Test(_CORE, "test_descriptor_shape"),
    Test(_CORE, "test_shared_gather", 1),
    Test(_CORE, "test_shared_scatter", 1),
    Test(_CORE, "test_scatter_gather_multiwarp", 1),
    Test(_CORE, "test_gather_2d_native", 2),
    Test(_CORE, "test_scatter_3d_native", 1),
    Test(_CORE, "test_tmem_reduction", 3),
    Test(_CORE, "test_mma_scaled_tcgen05_copy", 6),
    Test(_DESCRIPTORS, "test_tensor_descriptor_load", 3),
    Test(_DESCRIPTORS, "test_tensor_descriptor_store", 3),
    Test(_DESCRIPTORS, "test_tensor_descriptor_load_nd", 3, {"num_ctas": 1}),
    Test(_DESCRIPTORS, "test_tensor_descriptor_store_nd", 3),
    Test(_DESCRIPTORS, "test_tensor_descriptor_load3d", 1),
    Test(_DESCRIPTORS, "test_tensor_descriptor_padding"),
    Test(_DESCRIPTORS, "test_tensor_descriptor_in_function"),
    Test(_DESCRIPTORS, "test_tensor_descriptor_argument"),
    Test(_DESCRIPTORS, "test_make_tensor_descriptor_loop_carried"),
    Test(_DESCRIPTORS, "test_tensor_descriptor_rank_reducing_matmul", 2),
    Test(_DESCRIPTORS, "test_tma_gather", 3),
    Test(_DESCRIPTORS, "test_tma_gather_dot_pipeline", 1),
    Test(_DESCRIPTORS, "test_tma_scatter", 3),
    Test(_DESCRIPTORS, "test_tensor_descriptor_reduce", 6),
    Test(_DESCRIPTORS, "test_host_tensor_descriptor_load", 3),
    Test(_DESCRIPTORS, "test_host_tensor_descriptor_in_tuple", 1),
    Test(_DESCRIPTORS, "test_tensor_descriptor_store_downcast", 1),
    Test(_DESCRIPTORS, "test_mxfp8_mxfp4_matmul_tma", 2, {"M": 128, "N": 256, "K": 256}),
    Test(_PRODUCTS, "test_mxfp8_mxfp4_matmul", 3, {**_TILE, "NUM_STAGES": 3}),
    Test(_PRODUCTS, "test_block_scale_fp4", 3, _TILE),
    Test(_PRODUCTS, "test_blocked_scale_mxfp", 2, {**_TILE, "NUM_STAGES": 2}),
    Test(_PRODUCTS, "test_lhs_in_tmem", 3, {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 128}),
    Test(_PRODUCTS, "test_lhs_in_tmem_mxfp"),
    Test(_PRODUCTS, "test_batched_mxfp", 1, {"BATCH_SIZE": 1, "BLOCK_BATCH_SIZE": 1}),
    Test(_ROLES, "test_warp_specialize_basic_ir"),
    Test(_ROLES, "test_warp_specialize_tmem_ir"),
    Test(_ROLES, "test_warpgroup_reduction"),
    Test(_ROLES, "test_warp_specialize_tma_matmul", 2, {**_ROLE, **_BOTH}),
    Test(_ROLES, "test_warp_specialize_tma_matmul_persistent", 4, {**_ROLE, **_BOTH}),
    Test(_ROLES, "test_warp_specialize_attention_forward", 2, _ROWS),
    Test(_ROLES, "test_warp_specialize_attention_persistent_forward", 2, _ROWS),
    Test(_ROLES, "test_grouped_gemm", 1, {"M": 128, "N": 256, "K": 128, "group_size": 2}),
    Test("unit/language/test_pipeliner", "test_pipeline_vecadd"),
    Test("unit/language/test_pipeliner", "test_pipeline_epilogue", 2),
    Test("unit/language/test_pipeliner", "test_conditional_store_pipeline", 2),
    Test("unit/language/test_pipeliner", "test_scatter_pipeline"),
    Test("unit/language/test_standard", "test_sort", 3, {"M": 8, "N": 64}),
    Test("unit/language/test_standard", "test_flip", 2),
    Test("unit/language/test_block_pointer", "test_block_copy", 2),
    Test("unit/language/test_block_pointer", "test_block_ptr_matmul_no_scf", 2),
    Test("unit/language/test_random", "test_randint", 1, {"size": "100"}),
    Test("unit/language/test_tuple", "test_passing_tuple_to_make_tensor_descriptor"),
]  # fmt: skip


def kernels(source: Path | None) -> Iterator[Kernel]:
    """The tests of a checkout, for each target."""
    assert source is not None, "--source is needed: the folder python of a checkout of Triton"
    fixtures = {"device": lambda: "cuda", "with_allocator": lambda: None}
    restore()
    for arch in (90, 100):
        with simulated(arch):
            found = list(bodies(source / "test", _TESTS, f"_sm{arch}", fixtures))
        for name, body in found:
            yield kernel(name, arch, body)
