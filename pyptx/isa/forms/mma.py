"""Matrix multiply and accumulate by a warp: dense, sparse and with block scaling."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Immediate, Operand, Vector

TEXT = r"""
.dtype = { .f16, .f32 }
.ctype = { .f16, .f32 }
.atype = { .bf16, .tf32 }
.btype = { .bf16, .tf32 }
.spvariant = { .sp, .sp::ordered_metadata since 8.5 }
.shape = { .m16n8k64 }
.stype = { .ue8m0 }
c by .dtype.ctype = { .f16.f16 f16x2 x 2, .f32.f32 f32 x 4 }
d by .dtype = { .f16 f16x2 x 2, .f32 f32 x 4 }
see warp-level-matrix-instructions-<opcode>

[mma.f16.m8n8k4] "D = A*B + C on halves: four products 8x8x4, one for each quarter of the warp."
mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype  =d: by, a: f16x2 x 2 reg, b: f16x2 x 2 reg, c: by reg;
  .shape = { .m8n8k4 }
  .atype = { .f16 }
  .btype = { .f16 }
  .alayout = { .row, .col }
  .blayout = { .row, .col }
  d by .dtype = { .f16 f16x2 x 4, .f32 f32 x 8 }
  c by .dtype.ctype = { .f16|.f32.f16 f16x2 x 4, .f32.f32 f32 x 8 }
  since 6.4
  MEASURED from sm_80 on ptxas translates it into a call, without tensor cores
  STRICTER ptxas takes .bf16 and .tf32 for .f16, and writes no instruction for them
  STRICTER fragments are registers: ptxas takes immediates in some, and for some targets ends in an error of its own

[mma.f16] "D = A*B + C on halves."
mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: by, a: by reg, b: by reg, c: by reg;
  .atype = { .f16 }
  .btype = { .f16 }
  .shape = { .m16n8k8, .m16n8k16 since 7.0 on sm_80+ }
  a by .shape = { .m16n8k8 f16x2 x 2, .m16n8k16 f16x2 x 4 }
  b by .shape = { .m16n8k8 f16x2 x 1, .m16n8k16 f16x2 x 2 }
  since 6.5

[mma.alternate] "D = A*B + C on bfloats or tf32."
mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: f32 x 4, a: by reg, b: by reg, c: f32 x 4 reg;
  .dtype = { .f32 }
  .ctype = { .f32 }
  .shape = { .m16n8k4, .m16n8k8, .m16n8k16 }
  a by .shape.atype = { .m16n8k8.bf16 bf16x2 x 2, .m16n8k16.bf16 bf16x2 x 4, .m16n8k4.tf32 tf32 x 2, .m16n8k8.tf32 tf32 x 4 }
  b by .shape.atype.btype = {
    .m16n8k8.bf16.bf16 bf16x2 x 1, .m16n8k16.bf16.bf16 bf16x2 x 2, .m16n8k4.tf32.tf32 tf32 x 1, .m16n8k8.tf32.tf32 tf32 x 2
  }
  since 7.0 on sm_80+

[mma.f8] "D = A*B + C on 8-bit floats."
mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: by, a: by reg, b: by reg, c: by reg;
  .shape = { .m16n8k16 since 8.7, .m16n8k32 }
  .dtype = { .f16 since 8.7, .f32 }
  .atype = { .e4m3, .e5m2 }
  .btype = { .e4m3, .e5m2 }
  a by .shape = { .m16n8k16 b32 x 2, .m16n8k32 b32 x 4 }
  b by .shape = { .m16n8k16 b32 x 1, .m16n8k32 b32 x 2 }
  since 8.4 on sm_89+

[mma.f8f6f4] "D = A*B + C on 8-bit, 6-bit or 4-bit floats, each in a byte."
mma.sync.aligned.shape.row.col.kind.dtype.atype.btype.ctype  =d: by, a: b32 x 4 reg, b: b32 x 2 reg, c: by reg;
  .shape = { .m16n8k32 }
  .kind = { .kind::f8f6f4 }
  .dtype = { .f16 since 8.7, .f32 }
  .atype = { .e4m3, .e5m2, .e3m2 since 8.7 on sm_120f, .e2m3 since 8.7 on sm_120f, .e2m1 since 8.7 on sm_120f }
  .btype = { .e4m3, .e5m2, .e3m2 since 8.7 on sm_120f, .e2m3 since 8.7 on sm_120f, .e2m1 since 8.7 on sm_120f }
  since 8.6 on sm_100f sm_110f sm_120f
  MEASURED ptxas takes .e4m3 and .e5m2 since 8.6, in the families of sm_100 and sm_110 too; the manual says 8.7 and sm_120a

