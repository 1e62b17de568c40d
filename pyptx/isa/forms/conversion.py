"""Conversions between types."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Operand, Register

TEXT = r"""
.dtype = { .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }
.atype = { .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }
.rnd = { .rn, .rz, .rm, .rp }
.irnd = { .rni, .rzi, .rmi, .rpi }
.scaled::n1::ue8m0 iff scale-factor
.scaled::n2::ue8m0 iff scale-factor
see data-movement-and-conversion-instructions-<opcode>

[cvt.int] "Integer to integer: truncates, zero- or sign-extends, saturates with .sat."
cvt{.sat}.dtype.atype  =d: .dtype+, a: .atype+ reg imm special;
  check sat_has_something_to_do
  MEASURED "Illegal modifier '.sat' for instruction 'cvt'" where every source value fits the destination

[cvt.float_from_int] "Integer to float, rounded."
cvt.rnd.dtype.atype  =d: .dtype, a: .atype+;
  .dtype = { .f32, .f64 }

[cvt.int_from_float] "Float to integer, rounded and clamped to the integer's range."
cvt.irnd{.ftz}.dtype.atype  =d: .dtype+, a: .atype;
  .atype = { .f32, .f64 }
  check ftz_from_f32

[cvt.narrow16] "f32 to f16 or bf16."
cvt.rnd.dtype.atype  =d: .dtype, a: f32;
  .atype = { .f32 }
  .rnd = { .rn, .rz }
  .dtype = { .f16, .bf16 since 7.0 on sm_80+ }

[cvt.pack16] "Two f32 to one packed f16x2 or bf16x2; a becomes the upper half."
cvt.rnd.dtype.atype  =d: .dtype, a: f32, b: f32;
  .atype = { .f32 }
  .rnd = { .rn, .rz }
  .dtype = { .f16x2, .bf16x2 }
  since 7.0 on sm_80+

[cvt.widen16] "f16 or bf16 to f32: exact."
cvt{.ftz}.dtype.atype  =d: f32, a: .atype reg;
  .dtype = { .f32 }
  .atype = { .f16, .bf16 since 7.1 on sm_80+ }
  check no_ftz_from_bf16
  MEASURED .bf16 is taken from sm_80 on

[cvt.float_from_int.sat] "Integer to float, rounded, clamped to [0, 1] with .sat."
cvt.rnd{.ftz}{.sat}.dtype.atype  =d: .dtype, a: .atype+;
  .dtype = { .f32, .f64 }
  check ftz_or_sat_to_f32

[cvt.half_from_int] "Integer to half or bfloat, rounded."
cvt.rnd{.sat}.dtype.atype  =d: f16, a: .atype+;
  .dtype = { .f16 }

[cvt.bfloat_from_int] "Integer to bfloat, rounded."
cvt.rnd.dtype.atype  =d: bf16, a: .atype;
  .dtype = { .bf16 }
  .atype = { .u16, .u32, .u64, .s16, .s32, .s64 }
  since 7.8 on sm_90+

[cvt.bfloat_from_byte] "A byte to bfloat: exact."
cvt.rnd.dtype.atype  =d: bf16, a: .atype reg;
  .dtype = { .bf16 }
  .atype = { .u8, .s8 }
  since 7.8 on sm_90+
  MEASURED the register has 8 bits: ptxas refuses a wider one

[cvt.int_from_float.sat] "Float to integer, rounded and clamped; .sat changes nothing, because the conversion clamps anyway."
cvt.irnd{.ftz}.sat.dtype.atype  =d: .dtype+, a: .atype;
  .atype = { .f32, .f64 }
  check ftz_from_f32

[cvt.int_from_half] "Half to integer, rounded and clamped."
cvt.irnd{.sat}.dtype.atype  =d: .dtype+, a: f16 reg;
  .atype = { .f16 }

[cvt.int_from_bfloat] "Bfloat to integer, rounded and clamped."
cvt.irnd.dtype.atype  =d: .dtype, a: bf16 reg;
  .atype = { .bf16 }
  .dtype = { .u16, .u32, .u64, .s16, .s32, .s64 }
  since 7.8 on sm_90+

