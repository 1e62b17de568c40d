"""Kernels that mean harm: PTX that never ends, reaches anywhere, jumps anywhere, or computes what has no value.

Owns :data:`CASES`: each with the rules of the findings that it may end in; none means that it is legal, and clean.
Control flow, calls, memory and declarations are here, values and units in :mod:`.hostile_units`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["BOUNDS", "CASES", "LIMIT", "REGISTERS", "SELF", "SPIN", "Case", "case"]

_HEAD = ".version 8.8\n.target {target}\n.address_size 64\n"
REGISTERS = """
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
        rules: of the findings, any of which may be the first ("" is none); empty if the kernel is clean, None for any.
        module: what stands before it.
        launch: options of the launch other than the defaults.
        steps: max_steps.
    """

    body: str
    rules: tuple[str, ...] | None = ()
    module: str = ""
    launch: dict[str, Any] = field(default_factory=dict)
    target: str = "sm_90a"
    steps: int = 4000
    registers: str = REGISTERS
    declarations: str = _DECLARATIONS

    @property
    def text(self) -> str:
        """The module."""
        return (
            f"{_HEAD.format(target=self.target)}{self.declarations}{self.module}\n"
            f".visible .entry k(.param .u64 out) {{\n{self.registers}{self.body}\n}}\n"
        )


LIMIT = ("step-limit",)
#: A wait for what never happens: seen as such, or stopped at the limit.
STUCK = ("deadlock",)
SPIN = ("deadlock", "step-limit")
BOUNDS = ("out-of-bounds",)
CASES: dict[str, Case] = {}


def case(name: str, body: str, *rules: str, any_rule: bool = False, **options: Any) -> None:
    assert name not in CASES, name
    CASES[name] = Case(body, None if any_rule else rules, **options)


# --- loops without an end -----------------------------------------------------------------------

case("an empty loop", "L: bra L;", *STUCK)
case("an empty uniform loop", "L: bra.uni L;", *STUCK)
case("a loop that no lane leaves", "setp.ne.u32 %p0, %r0, %r0; L: @!%p0 bra L; ret;", *STUCK)
case("a loop of one lane", "setp.eq.u32 %p0, %r0, 0; L: @%p0 bra L; ret;", *STUCK)
case("every lane in a loop of its own", "setp.lt.u32 %p0, %r0, 16; @%p0 bra L; M: bra M; L: bra L;", *STUCK)
case("a counting loop", "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; bra L;", *LIMIT)
case(
    "a loop that counts in 64 bits",
    "mov.u64 %d2, 0; L: add.u64 %d2, %d2, 3; setp.ne.u64 %p0, %d2, 1; @%p0 bra L; ret;",
    *LIMIT,
)
case("a loop that comes back to where it was", "mov.u32 %r1, 0; L: xor.b32 %r1, %r1, 1; bra L;", *SPIN)
case("a storing loop", "mov.u32 %r1, 0; L: st.global.u32 [%d0], %r1; add.u32 %r1, %r1, 1; bra L;", *LIMIT)
case("a loop that stores the same", "L: st.global.u32 [%d0], 1; bra L;", *LIMIT)
case(
    "a polling loop",
    "L: ld.volatile.global.u32 %r1, [%d0]; setp.ne.u32 %p0, %r1, 77; @%p0 bra L; ret;",
    *STUCK,
)
case(
    "a polling loop that counts",
    "mov.u32 %r2, 0; L: ld.acquire.gpu.global.u32 %r1, [%d0]; add.u32 %r2, %r2, 1; setp.ne.u32 %p0, %r1, 77; @%p0 bra L; ret;",
    *LIMIT,
)
case(
    "a polling loop that sleeps",
    "L: nanosleep.u32 1000000; ld.relaxed.gpu.global.u32 %r1, [%d0]; setp.ne.u32 %p0, %r1, 77; @%p0 bra L; ret;",
    *SPIN,
)
case("sleeping for ever", "L: nanosleep.u32 0xffffffff; bra L;", *SPIN)
case("a loop of atomics", "L: atom.global.add.u32 %r1, [%d0], 1; bra L;", *LIMIT)
case(
    "a loop that waits for the clock to stand still",
    "L: mov.u64 %d2, %clock64; mov.u64 %d3, %clock64; setp.ne.u64 %p0, %d2, %d3; @%p0 bra L; ret;",
    *LIMIT,
)
case("a barrier in a loop", "L: bar.sync 0; bra L;", *LIMIT, launch={"block": 64})
case("a warp barrier in a loop", "L: bar.warp.sync -1; bra L;", *SPIN)
case("a vote in a loop", "L: vote.sync.any.pred %p0, 1, -1; @%p0 bra L; ret;", *SPIN)
case("a trap that is never reached", "L: bra L; trap;", *STUCK)
case(
    "a lock that the lane before holds",
    """
