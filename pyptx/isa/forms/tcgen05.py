"""tcgen05 except multiplications: allocation, loads, stores and copies of tensor memory, and ordering.

The multiplications are in the chapter ``tcgen05_mma``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Immediate, Operand, Vector
from ..notation import Chosen

TEXT = r"""
.cta_group = { .cta_group::1, .cta_group::2 }
.num = { .x1, .x2, .x4, .x8, .x16, .x32, .x64, .x128 }
.pack = { .pack::16b }
.unpack = { .unpack::16b }
.shape = { .32x32b }

family tcgen05.alloc
  .space = { .shared::cta }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-alloc-dealloc-relinquish-alloc-permit

[tcgen05.alloc] "Allocate columns of tensor memory and write their address to shared memory. Blocks until there is room."
tcgen05.alloc.cta_group.sync.aligned{.space}.b32  [dst: addr|u32 .space], nCols: u32 32|64|128|256|512;

[tcgen05.alloc.exclusive] "Allocate columns while no other allocation is alive, and keep the permit to allocate until they are freed."
tcgen05.alloc.exclusive.cta_group.sync.aligned{.space}.b32  [dst: addr|u32 .space], nCols: u32 32..576/32;
  since 9.4 on sm_100f sm_110f
  note only sm_107 has more than 512 columns
  STRICTER ptxas takes every multiple of 32 without a bound

[tcgen05.dealloc] "Free columns of tensor memory."
tcgen05.dealloc.cta_group.sync.aligned.b32  taddr: u32, nCols: u32 32|64|128|256|512;

[tcgen05.dealloc.exclusive] "Free columns that were allocated exclusively, and return the permit to allocate."
tcgen05.dealloc.exclusive.cta_group.sync.aligned.b32  taddr: u32, nCols: u32 32..576/32;
  since 9.4 on sm_100f sm_110f
  STRICTER ptxas takes every multiple of 32 without a bound

[tcgen05.relinquish_alloc_permit] "Give up the permit to allocate: no tcgen05.alloc of this CTA may follow."
tcgen05.relinquish_alloc_permit.cta_group.sync.aligned;

family tcgen05.ld
  .redOp = { .min, .max }
  .rowop = { .min, .max }
  .type = { .f32, .u32, .s32 }
  mdata by .num = { .x4|.x8|.x16|.x32 b32 x 1, .x64 b32 x 2, .x128 b32 x 4 }
  see tcgen05-instructions-tcgen05-ld

[tcgen05.ld.32x32b] "Load from tensor memory: each lane of the warp loads its own row."
tcgen05.ld.sync.aligned.shape.num{.pack}.b32  =r: b32 x .num, [taddr: b32|u32|s32 tensor];
  since 8.6 on sm_100f sm_110f

[tcgen05.ld.16x64b] "Load from tensor memory in 16x64b fragments."
tcgen05.ld.sync.aligned.shape.num{.pack}.b32  =r: b32 x .num, [taddr: b32|u32|s32 tensor];
  .shape = { .16x64b }
  since 8.6 on sm_100f sm_110f

[tcgen05.ld.16x128b] "Load from tensor memory in 16x128b fragments: two registers a repetition."
tcgen05.ld.sync.aligned.shape.num{.pack}.b32  =r: b32 x .num*2, [taddr: b32|u32|s32 tensor];
  .shape = { .16x128b }
  .num = { .x1, .x2, .x4, .x8, .x16, .x32, .x64 }
  since 8.6 on sm_100f sm_110f

[tcgen05.ld.16x256b] "Load from tensor memory in 16x256b fragments: four registers a repetition."
tcgen05.ld.sync.aligned.shape.num{.pack}.b32  =r: b32 x .num*4, [taddr: b32|u32|s32 tensor];
  .shape = { .16x256b }
  .num = { .x1, .x2, .x4, .x8, .x16, .x32 }
  since 8.6 on sm_100f sm_110f

