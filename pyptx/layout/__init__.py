"""Bit-exact facts of the hardware that the DSL, the simulator and the runtime share.

Swizzles, matrix and instruction descriptors, tensor maps, and where tensor memory keeps what: numbers in,
numbers out.  Nothing here records an instruction, runs one or touches a GPU.
"""

from .instruction_descriptor import InstructionDescriptor
from .smem_descriptor import K_MAJOR_128B_CONST, SmemDescriptor, element_addresses, tile_offsets
from .swizzle import SWIZZLE_BYTES, SWIZZLE_PERIOD, swizzle
from .tensor_map import DriverArguments, TensorMap
from .tensor_map_image import FIELDS, IMAGE_BYTES, DecodedMap
from .tensor_map_rules import MAX_SHARED_BYTES
from .tensor_memory import COLUMNS, LANES, accumulator, fragment, pack_address, unpack_address

__all__ = [
    "COLUMNS",
    "FIELDS",
    "IMAGE_BYTES",
    "K_MAJOR_128B_CONST",
    "LANES",
    "MAX_SHARED_BYTES",
    "SWIZZLE_BYTES",
    "SWIZZLE_PERIOD",
    "DecodedMap",
    "DriverArguments",
    "InstructionDescriptor",
    "SmemDescriptor",
    "TensorMap",
    "accumulator",
    "element_addresses",
    "fragment",
    "pack_address",
    "swizzle",
    "tile_offsets",
    "unpack_address",
]
