"""Video instructions: arithmetic on parts of registers, with saturation and a second operation."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Minus, Operand

TEXT = r"""
.dtype = { .u32, .s32 }
.atype = { .u32, .s32 }
.btype = { .u32, .s32 }
.op2 = { .add, .min, .max }
.mode = { .clamp, .wrap }
.cmp = { .eq, .ne, .lt, .le, .gt, .ge }
.op2 iff c
see scalar-video-instructions-<opcode>

[vadd] "Add two integers, optionally saturate, then optionally combine with c."
[vsub] "Subtract two integers, optionally saturate, then optionally combine with c."
[vabsdiff] "Absolute difference of two integers, optionally saturate, then optionally combine with c."
[vmin] "The smaller of two integers, optionally saturate, then optionally combine with c."
[vmax] "The larger of two integers, optionally saturate, then optionally combine with c."
<opcode>.dtype.atype.btype{.sat}{.op2}  =d: .dtype, a: .atype reg imm part, b: .btype reg imm part {, c: .dtype};
  see scalar-video-instructions-vadd-vsub-vabsdiff-vmin-vmax

[vadd.merge] "Add two integers, optionally saturate, and put the result into a part of c."
[vsub.merge] "Subtract two integers, optionally saturate, and put the result into a part of c."
[vabsdiff.merge] "Absolute difference of two integers, optionally saturate, and put the result into a part of c."
[vmin.merge] "The smaller of two integers, optionally saturate, and put the result into a part of c."
[vmax.merge] "The larger of two integers, optionally saturate, and put the result into a part of c."
<opcode>.dtype.atype.btype{.sat}  =d: .dtype part, a: .atype reg imm part, b: .btype reg imm part, c: .dtype;
  see scalar-video-instructions-vadd-vsub-vabsdiff-vmin-vmax

[vshl] "Shift left, optionally saturate, then optionally combine with c."
[vshr] "Shift right, optionally saturate, then optionally combine with c."
<opcode>.dtype.atype.u32{.sat}.mode{.op2}  =d: .dtype, a: .atype reg imm part, b: u32 reg imm part {, c: .dtype};
  see scalar-video-instructions-vshl-vshr

[vshl.merge] "Shift left, optionally saturate, and put the result into a part of c."
[vshr.merge] "Shift right, optionally saturate, and put the result into a part of c."
<opcode>.dtype.atype.u32{.sat}.mode  =d: .dtype part, a: .atype reg imm part, b: u32 reg imm part, c: .dtype;
  see scalar-video-instructions-vshl-vshr

[vmad] "Multiply, add c, shift right by .scale, optionally saturate."
vmad.dtype.atype.btype{.sat}{.scale}  =d: .dtype, a: .atype reg imm part minus, b: .btype reg imm part minus, c: .dtype reg imm minus;
  .scale = { .shr7, .shr15 }
  check operands one_negation

[vmad.po] "Multiply, add c and 1, shift right by .scale, optionally saturate."
vmad.dtype.atype.btype.po{.sat}{.scale}  =d: .dtype, a: .atype reg imm part, b: .btype reg imm part, c: .dtype;
  .scale = { .shr7, .shr15 }

[vset] "Compare two integers: 1 or 0, then optionally combine with c."
vset.atype.btype.cmp{.op2}  =d: u32, a: .atype reg imm part, b: .btype reg imm part {, c: u32};

[vset.merge] "Compare two integers and put 1 or 0 into a part of c."
vset.atype.btype.cmp  =d: u32 part, a: .atype reg imm part, b: .btype reg imm part, c: u32;

[vadd2] "Add two halves each; .add sums the results and c."
[vsub2] "Subtract two halves each; .add sums the results and c."
[vavrg2] "Average of two halves each; .add sums the results and c."
[vabsdiff2] "Absolute difference of two halves each; .add sums the results and c."
[vmin2] "The smaller of two halves each; .add sums the results and c."
[vmax2] "The larger of two halves each; .add sums the results and c."
<opcode>.dtype.atype.btype{.sat}{.add}  =d: .dtype reg mask2, a: .atype reg halves, b: .btype reg halves, c: .dtype reg;
  .sat excludes .add
  see simd-video-instructions-vadd2-vsub2-vavrg2-vabsdiff2-vmin2-vmax2

[vset2] "Compare two halves each: 1 or 0; .add sums the results and c."
vset2.atype.btype.cmp{.add}  =d: u32 reg mask2, a: .atype reg halves, b: .btype reg halves, c: u32 reg;
  see simd-video-instructions-vset2

[vadd4] "Add four bytes each; .add sums the results and c."
[vsub4] "Subtract four bytes each; .add sums the results and c."
[vavrg4] "Average of four bytes each; .add sums the results and c."
[vabsdiff4] "Absolute difference of four bytes each; .add sums the results and c."
[vmin4] "The smaller of four bytes each; .add sums the results and c."
[vmax4] "The larger of four bytes each; .add sums the results and c."
<opcode>.dtype.atype.btype{.sat}{.add}  =d: .dtype reg mask4, a: .atype reg bytes, b: .btype reg bytes, c: .dtype reg;
  .sat excludes .add
  see simd-video-instructions-vadd4-vsub4-vavrg4-vabsdiff4-vmin4-vmax4

[vset4] "Compare four bytes each: 1 or 0; .add sums the results and c."
vset4.atype.btype.cmp{.add}  =d: u32 reg mask4, a: .atype reg bytes, b: .btype reg bytes, c: u32 reg;
  see simd-video-instructions-vset4
"""


def one_negation(operands: Mapping[str, Operand]) -> str | None:
    """Refuse to negate both the product and c."""
    product = isinstance(operands["a"], Minus) != isinstance(operands["b"], Minus)
    if isinstance(operands["c"], Minus) and product:
        return "the product of a and b is negated, and so is c; only one of them may be"
    return None