[mma.mxf8f6f4] "D = (A*scale)*(B*scale) + C on 8-bit, 6-bit or 4-bit floats, each in a byte; one scale for 32 elements."
mma.sync.aligned.shape.row.col.kind.block_scale{.scale_vec}.dtype.atype.btype.ctype.stype  =d: f32 x 4, a: by reg, b: by reg, c: f32 x 4 reg, scale-a: b32 reg braces, select-a: u16 x 2, scale-b: b32 reg braces, select-b: u16 x 2;
  .shape = { .m16n8k32 }
  .dtype = { .f32 }
  .ctype = { .f32 }
  .kind = { .kind::mxf8f6f4 }
  .scale_vec = { .scale_vec::1X }
  .atype = { .e4m3, .e5m2, .e3m2, .e2m3, .e2m1 }
  .btype = { .e4m3, .e5m2, .e3m2, .e2m3, .e2m1 }
  a by .atype = { .e4m3 e4m3x4 x 4, .e5m2 e5m2x4 x 4, .e3m2 e3m2x4 x 4, .e2m3 e2m3x4 x 4, .e2m1 e2m1p4x4 x 4 }
  b by .btype = { .e4m3 e4m3x4 x 2, .e5m2 e5m2x4 x 2, .e3m2 e3m2x4 x 2, .e2m3 e2m3x4 x 2, .e2m1 e2m1p4x4 x 2 }
  check operands selects_1x
  since 8.7 on sm_120f
  note a selector is {byte, thread}: it names a byte of the scale register of a thread

[mma.mxf4] "D = (A*scale)*(B*scale) + C on 4-bit floats; one scale for 32 elements."
mma.sync.aligned.shape.row.col.kind.block_scale{.scale_vec}.dtype.atype.btype.ctype.stype  =d: f32 x 4, a: e2m1x8 x 4 reg, b: e2m1x8 x 2 reg, c: f32 x 4 reg, scale-a: b32 reg braces, select-a: u16 x 2, scale-b: b32 reg braces, select-b: u16 x 2;
  .dtype = { .f32 }
  .atype = { .e2m1 }
  .btype = { .e2m1 }
  .ctype = { .f32 }
  .scale_vec = { .scale_vec::2X }
  .kind = { .kind::mxf4, .kind::mxf4nvf4 }
  .kind::mxf4nvf4 requires .scale_vec::2X
  check operands selects_2x
  since 8.7 on sm_120f

[mma.nvf4] "D = (A*scale)*(B*scale) + C on 4-bit floats; one scale for 16 elements."
mma.sync.aligned.shape.row.col.kind.block_scale.scale_vec.dtype.atype.btype.ctype.stype  =d: f32 x 4, a: e2m1x8 x 4 reg, b: e2m1x8 x 2 reg, c: f32 x 4 reg, scale-a: b32 reg braces, select-a: u16 x 2, scale-b: b32 reg braces, select-b: u16 x 2;
  .dtype = { .f32 }
  .atype = { .e2m1 }
  .btype = { .e2m1 }
  .ctype = { .f32 }
  .kind = { .kind::mxf4nvf4 }
  .scale_vec = { .scale_vec::4X }
  .stype = { .ue4m3, .ue8m0 since 9.1 }
  check operands selects_4x
  since 8.7 on sm_120f

[mma.f64.m8n8k4] "D = A*B + C on doubles."
mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype{.rnd}  =d: b64 x 2, a: b64 x 1 reg, b: b64 x 1 reg, c: b64 x 2 reg;
  .shape = { .m8n8k4 }
  .dtype = { .f64 }
  .atype = { .f64 }
  .btype = { .f64 }
  .ctype = { .f64 }
  .rnd = { .rn, .rz, .rm, .rp }
  since 7.0 on sm_80+
  MEASURED the rounding, which the manual shows only in examples, is in the machine code

[mma.f64] "D = A*B + C on doubles."
mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype{.rnd}  =d: f64 x 4, a: by reg, b: by reg, c: b64 x 4 reg;
  .dtype = { .f64 }
  .atype = { .f64 }
  .btype = { .f64 }
  .ctype = { .f64 }
  .shape = { .m16n8k4, .m16n8k8, .m16n8k16 }
  .rnd = { .rn, .rz, .rm, .rp }
  a by .shape = { .m16n8k4 b64 x 2, .m16n8k8 b64 x 4, .m16n8k16 b64 x 8 }
  b by .shape = { .m16n8k4 b64 x 1, .m16n8k8 b64 x 2, .m16n8k16 b64 x 4 }
  since 7.8 on sm_90+

