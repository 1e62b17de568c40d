"""Kernels that mean harm: PTX that never ends, reaches anywhere, jumps anywhere, or computes what has no value.

Owns :data:`CASES`: each with the rules of the findings that it may end in; none means that it is legal, and clean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["CASES", "Case"]

_HEAD = ".version 8.8\n.target {target}\n.address_size 64\n"
_REGISTERS = """
.reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .f32 %f<24>; .reg .f64 %e<4>;
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; cvt.u64.u32 %d1, %r0;
"""
_DECLARATIONS = """
.extern .func (.param .b32 r) vprintf (.param .b64 t, .param .b64 a);
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
"""


@dataclass(frozen=True)
class Case:
    """One hostile kernel.

    Attributes:
        body: its statements; ``%r0`` is the thread, ``%d1`` the same in 64 bits, ``%d0`` an array of 4 KiB.
        rules: of the findings, any of which may be the first; empty if the kernel is clean.
        module: what stands before it.
        launch: options of the launch other than the defaults.
        steps: max_steps.
    """

    body: str
    rules: tuple[str, ...] = ()
    module: str = ""
    launch: dict[str, Any] = field(default_factory=dict)
    target: str = "sm_90a"
    steps: int = 20_000
    registers: str = _REGISTERS

    @property
    def text(self) -> str:
        """The module."""
        return (
            f"{_HEAD.format(target=self.target)}{_DECLARATIONS}{self.module}\n"
            f".visible .entry k(.param .u64 out) {{\n{self.registers}{self.body}\n}}\n"
        )


LIMIT = ("step-limit",)
#: A wait for what never happens: seen as such, or stopped at the limit.
STUCK = ("deadlock",)
SPIN = ("deadlock", "step-limit")
BOUNDS = ("out-of-bounds",)
CASES: dict[str, Case] = {}


def _case(name: str, body: str, *rules: str, **options: Any) -> None:
    assert name not in CASES, name
    CASES[name] = Case(body, rules, **options)


# --- loops without an end -----------------------------------------------------------------------

_case("an empty loop", "L: bra L;", *STUCK)
_case("an empty uniform loop", "L: bra.uni L;", *STUCK)
_case("a loop that no lane leaves", "setp.ne.u32 %p0, %r0, %r0; L: @!%p0 bra L; ret;", *STUCK)
_case("a loop of one lane", "setp.eq.u32 %p0, %r0, 0; L: @%p0 bra L; ret;", *STUCK)
_case("every lane in a loop of its own", "setp.lt.u32 %p0, %r0, 16; @%p0 bra L; M: bra M; L: bra L;", *STUCK)
_case("a counting loop", "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; bra L;", *LIMIT)
_case("a loop that counts in 64 bits", "mov.u64 %d2, 0; L: add.u64 %d2, %d2, 3; setp.ne.u64 %p0, %d2, 1; @%p0 bra L; ret;", *LIMIT)
_case("a loop that comes back to where it was", "mov.u32 %r1, 0; L: xor.b32 %r1, %r1, 1; bra L;", *SPIN)
_case("a storing loop", "mov.u32 %r1, 0; L: st.global.u32 [%d0], %r1; add.u32 %r1, %r1, 1; bra L;", *LIMIT)
_case("a loop that stores the same", "L: st.global.u32 [%d0], 1; bra L;", *LIMIT)
_case("a polling loop", "L: ld.volatile.global.u32 %r1, [%d0]; setp.ne.u32 %p0, %r1, 77; @%p0 bra L; ret;", *STUCK)
_case("a polling loop that counts", "mov.u32 %r2, 0; L: ld.acquire.gpu.global.u32 %r1, [%d0]; add.u32 %r2, %r2, 1; setp.ne.u32 %p0, %r1, 77; @%p0 bra L; ret;", *LIMIT)
_case("a polling loop that sleeps", "L: nanosleep.u32 1000000; ld.relaxed.gpu.global.u32 %r1, [%d0]; setp.ne.u32 %p0, %r1, 77; @%p0 bra L; ret;", *SPIN)
_case("sleeping for ever", "L: nanosleep.u32 0xffffffff; bra L;", *SPIN)
_case("a loop of atomics", "L: atom.global.add.u32 %r1, [%d0], 1; bra L;", *LIMIT)
_case("a loop that waits for the clock to stand still", "L: mov.u64 %d2, %clock64; mov.u64 %d3, %clock64; setp.ne.u64 %p0, %d2, %d3; @%p0 bra L; ret;", *LIMIT)
_case("a barrier in a loop", "L: bar.sync 0; bra L;", *LIMIT, launch={"block": 64})
_case("a warp barrier in a loop", "L: bar.warp.sync -1; bra L;", *SPIN)
_case("a vote in a loop", "L: vote.sync.any.pred %p0, 1, -1; @%p0 bra L; ret;", *SPIN)
_case("a trap that is never reached", "L: bra L; trap;", *STUCK)
_case("a lock that the lane before holds", """
setp.ne.u32 %p1, %r0, %r0;
L: atom.global.cas.b32 %r1, [%d0], 0, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra L; ret;""", *SPIN, launch={"block": 32})
_case("two warps that wait for each other", """
.shared .u32 flags[2];
mov.u32 %r2, flags; shr.u32 %r1, %r0, 5; xor.b32 %r4, %r1, 1; mad.lo.u32 %r3, %r1, 4, %r2; mad.lo.u32 %r4, %r4, 4, %r2;
setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [flags], 0; @%p0 st.shared.u32 [flags+4], 0; bar.sync 0;
L: ld.volatile.shared.u32 %r5, [%r4]; setp.eq.u32 %p0, %r5, 0; @%p0 bra L;
st.volatile.shared.u32 [%r3], 1; ret;""", *STUCK, launch={"block": 64})
_case("CTAs that wait for one which never starts", """
mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 99999; @%p0 st.volatile.global.u32 [%d0], 1;
L: ld.volatile.global.u32 %r2, [%d0]; setp.eq.u32 %p0, %r2, 0; @%p0 bra L; ret;""",
      *SPIN, launch={"grid": 100_000, "memory": 1 << 20})
_case("a loop over an mbarrier that nobody arrives at", """
.shared .b64 b; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [b], 1; bar.sync 0;
L: mbarrier.try_wait.parity.shared.b64 %p1, [b], 0; @!%p1 bra L; ret;""", *SPIN)
_case("a loop over a polled mbarrier", """
.shared .b64 b; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [b], 1; bar.sync 0;
L: mbarrier.test_wait.parity.shared.b64 %p1, [b], 0; @!%p1 bra L; ret;""", *SPIN)

# --- recursion and calls ------------------------------------------------------------------------

_SELF = ".func f() { call f; ret; }"
_case("recursion without an end", "call f; ret;", "stack-overflow", module=_SELF)
_case("recursion without an end, one lane", "setp.eq.u32 %p0, %r0, 0; @%p0 call f; ret;", "stack-overflow", module=_SELF)
_case("recursion with a large frame", "call f; ret;", "stack-overflow",
      module=".func f() { .local .b8 a[65536]; .reg .b32 %r; ld.local.u32 %r, [a]; call f; ret; }")
_case("recursion with arguments", "call f, (%r0); ret;", "stack-overflow",
      module=".func f(.reg .b32 n) { .reg .b32 %r; add.u32 %r, n, 1; call f, (%r); ret; }")
_case("mutual recursion through pointers", "call f; ret;", "stack-overflow", module="""
.visible .func f(); .visible .func g();
.global .u64 table[2] = {f, g};
.visible .func f() { .reg .b64 %a; ld.global.u64 %a, [table+8]; P: .callprototype _ (); call %a, (), P; ret; }
.visible .func g() { .reg .b64 %a; ld.global.u64 %a, [table]; P: .callprototype _ (); call %a, (), P; ret; }""")
_WILD = "P: .callprototype _ (); mov.u64 %d2, {}; call %d2, (), P; ret;"
for number, address in enumerate(("0", "1", "0xffffffffffffffff", "0x7a00000000", "0x7a00000101", "-1")):
    _case(f"an indirect call of {address} ({number})", _WILD.format(address), *BOUNDS)
_case("an indirect call of a pointer that nobody wrote", "P: .callprototype _ (); call %d2, (), P; ret;", "undefined-register", *BOUNDS)
_case("an indirect call of data", "P: .callprototype _ (); call %d0, (), P; ret;", *BOUNDS)
_case("each lane calls another wild address", "P: .callprototype _ (); add.u64 %d2, %d0, %d1; call %d2, (), P; ret;", *BOUNDS)
_case("an indirect call of an entry", "P: .callprototype _ (.param .u64 a); mov.u64 %d2, e; { .param .u64 a; st.param.u64 [a], 0; call %d2, (a), P; } ret;",
      "not-modelled", *BOUNDS, module=".visible .entry e(.param .u64 p) { ret; }")
_case("an indirect call with too few arguments", "P: .callprototype _ (); mov.u64 %d2, f; call %d2, (), P; ret;", "not-modelled",
      module=".visible .func f(.param .u64 a) { ret; }")
_case("an indirect call with an argument too wide", "P: .callprototype _ (.param .b8 q[64]); mov.u64 %d2, f; { .param .b8 q[64]; st.param.b64 [q], 1; call %d2, (q), P; } ret;",
      "", "not-modelled", module=".visible .func f(.param .u32 a) { .reg .b32 %r; ld.param.u32 %r, [a]; ret; }")
_case("an indirect call that expects a result", "P: .callprototype (.param .b32 r) _ (); mov.u64 %d2, f; { .param .b32 r; call (r), %d2, (), P; ld.param.b32 %r1, [r]; } ret;",
      "", "not-modelled", module=".visible .func f() { ret; }")
_case("a function that falls off its end", "call f; st.global.u32 [%d0], 1; ret;", module=".func f() { .reg .b32 %r; mov.u32 %r, 1; }")
_case("a function that exits", "call f; trap;", module=".func f() { exit; }")
_case("a function with an endless loop", "call f; ret;", *STUCK, module=".func f() { L: bra L; }")
_case("a function without a body", "call f; ret;", "not-modelled", module=".extern .func f();")
_case("alloca without an end", "L: alloca.u64 %d2, 4096; bra L;", "stack-overflow", "not-modelled")
for size in ("0", "1", "-16", "0x7fffffffffffffff", "0xfffffffffffffff0", "1099511627776"):
    _case(f"alloca of {size}", f"mov.u64 %d2, {size}; alloca.u64 %d3, %d2; ret;", "", "stack-overflow", "not-modelled")
_case("stackrestore of anything", "mov.u64 %d2, 0x123456789; stackrestore.u64 %d2; alloca.u64 %d3, 16; st.local.u32 [%d3], 1; ret;",
      "stack-overflow", "out-of-bounds", "not-modelled", "misaligned")

# --- indexed branches and jumps -----------------------------------------------------------------

_TABLE = "T: .branchtargets A, B; {} brx.idx %r1, T; A: st.global.u32 [%d0], 1; ret; B: st.global.u32 [%d0], 2; ret;"
_case("an index out of its list", _TABLE.format("mov.u32 %r1, 2;"), *BOUNDS)
_case("a negative index", _TABLE.format("mov.u32 %r1, -1;"), *BOUNDS)
_case("one lane's index is out of its list", _TABLE.format("setp.eq.u32 %p0, %r0, 0; selp.u32 %r1, 77, 1, %p0;"), *BOUNDS)
_case("an index that nobody wrote", _TABLE.format(""), "undefined-register", "")
_case("an indexed branch back to itself", "mov.u32 %r1, 0; T: .branchtargets A, B; A: brx.idx %r1, T; B: ret;", *SPIN)
_case("a jump into the middle of a loop", """
mov.u32 %r1, 0; setp.lt.u32 %p0, %r0, 7; @%p0 bra M;
L: add.u32 %r1, %r1, 1; M: add.u32 %r1, %r1, 2; setp.lt.u32 %p1, %r1, 20; @%p1 bra L; ret;""")
_case("two loops that jump into each other", """
mov.u32 %r1, 0; and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra B;
A: add.u32 %r1, %r1, 1; setp.gt.u32 %p1, %r1, 50; @%p1 bra E; and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0; @%p2 bra A;
B: add.u32 %r1, %r1, 3; setp.gt.u32 %p1, %r1, 50; @%p1 bra E; and.b32 %r2, %r1, 2; setp.eq.u32 %p2, %r2, 0; @%p2 bra B; bra A;
E: ret;""")
_case("an irreducible loop without an end", "setp.lt.u32 %p0, %r0, 7; @%p0 bra B; A: nanosleep.u32 1; B: bra A;", *SPIN)
_case("code that nothing reaches", "ret; A: div.u32 %r1, %r1, 0; bra A;")
_case("no ret", "st.global.u32 [%d0], 1;")
_case("an empty body", "", registers="")
_case("only a label", "L:", registers="")
_case("everything guarded", """
setp.lt.u32 %p0, %r0, 5; @%p0 mov.u32 %r1, 1; @!%p0 mov.u32 %r1, 2; @%p0 st.global.u32 [%d0], %r1; @!%p0 bra E; @%p0 ret; E: @%p0 bra E; @!%p0 exit;""")
_case("a guard that nobody wrote", "@%p3 st.global.u32 [%d0], 1; ret;", "undefined-register")

# --- memory without an end ----------------------------------------------------------------------

_MALLOC = "{{ .param .b64 n; .param .b64 r; st.param.b64 [n], {}; call (r), malloc, (n); ld.param.b64 %d2, [r]; }}"
_case("malloc without an end", f"L: {_MALLOC.format('65536')} bra L;", *SPIN, steps=2000)
_case("malloc of everything", f"{_MALLOC.format('-1')} setp.ne.u64 %p0, %d2, 0; @%p0 trap; ret;")
_case("malloc of nothing", f"{_MALLOC.format('0')} st.u32 [%d2], 1; ret;", *BOUNDS)
_case("tiny mallocs without an end", f"L: {_MALLOC.format('1')} bra L;", *SPIN, steps=2000)
_case("past the end of an allocation", f"{_MALLOC.format('64')} st.u32 [%d2+64], 1; ret;", *BOUNDS)
_case("uninitialised heap", f"{_MALLOC.format('64')} ld.u32 %r1, [%d2]; ret;", "uninitialised-read")
_FREE = "{{ .param .b64 n; st.param.b64 [n], {}; call free, (n); }}"
_case("free of anything", f"{_FREE.format('%d0')} ret;", *BOUNDS)
_case("free of null", f"{_FREE.format('0')} ret;")
_case("free twice", f"{_MALLOC.format('64')} {_FREE.format('%d2')} {_FREE.format('%d2')} ret;", *BOUNDS)
_case("used after free", f"{_MALLOC.format('64')} {_FREE.format('%d2')} st.u32 [%d2], 1; ret;", *BOUNDS)
_case("malloc and free for ever", f"L: {_MALLOC.format('4096')} {_FREE.format('%d2')} bra L;", *SPIN, steps=2000)

# --- addresses anywhere -------------------------------------------------------------------------

_PLACES = ["0", "1", "4", "0x3fc", "0xffffff", "0x1000000", "0x7fffffff", "0x80000000", "0xfffffffc", "0xffffffff",
           "0x100000000", "0x79fffffffc", "0x7a00000000", "0x7a00000100", "0x7b00000000", "0x7bfffffffc", "0x7c00000000",
           "0x7d00001000", "0x7dfffffffc", "0x7e00000000", "0x7e000003fc", "0x7effffffff", "0x7efffffffc",
           "0x7effffff00", "0x7efffffffc", "0x7ffffffffffffffc", "0x8000000000000000", "0xfffffffffffffff8", "0xfffffffffffffffc", "0xffffffffffffffff"]  # fmt: skip
for place in dict.fromkeys(_PLACES):
    for access in ("ld.u32 %r1, [%d2]", "st.u32 [%d2], 1", "atom.add.u32 %r1, [%d2], 1", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d2]",
                   "ld.local.u64 %d3, [%d2]", "st.shared.u64 [%d2], 1", "ld.const.u32 %r1, [%d2]", "prefetch.L1 [%d2]",
                   "mbarrier.arrive.b64 %d3, [%d2]", "cp.async.ca.shared.global [%d2], [%d0], 4", "cp.async.ca.shared.global [%d2], [%d2], 16",
                   "ld.shared::cluster.u32 %r1, [%d2]", "st.global.b8 [%d2], %h0", "red.shared.add.u32 [%d2], 1"):
        _case(f"{access} at {place}", f"mov.u64 %d2, {place}; mov.u16 %h0, 0; {access}; ret;", "?")
for space, name in (("global", "g"), ("shared", "s"), ("local", "l"), ("const", "c")):
    module = ".global .align 16 .b8 g[64]; .const .align 16 .b8 c[64];"
    local = ".shared .align 16 .b8 s[64]; .local .align 16 .b8 l[64];"
    for at, rules in (("64", BOUNDS), ("-4", BOUNDS), ("62", ("misaligned", *BOUNDS)), ("3", ("misaligned",)), ("2147483644", BOUNDS), ("-2147483648", BOUNDS)):
        # The dynamic part of shared memory, and what a thread's local memory is rounded up to, lie behind.
        _case(f"ld.{space} [{name}+{at}]", f"{local} ld.{space}.u32 %r1, [{name}+{at}]; ret;", *(("",) if (space, at) == ("local", "64") else rules), module=module)
    _case(f"{space} v4 off its alignment", f"{local} ld.{space}.v4.u32 {{%r1, %r2, %r3, %r4}}, [{name}+4]; ret;", "misaligned", module=module)
_case("each lane somewhere else", "mul.lo.u64 %d2, %d1, 0x0123456789abcdef; ld.u32 %r1, [%d2]; ret;", "misaligned", *BOUNDS)
_case("lanes in two spaces, one of them wild", """
.shared .u32 s; mov.u64 %d2, s; cvta.shared.u64 %d2, %d2; setp.lt.u32 %p0, %r0, 7; selp.b64 %d3, %d2, %d0, %p0;
setp.eq.u32 %p1, %r0, 0; selp.b64 %d3, 64, %d3, %p1; st.u32 [%d3], 1; ret;""", *BOUNDS)
_case("a write into constants", "st.u32 [%d2], 1; ret;", *BOUNDS, module=".const .u32 c = 5;",
      registers=_REGISTERS + "mov.u64 %d2, c; cvta.const.u64 %d2, %d2;")
_case("a write into the parameters", "mov.u64 %d2, out; cvta.param.u64 %d2, %d2; st.u64 [%d2], 1; ret;", *BOUNDS)
_case("an atomic on the parameters", "mov.u64 %d2, out; cvta.param.u64 %d2, %d2; atom.add.u32 %r1, [%d2], 1; ret;", *BOUNDS)
_case("behind the parameters", "ld.param.u64 %d2, [out+8]; ret;", *BOUNDS)
_case("before the parameters", "ld.param.u64 %d2, [out+-8]; ret;", *BOUNDS)
_case("a load from code", "mov.u64 %d2, k; ld.u32 %r1, [%d2]; ret;", *BOUNDS)
_case("a store into code", "mov.u64 %d2, f; st.u32 [%d2], 1; ret;", *BOUNDS, module=".visible .func f() { ret; }")

# --- declarations -------------------------------------------------------------------------------

_case("a huge .local array", ".local .b8 a[1073741824]; ld.local.u32 %r1, [a]; ret;", "stack-overflow")
_case("a huge .param array of a call", "{ .param .b8 a[1073741824]; call f, (a); } ret;", "stack-overflow",
      module=".func f(.param .b8 a[1073741824]) { ret; }")
_MANY = "".join(f"add.u32 %x{n}, %r0, {n}; " for n in range(3000))
_case("thousands of registers", f"{_MANY} st.global.u32 [%d0], %x2999; ret;", registers=_REGISTERS + ".reg .b32 %x<1000000>;")
_case("registers that take too much memory", f"{_MANY} ret;", *LIMIT, registers=_REGISTERS + ".reg .b32 %x<3000>;", launch={"block": 1024, "memory": 1 << 22})
_case("registers that nobody wrote", "add.u32 %r1, %r2, %r3; st.global.u32 [%d0], %r1; ret;", "undefined-register")
_case("a name that nothing defines", "ld.global.u32 %r1, [g]; ret;", "not-modelled", module=".extern .global .u32 g;")
_case("an unsized array", "ld.global.u32 %r1, [g]; ret;", "not-modelled", *BOUNDS, module=".extern .global .b8 g[];")
_case("dynamic shared memory that was not asked for", ".shared .b32 s; ld.shared.u32 %r1, [d]; ret;", *BOUNDS, module=".extern .shared .b8 d[];")
_case("a variable that points to itself", "ld.global.u64 %d2, [g]; setp.eq.u64 %p0, %d2, 0; @%p0 trap; ld.u64 %d2, [%d2]; ret;", module=".global .u64 g = g;")

# --- arithmetic without a value -----------------------------------------------------------------

for width, reg in (("16", "%h"), ("32", "%r"), ("64", "%d")):
    lowest = 1 << (int(width) - 1)
    for kind in "us":
        for name in ("div", "rem"):
            _case(f"{name}.{kind}{width} by zero", f"mov.b{width} {reg}2, 0; mov.b{width} {reg}3, 7; {name}.{kind}{width} {reg}4, {reg}3, {reg}2; {name}.{kind}{width} {reg}4, {reg}3, 0; ret;")
            _case(f"{name}.{kind}{width} of the lowest by -1", f"mov.b{width} {reg}2, -1; mov.b{width} {reg}3, {lowest:#x}; {name}.{kind}{width} {reg}4, {reg}3, {reg}2; {name}.{kind}{width} {reg}4, {reg}3, -1; ret;")
    for name in ("shl.b", "shr.u", "shr.s"):
        _case(f"{name}{width} by far too much", f"mov.b{width} {reg}2, {lowest:#x}; mov.u32 %r5, 0xffffffff; {name}{width} {reg}3, {reg}2, %r5; {name}{width} {reg}3, {reg}2, {width}; {name}{width} {reg}3, {reg}2, 0x80000000; ret;")
for width in ("32", "64"):
    reg = {"32": "%r", "64": "%d"}[width]
    _case(f"bfe and bfi of {width} bits anywhere", f"mov.b{width} {reg}2, -1; mov.u32 %r5, 0xffffffff; bfe.s{width} {reg}3, {reg}2, %r5, %r5; bfe.u{width} {reg}3, {reg}2, 200, 200; bfi.b{width} {reg}3, {reg}2, {reg}2, %r5, %r5; bfind.s{width} %r6, 0; ret;")
_case("funnel shifts, permutations and products of anything", """
mov.u32 %r5, 0xffffffff; shf.l.wrap.b32 %r1, %r5, %r5, %r5; shf.r.clamp.b32 %r1, %r5, %r5, %r5; prmt.b32 %r1, %r5, %r5, %r5;
prmt.b32.rc8 %r1, %r5, %r5, %r5; abs.s32 %r1, 0x80000000; neg.s32 %r1, 0x80000000; mad.hi.sat.s32 %r1, %r5, %r5, 0x80000000; lop3.b32 %r1, %r5, %r5, %r5, 0xff;
vadd4.s32.u32.s32.sat %r1, %r5, %r5, %r5; dp4a.s32.u32 %r1, %r5, %r5, %r5; bmsk.clamp.b32 %r1, %r5, %r5; bmsk.wrap.b32 %r1, %r5, %r5; szext.clamp.s32 %r1, %r5, %r5; fns.b32 %r1, %r5, 40, -50; ret;""")
for value in ("0f7FFFFFFF", "0fFFC00000", "0f7F800000", "0fFF800000", "0f7F7FFFFF", "0fFF7FFFFF", "0f00000001", "0f80000000", "0f4F800000"):
    _case(f"conversions of {value}", f"""
