"""Texture instructions: tex, tld4, txq, istypep.

Every lookup has two forms. In unified mode the texture has its sampler; in independent mode
(``.target ..., texmode_independent``) the sampler is an operand of its own.
"""

from collections.abc import Mapping

from ...ir import Operand, Pair, Sink, Vector

TEXT = r"""
.ctype = { .s32, .f32 }
.dtype = { .u32, .s32, .f16, .f32, .f16x2 }
.geom = { .1d, .2d, .3d, .a1d, .a2d, .cube, .acube }
.vec = { .v2, .v4 }
c by .geom.ctype = { .1d.s32|.f32 .ctype x 1, .2d.s32|.f32 .ctype x 2, .3d.s32|.f32 .ctype x 4,
                     .a1d.s32|.f32 u32 then .ctype x 2, .a2d.s32|.f32 u32 then .ctype x 4,
                     .cube.f32 f32 x 4, .acube.f32 u32 then f32 x 4 }
d by .vec.dtype = { .v4.u32|.s32|.f16|.f32 .dtype x 4, .v2.f16x2 b32 x 2 }
e by .geom = { .1d|.a1d s32 x 1, .2d|.a2d s32 x 2, .3d s32 x 4 }
f by .geom.ctype = { .1d|.2d|.a1d|.a2d|.cube|.acube.f32 f32 }
see texture-instructions-<opcode>

family tex
  .mipmap = { .base }
  dPdx by .geom = { .1d|.a1d f32 x 1, .2d|.a2d f32 x 2, .3d|.cube|.acube f32 x 4 }
  dPdy by .geom = { .1d|.a1d f32 x 1, .2d|.a2d f32 x 2, .3d|.cube|.acube f32 x 4 }
  check operands packs_are_kept

[tex] "Look up a texture, with filtering."
tex{.mipmap}.geom.vec.dtype.ctype  =d{|p}: by reg sink, [a: u64 reg symbol texture, c: by] {, e: by} {, f: by};
  .geom = { .1d, .2d, .3d, .a1d, .a2d, .cube, .acube, .2dms, .a2dms }
  c by .geom.ctype = { .1d.s32|.f32 .ctype x 1, .2d.s32|.f32 .ctype x 2, .3d.s32|.f32 .ctype x 4,
                       .a1d.s32|.f32 u32 then .ctype x 2, .a2d.s32|.f32 u32 then .ctype x 4,
                       .cube.f32 f32 x 4, .acube.f32 u32 then f32 x 4, .2dms|.a2dms.s32 u32 then s32 x 4 }
  e by .geom = { .1d|.a1d s32 x 1, .2d|.a2d|.2dms|.a2dms s32 x 2, .3d s32 x 4 }
  d.pair since 7.1
  note e is an offset of the coordinates, f what a depth texture is compared with, p whether the data are resident
  note the fourth coordinate of .3d, .a2d, .cube and .2dms is ignored; .a2dms is layer, sample, x, y
  MEASURED .base takes .2dms and .a2dms
  STRICTER vectors longer than the geometry, and registers in place of vectors, which ptxas takes

[tex.level] "Look up a texture in a given level of its mipmap."
tex.level.geom.vec.dtype.ctype  =d{|p}: by reg sink, [a: u64 reg symbol texture, c: by], lod: .ctype {, e: by} {, f: by};
  d.pair since 7.1

[tex.grad] "Look up a texture in the level of its mipmap that the derivatives of the coordinates choose."
tex.grad.geom.vec.dtype.ctype  =d{|p}: by reg sink, [a: u64 reg symbol texture, c: by], dPdx: by, dPdy: by {, e: by} {, f: by};
  d.pair since 7.1

[tex.sampler] "Look up a texture, with filtering; independent mode."
tex{.mipmap}.geom.vec.dtype.ctype  =d{|p}: by reg sink, [a: u64 reg symbol texture, b: u64 reg symbol sampler, c: by] {, e: by} {, f: by};
  .geom = { .1d, .2d, .3d, .a1d, .a2d, .cube, .acube, .2dms, .a2dms }
  c by .geom.ctype = { .1d.s32|.f32 .ctype x 1, .2d.s32|.f32 .ctype x 2, .3d.s32|.f32 .ctype x 4,
                       .a1d.s32|.f32 u32 then .ctype x 2, .a2d.s32|.f32 u32 then .ctype x 4,
                       .cube.f32 f32 x 4, .acube.f32 u32 then f32 x 4, .2dms|.a2dms.s32 u32 then s32 x 4 }
  e by .geom = { .1d|.a1d s32 x 1, .2d|.a2d|.2dms|.a2dms s32 x 2, .3d s32 x 4 }
  d.pair since 7.1
  note e is an offset of the coordinates, f what a depth texture is compared with, p whether the data are resident
  note the fourth coordinate of .3d, .a2d, .cube and .2dms is ignored; .a2dms is layer, sample, x, y
  MEASURED .base takes .2dms and .a2dms
  STRICTER vectors longer than the geometry, and registers in place of vectors, which ptxas takes

[tex.level.sampler] "Look up a texture in a given level of its mipmap; independent mode."
tex.level.geom.vec.dtype.ctype  =d{|p}: by reg sink, [a: u64 reg symbol texture, b: u64 reg symbol sampler, c: by], lod: .ctype {, e: by} {, f: by};
  d.pair since 7.1

[tex.grad.sampler] "Look up a texture in the level of its mipmap that the derivatives of the coordinates choose; independent mode."
tex.grad.geom.vec.dtype.ctype  =d{|p}: by reg sink, [a: u64 reg symbol texture, b: u64 reg symbol sampler, c: by], dPdx: by, dPdy: by {, e: by} {, f: by};
  d.pair since 7.1

end

[tld4] "Load one component of each of the four texels that bilinear filtering would read."
tld4.comp.geom.v4.dtype.f32  =d{|p}: .dtype x 4 reg sink, [a: u64 reg symbol texture, c: by] {, e: by} {, f: f32};
  .comp = { .r, .g, .b, .a }
  .geom = { .2d, .a2d, .cube, .acube }
  .dtype = { .u32, .s32, .f32 }
  c by .geom = { .2d f32 x 2, .a2d|.acube u32 then f32 x 4, .cube f32 x 4 }
  e by .geom = { .2d|.a2d s32 x 2 }
  d.pair since 7.1

[tld4.sampler] "Load one component of each of the four texels that bilinear filtering would read; independent mode."
tld4.comp.geom.v4.dtype.f32  =d{|p}: .dtype x 4 reg sink, [a: u64 reg symbol texture, b: u64 reg symbol sampler, c: by] {, e: by} {, f: f32};
  .comp = { .r, .g, .b, .a }
  .geom = { .2d, .a2d, .cube, .acube }
  .dtype = { .u32, .s32, .f32 }
  c by .geom = { .2d f32 x 2, .a2d|.acube u32 then f32 x 4, .cube f32 x 4 }
  e by .geom = { .2d|.a2d s32 x 2 }
  d.pair since 7.1

[txq] "Read an attribute of a texture, or of its sampler."
txq.query.b32  =d: b32, [a: u64 reg symbol texture];
  .query = { .width, .height, .depth, .channel_data_type, .channel_order, .normalized_coords, .array_size,
             .num_mipmap_levels, .num_samples, .memory_layout, .filter_mode, .addr_mode_0, .addr_mode_1, .addr_mode_2 }
  note in independent mode the last four take a sampler in place of the texture
  MEASURED .memory_layout, which the manual has for surfaces

[txq.sampler] "Ask whether a sampler takes unnormalized coordinates; independent mode."
txq.force_unnormalized_coords.b32  =d: b32, [a: u64 reg sampler];
  STRICTER the name of a sampler, which ptxas takes in independent mode

[txq.level] "Read the size of one level of a texture's mipmap."
txq.level.query.b32  =d: b32, [a: u64 reg symbol texture], lod: u32;
  .query = { .width, .height, .depth }

[istypep] "Ask whether the address points to a texture, a sampler or a surface."
istypep.type  =p: pred, a: u64;
  .type = { .texref, .samplerref, .surfref }
"""


def packs_are_kept(operands: Mapping[str, Operand]) -> str | None:
    """Refuse ``_`` for one of two packs of halves. Elements of a vector of four may be ``_``."""
    given = operands["d"]
    d = given.first if isinstance(given, Pair) else given
    if isinstance(d, Vector) and len(d.elements) == 2 and Sink() in d.elements:
        return "an element of d is _; expected a register for each pack of two halves"
    return None