[mma.i8] "D = A*B + C on bytes, in 32-bit integers that wrap or (.satfinite) saturate."
mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype  =d: by, a: by reg, b: by reg, c: by reg;
  .dtype = { .s32 }
  .ctype = { .s32 }
  .shape = { .m8n8k16, .m16n8k16 since 7.0 on sm_80+, .m16n8k32 since 7.0 on sm_80+ }
  .atype = { .u8, .s8 }
  .btype = { .u8, .s8 }
  d by .shape = { .m8n8k16 s32 x 2, .m16n8k16|.m16n8k32 s32 x 4 }
  a by .shape = { .m8n8k16 u32 x 1, .m16n8k16 b32 x 2, .m16n8k32 b32 x 4 }
  b by .shape = { .m8n8k16|.m16n8k16 b32 x 1, .m16n8k32 b32 x 2 }
  c by .shape = { .m8n8k16 s32 x 2, .m16n8k16|.m16n8k32 s32 x 4 }
  since 6.5

[mma.i4] "D = A*B + C on 4-bit integers, in 32-bit integers that wrap or (.satfinite) saturate."
mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype  =d: by, a: by reg, b: by reg, c: by reg;
  .dtype = { .s32 }
  .ctype = { .s32 }
  .shape = { .m8n8k32, .m16n8k32 since 7.0 on sm_80+, .m16n8k64 since 7.0 on sm_80+ }
  .atype = { .u4, .s4 }
  .btype = { .u4, .s4 }
  d by .shape = { .m8n8k32 s32 x 2, .m16n8k32|.m16n8k64 s32 x 4 }
  a by .shape = { .m8n8k32 b32 x 1, .m16n8k32 b32 x 2, .m16n8k64 b32 x 4 }
  b by .shape = { .m8n8k32|.m16n8k32 b32 x 1, .m16n8k64 b32 x 2 }
  c by .shape = { .m8n8k32 s32 x 2, .m16n8k32|.m16n8k64 s32 x 4 }
  since 6.5

[mma.b1] "D = C + the number of bits set in A xor B, or in A and B."
mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype.bitOp.popc  =d: by, a: by reg, b: by reg, c: by reg;
  .dtype = { .s32 }
  .atype = { .b1 }
  .btype = { .b1 }
  .ctype = { .s32 }
  .shape = { .m8n8k128, .m16n8k128 on sm_80+, .m16n8k256 on sm_80+ }
  .bitOp = { .xor, .and since 7.1 on sm_80+ }
  d by .shape = { .m8n8k128 s32 x 2, .m16n8k128|.m16n8k256 s32 x 4 }
  a by .shape = { .m8n8k128 b32 x 1, .m16n8k128 b32 x 2, .m16n8k256 b32 x 4 }
  b by .shape = { .m8n8k128|.m16n8k128 b32 x 1, .m16n8k256 b32 x 2 }
  c by .shape = { .m8n8k128 s32 x 2, .m16n8k128|.m16n8k256 s32 x 4 }
  since 7.0

family mma.sp
  c by .dtype.ctype = { .f16.f16 f16x2 x 2, .f32.f32 b32 x 4 }
  d by .dtype = { .f16 f16x2 x 2, .f32 b32 x 4 }
  since 7.1 on sm_80+
  see warp-level-matrix-instructions-mma-sp

[mma.sp.f16.m16n8k16] "D = A*B + C on halves, two of each four of A stored; one thread of each four has the metadata."
mma.spvariant.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: by, a: f16x2 x 2 reg, b: f16x2 x 2 reg, c: by reg, metadata: b32 reg, selector: u32 imm 0..3;
  .shape = { .m16n8k16 }
  .atype = { .f16 }
  .btype = { .f16 }

[mma.sp.f16.m16n8k32] "D = A*B + C on halves, two of each four of A stored; two threads of each four have the metadata."
mma.spvariant.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: by, a: f16x2 x 4 reg, b: f16x2 x 4 reg, c: by reg, metadata: b32 reg, selector: u32 imm 0..1;
  .shape = { .m16n8k32 }
  .atype = { .f16 }
  .btype = { .f16 }
  STRICTER with .f32 ptxas takes selectors 2 and 3, which the manual leaves undefined

[mma.sp.alternate] "D = A*B + C on bfloats or tf32, half of A stored; one thread of each four has the metadata."
mma.spvariant.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: b32 x 4, a: b32 x 2 reg, b: by reg, c: b32 x 4 reg, metadata: b32 reg, selector: u32 imm 0..3;
  .dtype = { .f32 }
  .ctype = { .f32 }
  .shape = { .m16n8k8, .m16n8k16 }
  b by .shape.atype.btype = { .m16n8k16.bf16.bf16 b32 x 2, .m16n8k8.tf32.tf32 b32 x 2 }

