"""Surface instructions: suld, sust, sured, suq."""

TEXT = r"""
.geom = { .1d, .2d, .3d, .a1d, .a2d }
.clamp = { .trap, .clamp, .zero }
.vec = { .v2, .v4 }
b by .geom = { .1d s32 x 1, .2d s32 x 2, .3d s32 x 4, .a1d u32 then s32 x 2, .a2d u32 then s32 x 4 }
see surface-instructions-<opcode>

[suld] "Load bytes from a surface; the first coordinate counts bytes."
suld.b.geom{.cop}.dtype.clamp  =d: .dtype+ braces, [a: u64 reg symbol surface, b: by];
  .cop = { .ca, .cg, .cs, .cv }
  .dtype = { .b8, .b16, .b32, .b64 }
  note the fourth coordinate of .3d and .a2d is ignored
  STRICTER vectors longer than the geometry, and registers in place of vectors, which ptxas takes
  MEASURED the modifier for coordinates out of bounds is required, though some of the manual's examples leave it out
  NOT REGISTERED suld.p: no target has it

[suld.vec] "Load a vector from a surface; the first coordinate counts bytes."
suld.b.geom{.cop}.vec.dtype.clamp  =d: by+ reg sink, [a: u64 reg symbol surface, b: by];
  .cop = { .ca, .cg, .cs, .cv }
  .dtype = { .b8, .b16, .b32, .b64 }
  d by .vec.dtype = { .v2.b8|.b16|.b32|.b64 .dtype x 2, .v4.b8|.b16|.b32 .dtype x 4 }

[sust] "Store bytes to a surface; the first coordinate counts bytes."
sust.b.geom{.cop}{.vec}.ctype.clamp  [a: u64 reg symbol surface, b: by], c: by+ braces;
  .cop = { .wb, .cg, .cs, .wt }
  .ctype = { .b8, .b16, .b32, .b64 }
  c by .vec.ctype = { -.b8|.b16|.b32|.b64 .ctype, .v2.b8|.b16|.b32|.b64 .ctype x 2, .v4.b8|.b16|.b32 .ctype x 4 }

[sust.p] "Store a sample to a surface, converted to its format; the first coordinate counts samples."
sust.p.geom{.cop}{.vec}.b32.clamp  [a: u64 reg symbol surface, b: by], c: b32+ x .vec braces;
  .cop = { .wb, .cg, .cs, .wt }
  MEASURED .a1d, .a2d and the cache operators, which the manual has only for sust.b

[sured.add] "Add to bytes of a surface; the first coordinate counts bytes."
sured.b.add.geom.ctype.clamp  [a: u64 reg symbol surface, b: by], c: .ctype+;
  .geom = { .1d, .2d, .3d }
  .ctype = { .u32, .s32, .u64 }
  b by .geom = { .1d s32 x 1, .2d s32 x 2, .3d s32 x 4 }

[sured.minmax] "Minimum or maximum of b and bytes of a surface; the first coordinate counts bytes."
sured.b.op.geom.ctype.clamp  [a: u64 reg symbol surface, b: by], c: .ctype+;
  .op = { .min, .max }
  .geom = { .1d, .2d, .3d }
  .ctype = { .u32, .s32, .u64 since 8.1, .s64 since 8.1 }
  b by .geom = { .1d s32 x 1, .2d s32 x 2, .3d s32 x 4 }

[sured.bitwise] "Bitwise and or or of b and bytes of a surface; the first coordinate counts bytes."
sured.b.op.geom.b32.clamp  [a: u64 reg symbol surface, b: by], c: b32+;
  .op = { .and, .or }
  .geom = { .1d, .2d, .3d }
  b by .geom = { .1d s32 x 1, .2d s32 x 2, .3d s32 x 4 }

[sured.p] "Combine b with a sample of a surface, signed or unsigned by its format; the first coordinate counts samples."
sured.p.op.geom.ctype.clamp  [a: u64 reg symbol surface, b: by], c: by+;
  .op = { .add, .min, .max, .and, .or }
  .geom = { .1d, .2d, .3d }
  .ctype = { .b32, .b64 since 8.1 }
  b by .geom = { .1d s32 x 1, .2d s32 x 2, .3d s32 x 4 }
  c by .op.ctype = { .add|.min|.max|.and|.or.b32 .ctype, .min|.max.b64 .ctype }

[suq] "Read an attribute of a surface."
suq.query.b32  =d: b32, [a: u64 reg symbol surface];
  .query = { .width, .height, .depth, .channel_data_type, .channel_order, .array_size, .memory_layout }
"""
