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
SHAPES = ((5000, 6144), (16384, 4096))
OPERATIONS = ("rmsnorm bf16", "layernorm f32", "softmax bf16", "swiglu f32", "softmax backward bf16")


def _rows() -> Iterator[Row]:
    for M, N, K in ((5120, 5120, 5120), (3072, 8192, 6144), (2048, 12288, 1536)):
        yield gemm_row("gemm", M, N, K, None)
    yield gemm_row("gemm-zeros", 6144, 6144, 6144, None, zeros=True)
    yield fp8_row(6144, 6144, 6144)
    for M, N, K in ((2048, 4096, 4096), (256, 7168, 4096)):
        yield blocks_row(Problem("normal", M, N, K))
    for S, D, causal in ((3072, 64, False), (3072, 128, True), (6144, 128, False), (3072, 256, False)):
        yield attention_row(S, D, causal)
    for S, causal in ((3072, False), (5120, True)):
        yield narrow_row(S, 128, causal)
    for row in rows_of(SHAPES):
        if row.name.rpartition(" ")[0] in OPERATIONS:
            yield row


UNSEEN = [
    replace(row, name=f"unseen {row.name}", rivals=lambda torch: {}, roofs=lambda torch: {}, target=None)
    for row in _rows()
]