[cvt.byte_from_bfloat] "Bfloat to a byte, rounded and clamped."
cvt.irnd.dtype.atype  =d: .dtype, a: bf16 reg;
  .atype = { .bf16 }
  .dtype = { .u8, .s8 }
  since 7.8 on sm_90+
  MEASURED the register has 8 bits: ptxas refuses a wider one

[cvt.f32] "Round an f32 to an integral value, or apply .ftz or .sat."
cvt{.irnd}{.ftz}{.sat}.dtype.atype  =d: f32, a: f32;
  .dtype = { .f32 }
  .atype = { .f32 }

[cvt.f64] "Round an f64 to an integral value, or apply .sat."
cvt{.irnd}{.sat}.dtype.atype  =d: f64, a: f64;
  .dtype = { .f64 }
  .atype = { .f64 }

[cvt.f32_from_f64] "f64 to f32, rounded."
cvt.rnd{.ftz}{.sat}.dtype.atype  =d: f32, a: f64;
  .dtype = { .f32 }
  .atype = { .f64 }

[cvt.f64_from_f32] "f32 to f64: exact."
cvt{.ftz}{.sat}.dtype.atype  =d: f64, a: f32;
  .dtype = { .f64 }
  .atype = { .f32 }

[cvt.f16] "Round an f16 to an integral value, or apply .sat."
cvt{.irnd}{.sat}.dtype.atype  =d: f16, a: f16 reg;
  .dtype = { .f16 }
  .atype = { .f16 }

[cvt.bf16] "Round a bf16 to an integral value."
cvt{.irnd}.dtype.atype  =d: bf16, a: bf16 reg;
  .dtype = { .bf16 }
  .atype = { .bf16 }
  since 7.8 on sm_90+

[cvt.f16_from_bf16] "bf16 to f16, rounded."
cvt{.rnd}.dtype.atype  =d: f16, a: bf16 reg;
  .dtype = { .f16 }
  .atype = { .bf16 }
  since 7.8 on sm_90+
  MEASURED the rounding may be absent

[cvt.bf16_from_f16] "f16 to bf16, rounded."
cvt{.rnd}.dtype.atype  =d: bf16, a: f16 reg;
  .dtype = { .bf16 }
  .atype = { .f16 }
  since 7.8 on sm_90+
  MEASURED the rounding may be absent

[cvt.f16_from_f64] "f64 to f16, rounded."
cvt.rnd{.sat}.dtype.atype  =d: f16, a: f64;
  .dtype = { .f16 }
  .atype = { .f64 }

[cvt.bf16_from_f64] "f64 to bf16, rounded."
cvt.rnd.dtype.atype  =d: bf16, a: f64;
  .dtype = { .bf16 }
  .atype = { .f64 }
  since 7.8 on sm_90+

[cvt.f64_from_f16] "f16 to f64: exact."
cvt{.sat}.dtype.atype  =d: f64, a: f16 reg;
  .dtype = { .f64 }
  .atype = { .f16 }

[cvt.f64_from_bf16] "bf16 to f64: exact."
cvt{.rnd}.dtype.atype  =d: f64, a: bf16 reg;
  .dtype = { .f64 }
  .atype = { .bf16 }
  since 7.8 on sm_90+
  MEASURED ptxas takes a rounding, which changes nothing

[cvt.f32_from_f16.sat] "f16 to f32, clamped to [0, 1]."
cvt{.ftz}.sat.dtype.atype  =d: f32, a: f16 reg;
  .dtype = { .f32 }
  .atype = { .f16 }

[cvt.f32_from_bf16.rnd] "bf16 to f32 with a rounding that changes nothing."
cvt.rnd.dtype.atype  =d: f32, a: bf16 reg;
  .dtype = { .f32 }
  .atype = { .bf16 }
  since 7.1 on sm_80+

[cvt.f32_from_bf16.ftz] "bf16 to f32; subnormal numbers become zero."
cvt{.rnd}.ftz.dtype.atype  =d: f32, a: bf16 reg;
  .dtype = { .f32 }
  .atype = { .bf16 }
  since 7.8 on sm_90+
  MEASURED ptxas takes .ftz here

