"""Floating-point instructions."""

from ..rules import ftz_f32 as ftz_f32

TEXT = r"""
.rnd = { .rn, .rz, .rm, .rp }
.type = { .f32, .f64 }
see floating-point-instructions-<opcode>

[add.f32] "Add two f32 values."
[sub.f32] "Subtract two f32 values."
[mul.f32] "Multiply two f32 values."
<opcode>{.rnd}{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32;

[add.f64] "Add two f64 values."
[sub.f64] "Subtract two f64 values."
[mul.f64] "Multiply two f64 values."
<opcode>{.rnd}.f64  =d: f64, a: f64, b: f64;

[fma.f32] "Fused multiply-add, one rounding."
fma.rnd{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32, c: f32;

[div.f32] "Divide two f32 values, correctly rounded."
div.rnd{.ftz}.f32  =d: f32, a: f32, b: f32;

[div.f64] "Divide two f64 values, correctly rounded."
div.rnd.f64  =d: f64, a: f64, b: f64;

[neg.float] "Negate a float."
[abs.float] "Absolute value of a float."
<opcode>{.ftz}.type  =d: .type, a: .type;
  check ftz_f32

[fma.f64] "Fused multiply-add, one rounding."
fma.rnd.f64  =d: f64, a: f64, b: f64, c: f64;

[mad.f32] "Multiply-add: the same as fma."
mad.rnd{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32, c: f32;
  NOT REGISTERED mad.f32 without a rounding: sm_1x only

[mad.f64] "Multiply-add: the same as fma."
mad.rnd.f64  =d: f64, a: f64, b: f64, c: f64;

[div.f32.fast] "Divide two f32: .approx is fast, .full is accurate over the full range."
div.how{.ftz}.f32  =d: f32, a: f32, b: f32;
  .how = { .approx, .full }

[min.f32] "The smaller of two f32. If one is NaN, the other one; with .NaN, NaN."
[max.f32] "The larger of two f32. If one is NaN, the other one; with .NaN, NaN."
<opcode>{.ftz}{.NaN}{.xorsign.abs}.f32  =d: f32, a: f32, b: f32;
  .NaN since 7.0 on sm_80+
  .xorsign since 7.2 on sm_86+

[min3.f32] "The smallest of three f32."
min{.ftz}{.NaN}{.abs}.f32  =d: f32, a: f32, b: f32, c: f32;
  since 8.8 on sm_100+
  see floating-point-instructions-min

[min.f64] "The smaller of two f64. If one is NaN, the other one."
[max.f64] "The larger of two f64. If one is NaN, the other one."
<opcode>.f64  =d: f64, a: f64, b: f64;

[max3.f32] "The largest of three f32."
max{.ftz}{.NaN}{.abs}.f32  =d: f32, a: f32, b: f32, c: f32;
  since 8.8 on sm_100+
  see floating-point-instructions-max

[add.f32x2] "Add two packs of two f32."
[sub.f32x2] "Subtract two packs of two f32."
[mul.f32x2] "Multiply two packs of two f32."
<opcode>{.rnd}{.ftz}.f32x2  =d: f32x2, a: f32x2 reg, b: f32x2 reg;
  since 8.6 on sm_100+

[fma.f32x2] "Fused multiply-add of two packs of two f32."
fma.rnd{.ftz}.f32x2  =d: f32x2, a: f32x2 reg, b: f32x2 reg, c: f32x2 reg;
  since 8.6 on sm_100+

[testp] "Test what kind of number a float is."
testp.op.type  =p: pred, a: .type;
  .op = { .finite, .infinite, .number, .notanumber, .normal, .subnormal }
  STRICTER ptxas takes testp.type without the tested property

[copysign] "The magnitude of b with the sign of a."
copysign.type  =d: .type, a: .type, b: .type;
"""
