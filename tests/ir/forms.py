"""Pieces of PTX that ptxas accepts: one for each thing that the grammar can say."""

from __future__ import annotations

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


#: Pieces of PTX before 3.1, which cannot be assembled for linking, with an architecture that takes them.
OLD = {"old_debug_data": "sm_90", "constant_banks": "sm_90"}


def kernel(body: str, before: str = "") -> str:
    return f"{HEADER}{before}\n.visible .entry k(.param .u64 out)\n{{\n{body}\nret;\n}}\n"


_STORE = "ld.param.u64 %out, [out]; st.global.b32 [%out], %r;"
_R = ".reg .b32 %r; .reg .b64 %out; .reg .pred %p, %q; mov.b32 %r, 7;"

MODULES: dict[str, str] = {
    # --- modules and their variables
    "options": HEADER.replace("sm_90a", "sm_90a, texmode_independent") + ".entry k { ret; }",
    "no_address_size": ".version 9.0\n.target sm_90a\n.entry k { ret; }",
    "preprocessor": HEADER + '# 1 "file.c"\n.entry k { ret; }',
    "comments": HEADER + "/* a\n * b { */ .entry /**/ k { // }\n ret; }",
    "arrays": kernel(
        "", ".global .u32 a[2][3] = {{1, 2}, {3, 4, 5}}; .global .u32 b[] = {1, 2, 3}, c, d[4];"
    ),
    "vectors": kernel("", ".global .v4 .f32 v; .const .v2 .u16 w[3]; .shared .align 16 .v4 .b32 s;"),
    "linkage": kernel(
        "", ".visible .global .u32 a; .weak .const .u8 b; .common .global .u32 c; .extern .global .f32 d;"
    ),
    "floats": kernel(
        "", ".global .f32 f[4] = {1.5e3, -0.5, 0f7FC00001, 0fFFC00000}; .global .f64 g = 0d7FF8000000000001;"
    ),
    "expressions": kernel(
        "", ".global .u32 a = (1+2)*3 << 2 | (4 > 3 ? 1 : 0), b = 017, c = 0b101, d = ~0xF0U & 255;"
    ),
    "symbols": kernel(
        "", ".global .u32 a[9]; .global .u64 b = a+4, c = generic(a)+8, d[2] = {a, generic(a)};"
    ),
    "masks": kernel("", ".global .u32 a; .global .u8 m[3] = {0xff(a), 0xff00(a), 7};"),
    "negative_offset": kernel("", ".global .u32 a[9]; .global .u64 b = a+-4;"),
    "unsigned_operators": kernel(
        "",
        ".global .u64 a = ~0 > 0, b = -7 % 3, c = (-1 | 0) > 0, d = -1 > 0U, e = 1 << 63, f = -9223372036854775808;",
    ),
    "ranges_of_variables": kernel(_R + "ld.global.b32 %r, [a1];" + _STORE, ".global .u32 a<3>;"),
    "attribute_first": kernel("", ".attribute(.managed) .global .u32 a;"),
    "managed": kernel("", ".global .attribute(.managed) .s32 g, h;"),
    "textures": kernel("", ".global .texref t; .global .surfref s;"),
    "sampler": HEADER.replace("sm_90a", "sm_90a, texmode_independent")
    + ".global .samplerref s = { addr_mode_0 = wrap, filter_mode = nearest }; .entry k { ret; }",
    "functions_first": HEADER + ".func f() { ret; } .func g(); .global .u64 t[2] = {f, g}; .func g() { ret; }"
    ".entry k() { .reg .u64 %a; ld.global.u64 %a, [t]; P: .callprototype _ (); call %a, (), P; ret; }",
    "alias": HEADER + ".func g(); .func f() { ret; } .entry k() { call g; ret; } .alias g, f;",
    "prototypes_without_end": HEADER + ".extern .func f(.param .b32 a)\n.extern .func (.param .b32 r) g\n"
    ".global .u32 v; .extern .func h()\n.entry k() { ret; }",
    "old_debug_data": ".version 1.4\n.target sm_13\n.entry k(.param .u32 x) { exit; }\n"
    '@@DWARF .section .debug_pubnames, "", @progbits\n@@DWARF\t.byte 0x2b, 1 // a comment\n',
    "constant_banks": ".version 2.1\n.target sm_20\n.extern .const[2] .b8 a[]; .const[0] .b32 b = 3;\n"
    ".entry k(.param .u64 o) { .reg .u32 %r; .reg .u64 %o; ld.const[2].u32 %r, [a]; ld.param.u64 %o, [o];"
    "st.global.u32 [%o], %r; ld.const[0].u32 %r, [b]; st.global.u32 [%o+4], %r; exit; }",
    "section": HEADER + '.file 1 "a.cu", 123, 456\n.entry k() { .loc 1 2 3 L: ret; }\n'
    ".section .debug_foo { .b8 1,2 .b32 3 l: .b32 l+4 .b64 L .b32 .debug_foo .b32 -1 }",
    # --- functions
    "register_parameters": HEADER + ".func (.reg .u32 rv) f (.reg .u32 n) { mov.u32 rv, n; ret; }"
    ".entry k(.param .u64 out) { .reg .u32 %r; .reg .u64 %out; call (%r), f, (3);" + _STORE + "ret; }",
    "array_parameters": HEADER
    + ".func (.param .align 8 .b8 r[16]) f (.param .align 8 .b8 a[24], .param .f32 b)"
    "{ .reg .b64 %x; ld.param.b64 %x, [a+8]; st.param.b64 [r+8], %x; ret; } .entry k() { ret; }",
    "pointers": HEADER + ".entry k(.param .u64 .ptr .global .align 16 a, .param .align 64 .b8 b[128],"
    " .param .u64 .ptr c) { ret; }",
    "directives": HEADER + '.entry k() .maxntid 32, 2 .minnctapersm 2 .pragma "nounroll"; { ret; }'
    ".entry l() .reqntid 64 .reqnctapercluster 2, 1, 1 .explicitcluster .maxnreg 64 { ret; }"
    ".entry m() .maxclusterrank 4 { ret; }",
    "noreturn": HEADER
    + ".func f() .noreturn { trap; } .extern .func g(.param .b32 a) .noreturn; .entry k() { call f; }",
    "unified": HEADER + ".func .attribute(.unified(1, 2)) f() { ret; } .entry k() { ret; }",
    # --- statements
    "scopes": kernel(
        _R + ".reg .b32 p; mov.b32 p, 3; { .reg .b32 p; mov.b32 p, 4; L: setp.eq.b32 %p, p, 5; @%p bra L;"
        "{ .reg .b32 %r; mov.b32 %r, p; } add.u32 %r, %r, p; } { L: @!%p bra L; } add.u32 %r, %r, p;" + _STORE
    ),
    "scoped_variables": kernel(
        _R
        + "{ .shared .b32 x; mov.b32 %r, x; st.shared.b32 [x], %r; } { .local .b32 x[4]; st.local.b32 [x+4], %r;"
        "ld.local.b32 %r, [x+4]; } add.u32 %r, %r, 1; ld.global.b32 %r, [x];" + _STORE,
        ".global .b32 x = 1;",
    ),
    "ranges": kernel(
        _R + ".reg .b32 a<3>, b<20>; mov.b32 a1, 5; mov.b32 b15, a1; add.u32 %r, %r, b15;" + _STORE
    ),
    "special_names": kernel(
        _R + ".reg .b32 laneid; mov.b32 laneid, %laneid; add.u32 %r, laneid, WARP_SZ;" + _STORE
    ),
    "special_names_in_scopes": kernel(
        _R
        + ".reg .b32 %s; { .reg .b32 %laneid, %tid; mov.b32 %laneid, 3; setp.eq.b32 %p, %laneid, %r; @%p add.u32 %r, %laneid, 1; }"
        "mov.u32 %s, %laneid; add.u32 %r, %r, %s; mov.u32 %s, %tid.x; add.u32 %r, %r, %s; { .reg .pred %laneid; setp.ne.b32 %laneid, %r, 1;"
        "@%laneid mov.b32 %r, %tid .y; }" + _STORE
    ),
    "forward_labels": kernel(_R + "{ bra.uni END; } mov.b32 %r, 1; END:" + _STORE),
    "branch_targets": kernel(_R + "T: .branchtargets A, B; brx.idx %r, T; A: mov.b32 %r, 1; B:" + _STORE),
    "call_targets": kernel(
        ".reg .u64 %a; .reg .b32 %r; mov.u64 %a, f; { .param .b32 x; st.param.b32 [x+0], 4;"
        "C: .calltargets f, g; call %a, (x), C; }",
        ".func f(.param .b32 x) { trap; ret; } .func g(.param .b32 x) { ret; }",
    ),
    "locations": kernel(".loc 1 2 3\n.loc 1 4 5, function_name N, inlined_at 1 2 3\n", '.file 1 "a.cu"')
    + ".section .debug_str { N: .b8 97, 0 }",
    "location_in_section": kernel(
        ".loc 1 2 3\n.loc 1 4 5, function_name .debug_str+2, inlined_at 1 2 3\n", '.file 1 "a.cu"'
    )
    + ".section .debug_str { .b8 97, 0, 98, 0 }",
    "target_ranges": kernel(
        _R + "T: .branchtargets A<2>, B; brx.idx %r, T; A0: mov.b32 %r, 1; A1: mov.b32 %r, 2; B:" + _STORE
    ),
    "pragma": kernel(_R + '.pragma "nounroll"; L: setp.eq.b32 %p, %r, 5; @%p bra L;'),
    # --- operands
    "immediates": kernel(
        _R
        + "mad.lo.s32 %r, %r, -5, (1+2)*3U; and.b32 %r, %r, 0xFFFFFFF0; xor.b32 %r, %r, 4294967295;"
        + _STORE
    ),
    "floats_in_code": kernel(
        _R + ".reg .f32 %f<3>; .reg .f64 %d; ld.param.f32 %f0, [out]; fma.rn.f32 %f1, %f0, 0f3FC00000, .5;"
        "min.f32 %f1, %f1, 0f7FC12345; add.f32 %f1, %f1, -1.5; mov.b32 %r, %f1; mov.f64 %d, -1.5e-3;" + _STORE
    ),
    "pairs": kernel(
        _R
        + "setp.ne.and.s32 %p|%q, %r, 3, !%p; shfl.sync.bfly.b32 %r|%p, %r, 1, 31, -1; @%q mov.b32 %r, 1;"
        + _STORE
    ),
    "sink": kernel(
        _R + ".reg .b32 %x; elect.sync _|%p, -1; mov.b64 {%r, _}, %clock64; selp.b32 %r, %r, 1, %p;" + _STORE
    ),
    "vector_registers": kernel(
        _R + ".reg .v2 .b32 %v; mov.b32 %v.x, %r; mov.b32 %v.y, 2; add.u32 %r, %v.x, %v.y;" + _STORE
    ),
    "video": kernel(_R + "vmad.s32.s32.u32 %r, %r.b0, %r.h1, -%r;" + _STORE),
    "spaces_in_names": kernel(
        _R + "mov .u32 %r, %ctaid.x; @ %p mov . u32 %r, 1;".replace(". u32", ".u32") + _STORE
    ),
    "addresses": kernel(
        _R
        + ".shared .align 16 .b32 s[9]; ld.shared.b32 %r, [s+4*2]; ld.shared.b32 %r, [s+4+8]; ld.local.b32 %r, [8];"
        "ld.param.u64 %out, [out]; ld.global.v2.b32 {%r, _}, [%out+-8]; ld.global.b32 %r, [%out].unified;"
        + _STORE
    ),
    "tensor_coordinates": kernel(
        _R + ".shared .align 128 .b8 s[128]; .shared .b64 bar; ld.param.u64 %out, [out];"
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [%out, {%r, 0}], [bar];"
    ),
    "texture_operands": kernel(
        _R + ".reg .b64 %t; .reg .f32 %f<5>; ld.param.u64 %t, [out]; mov.f32 %f0, 0f00000000;"
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%t, {%f0, %f0}]; tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%t, {%r}];"
        "mov.b32 %r, %f1; ld.param.u64 %out, [out];" + _STORE
    ),
    "register_sums": kernel(
        _R
        + ".reg .b64 %a; add.u32 %r, %r, %r+4; mov.u32 %r, %r+(2*3)-1; setp.lt.u32 %p, %r+-4, 5; @%p mov.u32 %r, %r+0;"
        "ld.param.u64 %out, [out]; mov.u64 %a, %out+8; st.global.b32 [%a], %r+1;"
    ),
    "array_elements": kernel(
        _R
        + "ld.global.b32 %r, g[1+2]; st.global.b32 g[2], %r; ld.global.b32 %r, g[%r]; ld.global.b32 %r, g[%r+1];"
        ".reg .b64 %a; mov.u64 %a, g[3]; st.global.b64 [h], %a; st.shared.b32 s[1], %r;" + _STORE,
        ".global .b32 g[4]; .global .b64 h; .shared .b32 s[2];",
    ),
    "warp_size": kernel(
        _R
        + ".reg .b32 %s; add.u32 %r, %r, WARP_SZ*2; sub.u32 %r, %r, -WARP_SZ; ld.shared.b32 %s, [s+WARP_SZ];"
        "add.u32 %r, %r, %s; @%p add.u32 %r, %r, ~(WARP_SZ - 1);" + _STORE,
        ".shared .b32 s[WARP_SZ];",
    ),
    "texture_pairs": kernel(
        _R
        + ".reg .b64 %t; .reg .v4 .f32 %v; .reg .f32 %f<5>; ld.param.u64 %t, [out]; mov.f32 %f0, 0f00000000;"
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p, [%t, {%f0, %f0}]; @%p mov.b32 %r, %f1;"
        "tex.2d.v4.f32.f32 %v|%q, [%t, {%f0, %f0}], {1, 1}, %f1; @%q mov.b32 %r, %v.x; ld.param.u64 %out, [out];"
        + _STORE
    ),
    "symbol_offsets": kernel(
        _R
        + ".reg .u64 %a; mov.u64 %a, g+4; st.global.b32 [%a], %r; mov.u64 %a, g+-4; st.global.u64 [g], %a;",
        ".global .b32 g[4];",
    ),
}