[mma.sp.alternate.pairs] "D = A*B + C on bfloats or tf32, half of A stored; two threads of each four have the metadata."
mma.spvariant.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: b32 x 4, a: b32 x 4 reg, b: by reg, c: b32 x 4 reg, metadata: b32 reg, selector: u32 imm 0..1;
  .dtype = { .f32 }
  .ctype = { .f32 }
  .shape = { .m16n8k16, .m16n8k32 }
  b by .shape.atype.btype = { .m16n8k32.bf16.bf16 b32 x 4, .m16n8k16.tf32.tf32 b32 x 4 }

family mma.sp.f8
  .atype = { .e4m3, .e5m2 }
  .btype = { .e4m3, .e5m2 }
  .dtype = { .f32 }
  see warp-level-matrix-instructions-mma-sp

[mma.sp.f8] "D = A*B + C on 8-bit floats, two of each four of A stored."
mma.spvariant.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: f32 x 4, a: b32 x 4 reg, b: b32 x 4 reg, c: f32 x 4 reg, metadata: b32 reg, selector: u32 imm 0..0;
  .ctype = { .f32 }
  since 8.4 on sm_89+

[mma.sp.f8.f16] "D = A*B + C on 8-bit floats in halves, two of each four of A stored."
mma.sp::ordered_metadata.sync.aligned.shape.row.col.dtype.atype.btype.ctype  =d: f16x2 x 2, a: b32 x 4 reg, b: b32 x 4 reg, c: f16x2 x 2 reg, metadata: b32 reg, selector: u32 imm 0..0;
  .dtype = { .f16 }
  .ctype = { .f16 }
  since 8.7 on sm_120f

[mma.sp.f8f6f4] "D = A*B + C on 8-bit, 6-bit or 4-bit floats, each in a byte, two of each four of A stored."
mma.sp::ordered_metadata.sync.aligned.shape.row.col.kind.dtype.atype.btype.ctype  =d: by, a: b32 x 4 reg, b: b32 x 4 reg, c: by reg, metadata: b32 reg, selector: u32 imm 0..0;
  .kind = { .kind::f8f6f4 }
  .dtype = { .f16 since 8.7 on sm_120f, .f32 }
  .atype = { .e4m3, .e5m2, .e3m2 since 8.7 on sm_120f, .e2m3 since 8.7 on sm_120f, .e2m1 since 8.7 on sm_120f }
  .btype = { .e4m3, .e5m2, .e3m2 since 8.7 on sm_120f, .e2m3 since 8.7 on sm_120f, .e2m1 since 8.7 on sm_120f }
  since 8.6 on sm_100f sm_110f sm_120f
  MEASURED ptxas takes .e4m3 and .e5m2 since 8.6, in the families of sm_100 and sm_110 too; the manual says 8.7 and sm_120a

[mma.sp.mxf8f6f4] "D = (A*scale)*(B*scale) + C on 8-bit, 6-bit or 4-bit floats, two of each four of A stored; one scale for 32 elements."
mma.sp::ordered_metadata.sync.aligned.shape.row.col.kind.block_scale{.scale_vec}.dtype.atype.btype.ctype.stype  =d: f32 x 4, a: by reg, b: by reg, c: f32 x 4 reg, metadata: b32 reg, selector: u32 imm 0..0, scale-a: b32 reg braces, select-a: u16 x 2, scale-b: b32 reg braces, select-b: u16 x 2;
  .ctype = { .f32 }
  .kind = { .kind::mxf8f6f4 }
  .scale_vec = { .scale_vec::1X }
  .atype = { .e4m3, .e5m2, .e3m2, .e2m3, .e2m1 }
  .btype = { .e4m3, .e5m2, .e3m2, .e2m3, .e2m1 }
  a by .atype = { .e4m3 e4m3x4 x 4, .e5m2 e5m2x4 x 4, .e3m2 e3m2x4 x 4, .e2m3 e2m3x4 x 4, .e2m1 e2m1p4x4 x 4 }
  b by .btype = { .e4m3 e4m3x4 x 4, .e5m2 e5m2x4 x 4, .e3m2 e3m2x4 x 4, .e2m3 e2m3x4 x 4, .e2m1 e2m1p4x4 x 4 }
  check operands selects_1x
  since 8.7 on sm_120f

