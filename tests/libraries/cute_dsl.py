"""NVIDIA's examples of CuTe DSL, each as the program that it is, with small shapes and its own check.

Source: a checkout of github.com/NVIDIA/cutlass (its folder ``examples/python/CuTeDSL``). To be installed:
``pip install nvidia-cutlass-dsl==4.8.1 apache-tvm-ffi einops`` and torch for the CPU; gcc.

:data:`EXAMPLES` has the architecture, the file and the arguments of each run. The examples time their kernels
with ``cutlass.testing.benchmark``; here this function does nothing. Examples that need a CUDA graph or a GPU for
their reference are not here, nor those of ``cute_ext``, whose images have no PTX text, nor those for several GPUs.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.libraries.cute.process import kernel
from tests.libraries.launches import Kernel

__all__ = ["EXAMPLES", "kernels"]

_FOLDER = Path("examples/python/CuTeDSL")

EXAMPLES = """
sm_80 cute/ampere/kernel/elementwise/elementwise_add.py --M 64 --N 512
sm_80 cute/ampere/kernel/elementwise/elementwise_apply.py --M 64 --N 512 --op mul
sm_80 cute/ampere/kernel/dense_gemm/sgemm.py --mnk 256,128,32
sm_80 cute/ampere/kernel/dense_gemm/tensorop_gemm.py --mnkl 256,128,128,1
sm_80 cute/ampere/kernel/dense_gemm/tensorop_gemm.py --mnkl 128,136,64,2 --a_major k --b_major k --c_major m
sm_80 cute/ampere/kernel/attention/flash_attention_v2.py --batch_size 1 --seqlen_q 128 --seqlen_k 192 --num_head 2
sm_80 cute/ampere/kernel/attention/flash_attention_v2.py --batch_size 1 --seqlen_q 200 --seqlen_k 200 --num_head 1 --is_causal
sm_80 cute/ampere/kernel/attention/hstu_attention.py --batch_size 1 --seqlen_q 128 --seqlen_kv 128 --num_head 2
sm_90a cute/hopper/kernel/dense_gemm/dense_gemm.py --mnkl 256,256,256,1 --cluster_shape_mn 1,1
sm_90a cute/hopper/kernel/dense_gemm/dense_gemm.py --mnkl 256,512,128,1 --tile_shape_mn 128,256 --cluster_shape_mn 2,1
sm_90a cute/hopper/kernel/dense_gemm/dense_gemm.py --mnkl 256,256,128,1 --a_dtype Float8E4M3FN --b_dtype Float8E4M3FN --cluster_shape_mn 2,2
sm_90a cute/hopper/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 512,256,256,1 --cluster_shape_mn 1,2
sm_90a cute/hopper/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,128,2 --tile_shape_mn 128,256
sm_90a cute/hopper/kernel/dense_gemm/dense_gemm_fp8_2xacc.py --mnkl 256,256,256,1
sm_90a cute/hopper/kernel/dense_gemm/dense_gemm_fp8_gelu_persistent.py --mnkl 256,256,256,1
sm_90a cute/hopper/kernel/attention/fmha.py --q_shape 1,128,2,64 --k_shape 1,256,2,64
sm_90a cute/hopper/kernel/attention/fmha.py --q_shape 1,256,1,128 --k_shape 1,256,1,128 --is_causal --is_persistent
sm_90a cute/hopper/kernel/cta_norm/cta_norm.py --M 32 --N 1024
sm_90a cute/hopper/kernel/cta_norm/cta_norm.py --M 32 --N 1024 --norm_type rms
sm_90a cute/hopper/kernel/grouped_gemm/grouped_gemm.py --num_groups 2 --problem_sizes_mnkl (128,128,128,1),(256,128,64,1)
sm_90a cute/hopper/kernel/grouped_gemm/grouped_gemm.py --num_groups 2 --problem_sizes_mnkl (128,128,128,1),(256,128,64,1) --tensormap_update_mode GMEM
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm.py --mnkl 256,256,128,1 --ab_dtype Float16 --use_tma_store
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm.py --mnkl 256,256,128,1 --ab_dtype Float16 --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,128 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 512,256,128,1 --ab_dtype BFloat16 --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,128 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,64,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,64,1 --ab_dtype TFloat32 --c_dtype Float32 --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,256 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,64,1 --ab_dtype TFloat32 --c_dtype Float32 --a_major m --b_major n --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,256 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,256,1 --ab_dtype Float8E4M3FN --c_dtype BFloat16 --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,256 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,256,1 --ab_dtype Float8E4M3FN --c_dtype BFloat16 --a_major m --b_major n --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,256 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,256,1 --ab_dtype Float8E5M2 --c_dtype Float8E5M2 --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,256 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,128,1 --ab_dtype BFloat16 --c_dtype BFloat16 --a_major m --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,256 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,256,128,1 --ab_dtype BFloat16 --c_dtype BFloat16 --b_major n --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,256 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 128,256,64,1 --ab_dtype TFloat32 --c_dtype Float32 --b_major n --use_tma_store --mma_tiler_mn 128,256
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 128,256,128,2 --ab_dtype BFloat16 --c_dtype BFloat16 --a_major m --use_tma_store --mma_tiler_mn 128,128
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 128,128,128,1 --ab_dtype Float16 --c_dtype Float16 --use_tma_store --use_2cta_instrs --mma_tiler_mn 128,64 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 128,256,128,1 --ab_dtype Float16 --c_dtype Float16 --use_tma_store --use_2cta_instrs --mma_tiler_mn 128,128 --cluster_shape_mn 2,2
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 128,192,128,1 --ab_dtype Float16 --c_dtype Float16 --use_tma_store --use_2cta_instrs --mma_tiler_mn 128,192 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 128,256,128,1 --ab_dtype Float16 --c_dtype Float16 --use_tma_store --use_2cta_instrs --mma_tiler_mn 128,256 --cluster_shape_mn 2,1
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,384,128,1 --ab_dtype Float16 --c_dtype Float16 --use_tma_store --use_2cta_instrs --mma_tiler_mn 256,192 --cluster_shape_mn 2,2
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent_dynamic.py --mnkl 512,512,64,1 --ab_dtype Float16 --use_tma_store
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_persistent_prefetch.py --mnkl 256,256,128,1 --ab_dtype Float16 --use_tma_store
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_software_pipeline.py --mnkl 256,256,128,1 --ab_dtype Float16 --use_tma_store
sm_100a cute/blackwell/kernel/dense_gemm/dense_gemm_alpha_beta_persistent.py --mnkl 256,256,64,1 --alpha 2 --beta 1
sm_100a cute/blackwell/kernel/grouped_gemm/grouped_gemm.py --num_groups 2 --problem_sizes_mnkl (128,128,128,1),(256,128,64,1)
sm_100a cute/blackwell/kernel/grouped_gemm/grouped_gemm.py --num_groups 2 --problem_sizes_mnkl (128,128,128,1),(256,128,64,1) --tensormap_update_mode GMEM
sm_100a cute/blackwell/kernel/blockscaled_gemm/dense_blockscaled_gemm_persistent.py --mnkl 256,256,256,1
sm_100a cute/blackwell/kernel/blockscaled_gemm/dense_blockscaled_gemm_persistent_amax.py --mnkl 256,128,256,1
sm_100a cute/blackwell/kernel/blockscaled_gemm/dense_blockscaled_gemm_persistent_prefetch.py --mnkl 256,128,256,1
sm_100a cute/blackwell/kernel/blockscaled_grouped_gemm/grouped_blockscaled_gemm.py
sm_100a cute/blackwell/kernel/blockwise_gemm/blockwise_gemm.py --mnkl 128,256,256,1
sm_100a cute/blackwell/kernel/blockwise_gemm/contiguous_grouped_gemm.py --mnkl 128,128,256,2
sm_100a cute/blackwell/kernel/blockwise_gemm/masked_grouped_gemm.py --mnkl 128,128,256,2
sm_100a cute/blackwell/kernel/mixed_input_gemm/mixed_input_gemm.py
sm_100a cute/blackwell/kernel/mixed_input_gemm/mixed_input_gemm.py --a_dtype Int8 --use_tma_store
sm_100a cute/blackwell/kernel/mixed_input_gemm/grouped_mixed_input_gemm.py --mnkl 128,128,128,2
sm_100a cute/blackwell/kernel/mixed_input_gemm/grouped_mixed_input_gemm_acc_scale.py --mnkl 128,128,128,2
sm_100a cute/blackwell/kernel/attention/fmha/fmha.py --q_shape 1,128,1,32 --k_shape 1,128,1,32
sm_100a cute/blackwell/kernel/attention/fmha/fmha.py --q_shape 1,256,1,64 --k_shape 1,256,1,64
sm_100a cute/blackwell/kernel/attention/fmha/fmha.py --q_shape 1,256,1,128 --k_shape 1,256,1,128 --is_causal --is_persistent
sm_100a cute/blackwell/kernel/attention/fmha/fmha_bwd.py --s_q 128 --s_k 128 --d 64 --h_q 1 --h_k 1
sm_100a cute/blackwell/kernel/attention/mla/mla_decode_fp16.py --batch_size 1
sm_100a cute/blackwell/kernel/attention/mla/mla_decode_fp8.py --batch_size 1
sm_100a cute/blackwell/kernel/attention/mamba2_ssd/mamba2_ssd.py --gbehcdln 1,1,1,1,2,64,128,128
sm_100a cute/blackwell/kernel/attention/mixed_input_fmha/mixed_input_fmha_decode.py --s 256 --h_q 8 --h_k 1 --d 128
sm_100a cute/blackwell/kernel/rmsnorm/rmsnorm.py --M 16 --N 2048
sm_100a cute/blackwell/kernel/moe/torch_grouped_mm.py --tokens 64 --experts 4 --top_k_select 2 --hidden 128 --intermediate 128
sm_100a cute/blackwell/kernel/moe/torch_scaled_grouped_mm.py --tokens 64 --experts 2 --top_k_select 1 --hidden 128 --intermediate 128
sm_100a cute/blackwell/tutorial/tutorial_gemm/fp16_gemm_0.py --mnk 128,256,128
sm_100a cute/blackwell/tutorial/tutorial_gemm/fp16_gemm_1.py --mnk 256,256,128
sm_100a cute/blackwell/tutorial/tutorial_gemm/fp16_gemm_2.py --mnk 256,256,128
sm_100a cute/blackwell/tutorial/tutorial_gemm/fp16_gemm_3.py --mnk 256,256,128
sm_100a cute/blackwell/tutorial/tutorial_gemm/fp16_gemm_3_1.py --mnk 256,256,128
sm_100a cute/blackwell/tutorial/tutorial_gemm/fp16_gemm_4.py --mnk 512,256,128
sm_100a cute/blackwell/tutorial/tutorial_gemm/fp16_gemm_5.py --mnk 512,256,128
sm_100a cute/blackwell/tutorial/tutorial_tma/tma_v0.py --M 128 --N 128 --num_iters 1
sm_100a cute/blackwell/tutorial/tutorial_tma/tma_v1.py --M 128 --N 128 --num_iters 1
sm_100a cute/blackwell/tutorial/tutorial_tma/tma_v2.py --M 128 --N 128 --num_iters 1
sm_100a experimental/primitives/async_pipeline.py
sm_100a experimental/primitives/bar_warp_sync.py
sm_100a experimental/primitives/barrier_cta_red.py
sm_100a experimental/primitives/barrier_cta_sync.py
sm_100a experimental/primitives/cp_async_bulk.py
sm_100a experimental/primitives/cp_async_bulk_prefetch.py
sm_100a experimental/primitives/cp_async_mbarrier_arrive_cluster.py
sm_100a experimental/primitives/cp_async_mbarrier_arrive_cta.py
sm_100a experimental/primitives/cp_async_shared_global.py
sm_100a experimental/primitives/cp_async_shared_global_swizzled.py
sm_100a experimental/primitives/elect_sync.py
sm_100a experimental/primitives/ldmatrix_stmatrix.py
sm_100a experimental/primitives/mapa.py
sm_100a experimental/primitives/mbarrier.py
sm_100a experimental/primitives/mbarrier_lifecycle.py
sm_100a experimental/primitives/pipeline_software_fill.py
sm_100a experimental/primitives/red.py
sm_100a experimental/primitives/redux_sync.py
sm_100a experimental/primitives/shfl_sync.py
sm_100a experimental/primitives/vote_sync.py
sm_100a experimental/primitives/warp_named_barrier.py
sm_100a experimental/primitives/reduction/block_smem_reduce.py
sm_100a experimental/primitives/reduction/cluster_smem_reduce.py
sm_100a experimental/primitives/reduction/cluster_tmem_reduce.py
sm_100a experimental/primitives/tma/tma_1cta_mbarrier.py
sm_100a experimental/primitives/tma/tma_load_store.py
sm_100a experimental/primitives/tma/tma_load_to_ldmatrix.py
sm_100a experimental/primitives/tma/tma_multicast.py
sm_100a experimental/primitives/tma/tma_pipeline_count2.py
sm_100a experimental/primitives/tma/tma_pipeline_pingpong.py
sm_100a experimental/primitives/tma/tma_pipeline_single_warp.py
sm_100a experimental/primitives/tma/tma_pipeline_warpspec.py
sm_100a experimental/primitives/tma/tma_store.py
sm_100a experimental/primitives/tma/tma_swizzle_modes.py
sm_100a experimental/primitives/tma/tma_tensormap_replace.py
sm_100a experimental/primitives/tcgen05/1cta_mma_a_from_tmem.py
sm_100a experimental/primitives/tcgen05/1cta_mma_basic.py
sm_100a experimental/primitives/tcgen05/1cta_mma_mn_major.py
sm_100a experimental/primitives/tcgen05/1cta_mma_pipeline.py
sm_100a experimental/primitives/tcgen05/2cta_mma_basic.py
sm_100a experimental/primitives/tcgen05/2cta_mma_blockscale_m128.py
sm_100a experimental/primitives/tcgen05/2cta_mma_tma_store.py
sm_100a experimental/primitives/tcgen05/clusterMxN_2cta_mma.py
sm_100a experimental/primitives/tcgen05/cp_narrow_a_to_tmem_mma.py
sm_100a experimental/primitives/tcgen05/mcast_clusterMxN_1cta_mma.py
sm_100a experimental/primitives/tcgen05/mcast_clusterMxN_2cta_mma.py
sm_100a experimental/primitives/tcgen05/slicek_m32n8k128.py
sm_100a experimental/primitives/tcgen05/tmem_ld_st.py
sm_100a experimental/primitives/tcgen05/tmem_ld_to_stmatrix_transpose.py
"""


def kernels(source: Path | None) -> Iterator[Kernel]:
    """Yield each run of :data:`EXAMPLES` of the checkout ``source``."""
    if source is None:
        raise ValueError("cute_dsl needs --source: a checkout of NVIDIA/cutlass")
    folder = source.resolve() / _FOLDER
    for line in EXAMPLES.strip().splitlines():
        arch, path, *arguments = line.split()
        yield kernel(" ".join((path, *arguments)), arch, partial(_main, folder, folder / path, arguments))


def _main(folder: Path, path: Path, arguments: list[str]) -> None:
    """Run an example as a program."""
    import cutlass.cute.testing
    import cutlass.testing

    for module in (cutlass.testing, cutlass.cute.testing):
        module.benchmark = lambda *args, **kwargs: 1.0
    sys.path[:0] = [str(folder), str(path.parent)]
    sys.argv = [str(path), *arguments]
    runpy.run_path(str(path), run_name="__main__")