setp.ne.u32 %p1, %r0, %r0;
L: atom.global.cas.b32 %r1, [%d0], 0, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra L; ret;""",
    *SPIN,
    launch={"block": 32},
)
case(
    "two warps that wait for each other",
    """
.shared .u32 flags[2];
mov.u32 %r2, flags; shr.u32 %r1, %r0, 5; xor.b32 %r4, %r1, 1; mad.lo.u32 %r3, %r1, 4, %r2; mad.lo.u32 %r4, %r4, 4, %r2;
setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [flags], 0; @%p0 st.shared.u32 [flags+4], 0; bar.sync 0;
L: ld.volatile.shared.u32 %r5, [%r4]; setp.eq.u32 %p0, %r5, 0; @%p0 bra L;
st.volatile.shared.u32 [%r3], 1; ret;""",
    *STUCK,
    launch={"block": 64},
)
case(
    "CTAs that wait for one which never starts",
    """
mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 99999; @%p0 st.volatile.global.u32 [%d0], 1;
L: ld.volatile.global.u32 %r2, [%d0]; setp.eq.u32 %p0, %r2, 0; @%p0 bra L; ret;""",
    *SPIN,
    launch={"grid": 100_000, "memory": 1 << 20},
)
case(
    "a loop over an mbarrier that nobody arrives at",
    """
.shared .b64 b; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [b], 1; bar.sync 0;
L: mbarrier.try_wait.parity.shared.b64 %p1, [b], 0; @!%p1 bra L; ret;""",
    *SPIN,
)
case(
    "a loop over a polled mbarrier",
    """
.shared .b64 b; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [b], 1; bar.sync 0;
L: mbarrier.test_wait.parity.shared.b64 %p1, [b], 0; @!%p1 bra L; ret;""",
    *SPIN,
)

# --- recursion and calls ------------------------------------------------------------------------

SELF = ".func f() { call f; ret; }"
case("recursion without an end", "call f; ret;", "stack-overflow", module=SELF, steps=20_000)
case(
    "recursion without an end, one lane",
    "setp.eq.u32 %p0, %r0, 0; @%p0 call f; ret;",
    "stack-overflow",
    steps=20_000,
    module=SELF,
)
case(
    "recursion with a large frame",
    "call f; ret;",
    "stack-overflow",
    steps=20_000,
    module=".func f() { .local .b8 a[65536]; .reg .b32 %r; ld.local.u32 %r, [a]; call f; ret; }",
)
case(
    "recursion with arguments",
    "call f, (%r0); ret;",
    "stack-overflow",
    steps=20_000,
    module=".func f(.reg .b32 n) { .reg .b32 %r; add.u32 %r, n, 1; call f, (%r); ret; }",
)
case(
    "mutual recursion through pointers",
    "call f; ret;",
    "stack-overflow",
    steps=20_000,
    module="""