[cvt.narrow16.directed] "f32 to f16 or bf16, rounded down or up."
cvt.rnd.dtype.atype  =d: .dtype, a: f32;
  .atype = { .f32 }
  .rnd = { .rm, .rp }
  .dtype = { .f16, .bf16 since 7.0 on sm_80+ }

[cvt.f16_from_f32] "f32 to f16 with .ftz or .sat."
cvt.rnd{.ftz}{.sat}.dtype.atype  =d: f16, a: f32;
  .dtype = { .f16 }
  .atype = { .f32 }
  check ftz_or_sat

[cvt.bf16_from_f32.ftz] "f32 to bf16; subnormal numbers are read as zero."
cvt.rnd.ftz.dtype.atype  =d: bf16, a: f32;
  .dtype = { .bf16 }
  .atype = { .f32 }
  since 7.0 on sm_80+
  MEASURED ptxas takes .ftz here

[cvt.narrow16.relu] "f32 to f16 or bf16; .relu makes negative results zero, .satfinite clamps to the largest number."
cvt.rnd{.relu}{.satfinite}.dtype.atype  =d: .dtype, a: f32;
  .atype = { .f32 }
  .rnd = { .rn, .rz }
  .dtype = { .f16, .bf16 since 7.0 on sm_80+ }
  .relu since 7.0 on sm_80+
  .satfinite since 8.1
  check relu_or_satfinite

[cvt.pack16.relu] "Two f32 to one pack; .relu makes negative results zero, .satfinite clamps to the largest number."
cvt.rnd{.relu}{.satfinite}.dtype.atype  =d: .dtype, a: f32, b: f32;
  .atype = { .f32 }
  .rnd = { .rn, .rz }
  .dtype = { .f16x2, .bf16x2 }
  .satfinite since 8.1
  since 7.0 on sm_80+
  check relu_or_satfinite

[cvt.pack16.rs] "Two f32 to one pack, rounded stochastically with random bits."
cvt.rnd{.relu}{.satfinite}.dtype.atype  =d: .dtype, a: f32, b: f32, rbits: b32 reg;
  .atype = { .f32 }
  .rnd = { .rs }
  .dtype = { .f16x2, .bf16x2 }
  since 8.7 on sm_100a sm_103a sm_107a
  check operands untyped_bits

[cvt.tf32.rna] "f32 to tf32, nearest, ties away from zero."
cvt.rna{.satfinite}.dtype.atype  =d: tf32, a: f32;
  .dtype = { .tf32 }
  .atype = { .f32 }
  .satfinite since 8.1
  since 7.0 on sm_80+

[cvt.tf32] "f32 to tf32."
cvt.rnd{.satfinite}{.relu}.dtype.atype  =d: tf32, a: f32;
  .dtype = { .tf32 }
  .atype = { .f32 }
  .rnd = { .rn, .rz }
  .satfinite since 8.6 on sm_100+
  since 7.8 on sm_90+

[cvt.f8x2] "Two f32 to two fp8; a becomes the upper one."
cvt.rnd.satfinite{.relu}.dtype.atype  =d: .dtype, a: f32, b: f32;
  .atype = { .f32 }
  .rnd = { .rn }
  .dtype = { .e4m3x2, .e5m2x2 }
  since 8.1 on sm_89+

[cvt.f8x2_from_f16x2] "Two f16 to two fp8."
cvt.rnd.satfinite{.relu}.dtype.atype  =d: .dtype, a: f16x2 reg;
  .atype = { .f16x2 }
  .rnd = { .rn }
  .dtype = { .e4m3x2, .e5m2x2 }
  since 8.1 on sm_89+

[cvt.f16x2_from_f8x2] "Two fp8 to two f16: exact."
cvt.rnd{.relu}.dtype.atype  =d: f16x2, a: .atype reg;
  .dtype = { .f16x2 }
  .rnd = { .rn }
  .atype = { .e4m3x2, .e5m2x2 }
  since 8.1 on sm_89+

[cvt.f8x4.rs] "Four f32 to four fp8 or fp6, rounded stochastically; the first becomes the highest element."
cvt.rnd{.relu}.satfinite.dtype.atype  =d: .dtype, v: f32 x 4, rbits: b32 reg;
  .atype = { .f32 }
  .rnd = { .rs }
  .dtype = { .e4m3x4, .e5m2x4, .e2m3x4, .e3m2x4, .e2m1x4 }
  since 8.7 on sm_100a sm_103a sm_107a
  check operands untyped_bits

