"""Comparison and selection instructions."""

from ..rules import ftz_f32

TEXT = r"""
.cmp = { .eq, .ne, .lt, .le, .gt, .ge, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan }
.type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }
.bool = { .and, .or, .xor }
see half-precision-comparison-instructions-<opcode>

[setp] "Compare and set a predicate, and its complement with p|q."
setp.cmp.type  =p{|q}: pred, a: .type, b: .type;
  .cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan }
  check comparison_fits
  see comparison-and-selection-instructions-setp

[selp] "Select one of two values by a predicate."
selp.type  =d: .type, a: .type, b: .type, c: pred;
  STRICTER !c, which ptxas takes
  see comparison-and-selection-instructions-selp

[setp.ftz] "Compare two f32, reading subnormal numbers as zero."
setp.cmp.ftz.f32  =p{|q}: pred, a: f32, b: f32;
  see comparison-and-selection-instructions-setp

[setp.bool] "Compare, and combine the result with a predicate; q combines the complement with it."
setp.cmp.bool{.ftz}.type  =p{|q}: pred, a: .type, b: .type, !c: pred;
  .cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan }
  check comparison_fits
  see comparison-and-selection-instructions-setp

[setp.half] "Compare two halves."
setp.cmp{.bool}{.ftz}.f16  =p: pred, a: f16 reg, b: f16 reg{, !c: pred};
  .bool iff c

[setp.half2] "Compare two packs of halves: p is for the lower, q for the upper halves."
setp.cmp{.bool}{.ftz}.f16x2  =p{|q}: pred, a: f16x2 reg, b: f16x2 reg{, !c: pred};
  .bool iff c
  MEASURED q may be absent, though the manual writes p|q

[setp.bfloat] "Compare two bfloats."
setp.cmp{.bool}.bf16  =p: pred, a: bf16 reg, b: bf16 reg{, !c: pred reg};
  .bool iff c
  since 7.8 on sm_90+
  MEASURED c is a register: ptxas takes 0 and 1 for other types, not for bf16

[setp.bfloat2] "Compare two packs of bfloats: p is for the lower, q for the upper ones."
setp.cmp{.bool}.bf16x2  =p{|q}: pred, a: bf16x2 reg, b: bf16x2 reg{, !c: pred reg};
  .bool iff c
  since 7.8 on sm_90+
  MEASURED c is a register: ptxas takes 0 and 1 for other types, not for bf16

[set] "Compare, optionally combine with a predicate; true is all ones, or 1.0 for floats."
set.cmp{.bool}{.ftz}.dtype.type  =d: .dtype, a: .type, b: .type{, !c: pred};
  .cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan }
  .dtype = { .u32, .s32, .f32 }
  .bool iff c
  check comparison_fits
  see comparison-and-selection-instructions-set

family set
  .dtype = { .u16, .s16, .u32, .s32 }
  .bool iff c

[set.half] "Compare into a half: true is 1.0."
set.cmp{.bool}{.ftz}.f16.type  =d: f16, a: .type, b: .type{, !c: pred};
  .cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan }
  check comparison_fits

[set.bfloat] "Compare into a bfloat: true is 1.0."
set.cmp{.bool}.bf16.type  =d: bf16, a: .type, b: .type{, !c: pred reg};
  .cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan }
  since 7.8 on sm_90+
  check comparison_fits
  MEASURED c is a register: ptxas takes 0 and 1 for other types, not for bf16

[set.half.half] "Compare two halves into a half: true is 1.0."
set.cmp{.bool}{.ftz}.f16.f16  =d: f16, a: f16 reg, b: f16 reg{, !c: pred};

[set.bfloat.half] "Compare two halves or bfloats into a bfloat: true is 1.0."
set.cmp{.bool}.bf16.type  =d: bf16, a: .type reg, b: .type reg{, !c: pred reg};
  .type = { .f16, .bf16 }
  since 7.8 on sm_90+
  MEASURED c is a register: ptxas takes 0 and 1 for other types, not for bf16

[set.int.half] "Compare two halves into an integer: true is all ones."
set.cmp{.bool}{.ftz}.dtype.f16  =d: .dtype, a: f16 reg, b: f16 reg{, !c: pred};
  since 6.5

[set.int.bfloat] "Compare two bfloats into an integer: true is all ones."
set.cmp{.bool}.dtype.bf16  =d: .dtype, a: bf16 reg, b: bf16 reg{, !c: pred reg};
  since 7.8 on sm_90+
  MEASURED c is a register: ptxas takes 0 and 1 for other types, not for bf16

[set.half2] "Compare two packs of halves, each into its half of d."
set.cmp{.bool}{.ftz}.dtype.f16x2  =d: .dtype, a: f16x2 reg, b: f16x2 reg{, !c: pred};
  .dtype = { .f16x2, .u32 since 6.5, .s32 since 6.5 }

[set.bfloat2] "Compare two packs of bfloats, each into its half of d."
set.cmp{.bool}.dtype.bf16x2  =d: .dtype, a: bf16x2 reg, b: bf16x2 reg{, !c: pred reg};
  .dtype = { .bf16x2, .u32, .s32 }
  since 7.8 on sm_90+
  MEASURED c is a register: ptxas takes 0 and 1 for other types, not for bf16

end

[set.packed] "Compare four 8-bit or two 16-bit integers in packs: true is all ones."
set.cmp.type  =d: .type, a: .type reg, b: .type reg;
  .cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs }
  .type = { .u8x4, .s8x4, .u16x2, .s16x2 }
  check comparison_fits
  since 9.4 on sm_107f
  see comparison-and-selection-instructions-set

[slct.int] "a if c is not negative, otherwise b."
slct.type.s32  =d: .type, a: .type, b: .type, c: s32;
  see comparison-and-selection-instructions-slct

[slct.float] "a if c is not negative, otherwise b (NaN selects b, -0 selects a)."
slct{.ftz}.type.f32  =d: .type, a: .type, b: .type, c: f32;
  see comparison-and-selection-instructions-slct
"""

_ANY = {"eq", "ne"}
_SIGNED = _ANY | {"lt", "le", "gt", "ge"}
_UNSIGNED = _SIGNED | {"lo", "ls", "hi", "hs"}
_FLOAT = _SIGNED | {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}


def comparison_fits(chosen: dict[str, str]) -> str | None:
    """Refuse comparisons that the type does not have, and .ftz for other types than .f32."""
    if error := ftz_f32(chosen):
        return error
    kind = chosen["type"][0]
    allowed = {"b": _ANY, "s": _SIGNED, "u": _UNSIGNED, "f": _FLOAT}[kind]
    if chosen["cmp"] not in allowed:
        wanted = ", ".join("." + c for c in sorted(allowed))
        return f".{chosen['cmp']} does not exist for .{chosen['type']}; expected one of {wanted}"
    return None