.visible .func f(); .visible .func g();
.global .u64 table[2] = {f, g};
.visible .func f() { .reg .b64 %a; ld.global.u64 %a, [table+8]; P: .callprototype _ (); call %a, (), P; ret; }
.visible .func g() { .reg .b64 %a; ld.global.u64 %a, [table]; P: .callprototype _ (); call %a, (), P; ret; }""",
)
_WILD = "P: .callprototype _ (); mov.u64 %d2, {}; call %d2, (), P; ret;"
for number, address in enumerate(("0", "1", "0xffffffffffffffff", "0x7a00000000", "0x7a00000101", "-1")):
    case(f"an indirect call of {address} ({number})", _WILD.format(address), *BOUNDS)
case(
    "an indirect call of a pointer that nobody wrote",
    "P: .callprototype _ (); call %d2, (), P; ret;",
    "undefined-register",
    *BOUNDS,
)
case("an indirect call of data", "P: .callprototype _ (); call %d0, (), P; ret;", *BOUNDS)
case(
    "each lane calls another wild address",
    "P: .callprototype _ (); add.u64 %d2, %d0, %d1; call %d2, (), P; ret;",
    *BOUNDS,
)
case(
    "an indirect call of an entry",
    "P: .callprototype _ (.param .u64 a); mov.u64 %d2, e; { .param .u64 a; st.param.u64 [a], 0; call %d2, (a), P; } ret;",
    "not-modeled",
    *BOUNDS,
    module=".visible .entry e(.param .u64 p) { ret; }",
)
case(
    "an indirect call with too few arguments",
    "P: .callprototype _ (); mov.u64 %d2, f; call %d2, (), P; ret;",
    "not-modeled",
    module=".visible .func f(.param .u64 a) { ret; }",
)
case(
    "an indirect call with an argument too wide",
    "P: .callprototype _ (.param .b8 q[64]); mov.u64 %d2, f; { .param .b8 q[64]; st.param.b64 [q], 1; call %d2, (q), P; } ret;",
    "",
    "not-modeled",
    module=".visible .func f(.param .u32 a) { .reg .b32 %r; ld.param.u32 %r, [a]; ret; }",
)
case(
    "an indirect call that expects a result",
    "P: .callprototype (.param .b32 r) _ (); mov.u64 %d2, f; { .param .b32 r; call (r), %d2, (), P; ld.param.b32 %r1, [r]; } ret;",
    "",
    "not-modeled",
    module=".visible .func f() { ret; }",
)
case(
    "a call with a parameter of the kernel",
    "call f, (out); ret;",
    "not-modeled",
    module=".func f(.param .b64 a) { ret; }",
)
case(
    "a call with a variable",
    "call f, (g); ret;",
    module=".global .u32 g; .func f(.param .b64 a) { .reg .b64 %r; ld.param.b64 %r, [a]; ld.u32 %r, [%r]; }".replace(
        "ld.u32 %r", ".reg .b32 %x; ld.u32 %x"
    ),
)
_OTHER = "mov.u64 %d2, f; P: .callprototype {}; call {}, P; ret;"
for number, (prototype, made, function) in enumerate(
    [
        ("_ (.param .b16 q)", "%d2, (%h1)", ".visible .func f(.param .b32 a) { ret; }"),
        ("_ (.reg .b32 q)", "%d2, (%r1)", ".visible .func f(.reg .b64 a) { ret; }"),
        ("(.reg .b32 r) _ ()", "(%r1), %d2, ()", ".visible .func (.param .b8 r[64]) f() { ret; }"),
        ("(.reg .b32 r) _ ()", "(%r1), %d2, ()", ".visible .func f() { ret; }"),
        ("_ (.param .b32 q)", "%d2, (5)", ".extern .func f(.param .b64 t, .param .b64 a);"),
    ]
):
    case(
        f"a call through another prototype ({number})",
        "mov.u32 %r1, 0; mov.u16 %h1, 0; " + _OTHER.format(prototype, made),
        "not-modeled",
        module=function,
    )
case(
    "a function that falls off its end",
    "call f; st.global.u32 [%d0], 1; ret;",
    module=".func f() { .reg .b32 %r; mov.u32 %r, 1; }",
)
case("a function that exits", "call f; trap;", module=".func f() { exit; }")
case("a function with an endless loop", "call f; ret;", *STUCK, module=".func f() { L: bra L; }")
case("a function without a body", "call f; ret;", "not-modeled", module=".extern .func f();")
case("alloca without an end", "L: alloca.u64 %d2, 4096; bra L;", "stack-overflow", "not-modeled")
for size in ("0", "1", "-16", "0x7fffffffffffffff", "0xfffffffffffffff0", "1099511627776"):
    case(
        f"alloca of {size}",
        f"mov.u64 %d2, {size}; alloca.u64 %d3, %d2; ret;",
        "",
        "stack-overflow",
        "not-modeled",
    )
case(
    "stackrestore of anything",
    "mov.u64 %d2, 0x123456789; stackrestore.u64 %d2; alloca.u64 %d3, 16; st.local.u32 [%d3], 1; ret;",
    "stack-overflow",
    "out-of-bounds",
    "not-modeled",
    "misaligned",
)

# --- indexed branches and jumps -----------------------------------------------------------------

_TABLE = "T: .branchtargets A, B; {} brx.idx %r1, T; A: st.global.u32 [%d0], 1; ret; B: st.global.u32 [%d0], 2; ret;"
case("an index out of its list", _TABLE.format("mov.u32 %r1, 2;"), *BOUNDS)
case("a negative index", _TABLE.format("mov.u32 %r1, -1;"), *BOUNDS)
case(
    "one lane's index is out of its list",
    _TABLE.format("setp.eq.u32 %p0, %r0, 0; selp.u32 %r1, 77, 1, %p0;"),
    *BOUNDS,
)
case("an index that nobody wrote", _TABLE.format(""), "undefined-register", "")
case(
    "an indexed branch back to itself",
    "mov.u32 %r1, 0; T: .branchtargets A, B; A: brx.idx %r1, T; B: ret;",
    *SPIN,
)
case(
    "a jump into the middle of a loop",
    """
