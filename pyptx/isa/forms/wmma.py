"""wmma: a warp loads, multiplies and stores matrices in fragments whose layout the hardware chooses."""

TEXT = r"""
.layout = { .row, .col }
.ss = { .global, .shared, .shared::cta since 7.8 }
.alayout = { .row, .col }
.blayout = { .row, .col }
.ctype = { .s32 }
.dtype = { .s32 }
since 6.3

[wmma.load.a] "Load a fragment of A; stride is the distance of rows (or of columns, .col) in elements."
wmma.load.a.sync.aligned.layout.shape{.ss}.atype  =r: by, [p: addr .ss] {, stride: u32};
  .shape = { .m16n16k16, .m8n32k16, .m32n8k16, .m16n16k8 since 7.0 on sm_80+, .m8n8k4 since 7.0 on sm_80+ }
  .atype = { .f16, .s8, .u8, .bf16 since 7.0 on sm_80+, .tf32, .f64 }
  r by .shape.atype = {
    .m16n16k16|.m8n32k16|.m32n8k16.f16 f16x2 x 8,
    .m16n16k16.s8|.u8 s32 x 2, .m8n32k16.s8|.u8 s32 x 1, .m32n8k16.s8|.u8 s32 x 4,
    .m16n16k16.bf16 bf16x2 x 4, .m8n32k16.bf16 bf16x2 x 2, .m32n8k16.bf16 bf16x2 x 8,
    .m16n16k8.tf32 tf32 x 4,
    .m8n8k4.f64 f64 x 1
  }
  see warp-level-matrix-instructions-wmma-ld

[wmma.load.a.bits] "Load a fragment of A of 4-bit integers or of bits; stride is the distance of rows in elements."
wmma.load.a.sync.aligned.layout.shape{.ss}.atype  =r: by, [p: addr .ss] {, stride: u32};
  .layout = { .row }
  .shape = { .m8n8k32, .m8n8k128 }
  .atype = { .s4, .u4, .b1 }
  r by .shape.atype = { .m8n8k32.s4|.u4 b32 x 1, .m8n8k128.b1 b32 x 1 }
  see warp-level-matrix-instructions-wmma-ld

[wmma.load.b] "Load a fragment of B; stride is the distance of rows (or of columns, .col) in elements."
wmma.load.b.sync.aligned.layout.shape{.ss}.btype  =r: by, [p: addr .ss] {, stride: u32};
  .shape = { .m16n16k16, .m8n32k16, .m32n8k16, .m16n16k8 since 7.0 on sm_80+, .m8n8k4 since 7.0 on sm_80+ }
  .btype = { .f16, .s8, .u8, .bf16 since 7.0 on sm_80+, .tf32, .f64 }
  r by .shape.btype = {
    .m16n16k16|.m8n32k16|.m32n8k16.f16 f16x2 x 8,
    .m16n16k16.s8|.u8 s32 x 2, .m8n32k16.s8|.u8 s32 x 4, .m32n8k16.s8|.u8 s32 x 1,
    .m16n16k16.bf16 bf16x2 x 4, .m8n32k16.bf16 bf16x2 x 8, .m32n8k16.bf16 bf16x2 x 2,
    .m16n16k8.tf32 tf32 x 4,
    .m8n8k4.f64 f64 x 1
  }
  see warp-level-matrix-instructions-wmma-ld

[wmma.load.b.bits] "Load a fragment of B of 4-bit integers or of bits; stride is the distance of columns in elements."
wmma.load.b.sync.aligned.layout.shape{.ss}.btype  =r: by, [p: addr .ss] {, stride: u32};
  .layout = { .col }
  .shape = { .m8n8k32, .m8n8k128 }
  .btype = { .s4, .u4, .b1 }
  r by .shape.btype = { .m8n8k32.s4|.u4 b32 x 1, .m8n8k128.b1 b32 x 1 }
  see warp-level-matrix-instructions-wmma-ld

[wmma.load.c] "Load a fragment of C; stride is the distance of rows (or of columns, .col) in elements."
wmma.load.c.sync.aligned.layout.shape{.ss}.ctype  =r: by, [p: addr .ss] {, stride: u32};
  .shape = { .m16n16k16, .m8n32k16, .m32n8k16, .m16n16k8 since 7.0 on sm_80+, .m8n8k4 since 7.0 on sm_80+, .m8n8k32, .m8n8k128 }
  .ctype = { .f16, .f32, .s32, .f64 }
  r by .shape.ctype = {
    .m16n16k16|.m8n32k16|.m32n8k16.f16 f16x2 x 4,
    .m16n16k16|.m8n32k16|.m32n8k16|.m16n16k8.f32 f32 x 8,
    .m16n16k16|.m8n32k16|.m32n8k16.s32 s32 x 8,
    .m8n8k4.f64 f64 x 2,
    .m8n8k32|.m8n8k128.s32 s32 x 2
  }
  STRICTER ptxas takes .f32 with .m8n8k32 and .m8n8k128, shapes whose products are integers
  see warp-level-matrix-instructions-wmma-ld

[wmma.store.d] "Store a fragment of D; stride is the distance of rows (or of columns, .col) in elements."
wmma.store.d.sync.aligned.layout.shape{.ss}.type  [p: addr .ss], r: by reg {, stride: u32};
  .shape = { .m16n16k16, .m8n32k16, .m32n8k16, .m16n16k8 since 7.0 on sm_80+, .m8n8k4 since 7.0 on sm_80+, .m8n8k32, .m8n8k128 }
  .type = { .f16, .f32, .s32, .f64 }
  r by .shape.type = {
    .m16n16k16|.m8n32k16|.m32n8k16.f16 f16x2 x 4,
    .m16n16k16|.m8n32k16|.m32n8k16|.m16n16k8.f32 f32 x 8,
    .m16n16k16|.m8n32k16|.m32n8k16.s32 s32 x 8,
    .m8n8k4.f64 f64 x 2,
    .m8n8k32|.m8n8k128.s32 s32 x 2
  }
  STRICTER ptxas takes .f32 with .m8n8k32 and .m8n8k128, shapes whose products are integers
  see warp-level-matrix-instructions-wmma-st

[wmma.mma.f16] "D = A*B + C on halves."
wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype  =d: by, a: f16x2 x 8 reg, b: f16x2 x 8 reg, c: by reg;
  .shape = { .m16n16k16, .m8n32k16, .m32n8k16 }
  .dtype = { .f16, .f32 }
  .ctype = { .f16, .f32 }
  d by .dtype = { .f16 f16x2 x 4, .f32 f32 x 8 }
  c by .ctype = { .f16 f16x2 x 4, .f32 f32 x 8 }
  see warp-level-matrix-instructions-wmma-mma

[wmma.mma.i8] "D = A*B + C on bytes, in 32-bit integers that wrap or (.satfinite) saturate."
wmma.mma.sync.aligned.alayout.blayout.shape.dtype.atype.btype.ctype{.satfinite}  =d: s32 x 8, a: by reg, b: by reg, c: s32 x 8 reg;
  .shape = { .m16n16k16, .m8n32k16, .m32n8k16 }
  .atype = { .s8, .u8 }
  .btype = { .s8, .u8 }
  a by .shape = { .m16n16k16 s32 x 2, .m8n32k16 s32 x 1, .m32n8k16 s32 x 4 }
  b by .shape.atype.btype = {
    .m16n16k16.s8.s8 s32 x 2, .m8n32k16.s8.s8 s32 x 4, .m32n8k16.s8.s8 s32 x 1,
    .m16n16k16.u8.u8 s32 x 2, .m8n32k16.u8.u8 s32 x 4, .m32n8k16.u8.u8 s32 x 1
  }
  see warp-level-matrix-instructions-wmma-mma

[wmma.mma.alternate] "D = A*B + C on bfloats or tf32."
wmma.mma.sync.aligned.alayout.blayout.shape.dtype.atype.btype.ctype  =d: f32 x 8, a: by reg, b: by reg, c: f32 x 8 reg;
  .dtype = { .f32 }
  .ctype = { .f32 }
  .shape = { .m16n16k16, .m8n32k16, .m32n8k16, .m16n16k8 }
  .atype = { .bf16, .tf32 }
  .btype = { .bf16, .tf32 }
  a by .shape.atype = { .m16n16k16.bf16 bf16x2 x 4, .m8n32k16.bf16 bf16x2 x 2, .m32n8k16.bf16 bf16x2 x 8, .m16n16k8.tf32 tf32 x 4 }
  b by .shape.atype.btype = {
    .m16n16k16.bf16.bf16 bf16x2 x 4, .m8n32k16.bf16.bf16 bf16x2 x 8, .m32n8k16.bf16.bf16 bf16x2 x 2,
    .m16n16k8.tf32.tf32 tf32 x 4
  }
  since 7.0 on sm_80+
  see warp-level-matrix-instructions-wmma-mma

[wmma.mma.f64] "D = A*B + C on doubles."
wmma.mma.sync.aligned.alayout.blayout.shape{.rnd}.dtype.atype.btype.ctype  =d: b64 x 2, a: f64 x 1 reg, b: f64 x 1 reg, c: b64 x 2 reg;
  .shape = { .m8n8k4 }
  .dtype = { .f64 }
  .atype = { .f64 }
  .btype = { .f64 }
  .ctype = { .f64 }
  .rnd = { .rn, .rz, .rm, .rp }
  since 7.0 on sm_80+
  STRICTER ptxas takes .m16n16k16 and .m16n16k8 too, and writes no instruction for them
  see warp-level-matrix-instructions-wmma-mma

[wmma.mma.i4] "D = A*B + C on 4-bit integers, in 32-bit integers that wrap or (.satfinite) saturate."
wmma.mma.sync.aligned.row.col.shape.dtype.atype.btype.ctype{.satfinite}  =d: s32 x 2, a: s32 x 1 reg, b: by reg, c: s32 x 2 reg;
  .shape = { .m8n8k32 }
  .atype = { .s4, .u4 }
  .btype = { .s4, .u4 }
  b by .atype.btype = { .s4.s4 s32 x 1, .u4.u4 s32 x 1 }
  see warp-level-matrix-instructions-wmma-mma

[wmma.mma.b1] "D = C + the number of bits set in A xor B, or in A and B."
wmma.mma.op.popc.sync.aligned.row.col.shape.dtype.atype.btype.ctype  =d: s32 x 2, a: s32 x 1 reg, b: s32 x 1 reg, c: s32 x 2 reg;
  .shape = { .m8n8k128 }
  .atype = { .b1 }
  .btype = { .b1 }
  .op = { .xor, .and since 7.1 on sm_80+ }
  see warp-level-matrix-instructions-wmma-mma
"""
