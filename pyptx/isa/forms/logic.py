"""Logic and shift instructions."""

from .warp import predicate_is_written as predicate_is_written

TEXT = r"""
.type = { .pred, .b16, .b32, .b64 }
see logic-and-shift-instructions-<opcode>

[and] "Bitwise and."
[or] "Bitwise or."
[xor] "Bitwise exclusive or."
<opcode>.type  =d: .type, a: .type, b: .type;

[not] "Bitwise complement."
not.type  =d: .type, a: .type;

[shl] "Shift left; an amount larger than the width gives zero."
shl.type  =d: .type, a: .type, b: u32;
  .type = { .b16, .b32, .b64 }

[shr] "Shift right; signed types fill with the sign, also if the amount is larger than the width."
shr.type  =d: .type, a: .type, b: u32;
  .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64 }

[cnot] "1 if the operand is zero, otherwise 0."
cnot.type  =d: .type, a: .type;
  .type = { .b16, .b32, .b64 }

[lop3] "Any logical function of three values, given as a table of eight bits."
lop3.b32  =d: b32, a: b32, b: b32, c: b32, immLut: u32 imm 0..255;
  STRICTER immLut beyond 255, which ptxas cuts to eight bits

[lop3.bool] "Any logical function of three values, given as a table of eight bits; p combines q and whether any bit of d is set."
lop3.bool.b32  =d|p: b32, a: b32, b: b32, c: b32, immLut: u32 imm 0..255, !q: pred;
  .bool = { .or, .and }
  since 8.2
  check operands predicate_is_written
  MEASURED d may be a sink, q may be negated or 0 or 1

[shf] "Funnel shift: the upper (left) or lower (right) half of the pair [b, a] shifted by c."
shf.dir.mode.b32  =d: b32, a: b32, b: b32, c: u32;
  .dir = { .l, .r }
  .mode = { .clamp, .wrap }

[prmt] "Permute bytes: each result byte is one of the eight of [b, a], chosen by c."
prmt.b32{.mode}  =d: b32, a: b32, b: b32, c: b32;
  .mode = { .f4e, .b4e, .rc8, .ecl, .ecr, .rc16 }
  see data-movement-and-conversion-instructions-prmt
"""