[cvt.f6x2] "Two f32 to two fp6 or fp4; a becomes the upper one."
cvt.rnd.satfinite{.relu}.dtype.atype  =d: .dtype, a: f32, b: f32;
  .atype = { .f32 }
  .rnd = { .rn }
  .dtype = { .e2m3x2, .e3m2x2, .e2m1x2 }
  since 8.6 on sm_100f sm_110f sm_120f

[cvt.f16x2_from_f6x2] "Two fp6 or fp4 to two f16: exact."
cvt.rnd{.relu}.dtype.atype  =d: f16x2, a: .atype reg;
  .dtype = { .f16x2 }
  .rnd = { .rn }
  .atype = { .e2m3x2, .e3m2x2, .e2m1x2 }
  since 8.6 on sm_100f sm_110f sm_120f

[cvt.ue8m0x2] "Two f32 to two powers of two; a becomes the upper one."
cvt.rnd{.satfinite}.dtype.atype  =d: ue8m0x2, a: f32, b: f32;
  .dtype = { .ue8m0x2 }
  .atype = { .f32 }
  .rnd = { .rz, .rp }
  since 8.6 on sm_100f sm_110f sm_120f

[cvt.ue8m0x2_from_bf16x2] "Two bf16 to two powers of two."
cvt.rnd{.satfinite}.dtype.atype  =d: ue8m0x2, a: bf16x2 reg;
  .dtype = { .ue8m0x2 }
  .atype = { .bf16x2 }
  .rnd = { .rz, .rp }
  since 8.6 on sm_100f sm_110f sm_120f

[cvt.bf16x2_from_ue8m0x2] "Two powers of two to two bf16: exact."
cvt.rnd.dtype.atype  =d: bf16x2, a: ue8m0x2 reg;
  .dtype = { .bf16x2 }
  .atype = { .ue8m0x2 }
  .rnd = { .rn }
  since 8.6 on sm_100f sm_110f sm_120f

[cvt.f8x2_from_bf16x2] "Two bf16 to two fp8."
cvt.rnd.satfinite{.relu}.dtype.atype  =d: .dtype, a: bf16x2 reg;
  .atype = { .bf16x2 }
  .rnd = { .rn }
  .dtype = { .e4m3x2, .e5m2x2 }
  since 9.1 on sm_100f sm_110f sm_120f

[cvt.f6x2_from_pack] "Two f16 or bf16 to two fp6 or fp4."
cvt.rnd.satfinite{.relu}.dtype.atype  =d: .dtype, a: .atype reg;
  .rnd = { .rn }
  .dtype = { .e2m3x2, .e3m2x2, .e2m1x2 }
  .atype = { .f16x2, .bf16x2 }
  since 9.1 on sm_100f sm_110f sm_120f

[cvt.bf16x2_from_f8x2] "Two fp8, fp6 or fp4 to two bf16, each optionally multiplied by a power of two."
cvt.rnd{.relu}{.satfinite}{.scaled::n2::ue8m0}.dtype.atype  =d: bf16x2, a: .atype reg {, scale-factor: b16 reg};
  .dtype = { .bf16x2 }
  .rnd = { .rn }
  .atype = { .e4m3x2, .e5m2x2, .e2m3x2, .e3m2x2, .e2m1x2 }
  since 9.2 on sm_100f sm_110f sm_120f
  check operands untyped_bits

[cvt.s2f6x2] "Two f32 to two signed fixed-point numbers of 2 and 6 bits, optionally divided by powers of two."
cvt.rnd.satfinite{.relu}{.scaled::n2::ue8m0}.dtype.atype  =d: s2f6x2, a: f32, b: f32 {, scale-factor: b16 reg};
  .dtype = { .s2f6x2 }
  .atype = { .f32 }
  .rnd = { .rn, .rz since 9.4 on sm_107a }
  since 9.1 on sm_100a sm_103a sm_107a sm_110a sm_120a sm_121a
  check operands untyped_bits

