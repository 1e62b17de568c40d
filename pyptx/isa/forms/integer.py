"""Integer arithmetic instructions."""

TEXT = r"""
.type = { .u16, .u32, .u64, .s16, .s32, .s64 }
.half = { .lo, .hi }
see integer-arithmetic-instructions-<opcode>

[add.int] "Add two integers; wraps unless .sat."
[sub.int] "Subtract two integers; wraps unless .sat."
<opcode>{.sat}.type  =d: .type, a: .type, b: .type;
  check saturate_s32

[mul.int] "Multiply two integers and keep the low or the high half."
mul.half.type  =d: .type, a: .type, b: .type;

[mul.wide] "Multiply two integers into a product of twice their width."
mul.wide.type  =d: wide(.type), a: .type, b: .type;
  .type = { .u16, .u32, .s16, .s32 }

[mad.int] "Multiply two integers, keep the low or the high half of the product, and add c."
mad.half.type  =d: .type, a: .type, b: .type, c: .type;

[mad.wide] "Multiply two integers into a product of twice their width, and add c."
mad.wide.type  =d: wide(.type), a: .type, b: .type, c: wide(.type);
  .type = { .u16, .u32, .s16, .s32 }

[div.int] "Divide two integers, truncating toward zero; division by zero gives an unspecified value."
[rem.int] "Remainder of a truncating division; it has the sign of the dividend."
[min.int] "The smaller of two integers."
[max.int] "The larger of two integers."
<opcode>.type  =d: .type, a: .type, b: .type;

[neg.int] "Arithmetic negation."
[abs.int] "Absolute value; the smallest integer stays as it is."
<opcode>.type  =d: .type, a: .type;
  .type = { .s16, .s32, .s64 }

[add.packed16] "Add two packs of two 16-bit integers."
add.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u16x2, .s16x2 }
  since 8.0 on sm_90+

[add.sat.u32] "Add two unsigned integers and saturate."
add.sat.u32  =d: u32, a: u32, b: u32;
  since 9.2 on sm_107f sm_120f

[add.packed16.sat] "Add two packs of two 16-bit integers and saturate."
add.sat.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u16x2, .s16x2 }
  since 9.2 on sm_107f sm_120f

[add.packed8] "Add two packs of four 8-bit integers; wraps unless .sat."
[sub.packed8] "Subtract two packs of four 8-bit integers; wraps unless .sat."
<opcode>{.sat}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u8x4, .s8x4 }
  since 9.2 on sm_107f sm_120f

[neg.packed8] "Negate four 8-bit integers in a pack."
neg.s8x4  =d: s8x4, a: s8x4 reg;
  since 9.2 on sm_107f sm_120f

[clmad] "Multiply without carries, keep the low or the high 64 bits, and add c without carries."
clmad.half.u64  =d: u64, a: u64, b: u64, c: u64;
  since 9.3 on sm_80+

[mad.sat] "Multiply two integers, keep the high half of the product, and add c with saturation."
mad.hi.sat.s32  =d: s32, a: s32, b: s32, c: s32;

[mul24] "Multiply two 24-bit integers and keep the low or the high 32 of 48 bits."
mul24.half.type  =d: .type, a: .type, b: .type;
  .half = { .hi, .lo }
  .type = { .u32, .s32 }

[mad24] "Multiply two 24-bit integers, keep the low or the high 32 of 48 bits, and add c."
mad24.half.type  =d: .type, a: .type, b: .type, c: .type;
  .half = { .hi, .lo }
  .type = { .u32, .s32 }

[mad24.sat] "Multiply two 24-bit integers, keep the high 32 of 48 bits, and add c with saturation."
mad24.hi.sat.s32  =d: s32, a: s32, b: s32, c: s32;

[sad] "Add c and the absolute difference of a and b."
sad.type  =d: .type, a: .type, b: .type, c: .type;

[min.relu_s32] "The smaller of two integers, or zero if it is negative."
[max.relu_s32] "The larger of two integers, or zero if it is negative."
<opcode>.relu.s32  =d: s32, a: s32, b: s32;
  since 8.0 on sm_90+

[min.packed16] "The smaller of each of two 16-bit integers in a pack; .relu makes negative results zero."
[max.packed16] "The larger of each of two 16-bit integers in a pack; .relu makes negative results zero."
<opcode>{.relu}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u16x2, .s16x2 }
  since 8.0 on sm_90+
  check relu_signed

[min.packed8] "The smaller of each of four 8-bit integers in a pack; .relu makes negative results zero."
[max.packed8] "The larger of each of four 8-bit integers in a pack; .relu makes negative results zero."
<opcode>{.relu}.type  =d: .type, a: .type reg, b: .type reg;
  .type = { .u8x4, .s8x4 }
  since 9.2 on sm_107f sm_120f
  check relu_signed

[popc] "Count the one bits."
[clz] "Count the leading zeros."
<opcode>.type  =d: u32, a: .type;
  .type = { .b32, .b64 }

[bfind] "Position of the highest bit that differs from the sign; with .shiftamt, the left shift that moves it to the top."
bfind{.shiftamt}.type  =d: u32, a: .type;
  .type = { .u32, .u64, .s32, .s64 }

[fns] "Position of the n-th set bit of mask, counted from base in the direction of offset's sign."
fns.b32  =d: b32, mask: b32, base: b32, offset: b32;

[brev] "Reverse the bits."
brev.type  =d: .type, a: .type;
  .type = { .b32, .b64 }

[bfe] "Extract c bits from position b, extended with zeros or with their sign."
bfe.type  =d: .type, a: .type, b: u32 0..255, c: u32 0..255;
  .type = { .u32, .u64, .s32, .s64 }

[bfi] "Insert the low d bits of a into b at position c."
bfi.type  =f: .type, a: .type, b: .type, c: u32 0..255, d: u32 0..255;
  .type = { .b32, .b64 }

[szext] "Extend the low b bits of a to the whole width, with zeros or with their sign."
szext.mode.type  =d: .type, a: .type, b: u32;
  .mode = { .clamp, .wrap }
  .type = { .u32, .s32 }
  since 7.6

[bmsk] "Make a mask of b ones that begins at bit a."
bmsk.mode.b32  =d: u32, a: u32, b: u32;
  .mode = { .clamp, .wrap }
  since 7.6

[dp4a] "Multiply four bytes of a with four bytes of b, and add the products to c."
dp4a.atype.btype  =d: u32, a: .atype, b: .btype, c: u32;
  .atype = { .u32, .s32 }
  .btype = { .u32, .s32 }

[dp2a] "Multiply the two halves of a with the low or the high two bytes of b, and add the products to c."
dp2a.half.atype.btype  =d: u32, a: .atype, b: .btype, c: u32;
  .atype = { .u32, .s32 }
  .btype = { .u32, .s32 }
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
