"""Directives, attributes, pragmas and special registers held against ptxas: first version, targets, places."""

from __future__ import annotations

import pytest

from pyptx.core.errors import TargetError
from pyptx.core.types import TYPES
from pyptx.ir import Register, Special, parse_module
from pyptx.isa import Target, bind, check_target, required_version, target
from pyptx.isa.directives import ATTRIBUTES, DIRECTIVES, PRAGMAS, DirectiveRule
from pyptx.isa.special import SPECIAL_REGISTERS, SpecialRegister
from pyptx.isa.targets import KNOWN_TARGETS, VERSIONS, TargetSet, Version
from pyptx.toolchain import Tool, check_text

pytestmark = pytest.mark.one_in(2)

#: The rest of a module, behind .version, .target and .address_size, that uses each directive.
_USES = {
    "version": "",
    "target": "",
    "address_size": "",
    "entry": ".entry k() { ret; }",
    "func": ".func f() { ret; }",
    "alias": ".visible .func f() { ret; } .visible .func g(); .alias g, f;",
    "extern": ".extern .global .b32 g;",
    "visible": ".visible .entry k() { ret; }",
    "weak": ".weak .func f() { ret; }",
    "common": ".common .global .b32 g;",
    "attribute": ".global .attribute(.managed) .b32 g;",
    "align": ".global .align 8 .b32 g;",
    "ptr": ".entry k(.param .u64 .ptr .global .align 4 p) { ret; }",
    "reg": ".entry k() { .reg .u32 r; ret; }",
    "const": ".const .b32 g;",
    "global": ".global .b32 g;",
    "local": ".entry k() { .local .b32 l; ret; }",
    "param": ".entry k(.param .u64 p) { ret; }",
    "shared": ".shared .b32 g;",
    "tex": ".tex .u32 t;",
    "maxnreg": ".entry k() .maxnreg 32 { ret; }",
    "maxntid": ".entry k() .maxntid 32, 1, 1 { ret; }",
    "reqntid": ".entry k() .reqntid 32 { ret; }",
    "minnctapersm": ".entry k() .maxntid 32 .minnctapersm 2 { ret; }",
    "maxnctapersm": ".entry k() .maxntid 32 .maxnctapersm 2 { ret; }",
    "noreturn": ".func f() .noreturn { exit; }",
    "abi_preserve": ".func f() .abi_preserve 8 { ret; }",
    "abi_preserve_control": ".func f() .abi_preserve_control 8 { ret; }",
    "reqnctapercluster": ".entry k() .reqnctapercluster 2 { ret; }",
    "explicitcluster": ".entry k() .explicitcluster { ret; }",
    "maxclusterrank": ".entry k() .maxclusterrank 2 { ret; }",
    "blocksareclusters": ".entry k() .reqntid 32 .reqnctapercluster 2 .blocksareclusters { ret; }",
    "minperctamemory": ".entry k() .minperctamemory 2048 { ret; }",
    "language": '.entry k() .language "ptx" { ret; }',
    "pragma": '.pragma "nounroll";',
    "branchtargets": ".entry k() { .reg .u32 i; mov.u32 i, 0; t: .branchtargets a, b; brx.idx i, t; a: b: ret; }",
    "calltargets": ".func f() { ret; } .entry k() { .reg .u64 p; mov.u64 p, f; t: .calltargets f; call p, t; ret; }",
    "callprototype": ".func f() { ret; } .entry k() { .reg .u64 p; mov.u64 p, f; t: .callprototype _ (); call p, t; ret; }",
    "file": '.file 1 "a.cu"',
    "section": ".section .debug_abbrev { .b8 1, 0 }",
    "loc": '.entry k() { .loc 1 1 1\nret; }\n.file 1 "a.cu"',
    "loc_intermediate": '.entry k() { .loc 1 1 1\n.loc_intermediate 2 1 1\nret; }\n.file 1 "a.cu"\n.file 2 "a.ir"',
    "nv_intermediate_source_section": '.file 1 "a.ir"\n.nv_intermediate_source_section {\n.code_block {\n.ir_name: "TileIR"\n.sourceFileName: 1\n.source_begin\nx\n.source_end\n}\n}',
}
_ATTRIBUTES = {"managed": ".global .attribute(.managed) .b32 g;"}
_PRAGMAS = {
    "nounroll": '.entry k() { .pragma "nounroll"; ret; }',
    "used_bytes_mask": '.entry k() { .reg .b64 a; .reg .f32 %f<4>; mov.b64 a, 0; .pragma "used_bytes_mask 4095"; ld.global.v4.f32 {%f0,%f1,%f2,%f3}, [a]; ret; }',
    "enable_smem_spilling": '.entry k() { .pragma "enable_smem_spilling"; ret; }',
    "frequency": '.entry k() { .pragma "frequency 32"; ret; }',
    "mma_throughput": '.entry k() { .pragma "mma_throughput full"; ret; }',
}
#: Known and not assembled alone: a register state space of no declaration, and an attribute of linked code.
_WITHOUT_USE = {"sreg"}
_CASES = [
    *(pytest.param(DIRECTIVES[name], use, id=name) for name, use in _USES.items()),
    *(pytest.param(ATTRIBUTES[name], use, id=f"attribute {name}") for name, use in _ATTRIBUTES.items()),
    *(pytest.param(PRAGMAS[name], use, id=f"pragma {name}") for name, use in _PRAGMAS.items()),
]


