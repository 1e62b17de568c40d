"""Integer arithmetic instructions."""

TEXT = r"""
.type = { .u16, .u32, .u64, .s16, .s32, .s64 }
.half = { .lo, .hi }

[add.int] "Add two integers; wraps unless .sat."
add{.sat}.type  =d: .type, a: .type, b: .type;
  check saturate_s32
  see integer-arithmetic-instructions-add

[sub.int] "Subtract two integers; wraps unless .sat."
sub{.sat}.type  =d: .type, a: .type, b: .type;
  check saturate_s32
  see integer-arithmetic-instructions-sub

[mul.int] "Multiply two integers and keep the low or the high half."
mul.half.type  =d: .type, a: .type, b: .type;
  see integer-arithmetic-instructions-mul

[mul.wide] "Multiply two integers into a product of twice their width."
mul.wide.type  =d: wide(.type), a: .type, b: .type;
  .type = { .u16, .u32, .s16, .s32 }
  see integer-arithmetic-instructions-mul

[mad.int] "Multiply two integers, keep the low or the high half of the product, and add c."
mad.half.type  =d: .type, a: .type, b: .type, c: .type;
  see integer-arithmetic-instructions-mad

[mad.wide] "Multiply two integers into a product of twice their width, and add c."
mad.wide.type  =d: wide(.type), a: .type, b: .type, c: wide(.type);
  .type = { .u16, .u32, .s16, .s32 }
  see integer-arithmetic-instructions-mad

[div.int] "Divide two integers, truncating toward zero; division by zero gives an unspecified value."
div.type  =d: .type, a: .type, b: .type;
  see integer-arithmetic-instructions-div

[rem.int] "Remainder of a truncating division; it has the sign of the dividend."
rem.type  =d: .type, a: .type, b: .type;
  see integer-arithmetic-instructions-rem

[neg.int] "Arithmetic negation."
neg.type  =d: .type, a: .type;
  .type = { .s16, .s32, .s64 }
  see integer-arithmetic-instructions-neg

[min.int] "The smaller of two integers."
min.type  =d: .type, a: .type, b: .type;
  see integer-arithmetic-instructions-min

[max.int] "The larger of two integers."
max.type  =d: .type, a: .type, b: .type;
  see integer-arithmetic-instructions-max

[add.packed16] "Add two packs of two 16-bit integers."
add.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u16x2, .s16x2 }
  since 8.0 on sm_90+
  see integer-arithmetic-instructions-add

[add.sat.u32] "Add two unsigned integers and saturate."
add.sat.u32  =d: u32, a: u32, b: u32;
  since 9.2 on sm_107f sm_120f
  see integer-arithmetic-instructions-add

[add.packed16.sat] "Add two packs of two 16-bit integers and saturate."
add.sat.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u16x2, .s16x2 }
  since 9.2 on sm_107f sm_120f
  see integer-arithmetic-instructions-add

[add.packed8] "Add two packs of four 8-bit integers; wraps unless .sat."
add{.sat}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u8x4, .s8x4 }
  since 9.2 on sm_107f sm_120f
  see integer-arithmetic-instructions-add

[sub.packed8] "Subtract two packs of four 8-bit integers; wraps unless .sat."
sub{.sat}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u8x4, .s8x4 }
  since 9.2 on sm_107f sm_120f
  see integer-arithmetic-instructions-sub

[neg.packed8] "Negate four 8-bit integers in a pack."
neg.s8x4  =d: s8x4, a: s8x4 reg;
  since 9.2 on sm_107f sm_120f
  see integer-arithmetic-instructions-neg

[clmad] "Multiply without carries, keep the low or the high 64 bits, and add c without carries."
clmad.half.u64  =d: u64, a: u64, b: u64, c: u64;
  since 9.3 on sm_80+
  see integer-arithmetic-instructions-clmad

[mad.sat] "Multiply two integers, keep the high half of the product, and add c with saturation."
mad.hi.sat.s32  =d: s32, a: s32, b: s32, c: s32;
  see integer-arithmetic-instructions-mad

[mul24] "Multiply two 24-bit integers and keep the low or the high 32 of 48 bits."
mul24.half.type  =d: .type, a: .type, b: .type;
  .half = { .hi, .lo }
  .type = { .u32, .s32 }
  see integer-arithmetic-instructions-mul24

[mad24] "Multiply two 24-bit integers, keep the low or the high 32 of 48 bits, and add c."
mad24.half.type  =d: .type, a: .type, b: .type, c: .type;
  .half = { .hi, .lo }
  .type = { .u32, .s32 }
  see integer-arithmetic-instructions-mad24

[mad24.sat] "Multiply two 24-bit integers, keep the high 32 of 48 bits, and add c with saturation."
mad24.hi.sat.s32  =d: s32, a: s32, b: s32, c: s32;
  see integer-arithmetic-instructions-mad24

[sad] "Add c and the absolute difference of a and b."
sad.type  =d: .type, a: .type, b: .type, c: .type;
  see integer-arithmetic-instructions-sad

[abs.int] "Absolute value; the smallest integer stays as it is."
abs.type  =d: .type, a: .type;
  .type = { .s16, .s32, .s64 }
  see integer-arithmetic-instructions-abs

[min.relu_s32] "The smaller of two integers, or zero if it is negative."
min.relu.s32  =d: s32, a: s32, b: s32;
  since 8.0 on sm_90+
  see integer-arithmetic-instructions-min

[min.packed16] "The smaller of each of two 16-bit integers in a pack; .relu makes negative results zero."
min{.relu}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u16x2, .s16x2 }
  since 8.0 on sm_90+
  check relu_signed
  see integer-arithmetic-instructions-min

[min.packed8] "The smaller of each of four 8-bit integers in a pack; .relu makes negative results zero."
min{.relu}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u8x4, .s8x4 }
  since 9.2 on sm_107f sm_120f
  check relu_signed
  see integer-arithmetic-instructions-min

[max.relu_s32] "The larger of two integers, or zero if it is negative."
max.relu.s32  =d: s32, a: s32, b: s32;
  since 8.0 on sm_90+
  see integer-arithmetic-instructions-max

[max.packed16] "The larger of each of two 16-bit integers in a pack; .relu makes negative results zero."
max{.relu}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u16x2, .s16x2 }
  since 8.0 on sm_90+
  check relu_signed
  see integer-arithmetic-instructions-max

[max.packed8] "The larger of each of four 8-bit integers in a pack; .relu makes negative results zero."
max{.relu}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u8x4, .s8x4 }
  since 9.2 on sm_107f sm_120f
  check relu_signed
  see integer-arithmetic-instructions-max

[popc] "Count the one bits."
popc.type  =d: u32, a: .type;
  .type = { .b32, .b64 }
  see integer-arithmetic-instructions-popc

[clz] "Count the leading zeros."
clz.type  =d: u32, a: .type;
  .type = { .b32, .b64 }
  see integer-arithmetic-instructions-clz

[bfind] "Position of the highest bit that differs from the sign; with .shiftamt, the left shift that moves it to the top."
bfind{.shiftamt}.type  =d: u32, a: .type;
  .type = { .u32, .u64, .s32, .s64 }
  see integer-arithmetic-instructions-bfind

[fns] "Position of the n-th set bit of mask, counted from base in the direction of offset's sign."
fns.b32  =d: b32, mask: b32, base: b32, offset: b32;
  see integer-arithmetic-instructions-fns

[brev] "Reverse the bits."
brev.type  =d: .type, a: .type;
  .type = { .b32, .b64 }
  see integer-arithmetic-instructions-brev

[bfe] "Extract c bits from position b, extended with zeros or with their sign."
bfe.type  =d: .type, a: .type, b: u32 0..255, c: u32 0..255;
  .type = { .u32, .u64, .s32, .s64 }
  see integer-arithmetic-instructions-bfe

[bfi] "Insert the low d bits of a into b at position c."
bfi.type  =f: .type, a: .type, b: .type, c: u32 0..255, d: u32 0..255;
  .type = { .b32, .b64 }
  see integer-arithmetic-instructions-bfi

[szext] "Extend the low b bits of a to the whole width, with zeros or with their sign."
szext.mode.type  =d: .type, a: .type, b: u32;
  .mode = { .clamp, .wrap }
  .type = { .u32, .s32 }
  since 7.6
  see integer-arithmetic-instructions-szext

[bmsk] "Make a mask of b ones that begins at bit a."
bmsk.mode.b32  =d: u32, a: u32, b: u32;
  .mode = { .clamp, .wrap }
  since 7.6
  see integer-arithmetic-instructions-bmsk

[dp4a] "Multiply four bytes of a with four bytes of b, and add the products to c."
dp4a.atype.btype  =d: u32, a: .atype, b: .btype, c: u32;
  .atype = { .u32, .s32 }
  .btype = { .u32, .s32 }
  see integer-arithmetic-instructions-dp4a

[dp2a] "Multiply the two halves of a with the low or the high two bytes of b, and add the products to c."
dp2a.half.atype.btype  =d: u32, a: .atype, b: .btype, c: u32;
  .atype = { .u32, .s32 }
  .btype = { .u32, .s32 }
  see integer-arithmetic-instructions-dp2a
"""


def saturate_s32(chosen: dict[str, str]) -> str | None:
    """Refuse .sat for other types than .s32."""
    if "sat" in chosen and chosen["type"] != "s32":
        return f".sat is only allowed with .s32, not with .{chosen['type']}"
    return None


def relu_signed(chosen: dict[str, str]) -> str | None:
    """Refuse .relu for unsigned types."""
    if "relu" in chosen and chosen["type"][0] != "s":
        return f".relu is only allowed with signed types, not with .{chosen['type']}"
    return None
