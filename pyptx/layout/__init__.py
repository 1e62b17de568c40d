"""Bit-exact facts about the hardware that the DSL, the simulator and the runtime share.

These are swizzles, fragments, matrix and instruction descriptors, tensor maps, and the layouts of tensor
memory.  The functions here compute numbers from numbers; they do not record or run instructions, and they do
not use a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazily
from .swizzle import COPY_SWIZZLES, SWIZZLE_BYTES, SWIZZLE_PERIOD, swizzle, swizzle_mask, swizzle_pattern

if TYPE_CHECKING:
    from .fragments import (
        Coordinate,
        FragmentLayout,
        SelectedLayout,
        block_scales,
        matrix_fragment,
        mma_fragment,
        mma_metadata,
        wgmma_fragment,
        wgmma_metadata,
    )
    from .operand_tile import OperandTile
    from .tcgen05_instruction_descriptor import InstructionDescriptor
    from .tcgen05_smem_descriptor import (
        TCGEN05_K_MAJOR_128B,
        Tcgen05SmemDescriptor,
        element_addresses,
        tile_offsets,
    )
    from .tensor_map import DriverArguments, TensorMap
    from .tensor_map_image import FIELDS, IMAGE_BYTES, DecodedMap
    from .tensor_map_rules import MAX_SHARED_BYTES
    from .tensor_memory import (
        COLUMNS,
        LANES,
        a_operand,
        accumulator,
        fragment,
        pack_address,
        scale_factors,
        unpack_address,
    )
    from .wgmma_descriptor import WgmmaDescriptor, box_strides
    from .wmma_fragments import wmma_fragment
    from .zero_column_mask import ZeroColumnMask

__all__ = [
    "COLUMNS",
    "FIELDS",
    "IMAGE_BYTES",
    "TCGEN05_K_MAJOR_128B",
    "LANES",
    "MAX_SHARED_BYTES",
    "COPY_SWIZZLES",
    "SWIZZLE_BYTES",
    "SWIZZLE_PERIOD",
    "Coordinate",
    "DecodedMap",
    "DriverArguments",
    "FragmentLayout",
    "InstructionDescriptor",
    "SelectedLayout",
    "OperandTile",
    "Tcgen05SmemDescriptor",
    "TensorMap",
    "WgmmaDescriptor",
    "ZeroColumnMask",
    "a_operand",
    "accumulator",
    "block_scales",
    "box_strides",
    "element_addresses",
    "fragment",
    "matrix_fragment",
    "mma_fragment",
    "mma_metadata",
    "pack_address",
    "scale_factors",
    "swizzle",
    "swizzle_mask",
    "swizzle_pattern",
    "tile_offsets",
    "unpack_address",
    "wgmma_fragment",
    "wgmma_metadata",
    "wmma_fragment",
]

__getattr__ = lazily(
    __name__,
    {
        "fragments": (
            "Coordinate",
            "FragmentLayout",
            "SelectedLayout",
            "block_scales",
            "matrix_fragment",
            "mma_fragment",
            "mma_metadata",
            "wgmma_fragment",
            "wgmma_metadata",
        ),
        "operand_tile": ("OperandTile",),
        "tcgen05_instruction_descriptor": ("InstructionDescriptor",),
        "tcgen05_smem_descriptor": (
            "TCGEN05_K_MAJOR_128B",
            "Tcgen05SmemDescriptor",
            "element_addresses",
            "tile_offsets",
        ),
        "tensor_map": ("DriverArguments", "TensorMap"),
        "tensor_map_image": ("FIELDS", "IMAGE_BYTES", "DecodedMap"),
        "tensor_map_rules": ("MAX_SHARED_BYTES",),
        "tensor_memory": (
            "COLUMNS",
            "LANES",
            "a_operand",
            "accumulator",
            "fragment",
            "pack_address",
            "scale_factors",
            "unpack_address",
        ),
        "wgmma_descriptor": ("WgmmaDescriptor", "box_strides"),
        "wmma_fragments": ("wmma_fragment",),
        "zero_column_mask": ("ZeroColumnMask",),
    },
)