[tcgen05.ld.16x32bx2] "Load two times 16 rows of 32 bits from tensor memory: at taddr, and immHalfSplitoff columns further."
tcgen05.ld.sync.aligned.shape.num{.pack}.b32  =r: b32 x .num, [taddr: b32|u32|s32 tensor], immHalfSplitoff: b32 imm;
  .shape = { .16x32bx2 }
  since 8.6 on sm_100f sm_110f

[tcgen05.ld.red.32x32b] "Load from tensor memory, each lane its own row, and the smallest or largest value of the row."
tcgen05.ld.red.sync.aligned.shape.num.redOp{.abs}{.NaN}.type  =r: b32 x .num, =redval: b32, [taddr: b32|u32|s32 tensor];
  .num = { .x2, .x4, .x8, .x16, .x32, .x64, .x128 }
  .abs requires .f32
  .NaN requires .f32
  since 8.8 on sm_103f sm_107f sm_110f

[tcgen05.ld.red.16x32bx2] "Load two times 16 rows of 32 bits, the second immHalfSplitoff columns further, and the smallest or largest value of each row."
tcgen05.ld.red.sync.aligned.shape.num.redOp{.abs}{.NaN}.type  =r: b32 x .num, =redval: b32, [taddr: b32|u32|s32 tensor], immHalfSplitoff: b32 imm;
  .shape = { .16x32bx2 }
  .num = { .x2, .x4, .x8, .x16, .x32, .x64, .x128 }
  .abs requires .f32
  .NaN requires .f32
  since 8.8 on sm_103f sm_107f sm_110f

[tcgen05.ld.spcompress] "Load from tensor memory, each lane its own row, and keep the two largest or smallest of every four values: mdata says which."
tcgen05.ld.spcompress.sync.aligned.shape.num.rowop.sp::2:4{.abs}.f32.b2  =mdata: by, =cdata: b32 x .num/2, [taddr: b32|u32|s32 tensor];
  .num = { .x4, .x8, .x16, .x32, .x64, .x128 }
  since 9.4 on sm_107a

[tcgen05.ld.red.spcompress] "Load from tensor memory as .spcompress does, and the smallest or largest value of the row."
tcgen05.ld.red.spcompress.sync.aligned.shape.num.rowop.sp::2:4{.abs}{.NaN}.f32.b2  =mdata: by, =cdata: b32 x .num/2, =redval: b32, [taddr: b32|u32|s32 tensor];
  .num = { .x4, .x8, .x16, .x32, .x64, .x128 }
  since 9.4 on sm_107a

family tcgen05.st
  since 8.6 on sm_100f sm_110f
  check operands some_register
  see tcgen05-instructions-tcgen05-st

[tcgen05.st.32x32b] "Store to tensor memory: each lane of the warp stores its own row."
tcgen05.st.sync.aligned.shape.num{.unpack}.b32  [taddr: b32|u32|s32 tensor], r: b32 x .num;

[tcgen05.st.16x64b] "Store to tensor memory in 16x64b fragments."
tcgen05.st.sync.aligned.shape.num{.unpack}.b32  [taddr: b32|u32|s32 tensor], r: b32 x .num;
  .shape = { .16x64b }

[tcgen05.st.16x128b] "Store to tensor memory in 16x128b fragments: two registers a repetition."
tcgen05.st.sync.aligned.shape.num{.unpack}.b32  [taddr: b32|u32|s32 tensor], r: b32 x .num*2;
  .shape = { .16x128b }
  .num = { .x1, .x2, .x4, .x8, .x16, .x32, .x64 }

[tcgen05.st.16x256b] "Store to tensor memory in 16x256b fragments: four registers a repetition."
tcgen05.st.sync.aligned.shape.num{.unpack}.b32  [taddr: b32|u32|s32 tensor], r: b32 x .num*4;
  .shape = { .16x256b }
  .num = { .x1, .x2, .x4, .x8, .x16, .x32 }