mov.u32 %r1, 0; setp.lt.u32 %p0, %r0, 7; @%p0 bra M;
L: add.u32 %r1, %r1, 1; M: add.u32 %r1, %r1, 2; setp.lt.u32 %p1, %r1, 20; @%p1 bra L; ret;""",
)
case(
    "two loops that jump into each other",
    """
mov.u32 %r1, 0; and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra B;
A: add.u32 %r1, %r1, 1; setp.gt.u32 %p1, %r1, 50; @%p1 bra E; and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0; @%p2 bra A;
B: add.u32 %r1, %r1, 3; setp.gt.u32 %p1, %r1, 50; @%p1 bra E; and.b32 %r2, %r1, 2; setp.eq.u32 %p2, %r2, 0; @%p2 bra B; bra A;
E: ret;""",
)
case(
    "an irreducible loop without an end",
    "setp.lt.u32 %p0, %r0, 7; @%p0 bra B; A: nanosleep.u32 1; B: bra A;",
    *SPIN,
)
case("code that nothing reaches", "ret; A: div.u32 %r1, %r1, 0; bra A;")
case("no ret", "st.global.u32 [%d0], 1;")
case("an empty body", "", registers="")
case("only a label", "L:", registers="")
case(
    "everything guarded",
    """
setp.lt.u32 %p0, %r0, 5; @%p0 mov.u32 %r1, 1; @!%p0 mov.u32 %r1, 2; @%p0 st.global.u32 [%d0], %r1; @!%p0 bra E; @%p0 ret; E: @%p0 bra E; @!%p0 exit;""",
)
case("a guard that nobody wrote", "@%p3 st.global.u32 [%d0], 1; ret;", "undefined-register")

# --- memory without an end ----------------------------------------------------------------------

_MALLOC = (
    "{{ .param .b64 n; .param .b64 r; st.param.b64 [n], {}; call (r), malloc, (n); ld.param.b64 %d2, [r]; }}"
)
case("malloc without an end", f"L: {_MALLOC.format('65536')} bra L;", *SPIN, steps=2000)
case("malloc of everything", f"{_MALLOC.format('-1')} setp.ne.u64 %p0, %d2, 0; @%p0 trap; ret;")
case("malloc of nothing", f"{_MALLOC.format('0')} st.u32 [%d2], 1; ret;", *BOUNDS)
case("tiny mallocs without an end", f"L: {_MALLOC.format('1')} bra L;", *SPIN, steps=2000)
case("past the end of an allocation", f"{_MALLOC.format('64')} st.u32 [%d2+64], 1; ret;", *BOUNDS)
case("uninitialized heap", f"{_MALLOC.format('64')} ld.u32 %r1, [%d2]; ret;", "undefined-load")
_FREE = "{{ .param .b64 n; st.param.b64 [n], {}; call free, (n); }}"
case("free of anything", f"{_FREE.format('%d0')} ret;", *BOUNDS)
case("free of null", f"{_FREE.format('0')} ret;")
case("free twice", f"{_MALLOC.format('64')} {_FREE.format('%d2')} {_FREE.format('%d2')} ret;", *BOUNDS)
case("used after free", f"{_MALLOC.format('64')} {_FREE.format('%d2')} st.u32 [%d2], 1; ret;", *BOUNDS)
case(
    "malloc and free for ever", f"L: {_MALLOC.format('4096')} {_FREE.format('%d2')} bra L;", *SPIN, steps=2000
)

# --- addresses anywhere -------------------------------------------------------------------------

_PLACES = ["0", "1", "0x3fc", "0xffffffff", "0x79fffffffc", "0x7a00000100", "0x7bfffffffc", "0x7c00000000", "0x7dfffffffc",
           "0x7e000003fc", "0x7e01000400", "0x7effffffff", "0x7ffffffffffffffc", "0x8000000000000000", "0xffffffffffffffff"]  # fmt: skip
for place in _PLACES:
    for access in (
        "ld.u32 %r1, [%d2]",
        "st.u32 [%d2], 1",
        "atom.add.u32 %r1, [%d2], 1",
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d2]",
        "ld.local.u64 %d3, [%d2]",
        "st.shared.u64 [%d2], 1",
        "ld.const.u32 %r1, [%d2]",
        "prefetch.L1 [%d2]",
        "mbarrier.arrive.b64 %d3, [%d2]",
        "cp.async.ca.shared.global [%d2], [%d0], 4",
        "cp.async.ca.shared.global [%d2], [%d2], 16",
        "ld.shared::cluster.u32 %r1, [%d2]",
        "st.global.b8 [%d2], %h0",
        "red.shared.add.u32 [%d2], 1",
    ):
        case(f"{access} at {place}", f"mov.u64 %d2, {place}; mov.u16 %h0, 0; {access}; ret;", any_rule=True)
for space, name in (("global", "g"), ("shared", "s"), ("local", "l"), ("const", "c")):
    module = ".global .align 16 .b8 g[64]; .const .align 16 .b8 c[64];"
    local = ".shared .align 16 .b8 s[64]; .local .align 16 .b8 l[64];"
    for at, rules in (
        ("64", BOUNDS),
        ("-4", BOUNDS),
        ("62", ("misaligned", *BOUNDS)),
        ("3", ("misaligned",)),
        ("2147483644", BOUNDS),
        ("-2147483648", BOUNDS),
    ):
        # The dynamic part of shared memory, and what a thread's local memory is rounded up to, lie behind.
        case(
            f"ld.{space} [{name}+{at}]",
            f"{local} ld.{space}.u32 %r1, [{name}+{at}]; ret;",
            *(("",) if (space, at) == ("local", "64") else rules),
            module=module,
        )
    case(
        f"{space} v4 off its alignment",
        f"{local} ld.{space}.v4.u32 {{%r1, %r2, %r3, %r4}}, [{name}+4]; ret;",
        "misaligned",
        module=module,
    )
case(
    "each lane somewhere else",
    "mul.lo.u64 %d2, %d1, 0x0123456789abcdef; ld.u32 %r1, [%d2]; ret;",
    "misaligned",
    *BOUNDS,
)
case(
    "lanes in two spaces, one of them wild",
    """
