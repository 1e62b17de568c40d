"""Extended-precision integer arithmetic: the condition code CC carries between instructions."""

TEXT = r"""
.type = { .u32, .s32, .u64, .s64 }
see extended-precision-integer-arithmetic-instructions-<opcode>

[add.cc] "Add and write the carry flag."
add.cc.type  =d: .type, a: .type, b: .type;
  see extended-precision-integer-arithmetic-instructions-add-cc

[addc] "Add with the carry flag; .cc writes the new carry flag."
addc{.cc}.type  =d: .type, a: .type, b: .type;

[sub.cc] "Subtract and write the borrow to the carry flag."
sub.cc.type  =d: .type, a: .type, b: .type;
  see extended-precision-integer-arithmetic-instructions-sub-cc

[subc] "Subtract with the borrow in the carry flag; .cc writes the new one."
subc{.cc}.type  =d: .type, a: .type, b: .type;
  STRICTER ptxas takes .sat with .s32, which the manual does not have

[mad.cc] "Multiply, keep one half of the product, add c, and write the carry flag."
mad.half.cc.type  =d: .type, a: .type, b: .type, c: .type;
  .half = { .hi, .lo }
  see extended-precision-integer-arithmetic-instructions-mad-cc

[madc] "Multiply, keep one half of the product, add c and the carry flag; .cc writes the new carry flag."
madc.half{.cc}.type  =d: .type, a: .type, b: .type, c: .type;
  .half = { .hi, .lo }
  STRICTER ptxas takes madc.hi.sat.s32, which the manual does not have
"""