[tcgen05.st.16x32bx2] "Store two times 16 rows of 32 bits to tensor memory: at taddr, and immHalfSplitoff columns further."
tcgen05.st.sync.aligned.shape.num{.unpack}.b32  [taddr: b32|u32|s32 tensor], immHalfSplitoff: b32 imm, r: b32 x .num;
  .shape = { .16x32bx2 }

end

[tcgen05.wait] "Wait for the thread's earlier tcgen05.ld (or .st) to have read (or written) tensor memory."
tcgen05.op.sync.aligned;
  .op = { .wait::ld, .wait::st }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-wait

[tcgen05.cp] "Copy from shared memory to tensor memory; asynchronous. May widen elements of 4 or 6 bits to 8 bits."
tcgen05.cp.cta_group.shape{.multicast}{.dst_fmt.src_fmt}  [taddr: b32|u32|s32 tensor], s-desc: u64;
  .shape = { .128x256b, .4x256b, .128x128b, .64x128b, .32x128b }
  .multicast = { .warpx2::02_13, .warpx2::01_23, .warpx4 }
  .dst_fmt = { .b8x16 }
  .src_fmt = { .b6x16_p32, .b4x16_p64 }
  since 8.6 on sm_100f sm_110f
  check multicast_fits_shape
  see tcgen05-instructions-tcgen05-cp

[tcgen05.shift] "Move the rows of tensor memory down by one, except the last one, in 32-byte columns; asynchronous."
tcgen05.shift.cta_group.down  [taddr: b32|u32|s32 tensor];
  since 8.6 on sm_100a sm_103a sm_107a sm_110a
  see tcgen05-instructions-tcgen05-shift

[tcgen05.fence] "Order tcgen05 operations before or after a thread synchronization."
tcgen05.op;
  .op = { .fence::before_thread_sync, .fence::after_thread_sync }
  since 8.6 on sm_100f sm_110f
  see tcgen05-instructions-tcgen05-fence

[tcgen05.commit] "Make an mbarrier track the thread's earlier asynchronous tcgen05 operations: it gets one arrival when all have completed."
tcgen05.commit.cta_group.completion{.restrict}{.space}{.multicast}.b64  [mbar: addr|u32 .space] {, ctaMask: by reg};
  .completion = { .mbarrier::arrive::one }
  .restrict = { .sync_restrict::shared::read::mma::a since 9.4 on sm_107f }
  .space = { .shared::cluster }
  .multicast = { .multicast::cluster, .multicast::cluster::16b since 9.4, .multicast::cluster::32b since 9.4 on sm_107f }
  ctaMask by .multicast = { -|.multicast::cluster|.multicast::cluster::16b u16, .multicast::cluster::32b u32 }
  .multicast iff ctaMask
  since 8.6 on sm_100f sm_110f
  note with .sync_restrict the arrival tells that A was read from shared memory, not that the MMAs completed
  MEASURED an immediate ctaMask is refused by ptxas 13.0.88 and taken by 13.5.37
  see tcgen05-instructions-tcgen05-commit
"""

#: The multicast modifiers of each shape that requires one.
_MULTICASTS = {"64x128b": ("warpx2::02_13", "warpx2::01_23"), "32x128b": ("warpx4",)}


def multicast_fits_shape(chosen: Chosen) -> str | None:
    """Require a multicast for the shapes of 32 and 64 rows, and refuse one for the other shapes."""
    shape, given = chosen["shape"], chosen.get("multicast")
    legal = _MULTICASTS.get(shape, ())
    if legal and given not in legal:
        return f".{shape} requires {' or '.join(f'.{name}' for name in legal)}"
    if given is not None and not legal:
        return f".{given} is not allowed with .{shape}, which has no multicast"
    return None


def some_register(operands: Mapping[str, Operand]) -> str | None:
    """Refuse vectors of integer constants only. One register is enough, and float constants need none."""
    for name, operand in operands.items():
        if isinstance(operand, Vector) and all(
            isinstance(e, Immediate) and isinstance(e.value, int) for e in operand.elements
        ):
            return f"every element of {name} is a constant; expected at least one register"
    return None
