"""Rows of ``hopper.py`` whose sizes nothing was fitted to: they were predicted before they were measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from _deepgemm import Problem
from _hopper_attention import attention_row, narrow_row
from _hopper_blocks import blocks_row
from _hopper_gemm import fp8_row, gemm_row
from _hopper_memory import rows_of
from _rows import Row

__all__ = ["UNSEEN"]

#: Matrices of the operations on rows, and which operations and types.
SHAPES = ((3000, 10240), (12288, 5120))
OPERATIONS = ("rmsnorm f32", "layernorm bf16", "softmax f32", "swiglu bf16", "swiglu backward bf16")


def _rows() -> Iterator[Row]:
    for M, N, K in ((4608, 4608, 4608), (7168, 5120, 3072), (1536, 10240, 5120)):
        yield gemm_row("gemm", M, N, K, None)
    yield gemm_row("gemm-zeros", 5120, 5120, 5120, None, zeros=True)
    yield fp8_row(7168, 4096, 8192)
    for M, N, K in ((3072, 6144, 5120), (512, 4096, 9216)):
        yield blocks_row(Problem("normal", M, N, K))
    for S, D, causal in (
        (2560, 64, False),
        (6144, 64, True),
        (2560, 128, False),
        (6144, 128, True),
        (1536, 256, True),
        (5120, 256, False),
    ):
        yield attention_row(S, D, causal)
    for S, D, causal in ((2560, 128, True), (6144, 128, False), (3072, 256, False)):
        yield narrow_row(S, D, causal)
    for row in rows_of(SHAPES):
        if row.name.rpartition(" ")[0] in OPERATIONS:
            yield row


UNSEEN = [
    replace(row, name=f"unseen {row.name}", rivals=lambda torch: {}, roofs=lambda torch: {}, target=None)
    for row in _rows()
]
