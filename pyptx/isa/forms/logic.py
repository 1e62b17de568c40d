"""Logic and shift instructions."""

TEXT = r"""
[and] "Bitwise and."
and.type  =d: .type, a: .type, b: .type;
  .type = { .pred, .b16, .b32, .b64 }
  see logic-and-shift-instructions-and

[or] "Bitwise or."
or.type  =d: .type, a: .type, b: .type;
  .type = { .pred, .b16, .b32, .b64 }
  see logic-and-shift-instructions-or

[xor] "Bitwise exclusive or."
xor.type  =d: .type, a: .type, b: .type;
  .type = { .pred, .b16, .b32, .b64 }
  see logic-and-shift-instructions-xor

[not] "Bitwise complement."
not.type  =d: .type, a: .type;
  .type = { .pred, .b16, .b32, .b64 }
  see logic-and-shift-instructions-not

[shl] "Shift left; an amount beyond the width gives zero."
shl.type  =d: .type, a: .type, b: u32;
  .type = { .b16, .b32, .b64 }
  see logic-and-shift-instructions-shl

[shr] "Shift right; signed types replicate the sign, and an amount beyond the width fills with it."
shr.type  =d: .type, a: .type, b: u32;
  .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64 }
  see logic-and-shift-instructions-shr
"""