def test_every_directive_has_a_use() -> None:
    assert DIRECTIVES.keys() == _USES.keys() | _WITHOUT_USE
    assert PRAGMAS.keys() == _PRAGMAS.keys()
    assert ATTRIBUTES.keys() == _ATTRIBUTES.keys() | {"unified"}


def _assembles(body: str, version: Version, arch: Target, ptxas: Tool) -> bool:
    head = f".version {version[0]}.{version[1]}\n.target {arch}\n.address_size 64\n"
    return check_text(f"{head}{body}\n", arch.name, ptxas=ptxas).ok


def _hold(body: str, since: Version, on: TargetSet, ptxas: Tool, newest: Version) -> None:
    """Accepted by the lowest target from ``since`` on, refused one version earlier and by every target below."""
    if since > newest:
        pytest.skip(f"ptxas {ptxas.version_text} takes PTX {newest[0]}.{newest[1]} at most")
    lowest = on.members()[0]
    first = max(since, lowest.since)
    assert _assembles(body, first, lowest, ptxas)
    if first > lowest.since:
        before = VERSIONS[VERSIONS.index(first) - 1]
        assert not _assembles(body, before, lowest, ptxas), f"{before} already takes it"
    others = [t for t in map(target, KNOWN_TARGETS) if t not in on]
    if others:
        assert not _assembles(body, newest, others[-1], ptxas), f"{others[-1]} takes it too"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("rule", "use"), _CASES)
def test_directives_against_ptxas(rule: DirectiveRule, use: str, ptxas: Tool, newest: Version) -> None:
    if rule.until is None:
        _hold(use, rule.since, rule.on, ptxas, newest)
    else:
        assert rule.until <= VERSIONS[0], "an end that ptxas could show"
        assert not _assembles(use, newest, target("sm_75"), ptxas)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (".func f() .maxntid 32 { ret; }", "func"),
        (".func f() .reqnctapercluster 2 { ret; }", "func"),
        (".entry k() .noreturn { exit; }", "entry"),
        (".entry k() .abi_preserve 8 { ret; }", "entry"),
        (".maxnreg 32;", "module"),
    ],
)
def test_a_directive_in_another_place_is_refused(body: str, place: str, ptxas: Tool, newest: Version) -> None:
    name = next(
        word for word in body.split() if word.strip(".") in DIRECTIVES and word not in (".func", ".entry")
    )
    assert place not in DIRECTIVES[name.strip(".")].where
    assert not _assembles(body, newest, target("sm_90"), ptxas)


# --- special registers ----------------------------------------------------------------------------


def _read(entry: SpecialRegister) -> str:
    directive = f".{entry.directive} 2048" if entry.directive else ""
    kind = entry.type.name
    return f".entry k() {directive} {{ .reg .{kind} r; mov.{kind} r, %{entry.name}; ret; }}"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SPECIAL_REGISTERS)
def test_special_registers_against_ptxas(name: str, ptxas: Tool, newest: Version) -> None:
    entry = SPECIAL_REGISTERS[name]
    _hold(_read(entry), entry.since, entry.on, ptxas, newest)


@pytest.mark.parametrize("name", ["perctamemorysize", "perctamemoryoffset"])
def test_special_registers_that_need_a_directive(name: str, ptxas: Tool) -> None:
    entry = SPECIAL_REGISTERS[name]
    assert entry.directive in DIRECTIVES
    assert not _assembles(
        _read(entry).replace(f".{entry.directive} 2048", ""), (9, 4), target("sm_80"), ptxas
    )


def test_an_instruction_needs_what_its_special_register_needs() -> None:
    word = Register("r", TYPES["u32"])
    binding = bind("mov", ("u32",), (word, Special("cluster_ctarank")))
    assert binding.since == (7, 8)
    with pytest.raises(TargetError, match="does not exist on sm_80"):
        check_target(binding, target("sm_80"))
    assert bind("mov", ("u32",), (word, Special("tid.x"))).since == (1, 0)


# --- targets --------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", KNOWN_TARGETS)
def test_targets_against_ptxas(name: str, ptxas: Tool, newest: Version) -> None:
    arch = target(name)
    if arch.since > newest:
        pytest.skip("the target is younger than ptxas")
    empty = ".entry k() { ret; }"
    assert _assembles(empty, arch.since, arch, ptxas)
    if arch.since > VERSIONS[0]:
        assert not _assembles(empty, VERSIONS[VERSIONS.index(arch.since) - 1], arch, ptxas)

    def shared(size: int) -> str:
        return f".entry k() {{ .shared .b8 s[{size}]; .reg .b32 r; ld.shared.b32 r, [s]; st.shared.b32 [s], r; ret; }}"

    limit = arch.static_shared_limit
    assert _assembles(shared(limit), max(arch.since, (7, 0)), arch, ptxas)
    assert not _assembles(shared(limit + 1), max(arch.since, (7, 0)), arch, ptxas)


@pytest.mark.parametrize(
    ("directives", "body", "version"),
    [
        ("", "", (7, 8)),
        (".reqntid 32 .reqnctapercluster 2, 1, 1 .blocksareclusters", "", (9, 0)),
        ("", ".reg .b32 %r; mov.b32 %r, %aggr_smem_size;", SPECIAL_REGISTERS["aggr_smem_size"].since),
    ],
)
def test_version_that_a_module_needs(directives: str, body: str, version: Version) -> None:
    head = ".version 9.5\n.target sm_90\n.address_size 64\n"
    assert required_version(parse_module(f"{head}.entry k() {directives} {{ {body} ret; }}")) == version
