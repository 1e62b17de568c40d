"""Operations of Liger-Kernel, forward and backward, compared with its own references, for sm_90 and sm_100.

The source is a checkout of github.com/linkedin/Liger-Kernel. Verified with the checkout of 2026-08-21 (ead96b61) and
triton 3.9.0; ``transformers`` and what it needs must be installed. Each operation is run by a test of the project.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.libraries._pytest_cases import Test, bodies
from tests.libraries._triton_driver import kernel, simulated
from tests.libraries.launches import Kernel

__all__ = ["kernels"]

_NORM = {"bs": 2, "sl": 5, "hd": 300}
_LOSS = {"B": 2, "T": 9, "V": 500}
_LINEAR = {"B": 2, "T": 6, "H": 64, "V": 300}
_MLP = {"bsz": 1, "seq_len": 9, "hidden_size": 64, "intermediate_size": 200}

_TESTS = [
    Test("test_rms_norm", "test_correctness", 3, _NORM),
    Test("test_modulated_rms_norm", "test_correctness", 2, _NORM),
    Test("test_poly_norm", "test_correctness", 1, _NORM),
    Test("test_layer_norm", "test_liger_layer_norm", 1, {"batch_size": 2, "seq_len": 5, "hidden_size": 300}),
    Test("test_group_norm", "test_liger_group_norm", 2, {"batch_size": 2, "num_channels": 6, "num_groups": 3, "hidden_size": 100}),
    Test("test_dyt", "test_liger_dyt_correctness", 2, {"B": 2, "T": 5, "hidden_size": 300}),
    Test("test_softmax", "test_liger_softmax", 2, {"shape": (9, 300)}),
    Test("test_sparsemax", "test_liger_sparsemax_correctness", 2, {"batch_size": 2, "seq_len": 5, "features": 100, "dim": -1}),
    Test("test_cross_entropy", "test_correctness", 2, _LOSS),
    Test("test_cross_entropy", "test_correctness_with_z_loss_once", 1, _LOSS),
    Test("test_cross_entropy", "test_correctness_with_weight_once", 1, _LOSS),
    Test("test_fused_linear_cross_entropy", "test_correctness", 2, _LINEAR),
    Test("test_fused_linear_jsd", "test_correctness", 1, _LINEAR),
    Test("test_jsd", "test_correctness", 2, _LOSS),
    Test("test_kl_div", "test_correctness", 2, _LOSS),
    Test("test_tvd", "test_correctness", 2, _LOSS),
    Test("test_geglu", "test_correctness_functional", 2, {}),
    Test("test_swiglu", "test_correctness_functional", 2, {}),
    Test("test_swiglu", "test_correctness_llamamlp", 1, _MLP),
    Test("test_relu_squared", "test_liger_relu_squared_correctness", 2, {"shape": (9, 300)}),
    Test("test_qwen2vl_mrope", "test_functional_correctness", 1, {}),
    Test("test_embedding", "test_embedding_correctness", 1, {"num_embeddings": 100, "embedding_dim": 64, "padding_idx": None}),
    Test("test_grpo_loss", "test_grpo_loss", 2, _LOSS),
    Test("test_grpo_loss", "test_selective_log_softmax", 1, _LOSS),
    Test("test_multi_token_attention", "test_multi_token_attention_functional", 1, {"B": 1, "C_in": 2, "C_out": 2, "L": 16, "K": 3, "groups": 1}),
    Test("test_fused_neighborhood_attention", "test_liger_fused_neighborhood_attention_functional_correctness", 2,
         {"batch_size": 1, "num_heads": 1, "seq_len": 48, "head_dim": 32, "kernel_size": 5}),
    Test("test_attn_res", "test_correctness_backward", 1, {"N": 3, "B": 1, "T": 9, "D": 64}),
    Test("test_mhc", "test_mhc_coeffs_forward_backward", 1, {"B": 1, "T": 9, "HC": 2, "C": 64}),
    Test("test_fused_moe", "test_correctness", 2, {"T": 20, "E": 4, "H": 64, "intermediate_dim": 64, "K": 2}),
    Test("test_mm_int8int2", "test_kernel_correctness", 1, {"size": 64, "batch_size": 2, "seq_len": 5, "out_features": 64}),
]  # fmt: skip


def kernels(source: Path | None) -> Iterator[Kernel]:
    """The operations of a checkout, for each target."""
    assert source is not None, "--source is needed: a checkout of Liger-Kernel"
    sys.path[:0] = [str(source.resolve() / "src"), str(source.resolve())]
    for arch in (90, 100):
        with simulated(arch):
            found = list(bodies(source / "test" / "transformers", _TESTS, f"_sm{arch}", {}))
        for name, body in found:
            yield kernel(name, arch, body)
