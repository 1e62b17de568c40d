"""Conversions between types."""

TEXT = r"""
[cvt.int] "Integer to integer: truncates, zero- or sign-extends, saturates with .sat."
cvt{.sat}.dtype.atype  =d: .dtype+, a: .atype+;
  .dtype = { .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }
  .atype = { .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }
  check sat_has_something_to_do
  MEASURED "Illegal modifier '.sat' for instruction 'cvt'" where every source value fits the destination
  see data-movement-and-conversion-instructions-cvt

[cvt.float_from_int] "Integer to float, rounded."
cvt.rnd.dtype.atype  =d: .dtype, a: .atype+;
  .rnd = { .rn, .rz, .rm, .rp }
  .dtype = { .f32, .f64 }
  .atype = { .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }
  see data-movement-and-conversion-instructions-cvt

[cvt.int_from_float] "Float to integer, rounded and clamped to the integer's range."
cvt.irnd{.ftz}.dtype.atype  =d: .dtype+, a: .atype;
  .irnd = { .rni, .rzi, .rmi, .rpi }
  .dtype = { .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }
  .atype = { .f32, .f64 }
  check ftz_from_f32
  see data-movement-and-conversion-instructions-cvt

[cvt.narrow16] "f32 to f16 or bf16."
cvt.rnd.dtype.f32  =d: .dtype, a: f32;
  .rnd = { .rn, .rz }
  .dtype = { .f16, .bf16 since 7.0 on sm_80+ }
  see data-movement-and-conversion-instructions-cvt

[cvt.pack16] "Two f32 to one packed f16x2 or bf16x2; a becomes the upper half."
cvt.rnd.dtype.f32  =d: .dtype, a: f32, b: f32;
  .rnd = { .rn, .rz }
  .dtype = { .f16x2, .bf16x2 }
  since 7.0 on sm_80+
  see data-movement-and-conversion-instructions-cvt

[cvt.widen16] "f16 or bf16 to f32: exact."
cvt{.ftz}.f32.atype  =d: f32, a: .atype reg;
  .atype = { .f16, .bf16 since 7.1 on sm_90+ }
  check no_ftz_from_bf16
  see data-movement-and-conversion-instructions-cvt
"""


def sat_has_something_to_do(chosen: dict[str, str]) -> str | None:
    """.sat is only for a source with values outside the destination's range."""
    source, dest = chosen["atype"], chosen["dtype"]
    if "sat" not in chosen:
        return None
    bits, wide = int(source[1:]), int(dest[1:])
    fits = bits <= wide if source[0] == dest[0] else source[0] == "u" and bits < wide
    return f".sat does nothing: every .{source} fits .{dest}" if fits else None


def ftz_from_f32(chosen: dict[str, str]) -> str | None:
    if "ftz" in chosen and chosen["atype"] != "f32":
        return f".ftz applies only to an .f32 source, not to .{chosen['atype']}"
    return None


def no_ftz_from_bf16(chosen: dict[str, str]) -> str | None:
    if "ftz" in chosen and chosen["atype"] == "bf16":
        return ".ftz does not apply to a .bf16 source"
    return None