[cvt.s2f6x2_from_bf16x2] "Two bf16 to two signed fixed-point numbers of 2 and 6 bits, optionally divided by powers of two."
cvt.rnd.satfinite{.relu}{.scaled::n2::ue8m0}.dtype.atype  =d: s2f6x2, a: bf16x2 reg {, scale-factor: b16 reg};
  .dtype = { .s2f6x2 }
  .atype = { .bf16x2 }
  .rnd = { .rn, .rz since 9.4 on sm_107a }
  since 9.1 on sm_100a sm_103a sm_107a sm_110a sm_120a sm_121a
  check operands untyped_bits

[cvt.bf16x2_from_s2f6x2] "Two fixed-point numbers of 2 and 6 bits to two bf16, each optionally multiplied by a power of two."
cvt.rnd{.satfinite}{.relu}{.scaled::n2::ue8m0}.dtype.atype  =d: bf16x2, a: s2f6x2 reg {, scale-factor: b16 reg};
  .dtype = { .bf16x2 }
  .atype = { .s2f6x2 }
  .rnd = { .rn }
  since 9.1 on sm_100a sm_103a sm_107a sm_110a sm_120a sm_121a
  check operands untyped_bits

[cvt.half.pzo] "f32 to f16, bf16 or tf32; a result of minus zero becomes zero."
cvt.rnd{.relu}{.satfinite}.pzo.dtype.atype  =d: .dtype, a: f32;
  .atype = { .f32 }
  .rnd = { .rn, .rz }
  .dtype = { .f16, .bf16, .tf32 }
  since 9.4 on sm_107f

[cvt.pack16.pzo] "Two f32 to one pack; results of minus zero become zero."
cvt.rnd{.relu}{.satfinite}.pzo.dtype.atype  =d: .dtype, a: f32, b: f32;
  .atype = { .f32 }
  .rnd = { .rn, .rz }
  .dtype = { .f16x2, .bf16x2 }
  since 9.4 on sm_107f

[cvt.narrow8] "Two f32 to two fp8, fp6 or fp4: toward zero, with .pzo, or divided by a power of two."
cvt.rnd.satfinite{.relu}{.pzo}{.scaled::n1::ue8m0}.dtype.atype  =d: .dtype, a: f32, b: f32 {, scale-factor: b8 reg};
  .atype = { .f32 }
  .rnd = { .rn, .rz }
  .dtype = { .e4m3x2, .e5m2x2, .e2m3x2, .e3m2x2, .e2m1x2 }
  since 9.4 on sm_107f
  check beyond_nearest

[cvt.narrow8_from_pack] "Two f16 or bf16 to two fp8, fp6 or fp4: toward zero, with .pzo, or divided by a power of two."
cvt.rnd.satfinite{.relu}{.pzo}{.scaled::n1::ue8m0}.dtype.atype  =d: .dtype, a: .atype reg {, scale-factor: b8 reg};
  .rnd = { .rn, .rz }
  .dtype = { .e4m3x2, .e5m2x2, .e2m3x2, .e3m2x2, .e2m1x2 }
  .atype = { .f16x2, .bf16x2 }
  since 9.4 on sm_107f
  check beyond_nearest

[cvt.ue5m3x2] "Two f32 to two unsigned floats of 5 and 3 bits, optionally divided by a power of two."
cvt.rnd{.satfinite}{.scaled::n1::ue8m0}.dtype.atype  =d: ue5m3x2, a: f32, b: f32 {, scale-factor: b8 reg};
  .dtype = { .ue5m3x2 }
  .atype = { .f32 }
  .rnd = { .rn, .rz, .rp }
  .scaled::n1::ue8m0 excludes .rp
  since 9.4 on sm_107f

[cvt.ue5m3x2_from_pack] "Two f16 or bf16 to two unsigned floats of 5 and 3 bits, optionally divided by a power of two."
cvt.rnd{.satfinite}{.scaled::n1::ue8m0}.dtype.atype  =d: ue5m3x2, a: .atype reg {, scale-factor: b8 reg};
  .dtype = { .ue5m3x2 }
  .rnd = { .rn, .rz, .rp }
  .atype = { .f16x2, .bf16x2 }
  .scaled::n1::ue8m0 excludes .rp
  since 9.4 on sm_107f

