"""Operations of flash-linear-attention, forward and backward, compared with its own references, for sm_90.

The source is a checkout of github.com/fla-org/flash-linear-attention. Verified with version 0.5.2 of 2026-08-22
(bc3b101d) and triton 3.8.0: 3.9.0 refuses its autotuners; ``einops``, ``transformers`` and what they need must be installed. Each operation is
run by a test of the project, on one sequence or a few short ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.libraries._pytest_cases import Test, bodies
from tests.libraries._triton_driver import kernel, simulated
from tests.libraries.launches import Kernel

__all__ = ["kernels"]

_ARCH = 90
_SHORT = {"B": 1, "T": 33, "H": 1, "D": 32}
_LONGER = {"B": 1, "T": 70, "H": 1, "D": 32}
_GROUPED = {"B": 1, "T": 33, "H": 1, "HQ": 2, "D": 32}
_VALUES = {"B": 1, "T": 70, "H": 1, "HV": 1, "D": 32, "dtype": torch.float16}
_VARLEN = {"H": 1, "D": 32, "cu_seqlens": [0, 15, 40]}
_FLAT = {"B": 1, "T": 20, "D": 100, "compile": False}
_CONVOLUTION = {"B": 1, "T": 40, "D": 64, "dtype": torch.float32, "backend": "triton"}
_LOSS = {"B": 1, "T": 12, "D": 64, "V": 500}

_TESTS = [
    Test("ops/test_gla", "test_fused_recurrent", 1, _SHORT),
    Test("ops/test_gla", "test_chunk", 1, _LONGER),
    Test("ops/test_gla", "test_chunk_varlen", 1, _VARLEN),
    Test("ops/test_simple_gla", "test_fused_recurrent", 1, _SHORT),
    Test("ops/test_simple_gla", "test_chunk", 1, _LONGER),
    Test("ops/test_simple_gla", "test_fused_chunk", 1, _LONGER),
    Test("ops/test_simple_gla", "test_parallel", 1, _LONGER),
    Test("ops/test_linear_attn", "test_chunk", 1, _LONGER),
    Test("ops/test_linear_attn", "test_fused_chunk", 1, _LONGER),
    Test("ops/test_linear_attn", "test_fused_recurrent", 1, _SHORT),
    Test("ops/test_retention", "test_chunk", 1, {"B": 1, "T": 70, "H": 1, "K": 32}),
    Test("ops/test_retention", "test_parallel", 1, {"B": 1, "T": 70, "H": 1, "K": 32}),
    Test("ops/test_lightning_attn", "test_chunk_with_chunk_size", 1, {"K": 32}),
    Test("ops/test_delta", "test_chunk", 2, _LONGER),
    Test("ops/test_delta", "test_chunk_varlen", 1, _VARLEN),
    Test("ops/test_delta_product", "test_chunk", 1, {**_SHORT, "num_householder": 2}),
    Test("ops/test_gdn", "test_fused_recurrent", 1, {**_SHORT, "HV": 1}),
    Test("ops/test_gdn", "test_chunk", 2, _VALUES),
    Test("ops/test_gdn", "test_chunk_varlen", 1, {**_VARLEN, "HV": 1}),
    Test("ops/test_gdn", "test_gate", 1, {"B": 1, "T": 33, "HV": 2}),
    Test("ops/test_kda", "test_fused_recurrent", 1, {**_SHORT, "HV": 1}),
    Test("ops/test_kda", "test_chunk", 1, {**_VALUES, "chunk_size": 64}),
    Test("ops/test_kda", "test_gate", 1, _SHORT),
    Test("ops/test_dplr_delta", "test_fused_recurrent", 1, _SHORT),
    Test("ops/test_dplr_delta", "test_chunk", 1, {**_SHORT, "chunk_size": 16}),
    Test("ops/test_iplr_delta", "test_chunk", 1, _SHORT),
    Test("ops/test_comba", "test_chunk", 1, _LONGER),
    Test("ops/test_gsa", "test_chunk", 1, {**_SHORT, "M": 32}),
    Test("ops/test_gsa", "test_fused_recurrent", 1, {**_SHORT, "M": 32}),
    Test("ops/test_hgrn", "test_fused_recurrent", 1, {"B": 1, "T": 33, "D": 100}),
    Test("ops/test_hgrn", "test_chunk", 1, {"B": 1, "T": 33, "D": 100}),
    Test("ops/test_rwkv6", "test_chunk", 1, _SHORT),
    Test("ops/test_rwkv7", "test_fused_mul_recurrent_fwd", 1, {"B": 1, "T": 20, "H": 1, "D": 64}),
    Test("ops/test_rwkv7", "test_fused_k_update", 1, {"B": 1, "T": 20, "H": 1, "D": 64}),
    Test("ops/test_based", "test_based", 1, {"B": 1, "T": 33, "H": 1, "D": 16}),
    Test("ops/test_attn", "test_parallel", 1, _GROUPED),
    Test("ops/test_attn", "test_parallel_varlen", 1, {**_VARLEN, "HQ": 2}),
    Test("ops/test_attn", "test_parallel_swa", 1, {**_GROUPED, "W": 20}),
    Test("ops/test_forgetting_attn", "test_parallel", 1, _GROUPED),
    Test("ops/test_path_attn", "test_parallel", 1, {**_GROUPED, "D": 64}),
    Test("ops/test_nsa", "test_parallel", 1, {"B": 1, "T": 33, "H": 1, "HQ": 16, "D": 32, "S": 4, "block_size": 16}),
    Test("ops/test_mesa", "test_chunk", 1, _SHORT),
    Test("ops/test_ttt", "test_chunk", 1, {**_SHORT, "chunk_size": 16}),
    Test("ops/test_log_linear_attn", "test_chunk", 1, {"B": 1, "T": 128, "H": 1, "D": 64}),
    Test("ops/test_solve_tril", "test_solve_tril", 2, {"B": 1, "T": 70, "H": 1}),
    Test("modules/test_l2norm", "test_l2norm", 1, _SHORT),
    Test("modules/test_activation", "test_swish", 1, _FLAT),
    Test("modules/test_activation", "test_logsigmoid", 1, _FLAT),
    Test("modules/test_activation", "test_swiglu", 1, _FLAT),
    Test("modules/test_layernorm", "test_layernorm", 1, {"B": 1, "H": 2, "T": 20, "D": 50}),
    Test("modules/test_layernorm", "test_groupnorm", 1, {"B": 1, "T": 20, "D": 128, "G": 4}),
    Test("modules/test_layernorm_gated", "test_rmsnorm_gated", 1, {"B": 1, "H": 2, "T": 20, "D": 50}),
    Test("modules/test_conv", "test_conv", 2, _CONVOLUTION),
    Test("modules/test_rotary", "test_rotary", 1, {"B": 1, "T": 20, "H": 2, "G": 1, "D": 64}),
    Test("modules/test_token_shift", "test_token_shift", 1, {"B": 1, "T": 20, "H": 64}),
    Test("modules/test_cross_entropy", "test_fused_cross_entropy", 1, _LOSS),
    Test("modules/test_cross_entropy", "test_fused_linear_cross_entropy", 1, _LOSS),
    Test("modules/test_kl_div", "test_fused", 1, _LOSS),
]  # fmt: skip


def kernels(source: Path | None) -> Iterator[Kernel]:
    """The operations of a checkout."""
    assert source is not None, "--source is needed: a checkout of flash-linear-attention"
    os.environ.setdefault("FLA_CACHE_MODE", "disabled")
    sys.path.insert(0, str(source.resolve()))
    with simulated(_ARCH):
        found = list(bodies(source / "tests", _TESTS, "", {}))
    for name, body in found:
        yield kernel(name, _ARCH, body)
