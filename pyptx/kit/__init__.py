"""Helpers for kernels, which consist of DSL calls: rings, tile loops and orders, products, epilogues.

Each is a small function or class whose docstring says what it records; a user could write the same few lines
by hand.  The recorded instructions have the user's line as their source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazily

if TYPE_CHECKING:
    from . import tcgen05_epilogue, tile_order, wgmma_epilogue
    from .accumulators import Accumulator, AccumulatorReader, Accumulators, AccumulatorWriter
    from .addend import Addend
    from .block_scales import BlockScales
    from .cluster_grid import ClusterGrid
    from .cluster_sum import ClusterSum
    from .division import fast_divmod
    from .group_tiles import GroupTile, GroupTiles
    from .groups import single_thread, single_warp, thread_group, warp_group, warp_index
    from .guarded_softmax import GuardedSoftmax
    from .head_operand import HeadOperand, StageDescriptors
    from .key_blocks import BlockRange, KeyBlocks
    from .online_softmax import OnlineSoftmax, exp2_coefficients, exp2_polynomial
    from .operand_a import a_fragments, store_a
    from .ordered_terms import OrderedTerms
    from .query_blocks import QueryBlocks, QueryRange
    from .ring import Consumer, Producer, Ring, Slot
    from .row_plan import RowPlan
    from .row_reductions import across_lanes, row_reduce
    from .row_softmax import exponential, row_exponentials
    from .row_stream import Piece, Row, RowNumbers, RowSlice, RowStream, RowVector
    from .row_team import RowTeam
    from .row_values import from_f32, load_words, store_words, to_f32
    from .sequences import Sequence, Sequences
    from .shared_operands import SharedOperands
    from .stage_multiply import StageMultiply
    from .staged_scales import StagedScales, StagedScalesReader
    from .stepped_descriptors import descriptor_steps
    from .summed_accumulator import SummedAccumulator
    from .tile_loader import Padding, TileLoader
    from .tile_loop import LaunchControlTiles, StaticTiles
    from .tma_operand import TmaOperand
    from .trace import Trace
    from .transposed_operand import TransposedOperand
    from .transposed_store import TransposedStore
    from .two_widths import TwoWidths
    from .weight_sums import column_registers, column_ring, column_sums, column_tuning, store_column_parts
    from .wgmma_multiply import WgmmaMultiply
    from .work_order import WorkOrder

__all__ = [
    "Accumulator",
    "AccumulatorReader",
    "AccumulatorWriter",
    "Accumulators",
    "Addend",
    "BlockRange",
    "BlockScales",
    "ClusterGrid",
    "ClusterSum",
    "Consumer",
    "GroupTile",
    "GroupTiles",
    "GuardedSoftmax",
    "HeadOperand",
    "KeyBlocks",
    "LaunchControlTiles",
    "OnlineSoftmax",
    "OrderedTerms",
    "Padding",
    "Piece",
    "Producer",
    "QueryBlocks",
    "QueryRange",
    "Ring",
    "Row",
    "RowNumbers",
    "RowPlan",
    "RowSlice",
    "RowStream",
    "RowTeam",
    "RowVector",
    "SharedOperands",
    "Slot",
    "Sequence",
    "Sequences",
    "StageDescriptors",
    "StageMultiply",
    "StagedScales",
    "StagedScalesReader",
    "StaticTiles",
    "SummedAccumulator",
    "TileLoader",
    "TmaOperand",
    "Trace",
    "TransposedOperand",
    "TransposedStore",
    "TwoWidths",
    "WgmmaMultiply",
    "WorkOrder",
    "a_fragments",
    "across_lanes",
    "column_registers",
    "column_ring",
    "column_sums",
    "column_tuning",
    "descriptor_steps",
    "exp2_coefficients",
    "exp2_polynomial",
    "exponential",
    "fast_divmod",
    "from_f32",
    "load_words",
    "row_exponentials",
    "row_reduce",
    "single_thread",
    "single_warp",
    "store_a",
    "store_column_parts",
    "store_words",
    "tcgen05_epilogue",
    "thread_group",
    "tile_order",
    "to_f32",
    "warp_group",
    "warp_index",
    "wgmma_epilogue",
]

__getattr__ = lazily(
    __name__,
    {
        "tcgen05_epilogue": (),
        "tile_order": (),
        "wgmma_epilogue": (),
        "accumulators": ("Accumulator", "AccumulatorReader", "Accumulators", "AccumulatorWriter"),
        "addend": ("Addend",),
        "block_scales": ("BlockScales",),
        "cluster_grid": ("ClusterGrid",),
        "cluster_sum": ("ClusterSum",),
        "weight_sums": (
            "column_registers",
            "column_ring",
            "column_sums",
            "column_tuning",
            "store_column_parts",
        ),
        "division": ("fast_divmod",),
        "group_tiles": ("GroupTile", "GroupTiles"),
        "groups": ("single_thread", "single_warp", "thread_group", "warp_group", "warp_index"),
        "guarded_softmax": ("GuardedSoftmax",),
        "head_operand": ("HeadOperand", "StageDescriptors"),
        "key_blocks": ("BlockRange", "KeyBlocks"),
        "online_softmax": ("OnlineSoftmax", "exp2_coefficients", "exp2_polynomial"),
        "operand_a": ("a_fragments", "store_a"),
        "ordered_terms": ("OrderedTerms",),
        "query_blocks": ("QueryBlocks", "QueryRange"),
        "ring": ("Consumer", "Producer", "Ring", "Slot"),
        "row_plan": ("RowPlan",),
        "row_reductions": ("across_lanes", "row_reduce"),
        "row_softmax": ("exponential", "row_exponentials"),
        "row_stream": ("Piece", "Row", "RowNumbers", "RowSlice", "RowStream", "RowVector"),
        "row_team": ("RowTeam",),
        "row_values": ("from_f32", "load_words", "store_words", "to_f32"),
        "shared_operands": ("SharedOperands",),
        "sequences": ("Sequence", "Sequences"),
        "stage_multiply": ("StageMultiply",),
        "staged_scales": ("StagedScales", "StagedScalesReader"),
        "stepped_descriptors": ("descriptor_steps",),
        "summed_accumulator": ("SummedAccumulator",),
        "tile_loader": ("Padding", "TileLoader"),
        "tile_loop": ("LaunchControlTiles", "StaticTiles"),
        "tma_operand": ("TmaOperand",),
        "trace": ("Trace",),
        "transposed_operand": ("TransposedOperand",),
        "transposed_store": ("TransposedStore",),
        "two_widths": ("TwoWidths",),
        "wgmma_multiply": ("WgmmaMultiply",),
        "work_order": ("WorkOrder",),
    },
)