mov.f32 %f1, {value}; cvt.rzi.s32.f32 %r1, %f1; cvt.rni.u64.f32 %d2, %f1; cvt.rmi.s8.f32 %h1, %f1; cvt.rpi.u16.f32 %h1, %f1; cvt.rn.f16.f32 %h1, %f1;
cvt.f64.f32 %e1, %f1; cvt.rzi.s64.f64 %d2, %e1; cvt.rn.f32.f64 %f2, %e1; cvt.rn.bf16.f32 %h1, %f1; cvt.rna.tf32.f32 %r1, %f1; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f1;
cvt.rni.f32.f32 %f2, %f1; cvt.sat.f32.f32 %f2, %f1; sqrt.rn.f32 %f2, %f1; rcp.rn.f32 %f2, %f1; div.rn.f32 %f2, %f1, 0f00000000; div.full.f32 %f2, %f1, %f1; div.approx.f32 %f2, %f1, %f1;
sqrt.approx.f32 %f2, %f1; rsqrt.approx.f32 %f2, %f1; lg2.approx.f32 %f2, %f1; ex2.approx.f32 %f2, %f1; sin.approx.f32 %f2, %f1; cos.approx.f32 %f2, %f1; tanh.approx.f32 %f2, %f1;
fma.rp.sat.f32 %f2, %f1, %f1, %f1; sqrt.rn.f64 %e2, %e1; div.rn.f64 %e2, %e1, %e1; testp.subnormal.f32 %p1, %f1; copysign.f32 %f2, %f1, %f1; min.NaN.f32 %f2, %f1, %f1; rcp.approx.ftz.f64 %e2, %e1; ret;""")
_case("mma of NaNs", """
mov.b32 %r1, 0x7fff7fff; mov.f32 %f1, 0f7FFFFFFF; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};
mov.b32 %r1, 0x7fffffff; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1}; ret;""", launch={"block": 32})
_case("mma of infinities that cancel", """
mov.b32 %r1, 0x7c00fc00; mov.f32 %f1, 0f7F800000; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1}; ret;""", launch={"block": 32})

# --- printf -------------------------------------------------------------------------------------

_PRINT = """{{ .param .b64 t; .param .b64 a; .param .b32 r; mov.u64 %d2, {template}; {convert} st.param.b64 [t], %d2; mov.u64 %d3, {packed};
st.param.b64 [a], %d3; call (r), vprintf, (t, a); }}"""


def _printf(name: str, template: str | bytes, *rules: str, packed: str = "%d0", module: str = "", after: str = "ret;", **options: Any) -> None:
    if isinstance(template, bytes):
        numbers = ", ".join(map(str, template))
        module += f".global .align 1 .b8 text[{len(template)}] = {{{numbers}}};"
        body = _PRINT.format(template="text", convert="cvta.global.u64 %d2, %d2;", packed=packed)
    else:
        body = _PRINT.format(template=template, convert="", packed=packed)
    _case(name, f"{body} {after}", *rules, module=module, **options)


_printf("printf of null", "0", *BOUNDS)
_printf("printf of a wild template", "0x123456789", *BOUNDS)
_printf("printf of a negative template", "-1", *BOUNDS)
_printf("printf of a template without an end", b"abc", *BOUNDS)
_printf("printf of wild arguments", b"%d\n\0", *BOUNDS, packed="8")
_printf("printf with nothing to convert and no arguments", b"%% %\n\0", packed="0")
_printf("printf of a string at null", b"%s\n\0", *BOUNDS)
_printf("printf with a width from its arguments", b"%*d|%-*d|%.*f|%*.*s\n\0", *BOUNDS)
_printf("printf of a field of gigabytes", b"%2147483647d\0", "not-modelled")
_printf("printf of a precision of gigabytes", b"%.2147483647f\0", "not-modelled")
_printf("printf of a field with a thousand digits", b"%" + b"9" * 5000 + b"d\0", "not-modelled")
_printf("printf of negative fields", b"%.*d|%*d\0", packed="%d4", module=".global .align 8 .s32 args[8] = {-5, 7, -9, 3, 0, 0, 0, 0};",
        registers=_REGISTERS + "mov.u64 %d4, args; cvta.global.u64 %d4, %d4;")
_printf("printf of conversions that nobody knows", b"%y %q %#lo %hhd %zu %jd %Lf %p %c %a %n\n\0")
_printf("printf of bytes that are no text", bytes(range(255, 127, -1)) + b"%d\xff\0")
_printf("printf without an end", b"%2000d%2000d%2000d%2000d\0", *LIMIT, after="bra A;", registers=_REGISTERS + "A:")

# --- barriers and collectives -------------------------------------------------------------------

for count in ("0", "1", "31", "33", "100000", "-32"):
    _case(f"bar.sync of {count} threads", f"mov.u32 %r1, {count}; bar.sync 1, %r1; ret;", "barrier-misuse", "deadlock", "")
for number in ("16", "255", "-1", "0x80000000"):
    _case(f"barrier {number}", f"mov.u32 %r1, {number}; bar.sync %r1; ret;", "barrier-misuse")
    _case(f"arrival at barrier {number}", f"mov.u32 %r1, {number}; bar.arrive %r1, 64; ret;", "barrier-misuse")
_case("each lane another barrier", "bar.sync %r0; ret;", "barrier-misuse", "divergent-collective", "")
_case("more arrivals than the barrier counts", "bar.arrive 1, 32; bar.arrive 1, 32; bar.arrive 1, 32; bar.sync 1, 32; ret;", "barrier-misuse", "deadlock", "")
_case("a barrier that half of the warps reach", "setp.lt.u32 %p0, %r0, 32; @%p0 bar.sync 1, 128; ret;", "deadlock", launch={"block": 128})
for mask in ("0", "0x80000000", "0xfffffffe", "0x0000ffff"):
    for text in ("vote.sync.ballot.b32 %r2, 1, %r1", "shfl.sync.idx.b32 %r2, %r0, 0, 31, %r1", "match.any.sync.b32 %r2, %r0, %r1",
                 "redux.sync.add.u32 %r2, %r0, %r1", "bar.warp.sync %r1", "elect.sync %r2|%p1, %r1"):
        _case(f"{text} with mask {mask}", f"mov.u32 %r1, {mask}; {text}; ret;", "divergent-collective", "deadlock", "", target="sm_90a")
_case("each lane another mask", "shl.b32 %r1, 3, %r0; vote.sync.any.pred %p0, 1, %r1; ret;", "divergent-collective", "deadlock", "")
_case("shfl from anywhere", "mov.u32 %r1, 0xdeadbeef; shfl.sync.idx.b32 %r2|%p1, %r0, %r1, %r1, -1; shfl.sync.up.b32 %r2, %r0, %r1, 0, -1; ret;", launch={"block": 32})
_case("an aligned collective of some lanes", "setp.lt.u32 %p0, %r0, 7; @%p0 bra E; bar.warp.sync -1; barrier.sync.aligned 0; E: ret;",
      "divergent-collective", "deadlock", "", launch={"block": 32})

# --- mbarriers and copies -----------------------------------------------------------------------

_MB = ".shared .align 8 .b64 b[2]; .shared .align 128 .b8 s[256]; setp.eq.u32 %p0, %r0, 0; "
for what, rules in {
    "mbarrier.arrive.shared.b64 %d2, [b]": ("mbarrier-misuse", "uninitialised-read"),
    "mbarrier.inval.shared.b64 [b]": ("mbarrier-misuse", "uninitialised-read"),
    "mbarrier.test_wait.shared.b64 %p1, [b], %d1": ("mbarrier-misuse", "uninitialised-read"),
    "mov.u32 %r1, 0; mbarrier.init.shared.b64 [b], %r1": ("mbarrier-misuse",),
    "mov.u32 %r1, -1; mbarrier.init.shared.b64 [b], %r1": ("mbarrier-misuse",),
    "mbarrier.init.shared.b64 [b+4], 1": ("misaligned",),
    "mbarrier.init.shared.b64 [b], 1; mbarrier.arrive.shared.b64 %d2, [b], 1048575": ("mbarrier-misuse",),
    "mbarrier.init.shared.b64 [b], 1; mbarrier.arrive.expect_tx.shared.b64 %d2, [b], 0xffffffff": ("mbarrier-misuse",),
    "mbarrier.init.shared.b64 [b], 1; st.shared.u64 [b], 7": ("mbarrier-misuse",),
    "mbarrier.init.shared.b64 [b], 1; mbarrier.init.shared.b64 [b], 1": ("mbarrier-reinit",),
    "mbarrier.init.shared.b64 [b], 1; mbarrier.test_wait.shared.b64 %p1, [b], %d1; ld.shared.u64 %d2, [b]; mbarrier.complete_tx.shared.b64 [b], 5": ("mbarrier-misuse", ""),
}.items():  # fmt: skip
    _case(f"{what}", f"{_MB} @!%p0 bra E; {what}; E: ret;", *rules)
_case("cp.async from anywhere", f"{_MB} mov.u64 %d2, 48; cp.async.cg.shared.global [s], [%d2], 16; cp.async.wait_all; ret;", *BOUNDS)
_case("cp.async of more than it has", f"{_MB} mov.u32 %r1, 99; cp.async.cg.shared.global [s], [%d0], 16, %r1; cp.async.wait_all; ret;", "", "out-of-bounds")
_case("cp.async that nobody waits for", f"{_MB} cp.async.cg.shared.global [s], [%d0], 16; ret;", "exit-in-flight", "")
for size in ("0", "8", "17", "0x7ffffff0", "0xfffffff0"):
    _case(f"a bulk copy of {size} bytes", f"{_MB} @!%p0 bra E; mbarrier.init.shared.b64 [b], 1; mov.u32 %r1, {size}; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d0], %r1, [b]; E: ret;",
          "misaligned", "out-of-bounds", "exit-in-flight", "not-modelled", "mbarrier-misuse", "")
_TENSOR = "@!%p0 bra E; mbarrier.init.shared.b64 [b], 1; mov.u32 %r1, {at}; cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d0, {{%r1, %r1}}], [b]; E: ret;"
for at in ("0", "-2147483648", "2147483647"):
    _case(f"a tensor map of nothing, at {at}", _MB + _TENSOR.format(at=at), "bad-tensor-map")
_case("a tensor map at null", _MB + "mov.u64 %d0, 0; " + _TENSOR.format(at="0"), "bad-tensor-map", *BOUNDS)
_case("a tensor map at the top", _MB + "mov.u64 %d0, -128; " + _TENSOR.format(at="0"), "bad-tensor-map", *BOUNDS)
_case("a tensor map off its alignment", _MB + "add.u64 %d0, %d0, 8; " + _TENSOR.format(at="0"), "bad-tensor-map", "misaligned")
_case("a prefetch of a tensor map of nothing", "prefetch.tensormap [%d0]; ret;", "", "bad-tensor-map", "not-modelled")

# --- what is not modelled -----------------------------------------------------------------------

_case("a texture", "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d0, {%r0}]; ret;", "not-modelled")
_case("a surface", "suld.b.1d.b32.trap %r1, [%d0, {%r0}]; ret;", "not-modelled")
_case("a texture that no thread reaches", "setp.gt.u32 %p0, %r0, 5000; @!%p0 bra E; tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d0, {%r0}]; E: ret;")
_case("a trap", "trap;", "trap")
_case("a breakpoint", "brkpt; ret;", "trap")
_case("a register of the driver", "mov.b32 %r1, %envreg3; ret;", "not-modelled")

# --- tensor memory ------------------------------------------------------------------------------

_TMEM = ".shared .align 8 .b32 s; "
for text in ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], %r1", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32",
             "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1]", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2}", "tcgen05.cp.cta_group::1.128x256b [%r1], %d1",
             "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d1, %r0, %p1"):
    for value in ("0", "31", "33", "512", "1024", "0xffffffff"):
        _case(f"{text} of {value}", f"{_TMEM} setp.eq.u32 %p1, %r0, 0; mov.u32 %r2, 0; mov.u32 %r1, {value}; {text}; ret;", "?", target="sm_100a")

# --- launches -----------------------------------------------------------------------------------

_case("two thousand million CTAs", "mov.u32 %r1, %ctaid.x; ret;", *LIMIT, launch={"grid": 2**31 - 1}, steps=1000)
_case("three-dimensional, far too many", "mov.u32 %r1, %ctaid.z; ret;", *LIMIT, launch={"grid": (2**31 - 1, 65535, 65535)}, steps=1000)
_case("a thousand threads that count", "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; bra L;", *LIMIT, launch={"block": 1024, "grid": 1000}, steps=5000)
_case("recursion of thousands of threads", "call f; ret;", *LIMIT, "stack-overflow", module=_SELF, launch={"block": 1024, "grid": 200, "memory": 1 << 26})
