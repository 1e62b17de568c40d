"""Half-precision and mixed-precision floating-point instructions."""

TEXT = r"""
.type = { .f16, .f16x2 }
.rnd = { .rn, .rz, .rm, .rp }
.atype = { .e5m2x4, .e4m3x4, .e3m2x4, .e2m3x4, .e2m1x4, .e2m1p4x4, .ue8m0x4 }
.dtype = { .f16x2, .bf16x2 }
.cdtype = { .e5m2x4, .e4m3x4 }
see half-precision-floating-point-instructions-<opcode>

[add.half] "Add two halves, or two packs of two."
[sub.half] "Subtract two halves, or two packs of two."
[mul.half] "Multiply two halves, or two packs of two."
<opcode>{.rn}{.ftz}{.sat}.type  =d: .type, a: .type reg, b: .type reg;

[add.bfloat] "Add two bfloats, or two packs of two."
[sub.bfloat] "Subtract two bfloats, or two packs of two."
[mul.bfloat] "Multiply two bfloats, or two packs of two."
<opcode>{.rn}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .bf16, .bf16x2 }
  since 7.8 on sm_90+

[fma.half] "Fused multiply-add of halves; .relu makes negative results zero, .oob gives zero if an input is the out-of-bounds NaN."
fma.rn{.ftz}{.oob}{.sat}{.relu}.type  =d: .type, a: .type reg, b: .type reg, c: .type reg;
  .relu since 7.0 on sm_80+
  .oob since 8.1 on sm_90+
  .oob excludes .ftz
  .sat excludes .relu
  MEASURED ptxas takes .oob with .sat, which the manual does not list

[fma.bfloat] "Fused multiply-add of bfloats; .relu makes negative results zero."
fma.rn{.oob}{.relu}.type  =d: .type, a: .type reg, b: .type reg, c: .type reg;
  .type = { .bf16, .bf16x2 }
  since 7.0 on sm_80+
  .oob since 8.1 on sm_90+
  STRICTER ptxas takes .rz, .rm and .rp for .bf16x2 on some targets; the manual has only .rn

[neg.half] "Negate a half, or two in a pack."
neg{.ftz}.type  =d: .type, a: .type reg;

[neg.bfloat] "Negate a bfloat, or two in a pack."
neg.type  =d: .type, a: .type reg;
  .type = { .bf16, .bf16x2 }
  since 7.0 on sm_80+

[abs.half] "Absolute value of a half, or two in a pack."
abs{.ftz}.type  =d: .type, a: .type reg;
  since 6.5

[abs.bfloat] "Absolute value of a bfloat, or two in a pack."
abs.type  =d: .type, a: .type reg;
  .type = { .bf16, .bf16x2 }
  since 7.0 on sm_80+

[min.half] "The smaller of two halves, or of each of two in a pack."
[max.half] "The larger of two halves, or of each of two in a pack."
<opcode>{.ftz}{.NaN}{.xorsign.abs}.type  =d: .type, a: .type reg, b: .type reg;
  .xorsign since 7.2 on sm_86+
  since 7.0 on sm_80+

[min.bfloat] "The smaller of two bfloats, or of each of two in a pack."
[max.bfloat] "The larger of two bfloats, or of each of two in a pack."
<opcode>{.NaN}{.xorsign.abs}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .bf16, .bf16x2 }
  .xorsign since 7.2 on sm_86+
  since 7.0 on sm_80+

[add.mixed] "Add a half or bfloat to an f32."
[sub.mixed] "Subtract an f32 from a half or bfloat."
<opcode>{.rnd}{.sat}.f32.atype  =d: f32, a: .atype reg, c: f32;
  .atype = { .f16, .bf16 }
  since 8.6 on sm_100+
  see mixed-precision-floating-point-instructions-<opcode>

[fma.mixed] "Fused multiply-add of two halves or bfloats and an f32."
fma.rnd{.sat}.f32.abtype  =d: f32, a: .abtype reg, b: .abtype reg, c: f32;
  .abtype = { .f16, .bf16 }
  since 8.6 on sm_100+
  see mixed-precision-floating-point-instructions-fma

[add.mixed.packed] "Add f32 values to two halves or bfloats, both in packs."
[sub.mixed.packed] "Subtract f32 values from two halves or bfloats, both in packs."
<opcode>{.rnd}.f32x2.atype.f32x2  =d: f32x2, a: .atype reg, c: f32x2 reg;
  .atype = { .f16x2, .bf16x2 }
  since 9.4 on sm_107f
  see mixed-precision-floating-point-instructions-<opcode>

[add.narrow] "Add two packs of two f32 and round the results toward zero to halves or bfloats."
[sub.narrow] "Subtract two packs of two f32 and round the results toward zero to halves or bfloats."
[mul.narrow] "Multiply two packs of two f32 and round the results toward zero to halves or bfloats."
<opcode>.rz{.ftz}.dtype.f32x2.f32x2  =d: .dtype, a: f32x2 reg, c: f32x2 reg;
  .ftz iff .f16x2
  since 9.4 on sm_107f
  see mixed-precision-floating-point-instructions-<opcode>

[fma.mixed.packed] "Fused multiply-add of two halves or bfloats with two f32 each, all in packs."
fma.rnd.f32x2.atype.f32x2.f32x2  =d: f32x2, a: .atype reg, b: f32x2 reg, c: f32x2 reg;
  .atype = { .f16x2, .bf16x2 }
  since 9.4 on sm_107f
  see mixed-precision-floating-point-instructions-fma

[add.narrow8] "Add four narrow floats and four 8-bit floats, in packs."
[sub.narrow8] "Subtract four 8-bit floats from four narrow floats, in packs."
<opcode>{.rn}{.satfinite}.cdtype.atype  =d: .cdtype, a: .atype reg, c: .cdtype reg;
  since 9.4 on sm_100a sm_103a
  see alternate-floating-point-instructions-<opcode>

[mul.narrow8] "Multiply four narrow floats each into 8-bit floats, in packs."
mul{.rn}{.satfinite}.dtype.atype.ctype  =d: .dtype, a: .atype reg, c: .ctype reg;
  .dtype = { .e5m2x4, .e4m3x4 }
  .ctype = { .e5m2x4, .e4m3x4, .e3m2x4, .e2m3x4, .e2m1x4, .e2m1p4x4, .ue8m0x4 }
  since 9.4 on sm_100a sm_103a
  see alternate-floating-point-instructions-mul

[fma.narrow8] "Fused multiply-add of four narrow floats each and four 8-bit floats, in packs."
fma.rn{.satfinite}.cdtype.atype.btype  =d: .cdtype, a: .atype reg, b: .btype reg, c: .cdtype reg;
  .btype = { .e5m2x4, .e4m3x4, .e3m2x4, .e2m3x4, .e2m1x4, .e2m1p4x4, .ue8m0x4 }
  since 9.4 on sm_100a sm_103a
  see alternate-floating-point-instructions-fma
"""