.shared .u32 s; mov.u64 %d2, s; cvta.shared.u64 %d2, %d2; setp.lt.u32 %p0, %r0, 7; selp.b64 %d3, %d2, %d0, %p0;
setp.eq.u32 %p1, %r0, 0; selp.b64 %d3, 64, %d3, %p1; st.u32 [%d3], 1; ret;""",
    *BOUNDS,
)
case(
    "a write into constants",
    "st.u32 [%d2], 1; ret;",
    *BOUNDS,
    module=".const .u32 c = 5;",
    registers=REGISTERS + "mov.u64 %d2, c; cvta.const.u64 %d2, %d2;",
)
case(
    "a write into the parameters", "mov.u64 %d2, out; cvta.param.u64 %d2, %d2; st.u64 [%d2], 1; ret;", *BOUNDS
)
case(
    "an atomic on the parameters",
    "mov.u64 %d2, out; cvta.param.u64 %d2, %d2; atom.add.u32 %r1, [%d2], 1; ret;",
    *BOUNDS,
)
case("behind the parameters", "ld.param.u64 %d2, [out+8]; ret;", *BOUNDS)
case("before the parameters", "ld.param.u64 %d2, [out+-8]; ret;", *BOUNDS)
case("a load from code", "mov.u64 %d2, k; ld.u32 %r1, [%d2]; ret;", *BOUNDS)
case(
    "a store into code",
    "mov.u64 %d2, f; st.u32 [%d2], 1; ret;",
    *BOUNDS,
    module=".visible .func f() { ret; }",
)

# --- declarations -------------------------------------------------------------------------------

case("a huge .local array", ".local .b8 a[1073741824]; ld.local.u32 %r1, [a]; ret;", "stack-overflow")
case(
    "a huge .param array of a call",
    "{ .param .b8 a[1073741824]; call f, (a); } ret;",
    "stack-overflow",
    module=".func f(.param .b8 a[1073741824]) { ret; }",
)
_MANY = "".join(f"add.u32 %x{n}, %r0, {n}; " for n in range(3000))
case(
    "thousands of registers",
    f"{_MANY} st.global.u32 [%d0], %x2999; ret;",
    steps=20_000,
    registers=REGISTERS + ".reg .b32 %x<1000000>;",
)
case(
    "registers that take too much memory",
    f"{_MANY} ret;",
    *LIMIT,
    registers=REGISTERS + ".reg .b32 %x<3000>;",
    launch={"block": 1024, "memory": 1 << 22},
)
case(
    "registers that nobody wrote",
    "add.u32 %r1, %r2, %r3; st.global.u32 [%d0], %r1; ret;",
    "undefined-register",
)
case(
    "a name that nothing defines",
    "ld.global.u32 %r1, [g]; ret;",
    "not-modeled",
    module=".extern .global .u32 g;",
)
case(
    "an unsized array",
    "ld.global.u32 %r1, [g]; ret;",
    "not-modeled",
    *BOUNDS,
    module=".extern .global .b8 g[];",
)
case(
    "dynamic shared memory that was not asked for",
    ".shared .b32 s; ld.shared.u32 %r1, [d]; ret;",
    *BOUNDS,
    module=".extern .shared .b8 d[];",
)
case(
    "a variable that points to itself",
    "ld.global.u64 %d2, [g]; setp.eq.u64 %p0, %d2, 0; @%p0 trap; ld.u64 %d2, [%d2]; ret;",
    module=".global .u64 g = g;",
)
case(
    "a pointer far before its array",
    """.shared .align 16 .b8 s[64]; mov.u32 %r1, s; sub.u32 %r1, %r1, 8192; mov.u64 %d2, s; sub.u64 %d2, %d2, 8192;
st.shared.u32 [%r1+8192], 7; ld.shared.u32 %r2, [%d2+8192]; setp.ne.u32 %p0, %r2, 7; @%p0 trap; ret;""",
)