[mma.sp.mxf4] "D = (A*scale)*(B*scale) + C on 4-bit floats, four of each eight of A stored; one scale for 32 elements."
mma.sp::ordered_metadata.sync.aligned.shape.row.col.kind.block_scale{.scale_vec}.dtype.atype.btype.ctype.stype  =d: f32 x 4, a: e2m1x8 x 4 reg, b: e2m1x8 x 4 reg, c: f32 x 4 reg, metadata: b32 reg, selector: u32 imm 0..0, scale-a: b32 reg braces, select-a: u16 x 2, scale-b: b32 reg braces, select-b: u16 x 2;
  .shape = { .m16n8k128 }
  .atype = { .e2m1 }
  .btype = { .e2m1 }
  .ctype = { .f32 }
  .scale_vec = { .scale_vec::2X }
  .kind = { .kind::mxf4, .kind::mxf4nvf4 }
  .kind::mxf4nvf4 requires .scale_vec::2X
  check operands selects_2x
  since 8.7 on sm_120a sm_121a

[mma.sp.nvf4] "D = (A*scale)*(B*scale) + C on 4-bit floats, four of each eight of A stored; one scale for 16 elements."
mma.sp::ordered_metadata.sync.aligned.shape.row.col.kind.block_scale.scale_vec.dtype.atype.btype.ctype.stype  =d: f32 x 4, a: e2m1x8 x 4 reg, b: e2m1x8 x 4 reg, c: f32 x 4 reg, metadata: b32 reg, selector: u32 imm 0..0, scale-a: b32 reg braces, select-a: u16 x 2, scale-b: b32 reg braces, select-b: u16 x 2;
  .shape = { .m16n8k128 }
  .atype = { .e2m1 }
  .btype = { .e2m1 }
  .ctype = { .f32 }
  .kind = { .kind::mxf4nvf4 }
  .scale_vec = { .scale_vec::4X }
  .stype = { .ue4m3, .ue8m0 since 9.1 }
  check operands selects_4x
  since 8.7 on sm_120a sm_121a

[mma.sp.integer] "D = A*B + C on small integers, half of A stored; two threads of each four have the metadata."
mma.spvariant.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype  =d: s32 x 4, a: b32 x 2 reg, b: by reg, c: s32 x 4 reg, metadata: b32 reg, selector: u32 imm 0..1;
  .dtype = { .s32 }
  .ctype = { .s32 }
  .shape = { .m16n8k32, .m16n8k64 }
  .atype = { .u8, .s8, .u4, .s4 }
  .btype = { .u8, .s8, .u4, .s4 }
  b by .shape.atype.btype = { .m16n8k32.u8|.s8.u8|.s8 b32 x 2, .m16n8k64.u4|.s4.u4|.s4 b32 x 2 }
  since 7.1 on sm_80+

[mma.sp.integer.all] "D = A*B + C on small integers, half of A stored; all threads have the metadata."
mma.spvariant.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype  =d: s32 x 4, a: b32 x 4 reg, b: by reg, c: s32 x 4 reg, metadata: b32 reg, selector: u32 imm 0..0;
  .dtype = { .s32 }
  .ctype = { .s32 }
  .shape = { .m16n8k64, .m16n8k128 }
  .atype = { .u8, .s8, .u4, .s4 }
  .btype = { .u8, .s8, .u4, .s4 }
  b by .shape.atype.btype = { .m16n8k64.u8|.s8.u8|.s8 b32 x 4, .m16n8k128.u4|.s4.u4|.s4 b32 x 4 }
  since 7.1 on sm_80+
"""

#: Which threads of each four have scales that a selector can name: two threads for A, all four for B.
_THREADS = {"a": range(2), "b": range(4)}


def _selects(operands: Mapping[str, Operand], bytes_: range) -> str | None:
    """Refuse a selector ``{byte, thread}`` whose constants name no scale; registers are not checked."""
    for matrix, threads in _THREADS.items():
        selector = operands[f"select-{matrix}"]
        assert isinstance(selector, Vector)
        for what, element, legal in zip(
            ("byte", "thread"), selector.elements, (bytes_, threads), strict=True
        ):
            if isinstance(element, Immediate) and element.value not in legal:
                return f"{what} of select-{matrix} is {element}; expected one of {', '.join(map(str, legal))}"
    return None


def selects_1x(operands: Mapping[str, Operand]) -> str | None:
    """Check selectors for one scale per row, which may be in any byte."""
    return _selects(operands, range(4))


def selects_2x(operands: Mapping[str, Operand]) -> str | None:
    """Check selectors for two scales per row, which are in the lower or the upper two bytes."""
    return _selects(operands, range(0, 4, 2))


def selects_4x(operands: Mapping[str, Operand]) -> str | None:
    """Check selectors for four scales per row, which fill the register."""
    return _selects(operands, range(1))
