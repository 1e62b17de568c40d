"""``ptx.tcgen05``: the fifth-generation tensor cores and tensor memory.

PTX ISA: `#tcgen05-family-instructions`.

Tensor memory has 128 lanes and 512 columns of 32 bits; an address holds the lane in bits 31..16 and the
column in bits 15..0.  A function named after an instruction records exactly this instruction; the docstrings
of the functions that build descriptors say what they record.

========================  ==================================================================
module                    owns
========================  ==================================================================
:mod:`.memory`            allocation; loads and stores of registers, and their waits; addresses
:mod:`.multiply`          the four multiplications: dense, sparse, weight stationary, and both
:mod:`.movement`          copies from shared memory, the shift of rows
:mod:`.ordering`          commit to an mbarrier, fences
:mod:`.descriptors`       instruction, shared-memory and zero-column mask descriptors
========================  ==================================================================
"""

from __future__ import annotations

from .descriptors import (
    advance,
    instruction_descriptor,
    make_instr_desc_f16bf16_f32,
    masked_descriptor,
    smem_descriptor,
    with_scale_ids,
    zero_column_mask,
)
from .memory import (
    address,
    alloc,
    dealloc,
    ld,
    ld_red,
    ld_red_spcompress,
    ld_spcompress,
    relinquish_alloc_permit,
    st,
    wait_ld,
    wait_st,
)
from .movement import cp, shift
from .multiply import mma, mma_sp, mma_ws, mma_ws_sp
from .ordering import commit, fence_after_thread_sync, fence_before_thread_sync

__all__ = [
    "address",
    "advance",
    "alloc",
    "commit",
    "cp",
    "dealloc",
    "fence_after_thread_sync",
    "fence_before_thread_sync",
    "instruction_descriptor",
    "ld",
    "ld_red",
    "ld_red_spcompress",
    "ld_spcompress",
    "make_instr_desc_f16bf16_f32",
    "masked_descriptor",
    "mma",
    "mma_sp",
    "mma_ws",
    "mma_ws_sp",
    "relinquish_alloc_permit",
    "shift",
    "smem_descriptor",
    "st",
    "wait_ld",
    "wait_st",
    "with_scale_ids",
    "zero_column_mask",
]
