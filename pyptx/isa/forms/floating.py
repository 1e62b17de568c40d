"""Floating-point instructions."""

TEXT = r"""
.rnd = { .rn, .rz, .rm, .rp }
.type = { .f32, .f64 }

[add.f32] "Add two f32 values."
add{.rnd}{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32;
  see floating-point-instructions-add

[add.f64] "Add two f64 values."
add{.rnd}.f64  =d: f64, a: f64, b: f64;
  see floating-point-instructions-add

[sub.f32] "Subtract two f32 values."
sub{.rnd}{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32;
  see floating-point-instructions-sub

[sub.f64] "Subtract two f64 values."
sub{.rnd}.f64  =d: f64, a: f64, b: f64;
  see floating-point-instructions-sub

[mul.f32] "Multiply two f32 values."
mul{.rnd}{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32;
  see floating-point-instructions-mul

[mul.f64] "Multiply two f64 values."
mul{.rnd}.f64  =d: f64, a: f64, b: f64;
  see floating-point-instructions-mul

[fma.f32] "Fused multiply-add, one rounding."
fma.rnd{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32, c: f32;
  see floating-point-instructions-fma

[div.f32] "Divide two f32 values, correctly rounded."
div.rnd{.ftz}.f32  =d: f32, a: f32, b: f32;
  see floating-point-instructions-div

[div.f64] "Divide two f64 values, correctly rounded."
div.rnd.f64  =d: f64, a: f64, b: f64;
  see floating-point-instructions-div

[neg.float] "Negate a float."
neg{.ftz}.type  =d: .type, a: .type;
  check ftz_f32
  see floating-point-instructions-neg

[fma.f64] "Fused multiply-add, one rounding."
fma.rnd.f64  =d: f64, a: f64, b: f64, c: f64;
  see floating-point-instructions-fma

[mad.f32] "Multiply-add: the same as fma."
mad.rnd{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32, c: f32;
  NOT REGISTERED mad.f32 without a rounding: sm_1x only
  see floating-point-instructions-mad

[mad.f64] "Multiply-add: the same as fma."
mad.rnd.f64  =d: f64, a: f64, b: f64, c: f64;
  see floating-point-instructions-mad

[div.f32.fast] "Divide two f32: .approx is fast, .full is accurate over the full range."
div.how{.ftz}.f32  =d: f32, a: f32, b: f32;
  .how = { .approx, .full }
  see floating-point-instructions-div

[abs.float] "Absolute value of a float."
abs{.ftz}.type  =d: .type, a: .type;
  check ftz_f32
  see floating-point-instructions-abs

[min.f32] "The smaller of two f32. If one is NaN, the other one; with .NaN, NaN."
min{.ftz}{.NaN}{.xorsign.abs}.f32  =d: f32, a: f32, b: f32;
  .NaN since 7.0 on sm_80+
  .xorsign since 7.2 on sm_86+
  see floating-point-instructions-min

[min3.f32] "The smallest of three f32."
min{.ftz}{.NaN}{.abs}.f32  =d: f32, a: f32, b: f32, c: f32;
  since 8.8 on sm_100+
  see floating-point-instructions-min

[min.f64] "The smaller of two f64. If one is NaN, the other one."
min.f64  =d: f64, a: f64, b: f64;
  see floating-point-instructions-min

[max.f32] "The larger of two f32. If one is NaN, the other one; with .NaN, NaN."
max{.ftz}{.NaN}{.xorsign.abs}.f32  =d: f32, a: f32, b: f32;
  .NaN since 7.0 on sm_80+
  .xorsign since 7.2 on sm_86+
  see floating-point-instructions-max

[max3.f32] "The largest of three f32."
max{.ftz}{.NaN}{.abs}.f32  =d: f32, a: f32, b: f32, c: f32;
  since 8.8 on sm_100+
  see floating-point-instructions-max

[max.f64] "The larger of two f64. If one is NaN, the other one."
max.f64  =d: f64, a: f64, b: f64;
  see floating-point-instructions-max

[add.f32x2] "Add two packs of two f32."
add{.rnd}{.ftz}.f32x2  =d: f32x2, a: f32x2 reg, b: f32x2 reg;
  since 8.6 on sm_100+
  see floating-point-instructions-add

[sub.f32x2] "Subtract two packs of two f32."
sub{.rnd}{.ftz}.f32x2  =d: f32x2, a: f32x2 reg, b: f32x2 reg;
  since 8.6 on sm_100+
  see floating-point-instructions-sub

[mul.f32x2] "Multiply two packs of two f32."
mul{.rnd}{.ftz}.f32x2  =d: f32x2, a: f32x2 reg, b: f32x2 reg;
  since 8.6 on sm_100+
  see floating-point-instructions-mul

[fma.f32x2] "Fused multiply-add of two packs of two f32."
fma.rnd{.ftz}.f32x2  =d: f32x2, a: f32x2 reg, b: f32x2 reg, c: f32x2 reg;
  since 8.6 on sm_100+
  see floating-point-instructions-fma

[testp] "Test what kind of number a float is."
testp.op.type  =p: pred, a: .type;
  .op = { .finite, .infinite, .number, .notanumber, .normal, .subnormal }
  STRICTER ptxas takes testp.type without the tested property
  see floating-point-instructions-testp

[copysign] "The magnitude of b with the sign of a."
copysign.type  =d: .type, a: .type, b: .type;
  see floating-point-instructions-copysign
"""


def ftz_f32(chosen: dict[str, str]) -> str | None:
    """Refuse .ftz for other types than .f32."""
    if "ftz" in chosen and chosen["type"] != "f32":
        return f".ftz is only allowed with .f32, not with .{chosen['type']}"
    return None
