"""ldmatrix, stmatrix and movmatrix: load, store and transpose the matrix fragments of a warp."""

TEXT = r"""
.num = { .x1, .x2, .x4 }
.ss = { .shared, .shared::cta }
.shape = { .m8n8 }
see warp-level-matrix-instructions-<opcode>

[ldmatrix] "Load one, two or four 8x8 matrices of 16-bit elements from shared memory; each lane gets its fragments."
ldmatrix.sync.aligned.shape.num{.trans}{.ss}.b16  =r: b32 x .num, [p: addr|u32 .ss];
  .ss = { .shared, .shared::cta since 7.8 }
  since 6.5
  STRICTER ptxas takes .x8 with any number of registers; the manual has no such instruction

[ldmatrix.m16n16] "Load one or two 16x16 matrices of bytes from shared memory, transposed."
ldmatrix.sync.aligned.shape.num.trans{.ss}.b8  =r: b32 x .num*2, [p: addr|u32 .ss];
  .shape = { .m16n16 }
  .num = { .x1, .x2 }
  since 8.6 on sm_100f sm_110f sm_120f

[ldmatrix.m16n16.unpack] "Load one or two 16x16 matrices of 6-bit or 4-bit elements into bytes, transposed."
ldmatrix.sync.aligned.shape.num.trans{.ss}.dst_fmt.src_fmt  =r: b32 x .num*2, [p: addr|u32 .ss];
  .shape = { .m16n16 }
  .dst_fmt = { .b8x16 }
  .num = { .x1, .x2 }
  .src_fmt = { .b6x16_p32, .b4x16_p64 }
  since 8.6 on sm_100f sm_110f sm_120f

[ldmatrix.m8n16.unpack] "Load one, two or four 8x16 matrices of 6-bit or 4-bit elements into bytes."
ldmatrix.sync.aligned.shape.num{.ss}.dst_fmt.src_fmt  =r: b32 x .num, [p: addr|u32 .ss];
  .shape = { .m8n16 }
  .dst_fmt = { .b8x16 }
  .src_fmt = { .b6x16_p32, .b4x16_p64 }
  since 8.6 on sm_100f sm_110f sm_120f

[ldmatrix.m8n16.extend] "Load one, two or four 8x16 matrices of signed 4-bit elements, each extended to a byte."
ldmatrix.sync.aligned.shape.num{.ss}.dst_fmt.src_fmt  =r: b32 x .num, [p: addr|u32 .ss];
  .shape = { .m8n16 }
  .dst_fmt = { .s8 }
  .src_fmt = { .s4 }
  since 9.4 on sm_90a sm_100f sm_110f sm_120f

[stmatrix] "Store one, two or four 8x8 matrices of 16-bit elements to shared memory."
stmatrix.sync.aligned.shape.num{.trans}{.ss}.b16  [p: addr|u32 .ss], r: b32 x .num reg;
  since 7.8 on sm_90+

[stmatrix.m16n8] "Store one, two or four 16x8 matrices of bytes to shared memory, transposed."
stmatrix.sync.aligned.shape.num.trans{.ss}.b8  [p: addr|u32 .ss], r: b32 x .num reg;
  .shape = { .m16n8 }
  since 8.6 on sm_100f sm_110f sm_120f

[movmatrix] "Transpose an 8x8 matrix of 16-bit elements across the registers of a warp."
movmatrix.sync.aligned.shape.trans.b16  =d: b32, a: b32 reg;
  since 7.8
"""