[cvt.f16x2_from_ue5m3x2] "Two unsigned floats of 5 and 3 bits to two f16."
cvt.rnd.dtype.atype  =d: f16x2, a: ue5m3x2 reg;
  .dtype = { .f16x2 }
  .atype = { .ue5m3x2 }
  .rnd = { .rn }
  since 9.4 on sm_107f

[cvt.bf16x2_from_ue5m3x2] "Two unsigned floats of 5 and 3 bits to two bf16, each optionally multiplied by a power of two."
cvt.rnd{.satfinite}{.scaled::n2::ue8m0}.dtype.atype  =d: bf16x2, a: ue5m3x2 reg {, scale-factor: b16 reg};
  .dtype = { .bf16x2 }
  .atype = { .ue5m3x2 }
  .rnd = { .rn }
  since 9.4 on sm_107f
  check operands untyped_bits

[cvt.pack] "Two integers to 16 bits each, saturated; a becomes the upper half."
cvt.pack.sat.dtype.s32  =d: u32+, a: s32, b: s32;
  .dtype = { .u16, .s16 }
  since 6.5
  see data-movement-and-conversion-instructions-cvt-pack

[cvt.pack.insert] "Two integers to 2, 4 or 8 bits each, saturated, in the low bits; c is shifted up above them."
cvt.pack.sat.dtype.s32.b32  =d: u32+, a: s32, b: s32, c: b32;
  .dtype = { .u2, .s2, .u4, .s4, .u8, .s8 }
  since 6.5
  see data-movement-and-conversion-instructions-cvt-pack
"""


def sat_has_something_to_do(chosen: dict[str, str]) -> str | None:
    """Refuse .sat if the destination's range includes every value of the source."""
    source, dest = chosen["atype"], chosen["dtype"]
    if "sat" not in chosen:
        return None
    bits, wide = int(source[1:]), int(dest[1:])
    fits = bits <= wide if source[0] == dest[0] else source[0] == "u" and bits < wide
    return f".sat is not allowed: every value of .{source} fits .{dest}" if fits else None


def ftz_from_f32(chosen: dict[str, str]) -> str | None:
    """Refuse .ftz if the source is not .f32."""
    if "ftz" in chosen and chosen["atype"] != "f32":
        return f".ftz is only allowed with an .f32 source, not with .{chosen['atype']}"
    return None


def no_ftz_from_bf16(chosen: dict[str, str]) -> str | None:
    """Refuse .ftz with a .bf16 source."""
    if "ftz" in chosen and chosen["atype"] == "bf16":
        return ".ftz is not allowed with a .bf16 source"
    return None


def ftz_or_sat(chosen: dict[str, str]) -> str | None:
    """Require .ftz or .sat: the conversion without both is another form."""
    return None if "ftz" in chosen or "sat" in chosen else "expected .ftz or .sat"


def ftz_or_sat_to_f32(chosen: dict[str, str]) -> str | None:
    """Require .ftz or .sat, and refuse .ftz if the result is not .f32."""
    if "ftz" in chosen and chosen["dtype"] != "f32":
        return f".ftz is only allowed with an .f32 result, not with .{chosen['dtype']}"
    return ftz_or_sat(chosen)


def relu_or_satfinite(chosen: dict[str, str]) -> str | None:
    """Require .relu or .satfinite: the conversion without both is another form."""
    return None if "relu" in chosen or "satfinite" in chosen else "expected .relu or .satfinite"


def beyond_nearest(chosen: dict[str, str]) -> str | None:
    """Require .rz, .pzo or .scaled::n1::ue8m0: plain rounding to nearest is another form, which is older."""
    if chosen["rnd"] == "rz" or "pzo" in chosen or "scaled::n1::ue8m0" in chosen:
        return None
    return "expected .rz, .pzo or .scaled::n1::ue8m0"


def untyped_bits(operands: Mapping[str, Operand]) -> str | None:
    """Refuse registers of random bits or scale factors that are not of a .b type."""
    for name in ("rbits", "scale-factor"):
        given = operands.get(name)
        if isinstance(given, Register) and given.type.kind != "b":
            return f"{name} is {given} of type .{given.type}; expected a register of type .b{given.type.bits}"
    return None
