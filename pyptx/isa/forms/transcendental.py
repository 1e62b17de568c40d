"""Roots, reciprocals and transcendental functions."""

TEXT = r"""
.rnd = { .rn, .rz, .rm, .rp }
see floating-point-instructions-<opcode>

[rcp.f32] "Reciprocal, correctly rounded."
[sqrt.f32] "Square root, correctly rounded."
<opcode>.rnd{.ftz}.f32  =d: f32, a: f32;

[rcp.approx.f32] "Reciprocal, approximate."
[sqrt.approx.f32] "Square root, approximate."
[rsqrt.f32] "Reciprocal of the square root, approximate."
[sin.f32] "Sine, approximate."
[cos.f32] "Cosine, approximate."
[lg2.f32] "Logarithm to base 2, approximate."
[ex2.f32] "2 to the power of a, approximate."
<opcode>.approx{.ftz}.f32  =d: f32, a: f32;

[rcp.f64] "Reciprocal, correctly rounded."
rcp.rnd.f64  =d: f64, a: f64;
  STRICTER ptxas takes .ftz with a rounding, which the manual does not have

[sqrt.f64] "Square root, correctly rounded."
sqrt.rnd.f64  =d: f64, a: f64;

[rcp.approx.f64] "Reciprocal of the upper half of an f64, approximate."
rcp.approx.ftz.f64  =d: f64, a: f64;
  see floating-point-instructions-rcp-approx-ftz-f64

[rsqrt.f64] "Reciprocal of the square root, approximate; .ftz reads only the upper half of a."
rsqrt.approx{.ftz}.f64  =d: f64, a: f64;

[tanh.f32] "Hyperbolic tangent, approximate."
tanh.approx.f32  =d: f32, a: f32;
  since 7.0

[ex2.half] "2 to the power of a half, or of two in a pack."
ex2.approx.type  =d: .type, a: .type reg;
  .type = { .f16, .f16x2 }
  since 7.0

[ex2.bfloat] "2 to the power of a bfloat, or of two in a pack."
ex2.approx.ftz.type  =d: .type, a: .type reg;
  .type = { .bf16, .bf16x2 }
  since 7.8 on sm_90+

[tanh.half] "Hyperbolic tangent of a half or bfloat, or of two in a pack."
tanh.approx.type  =d: .type, a: .type reg;
  .type = { .f16, .f16x2, .bf16 since 7.8 on sm_90+, .bf16x2 since 7.8 on sm_90+ }
  since 7.0
"""
