"""Floating-point instructions."""

TEXT = r"""
[add.f32] "Add two f32 values."
add{.rnd}{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-add

[add.f64] "Add two f64 values."
add{.rnd}.f64  =d: f64, a: f64, b: f64;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-add

[sub.f32] "Subtract two f32 values."
sub{.rnd}{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-sub

[sub.f64] "Subtract two f64 values."
sub{.rnd}.f64  =d: f64, a: f64, b: f64;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-sub

[mul.f32] "Multiply two f32 values."
mul{.rnd}{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-mul

[mul.f64] "Multiply two f64 values."
mul{.rnd}.f64  =d: f64, a: f64, b: f64;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-mul

[fma.f32] "Fused multiply-add, one rounding."
fma.rnd{.ftz}{.sat}.f32  =d: f32, a: f32, b: f32, c: f32;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-fma

[div.f32] "Divide two f32 values, correctly rounded."
div.rnd{.ftz}.f32  =d: f32, a: f32, b: f32;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-div

[div.f64] "Divide two f64 values, correctly rounded."
div.rnd.f64  =d: f64, a: f64, b: f64;
  .rnd = { .rn, .rz, .rm, .rp }
  see floating-point-instructions-div

[neg.float] "Negate."
neg{.ftz}.type  =d: .type, a: .type;
  .type = { .f32, .f64 }
  check ftz_f32
  see floating-point-instructions-neg
"""


def ftz_f32(chosen: dict[str, str]) -> str | None:
    """.ftz is for .f32 alone."""
    if "ftz" in chosen and chosen["type"] != "f32":
        return f".ftz applies only to .f32, not to .{chosen['type']}"
    return None
