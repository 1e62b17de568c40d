"""Integer arithmetic instructions."""

TEXT = r"""
[add.int] "Add two integers; wraps unless .sat."
add{.sat}.type  =d: .type, a: .type, b: .type;
  .type = { .u16, .u32, .u64, .s16, .s32, .s64 }
  check saturate_s32
  see integer-arithmetic-instructions-add

[sub.int] "Subtract two integers; wraps unless .sat."
sub{.sat}.type  =d: .type, a: .type, b: .type;
  .type = { .u16, .u32, .u64, .s16, .s32, .s64 }
  check saturate_s32
  see integer-arithmetic-instructions-sub

[mul.int] "Multiply two integers and keep the low or the high half."
mul.half.type  =d: .type, a: .type, b: .type;
  .half = { .lo, .hi }
  .type = { .u16, .u32, .u64, .s16, .s32, .s64 }
  see integer-arithmetic-instructions-mul

[mul.wide] "Multiply two integers into a product of twice their width."
mul.wide.type  =d: wide(.type), a: .type, b: .type;
  .type = { .u16, .u32, .s16, .s32 }
  see integer-arithmetic-instructions-mul

[mad.int] "Multiply, keep one half, add."
mad.half.type  =d: .type, a: .type, b: .type, c: .type;
  .half = { .lo, .hi }
  .type = { .u16, .u32, .u64, .s16, .s32, .s64 }
  see integer-arithmetic-instructions-mad

[mad.wide] "Multiply into twice the width, add."
mad.wide.type  =d: wide(.type), a: .type, b: .type, c: wide(.type);
  .type = { .u16, .u32, .s16, .s32 }
  see integer-arithmetic-instructions-mad

[div.int] "Divide two integers, truncating toward zero; division by zero gives an unspecified value."
div.type  =d: .type, a: .type, b: .type;
  .type = { .u16, .u32, .u64, .s16, .s32, .s64 }
  see integer-arithmetic-instructions-div

[rem.int] "Remainder of a truncating division; its sign is the dividend's."
rem.type  =d: .type, a: .type, b: .type;
  .type = { .u16, .u32, .u64, .s16, .s32, .s64 }
  see integer-arithmetic-instructions-rem

[neg.int] "Arithmetic negation."
neg.type  =d: .type, a: .type;
  .type = { .s16, .s32, .s64 }
  see integer-arithmetic-instructions-neg

[min.int] "The smaller of two integers."
min.type  =d: .type, a: .type, b: .type;
  .type = { .u16, .u32, .u64, .s16, .s32, .s64 }
  see integer-arithmetic-instructions-min

[max.int] "The larger of two integers."
max.type  =d: .type, a: .type, b: .type;
  .type = { .u16, .u32, .u64, .s16, .s32, .s64 }
  see integer-arithmetic-instructions-max
"""


def saturate_s32(chosen: dict[str, str]) -> str | None:
    """.sat is for .s32 alone."""
    if "sat" in chosen and chosen["type"] != "s32":
        return f".sat applies only to .s32, not to .{chosen['type']}"
    return None
