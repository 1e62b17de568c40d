"""Data movement: mov, ld, st, cvta."""

from collections.abc import Mapping

from ...ir import Address, Operand, Register
from ..rules import vector_at_most_128_bits, vector_bits

TEXT = r"""
.type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
.vec = { .v2, .v4 }
.ss = { .global }
.cop = { .ca, .cg, .cs, .lu, .cv }
.cache = { .L2::cache_hint on sm_80+ }
.prefetch = { .L2::64B, .L2::128B, .L2::256B on sm_80+ }
.level1 = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate }
.level2 = { .L2::evict_normal, .L2::evict_first, .L2::evict_last }
.sem = { .relaxed, .acquire }
.cache iff cache-policy
see data-movement-and-conversion-instructions-<opcode>

[mov] "Copy a register, an immediate, a special register, or the address of a variable."
mov.type  =d: .type, a: .type reg imm special symbol;
  .type = { .pred, .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }

[mov.vec] "Copy a vector register, or the elements of a vector."
mov.vec.type  =d: by reg sink, a: by reg imm;
  .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }
  d by .vec.type = { .v2.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64 .type x 2, .v4.b16|.b32|.u16|.u32|.s16|.s32|.f32 .type x 4 }
  a by .vec.type = { .v2.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64 .type x 2, .v4.b16|.b32|.u16|.u32|.s16|.s32|.f32 .type x 4 }
  MEASURED a vector register has at most 128 bits
  NOT REGISTERED a special register as a whole, %tid, which ptxas takes for .v4

[mov.b128] "Copy a 128-bit register."
mov.b128  =d: b128, a: b128 reg;
  since 8.3

[mov.pack.b16] "Pack two 8-bit registers; the first is the low part."
mov.b16  =d: b16, a: b8 x 2 reg imm;

[mov.pack.b32] "Pack two 16-bit registers; the first is the low part."
mov.b32  =d: b32, a: b16 x 2 reg imm;

[mov.pack.b32.v4] "Pack four 8-bit registers; the first is the low part."
mov.b32  =d: b32, a: b8 x 4 reg imm;

[mov.pack.b64] "Pack two 32-bit registers; the first is the low part."
mov.b64  =d: b64, a: b32 x 2 reg imm;

[mov.pack.b64.v4] "Pack four 16-bit registers; the first is the low part."
mov.b64  =d: b64, a: b16 x 4 reg imm;

[mov.pack.b128] "Pack two 64-bit registers; the first is the low part."
mov.b128  =d: b128, a: b64 x 2 reg imm;
  since 8.3

[mov.pack.b128.v4] "Pack four 32-bit registers; the first is the low part."
mov.b128  =d: b128, a: b32 x 4 reg imm;
  since 8.3

[mov.unpack.b16] "Unpack into two 8-bit registers, low part first; a part may be _."
mov.b16  =d: b8 x 2 reg sink, a: b16 reg imm special;

[mov.unpack.b32] "Unpack into two 16-bit registers, low part first; a part may be _."
mov.b32  =d: b16 x 2 reg sink, a: b32 reg imm special;

[mov.unpack.b32.v4] "Unpack into four 8-bit registers, low part first; a part may be _."
mov.b32  =d: b8 x 4 reg sink, a: b32 reg imm special;

[mov.unpack.b64] "Unpack into two 32-bit registers, low part first; a part may be _."
mov.b64  =d: b32 x 2 reg sink, a: b64 reg imm special;

[mov.unpack.b64.v4] "Unpack into four 16-bit registers, low part first; a part may be _."
mov.b64  =d: b16 x 4 reg sink, a: b64 reg imm special;

[mov.unpack.b128] "Unpack into two 64-bit registers, low part first; a part may be _."
mov.b128  =d: b64 x 2 reg sink, a: b128 reg;
  since 8.3

[mov.unpack.b128.v4] "Unpack into four 32-bit registers, low part first; a part may be _."
mov.b128  =d: b32 x 4 reg sink, a: b128 reg;
  since 8.3

[ld] "Load; weak order."
ld{.weak}{.ss}{.cop}{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec braces, [a: addr .ss] {, cache-policy: u64 reg};
  .ss = { .const, .global, .local, .param, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  check load
  STRICTER .v8 of 8- and 16-bit types and _ in vectors of less than 256 bits, which ptxas takes

[ld.evict] "Load with an L1 eviction priority; weak order."
ld{.weak}{.ss}.level1{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec braces, [a: addr .ss unified] {, cache-policy: u64 reg};
  since 7.4
  check load

[ld.b128] "Load a 128-bit register; weak order."
ld{.weak}{.ss}{.cop}{.cache}{.prefetch}.b128  =d: b128, [a: addr .ss] {, cache-policy: u64 reg};
  .ss = { .const, .global, .local, .param, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  since 8.3
  check load

[ld.evict.b128] "Load a 128-bit register with an L1 eviction priority; weak order."
ld{.weak}{.ss}.level1{.cache}{.prefetch}.b128  =d: b128, [a: addr .ss unified] {, cache-policy: u64 reg};
  since 8.3

[ld.unified] "Load from a variable that is declared unified; weak order."
ld{.weak}{.ss}{.cop}{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec braces, [a: addr .ss unified] {, cache-policy: u64 reg};
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  check load
  STRICTER .unified on strong, volatile and non-coherent loads, which ptxas takes

[ld.unified.b128] "Load a 128-bit register from a variable that is declared unified; weak order."
ld{.weak}{.ss}{.cop}{.cache}{.prefetch}.b128  =d: b128, [a: addr .ss unified] {, cache-policy: u64 reg};
  since 8.3

[ld.param.where] "Load from a parameter of the kernel."
ld{.weak}.ss{.cop}{.vec}.type  =d: .type+ x .vec braces, [a: addr .ss];
  .ss = { .param::entry }
  since 8.3
  check load

[ld.param.where.b128] "Load a 128-bit register from a parameter of the kernel."
ld{.weak}.ss{.cop}.b128  =d: b128, [a: addr .ss];
  .ss = { .param::entry }
  since 8.3

[ld.param.func] "Load from a parameter of this function, or from the result of a call."
ld{.weak}.param::func{.cop}{.vec}.type  =d: .type+ x .vec braces, [a symbol param];
  since 8.3
  check load

[ld.param.func.b128] "Load 128 bits from a parameter of this function, or from the result of a call."
ld{.weak}.param::func{.cop}.b128  =d: b128, [a symbol param];
  since 8.3

[ld.volatile] "Load that the compiler may not remove, repeat or move."
ld.volatile{.ss}{.prefetch}{.vec}.type  =d: .type+ x .vec braces, [a: addr .ss];
  .ss = { .global, .local since 9.1, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  check load
  MEASURED .const and .param are refused

[ld.volatile.b128] "Load a 128-bit register; the compiler may not remove, repeat or move it."
ld.volatile{.ss}{.prefetch}.b128  =d: b128, [a: addr .ss];
  .ss = { .global, .local since 9.1, .shared, .shared::cta, .shared::cluster on sm_90+ }
  since 8.3
  check load

[ld.strong] "Load with acquire or relaxed order at a scope."
ld.sem.scope{.ss}{.level1}{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec braces, [a: addr .ss] {, cache-policy: u64 reg};
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .ss = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .level1 = { .L1::evict_normal since 7.4, .L1::evict_unchanged since 7.4, .L1::evict_first since 7.4,
              .L1::evict_last since 7.4, .L1::no_allocate since 7.4 }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  check load

[ld.strong.b128] "Load a 128-bit register with acquire or relaxed order at a scope."
ld.sem.scope{.ss}{.level1}{.cache}{.prefetch}.b128  =d: b128, [a: addr .ss] {, cache-policy: u64 reg};
  .scope = { .cta, .cluster on sm_90+, .gpu, .sys since 8.4 }
  .ss = { .global, .shared, .shared::cta, .shared::cluster on sm_90+ }
  since 8.3
  check load

[ld.mmio] "Load of memory-mapped input and output: exactly one access."
ld.mmio.sem.sys{.ss}.type  =d: .type+, [a: addr .ss];
  .sem = { .relaxed, .acquire since 9.3 }
  since 8.2

[ld.mmio.b128] "Load of 128 bits of memory-mapped input and output: exactly one access."
ld.mmio.sem.sys{.ss}.b128  =d: b128, [a: addr .ss];
  .sem = { .relaxed, .acquire since 9.3 }
  since 8.4

family ld.nc
  .cop = { .ca, .cg, .cs }
  see data-movement-and-conversion-instructions-ld-global-nc

[ld.nc] "Load through the non-coherent cache, from memory that no thread writes during the kernel."
ld.global{.cop}.nc{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec braces, [a: addr global] {, cache-policy: u64 reg};
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  check load

[ld.nc.evict] "Load through the non-coherent cache with an L1 eviction priority."
ld.global.nc.level1{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec braces, [a: addr global] {, cache-policy: u64 reg};
  since 7.4
  check load

[ld.nc.b128] "Load a 128-bit register through the non-coherent cache."
ld.global{.cop}.nc{.cache}{.prefetch}.b128  =d: b128, [a: addr global] {, cache-policy: u64 reg};
  since 8.3

[ld.nc.evict.b128] "Load a 128-bit register through the non-coherent cache with an L1 eviction priority."
ld.global.nc.level1{.cache}{.prefetch}.b128  =d: b128, [a: addr global] {, cache-policy: u64 reg};
  since 8.3

end

[ld.readonly] "Load through the read-only proxy, from memory that no thread writes during the kernel."
ld{.global}{.vec}.type.proxy::readonly  =d: .type+ x .vec braces, [a: addr global];
  since 9.4 on sm_90+
  check vector_at_most_128_bits

[ldu] "Load read-only data whose address is the same in all lanes."
ldu{.ss}{.vec}.type  =d: .type+ x .vec braces, [a: addr .ss];
  check load

[ldu.b128] "Load a 128-bit register of read-only data whose address is the same in all lanes."
ldu{.ss}.b128  =d: b128, [a: addr .ss];
  since 8.3

[st] "Store; weak order."
st{.weak}{.ss}{.cop}{.cache}{.vec}.type  [a: addr .ss], b: .type+ x .vec braces {, cache-policy: u64 reg};
  .ss = { .global, .local, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cop = { .wb, .cg, .cs, .wt }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  check store

[st.evict] "Store with an L1 eviction priority; weak order."
st{.weak}{.ss}.level1{.cache}{.vec}.type  [a: addr .ss], b: .type+ x .vec braces {, cache-policy: u64 reg};
  since 7.4
  check store

[st.b128] "Store a 128-bit register; weak order."
st{.weak}{.ss}{.cop}{.cache}.b128  [a: addr .ss], b: b128 reg {, cache-policy: u64 reg};
  .ss = { .global, .local, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cop = { .wb, .cg, .cs, .wt }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  since 8.3
  check store

[st.evict.b128] "Store a 128-bit register with an L1 eviction priority; weak order."
st{.weak}{.ss}.level1{.cache}.b128  [a: addr .ss], b: b128 reg {, cache-policy: u64 reg};
  since 8.3

[st.param] "Store an argument of a call, by its name."
st{.weak}.ss{.cop}{.vec}.type  [a symbol .ss], b: .type+ x .vec braces;
  .ss = { .param, .param::func since 8.3 }
  .cop = { .wb, .cg, .cs, .wt }
  check vector_at_most_128_bits
  STRICTER registers as addresses, which ptxas reads but then fails to assemble

[st.param.b128] "Store 128 bits of an argument of a call, by its name."
st{.weak}.ss{.cop}.b128  [a symbol .ss], b: b128 reg;
  .ss = { .param, .param::func }
  .cop = { .wb, .cg, .cs, .wt }
  since 8.3

[st.volatile] "Store that the compiler may not remove, repeat or move."
st.volatile{.ss}{.vec}.type  [a: addr .ss], b: .type+ x .vec braces;
  .ss = { .global, .local since 9.1, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  check store

[st.volatile.b128] "Store a 128-bit register; the compiler may not remove, repeat or move it."
st.volatile{.ss}.b128  [a: addr .ss], b: b128 reg;
  .ss = { .global, .local since 9.1, .shared, .shared::cta, .shared::cluster on sm_90+ }
  since 8.3

[st.strong] "Store with release or relaxed order at a scope."
st.sem.scope{.ss}{.level1}{.cache}{.vec}.type  [a: addr .ss], b: .type+ x .vec braces {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .ss = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .level1 = { .L1::evict_normal since 7.4, .L1::evict_unchanged since 7.4, .L1::evict_first since 7.4,
              .L1::evict_last since 7.4, .L1::no_allocate since 7.4 }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  check store

[st.strong.b128] "Store a 128-bit register with release or relaxed order at a scope."
st.sem.scope{.ss}{.level1}{.cache}.b128  [a: addr .ss], b: b128 reg {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }
  .scope = { .cta, .cluster on sm_90+, .gpu, .sys since 8.4 }
  .ss = { .global, .shared, .shared::cta, .shared::cluster on sm_90+ }
  since 8.3
  check store

[st.mmio] "Store to memory-mapped input and output: exactly one access."
st.mmio.sem.sys{.ss}.type  [a: addr .ss], b: .type+;
  .sem = { .relaxed, .release since 9.3 }
  since 8.2

[st.mmio.b128] "Store of 128 bits to memory-mapped input and output: exactly one access."
st.mmio.sem.sys{.ss}.b128  [a: addr .ss], b: b128 reg;
  .sem = { .relaxed, .release since 9.3 }
  since 8.4

[st.async] "Store to another CTA's shared memory, asynchronously; signals bytes on an mbarrier there."
st.async{.weak}{.shared::cluster}.completion{.vec}.type  [a: addr shared::cluster], b: .type x .vec, [mbar: addr shared::cluster];
  .completion = { .mbarrier::complete_tx::bytes }
  .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 }
  since 8.1 on sm_90+
  check vector_at_most_128_bits
  MEASURED .completion may not be absent, though the manual has it in braces
  see data-movement-and-conversion-instructions-st-async

[st.async.b128] "Store 16 bytes to another CTA's shared memory, asynchronously; signals bytes on an mbarrier there."
st.async{.weak}{.shared::cluster}.completion.b128  [a: addr shared::cluster], b: b128 reg, [mbar: addr shared::cluster];
  .completion = { .mbarrier::complete_tx::bytes }
  since 9.2 on sm_90+
  see data-movement-and-conversion-instructions-st-async

[st.async.release] "Store to global memory asynchronously, with release order."
st.async{.mmio}.release.scope{.global}.type  [a: addr global], b: .type;
  .scope = { .gpu, .sys }
  .mmio excludes .gpu
  since 8.7 on sm_100+
  see data-movement-and-conversion-instructions-st-async

[st.bulk] "Fill size bytes of shared memory, a multiple of 8, with zeroes, asynchronously."
st.bulk{.weak}{.space}  [a: addr .space], size: u64 reg imm 0..1048568/8, initval: u64 imm 0..0;
  .space = { .shared::cta }
  since 8.6 on sm_100+
  check operands address_in_a_register
  see data-movement-and-conversion-instructions-st-bulk
  MEASURED ptxas 13.5 fails on the name of a variable: Argument 1 of instruction 'add'

[st.bulk.u32] "Fill size bytes of shared memory, a multiple of 8, with zeroes, asynchronously; 32-bit size."
st.bulk{.weak}{.space}  [a: addr .space], size: u32 reg, initval: u64 imm 0..0;
  .space = { .shared::cta }
  since 9.0 on sm_100+
  check operands address_in_a_register
  see data-movement-and-conversion-instructions-st-bulk
  MEASURED ptxas 13.5 fails on the name of a variable: Argument 1 of instruction 'add'

family v256
  .vec = { .v4, .v8 }
  .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 }
  .cache = { .L2::cache_hint }
  .prefetch = { .L2::64B, .L2::128B, .L2::256B }
  .scope = { .cta, .cluster, .gpu, .sys }
  since 8.8 on sm_100+
  check vector_of_256_bits

[ld.v256] "Load 32 bytes; weak order."
ld{.weak}{.ss}{.level1}{.level2}{.cache}{.prefetch}.vec.type  =d: .type+ x .vec reg sink, [a: addr .ss unified] {, cache-policy: u64 reg};

[ld.cop.v256] "Load 32 bytes with a cache operator; weak order."
ld{.weak}{.ss}.cop{.cache}{.prefetch}.vec.type  =d: .type+ x .vec reg sink, [a: addr .ss unified] {, cache-policy: u64 reg};

[ld.volatile.v256] "Load 32 bytes; the compiler may not remove, repeat or move it."
ld.volatile{.ss}{.level2}{.prefetch}.vec.type  =d: .type+ x .vec reg sink, [a: addr .ss];

[ld.strong.v256] "Load 32 bytes with acquire or relaxed order at a scope."
ld.sem.scope{.ss}{.level1}{.level2}{.cache}{.prefetch}.vec.type  =d: .type+ x .vec reg sink, [a: addr .ss] {, cache-policy: u64 reg};

[ld.nc.v256] "Load 32 bytes through the non-coherent cache."
ld.global.nc{.level1}{.level2}{.cache}{.prefetch}.vec.type  =d: .type+ x .vec reg sink, [a: addr global] {, cache-policy: u64 reg};
  see data-movement-and-conversion-instructions-ld-global-nc

[ld.nc.cop.v256] "Load 32 bytes through the non-coherent cache with a cache operator."
ld.global.cop.nc{.cache}{.prefetch}.vec.type  =d: .type+ x .vec reg sink, [a: addr global] {, cache-policy: u64 reg};
  .cop = { .ca, .cg, .cs }
  see data-movement-and-conversion-instructions-ld-global-nc

[ld.readonly.v256] "Load 32 bytes through the read-only proxy."
ld{.global}.vec.type.proxy::readonly  =d: .type+ x .vec, [a: addr global];
  since 9.4 on sm_100+

[st.v256] "Store 32 bytes; weak order."
st{.weak}{.ss}{.level1}{.level2}{.cache}.vec.type  [a: addr .ss], b: .type+ x .vec reg imm sink {, cache-policy: u64 reg};

[st.cop.v256] "Store 32 bytes with a cache operator; weak order."
st{.weak}{.ss}.cop{.cache}.vec.type  [a: addr .ss], b: .type+ x .vec reg imm sink {, cache-policy: u64 reg};
  .cop = { .wb, .cg, .cs, .wt }

[st.volatile.v256] "Store 32 bytes; the compiler may not remove, repeat or move it."
st.volatile{.ss}{.level2}.vec.type  [a: addr .ss], b: .type+ x .vec reg imm sink;

[st.strong.v256] "Store 32 bytes with release or relaxed order at a scope."
st.sem.scope{.ss}{.level1}{.level2}{.cache}.vec.type  [a: addr .ss], b: .type+ x .vec reg imm sink {, cache-policy: u64 reg};
  .sem = { .relaxed, .release }

end

[cvta] "Convert an address in a state space to a generic address."
cvta.space.size  =p: .size, a: .size reg imm symbol .space;
  .space = { .const, .global, .local, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+, .param since 7.7, .param::entry since 8.3 }
  .size = { .u64 }

[cvta.to] "Convert a generic address to an address in a state space."
cvta.to.space.size  =p: .size, a: .size;
  .space = { .const, .global, .local, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+, .param since 7.7, .param::entry since 8.3 }
  .size = { .u64 }
"""


def vector_of_256_bits(chosen: dict[str, str]) -> str | None:
    """Refuse accesses of less or more than 256 bits."""
    bits = vector_bits(chosen)
    if bits != 256:
        return f".{chosen['vec']}.{chosen['type']} is {bits} bits; expected a vector of 256 bits"
    return None


def load(chosen: dict[str, str]) -> str | None:
    """Refuse cache modifiers outside global and generic space, and accesses of more than 128 bits."""
    if chosen.get("ss", "global") != "global":
        for slot in ("cache", "prefetch", "level1"):
            if slot in chosen:
                return f".{chosen[slot]} is only allowed for global memory, not for .{chosen['ss']}"
    return vector_at_most_128_bits(chosen)


store = load


def address_in_a_register(operands: Mapping[str, Operand]) -> str | None:
    """Refuse the name of a variable as the address."""
    given = operands["a"]
    if isinstance(given, Address) and isinstance(given.base, Register):
        return None
    return f"the address is {given}; expected a register: move the address of the variable into one"
