"""Data movement: mov, ld, st, cvta."""

TEXT = r"""
[mov] "Copy a register, an immediate, a special register, or the address of a variable."
mov.type  =d: .type, a: .type reg imm special symbol;
  .type = { .pred, .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }
  see data-movement-and-conversion-instructions-mov

[ld] "Load; weak order."
ld{.weak}{.ss}{.vec}.type  =d: .type+ x .vec, [a: addr .ss];
  .ss = { .const, .global, .local, .param, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  check vector_at_most_128_bits
  see data-movement-and-conversion-instructions-ld

[ld.strong] "Load with acquire or relaxed order at a scope."
ld.sem.scope{.ss}{.vec}.type  =d: .type+ x .vec, [a: addr .ss];
  .sem = { .relaxed, .acquire }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .ss = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  check vector_at_most_128_bits
  see data-movement-and-conversion-instructions-ld

[st] "Store; weak order."
st{.weak}{.ss}{.vec}.type  [a: addr .ss], b: .type+ x .vec;
  .ss = { .global, .local, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  check vector_at_most_128_bits
  see data-movement-and-conversion-instructions-st

[st.strong] "Store with release or relaxed order at a scope."
st.sem.scope{.ss}{.vec}.type  [a: addr .ss], b: .type+ x .vec;
  .sem = { .relaxed, .release }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .ss = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  check vector_at_most_128_bits
  see data-movement-and-conversion-instructions-st

[cvta] "Address of a state space to its generic address."
cvta.space.size  =p: .size, a: .size;
  .space = { .const, .global, .local, .shared, .shared::cta since 7.8, .param since 7.7 }
  .size = { .u32, .u64 }
  check generic_is_64_bit
  see data-movement-and-conversion-instructions-cvta

[cvta.to] "Generic address to the address in a state space."
cvta.to.space.size  =p: .size, a: .size;
  .space = { .const, .global, .local, .shared, .shared::cta since 7.8, .param since 7.7 }
  .size = { .u32, .u64 }
  check generic_is_64_bit
  see data-movement-and-conversion-instructions-cvta
"""

_BITS = {"8": 8, "16": 16, "32": 32, "64": 64}


def vector_at_most_128_bits(chosen: dict[str, str]) -> str | None:
    """A vector access moves at most 16 bytes here."""
    lanes = int(chosen["vec"][1:]) if "vec" in chosen else 1
    bits = _BITS[chosen["type"][1:]]
    if lanes * bits > 128:
        return f".{chosen['vec']}.{chosen['type']} is {lanes * bits} bits; a vector has at most 128"
    return None


def generic_is_64_bit(chosen: dict[str, str]) -> str | None:
    """With .address_size 64 generic addresses are 64 bits wide."""
    if chosen["size"] == "u32":
        return ".u32 addresses need .address_size 32; pyptx modules are 64-bit"
    return None
