"""Data movement: mov, ld, st, cvta."""

TEXT = r"""
[mov] "Copy a register, an immediate, a special register, or the address of a variable."
mov.type  =d: .type, a: .type reg imm special symbol;
  .type = { .pred, .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }
  see data-movement-and-conversion-instructions-mov

[mov.b128] "Copy a 128-bit register."
mov.b128  =d: b128, a: b128 reg;
  since 8.3
  see data-movement-and-conversion-instructions-mov

[mov.pack.b16] "Pack two 8-bit registers; the first is the low part."
mov.b16  =d: b16, a: b8 x 2 reg;
  see data-movement-and-conversion-instructions-mov

[mov.pack.b32] "Pack two 16-bit registers; the first is the low part."
mov.b32  =d: b32, a: b16 x 2 reg;
  see data-movement-and-conversion-instructions-mov

[mov.pack.b32.v4] "Pack four 8-bit registers; the first is the low part."
mov.b32  =d: b32, a: b8 x 4 reg;
  see data-movement-and-conversion-instructions-mov

[mov.pack.b64] "Pack two 32-bit registers; the first is the low part."
mov.b64  =d: b64, a: b32 x 2 reg;
  see data-movement-and-conversion-instructions-mov

[mov.pack.b64.v4] "Pack four 16-bit registers; the first is the low part."
mov.b64  =d: b64, a: b16 x 4 reg;
  see data-movement-and-conversion-instructions-mov

[mov.pack.b128] "Pack two 64-bit registers; the first is the low part."
mov.b128  =d: b128, a: b64 x 2 reg;
  since 8.3
  see data-movement-and-conversion-instructions-mov

[mov.pack.b128.v4] "Pack four 32-bit registers; the first is the low part."
mov.b128  =d: b128, a: b32 x 4 reg;
  since 8.3
  see data-movement-and-conversion-instructions-mov

[mov.unpack.b16] "Unpack into two 8-bit registers, low part first; a part may be _."
mov.b16  =d: b8 x 2 reg sink, a: b16 reg;
  see data-movement-and-conversion-instructions-mov

[mov.unpack.b32] "Unpack into two 16-bit registers, low part first; a part may be _."
mov.b32  =d: b16 x 2 reg sink, a: b32 reg;
  see data-movement-and-conversion-instructions-mov

[mov.unpack.b32.v4] "Unpack into four 8-bit registers, low part first; a part may be _."
mov.b32  =d: b8 x 4 reg sink, a: b32 reg;
  see data-movement-and-conversion-instructions-mov

[mov.unpack.b64] "Unpack into two 32-bit registers, low part first; a part may be _."
mov.b64  =d: b32 x 2 reg sink, a: b64 reg;
  see data-movement-and-conversion-instructions-mov

[mov.unpack.b64.v4] "Unpack into four 16-bit registers, low part first; a part may be _."
mov.b64  =d: b16 x 4 reg sink, a: b64 reg;
  see data-movement-and-conversion-instructions-mov

[mov.unpack.b128] "Unpack into two 64-bit registers, low part first; a part may be _."
mov.b128  =d: b64 x 2 reg sink, a: b128 reg;
  since 8.3
  see data-movement-and-conversion-instructions-mov

[mov.unpack.b128.v4] "Unpack into four 32-bit registers, low part first; a part may be _."
mov.b128  =d: b32 x 4 reg sink, a: b128 reg;
  since 8.3
  see data-movement-and-conversion-instructions-mov

[ld] "Load; weak order."
ld{.weak}{.ss}{.cop}{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec, [a: addr .ss] {, cache-policy: b64 reg};
  .ss = { .const, .global, .local, .param, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cop = { .ca, .cg, .cs, .lu, .cv }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  check load
  see data-movement-and-conversion-instructions-ld

[ld.evict] "Load with an L1 eviction priority; weak order."
ld{.weak}{.ss}.level1{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec, [a: addr .ss] {, cache-policy: b64 reg};
  .ss = { .global }
  .level1 = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate }
  .cache = { .L2::cache_hint on sm_80+ }
  .prefetch = { .L2::64B, .L2::128B, .L2::256B on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  since 7.4
  check load
  see data-movement-and-conversion-instructions-ld

[ld.v256] "Load 32 bytes; weak order."
ld{.weak}{.ss}{.level1}{.level2}{.cache}{.prefetch}.vec.type  =d: .type+ x .vec, [a: addr .ss] {, cache-policy: b64 reg};
  .ss = { .global }
  .level1 = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate }
  .level2 = { .L2::evict_normal, .L2::evict_first, .L2::evict_last }
  .cache = { .L2::cache_hint }
  .prefetch = { .L2::64B, .L2::128B, .L2::256B }
  .vec = { .v4, .v8 }
  .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  since 8.8 on sm_100+
  check vector_of_256_bits
  see data-movement-and-conversion-instructions-ld

[ld.b128] "Load a 128-bit register; weak order."
ld{.weak}{.ss}{.cop}{.cache}{.prefetch}.b128  =d: b128, [a: addr .ss] {, cache-policy: b64 reg};
  .ss = { .const, .global, .local, .param, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cop = { .ca, .cg, .cs, .lu, .cv }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  .cache iff cache-policy
  since 8.3
  check load
  see data-movement-and-conversion-instructions-ld

[ld.param.where] "Load from a parameter of the kernel."
ld{.weak}.ss{.vec}.type  =d: .type+ x .vec, [a: addr .ss];
  .ss = { .param::entry }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  since 8.3
  check load
  NOT REGISTERED .param::func: it takes the name of a parameter of a device function only
  see data-movement-and-conversion-instructions-ld

[ld.volatile] "Load that the compiler may not remove, repeat or move."
ld.volatile{.ss}{.prefetch}{.vec}.type  =d: .type+ x .vec, [a: addr .ss];
  .ss = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  check load
  MEASURED .local needs PTX 9.1, .const and .param are refused
  see data-movement-and-conversion-instructions-ld

[ld.strong] "Load with acquire or relaxed order at a scope."
ld.sem.scope{.ss}{.level1}{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec, [a: addr .ss] {, cache-policy: b64 reg};
  .sem = { .relaxed, .acquire }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .ss = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .level1 = { .L1::evict_normal since 7.4, .L1::evict_unchanged since 7.4, .L1::evict_first since 7.4,
              .L1::evict_last since 7.4, .L1::no_allocate since 7.4 }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  check load
  see data-movement-and-conversion-instructions-ld

[ld.mmio] "Load of memory-mapped input and output: exactly one access."
ld.mmio.relaxed.sys{.ss}.type  =d: .type+, [a: addr .ss];
  .ss = { .global }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  since 8.2
  see data-movement-and-conversion-instructions-ld

[ld.nc] "Load through the non-coherent cache, from memory that nobody writes during the kernel."
ld.global{.cop}.nc{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec, [a: addr global] {, cache-policy: b64 reg};
  .cop = { .ca, .cg, .cs }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .prefetch = { .L2::64B since 7.4, .L2::128B since 7.4, .L2::256B since 7.4 on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  check load
  see data-movement-and-conversion-instructions-ld-global-nc

[ld.nc.evict] "Load through the non-coherent cache with an L1 eviction priority."
ld.global.nc.level1{.cache}{.prefetch}{.vec}.type  =d: .type+ x .vec, [a: addr global] {, cache-policy: b64 reg};
  .level1 = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate }
  .cache = { .L2::cache_hint on sm_80+ }
  .prefetch = { .L2::64B, .L2::128B, .L2::256B on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  since 7.4
  check load
  see data-movement-and-conversion-instructions-ld-global-nc

[ld.nc.v256] "Load 32 bytes through the non-coherent cache."
ld.global.nc{.level1}{.level2}{.cache}{.prefetch}.vec.type  =d: .type+ x .vec, [a: addr global] {, cache-policy: b64 reg};
  .level1 = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate }
  .level2 = { .L2::evict_normal, .L2::evict_first, .L2::evict_last }
  .cache = { .L2::cache_hint }
  .prefetch = { .L2::64B, .L2::128B, .L2::256B }
  .vec = { .v4, .v8 }
  .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  since 8.8 on sm_100+
  check vector_of_256_bits
  see data-movement-and-conversion-instructions-ld-global-nc

[ld.nc.b128] "Load a 128-bit register through the non-coherent cache."
ld.global{.cop}.nc{.cache}{.prefetch}.b128  =d: b128, [a: addr global] {, cache-policy: b64 reg};
  .cop = { .ca, .cg, .cs }
  .cache = { .L2::cache_hint on sm_80+ }
  .prefetch = { .L2::64B, .L2::128B, .L2::256B on sm_80+ }
  .cache iff cache-policy
  since 8.3
  see data-movement-and-conversion-instructions-ld-global-nc

[ldu] "Load read-only data whose address is the same in all lanes."
ldu{.ss}{.vec}.type  =d: .type+ x .vec, [a: addr .ss];
  .ss = { .global }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  check load
  see data-movement-and-conversion-instructions-ldu

[ldu.b128] "Load a 128-bit register of read-only data whose address is the same in all lanes."
ldu{.ss}.b128  =d: b128, [a: addr .ss];
  .ss = { .global }
  since 8.3
  see data-movement-and-conversion-instructions-ldu

[st] "Store; weak order."
st{.weak}{.ss}{.cop}{.cache}{.vec}.type  [a: addr .ss], b: .type+ x .vec {, cache-policy: b64 reg};
  .ss = { .global, .local, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cop = { .wb, .cg, .cs, .wt }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  check store
  see data-movement-and-conversion-instructions-st

[st.evict] "Store with an L1 eviction priority; weak order."
st{.weak}{.ss}.level1{.cache}{.vec}.type  [a: addr .ss], b: .type+ x .vec {, cache-policy: b64 reg};
  .ss = { .global }
  .level1 = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate }
  .cache = { .L2::cache_hint on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  since 7.4
  check store
  see data-movement-and-conversion-instructions-st

[st.v256] "Store 32 bytes; weak order."
st{.weak}{.ss}{.level1}{.level2}{.cache}.vec.type  [a: addr .ss], b: .type+ x .vec {, cache-policy: b64 reg};
  .ss = { .global }
  .level1 = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate }
  .level2 = { .L2::evict_normal, .L2::evict_first, .L2::evict_last }
  .cache = { .L2::cache_hint }
  .vec = { .v4, .v8 }
  .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  since 8.8 on sm_100+
  check vector_of_256_bits
  see data-movement-and-conversion-instructions-st

[st.b128] "Store a 128-bit register; weak order."
st{.weak}{.ss}{.cop}{.cache}.b128  [a: addr .ss], b: b128 reg {, cache-policy: b64 reg};
  .ss = { .global, .local, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .cop = { .wb, .cg, .cs, .wt }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .cache iff cache-policy
  since 8.3
  check store
  see data-movement-and-conversion-instructions-st

[st.volatile] "Store that the compiler may not remove, repeat or move."
st.volatile{.ss}{.vec}.type  [a: addr .ss], b: .type+ x .vec;
  .ss = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  check store
  MEASURED .local needs PTX 9.1
  see data-movement-and-conversion-instructions-st

[st.strong] "Store with release or relaxed order at a scope."
st.sem.scope{.ss}{.level1}{.cache}{.vec}.type  [a: addr .ss], b: .type+ x .vec {, cache-policy: b64 reg};
  .sem = { .relaxed, .release }
  .scope = { .cta, .cluster since 7.8 on sm_90+, .gpu, .sys }
  .ss = { .global, .shared, .shared::cta since 7.8, .shared::cluster since 7.8 on sm_90+ }
  .level1 = { .L1::evict_normal since 7.4, .L1::evict_unchanged since 7.4, .L1::evict_first since 7.4,
              .L1::evict_last since 7.4, .L1::no_allocate since 7.4 }
  .cache = { .L2::cache_hint since 7.4 on sm_80+ }
  .vec = { .v2, .v4 }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  .cache iff cache-policy
  check store
  see data-movement-and-conversion-instructions-st

[st.mmio] "Store to memory-mapped input and output: exactly one access."
st.mmio.relaxed.sys{.ss}.type  [a: addr .ss], b: .type+;
  .ss = { .global }
  .type = { .b8, .b16, .b32, .b64, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f32, .f64 }
  since 8.2
  see data-movement-and-conversion-instructions-st

[st.async] "Store to another CTA's shared memory, asynchronously; signals bytes on an mbarrier there."
st.async{.weak}{.shared::cluster}.completion{.vec}.type  [a: addr shared::cluster], b: .type x .vec, [mbar: addr shared::cluster];
  .completion = { .mbarrier::complete_tx::bytes }
  .vec = { .v2, .v4 }
  .type = { .b32, .b64, .u32, .u64, .s32, .s64, .f32, .f64 }
  since 8.1 on sm_90+
  check vector_at_most_128_bits
  MEASURED .completion may not be absent, as the manual's braces say
  see data-movement-and-conversion-instructions-st-async

[st.async.release] "Store to global memory asynchronously, with release order."
st.async{.mmio}.release.scope{.global}.type  [a: addr global], b: .type;
  .scope = { .gpu, .sys }
  .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }
  .mmio excludes .gpu
  since 8.7 on sm_100+
  NOT REGISTERED 8-bit types: ptxas wants registers of 8 bits
  see data-movement-and-conversion-instructions-st-async

[st.bulk] "Fill size bytes of shared memory, a multiple of 8, with zeroes, asynchronously."
st.bulk{.weak}{.space}  [a: addr .space], size: u64 reg imm 0..1048568/8, initval: u64 imm 0..0;
  .space = { .shared::cta }
  since 8.6 on sm_100+
  see data-movement-and-conversion-instructions-st-bulk

[st.bulk.u32] "Fill size bytes of shared memory, a multiple of 8, with zeroes, asynchronously; 32-bit size."
st.bulk{.weak}{.space}  [a: addr .space], size: u32 reg, initval: u64 imm 0..0;
  .space = { .shared::cta }
  since 9.0 on sm_100+
  see data-movement-and-conversion-instructions-st-bulk

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

_BITS = {"8": 8, "16": 16, "32": 32, "64": 64, "128": 128}


def _bits(chosen: dict[str, str]) -> int:
    return (int(chosen["vec"][1:]) if "vec" in chosen else 1) * _BITS[chosen.get("type", "b128")[1:]]


def vector_at_most_128_bits(chosen: dict[str, str]) -> str | None:
    """A vector access moves at most 16 bytes here."""
    bits = _bits(chosen)
    if bits > 128:
        return f".{chosen['vec']}.{chosen['type']} is {bits} bits; a vector has at most 128"
    return None


def vector_of_256_bits(chosen: dict[str, str]) -> str | None:
    bits = _bits(chosen)
    if bits != 256:
        return f".{chosen['vec']}.{chosen['type']} is {bits} bits; this form moves 256"
    return None


def load(chosen: dict[str, str]) -> str | None:
    """L2 is behind global memory (and generic addresses) only."""
    if chosen.get("ss", "global") != "global":
        for slot in ("cache", "prefetch", "level1"):
            if slot in chosen:
                return f".{chosen[slot]} applies to global memory, not to .{chosen['ss']}"
    return vector_at_most_128_bits(chosen)


store = load


def generic_is_64_bit(chosen: dict[str, str]) -> str | None:
    """With .address_size 64 generic addresses are 64 bits wide."""
    if chosen["size"] == "u32":
        return ".u32 addresses need .address_size 32; pyptx modules are 64-bit"
    return None
