"""Rows of ``hopper.py`` whose sizes nothing was fitted to: they were predicted before they were measured.

The rows of ``UNSEEN`` come in sets, each with a file of the predictions that were committed before its
measurement: ``unseen_predictions.jsonl``, and ``unseen_2_predictions.jsonl``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from _deepgemm import Problem
from _hopper_attention import attention_row, decode_row, narrow_row
from _hopper_blocks import blocks_row
from _hopper_gemm import fp8_row, gemm_row
from _hopper_memory import rows_of
from _rows import Row

__all__ = ["UNSEEN"]

#: Of each set, the matrices of the operations on rows, and which operations and types.
SHAPES = ((3000, 10240), (12288, 5120))
OPERATIONS = ("rmsnorm f32", "layernorm bf16", "softmax f32", "swiglu bf16", "swiglu backward bf16")
SHAPES_2 = ((5000, 6144), (20480, 3072))
OPERATIONS_2 = ("rmsnorm bf16", "layernorm f32", "softmax bf16", "swiglu f32", "softmax backward bf16")


def _first() -> Iterator[Row]:
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
    yield from _on_rows(SHAPES, OPERATIONS)


def _second() -> Iterator[Row]:
    for M, N, K in ((2560, 7680, 6144), (10240, 1536, 2048), (64, 8192, 8192), (256, 11264, 4096)):
        yield gemm_row("gemm", M, N, K, None)
    yield fp8_row(4096, 6144, 3072)
    for M, N, K in ((2048, 5120, 6144), (1024, 3072, 8192)):
        yield blocks_row(Problem("normal", M, N, K))
    for S, D, causal in (
        (3072, 64, True),
        (6144, 64, False),
        (1024, 128, False),
        (10240, 128, True),
        (2560, 256, True),
    ):
        yield attention_row(S, D, causal)
    for S, D, causal in ((4608, 128, False), (2560, 256, True)):
        yield narrow_row(S, D, causal)
    yield decode_row(16, 16384, None)
    yield from _on_rows(SHAPES_2, OPERATIONS_2)


def _on_rows(shapes: Sequence[tuple[int, int]], operations: Collection[str]) -> Iterator[Row]:
    for row in rows_of(shapes):
        if row.name.rpartition(" ")[0] in operations:
            yield row


UNSEEN = [
    replace(row, name=f"{word} {row.name}", rivals=lambda torch: {}, roofs=lambda torch: {}, target=None)
    for word, rows in (("unseen", _first()), ("unseen 2", _second()))
    for row in rows
]
